//! The number of blocks that may be refused before the tags themselves are suspected.

use std::collections::VecDeque;

/// Different blocks refused in a window, at most. Below the errors after which md gives a member
/// up.
const MOST: usize = 64;
/// The window, in milliseconds.
const WINDOW_MS: u64 = 60_000;

/// The blocks that were refused of late.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// When, in milliseconds, and which; no block twice.
    refused: VecDeque<(u64, u64)>,
}

impl Budget {
    /// A block is to be refused at `now_ms`: whether there have been too many.
    pub(crate) fn refuse(&mut self, now_ms: u64, block: u64) -> bool {
        while self.refused.front().is_some_and(|(at, _)| at + WINDOW_MS <= now_ms) {
            self.refused.pop_front();
        }
        // To ask for a bad block again and again is no second bad block.
        if !self.refused.iter().any(|(_, other)| *other == block) {
            self.refused.push_back((now_ms, block));
        }
        self.refused.len() > MOST
    }
}

/// Whether a sample of blocks says that the tags are of other data: more than 1 % of those that
/// could be judged, and three at least.
pub(crate) const fn is_stale(judged: u64, differ: u64) -> bool {
    differ >= 3 && differ * 100 > judged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_four_different_blocks_a_minute_are_refused() {
        let mut budget = Budget::default();
        for round in 0..3 {
            for block in 0..64 {
                assert!(!budget.refuse(round, block));
            }
        }
        assert!(budget.refuse(59_999, 100));
        assert!(!budget.refuse(60_002, 101), "the first ones are a minute old");
    }

    #[test]
    fn a_sample_with_more_than_one_in_a_hundred() {
        assert!(!is_stale(200, 2) && is_stale(200, 3) && is_stale(3, 3) && !is_stale(1000, 10));
    }
}
