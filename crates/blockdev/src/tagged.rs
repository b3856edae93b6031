//! Reads that also return the result of checking the blocks' tags.

use crate::{BlockDevice, IoError};
use pumice_protect::origin::{Judged, Opinion, Origin};

/// A fault of blocks or of their tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TagFault {
    /// They differ from tags of this origin.
    Differs(Origin),
    /// The page of their tags is lost.
    Lost,
}

/// Consecutive blocks with the same fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faulty {
    /// First byte, counted from the start of the read.
    pub at: usize,
    /// Bytes.
    pub len: usize,
    /// The fault.
    pub fault: TagFault,
}

/// The result of checking the tags of a read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judgement {
    /// Numbers of blocks that match their tags, by origin; blocks of origin unknown were not
    /// checked.
    pub fit: [u64; 4],
    /// The others, in order.
    pub faulty: Vec<Faulty>,
}

impl Judgement {
    fn of(judged: &[Judged], block: usize, skip: usize, len: usize) -> Self {
        let mut out = Self::default();
        for (i, judged) in judged.iter().enumerate() {
            let fault = match judged.opinion {
                Opinion::Unchecked => {
                    out.fit[Origin::Unknown as usize] += 1;
                    continue;
                }
                Opinion::Fits(origin) => {
                    out.fit[origin as usize] += 1;
                    continue;
                }
                Opinion::Differs(origin) => TagFault::Differs(origin),
                Opinion::Lost => TagFault::Lost,
            };
            let at = (i * block).saturating_sub(skip);
            let end = ((i + 1) * block - skip).min(len);
            match out.faulty.last_mut() {
                Some(last) if last.at + last.len == at && last.fault == fault => last.len = end - last.at,
                _ => out.faulty.push(Faulty { at, len: end - at, fault }),
            }
        }
        out
    }
}

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
    let Some(tagged) = device.tagged().filter(|_| !buf.is_empty()) else {
        return device.read_at(offset, buf).map(|()| None);
    };
    let block = u64::from(tagged.format().block_bytes);
    let first = offset - offset % block;
    let skip = (offset - first) as usize;
    let whole = (skip + buf.len()).next_multiple_of(block as usize);
    let judged = if whole == buf.len() {
        tagged.read_judged(offset, buf)?
    } else {
        let mut bytes = vec![0; whole];
        let judged = tagged.read_judged(first, &mut bytes)?;
        buf.copy_from_slice(&bytes[skip..skip + buf.len()]);
        judged
    };
    Ok(Some(Judgement::of(&judged, block as usize, skip, buf.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted_from_the_start_of_the_read_and_cut_at_its_ends() {
        let differs = Opinion::Differs(Origin::Written);
        let opinions = [differs, differs, Opinion::Unchecked, Opinion::Fits(Origin::Adopted), Opinion::Lost];
        let judged: Vec<Judged> =
            opinions.iter().map(|opinion| Judged { opinion: *opinion, guard: 0 }).collect();
        // Blocks of 8 bytes; the read has 34 bytes from the third on.
        let judgement = Judgement::of(&judged, 8, 3, 34);
        let faulty = |at, len, fault| Faulty { at, len, fault };
        assert_eq!(
            judgement.faulty,
            [faulty(0, 13, TagFault::Differs(Origin::Written)), faulty(29, 5, TagFault::Lost)]
        );
        assert_eq!(judgement.fit, [1, 0, 1, 0]);
    }
}
