//! Orders to a volume beside requests: members that fail or join, claims.

use super::Engine;
use crate::back::Sought;
use crate::claim::Claim;
use crate::drive::MemberDrive;
use crate::joining::{Joining, NO_NUMBER};
use crate::kept::Asked;
use crate::message::Message;
use crate::state::ControlError;
use pumice_base::units::Role;
use pumice_volume::{ClaimId, Event, Request, RequestError};

impl Engine<'_> {
    pub(super) fn fail(&mut self, role: Role) -> Result<(), ControlError> {
        if self.volume.missing().contains(&role) || self.kept.given_up.contains(&role) {
            return Err(ControlError::Missing(role));
        }
        if self.carrier.drive(role).is_none() {
            return Err(ControlError::NoRole(role));
        }
        if self.kept.held.is_some() || !self.survives_without(role) {
            return Err(ControlError::TooFew);
        }
        self.kept.given_up.insert(role);
        // A flush asks every member, and finds that this one does not answer.
        self.ask(Asked::new(Request::Flush, None, None));
        Ok(())
    }

    pub(super) fn claimed(&mut self, id: ClaimId, result: Result<Vec<Role>, RequestError>) {
        let Some(reply) = self.claimers.remove(&id) else { return };
        let own = self.own.clone();
        let give_back = move || {
            // A volume that has ended has no claims.
            let _ = own.send(Message::Unclaim(id));
        };
        let claim = result.map(|members| Claim::new(members, give_back));
        if claim.is_ok() {
            assert!(self.granted.insert(id), "E8: a claim is granted once");
        }
        let claim = claim.map_err(|error| match error {
            RequestError::Range => ControlError::NoStripes,
            _ => ControlError::Stopped,
        });
        // Who has given up gives it back: the answer is dropped there or here.
        drop(reply.send(Some(claim)));
    }

    /// Claims that wait for a volume that is held for too long are not waited for any more.
    pub(super) fn check_claims(&mut self) {
        if self.claimers.is_empty() || !self.kept.is_held_for_long(self.timing.hold_timeout) {
            return;
        }
        for (id, claimer) in std::mem::take(&mut self.claimers) {
            self.volume.handle(Event::Unclaim(id));
            // Who has given up needs no answer.
            drop(claimer.send(Some(Err(ControlError::Held))));
        }
    }

    pub(super) fn members(&self) -> Vec<(Role, MemberDrive)> {
        let here = self.volume.members_here().into_iter().map(|(role, _)| role);
        let here = here.filter(|role| !self.kept.given_up.contains(role));
        here.filter_map(|role| Some((role, self.carrier.drive(role)?.clone()))).collect()
    }

    /// The drives without which a held volume does not go on, and those that have failed: the
    /// superblocks may not say so yet.
    pub(super) fn sought(&self) -> Vec<Sought> {
        let here = self.volume.members_here();
        let roles = (0..self.facts.members).map(Role);
        let drives = roles.filter(|role| !self.kept.given_up.contains(role)).filter_map(|role| {
            let needed = here.iter().any(|(other, _)| *other == role);
            Some(Sought { drive: self.carrier.drive(role)?.clone(), needed, known: self.facts.known() })
        });
        drives.collect()
    }

    /// The drive of a member in sync.
    pub(super) fn model(&self) -> Option<MemberDrive> {
        let missing = self.volume.missing();
        let mut here = (0..self.facts.members)
            .map(Role)
            .filter(|role| !missing.contains(role) && !self.kept.given_up.contains(role));
        here.find_map(|role| self.carrier.drive(role).cloned())
    }

    /// The role of a member that is in sync or being rebuilt and that is on this drive, or whose
    /// superblock has this device_uuid: the same drive can be reached by several ways.
    pub(super) fn member_on(&self, drive: &MemberDrive, device_uuid: Option<[u8; 16]>) -> Option<Role> {
        self.volume.members_here().into_iter().find_map(|(role, uuid)| {
            let same = self.carrier.drive(role).is_some_and(|known| known.is_same(drive));
            (same || Some(uuid) == device_uuid).then_some(role)
        })
    }

    pub(super) fn join(&mut self, joining: Joining) -> Result<Role, ControlError> {
        if self.kept.held.is_some() {
            return Err(ControlError::Held);
        }
        if let Some(role) = self.member_on(&joining.drive, joining.lies_there) {
            return Err(ControlError::IsMember { device: joining.drive.name().to_owned(), role });
        }
        let empty = self.volume.empty_roles();
        let role = match joining.former().map(|superblock| self.volume.former_role(superblock)) {
            Some(Some(role)) if empty.contains(&role) => role,
            Some(Some(role)) => return Err(ControlError::Taken(role)),
            Some(None) => return Err(joining.stale()),
            None => empty.first().copied().ok_or(ControlError::Full)?,
        };
        let drive = joining.drive.clone();
        let name = drive.name().to_owned();
        if self.volume.numbers_left() == 0 {
            return Err(ControlError::Device { device: name, why: NO_NUMBER.to_owned() });
        }
        self.carrier
            .attach(role, drive)
            .map_err(|error| ControlError::Device { device: name, why: error.to_string() })?;
        self.kept.given_up.remove(&role);
        let node = match &mut self.nodes {
            Ok(nodes) => nodes.add(role, &joining.drive),
            Err(_) => None,
        };
        self.volume.handle(joining.event(role, node));
        Ok(role)
    }
}
