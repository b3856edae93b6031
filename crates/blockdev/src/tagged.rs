//! Reads that also return the result of checking the blocks' tags.

use crate::{BlockDevice, IoError, Judgement, Reader};

/// Reads a range. If the device has tags, the read succeeds even if blocks differ from them, and
/// the result of checking them is returned; `None` without tags.
///
/// # Errors
/// If the range is not all within the device, or the medium fails.
pub fn read_judged(
    device: &dyn BlockDevice,
    offset: u64,
    buf: &mut [u8],
) -> Result<Option<Judgement>, IoError> {
    read_in_order(device, offset, buf, &mut Reader::default())
}

/// [`read_judged`] for a reader of most of the device in order, who keeps its state.
///
/// # Errors
/// As [`read_judged`].
pub fn read_in_order(
    device: &dyn BlockDevice,
    offset: u64,
    buf: &mut [u8],
    reader: &mut Reader,
) -> Result<Option<Judgement>, IoError> {
    let Some(tagged) = device.tagged().filter(|_| !buf.is_empty()) else {
        return device.read_at(offset, buf).map(|()| None);
    };
    let block = u64::from(tagged.format().block_bytes);
    let first = offset - offset % block;
    let skip = (offset - first) as usize;
    let whole = (skip + buf.len()).next_multiple_of(block as usize);
    if whole == buf.len() {
        return tagged.read_checked(offset, buf, reader).map(Some);
    }
    let mut bytes = vec![0; whole];
    let judgement = tagged.read_checked(first, &mut bytes, reader)?;
    buf.copy_from_slice(&bytes[skip..skip + buf.len()]);
    Ok(Some(judgement.cut(skip, buf.len())))
}
