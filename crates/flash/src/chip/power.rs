//! Effects of a power cut.

use crate::chip::slot::Slot;
use crate::chip::{MemoryNand, Ppn, Random, Tear};

impl<P: Tear, O: Tear> MemoryNand<P, O> {
    /// Cuts the power, if it is not cut yet, and brings it back. Each page that was programmed or
    /// erased since the last sync holds, as `seed` decides, one of its contents since then, or a
    /// torn one, or nothing readable.
    pub fn power_cycle(&mut self, seed: u64) {
        let mut random = Random::new(seed);
        // The share of operations that took hold differs from cut to cut: often all of them or
        // none.
        let kept = [0, 1, 50, 90, 99, 100][random.below(6) as usize];
        let history = std::mem::take(&mut self.history);
        for (page, versions) in history.into_pages() {
            if random.below(100) < kept {
                continue;
            }
            let slot = &mut self.slots[page as usize];
            let torn = match (&*slot, random.below(4)) {
                (Slot::Holds(data, oob), 0) => Slot::Holds(data.torn(random.next_u64()), oob.clone()),
                (Slot::Holds(data, oob), 1) => {
                    Slot::Holds(data.torn(random.next_u64()), oob.torn(random.next_u64()))
                }
                (_, 0) => Slot::Unreadable,
                _ => versions[random.below(versions.len() as u64) as usize].clone(),
            };
            *slot = torn;
        }
        let pages = self.next.len().max(1);
        let per_block = self.slots.len() / pages;
        for (block, next) in self.next.iter_mut().enumerate() {
            let slots = &self.slots[block * per_block..(block + 1) * per_block];
            *next = slots.iter().rposition(|s| !matches!(s, Slot::Erased)).map_or(0, |i| i as u32 + 1);
        }
        self.dead = false;
        if let Some(faults) = &mut self.faults {
            faults.cut_after = None;
        }
    }

    /// Changes one bit in the out-of-band bytes of a page; false if the page holds nothing.
    /// `random` decides which.
    pub fn rot_oob(&mut self, page: Ppn, random: u64) -> bool {
        match &mut self.slots[page.0 as usize] {
            Slot::Holds(_, oob) => {
                *oob = oob.rotten(random);
                true
            }
            Slot::Erased | Slot::Unreadable => false,
        }
    }

    /// Nothing of a page can be read any more, until its block is erased.
    pub fn lose(&mut self, page: Ppn) {
        if !matches!(self.slots[page.0 as usize], Slot::Erased) {
            self.slots[page.0 as usize] = Slot::Unreadable;
        }
    }

    /// Changes one bit in the data of a page, whatever page that is; false if the page holds
    /// nothing.
    pub fn rot(&mut self, page: Ppn, random: u64) -> bool {
        match &mut self.slots[page.0 as usize] {
            Slot::Holds(data, _) => {
                *data = data.rotten(random);
                true
            }
            Slot::Erased | Slot::Unreadable => false,
        }
    }
}
