//! From new blocks to blocks in place: records of the stripe log, then writes.

use super::Volume;
use super::operation::{Op, Phase};
use crate::action::Command;
use crate::assemble::Rule;
use crate::log::{Kind as RecordKind, Record, Space, Sums};
use crate::member::State;
use crate::near::PlacedRecord;
use crate::rows::{BLOCK, Rows, Touch};
use crate::sequencer::OpId;
use pumice_units::Role;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Volume {
    /// Old records mean nothing from the next heads on. Everything must be in place and flushed by
    /// then.
    pub(super) fn new_generation(&mut self, nonce: u64) {
        self.generation += 1;
        self.nonce = nonce;
        self.sums = Sums::Keyed;
        for member in &mut self.members {
            member.space = Space::new(member.place.log.map_or(0, |log| log.len));
        }
    }

    /// The record kind: full stripes of which every data member is wholly in sync need no blocks,
    /// but where a block of them was listed as bad: an intent does not say that it is good.
    pub(super) fn record_kind(&self, op: &Op) -> RecordKind {
        let whole = op.touches.len() == usize::from(self.layout.data_members())
            && op.touches.iter().all(|touch| touch.start == 0 && touch.end == self.windows.bytes());
        let in_sync = |touch: &Touch| {
            let member = &self.members[touch.role.index()];
            !self.keeps(Rule::BlocksWhileDegraded)
                || member.state == State::InSync && op.stored.contains_key(&touch.role)
        };
        let bare = whole && op.touches.iter().all(in_sync) && !self.mends(op);
        if bare { RecordKind::Intent } else { RecordKind::Blocks }
    }

    /// Whether a block of it is listed as bad on its member, or may be: the list without those that
    /// became good is durable when R covers the writes that made them good.
    fn mends(&self, op: &Op) -> bool {
        let base = op.window.0 * self.windows.rows;
        let listed = |(role, rows): (&Role, &Rows)| {
            let member = &self.members[role.index()];
            let bad = !member.bad.is_empty()
                && rows.iter().any(|row| member.bad.contains(&(base + u64::from(row))));
            bad || member.mended > self.released
        };
        self.keeps(Rule::MendedHasBlocks) && op.stored.iter().any(listed)
    }

    fn record_bytes(&self, op: &Op, rows: Rows) -> u64 {
        match self.record_kind(op) {
            RecordKind::Intent => BLOCK,
            RecordKind::Blocks => BLOCK * u64::from(1 + rows.count()),
        }
    }

    /// The most bytes that a member's record of an operation can take.
    fn most_bytes(op: &Op) -> u64 {
        let rows = op.stored.values().fold(0, |rows, more| rows | more.0);
        BLOCK * u64::from(1 + Rows(rows).count())
    }

    /// Whether there is room for its records, also for those of all that may have to be logged
    /// again: once for each member that may fail, and once if nodes refuse to make parity.
    pub(super) fn fits(&self, op: &Op) -> bool {
        // Independent columns extend to a basis: as many may fail yet as parities are left.
        let may_fail = usize::from(self.layout.parities()).saturating_sub(self.gone().count()) as u64;
        let again = may_fail + u64::from(self.near.is_some());
        let later = again * (self.to_reserve + Self::most_bytes(op));
        let largest = BLOCK * (1 + self.windows.rows);
        op.stored.iter().all(|(role, rows)| {
            let (space, need) = (&self.members[role.index()].space, self.record_bytes(op, *rows));
            match op.sequences.is_empty() {
                true => !self.keeps(Rule::RoomForAgain) || space.admits(need, later, largest),
                false => space.fit(need).is_some(),
            }
        })
    }

    /// An operation is logged for the first time.
    fn reserve(&mut self, id: OpId) {
        if let Some(op) = self.ops.get_mut(&id).filter(|op| op.reserved == 0) {
            op.reserved = Self::most_bytes(op);
            self.to_reserve += op.reserved;
        }
    }

    /// It is in place, or will not be logged again.
    pub(super) fn unreserve(&mut self, id: OpId) {
        self.log_again.remove(&id);
        if let Some(op) = self.ops.get_mut(&id) {
            self.to_reserve -= std::mem::take(&mut op.reserved);
        }
    }

    /// An operation goes back to a step before its records are written.
    pub(super) fn goes_back(&mut self, id: OpId) {
        let logged = self.ops.get(&id).is_some_and(|op| op.reserved > 0);
        if logged {
            self.log_again.insert(id);
        }
    }

    pub(super) fn log(&mut self, id: OpId) {
        let op = &self.ops[&id];
        let own = op.kind.own();
        if !op.kind.writes() {
            return self.near_log(id, BTreeMap::new());
        }
        if self.use_log && !own && !self.fits(op) {
            self.want_room = true;
            self.ready.insert(id);
            return;
        }
        if own {
            // It makes blocks that count for nothing until they are in place.
            let to_make = op.near.as_ref().is_some_and(|near| !near.made);
            return if to_make { self.near_log(id, BTreeMap::new()) } else { self.apply(id) };
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.unapplied.insert(sequence);
        let committed = self.unlogged.first().map_or(sequence - 1, |first| first - 1);
        let kind = self.record_kind(op);
        let (window, stored) = (op.window, Arc::clone(&op.stored));
        if self.use_log && kind == RecordKind::Intent {
            // Also if it is never answered: records that it supersedes are not applied any more.
            self.unlogged_blocks = sequence;
        }
        if let Some(op) = self.ops.get_mut(&id) {
            op.sequences.push(sequence);
        }
        let is_near = self.ops[&id].near.is_some();
        if !self.use_log {
            return if is_near { self.near_log(id, BTreeMap::new()) } else { self.apply(id) };
        }
        self.reserve(id);
        self.log_again.remove(&id);
        self.unlogged.insert(sequence);
        let (mut records, nonce) = (BTreeMap::new(), self.nonce);
        for (role, rows) in &*stored {
            let record = Record {
                kind,
                role: *role,
                generation: self.generation,
                sequence,
                committed,
                released: self.released,
                window,
                rows: *rows,
                members: stored.keys().copied().collect(),
            };
            let member = &mut self.members[role.index()];
            let region = member.place.log.map_or(0, |log| log.start);
            let Some(position) = member.space.fit(record.bytes()) else { continue };
            member.space.take(sequence, position, record.bytes());
            let (role, at) = (*role, region + position);
            match is_near {
                true => drop(records.insert(role, PlacedRecord { at, position, nonce, record })),
                false => self.issue_for(id, Command::Log { op: id, role, at, position, nonce, record }),
            }
        }
        if is_near {
            return self.near_log(id, records);
        }
        if let Some(op) = self.ops.get_mut(&id) {
            op.phase = Phase::Logging;
        }
        if !self.keeps(Rule::RecordsFirst) {
            return self.logged(id);
        }
        self.ready.insert(id);
    }

    pub(super) fn logged(&mut self, id: OpId) {
        if !self.ops[&id].kind.writes() {
            return self.fetch(id);
        }
        if let Some(sequence) = self.ops[&id].sequences.last() {
            self.unlogged.remove(sequence);
        }
        self.apply(id);
    }

    fn apply(&mut self, id: OpId) {
        let place = self.made_place(id);
        let (window, stored) = (self.ops[&id].window, Arc::clone(&self.ops[&id].stored));
        for (role, rows) in &*stored {
            let (role, rows) = (*role, *rows);
            let at = self.at(role, window);
            self.issue_for(
                id,
                match place {
                    Some(place) => Command::Store { op: id, role, place, at, rows },
                    None => Command::Write { op: id, role, at, rows },
                },
            );
        }
        if let Some(op) = self.ops.get_mut(&id) {
            op.phase = Phase::Applying;
        }
        self.ready.insert(id);
    }
}
