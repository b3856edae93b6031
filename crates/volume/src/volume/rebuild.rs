//! Members that are restored: window after window, only where a bit is set, or block by block where
//! a medium did not give what it holds.

use super::Volume;
use super::operation::{Kind, Op, Phase};
use super::recovery::AT_ONCE;
use crate::action::Command;
use crate::assemble::Rule;
use crate::member::{Member, State};
use crate::rows::{Rows, Window};
use crate::sequencer::OpId;
use pumice_base::units::Role;

/// Ticks after which superblocks say how far a rebuild is.
const SAVED: u32 = 12;

impl Volume {
    /// Members that are being rebuilt, and that the superblocks on all members name, with how many
    /// windows of each are restored, of how many. A member stays here until the superblocks on all
    /// members say that it is rebuilt: before that, a crash makes the rebuild begin again.
    #[must_use]
    pub fn rebuilding(&self) -> Vec<(Role, u64, u64)> {
        let upto = |(role, member): (u16, &Member)| match member.state {
            State::Rebuilding(next) if !member.fresh => {
                Some((Role(role), next.0 - member.under_way.len() as u64, self.windows.count))
            }
            State::InSync if self.recording == Some(Role(role)) => {
                Some((Role(role), self.windows.count, self.windows.count))
            }
            _ => None,
        };
        (0..).zip(&self.members).filter_map(upto).collect()
    }

    /// Blocks that were recovered and written again because the medium did not give them.
    #[must_use]
    pub const fn rewritten(&self) -> u64 {
        self.rewritten
    }

    /// Restores windows of members only as [`Event::Restore`](crate::Event::Restore) allows, and at
    /// most `at_once` together.
    pub fn pace_rebuilds(&mut self, at_once: u64) {
        (self.may_restore, self.most_restored) = (Some(0), at_once.max(1));
    }

    /// The number of windows more that a rebuild has to be allowed before it goes on.
    #[must_use]
    pub fn awaits_pace(&self) -> Option<u64> {
        let allowed = self.may_restore?;
        let left = |(role, member): (u16, &Member)| match member.state {
            State::Rebuilding(next) if next.0 < self.windows.count => Some((Role(role), next)),
            _ => None,
        };
        let (role, next) = (0..).zip(&self.members).find_map(left)?;
        let (wanted, room) = match self.next_stretch(role, next) {
            Some(windows) => (windows.end - windows.start, self.has_room_for_stretches()),
            None => (1, self.rebuilding.len() < AT_ONCE),
        };
        (room && wanted > allowed).then(|| wanted - allowed)
    }

    /// A period has passed.
    pub(super) fn tick_rebuild(&mut self) {
        let rebuilding = self.members.iter().any(|member| matches!(member.state, State::Rebuilding(_)));
        self.unsaved = if rebuilding { self.unsaved + 1 } else { 0 };
        if self.unsaved >= SAVED {
            (self.unsaved, self.want.progress) = (0, self.recovery.is_none());
        }
    }

    /// Lets a rebuild go on. Returns whether it did.
    pub(super) fn pump_rebuild(&mut self) -> bool {
        let busy = self.frozen() || self.draining() || self.recovery.is_some();
        if busy || self.rebuilt.is_some() || self.stopping {
            return false;
        }
        let is_rebuilding = |member: &Member| matches!(member.state, State::Rebuilding(_));
        let Some(index) = self.members.iter().position(is_rebuilding) else { return false };
        // There are at most as many members as roles.
        let role = Role(index as u16);
        self.pass_kept(role);
        let State::Rebuilding(next) = self.members[index].state else { return false };
        if next.0 >= self.windows.count {
            let is_done = self.members[index].under_way.is_empty();
            if is_done {
                self.rebuilt = Some(role);
            }
            return is_done;
        }
        let stretch = self.next_stretch(role, next);
        if stretch.is_some() && !self.has_room_for_stretches() {
            return false;
        }
        let stretch = stretch.filter(|windows| self.can_stretch(role, windows));
        let room = stretch.is_some() || self.rebuilding.len() < AT_ONCE;
        let windows = stretch.clone().unwrap_or(next.0..next.0 + 1);
        let count = windows.end - windows.start;
        if !room || self.may_restore.is_some_and(|allowed| allowed < count) {
            return false;
        }
        self.may_restore = self.may_restore.map(|allowed| allowed - count);
        let member = &mut self.members[index];
        member.state = State::Rebuilding(Window(windows.end));
        member.under_way.extend(windows.clone().map(Window));
        match stretch {
            Some(windows) => self.begin_stretch(role, windows),
            None => self.restore_window(role, next),
        }
        true
    }

    /// Restores one window of a member.
    pub(super) fn restore_window(&mut self, role: Role, window: Window) {
        let rows = self.windows.all();
        let op = self.add_op(Kind::Rebuild { role, rows }, window, Vec::new());
        self.rebuilding.insert(op, window);
    }

    /// Takes windows of a device that had the role before for restored, as far as no bit is set:
    /// none was written since, and none is being written.
    fn pass_kept(&mut self, role: Role) {
        let (bits, windows) = (self.keeps(Rule::MissedHasBits), self.windows);
        let member = &mut self.members[role.index()];
        if let (true, State::Rebuilding(next), Some(intent)) = (member.kept, &mut member.state, &self.intent)
        {
            let set = intent.next_set(windows.start(*next)).filter(|_| bits);
            let window = set.map_or(windows.count, |byte| byte / windows.bytes());
            next.0 = next.0.max(window.min(windows.count));
        }
    }

    /// Blocks that the medium did not give, and that could be recovered, are written again.
    pub(super) fn rewrite(&mut self, op: &Op) {
        for role in op.unreadable.keys().copied() {
            let stored = op.stored.get(&role).copied().unwrap_or_default();
            let rows = Rows(op.misses(role).0 & !stored.0);
            let is_same = |other: &Op| {
                other.window == op.window
                    && matches!(other.kind, Kind::Rewrite { role: of, .. } if of == role)
            };
            let there = self.members[role.index()].has(op.window);
            if rows.count() > 0 && there && !self.ops.values().any(is_same) {
                self.add_op(Kind::Rewrite { role, rows }, op.window, Vec::new());
            }
        }
    }

    /// Asks the medium again for what it did not give: it may have been written since, or the error
    /// has passed, and what reads well is not written over. Returns whether it did.
    pub(super) fn asks(&mut self, id: OpId) -> bool {
        let asks = self.keeps(Rule::AsksAgain);
        let Some(op) = self.ops.get_mut(&id) else { return false };
        let Kind::Rewrite { role, rows } = op.kind else { return false };
        if !asks {
            op.unreadable.insert(role, rows);
        }
        if op.misses(role).count() > 0 {
            return false;
        }
        op.phase = Phase::Asking;
        let at = self.at(role, self.ops[&id].window);
        self.issue_for(id, Command::Read { op: id, role, at, rows });
        self.ready.insert(id);
        true
    }

    /// Operations that restore blocks of members that are gone are over.
    pub(super) fn end_those_for(&mut self, gone: &[Role]) {
        let of_gone = |op: &Op| match op.kind {
            Kind::Rebuild { role, .. } | Kind::Rewrite { role, .. } => gone.contains(&role),
            _ => false,
        };
        let over = self.ops.iter().filter(|(_, op)| of_gone(op)).map(|(id, _)| *id);
        for id in over.collect::<Vec<_>>() {
            self.finish(id, Ok(()));
        }
    }

    /// Counts what was written again, if the member is still there.
    pub(super) fn was_rewritten(&mut self, role: Role, op: &Op) {
        let rows = op.stored.get(&role).map_or(0, |rows| rows.count());
        let member = &mut self.members[role.index()];
        if member.here() {
            member.superblock.corrected_reads = member.superblock.corrected_reads.saturating_add(rows);
            self.rewritten += u64::from(rows);
        }
    }
}
