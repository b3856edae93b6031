//! The bytes of the page cache that are to be written to the medium before a flush asks for them.
//!
//! A flush that finds little to write is short, and what waits in the page cache stays bounded. Few
//! long writes cost less than many short ones, so a piece is written when it is full.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Bytes that are written back as one.
const PIECE: u64 = 1 << 20;
/// Pieces that are partly full, at most; beyond that, one is written back as it is.
const PARTS: usize = 64;
/// Pieces that are being written back, at most: whoever begins one more waits for the oldest.
const UNDER_WAY: usize = 16;

/// The bytes that were written to the page cache since the last sync.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    /// Bytes by piece. A byte that was written twice counts twice.
    parts: BTreeMap<u64, u64>,
    /// The oldest first.
    under_way: VecDeque<u64>,
}

/// The work that is to be done after a write.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Steps {
    /// Ranges to begin with, in bytes.
    pub(crate) begin: Vec<Range<u64>>,
    /// Ranges to wait for.
    pub(crate) wait: Vec<Range<u64>>,
}

fn range(piece: u64) -> Range<u64> {
    piece * PIECE..(piece + 1) * PIECE
}

impl Behind {
    /// A range was written to the page cache.
    pub(crate) fn wrote(&mut self, bytes: &Range<u64>) -> Steps {
        let mut steps = Steps::default();
        for piece in bytes.start / PIECE..bytes.end.div_ceil(PIECE) {
            let (from, to) = (bytes.start.max(piece * PIECE), bytes.end.min((piece + 1) * PIECE));
            let part = self.parts.entry(piece).or_default();
            *part += to - from;
            if *part >= PIECE {
                self.begin(piece, &mut steps);
            }
        }
        if self.parts.len() > PARTS
            && let Some((&fullest, _)) = self.parts.iter().max_by_key(|(_, part)| **part)
        {
            self.begin(fullest, &mut steps);
        }
        steps
    }

    fn begin(&mut self, piece: u64, steps: &mut Steps) {
        self.parts.remove(&piece);
        self.under_way.push_back(piece);
        steps.begin.push(range(piece));
        if self.under_way.len() > UNDER_WAY {
            steps.wait.extend(self.under_way.pop_front().map(range));
        }
    }

    /// A sync begins that covers all of it.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.under_way.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_piece_is_begun_once_and_the_oldest_is_waited_for() {
        let mut behind = Behind::default();
        let half = PIECE / 2;
        for piece in 0..UNDER_WAY as u64 {
            assert_eq!(behind.wrote(&(piece * PIECE..piece * PIECE + half)), Steps::default());
            let steps = behind.wrote(&(piece * PIECE + half..(piece + 1) * PIECE));
            assert_eq!(steps, Steps { begin: vec![range(piece)], wait: Vec::new() });
        }
        let next = UNDER_WAY as u64;
        // Over the edge of two pieces.
        let steps = behind.wrote(&(next * PIECE..(next + 1) * PIECE + half));
        assert_eq!(steps, Steps { begin: vec![range(next)], wait: vec![range(0)] });
        behind.clear();
        assert_eq!(behind.wrote(&((next + 1) * PIECE + half..(next + 2) * PIECE)), Steps::default());
    }

    #[test]
    fn of_too_many_parts_the_fullest_is_written_back() {
        let mut behind = Behind::default();
        for piece in 0..PARTS as u64 {
            let len = if piece == 7 { 8192 } else { 4096 };
            assert_eq!(behind.wrote(&(piece * PIECE..piece * PIECE + len)), Steps::default());
        }
        let steps = behind.wrote(&(99 * PIECE..99 * PIECE + 512));
        assert_eq!(steps, Steps { begin: vec![range(7)], wait: Vec::new() });
    }
}
