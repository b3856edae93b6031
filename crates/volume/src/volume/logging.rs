//! From new blocks to blocks in place: records of the stripe log, then writes.

use super::Volume;
use super::operation::{Op, Phase};
use crate::action::Command;
use crate::assemble::Rule;
use crate::intent::Intent;
use crate::log::{Kind as RecordKind, Record, Space, Sums};
use crate::member::State;
use crate::near::PlacedRecord;
use crate::rows::{BLOCK, Rows, Touch};
use crate::sequencer::OpId;
use pumice_base::units::Role;
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

    /// Returns whether a block of it is listed as bad on its member, or may be: the list without
    /// those that became good is durable when R covers the writes that made them good.
    fn mends(&self, op: &Op) -> bool {
        let base = op.window.0 * self.windows.rows;
        let listed = |(role, rows): (&Role, &Rows)| {
            let member = &self.members[role.index()];
            let bad = !member.bad.is_empty()
                && rows.iter().any(|row| member.bad.contains(&(base + u64::from(row))));
            bad || member.mended > self.numbers.released()
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

    /// Returns whether there is room for its records, also for those of all that may have to be
    /// logged again: once for each member that may fail, and once if nodes refuse to make parity.
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
            assert!(op.reserved <= self.to_reserve, "V18: room that is set aside is given back once");
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
            self.want.room = true;
            self.ready.insert(id);
            return;
        }
        assert!(
            !self.asserts() || self.locks.is_alone(id, op.window),
            "L2: a window has one write at a time, from its first record until it is in place"
        );
        if own {
            // It makes blocks that count for nothing until they are in place.
            let to_make = op.near.as_ref().is_some_and(|near| !near.made);
            return if to_make { self.near_log(id, BTreeMap::new()) } else { self.apply(id) };
        }
        self.may_be_logged(op);
        let kind = self.record_kind(op);
        let sequence = self.numbers.give();
        if self.use_log && kind == RecordKind::Intent {
            // Also if it is never answered: records that it supersedes are not applied any more.
            self.numbers.has_no_blocks(sequence);
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
        let records = self.records(id, kind, sequence);
        if is_near {
            let records = records.into_iter().map(|placed| (placed.record.role, placed)).collect();
            return self.near_log(id, records);
        }
        for PlacedRecord { at, position, nonce, record } in records {
            let role = record.role;
            self.issue_for(id, Command::Log { op: id, role, at, position, nonce, record });
        }
        if let Some(op) = self.ops.get_mut(&id) {
            op.phase = Phase::Logging;
        }
        if !self.keeps(Rule::RecordsFirst) {
            return self.logged(id);
        }
        self.ready.insert(id);
    }

    /// Asserts what was waited for before a write is logged.
    fn may_be_logged(&self, op: &Op) {
        let asserts = self.asserts();
        assert!(!asserts || !self.clean, "V7: the superblocks are dirty before a write is logged");
        let durable = |intent: &Intent| intent.durable(&self.bytes_of(op.window));
        assert!(
            !asserts || self.intent.as_ref().is_none_or(durable),
            "V8: the bits of a write are durable on every member before it is logged"
        );
        assert!(
            !asserts || op.stored.keys().all(|role| self.members[role.index()].here()),
            "L6: a write is logged on members that are there"
        );
    }

    /// The records of a write, with their places, which are taken.
    fn records(&mut self, id: OpId, kind: RecordKind, sequence: u64) -> Vec<PlacedRecord> {
        let committed = self.numbers.begin_log(sequence);
        let (window, stored) = (self.ops[&id].window, Arc::clone(&self.ops[&id].stored));
        let in_sync = |role: &Role| self.members[role.index()].state == State::InSync;
        assert!(
            !self.asserts()
                || kind == RecordKind::Blocks
                || self.ops[&id].touches.iter().all(|touch| in_sync(&touch.role)),
            "L5: a full stripe is logged without its blocks while every data member of it is in sync"
        );
        let (asserts, mut records) = (self.asserts(), Vec::with_capacity(stored.len()));
        for (role, rows) in &*stored {
            let record = Record {
                kind,
                role: *role,
                generation: self.generation,
                sequence,
                committed,
                released: self.numbers.released(),
                window,
                rows: *rows,
                members: stored.keys().copied().collect(),
            };
            let member = &mut self.members[role.index()];
            let region = member.place.log.map_or(0, |log| log.start);
            let position = member.space.fit(record.bytes());
            assert!(!asserts || position.is_some(), "V21: a write that is let in has room in every log");
            let Some(position) = position else { continue };
            member.space.take(sequence, position, record.bytes());
            records.push(PlacedRecord { at: region + position, position, nonce: self.nonce, record });
        }
        records
    }

    pub(super) fn logged(&mut self, id: OpId) {
        let op = &self.ops[&id];
        assert!(
            !self.asserts() || op.is_done(),
            "L1: no block is in place before every record of its write is durable"
        );
        if !op.kind.writes() {
            return self.fetch(id);
        }
        if let Some(sequence) = op.sequences.last() {
            self.numbers.logged(*sequence);
        }
        self.apply(id);
    }

    fn apply(&mut self, id: OpId) {
        let place = self.made_place(id);
        let last = self.ops[&id].sequences.last();
        assert!(
            last.is_none_or(|number| self.numbers.is_logged(*number)),
            "L1: no block is in place before every record of its write is durable"
        );
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
