//! The commands in flight on a connection, by slot.

use crate::spec::{Sqe, Status};

/// Bytes of memory that free slots keep for the data of their next commands, at most: as many as are under way at a time by default.
const KEPT: usize = 8 << 20;

/// Where a command in flight is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits until data may be asked for: too much of it is under way.
    WaitsForRoom,
    /// An R2T is out: data are coming.
    Receiving,
    /// With the medium.
    Submitted,
    /// Waits for an event.
    Event,
}

/// A command in flight.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) sqe: Sqe,
    pub(super) phase: Phase,
    /// Data that have come; kept for the next command of the slot.
    pub(super) data: Vec<u8>,
    /// Bytes of data that are to come.
    pub(super) expected: u32,
    /// Bytes of the connection's window that it holds, from when its data are asked for until it has ended.
    pub(super) window: u32,
    /// When its data were asked for.
    pub(super) asked_at: u64,
    /// What is already wrong with it, whatever the medium says.
    pub(super) fault: Option<Status>,
}

/// The slots of a connection: as many as its queue has entries, made when first needed.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    used: Vec<bool>,
    free: Vec<u16>,
    /// Bytes of memory that free slots have.
    kept: usize,
    depth: u16,
}

impl Slots {
    pub(super) fn new(depth: u16) -> Self {
        Self { slots: Vec::new(), used: Vec::new(), free: Vec::new(), kept: 0, depth }
    }

    /// How many there are, made or not.
    pub(super) fn depth(&self) -> u16 {
        self.depth
    }

    /// A slot for a command; `None` where the host has more commands in flight than its queue has entries.
    pub(super) fn take(&mut self, sqe: Sqe, phase: Phase) -> Option<u16> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < usize::from(self.depth) => {
                let data = Vec::new();
                self.slots.push(Slot { sqe, phase, data, expected: 0, window: 0, asked_at: 0, fault: None });
                self.used.push(false);
                (self.slots.len() - 1) as u16
            }
            None => return None,
        };
        let slot = &mut self.slots[usize::from(index)];
        self.kept -= slot.data.capacity().min(self.kept);
        slot.sqe = sqe;
        slot.phase = phase;
        slot.data.clear();
        slot.expected = 0;
        slot.window = 0;
        slot.fault = None;
        self.used[usize::from(index)] = true;
        Some(index)
    }

    /// Bytes of memory that free slots have.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Lets go of that memory.
    pub(super) fn let_go(&mut self) {
        for index in &self.free {
            self.slots[usize::from(*index)].data = Vec::new();
        }
        self.kept = 0;
    }

    pub(super) fn get(&mut self, index: u16) -> Option<&mut Slot> {
        let at = usize::from(index);
        if self.used.get(at).copied()? { self.slots.get_mut(at) } else { None }
    }

    pub(super) fn free(&mut self, index: u16) {
        if let Some(used) = self.used.get_mut(usize::from(index)).filter(|used| **used) {
            *used = false;
            self.free.push(index);
            let data = &mut self.slots[usize::from(index)].data;
            if self.kept + data.capacity() > KEPT {
                *data = Vec::new();
            }
            self.kept += data.capacity();
        }
    }

    /// Slots in use whose command is as `wanted`.
    pub(super) fn find(&self, wanted: impl Fn(&Slot) -> bool) -> Option<u16> {
        let place = self.slots.iter().zip(&self.used).position(|(slot, used)| *used && wanted(slot));
        place.map(|at| at as u16)
    }

    /// How many commands are in flight as `wanted`.
    pub(super) fn count(&self, wanted: impl Fn(&Slot) -> bool) -> usize {
        self.slots.iter().zip(&self.used).filter(|(slot, used)| **used && wanted(slot)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that had a megabyte of data in each of its commands, and now has none in flight.
    #[test]
    fn free_slots_keep_memory_within_a_bound() {
        let mut slots = Slots::new(128);
        let take = |slots: &mut Slots| {
            let index = slots.take(Sqe::new(1, 1), Phase::Receiving).unwrap();
            slots.get(index).unwrap().data.resize(1 << 20, 0);
            index
        };
        for _ in 0..3 {
            let taken: Vec<u16> = (0..128).map(|_| take(&mut slots)).collect();
            assert!(slots.take(Sqe::new(1, 1), Phase::Receiving).is_none());
            taken.iter().for_each(|index| slots.free(*index));
            let kept: usize = slots.slots.iter().map(|slot| slot.data.capacity()).sum();
            assert!((1..=KEPT).contains(&kept), "{kept}");
            assert_eq!(kept, slots.kept);
        }
        // One command after the other: always the same memory.
        let index = take(&mut slots);
        slots.free(index);
        let again = slots.take(Sqe::new(1, 1), Phase::Receiving).unwrap();
        assert_eq!(again, index);
    }
}
