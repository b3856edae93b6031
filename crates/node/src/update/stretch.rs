//! Sums of stretches: media of this node's drives and interims of others, piece by piece.

use super::{Failed, InterimKey, PIECE, Send};
use crate::engine::Permit;
use crate::local::LocalNode;
use crate::memory::MemoryAccess;
use pumice_base::buffer::AlignedBuffer;
use pumice_offload::{
    DriveId, ErrorKind, MemoryAddress, Mode, NodeError, ParityCommand, Rule, Source, SumTo, Update,
    UpdateSource, Window,
};
use pumice_protect::keyed::Running;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A source in memory, with the sum that it must have and that of what was read of it.
struct Interim {
    address: MemoryAddress,
    told: Option<u32>,
    read: Running,
}

/// A piece of a stretch, in memory of this command.
struct Scratch(Mutex<AlignedBuffer>);

impl Scratch {
    fn lock(&self) -> MutexGuard<'_, AlignedBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn range(&self, offset: u64, len: usize) -> Result<Range<usize>, NodeError> {
        let end = usize::try_from(offset).ok().and_then(|start| start.checked_add(len));
        let end = end.filter(|end| *end <= PIECE as usize);
        end.map(|end| end - len..end).ok_or_else(|| NodeError::invalid("len", "outside a piece"))
    }
}

impl MemoryAccess for Scratch {
    fn check(&self, _: &'static str, address: MemoryAddress, len: u64) -> Result<(), NodeError> {
        self.range(address.offset, len as usize).map(drop)
    }

    fn read(&self, address: MemoryAddress, buf: &mut [u8]) -> Result<(), NodeError> {
        let range = self.range(address.offset, buf.len())?;
        buf.copy_from_slice(&self.lock()[range]);
        Ok(())
    }

    fn write(&self, address: MemoryAddress, data: &[u8]) -> Result<(), NodeError> {
        let range = self.range(address.offset, data.len())?;
        self.lock()[range].copy_from_slice(data);
        Ok(())
    }

    fn look(&self, address: MemoryAddress, len: u64, work: &mut dyn FnMut(&[u8])) -> Result<(), NodeError> {
        let range = self.range(address.offset, len as usize)?;
        work(&self.lock()[range]);
        Ok(())
    }
}

/// Makes the sum of a valid stretch. Each piece goes to its place as soon as it is made; an interim
/// may lie where the sum goes.
pub(super) fn sum(
    node: &LocalNode,
    (update, segment): (&Update, u32),
    memory: &dyn MemoryAccess,
    send: &Send<'_>,
    permit: &dyn Permit,
) -> Result<[u32; 2], Failed> {
    let (slot, len) = (MemoryAddress { drive: update.drive, offset: update.slot }, u64::from(update.len));
    let key = InterimKey::new(update.secret);
    let mut interims = Vec::new();
    for source in &update.sources {
        if let UpdateSource::Memory { address, sum } = *source {
            memory.check("sources", address, len)?;
            interims.push(Interim { address, told: sum, read: Running::default() });
        }
    }
    let command = of_media(update, segment)?;
    let scratch = Scratch(Mutex::new(AlignedBuffer::new(PIECE as usize)));
    let room = || AlignedBuffer::new(if interims.is_empty() { 1 } else { PIECE as usize });
    let (mut next, mut read) = (room(), room());
    let (mut done, mut sent) = (0, Running::default());
    while done < len {
        permit.check()?;
        let (stripes, window) = piece(done, len, u64::from(segment));
        let piece = (u64::from(window.len) * (stripes.end - stripes.start)) as usize;
        match &command {
            Some(command) => {
                fold(
                    node,
                    &ParityCommand { unpaced: false, stripes, window, ..command.clone() },
                    &scratch,
                    permit,
                )?;
            }
            None => scratch.lock()[..piece].fill(0),
        }
        let mut sum = scratch.lock();
        for interim in &mut interims {
            let address = MemoryAddress { offset: interim.address.offset + done, ..interim.address };
            memory.read(address, &mut read[..piece])?;
            interim.read.add(&key, &read[..piece]);
            node.kernels().xor(&[&sum[..piece], &read[..piece]], &mut next[..piece]);
            std::mem::swap(&mut *sum, &mut next);
        }
        match update.sums.first().map(|sum| sum.to) {
            Some(SumTo::Peer { path, offset }) => {
                sent.add(&key, &sum[..piece]);
                send(path, offset.saturating_add(done), &sum[..piece])?;
            }
            _ => memory.write(MemoryAddress { offset: slot.offset + done, ..slot }, &sum[..piece])?,
        }
        done += piece as u64;
    }
    // Then the sum has other bytes in it, and nobody may use it.
    if interims.iter().any(|interim| interim.told.is_some_and(|told| told != interim.read.sum(&key))) {
        return Err(Failed::OtherBytes);
    }
    Ok([sent.sum(&key), 0])
}

/// The segments of the next piece, and the bytes of each.
fn piece(done: u64, len: u64, segment: u64) -> (Range<u64>, Window) {
    let (first, start) = (done / segment, done % segment);
    let (count, bytes) = match segment <= PIECE {
        true => ((PIECE / segment).min(len / segment - first), segment),
        false => (1, PIECE.min(segment - start)),
    };
    // A segment has at most as many bytes as a stretch.
    (first..first + count, Window { start: start as u32, len: bytes as u32 })
}

/// Sums media of a piece. Bytes that differ from their tags are as bad as those that cannot be
/// read.
fn fold(
    node: &LocalNode,
    command: &ParityCommand,
    scratch: &Scratch,
    permit: &dyn Permit,
) -> Result<(), NodeError> {
    let result = node.fold_at_once(command, scratch, permit)?;
    let differs = result.tags.is_some_and(|tags| !tags.places.is_empty());
    if differs || !result.unreadable.is_empty() {
        let what = "a source cannot be read, or differs from its tags";
        return Err(NodeError::new(ErrorKind::Media, what));
    }
    Ok(())
}

/// The media sources as a parity command, but for its stripes; `None` if there are none.
fn of_media(update: &Update, segment: u32) -> Result<Option<ParityCommand>, NodeError> {
    let base = |source: &UpdateSource| match *source {
        UpdateSource::Media { drive, offset } => Some(Source::Media { drive, base: offset }),
        UpdateSource::Memory { .. } => None,
    };
    let sources: Vec<Source> = update.sources.iter().filter_map(base).collect();
    if sources.is_empty() {
        return Ok(None);
    }
    let factors = update.sums.iter().flat_map(|sum| &sum.factors);
    let of_media = update.sources.iter().map(|source| base(source).is_some()).cycle();
    let factors = factors.zip(of_media).filter(|(_, media)| *media).map(|(factor, _)| *factor).collect();
    let rule = Rule::new(1, sources.len(), factors, Vec::new())
        .map_err(|error| NodeError::invalid("sums", error.to_string()))?;
    let (window, stripes) = (Window { start: 0, len: segment }, 0..u64::from(update.len / segment));
    let mode = Mode::Generate { into: MemoryAddress { drive: DriveId(0), offset: 0 } };
    Ok(Some(ParityCommand { unpaced: false, sources, chunk: segment, window, stripes, rule, mode }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_stretch_once() {
        for segment in [4096, 65536, 98304, 256 << 10, 1 << 20, 1_310_720] {
            for count in 1..9 {
                let (len, mut done) = (segment * count, 0);
                while done < len {
                    let (stripes, window) = piece(done, len, segment);
                    assert_eq!(stripes.start * segment + u64::from(window.start), done);
                    let bytes = (stripes.end - stripes.start) * u64::from(window.len);
                    assert!((1..=PIECE).contains(&bytes) && u64::from(window.start + window.len) <= segment);
                    assert!(stripes.end - stripes.start == 1 || u64::from(window.len) == segment);
                    done += bytes;
                }
                assert_eq!(done, len);
            }
        }
    }
}
