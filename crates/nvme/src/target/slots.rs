//! The commands in flight on a connection, by slot.

use crate::spec::{Sqe, Status};

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
    /// What is already wrong with it, whatever the medium says.
    pub(super) fault: Option<Status>,
}

/// The slots of a connection: as many as its queue has entries, made when first needed.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    used: Vec<bool>,
    free: Vec<u16>,
    depth: u16,
}

impl Slots {
    pub(super) fn new(depth: u16) -> Self {
        Self { slots: Vec::new(), used: Vec::new(), free: Vec::new(), depth }
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
                self.slots.push(Slot { sqe, phase, data, expected: 0, fault: None });
                self.used.push(false);
                (self.slots.len() - 1) as u16
            }
            None => return None,
        };
        let slot = &mut self.slots[usize::from(index)];
        slot.sqe = sqe;
        slot.phase = phase;
        slot.data.clear();
        slot.expected = 0;
        slot.fault = None;
        self.used[usize::from(index)] = true;
        Some(index)
    }

    pub(super) fn get(&mut self, index: u16) -> Option<&mut Slot> {
        let at = usize::from(index);
        if self.used.get(at).copied()? { self.slots.get_mut(at) } else { None }
    }

    pub(super) fn free(&mut self, index: u16) {
        if let Some(used) = self.used.get_mut(usize::from(index)).filter(|used| **used) {
            *used = false;
            self.free.push(index);
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
