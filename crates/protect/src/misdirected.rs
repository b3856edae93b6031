//! Misdirected writes: blocks whose content belongs at another place of the same drive.
//!
//! A drive that puts a write at the wrong place leaves two blocks that differ from their tags: the
//! one that was written over, and the one that was not written. The content of the first belongs at
//! the second.

use std::collections::BTreeMap;

/// Places that may want the same content before it is taken for common, and says nothing.
const MOST_ALIKE: usize = 4;
/// A run is named if runs as long come about by chance once in so many times, at most.
const CHANCE: u128 = 1000;

/// A block that differs from its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Differing {
    /// Its number on the drive.
    pub place: u64,
    /// A sum of what it holds; `None` if that says nothing, see [`tells`].
    pub found: Option<u64>,
    /// The same sum of what belongs there: of the rebuilt block, or the guard of its tag.
    pub wanted: u64,
}

/// Blocks, one after another, whose content belongs elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misdirected {
    /// The first block.
    pub place: u64,
    /// Number of the block where the content belongs.
    pub belongs: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// Returns whether a content can tell its place: one byte repeated is found anywhere.
#[must_use]
pub fn tells(content: &[u8]) -> bool {
    content.iter().any(|byte| *byte != content[0])
}

/// The runs of blocks whose content belongs to others of the same drive that differ too. `bits` is
/// the width of the sums. A run is named if it is no accident, and if no block of it belongs to two
/// places.
#[must_use]
pub fn misdirected(differing: &[Differing], bits: u32) -> Vec<Misdirected> {
    let mut wanted: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for block in differing {
        wanted.entry(block.wanted).or_default().push(block.place);
    }
    // By how far the content is from where it belongs, then by place.
    let mut pairs: Vec<(i128, u64)> = Vec::new();
    for block in differing {
        let Some(places) = block.found.and_then(|found| wanted.get(&found)) else { continue };
        if places.len() <= MOST_ALIKE {
            let others = places.iter().filter(|place| **place != block.place);
            pairs.extend(others.map(|place| (i128::from(*place) - i128::from(block.place), block.place)));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    let mut runs: Vec<(i128, Misdirected)> = Vec::new();
    for (distance, place) in pairs {
        match runs.last_mut() {
            Some((same, run)) if *same == distance && run.place + run.blocks == place => run.blocks += 1,
            _ => {
                let belongs = (i128::from(place) + distance) as u64;
                runs.push((distance, Misdirected { place, belongs, blocks: 1 }));
            }
        }
    }
    let pairs = (differing.len() as u128).pow(2);
    let chance = |run: &Misdirected| {
        let width = u64::from(bits).saturating_mul(run.blocks).min(127);
        pairs.saturating_mul(CHANCE) <= 1 << width
    };
    let runs: Vec<Misdirected> = runs.into_iter().map(|(_, run)| run).filter(chance).collect();
    let apart =
        |a: &Misdirected, b: &Misdirected| a.place + a.blocks <= b.place || b.place + b.blocks <= a.place;
    let alone = |at: usize| runs.iter().enumerate().all(|(i, run)| i == at || apart(run, &runs[at]));
    let mut named: Vec<Misdirected> = (0..runs.len()).filter(|at| alone(*at)).map(|at| runs[at]).collect();
    named.sort_unstable_by_key(|run| run.place);
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block that holds one thing and should hold another.
    fn block(place: u64, found: u64, wanted: u64) -> Differing {
        Differing { place, found: Some(found), wanted }
    }

    #[test]
    fn a_write_that_went_astray_is_named_with_its_place() {
        // Meant for 100 to 103, written to 900: there are eight bad blocks.
        let mut bad: Vec<Differing> = (0..4).map(|i| block(100 + i, i, 50 + i)).collect();
        bad.extend((0..4).map(|i| block(900 + i, 50 + i, 70 + i)));
        let expected = [Misdirected { place: 900, belongs: 100, blocks: 4 }];
        for bits in [16, 32, 64] {
            assert_eq!(misdirected(&bad, bits), expected);
        }
        // The order in which they were found does not matter.
        bad.reverse();
        assert_eq!(misdirected(&bad, 64), expected);
        // Two writes that were exchanged.
        let exchanged = [block(5, 1, 2), block(9, 2, 1)];
        assert_eq!(
            misdirected(&exchanged, 64),
            [
                Misdirected { place: 5, belongs: 9, blocks: 1 },
                Misdirected { place: 9, belongs: 5, blocks: 1 }
            ]
        );
    }

    #[test]
    fn what_may_be_chance_or_common_is_not_named() {
        // Among so many blocks, two guards of 16 bits are equal by chance.
        let mut many: Vec<Differing> = (0..9).map(|i| block(i * 10, 100 + i, 200 + i)).collect();
        many[8].found = Some(200);
        assert_eq!(misdirected(&many, 16), []);
        assert_eq!(misdirected(&many, 32), [Misdirected { place: 80, belongs: 0, blocks: 1 }]);
        // A run of two is no accident.
        many.push(block(81, 77, 78));
        many.push(block(1, 79, 77));
        assert_eq!(misdirected(&many, 16), [Misdirected { place: 80, belongs: 0, blocks: 2 }]);
        // It would belong to two places.
        let two = [block(1, 0, 5), block(2, 0, 5), block(3, 5, 6)];
        assert_eq!(misdirected(&two, 64), []);
        let common: Vec<Differing> = (0..100).map(|i| block(i, 7, 7 * (i % 2))).collect();
        assert_eq!(misdirected(&common, 64), []);
        // Zeros are everywhere.
        assert!(!tells(&[0; 512]) && tells(&[0, 1]));
        let zeros = [Differing { found: None, ..block(1, 0, 5) }, block(2, 9, 0)];
        assert_eq!(misdirected(&zeros, 64), []);
        assert_eq!(misdirected(&[block(4, 6, 6)], 64), [], "a block is not its own place");
    }
}
