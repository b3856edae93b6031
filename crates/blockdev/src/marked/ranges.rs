//! A set of byte ranges: ascending, apart from each other.

use std::collections::BTreeMap;

/// First byte to end of each range. Two ranges never overlap or touch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Start and end of each.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(start, end)| (*start, *end))
    }

    /// Returns whether any byte of `len` bytes at `offset` is in it.
    pub(super) fn touches(&self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len);
        self.0.range(..end).next_back().is_some_and(|(_, last)| *last > offset)
    }

    /// Adds `start..end`, and joins it with what it touches.
    pub(super) fn insert(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        while let Some((first, last)) = self.0.range(..=end).next_back().map(|(a, b)| (*a, *b)) {
            if last < start {
                break;
            }
            self.0.remove(&first);
            start = start.min(first);
            end = end.max(last);
        }
        self.0.insert(start, end);
    }

    /// Takes `start..end` out.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        while let Some((first, last)) = self.0.range(..end).next_back().map(|(a, b)| (*a, *b)) {
            if last <= start {
                break;
            }
            self.0.remove(&first);
            if last > end {
                self.0.insert(end, last);
            }
            if first < start {
                self.0.insert(first, start);
                break;
            }
        }
    }
}
