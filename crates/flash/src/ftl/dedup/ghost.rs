//! Ghosts: the drive in small, once for each way to choose streams, without data.

use super::streams::{Features, Stream, Way};
use crate::chip::Ppn;

const NONE: u32 = u32::MAX;
/// Pages of a ghost at most: a larger drive is sampled.
const PAGES: u32 = 1 << 15;
/// A page of so many is followed at least on the largest drives; the ghost grows instead.
const BLOCK: u32 = 64;
/// Counts of copies are halved each time so many writes were seen, in sizes of the drive.
const HALF_LIFE: f64 = 0.5;
/// Another way must have copied less than this share of the present one.
const BETTER: f64 = 0.97;

/// One ghost: greedy garbage collection over block counters.
#[derive(Debug)]
struct Ghost {
    way: Way,
    per_block: u32,
    /// Page numbers by place; a place is live if its page's place is it.
    held: Vec<u32>,
    place: Vec<u32>,
    live: Vec<u32>,
    free: Vec<u32>,
    /// The next place of each stream.
    open: [Option<u32>; Stream::COUNT],
    is_open: Vec<bool>,
    recent: f64,
    copies: u64,
}

impl Ghost {
    fn new(way: Way, blocks: u32, per_block: u32) -> Self {
        let pages = (blocks * per_block) as usize;
        Self {
            way,
            per_block,
            held: vec![NONE; pages],
            place: vec![NONE; pages],
            live: vec![0; blocks as usize],
            free: (0..blocks).rev().collect(),
            open: [None; Stream::COUNT],
            is_open: vec![false; blocks as usize],
            recent: 0.0,
            copies: 0,
        }
    }

    /// Writes a page; false if there is no room, which a ghost in small may meet before its drive
    /// does.
    fn put(&mut self, id: u32, stream: Stream) -> bool {
        let s = usize::from(stream.0);
        if self.open[s].is_none() {
            let Some(block) = self.free.pop() else { return false };
            self.is_open[block as usize] = true;
            self.open[s] = Some(block * self.per_block);
        }
        let Some(at) = self.open[s] else { return false };
        let block = at / self.per_block;
        self.held[at as usize] = id;
        self.place[id as usize] = at;
        self.live[block as usize] += 1;
        let next = at + 1;
        self.open[s] = (next % self.per_block != 0).then_some(next);
        self.is_open[block as usize] = self.open[s].is_some();
        true
    }

    fn die(&mut self, id: u32) {
        let at = std::mem::replace(&mut self.place[id as usize], NONE);
        if at != NONE {
            self.live[(at / self.per_block) as usize] -= 1;
        }
    }

    fn collect(&mut self, ages: &[u32], now: u32, mean: f32) {
        let reserve = self.way.streams().1 as usize + 1;
        let mut rounds = 0;
        while self.free.len() <= reserve && rounds < 8 {
            rounds += 1;
            let closed = (0..self.live.len()).filter(|&b| !self.is_open[b] && !self.free_has(b));
            let Some(victim) = closed.min_by_key(|&b| self.live[b]) else { return };
            if self.live[victim] == self.per_block {
                return;
            }
            let from = victim as u32 * self.per_block;
            for at in from..from + self.per_block {
                let id = std::mem::replace(&mut self.held[at as usize], NONE);
                if id == NONE || self.place[id as usize] != at {
                    continue;
                }
                self.die(id);
                let age = now.wrapping_sub(ages[id as usize]);
                if self.put(id, self.way.collected(Some((age, mean)))) {
                    self.copies += 1;
                    self.recent += 1.0;
                }
            }
            self.free.push(victim as u32);
        }
    }

    fn free_has(&self, block: usize) -> bool {
        self.live[block] == 0 && self.free.contains(&(block as u32))
    }
}

/// All ghosts, and which is best.
#[derive(Debug)]
pub(super) struct Ghosts {
    ghosts: Vec<Ghost>,
    /// One page in so many is followed.
    sample: u32,
    /// The ghosts' number of a physical page.
    id_of: Vec<u32>,
    /// The time when each followed page was written.
    written: Vec<u32>,
    vacant: Vec<u32>,
    arriving: Option<Features>,
    best: usize,
    decay: f64,
    changes: u64,
}

impl Ghosts {
    pub(super) fn new(physical: u32) -> Self {
        let sample = physical.div_ceil(PAGES).max(1);
        let per_block = (BLOCK / sample).max(8);
        let blocks = (physical / sample).div_ceil(per_block).max(16);
        let pages = blocks * per_block;
        let ghosts = Way::GHOSTS.into_iter().map(|way| Ghost::new(way, blocks, per_block)).collect();
        Self {
            ghosts,
            sample,
            id_of: vec![NONE; physical as usize],
            written: vec![0; pages as usize],
            vacant: (0..pages).rev().collect(),
            arriving: None,
            best: 0,
            decay: 0.5_f64.powf(1.0 / (HALF_LIFE * f64::from(pages))),
            changes: 0,
        }
    }

    pub(super) fn best(&self) -> Way {
        self.ghosts[self.best].way
    }

    pub(super) fn arrive(&mut self, write: Features) {
        self.arriving = Some(write);
    }

    pub(super) fn born(&mut self, page: Ppn, now: u32) {
        let Some(write) = self.arriving.take() else { return };
        // A multiplicative hash of the number of the write: followed pages are spread evenly.
        let drawn = (u64::from(now.wrapping_mul(0x9e37_79b1)) * u64::from(self.sample)) >> 32;
        if drawn != 0 {
            return;
        }
        let Some(id) = self.vacant.pop() else { return };
        self.id_of[page.0 as usize] = id;
        self.written[id as usize] = now;
        for ghost in &mut self.ghosts {
            ghost.recent *= self.decay;
            ghost.collect(&self.written, now, write.mean_life);
            ghost.put(id, ghost.way.host(&write));
        }
        self.choose();
    }

    fn choose(&mut self) {
        let recent = |i: usize| self.ghosts[i].recent;
        let least = (0..self.ghosts.len()).min_by(|&a, &b| recent(a).total_cmp(&recent(b)));
        if let Some(least) = least
            && recent(least) < BETTER * recent(self.best)
        {
            self.best = least;
            self.changes += 1;
        }
    }

    pub(super) fn died(&mut self, page: Ppn) {
        let id = std::mem::replace(&mut self.id_of[page.0 as usize], NONE);
        if id != NONE {
            self.ghosts.iter_mut().for_each(|ghost| ghost.die(id));
            self.vacant.push(id);
        }
    }

    pub(super) fn moved(&mut self, from: Ppn, to: Ppn) {
        self.id_of[to.0 as usize] = std::mem::replace(&mut self.id_of[from.0 as usize], NONE);
    }

    /// The copies of each way since the start, scaled to the drive.
    pub(super) fn totals(&self) -> Vec<(Way, u64)> {
        self.ghosts.iter().map(|g| (g.way, g.copies * u64::from(self.sample))).collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        let pages = self.written.len() as u64;
        4 * self.id_of.len() as u64 + 8 * pages + self.ghosts.len() as u64 * 8 * pages
    }
}
