//! Blocks: which are free, open, closed or retired, and how many live pages they hold.

use crate::chip::{BlockId, Geometry, Ppn};
use crate::ftl::dedup::Stream;
use crate::ftl::tag::generation_of;
use crate::ftl::victim::{BlockFacts, Victim};
use std::collections::{BTreeMap, BTreeSet};

/// The state of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Not the translation layer's: the journal has it.
    Reserved,
    /// Holds nothing live.
    Free,
    /// Its pages are being programmed.
    Open,
    /// May become a victim.
    Closed,
    /// A program in it failed: to be evacuated and retired.
    Failing,
    /// Never to be programmed again.
    Retired,
}

/// All blocks of a drive.
#[derive(Debug)]
pub(crate) struct Blocks {
    geometry: Geometry,
    state: Vec<State>,
    live: Vec<u32>,
    closed_at: Vec<u64>,
    erases: Vec<u32>,
    /// The number of blocks that are not reserved and were erased so often, and the sum of their
    /// erases.
    worn: BTreeMap<u32, u32>,
    all_erases: u64,
    /// Live pages of all blocks.
    all_live: u32,
    /// True if a free block is known to be erased.
    erased: Vec<bool>,
    /// Number of the last change that made a page of a free block dead.
    free_at: Vec<u64>,
    /// The number of the record that what the pages of a free block say is void; 0: none.
    void_at: Vec<u64>,
    /// True if the log since the last checkpoint has a record of a block.
    recorded: Vec<bool>,
    stream: Vec<Stream>,
    /// Free blocks by wear: those that are erased, and those that are not.
    ready: BTreeSet<(u32, u32)>,
    used: BTreeSet<(u32, u32)>,
    victim: Box<dyn Victim>,
    /// Blocks to be evacuated and retired.
    pub(crate) failing: Vec<u32>,
    /// Page programs since the start.
    pub(crate) clock: u64,
}

impl Blocks {
    /// Blocks that are free, but for the first `reserved`.
    pub(crate) fn new(geometry: Geometry, reserved: u32, erased: bool, victim: Box<dyn Victim>) -> Self {
        let n = geometry.blocks as usize;
        let mut state = vec![State::Free; n];
        state[..reserved as usize].fill(State::Reserved);
        let free = (reserved..geometry.blocks).map(|block| (0, block)).collect();
        let (ready, used) = if erased { (free, BTreeSet::new()) } else { (BTreeSet::new(), free) };
        Self {
            geometry,
            state,
            live: vec![0; n],
            closed_at: vec![0; n],
            erases: vec![0; n],
            worn: BTreeMap::from([(0, geometry.blocks - reserved)]),
            all_erases: 0,
            all_live: 0,
            erased: vec![erased; n],
            free_at: vec![0; n],
            void_at: vec![0; n],
            recorded: vec![false; n],
            stream: vec![Stream::UNIQUE; n],
            ready,
            used,
            victim,
            failing: Vec::new(),
            clock: 0,
        }
    }

    pub(crate) fn free(&self) -> usize {
        self.ready.len() + self.used.len()
    }

    pub(crate) fn live(&self, block: u32) -> u32 {
        self.live[block as usize]
    }

    pub(crate) fn state(&self, block: u32) -> State {
        self.state[block as usize]
    }

    pub(crate) fn erases(&self, block: u32) -> u32 {
        self.erases[block as usize]
    }

    /// The generation of pages that are programmed in a block now.
    pub(crate) fn generation(&self, block: u32) -> u16 {
        generation_of(self.erases(block))
    }

    /// Returns whether the log since the last checkpoint says that a block may be programmed.
    pub(crate) fn is_recorded(&self, block: BlockId) -> bool {
        self.recorded[block.0 as usize]
    }

    /// A new log begins.
    pub(crate) fn log_begins(&mut self) {
        self.recorded.fill(false);
    }

    pub(crate) fn block_of(&self, page: Ppn) -> u32 {
        self.geometry.block_of(page).0
    }

    /// The stream that a block was last taken for.
    pub(crate) fn stream(&self, block: u32) -> Stream {
        self.stream[block as usize]
    }

    /// Takes a free block: the least worn, or the most worn for data that stay long. With
    /// `ready_first`, blocks that are not erased are taken only if no other is left.
    pub(crate) fn take(&mut self, stream: Stream, ready_first: bool) -> Option<BlockId> {
        let next = |set: &BTreeSet<(u32, u32)>| {
            if stream.stays() { set.last().copied() } else { set.first().copied() }
        };
        let (_, block) = match (next(&self.ready), next(&self.used)) {
            (Some(ready), Some(used)) if !ready_first && stream.stays() => ready.max(used),
            (Some(ready), Some(used)) if !ready_first => ready.min(used),
            (ready, used) => ready.or(used)?,
        };
        self.remove_free(block);
        assert!(self.live(block) == 0, "F5: a block that is taken holds nothing live: {block}");
        self.stream[block as usize] = stream;
        self.state[block as usize] = State::Open;
        Some(BlockId(block))
    }

    fn remove_free(&mut self, block: u32) {
        let key = (self.erases[block as usize], block);
        let _ = self.ready.remove(&key) || self.used.remove(&key);
    }

    fn insert_free(&mut self, block: u32) {
        let set = if self.erased[block as usize] { &mut self.ready } else { &mut self.used };
        set.insert((self.erases[block as usize], block));
    }

    /// Returns whether a block that was taken must be erased first.
    pub(crate) fn must_erase(&self, block: BlockId) -> bool {
        !self.erased[block.0 as usize]
    }

    /// Live pages of all blocks.
    pub(crate) fn all_live(&self) -> u32 {
        self.all_live
    }

    fn set_erases(&mut self, block: u32, erases: u32) {
        let was = std::mem::replace(&mut self.erases[block as usize], erases);
        if let Some(blocks) = self.worn.get_mut(&was) {
            *blocks -= 1;
            if *blocks == 0 {
                self.worn.remove(&was);
            }
        }
        *self.worn.entry(erases).or_default() += 1;
        self.all_erases = self.all_erases - u64::from(was) + u64::from(erases);
    }

    /// Counts up to the largest number. A checkpoint may hold any: a count is advice for wear
    /// levelling, and no reason to refuse the data of a drive.
    fn count_erase(&mut self, block: BlockId) {
        self.set_erases(block.0, self.erases[block.0 as usize].saturating_add(1));
    }

    pub(crate) fn was_erased(&mut self, block: BlockId) {
        self.count_erase(block);
        self.erased[block.0 as usize] = false;
        self.void_at[block.0 as usize] = 0;
    }

    /// Free blocks: how many are erased, and how many are not.
    pub(crate) fn free_by_erase(&self) -> (usize, usize) {
        (self.ready.len(), self.used.len())
    }

    /// Returns whether fewer than `keep` blocks stay free if all changes after `durable` are lost,
    /// and more would if none is.
    pub(crate) fn may_come_back(&self, durable: u64, keep: usize) -> bool {
        let free = self.ready.iter().chain(&self.used);
        let sure = free.filter(|(_, block)| self.free_at[*block as usize] <= durable).take(keep).count();
        sure < keep && sure < self.free()
    }

    /// The number up to which changes made the pages of a free block dead.
    pub(crate) fn free_at(&self, block: BlockId) -> u64 {
        self.free_at[block.0 as usize]
    }

    /// The number of the record that what the pages of a free block say is void, if there is one.
    pub(crate) fn void_at(&self, block: BlockId) -> Option<u64> {
        Some(self.void_at[block.0 as usize]).filter(|at| *at > 0)
    }

    /// There is a record now, under this number, that what the pages of a free block say is void.
    pub(crate) fn set_void(&mut self, block: BlockId, seq: u64) {
        self.void_at[block.0 as usize] = seq;
        self.recorded[block.0 as usize] = true;
    }

    /// Of the free blocks that are not erased, those that may be erased, as their record is
    /// durable, until `many` are; and some that may get a record, as what made them free is
    /// durable.
    pub(crate) fn to_advance(&self, durable: u64, many: usize) -> (Vec<BlockId>, Vec<BlockId>) {
        let next = self.used.iter().map(|&(_, block)| BlockId(block)).take(2 * many);
        let (void, dead): (Vec<_>, Vec<_>) = next.partition(|block| self.void_at(*block).is_some());
        let few = many.saturating_sub(self.ready.len());
        let void = void.into_iter().filter(|block| self.void_at[block.0 as usize] <= durable).take(few);
        let dead = dead.into_iter().filter(|block| self.free_at(*block) <= durable).take(many);
        (void.collect(), dead.collect())
    }

    /// Free blocks that are not erased, in the order in which a stream would take them.
    pub(crate) fn to_erase(&self, stream: Stream, most: usize) -> Vec<BlockId> {
        let id = |&(_, block): &(u32, u32)| BlockId(block);
        if stream.stays() {
            self.used.iter().rev().take(most).map(id).collect()
        } else {
            self.used.iter().take(most).map(id).collect()
        }
    }

    /// A free block was erased before it is taken.
    pub(crate) fn erased_ahead(&mut self, block: BlockId) {
        let b = block.0 as usize;
        self.remove_free(block.0);
        self.count_erase(block);
        (self.erased[b], self.void_at[b]) = (true, 0);
        self.insert_free(block.0);
    }

    pub(crate) fn close(&mut self, block: BlockId) {
        self.erased[block.0 as usize] = false;
        self.state[block.0 as usize] = State::Closed;
        self.closed_at[block.0 as usize] = self.clock;
        self.victim.closed(block.0, self.live[block.0 as usize]);
    }

    /// A program in a block failed.
    pub(crate) fn fail(&mut self, block: BlockId) {
        self.state[block.0 as usize] = State::Failing;
        self.failing.push(block.0);
    }

    pub(crate) fn retire(&mut self, block: u32) {
        assert!(self.live(block) == 0, "F7: a block is retired when no live page lies in it: {block}");
        self.state[block as usize] = State::Retired;
        self.remove_free(block);
    }

    /// All live pages of a block that is no victim any more are gone, by changes with numbers up to
    /// this one.
    pub(crate) fn release(&mut self, block: u32, seq: u64) {
        assert!(self.live(block) == 0, "F6: a block is free when no live page lies in it: {block}");
        self.state[block as usize] = State::Free;
        (self.free_at[block as usize], self.void_at[block as usize]) = (seq, 0);
        self.insert_free(block);
    }

    pub(crate) fn page_born(&mut self, page: Ppn) {
        let block = self.geometry.block_of(page).0;
        let live = self.live(block);
        assert!(
            live < self.geometry.pages_per_block,
            "F8: a block has no more live pages than pages: {block}"
        );
        self.live[block as usize] += 1;
        self.all_live += 1;
        self.tell(block);
    }

    fn tell(&mut self, block: u32) {
        if self.state[block as usize] == State::Closed {
            self.victim.changed(block, self.live[block as usize]);
        }
    }

    pub(crate) fn page_died(&mut self, page: Ppn) {
        let block = self.geometry.block_of(page).0;
        assert!(self.live(block) > 0, "F8: a page dies once: block {block}");
        self.live[block as usize] -= 1;
        self.all_live -= 1;
        self.tell(block);
    }

    /// Chooses a victim with at most so many live pages and takes it out of the closed blocks; it
    /// counts as open until it is released.
    pub(crate) fn pick(&mut self, most_live: u32) -> Option<u32> {
        let block = self.choose(most_live)?;
        self.take_closed(block);
        Some(block)
    }

    /// Takes a block as a victim, if it is closed.
    pub(crate) fn take_closed(&mut self, block: u32) -> bool {
        let closed = self.state[block as usize] == State::Closed;
        if closed {
            self.victim.taken(block);
            self.state[block as usize] = State::Open;
        }
        closed
    }

    /// The victim that would be chosen now.
    pub(crate) fn choose(&mut self, most_live: u32) -> Option<u32> {
        let facts = BlockFacts {
            live: &self.live,
            closed_at: &self.closed_at,
            now: self.clock,
            pages_per_block: self.geometry.pages_per_block,
        };
        self.victim.pick(facts).filter(|&block| self.live[block as usize] <= most_live)
    }

    /// The closed block with the fewest erases, if the most worn block has more than `threshold`
    /// more.
    pub(crate) fn take_coldest(&mut self, threshold: u32) -> Option<u32> {
        let usable = |block: &u32| !matches!(self.state(*block), State::Reserved | State::Retired);
        let most = (0..self.geometry.blocks).filter(usable).map(|b| self.erases(b)).max()?;
        let closed = (0..self.geometry.blocks).filter(|&b| self.state(b) == State::Closed);
        let coldest = closed.min_by_key(|&b| self.erases(b))?;
        if most - self.erases(coldest) <= threshold {
            return None;
        }
        self.victim.taken(coldest);
        self.state[coldest as usize] = State::Open;
        Some(coldest)
    }

    /// Puts a block as recovery found it: free blocks may hold old pages.
    pub(crate) fn restore(&mut self, block: u32, erases: u32, retired: bool, stream: Stream, live: u32) {
        let b = block as usize;
        self.remove_free(block);
        self.stream[b] = stream;
        self.set_erases(block, erases);
        self.all_live = self.all_live - self.live[b] + live;
        (self.live[b], self.erased[b]) = (live, false);
        if retired {
            self.state[b] = State::Retired;
        } else if live == 0 {
            self.state[b] = State::Free;
            self.insert_free(block);
        } else {
            self.close(BlockId(block));
        }
    }

    /// Fewest, mean and most erases of the blocks that hold data.
    pub(crate) fn wear(&self) -> (u32, f64, u32) {
        let first = |entry: Option<(&u32, &u32)>| entry.map_or(0, |(erases, _)| *erases);
        let (low, high) = (first(self.worn.first_key_value()), first(self.worn.last_key_value()));
        let blocks: u32 = self.worn.values().sum();
        (low, self.all_erases as f64 / f64::from(blocks.max(1)), high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::victim::Greedy;

    #[test]
    fn a_block_with_the_most_erases_that_can_be_counted_is_used_like_others() {
        let geometry =
            Geometry { blocks: 4, pages_per_block: 4, channels: 1, page_bytes: 256, oob_bytes: 128 };
        let mut blocks = Blocks::new(geometry, 0, false, Box::new(Greedy::new(4, 4)));
        for block in 0..4 {
            blocks.restore(block, u32::MAX, false, Stream::UNIQUE, 0);
        }
        blocks.erased_ahead(BlockId(2));
        assert_eq!(blocks.free_by_erase(), (1, 3));
        let taken = blocks.take(Stream::UNIQUE, true).unwrap();
        assert_eq!((taken, blocks.must_erase(taken)), (BlockId(2), false));
        let taken = blocks.take(Stream::UNIQUE, true).unwrap();
        assert!(blocks.must_erase(taken));
        blocks.was_erased(taken);
        blocks.release(taken.0, 1);
        assert_eq!(blocks.wear(), (u32::MAX, f64::from(u32::MAX), u32::MAX));
        assert_eq!(blocks.take_coldest(64), None);
    }
}
