//! The number of blocks that may be refused before the tags themselves are suspected.

use std::collections::VecDeque;
use std::ops::Range;

/// Most different blocks refused in a window: fewer than the errors after which md fails a member.
const MOST: usize = 64;
/// The window, in milliseconds.
const WINDOW_MS: u64 = 60_000;

/// The recently refused blocks that were not written since.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Times in milliseconds, and blocks; no block occurs twice.
    refused: VecDeque<(u64, u64)>,
}

impl Budget {
    /// Counts a block to be refused at `now_ms`; returns whether there have been too many.
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

    /// Blocks were written. A reader that lost one and then wrote it had it from elsewhere: it was
    /// right to be refused, and says nothing against the tags.
    pub(crate) fn written(&mut self, blocks: &Range<u64>) {
        self.refused.retain(|(_, block)| !blocks.contains(block));
    }

    /// Whether no block counts.
    pub(crate) fn is_empty(&self) -> bool {
        self.refused.is_empty()
    }
}

/// Whether a sample of blocks shows that the tags are stale: more than 1 % of the judged blocks
/// differ, and at least three.
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
    fn blocks_that_were_written_again_do_not_count() {
        let mut budget = Budget::default();
        for block in 0..1000 {
            assert!(!budget.refuse(0, block));
            budget.written(&(block - block % 8..block + 1));
            assert!(budget.is_empty());
        }
        (0..64).for_each(|block| assert!(!budget.refuse(1, block)));
        budget.written(&(64..1000));
        assert!(budget.refuse(1, 64));
    }

    #[test]
    fn a_sample_with_more_than_one_in_a_hundred() {
        assert!(!is_stale(200, 2) && is_stale(200, 3) && is_stale(3, 3) && !is_stale(1000, 10));
    }
}
