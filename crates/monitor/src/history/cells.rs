//! Cells: an array is 1,000 of them, each with the time when it was last checked whole.

use crate::history::document::Checked;
use crate::history::values::Time;
use std::collections::BTreeMap;

/// Cells of an array.
pub const CELLS: u16 = 1000;

/// The stripes of a cell of an array: the first, and the one after the last.
#[must_use]
pub fn stripes_of(cell: u16, stripes: u64) -> (u64, u64) {
    let edge = |cell: u16| {
        let edge = u128::from(cell) * u128::from(stripes) / u128::from(CELLS);
        u64::try_from(edge.min(u128::from(stripes))).unwrap_or(stripes)
    };
    (edge(cell.min(CELLS)), edge(cell.saturating_add(1).min(CELLS)))
}

/// Ranges of stripes that do not overlap, in order, each with the latest time at which one of the
/// parts has it.
fn latest(checked: &[Checked]) -> Vec<(u64, u64, Time)> {
    let mut edges: BTreeMap<u64, Vec<(Time, bool)>> = BTreeMap::new();
    for part in checked.iter().filter(|part| part.start < part.end) {
        edges.entry(part.start.get()).or_default().push((part.at_us, true));
        edges.entry(part.end.get()).or_default().push((part.at_us, false));
    }
    let mut open: BTreeMap<Time, u32> = BTreeMap::new();
    let mut found = Vec::new();
    let mut from = 0;
    for (edge, changes) in edges {
        if let Some((time, _)) = open.last_key_value() {
            found.push((from, edge, *time));
        }
        from = edge;
        for (time, _) in changes.iter().filter(|(_, begins)| *begins) {
            *open.entry(*time).or_default() += 1;
        }
        for (time, _) in changes.iter().filter(|(_, begins)| !begins) {
            if let Some(count) = open.get_mut(time) {
                *count -= 1;
                if *count == 0 {
                    open.remove(time);
                }
            }
        }
    }
    found
}

/// The cells that are checked whole, each with its time: the earliest of its stripes.
#[must_use]
pub fn covered(stripes: u64, checked: &[Checked]) -> Vec<(u16, Time)> {
    let parts = latest(checked);
    let mut found = Vec::new();
    let mut first = 0;
    for cell in 0..CELLS {
        let (start, end) = stripes_of(cell, stripes);
        while parts.get(first).is_some_and(|(_, until, _)| *until <= start) {
            first += 1;
        }
        let mut reached = start;
        let mut time = Time::MAX;
        for (from, until, at) in &parts[first..] {
            if reached >= end || *from > reached {
                break;
            }
            reached = *until;
            time = time.min(*at);
        }
        if start < end && reached >= end {
            found.push((cell, time));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{CELLS, Checked, covered, stripes_of};
    use crate::history::values::{Count, Time};
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    fn plain(stripes: u64, checked: &[Checked]) -> Vec<(u16, Time)> {
        let time = |stripe: u64| {
            let has = |part: &&Checked| part.start.get() <= stripe && stripe < part.end.get();
            checked.iter().filter(has).map(|part| part.at_us).max()
        };
        let cell = |cell: u16| {
            let (start, end) = stripes_of(cell, stripes);
            let times: Option<Vec<Time>> = (start..end).map(time).collect();
            times.and_then(|times| times.into_iter().min()).map(|time| (cell, time))
        };
        (0..CELLS).filter_map(cell).collect()
    }

    #[test]
    fn cells_are_those_of_plain_arithmetic() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut any = 0;
        for _ in 0..300 {
            let stripes = 1 + u64::from(random.next_u32() % 4000);
            let mut checked = Vec::new();
            for _ in 0..random.next_u32() % 12 {
                let mut number = || u64::from(random.next_u32()) % (stripes + 1);
                let (one, other, at) = (number(), number(), number() % 50);
                let count = |number: u64| Count::try_from(number).expect("small");
                checked.push(Checked {
                    start: count(one.min(other)),
                    end: count(one.max(other)),
                    at_us: Time::try_from(at).expect("small"),
                });
            }
            let found = covered(stripes, &checked);
            any += found.len();
            assert_eq!(found, plain(stripes, &checked), "{stripes} {checked:?}");
        }
        assert!(any > 10_000, "{any}");
    }

    #[test]
    fn the_cells_of_an_array_of_any_size_are_all_its_stripes_once() {
        for stripes in [1, 999, 1000, 1001, u64::MAX] {
            let mut end = 0;
            for cell in 0..CELLS {
                let (from, until) = stripes_of(cell, stripes);
                assert_eq!(from, end);
                end = until;
            }
            assert_eq!(end, stripes);
        }
    }
}
