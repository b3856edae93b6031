//! The results of checking tags, as bytes: in results of commands, and beside the blocks.

use super::{Fields, VERSION, WireError, put, wrong};
use crate::{
    MAX_TAG_PLACES, MAX_TAGGED_BLOCKS, ParityCommand, TAGS_HEADER_BYTES, TagFault, TagFormat, TagPlace,
    TagReport, TaggedBlocks,
};
use pumice_protect::guard::Guard;
use pumice_protect::origin::{Judged, Opinion, Origin};

/// Bytes before the tags of a Tagged Read.
pub const TAGGED_HEADER: usize = 16;
/// Bytes of a tag of a Tagged Read.
pub const TAGGED_ENTRY: usize = 16;
/// Bytes of a place in a result.
const PLACE: usize = 24;
/// The fault of a place whose page of tags is lost; others are origins.
const LOST: u8 = 0xFF;

fn origin(code: u8) -> Result<Origin, WireError> {
    match Origin::ALL.get(usize::from(code)) {
        Some(origin) => Ok(*origin),
        None => wrong("origin of a tag", code),
    }
}

/// The last part of a result.
pub(super) fn encode_report(report: &TagReport) -> Vec<u8> {
    let places = &report.places[..report.places.len().min(MAX_TAG_PLACES)];
    let mut out = Vec::with_capacity(TAGS_HEADER_BYTES as usize + places.len() * PLACE);
    report.fit.iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
    out.extend_from_slice(&(places.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    for place in places {
        let fault = match place.fault {
            TagFault::Differs(origin) => origin as u8,
            TagFault::Lost => LOST,
        };
        out.extend_from_slice(&(place.source as u32).to_le_bytes());
        out.extend_from_slice(&place.start.to_le_bytes());
        out.extend_from_slice(&place.len.to_le_bytes());
        out.extend_from_slice(&[fault, 0, 0, 0]);
        out.extend_from_slice(&place.stripe.to_le_bytes());
    }
    out
}

/// Reads the last part of a result, which begins at `at`.
pub(super) fn decode_report(
    f: &Fields<'_>,
    at: usize,
    command: &ParityCommand,
) -> Result<TagReport, WireError> {
    let header = TAGS_HEADER_BYTES as usize;
    f.slice(at, header)?;
    let count = f.u32(at + 32) as usize;
    if count > MAX_TAG_PLACES {
        return wrong("places of tags", count);
    }
    f.slice(at + header, count * PLACE)?;
    let place = |i: usize| {
        let at = at + header + i * PLACE;
        let fault = match f.array::<1>(at + 12)[0] {
            LOST => TagFault::Lost,
            code => TagFault::Differs(origin(code)?),
        };
        let (source, start, len) = (f.u32(at) as usize, f.u32(at + 4), f.u32(at + 8));
        let place = TagPlace { source, stripe: f.u64(at + 16), start, len, fault };
        let inside = start.checked_add(len).is_some_and(|end| end <= command.chunk);
        if source >= command.sources.len() || !command.stripes.contains(&place.stripe) || !inside {
            return wrong("place of tags", format!("{place:?}"));
        }
        Ok(place)
    };
    let places = (0..count).map(place).collect::<Result<_, _>>()?;
    Ok(TagReport { fit: std::array::from_fn(|i| f.u64(at + 8 * i)), places })
}

/// The answer to a Tagged Read: of no blocks, only the format.
#[must_use]
pub fn encode_tagged(format: TagFormat, blocks: &TaggedBlocks<'_>) -> Vec<u8> {
    let mut out = vec![0; TAGGED_HEADER];
    out[0] = VERSION;
    out[1] = Guard::ALL.iter().position(|guard| *guard == format.guard).unwrap_or_default() as u8;
    put(&mut out, 4, &format.block_bytes.to_le_bytes());
    put(&mut out, 8, &(blocks.judged.len() as u32).to_le_bytes());
    for judged in &blocks.judged {
        let (opinion, origin) = match judged.opinion {
            Opinion::Unchecked => (0, Origin::Unknown),
            Opinion::Fits(origin) => (1, origin),
            Opinion::Differs(origin) => (2, origin),
            Opinion::Lost => (3, Origin::Unknown),
        };
        out.extend_from_slice(&judged.guard.to_le_bytes());
        out.extend_from_slice(&[opinion, origin as u8, 0, 0, 0, 0, 0, 0]);
    }
    out.extend_from_slice(blocks.data);
    out
}

/// Bytes of the answer to a Tagged Read.
#[must_use]
pub const fn tagged_len(format: TagFormat, blocks: u64) -> u64 {
    TAGGED_HEADER as u64 + blocks * (TAGGED_ENTRY as u64 + format.block_bytes as u64)
}

/// Reads the answer to a Tagged Read.
///
/// # Errors
/// Names the field that makes no sense.
pub fn decode_tagged(bytes: &[u8]) -> Result<(TagFormat, TaggedBlocks<'_>), WireError> {
    let f = Fields::new(bytes, "tagged blocks", TAGGED_HEADER)?;
    let guard = match Guard::ALL.get(usize::from(bytes[1])) {
        Some(guard) => *guard,
        None => return wrong("guard", bytes[1]),
    };
    let block_bytes = f.u32(4);
    if !block_bytes.is_power_of_two() || !(512..=65_536).contains(&block_bytes) {
        return wrong("block bytes", block_bytes);
    }
    let (format, count) = (TagFormat { guard, block_bytes }, f.u32(8));
    if u64::from(count) > MAX_TAGGED_BLOCKS || bytes.len() as u64 != tagged_len(format, u64::from(count)) {
        return wrong("blocks", count);
    }
    let judged = |at: usize| {
        let origin = origin(bytes[at + 9])?;
        let opinion = match bytes[at + 8] {
            0 => Opinion::Unchecked,
            1 => Opinion::Fits(origin),
            2 => Opinion::Differs(origin),
            3 => Opinion::Lost,
            other => return wrong("opinion of a tag", other),
        };
        Ok(Judged { opinion, guard: f.u64(at) })
    };
    let data_at = TAGGED_HEADER + count as usize * TAGGED_ENTRY;
    let judged = (TAGGED_HEADER..data_at).step_by(TAGGED_ENTRY).map(judged).collect::<Result<_, _>>()?;
    Ok((format, TaggedBlocks { data: &bytes[data_at..], judged }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tagged_blocks_come_back_and_short_or_senseless_bytes_do_not() {
        let format = TagFormat { guard: Guard::Crc64, block_bytes: 512 };
        let opinions = [
            Opinion::Unchecked,
            Opinion::Fits(Origin::Written),
            Opinion::Differs(Origin::Vouched),
            Opinion::Lost,
        ];
        let judged = opinions.iter().zip(1..).map(|(o, guard)| Judged { opinion: *o, guard: guard << 40 });
        let data: Vec<u8> = (0..2048_u32).map(|i| i as u8).collect();
        let blocks = TaggedBlocks { data: &data, judged: judged.collect() };
        let bytes = encode_tagged(format, &blocks);
        assert_eq!(bytes.len() as u64, tagged_len(format, 4));
        assert_eq!(decode_tagged(&bytes), Ok((format, blocks)));
        for len in 0..bytes.len() {
            assert!(decode_tagged(&bytes[..len]).is_err(), "{len}");
        }
        // Version, guard, bytes of a block, blocks, opinion, origin.
        for (at, value) in [(0, 9), (1, 3), (4, 1), (8, 5), (24, 4), (25, 4)] {
            let mut bad = bytes.clone();
            bad[at] = value;
            assert!(decode_tagged(&bad).is_err(), "{at}");
        }
    }
}
