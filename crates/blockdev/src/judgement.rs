//! The result of checking the tags of the blocks of a read.

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
    /// Adds blocks that all fit tags of one origin.
    pub fn fits(&mut self, origin: Origin, blocks: u64) {
        self.fit[origin as usize] += blocks;
    }

    /// Adds the results of checking blocks of `block` bytes, the first of which is at byte `at` of
    /// the read. Blocks are added in order.
    pub fn take(&mut self, judged: &[Judged], at: usize, block: usize) {
        for (at, judged) in (at..).step_by(block).zip(judged) {
            let fault = match judged.opinion {
                Opinion::Unchecked => {
                    self.fits(Origin::Unknown, 1);
                    continue;
                }
                Opinion::Fits(origin) => {
                    self.fits(origin, 1);
                    continue;
                }
                Opinion::Differs(origin) => TagFault::Differs(origin),
                Opinion::Lost => TagFault::Lost,
            };
            match self.faulty.last_mut() {
                Some(last) if last.at + last.len == at && last.fault == fault => last.len += block,
                _ => self.faulty.push(Faulty { at, len: block, fault }),
            }
        }
    }

    /// The same for a read of `len` bytes that begins `skip` bytes later. Blocks that it has only a
    /// part of still count.
    pub(crate) fn cut(mut self, skip: usize, len: usize) -> Self {
        for faulty in &mut self.faulty {
            let end = (faulty.at + faulty.len - skip).min(len);
            faulty.at = faulty.at.saturating_sub(skip);
            faulty.len = end - faulty.at;
        }
        self
    }
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
        let mut whole = Judgement::default();
        whole.take(&judged[..1], 0, 8);
        whole.take(&judged[1..], 8, 8);
        let judgement = whole.cut(3, 34);
        let faulty = |at, len, fault| Faulty { at, len, fault };
        assert_eq!(
            judgement.faulty,
            [faulty(0, 13, TagFault::Differs(Origin::Written)), faulty(29, 5, TagFault::Lost)]
        );
        assert_eq!(judgement.fit, [1, 0, 1, 0]);
    }
}
