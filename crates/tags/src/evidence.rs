//! Evidence that tags are stale: that the drive was written without them, or that they are of
//! another time or of another drive.
//!
//! Pure. `docs/design/tags.md`, "Stale tags", has the rules and their errors.

use std::fmt;

/// Parts that the sample is cut into, in the order of blocks.
const PARTS: usize = 16;
/// Parts that are left out, those with the most differences: a rotten run lies in few.
const WORST: usize = 4;
/// The least differences that count if they are a tenth, or most of the sample.
const LEAST: usize = 16;
const LEAST_OF_MOST: usize = 8;
/// The least records of the log from which anything follows.
const LEAST_RECORDS: u64 = 16;
/// Runs of a block.
const RUNS: u64 = 8;

/// What a look at the blocks of a drive said of its tags, before anything was written.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Blocks with a tag that are not in the log, in their order: whether each differs from it.
    /// After a crash, too, each of them must fit.
    pub(crate) sample: Vec<bool>,
    /// Records of the log of which a block was looked at.
    pub(crate) records: u64,
    /// Those of them whose block is no version as a whole.
    pub(crate) strange: u64,
    /// Runs of these blocks that are of the log.
    pub(crate) runs: u64,
    /// The header says that the tags were called stale before.
    pub(crate) known: bool,
}

impl Evidence {
    /// Blocks of the sample.
    #[must_use]
    pub fn judged(&self) -> usize {
        self.sample.len()
    }

    /// Blocks of the sample that differ from their tags.
    #[must_use]
    pub fn differ(&self) -> usize {
        self.sample.iter().filter(|differs| **differs).count()
    }

    /// Whether the tags are stale.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.known || self.is_sample_stale() || self.is_log_stale()
    }

    /// Itself, if the tags are stale.
    pub(crate) fn stale(self) -> Option<Self> {
        self.is_stale().then_some(self)
    }

    /// Over a tenth of the sample differs, also without its worst parts; or most of it does.
    fn is_sample_stale(&self) -> bool {
        let (judged, differ) = (self.judged(), self.differ());
        let most = differ >= LEAST_OF_MOST && differ * 2 > judged;
        most || differ >= LEAST && self.is_spread()
    }

    /// Whether over a tenth differs of what is left without the worst parts.
    fn is_spread(&self) -> bool {
        let len = self.judged();
        let part = |part: usize| {
            let part = &self.sample[part * len / PARTS..(part + 1) * len / PARTS];
            (part.iter().filter(|differs| **differs).count(), part.len())
        };
        let mut parts: Vec<(usize, usize)> = (0..PARTS).map(part).collect();
        parts.sort_unstable();
        let rest = &parts[..PARTS - WORST];
        let (differ, judged) = rest.iter().fold((0, 0), |(d, j), (differ, judged)| (d + differ, j + judged));
        differ * 10 > judged
    }

    /// Nearly no record of the log has arrived, and yet nearly all of each is there: a cut leaves
    /// blocks whole at least as often as it leaves all but one run of them.
    fn is_log_stale(&self) -> bool {
        self.records >= LEAST_RECORDS
            && self.strange * 40 >= self.records * 39
            && self.runs * 10 >= self.strange * (10 * (RUNS - 1) - 1)
    }

    /// Whether the tags seem to be of another drive: that much differs for them to be kept until
    /// somebody says otherwise, however few blocks have tags.
    #[must_use]
    pub fn disagrees(&self) -> bool {
        self.is_stale() || self.differ() * 2 > self.judged()
    }
}

impl fmt::Debug for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, strange, runs, known, .. } = self;
        let (judged, differ) = (self.judged(), self.differ());
        f.debug_struct("Evidence")
            .field("judged", &judged)
            .field("differ", &differ)
            .field("records", records)
            .field("strange", strange)
            .field("runs", runs)
            .field("known", known)
            .finish()
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (differ, judged) = (self.differ(), self.judged());
        if self.known {
            write!(f, "they were called stale before, and {differ} of {judged} blocks of a sample differ")
        } else if self.is_sample_stale() || !self.is_log_stale() {
            write!(f, "{differ} of {judged} blocks of a sample differ from them")
        } else {
            let (strange, records) = (self.strange, self.records);
            write!(f, "{strange} of {records} blocks of their log were written without them")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sample: Vec<bool>) -> Evidence {
        Evidence { sample, ..Evidence::default() }
    }

    /// SplitMix64, as a number from 0 to 1.
    fn chances(mut state: u64) -> impl FnMut() -> f64 {
        move || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    /// How often samples of `judged` blocks are called stale of which each differs with a chance.
    fn called(judged: usize, share: f64, rounds: usize) -> usize {
        let mut next = chances(judged as u64 ^ share.to_bits());
        (0..rounds).filter(|_| of((0..judged).map(|_| next() < share).collect()).is_stale()).count()
    }

    #[test]
    fn scattered_rot_of_two_percent_is_not_called_stale() {
        for judged in [1, 7, 8, 15, 20, 40, 80, 120, 160, 200, 256] {
            assert_eq!(called(judged, 0.02, 100_000), 0, "{judged}");
        }
    }

    #[test]
    fn a_rotten_run_of_a_quarter_is_not_called_stale() {
        for judged in [64, 100, 256] {
            for first in 0..judged {
                let run = first..first + judged / 4;
                assert!(
                    !of((0..judged).map(|at| run.contains(&at)).collect()).is_stale(),
                    "{judged} {first}"
                );
            }
        }
    }

    #[test]
    fn a_drive_that_somebody_else_wrote_is_called_stale() {
        // All of few blocks, most of them, and a quarter of many.
        for (judged, share) in [(8, 1.0), (20, 1.0), (20, 0.95), (64, 0.8), (128, 0.4), (256, 0.25)] {
            let called = called(judged, share, 20_000);
            assert!(called >= 19_999, "{judged} {share}: {called}");
        }
    }

    /// Blocks that a cut tears run by run, each run new with some chance, whatever that is and
    /// however many runs of a block changed; or of which it leaves the first sectors.
    #[test]
    fn a_cut_that_tears_every_block_is_not_taken_for_somebody_else() {
        let mut next = chances(5);
        let mut worst = 0;
        for round in 0..400_000 {
            let (arrives, changed) = ([0.1, 0.5, 0.7, 0.8, 0.9, 0.97][round % 6], 1 + round / 6 % 8);
            let records = 16 + round as u64 % 48;
            let mut evidence = Evidence { records, ..Evidence::default() };
            for _ in 0..records {
                let new = (0..changed).filter(|_| next() < arrives).count();
                if new > 0 && new < changed {
                    evidence.strange += 1;
                    evidence.runs += (8 - changed + new) as u64;
                }
            }
            worst += u64::from(evidence.is_stale());
        }
        assert!(worst <= 3, "{worst} of 400,000");
    }

    #[test]
    fn blocks_of_the_log_that_somebody_else_changed_in_part_are_called_stale() {
        for records in [16, 132, 256] {
            let all = Evidence { records, strange: records, runs: 7 * records, ..Evidence::default() };
            assert!(all.is_stale());
        }
        let few = Evidence { records: 15, strange: 15, runs: 105, ..Evidence::default() };
        assert!(!few.is_stale());
    }
}
