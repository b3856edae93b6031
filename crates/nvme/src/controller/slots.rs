//! The commands in flight on a connection, by slot.

use crate::spec::{Sqe, Status};
use std::collections::VecDeque;

/// Bytes of memory that are kept for the data of the next commands, at most: as many as are under
/// way at a time by default.
const KEPT: usize = 8 << 20;

/// Phase of a command in flight.
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
    /// Data that have come.
    pub(super) data: Vec<u8>,
    /// Bytes of data that are to come.
    pub(super) expected: u32,
    /// Bytes of the connection's window that it holds, from when its data are asked for until it
    /// has ended: all of the memory that it has for them.
    pub(super) window: u32,
    /// Time at which its data were asked for.
    pub(super) asked_at: u64,
    /// A fault found already; it overrides the outcome of the medium.
    pub(super) fault: Option<Status>,
    /// Bytes of blocks that count as read or written if it succeeds.
    pub(super) counts: Option<Counts>,
}

/// Bytes of blocks that a command moves.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counts {
    Read(u64),
    Written(u64),
}

/// The slots of a connection: as many as its queue has entries, made when first needed.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    used: Vec<bool>,
    free: Vec<u16>,
    /// Memory of commands that have ended, for the data of others; the oldest comes first.
    spare: VecDeque<Vec<u8>>,
    /// Bytes of it.
    kept: usize,
    depth: u16,
}

impl Slots {
    pub(super) fn new(depth: u16) -> Self {
        Self { slots: Vec::new(), used: Vec::new(), free: Vec::new(), spare: VecDeque::new(), kept: 0, depth }
    }

    /// Number of slots, made or not.
    pub(super) fn depth(&self) -> u16 {
        self.depth
    }

    /// A slot for a command; `None` if the host has more commands in flight than its queue has
    /// entries.
    pub(super) fn take(&mut self, sqe: Sqe, phase: Phase) -> Option<u16> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < usize::from(self.depth) => {
                let data = Vec::new();
                let (expected, window, asked_at) = (0, 0, 0);
                self.slots.push(Slot {
                    sqe,
                    phase,
                    data,
                    expected,
                    window,
                    asked_at,
                    fault: None,
                    counts: None,
                });
                self.used.push(false);
                (self.slots.len() - 1) as u16
            }
            None => return None,
        };
        let slot = &mut self.slots[usize::from(index)];
        slot.sqe = sqe;
        slot.phase = phase;
        slot.data = Vec::new();
        slot.expected = 0;
        slot.window = 0;
        slot.fault = None;
        slot.counts = None;
        self.used[usize::from(index)] = true;
        Some(index)
    }

    /// Bytes of memory that are kept for the data of the next commands.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Kept memory for so many bytes of data: never more than twice as much, so that commands with
    /// little data do not hold what others with much had.
    pub(super) fn kept_for(&mut self, len: u32) -> Option<Vec<u8>> {
        let len = len as usize;
        let fits = |data: &Vec<u8>| (len..=2 * len).contains(&data.capacity());
        let data = self.spare.swap_remove_back(self.spare.iter().rposition(fits)?)?;
        self.kept -= data.capacity();
        Some(data)
    }

    /// Keeps memory for the next commands, in place of the oldest if there is too much of it.
    fn keep(&mut self, mut data: Vec<u8>) {
        let more = data.capacity();
        if more == 0 || more > KEPT {
            return;
        }
        while self.kept + more > KEPT {
            let Some(oldest) = self.spare.pop_front() else { break };
            self.kept -= oldest.capacity();
        }
        data.clear();
        self.kept += more;
        self.spare.push_back(data);
    }

    /// Lets go of that memory.
    pub(super) fn let_go(&mut self) {
        self.spare = VecDeque::new();
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
            let data = std::mem::take(&mut self.slots[usize::from(index)].data);
            self.keep(data);
        }
    }

    /// Slots in use whose command is as `wanted`.
    pub(super) fn find(&self, wanted: impl Fn(&Slot) -> bool) -> Option<u16> {
        let place = self.slots.iter().zip(&self.used).position(|(slot, used)| *used && wanted(slot));
        place.map(|at| at as u16)
    }

    /// Does something with all slots in use.
    pub(super) fn each(&mut self, mut change: impl FnMut(&mut Slot)) {
        let used = self.slots.iter_mut().zip(&self.used).filter(|(_, used)| **used);
        used.for_each(|(slot, _)| change(slot));
    }

    /// Number of commands in flight as `wanted`.
    pub(super) fn count(&self, wanted: impl Fn(&Slot) -> bool) -> usize {
        self.slots.iter().zip(&self.used).filter(|(slot, used)| **used && wanted(slot)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a slot with memory for so many bytes, kept or new.
    fn take(slots: &mut Slots, len: u32) -> u16 {
        let index = slots.take(Sqe::new(1, 1), Phase::Receiving).unwrap();
        let data = slots.kept_for(len).unwrap_or_else(|| Vec::with_capacity(len as usize));
        slots.get(index).unwrap().data = data;
        index
    }

    fn capacity(slots: &Slots) -> usize {
        slots.slots.iter().map(|slot| slot.data.capacity()).sum()
    }

    /// A host that had a megabyte of data in each of its commands, and now has none in flight.
    #[test]
    fn free_slots_keep_memory_within_a_bound() {
        let mut slots = Slots::new(128);
        for _ in 0..3 {
            let taken: Vec<u16> = (0..128).map(|_| take(&mut slots, 1 << 20)).collect();
            assert!(slots.take(Sqe::new(1, 1), Phase::Receiving).is_none());
            taken.iter().for_each(|index| slots.free(*index));
            let kept: usize = slots.spare.iter().map(Vec::capacity).sum();
            assert!((1..=KEPT).contains(&kept), "{kept}");
            assert_eq!((kept, capacity(&slots)), (slots.kept(), 0));
        }
        // One command after the other: always the same memory.
        let index = take(&mut slots, 1 << 20);
        let kept = slots.kept();
        slots.free(index);
        let again = take(&mut slots, 1 << 20);
        assert_eq!((again, slots.kept()), (index, kept));
    }

    /// A host lets commands with much data end, then holds commands with little, and again: what it
    /// holds is what it was asked for, not what the first ones had.
    #[test]
    fn small_commands_do_not_hold_the_memory_of_large_ones() {
        let mut slots = Slots::new(128);
        for _ in 0..8 {
            let large: Vec<u16> = (0..8).map(|_| take(&mut slots, 1 << 20)).collect();
            large.iter().for_each(|index| slots.free(*index));
            for _ in 0..8 {
                take(&mut slots, 4096);
            }
        }
        let held = capacity(&slots);
        assert!(held <= 2 * 64 * 4096, "64 commands of 4096 bytes hold {held}");
        assert!(slots.kept() <= KEPT);
    }
}
