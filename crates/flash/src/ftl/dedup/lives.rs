//! The time for which contents and logical pages lived before, in host writes.

use super::filter::Spreading;
use crate::chip::Ppn;
use std::collections::{HashMap, VecDeque};

/// The mean moves by one part in so many.
const SMOOTH: f32 = 1_024.0;

/// The facts of past lives. A dead content is remembered until as many others as the drive has
/// pages died.
#[derive(Debug)]
pub(super) struct Lives {
    born: Vec<u32>,
    /// The last life of contents that are dead, by weak hash.
    contents: HashMap<u32, u32, Spreading>,
    /// Their weak hashes in the order of their deaths.
    order: VecDeque<u32>,
    room: usize,
    mean: f32,
}

impl Lives {
    pub(super) fn new(physical: u32, logical: u32) -> Self {
        Self {
            born: vec![0; physical as usize],
            contents: HashMap::default(),
            // It fills up in time, and would grow to a power of two.
            order: VecDeque::with_capacity(physical as usize + 1),
            room: physical as usize,
            mean: logical as f32,
        }
    }

    pub(super) fn of_content(&self, weak: u32) -> Option<u32> {
        self.contents.get(&weak).copied()
    }

    /// The time for which the version of a logical page lived that a write replaces now.
    pub(super) fn of_lpn(&self, _lpn: u32, old: Option<Ppn>, now: u32) -> Option<u32> {
        old.map(|page| now.wrapping_sub(self.born[page.0 as usize]))
    }

    /// The moving mean of the lives of overwritten versions.
    pub(super) fn mean(&self) -> f32 {
        self.mean
    }

    pub(super) fn age(&self, page: Ppn, now: u32) -> u32 {
        now.wrapping_sub(self.born[page.0 as usize])
    }

    pub(super) fn born(&mut self, page: Ppn, now: u32) {
        self.born[page.0 as usize] = now;
    }

    pub(super) fn moved(&mut self, from: Ppn, to: Ppn) {
        self.born[to.0 as usize] = self.born[from.0 as usize];
    }

    /// A page died: by an overwrite or trim of an LPN, and as the last of a content, if so.
    pub(super) fn died(&mut self, page: Ppn, overwrites: Option<u32>, content: Option<u32>, now: u32) {
        let life = self.age(page, now);
        if overwrites.is_some() {
            self.mean += (life as f32 - self.mean) / SMOOTH;
        }
        let Some(weak) = content else { return };
        if self.contents.insert(weak, life).is_none() {
            self.order.push_back(weak);
        }
        if self.order.len() > self.room
            && let Some(oldest) = self.order.pop_front()
        {
            self.contents.remove(&oldest);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        4 * self.born.len() as u64 + 12 * self.contents.len() as u64
    }
}
