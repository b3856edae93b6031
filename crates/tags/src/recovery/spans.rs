//! The newest record of each block, for records that treat all of their blocks alike.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that do not overlap, each with the newest record that covers it: at most two for each
/// record, however many blocks it has and however often it repeats others.
#[derive(Debug, Default)]
pub(super) struct Spans(BTreeMap<u64, (u64, u32)>);

impl Spans {
    /// A record that is newer than all before covers some blocks.
    pub(super) fn cover(&mut self, blocks: Range<u64>, record: u32) {
        let before = self.0.range(..blocks.start).next_back().map(|(start, span)| (*start, *span));
        if let Some((start, (end, old))) = before.filter(|(_, (end, _))| *end > blocks.start) {
            self.0.insert(start, (blocks.start, old));
            self.keep_behind(&blocks, end, old);
        }
        while let Some((start, (end, old))) = self.0.range(blocks.clone()).next().map(|(s, span)| (*s, *span))
        {
            self.0.remove(&start);
            self.keep_behind(&blocks, end, old);
        }
        self.0.insert(blocks.start, (blocks.end, record));
    }

    /// The part of an older record behind some blocks stays its own.
    fn keep_behind(&mut self, blocks: &Range<u64>, end: u64, record: u32) {
        if end > blocks.end {
            self.0.insert(blocks.end, (end, record));
        }
    }

    /// The newest record that covers a block.
    pub(super) fn record(&self, block: u64) -> Option<u32> {
        let (_, (end, record)) = self.0.range(..=block).next_back()?;
        (*end > block).then_some(*record)
    }

    /// The ranges, in order.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().map(|(start, (end, _))| *start..*end)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
