//! Whole blocks in one buffer, or in a buffer of data and one of metadata.

use crate::command::{Prchk, Tags};
use crate::format::{Format, Type};
use crate::stream::{CheckStream, MakeStream};
use crate::tuple::Tuple;
use crate::verdict::{Fault, Field};

/// Number of blocks in these bytes.
fn count(bytes: usize, block: usize) -> usize {
    assert!(bytes.is_multiple_of(block), "{bytes} bytes are no whole blocks of {block}");
    bytes / block
}

/// As many blocks of metadata as of data.
fn assert_match(format: &Format, data: usize, metadata: usize) {
    let counts = (count(data, format.data_bytes()), count(metadata, format.metadata_bytes()));
    assert_eq!(counts.0, counts.1, "blocks of data, and of metadata");
}

/// Writes the tuples of `data` into `metadata`; other metadata stay, and count for the guard if
/// they are before the tuple.
///
/// # Panics
/// If the buffers do not hold the same number of whole blocks.
pub fn generate(format: &Format, tags: &Tags, data: &[u8], metadata: &mut [u8]) {
    assert_match(format, data.len(), metadata.len());
    MakeStream::new(*format, *tags).fill_separate(data, None, metadata);
}

/// Writes the tuples of extended blocks into them; other metadata stay.
///
/// # Panics
/// If these are not whole blocks.
pub fn generate_extended(format: &Format, tags: &Tags, blocks: &mut [u8]) {
    count(blocks.len(), format.block_bytes());
    MakeStream::new(*format, *tags).overwrite(blocks);
}

/// Makes extended blocks of data; metadata beside the tuple are zeros.
///
/// # Panics
/// If `data` and `blocks` do not hold the same number of whole blocks.
pub fn insert(format: &Format, tags: &Tags, data: &[u8], blocks: &mut [u8]) {
    let counts = (count(data.len(), format.data_bytes()), count(blocks.len(), format.block_bytes()));
    assert_eq!(counts.0, counts.1, "blocks of data, and extended blocks");
    MakeStream::new(*format, *tags).insert(data, blocks);
}

/// The first bad block, if any, of data and metadata in two buffers.
///
/// # Panics
/// If the buffers do not hold the same number of whole blocks.
#[must_use]
pub fn verify(format: &Format, tags: &Tags, checks: Prchk, data: &[u8], metadata: &[u8]) -> Option<Fault> {
    assert_match(format, data.len(), metadata.len());
    let mut stream = CheckStream::new(*format, *tags, checks);
    stream.verify_separate(data, None, metadata);
    stream.fault()
}

/// The first bad block, if any, of extended blocks.
///
/// # Panics
/// If these are not whole blocks.
#[must_use]
pub fn verify_extended(format: &Format, tags: &Tags, checks: Prchk, blocks: &[u8]) -> Option<Fault> {
    count(blocks.len(), format.block_bytes());
    let mut stream = CheckStream::new(*format, *tags, checks);
    stream.verify(blocks);
    stream.fault()
}

/// Copies the data of extended blocks, and says which block is the first bad one. All data are
/// copied even so.
///
/// # Panics
/// If `blocks` and `data` do not hold the same number of whole blocks.
#[must_use]
pub fn strip(format: &Format, tags: &Tags, checks: Prchk, blocks: &[u8], data: &mut [u8]) -> Option<Fault> {
    let counts = (count(data.len(), format.data_bytes()), count(blocks.len(), format.block_bytes()));
    assert_eq!(counts.0, counts.1, "blocks of data, and extended blocks");
    let mut stream = CheckStream::new(*format, *tags, checks);
    stream.strip(blocks, data);
    stream.fault()
}

/// Gives the tuples of blocks whose reference tags begin with `from` the reference tags from `to`
/// on. Blocks with an escape, and all blocks of type 3, stay as they are. `metadata` is of whole
/// blocks.
///
/// If a reference tag is not the expected one, that is returned, and nothing is changed.
///
/// # Panics
/// If these are not whole blocks of metadata.
pub fn remap(format: &Format, from: u64, to: u64, metadata: &mut [u8]) -> Option<Fault> {
    count(metadata.len(), format.metadata_bytes());
    remap_every(format, from, to, metadata, format.metadata_bytes(), format.tuple_range().start)
}

/// [`remap`] of extended blocks.
///
/// # Panics
/// If these are not whole blocks.
pub fn remap_extended(format: &Format, from: u64, to: u64, blocks: &mut [u8]) -> Option<Fault> {
    count(blocks.len(), format.block_bytes());
    remap_every(format, from, to, blocks, format.block_bytes(), format.covered_bytes())
}

fn remap_every(
    format: &Format,
    from: u64,
    to: u64,
    bytes: &mut [u8],
    pitch: usize,
    at: usize,
) -> Option<Fault> {
    if format.kind() == Type::Three {
        return None;
    }
    let range = at..at + format.tuple_bytes();
    let (old, new) = (Tags::at(format, from), Tags::at(format, to));
    let checks = Prchk { reference: true, ..Prchk::NONE };
    for (i, part) in bytes.chunks_exact(pitch).enumerate() {
        let found = Tuple::decode(format, &part[range.clone()]);
        if let Some(fault) = old.judge(format, checks, i as u64, 0, &found) {
            debug_assert_eq!(fault.field, Field::Reference);
            return Some(fault);
        }
    }
    for (i, part) in bytes.chunks_exact_mut(pitch).enumerate() {
        let part = &mut part[range.clone()];
        let found = Tuple::decode(format, part);
        if !found.is_escape(format) {
            let moved = Tuple { reference: new.reference_of(format, i as u64), ..found };
            part.copy_from_slice(moved.encode(format).as_slice());
        }
    }
    None
}
