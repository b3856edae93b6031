//! Descriptors of updates as bytes. Some fields are in the command's dwords.

use super::{Fields, VERSION, WireError, wrong, zeros};
use crate::{DriveId, MemoryAddress, PathId, SumTo, Update, UpdateRecord, UpdateSource, UpdateSum};

const FILLS: u8 = 1;
const RECORD: u8 = 2;
const BLOCKS: u8 = 4;
const STRETCH: u8 = 8;
/// The sums of the record are under its nonce. Nodes of earlier versions refuse it, and a node
/// refuses a record without it: a server that expects other sums would not find the record.
const KEYED: u8 = 16;
/// The secret of the interims' sums follows.
const SECRET: u8 = 32;
const ALL: u8 = FILLS | RECORD | BLOCKS | STRETCH | KEYED | SECRET;
const SECRET_BYTES: usize = 8;
/// Bytes of a stretch's own fields.
const STRETCH_BYTES: usize = 8;
/// Bytes of a record's fields before its list.
const RECORD_BYTES: usize = 50;
const SUM_BYTES: usize = 12;
const TO_SLOT: u16 = u16::MAX;
const BLOCK: u64 = 4096;

/// Dwords of an update's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateWords {
    /// The namespace.
    pub drive: DriveId,
    /// Dwords 2 and 3.
    pub slot: u64,
    /// Dwords 10 and 11.
    pub record_at: u64,
    /// Dword 13.
    pub len: u32,
}

/// The dwords and the descriptor of an update. The data for the slot follow the descriptor.
///
/// # Errors
/// If a number does not fit its field.
pub fn encode_update(update: &Update) -> Result<(UpdateWords, Vec<u8>), WireError> {
    let record_at = update.record.as_ref().map_or(0, |record| record.at);
    let words = UpdateWords { drive: update.drive, slot: update.slot, record_at, len: update.len };
    let mut flags = u8::from(update.fills) * FILLS;
    if let Some(record) = &update.record {
        flags |= RECORD | KEYED | (u8::from(record.blocks) * BLOCKS);
    }
    flags |= u8::from(update.segment.is_some()) * STRETCH;
    flags |= u8::from(update.has_interims()) * SECRET;
    let (sources, sums) = (small(update.sources.len(), "sources")?, small(update.sums.len(), "sums")?);
    let mut out = vec![VERSION, flags, sources, sums];
    for source in &update.sources {
        let (kind, drive, offset, sum) = match source {
            UpdateSource::Media { drive, offset } => (0, drive, offset, None),
            UpdateSource::Memory { address, sum } => {
                (1 + u8::from(sum.is_some()), &address.drive, &address.offset, *sum)
            }
        };
        let Ok(drive) = u16::try_from(drive.0) else { return wrong("drive", drive) };
        out.extend(drive.to_le_bytes());
        out.extend([kind, 0]);
        out.extend(offset.to_le_bytes());
        out.extend(sum.into_iter().flat_map(u32::to_le_bytes));
    }
    for sum in &update.sums {
        let (to, offset) = match sum.to {
            SumTo::Slot => (TO_SLOT, 0),
            SumTo::Peer { path, offset } => (path.0, offset),
        };
        out.extend(to.to_le_bytes());
        out.extend([0, 0]);
        out.extend(offset.to_le_bytes());
    }
    if let Some(segment) = update.segment {
        let factors: usize = update.sums.iter().map(|sum| sum.factors.len()).sum();
        let each = update.sources.len() * update.sums.len();
        let Some(classes) = factors.checked_div(each).and_then(|count| u16::try_from(count).ok()) else {
            return wrong("classes", factors);
        };
        out.extend(segment.to_le_bytes());
        out.extend(classes.to_le_bytes());
        out.extend([0, 0]);
    }
    if update.has_interims() {
        out.extend(update.secret.to_le_bytes());
    }
    update.sums.iter().for_each(|sum| out.extend(&sum.factors));
    if let Some(record) = &update.record {
        encode_record(record, &mut out)?;
    }
    Ok((words, out))
}

fn encode_record(record: &UpdateRecord, out: &mut Vec<u8>) -> Result<(), WireError> {
    for field in [record.nonce, record.generation, record.sequence, record.window] {
        out.extend(field.to_le_bytes());
    }
    let behind = |upto: u64| record.sequence.checked_sub(upto);
    for (name, field) in [
        ("committed", behind(record.committed)),
        ("released", behind(record.released)),
        ("position", Some(record.position / BLOCK)),
    ] {
        let Some(field) = field.and_then(|field| u32::try_from(field).ok()) else {
            return wrong(name, "too far away");
        };
        out.extend(field.to_le_bytes());
    }
    let Ok(count) = u16::try_from(record.members.len()) else {
        return wrong("members", record.members.len());
    };
    for field in [record.role, record.rows, count].iter().chain(&record.members) {
        out.extend(field.to_le_bytes());
    }
    Ok(())
}

fn small(count: usize, field: &'static str) -> Result<u8, WireError> {
    u8::try_from(count).or_else(|_| wrong(field, count))
}

/// Reads the dwords and the data of an update: itself, and what goes to its slot.
///
/// # Errors
/// Names the field that makes no sense.
pub fn decode_update(words: UpdateWords, bytes: &[u8]) -> Result<(Update, &[u8]), WireError> {
    let f = Fields::new(bytes, "descriptor", 4)?;
    let (flags, sources, sums) = (bytes[1], usize::from(bytes[2]), usize::from(bytes[3]));
    let record_flags = flags & (RECORD | BLOCKS | KEYED);
    let fit = [0, RECORD | KEYED, RECORD | KEYED | BLOCKS].contains(&record_flags);
    if flags & !ALL != 0 || !fit {
        return wrong("flags", flags);
    }
    let mut at = 4;
    let mut source = || -> Result<UpdateSource, WireError> {
        f.slice(at, 12)?;
        zeros(bytes, at + 3..at + 4)?;
        let (drive, kind, offset) = (DriveId(u32::from(f.u16(at))), bytes[at + 2], f.u64(at + 4));
        at += 12;
        let address = MemoryAddress { drive, offset };
        match kind {
            0 => Ok(UpdateSource::Media { drive, offset }),
            1 => Ok(UpdateSource::Memory { address, sum: None }),
            2 => {
                f.slice(at, 4)?;
                at += 4;
                Ok(UpdateSource::Memory { address, sum: Some(f.u32(at - 4)) })
            }
            kind => wrong("source kind", kind),
        }
    };
    let sources = (0..sources).map(|_| source()).collect::<Result<Vec<_>, _>>()?;
    f.slice(at, sums * SUM_BYTES)?;
    let (mut factors, mut segment, mut classes) = (at + sums * SUM_BYTES, None, 1);
    if flags & STRETCH != 0 {
        f.slice(factors, STRETCH_BYTES)?;
        zeros(bytes, factors + 6..factors + 8)?;
        (segment, classes) = (Some(f.u32(factors)), usize::from(f.u16(factors + 4)));
        factors += STRETCH_BYTES;
    }
    let mut secret = 0;
    if flags & SECRET != 0 {
        f.slice(factors, SECRET_BYTES)?;
        secret = f.u64(factors);
        factors += SECRET_BYTES;
    }
    let each = classes * sources.len();
    f.slice(factors, sums * each)?;
    let sum = |i: usize| -> Result<UpdateSum, WireError> {
        let at = at + i * SUM_BYTES;
        zeros(bytes, at + 2..at + 4)?;
        let to = match (f.u16(at), f.u64(at + 4)) {
            (TO_SLOT, 0) => SumTo::Slot,
            (TO_SLOT, offset) => return wrong("offset of a sum for the slot", offset),
            (path, offset) => SumTo::Peer { path: PathId(path), offset },
        };
        let first = factors + i * each;
        Ok(UpdateSum { to, factors: bytes[first..first + each].to_vec() })
    };
    let of_sums = (0..sums).map(sum).collect::<Result<Vec<_>, _>>()?;
    at = factors + sums * each;
    let mut record = None;
    if flags & RECORD != 0 {
        let (read, end) = decode_record(&f, at, words.record_at, flags & BLOCKS != 0)?;
        (record, at) = (Some(read), end);
    } else if words.record_at != 0 {
        return wrong("place of the record", words.record_at);
    }
    let data = &bytes[at..];
    let fills = flags & FILLS != 0;
    if data.len() != if fills { words.len as usize } else { 0 } {
        return wrong("bytes for the slot", data.len());
    }
    let UpdateWords { drive, slot, len, .. } = words;
    let update = Update { drive, slot, len, segment, fills, secret, sources, sums: of_sums, record };
    if update.has_interims() != (flags & SECRET != 0) {
        return wrong("flags", flags);
    }
    Ok((update, data))
}

fn decode_record(
    f: &Fields<'_>,
    at: usize,
    record_at: u64,
    blocks: bool,
) -> Result<(UpdateRecord, usize), WireError> {
    f.slice(at, RECORD_BYTES)?;
    let sequence = f.u64(at + 16);
    let behind = |field, at| {
        let distance = f.u32(at);
        sequence.checked_sub(u64::from(distance)).map_or_else(|| wrong(field, distance), Ok)
    };
    let count = usize::from(f.u16(at + 48));
    let list = f.slice(at + RECORD_BYTES, 2 * count)?;
    let record = UpdateRecord {
        at: record_at,
        position: u64::from(f.u32(at + 40)) * BLOCK,
        nonce: f.u64(at),
        generation: f.u64(at + 8),
        sequence,
        committed: behind("committed", at + 32)?,
        released: behind("released", at + 36)?,
        window: f.u64(at + 24),
        role: f.u16(at + 44),
        rows: f.u16(at + 46),
        members: list.chunks_exact(2).map(|role| u16::from_le_bytes([role[0], role[1]])).collect(),
        blocks,
    };
    Ok((record, at + RECORD_BYTES + 2 * count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update() -> Update {
        let address = MemoryAddress { drive: DriveId(3), offset: 1 << 33 };
        Update {
            drive: DriveId(2),
            slot: 65536,
            len: 4096,
            segment: None,
            fills: true,
            secret: 0x0123_4567_89AB_CDEF,
            sources: vec![
                UpdateSource::Media { drive: DriveId(2), offset: 1 << 40 },
                UpdateSource::Memory { address, sum: None },
                UpdateSource::Memory { address, sum: Some(0xDEAD_BEEF) },
            ],
            sums: vec![
                UpdateSum { to: SumTo::Slot, factors: vec![1, 2, 3] },
                UpdateSum { to: SumTo::Peer { path: PathId(7), offset: 8192 }, factors: vec![4, 5, 6] },
            ],
            record: Some(UpdateRecord {
                at: 4096 * 300,
                position: 8192,
                nonce: 7,
                generation: 3,
                sequence: 44,
                committed: 40,
                released: 33,
                window: 9,
                role: 1,
                rows: 0b100,
                members: vec![0, 1, 5],
                blocks: true,
            }),
        }
    }

    #[test]
    fn an_update_comes_back_with_its_data() {
        let data = [9; 4096];
        let mut plain = update();
        (plain.fills, plain.record) = (false, None);
        let mut intent = update();
        intent.record.as_mut().unwrap().blocks = false;
        let mut record_only = update();
        (record_only.fills, record_only.sources, record_only.sums) = (false, Vec::new(), Vec::new());
        record_only.secret = 0;
        let mut stretch = plain.clone();
        stretch.segment = Some(512);
        stretch.sums.iter_mut().for_each(|sum| sum.factors.extend([7, 8, 9]));
        for update in [update(), plain, intent, record_only, stretch] {
            let (words, mut bytes) = encode_update(&update).unwrap();
            let data: &[u8] = if update.fills { &data } else { &[] };
            bytes.extend(data);
            assert_eq!(decode_update(words, &bytes).unwrap(), (update, data));
        }
    }

    /// These sizes decide the cost of a small RAID-6 write over the host's link.
    #[test]
    fn descriptors_are_small() {
        let mut data = update();
        data.sources.truncate(2);
        data.sums[0].to = SumTo::Peer { path: PathId(0), offset: 0 };
        data.sums.iter_mut().for_each(|sum| sum.factors.truncate(2));
        assert_eq!(encode_update(&data).unwrap().1.len(), 4 + 24 + 28 + 8 + 56);
        let mut parity = update();
        (parity.sources, parity.fills) = (vec![parity.sources[0], parity.sources[2]], false);
        parity.sums.truncate(1);
        parity.sums[0].factors.truncate(2);
        assert_eq!(encode_update(&parity).unwrap().1.len(), 4 + 28 + 14 + 8 + 56);
    }

    #[test]
    fn bytes_that_make_no_sense_are_refused() {
        let (words, mut bytes) = encode_update(&update()).unwrap();
        bytes.extend([9; 4096]);
        for len in 0..bytes.len() {
            decode_update(words, &bytes[..len]).unwrap_err();
        }
        bytes.push(0);
        decode_update(words, &bytes).unwrap_err();
        bytes.pop();
        let refused = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            decode_update(words, &bytes).unwrap_err().field
        };
        assert_eq!(refused(0, 2), "version");
        assert_eq!(refused(1, FILLS | RECORD | BLOCKS | SECRET), "flags", "other sums of its record");
        assert_eq!(refused(1, FILLS | KEYED | SECRET), "flags");
        assert_eq!(refused(1, 64), "flags");
        assert_eq!(refused(1, 5), "flags");
        assert_eq!(refused(6, 3), "source kind");
        assert_eq!(refused(7, 1), "a reserved byte");
        assert_eq!(refused(44 + 4, 1), "offset of a sum for the slot");
        // Without its secret the bytes that follow are others, and something of them is refused.
        let mut bare = bytes.clone();
        bare[1] &= !SECRET;
        decode_update(words, &bare).unwrap_err();
        let mut media = update();
        (media.sources, media.sums) = (vec![media.sources[0]], Vec::new());
        let (_, mut with) = encode_update(&media).unwrap();
        with[1] |= SECRET;
        with.splice(16..16, [0; 8]);
        with.extend([9; 4096]);
        assert_eq!(decode_update(words, &with).unwrap_err().field, "flags", "a secret of nothing");
        let without = UpdateWords { record_at: 4096, ..words };
        let mut plain = update();
        (plain.fills, plain.record) = (false, None);
        let (_, bytes) = encode_update(&plain).unwrap();
        assert_eq!(decode_update(without, &bytes).unwrap_err().field, "place of the record");
    }
}
