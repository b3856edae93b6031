//! The times of the last check of each part of a drive.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Parts of a drive whose last check is remembered, at most, and the bytes of one at least.
const MAX_PARTS: u64 = 4096;
const PART: u64 = 1 << 20;

/// Times of the last check of the parts of a drive: seconds since the node's start, and one; 0 for
/// never.
#[derive(Debug)]
pub(super) struct Checks {
    part: u64,
    last: Vec<AtomicU32>,
}

impl Checks {
    pub(super) fn new(size: u64) -> Self {
        let part = size.div_ceil(MAX_PARTS).max(PART).next_power_of_two();
        let count = usize::try_from(size.div_ceil(part)).expect("at most 4096");
        Self { part, last: (0..count).map(|_| AtomicU32::new(0)).collect() }
    }

    pub(super) fn checked(&self, bytes: &Range<u64>, second: u32) {
        let first = (bytes.start / self.part) as usize;
        let end = (bytes.end.div_ceil(self.part) as usize).min(self.last.len());
        for part in self.last.get(first..end).unwrap_or_default() {
            // Relaxed: a time that is looked at alone.
            part.store(second, Ordering::Relaxed);
        }
    }

    /// The share of the parts that were ever checked: 0 to 1.
    pub(super) fn share(&self) -> f64 {
        let checked = self.last.iter().filter(|part| part.load(Ordering::Relaxed) != 0).count();
        checked as f64 / self.last.len().max(1) as f64
    }

    /// The oldest check among the parts from the first to the last that was ever checked: around
    /// them lie superblocks, which no check reads.
    pub(super) fn oldest(&self) -> Option<u32> {
        let times: Vec<u32> = self.last.iter().map(|part| part.load(Ordering::Relaxed)).collect();
        let first = times.iter().position(|time| *time != 0)?;
        let last = times.iter().rposition(|time| *time != 0)?;
        times[first..=last].iter().copied().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_check_is_that_of_the_part_checked_longest_ago() {
        let checks = Checks::new(100 << 20);
        assert_eq!(checks.oldest(), None);
        assert!(checks.share() <= 0.0);
        checks.checked(&(1 << 20..50 << 20), 7);
        checks.checked(&(60 << 20..90 << 20), 9);
        assert_eq!(checks.oldest(), Some(0), "a gap was never checked");
        assert!((checks.share() - 0.79).abs() < 1e-9, "{}", checks.share());
        checks.checked(&(50 << 20..60 << 20), 12);
        assert_eq!(checks.oldest(), Some(7));
        checks.checked(&(1 << 20..50 << 20), 20);
        assert_eq!(checks.oldest(), Some(9));
    }
}
