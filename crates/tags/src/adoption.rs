//! Adoption: creates tags for the present contents of a drive.

use crate::device::TaggedDevice;
use crate::page::Opinion;
use pumice_blockdev::IoError;
use std::io;
use std::ops::Range;

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;
/// Bytes after which progress is kept.
const KEPT: u64 = 64 << 20;

/// The findings of an adoption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Adopted {
    /// Blocks that got a tag.
    pub adopted: u64,
    /// Blocks that had one and fit it.
    pub fit: u64,
    /// Blocks whose host asked for no check (application tag FFFFh); they were left as they are.
    pub unchecked: u64,
    /// Blocks that had one and differ from it; they were left as they are.
    pub differ: u64,
    /// The first of these.
    pub first_differs: Option<u64>,
    /// Blocks that cannot be read.
    pub unreadable: u64,
    /// True if it came to the end of the drive.
    pub complete: bool,
}

/// Reasons why an adoption could not go on.
#[derive(Debug, thiserror::Error)]
pub enum AdoptionError {
    /// The drive fails.
    #[error(transparent)]
    Drive(#[from] IoError),
    /// The tag file fails.
    #[error(transparent)]
    Tags(#[from] io::Error),
}

/// Adopts the blocks of a drive, from where it last stopped. After each piece, `go_on` is called
/// with the bytes read so far in this run; it may wait, and returns whether to continue.
///
/// # Errors
/// If the drive fails as a whole, or the tag file.
pub fn adopt(device: &TaggedDevice, mut go_on: impl FnMut(u64) -> bool) -> Result<Adopted, AdoptionError> {
    let header = device.header();
    let (blocks, size) = (header.geometry.blocks(), header.geometry.block_bytes() as u64);
    let mut found = Adopted::default();
    let (mut at, mut kept) = (header.adopted, header.adopted);
    // A drive that was adopted before is judged again from its start.
    if at >= blocks {
        (at, kept) = (0, 0);
    }
    let begun = at;
    while at < blocks {
        let piece = at..blocks.min(at + PIECE / size);
        at = piece.end;
        take(device, piece, &mut found)?;
        let goes_on = go_on((at - begun) * size);
        if !goes_on || (at - kept) * size >= KEPT {
            device.keep_adopted(at)?;
            kept = at;
        }
        if !goes_on {
            break;
        }
    }
    found.complete = at == blocks;
    device.keep_adopted(at)?;
    Ok(found)
}

fn take(device: &TaggedDevice, blocks: Range<u64>, found: &mut Adopted) -> Result<(), IoError> {
    let (verdicts, adopted) = match device.adopt(blocks.clone()) {
        Ok(found) => found,
        Err(error) if !error.is_media_error() => return Err(error),
        Err(_) if blocks.end - blocks.start == 1 => {
            found.unreadable += 1;
            return Ok(());
        }
        Err(_) => return blocks.into_iter().try_for_each(|block| take(device, block..block + 1, found)),
    };
    found.adopted += adopted;
    let mut unchecked = 0;
    for (block, verdict) in blocks.zip(verdicts) {
        match verdict {
            Opinion::Unchecked | Opinion::Lost => unchecked += 1,
            Opinion::Fits(_) => found.fit += 1,
            Opinion::Differs(_) => {
                found.differ += 1;
                found.first_differs.get_or_insert(block);
            }
        }
    }
    found.unchecked += unchecked - adopted;
    Ok(())
}
