//! Ranges of bytes and rows.

use pumice_volume::rows::Rows;
use std::ops::Range;

/// A range cut into part of a block, whole blocks, and part of a block; any of them may be empty.
pub(crate) fn ragged(range: Range<u64>, block: u64) -> [Range<u64>; 3] {
    let first = range.start.next_multiple_of(block).min(range.end);
    let last = (range.end / block * block).max(first);
    [range.start..first, first..last, last..range.end]
}

/// Runs of neighbouring rows.
pub(crate) fn runs(rows: Rows) -> Vec<Range<u32>> {
    let mut out: Vec<Range<u32>> = Vec::new();
    for row in rows.iter() {
        match out.last_mut() {
            Some(run) if run.end == row => run.end += 1,
            _ => out.push(row..row + 1),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_the_borders_of_blocks() {
        for (range, cut) in [
            (4096..8192, [4096..4096, 4096..8192, 8192..8192]),
            (512..1024, [512..1024, 1024..1024, 1024..1024]),
            (0..512, [0..0, 0..0, 0..512]),
            (512..4096, [512..4096, 4096..4096, 4096..4096]),
            (512..9000, [512..4096, 4096..8192, 8192..9000]),
            (3584..4608, [3584..4096, 4096..4096, 4096..4608]),
        ] {
            assert_eq!(ragged(range.clone(), 4096), cut, "{range:?}");
            assert_eq!(ragged(range.clone(), 512)[1], range.start..range.end / 512 * 512);
        }
    }

    #[test]
    fn neighbouring_rows_are_one_run() {
        assert_eq!(runs(Rows(0b1110_0101)), [0..1, 2..3, 5..8]);
        assert_eq!(runs(Rows(0)), []);
    }
}
