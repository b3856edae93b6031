//! Ranges of stripes, and sets of them.

use serde::{Deserialize, Serialize};

/// Stripes from a number up to another one, which is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Range {
    /// The first stripe.
    pub from: u64,
    /// The stripe after the last.
    pub to: u64,
}

impl Range {
    /// The number of stripes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// Returns whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.to <= self.from
    }
}

/// A set of stripes: ranges in order that do not touch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Range>", into = "Vec<Range>")]
pub struct Ranges(Vec<Range>);

impl From<Vec<Range>> for Ranges {
    fn from(mut list: Vec<Range>) -> Self {
        list.retain(|range| !range.is_empty());
        list.sort_unstable();
        let mut joined: Vec<Range> = Vec::with_capacity(list.len());
        for range in list {
            match joined.last_mut() {
                Some(last) if range.from <= last.to => last.to = last.to.max(range.to),
                _ => joined.push(range),
            }
        }
        Self(joined)
    }
}

impl From<Ranges> for Vec<Range> {
    fn from(ranges: Ranges) -> Self {
        ranges.0
    }
}

impl Ranges {
    /// The set of one range.
    #[must_use]
    pub fn one(range: Range) -> Self {
        Self::from(vec![range])
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.0.iter().copied()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of stripes.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        self.0.iter().map(Range::len).fold(0, u64::saturating_add)
    }

    /// The number of ranges.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Takes stripes out.
    pub fn remove(&mut self, out: Range) {
        if !self.0.iter().any(|range| range.from < out.to && out.from < range.to) {
            return;
        }
        let parts = |range: &Range| {
            let (to, from) = (range.to.min(out.from), range.from.max(out.to));
            [Range { from: range.from, to }, Range { from, to: range.to }]
        };
        self.0 = self.0.iter().flat_map(parts).filter(|range| !range.is_empty()).collect();
    }

    /// Adds ranges.
    pub fn add(&mut self, more: &[Range]) {
        *self = Self::from([&self.0, more].concat());
    }

    /// Takes the stripes of another set out.
    pub fn remove_all(&mut self, out: &Self) {
        out.iter().for_each(|range| self.remove(range));
    }
}
