//! Vouching for adopted tags: rule R24 of `docs/design/repair.md`.

use super::checked::Hole;
use crate::error::HostError;
use crate::target::{Target, View};
use pumice_offload::Source;
use std::collections::BTreeMap;
use std::ops::Range;

/// Largest miss bound at which a method may vouch.
const MOST_MISSED: f64 = 1e-9;

/// Vouches for the adopted tags in the stripes of a batch that were consistent at the first look,
/// and returns their number. `suspects` are the other stripes; `bound` is the miss bound of the
/// batch.
///
/// # Errors
/// If a node fails.
pub(super) fn vouch(
    target: &Target,
    view: &View,
    stripes: &Range<u64>,
    suspects: &BTreeMap<u64, Vec<Hole>>,
    bound: f64,
) -> Result<u64, HostError> {
    let (all, left) = target.equations(stripes.start);
    if left < all || bound > MOST_MISSED {
        return Ok(0);
    }
    let mut count = 0;
    for run in runs(stripes, suspects.keys().copied()) {
        for share in &view.shares {
            for (source, format) in share.sources.iter().zip(&share.tags) {
                let (Source::Media { drive, base }, Some(format)) = (source, format) else { continue };
                let chunk = u64::from(target.chunk(stripes.start));
                // Chunks one after another are one range.
                let pieces = if view.pitch() == chunk { vec![run.clone()] } else { each(&run) };
                for piece in pieces {
                    let first = base + view.repetition(piece.start) * view.pitch();
                    let end = base + view.repetition(piece.end - 1) * view.pitch() + chunk;
                    let block = u64::from(format.block_bytes);
                    let (first, end) = (first.next_multiple_of(block), end - end % block);
                    if first < end {
                        count += share.node.tagged_drives()?.vouch(*drive, first, end - first)?;
                    }
                }
            }
        }
    }
    Ok(count)
}

fn each(run: &Range<u64>) -> Vec<Range<u64>> {
    run.clone().map(|stripe| stripe..stripe + 1).collect()
}

/// The runs of stripes between those that are left out, which are in order.
fn runs(stripes: &Range<u64>, without: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    let mut out = Vec::new();
    let mut start = stripes.start;
    for end in without.chain([stripes.end]) {
        if start < end {
            out.push(start..end);
        }
        start = end + 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn stripes_that_were_suspect_are_left_out() {
        assert_eq!(runs(&(3..9), [3, 5, 6, 8].into_iter()), [4..5, 7..8]);
        assert_eq!(runs(&(3..9), [4].into_iter()), [3..4, 5..9]);
        assert_eq!(runs(&(3..5), [3, 4].into_iter()), []);
    }
}
