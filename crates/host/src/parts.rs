//! Several ranges of stripes as one pass, and the ranges that a pass has judged.

use std::collections::BTreeSet;
use std::ops::Range;

/// Ranges of judged stripes that a report has at most.
const MOST: usize = 10_000;

/// The first part that is empty, not within a range, or has stripes of another part.
pub(crate) fn wrong_part<'p>(within: &Range<u64>, parts: &'p [Range<u64>]) -> Option<&'p Range<u64>> {
    let inside =
        |part: &Range<u64>| within.start <= part.start && part.start < part.end && part.end <= within.end;
    let mut by_place: Vec<&Range<u64>> = parts.iter().collect();
    by_place.sort_by_key(|part| part.start);
    let twice = by_place.windows(2).find(|two| two[1].start < two[0].end).map(|two| two[1]);
    parts.iter().find(|part| !inside(part)).or(twice)
}

/// The words for ranges: `0..5`, `0..5,9..12`.
pub(crate) fn words(ranges: &[Range<u64>]) -> String {
    let words = ranges.iter().map(|range| format!("{}..{}", range.start, range.end));
    words.collect::<Vec<_>>().join(",")
}

/// The stripes of batches without some of them, as ranges by place that do not touch; the largest
/// 10,000 if there are more.
pub(crate) fn judged(batches: &[Range<u64>], without: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let mut by_place: Vec<Range<u64>> = batches.to_vec();
    by_place.sort_by_key(|batch| batch.start);
    let mut out: Vec<Range<u64>> = Vec::new();
    let mut add = |start: u64, end: u64| match out.last_mut() {
        _ if start >= end => {}
        Some(last) if last.end == start => last.end = end,
        _ => out.push(start..end),
    };
    for batch in by_place {
        let mut start = batch.start;
        for stripe in without.range(batch.clone()) {
            add(start, *stripe);
            start = stripe + 1;
        }
        add(start, batch.end);
    }
    if out.len() > MOST {
        out.sort_by_key(|range| std::cmp::Reverse(range.end - range.start));
        out.truncate(MOST);
        out.sort_by_key(|range| range.start);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_in_the_range_and_apart() {
        let wrong = |parts: &[Range<u64>]| wrong_part(&(10..20), parts).cloned();
        assert_eq!(wrong(&[]), None);
        assert_eq!(wrong(&[15..20, 10..12, 12..13]), None);
        assert_eq!(wrong(&[15..20, 9..12]), Some(9..12));
        assert_eq!(wrong(&[Range { start: 15, end: 21 }]), Some(15..21));
        assert_eq!(wrong(&[15..20, 11..11]), Some(11..11));
        assert_eq!(wrong(&[15..20, 11..16]), Some(15..20));
        assert_eq!(wrong(&[10..12, 10..12]), Some(10..12));
    }

    /// Against a list of single stripes.
    #[test]
    fn judged_stripes_are_those_of_the_batches_without_the_others() {
        let batches = [20..25, 0..5, 5..9, 12..13];
        for bits in 0..1_u64 << 12 {
            let without: BTreeSet<u64> =
                (0..12).filter(|bit| bits >> bit & 1 == 1).map(|bit| bit * 2).collect();
            let ranges = judged(&batches, &without);
            let wanted: Vec<u64> =
                (0..30).filter(|s| batches.iter().any(|b| b.contains(s)) && !without.contains(s)).collect();
            assert_eq!(ranges.iter().cloned().flatten().collect::<Vec<_>>(), wanted);
            assert!(ranges.windows(2).all(|two| two[0].end < two[1].start), "{ranges:?}");
        }
        let every_other: BTreeSet<u64> = (0..30_000).map(|i| i * 2).collect();
        assert_eq!(judged(&[Range { start: 0, end: 60_000 }], &every_other).len(), MOST);
    }
}
