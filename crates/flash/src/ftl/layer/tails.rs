//! The last page of each block that was programmed before a sync. Tags that come later name them,
//! so that recovery can tell a durable page that lost its tag from one that a cut tore.

use crate::chip::{BlockId, Geometry, Ppn};
use crate::ftl::tag::Tails;
use std::collections::{BTreeMap, VecDeque};

/// Entries that are searched for a block: about as many as there are streams.
const NEAR: usize = 8;

/// The last durable page of a block.
#[derive(Debug, Clone, Copy)]
struct Tail {
    page: Ppn,
    /// The block with the tag that says so, if there is one.
    said_in: Option<BlockId>,
}

/// The tails that tags are to say of pages that became durable since the last checkpoint.
#[derive(Debug)]
pub(super) struct DurableTails {
    geometry: Geometry,
    /// True if there is a recovery for which to keep them.
    kept: bool,
    /// The last pages that were programmed since the last sync, with the numbers of their programs;
    /// a block may have several.
    since: Vec<(Ppn, u64)>,
    /// The last number that a sync under way covers.
    syncing: u64,
    tails: BTreeMap<BlockId, Tail>,
    /// Blocks whose tail is in no tag yet; some may be void since.
    to_say: VecDeque<BlockId>,
}

impl DurableTails {
    pub(super) fn new(geometry: Geometry, kept: bool) -> Self {
        let (since, syncing) = (Vec::new(), 0);
        Self { geometry, kept, since, syncing, tails: BTreeMap::new(), to_say: VecDeque::new() }
    }

    /// A page was programmed under this number.
    pub(super) fn programmed(&mut self, page: Ppn, seq: u64) {
        if !self.kept {
            return;
        }
        let block = self.geometry.block_of(page);
        let (geometry, syncing) = (self.geometry, self.syncing);
        // A page that a sync under way covers is the last one of its block for that sync.
        let of_block = |last: &&mut (Ppn, u64)| geometry.block_of(last.0) == block && last.1 > syncing;
        match self.since.iter_mut().rev().take(NEAR).find(of_block) {
            Some(last) => *last = (page, seq),
            None => self.since.push((page, seq)),
        }
    }

    /// A sync began that covers the programs up to this number.
    pub(super) fn sync_began(&mut self, upto: u64) {
        self.syncing = upto;
    }

    /// The programs up to this number are durable.
    pub(super) fn synced(&mut self, upto: u64) {
        for (page, _) in self.since.extract_if(.., |(_, seq)| *seq <= upto) {
            let block = self.geometry.block_of(page);
            self.tails.insert(block, Tail { page, said_in: None });
            self.to_say.push_back(block);
        }
    }

    /// Returns whether a page is durable of which no tag says so.
    pub(super) fn are_unsaid(&self) -> bool {
        let unsaid = |block| self.tails.get(block).is_some_and(|tail| tail.said_in.is_none());
        self.to_say.iter().any(unsaid)
    }

    /// The tails that the tag of a page of the block `carrier` is to say.
    pub(super) fn carry(&mut self, carrier: BlockId) -> Tails {
        let mut said = Tails::default();
        let mut left = said.iter_mut();
        while let Some(block) = self.to_say.pop_front() {
            let Some(tail) = self.tails.get_mut(&block).filter(|tail| tail.said_in.is_none()) else {
                continue;
            };
            let Some(word) = left.next() else {
                self.to_say.push_front(block);
                break;
            };
            *word = tail.page.0 + 1;
            tail.said_in = Some(carrier);
        }
        said
    }

    /// The tails that tags of a block say count no more: it is void, or one of its pages failed.
    pub(super) fn say_again(&mut self, carrier: BlockId) {
        for (block, tail) in &mut self.tails {
            if tail.said_in == Some(carrier) {
                tail.said_in = None;
                self.to_say.push_back(*block);
            }
        }
    }

    /// A block is void: nothing is said of it, nor by it.
    pub(super) fn void(&mut self, block: BlockId) {
        let geometry = self.geometry;
        self.since.retain(|(page, _)| geometry.block_of(*page) != block);
        self.tails.remove(&block);
        self.say_again(block);
    }

    /// A checkpoint knows all pages that were programmed before it.
    pub(super) fn clear(&mut self) {
        self.tails.clear();
        self.to_say.clear();
    }
}

/// The pages that a tag names.
pub(super) fn named(tails: Tails) -> impl Iterator<Item = Ppn> {
    tails.into_iter().filter_map(|tail| tail.checked_sub(1).map(Ppn))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Geometry =
        Geometry { blocks: 9, pages_per_block: 8, channels: 1, page_bytes: 512, oob_bytes: 128 };

    fn said(tails: &mut DurableTails, carrier: u32) -> Vec<u32> {
        named(tails.carry(SHAPE.block_of(Ppn(carrier)))).map(|page| page.0).collect()
    }

    #[test]
    fn tails_are_said_once_after_a_sync_and_again_if_their_tag_is_void() {
        let mut tails = DurableTails::new(SHAPE, true);
        (1..).zip([0, 1, 8, 2, 16, 24, 32, 9]).for_each(|(seq, page)| tails.programmed(Ppn(page), seq));
        assert_eq!(said(&mut tails, 40), [0; 0], "nothing is durable yet");
        tails.synced(8);
        assert_eq!(said(&mut tails, 40), [2, 9, 16, 24]);
        assert_eq!(said(&mut tails, 48), [32]);
        assert_eq!(said(&mut tails, 49), [0; 0]);
        // The first block is void, and so is one whose tag named four.
        tails.void(BlockId(0));
        tails.void(BlockId(5));
        assert_eq!(said(&mut tails, 50), [9, 16, 24]);
        tails.void(BlockId(6));
        tails.clear();
        assert_eq!(said(&mut tails, 56), [0; 0], "a checkpoint knows them");
    }

    #[test]
    fn a_sync_says_nothing_of_pages_that_were_programmed_after_it_began() {
        let mut tails = DurableTails::new(SHAPE, true);
        (1..).zip([0, 1, 8]).for_each(|(seq, page)| tails.programmed(Ppn(page), seq));
        tails.sync_began(3);
        (4..).zip([2, 16, 3]).for_each(|(seq, page)| tails.programmed(Ppn(page), seq));
        tails.synced(3);
        assert_eq!(said(&mut tails, 40), [1, 8]);
        tails.synced(6);
        assert_eq!(said(&mut tails, 41), [3, 16]);
    }
}
