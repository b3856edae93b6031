//! A device takes an empty role.

use super::Volume;
use crate::assemble::Rule;
use crate::intent::Intent;
use crate::log::{Space, SuperblockMark};
use crate::member::{MemberPlace, State, former_role};
use crate::near::NodeNumber;
use crate::rows::Window;
use pumice_base::units::Role;
use pumice_raid::superblock::v1::{ROLE_FAULTY, ROLE_SPARE, V1};
use std::collections::BTreeSet;

/// A device that is to take an empty role.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) role: Role,
    pub(super) superblock: Box<V1>,
    pub(super) place: MemberPlace,
    pub(super) nonce: u64,
    pub(super) serial: u64,
    pub(super) node: Option<NodeNumber>,
    pub(super) kept: Option<BTreeSet<u64>>,
}

impl Volume {
    /// A member that could not be reached is back, and lost nothing.
    pub(super) fn returned(&mut self, role: Role) {
        if self.failing.remove(&role) {
            // It may have missed bits, and steps of operations.
            if let (true, Some(intent)) = (self.keeps(Rule::BitsOfReturned), &mut self.intent) {
                intent.doubt();
            }
            if self.failing.is_empty() && !self.unrecorded {
                self.thaw();
            }
        }
    }

    /// Roles that a device can take: they are empty, and no device waits for them.
    #[must_use]
    pub fn empty_roles(&self) -> Vec<Role> {
        let is_promised = |role: Role| self.joins.iter().any(|join| join.role == role);
        let empty = |(role, member): (u16, &crate::member::Member)| {
            (!member.here() && !is_promised(Role(role))).then_some(Role(role))
        };
        (0..).zip(&self.members).filter_map(empty).collect()
    }

    /// Returns whether a failure is not on all other members yet.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        !self.failing.is_empty() || self.unrecorded
    }

    /// The number of devices for which the superblocks still have numbers.
    #[must_use]
    pub fn numbers_left(&self) -> usize {
        let model = self.members.iter().find(|member| member.state == State::InSync);
        let free = |role: &&u16| matches!(**role, ROLE_SPARE | ROLE_FAULTY);
        let free = model.map_or(0, |model| model.superblock.dev_roles.iter().filter(free).count());
        free.saturating_sub(self.joins.len())
    }

    /// The role of a device that was a member in sync until it failed, if it needs nothing but what
    /// was written since: every such write has a bit. The role may have been taken by another one.
    #[must_use]
    pub fn former_role(&self, superblock: &V1) -> Option<Role> {
        let array = &self.members.iter().find(|member| member.state == State::InSync)?.superblock;
        // Bits that were cleared since say nothing of what it holds.
        let cleared = self.intent.as_ref().map(Intent::cleared)?;
        former_role(superblock, array).filter(|_| superblock.events >= cleared)
    }

    /// A number for a device that takes a role: one that no device has, or if there is none, that
    /// of a device that failed. What lies on that one is two counts behind from then on, so it is
    /// no member by this number; first the one that had the role: it cannot come back any more.
    fn number_for(&self, role: Role, table: &[u16]) -> Option<u32> {
        let before = self.members[role.index()].superblock.dev_number as usize;
        let before = (table.get(before) == Some(&ROLE_FAULTY)).then_some(before);
        let first = |entry: u16| table.iter().position(|role| *role == entry);
        let number = first(ROLE_SPARE).or(before).or_else(|| first(ROLE_FAULTY));
        // A position in a table of at most 1920.
        number.map(|number| number as u32)
    }

    /// Numbers of devices that failed become those of no device.
    pub(super) fn forget_failed(&mut self) {
        let entries = self.members.iter_mut().flat_map(|member| &mut member.superblock.dev_roles);
        entries.filter(|role| **role == ROLE_FAULTY).for_each(|role| *role = ROLE_SPARE);
    }

    pub(super) fn join(&mut self, join: Join) {
        let Some(like) = self.members.iter().find(|member| member.state == State::InSync) else { return };
        assert!(
            !self.asserts() || !self.counts(),
            "L11: a device joins when R covers every record, durably, on every member"
        );
        let old = like.superblock.clone();
        // Of the table in memory: the one on the members may lack what the last join has taken.
        let Some(number) = self.number_for(join.role, &old.dev_roles) else { return };
        if self.members[join.role.index()].here() {
            return;
        }
        let kept = join.kept.filter(|_| self.former_role(&join.superblock) == Some(join.role));
        let member = &mut self.members[join.role.index()];
        if let Some(near) = &mut self.near {
            let members = near.nodes.len().max(join.role.index() + 1);
            near.nodes.resize(members, None);
            near.nodes[join.role.index()] = join.node;
        }
        let given = *join.superblock;
        member.kept = kept.is_some();
        member.superblock = V1 {
            device_uuid: given.device_uuid,
            dev_number: number,
            data_offset: given.data_offset,
            data_size: given.data_size,
            super_offset: given.super_offset,
            bblog_shift: given.bblog_shift,
            bblog_size: given.bblog_size,
            bblog_offset: given.bblog_offset,
            bitmap_or_ppl: given.bitmap_or_ppl,
            ..old
        };
        member.place = join.place;
        member.space = Space::new(join.place.log.map_or(0, |log| log.len));
        member.state = State::Rebuilding(Window(0));
        member.under_way.clear();
        (member.restored, member.flushing) = (Window(0), Window(0));
        member.bad = kept.unwrap_or_default();
        member.listed.clone_from(&member.bad);
        member.last = SuperblockMark::NONE;
        // Of heads that it has from before, none may count.
        member.serial = join.serial;
        member.fresh = true;
        self.set_roles(&[(number, join.role.get())]);
        self.new_generation(join.nonce);
        self.start_joined();
    }
}
