//! Members that are gone, as the engine notes them.

use super::Engine;
use crate::absent::{Absence, Cause};
use crate::clock::now;
use crate::state::Status;
use pumice_base::units::Role;
use std::collections::BTreeSet;

impl Engine<'_> {
    /// Notes the members whose operations have failed. The volume hears of it later.
    pub(super) fn note_failures(&mut self) {
        for (role, cause, why) in std::mem::take(&mut self.carrier.failures) {
            self.note_failure(role, cause, why);
        }
    }

    /// Notes that a member is gone.
    pub(super) fn note_failure(&mut self, role: Role, cause: Cause, why: String) {
        let here = self.volume.members_here();
        let device_uuid = here.iter().find(|(other, _)| *other == role).map(|(_, uuid)| *uuid);
        let Some(drive) = self.carrier.drive(role) else { return };
        let (device, bytes) = (drive.name().to_owned(), drive.bytes());
        let absence = Absence { role, device, device_uuid, bytes, cause, why, at: now(), joined: false };
        self.kept.absences.lost(absence);
    }

    /// Forgets what is told of members that are in sync again. Returns the status. The volume must
    /// have heard of all failures.
    pub(super) fn looked_at(&mut self) -> Status {
        let status = self.status();
        let gone: BTreeSet<Role> = status.missing.iter().chain(&status.lost).copied().collect();
        let back = self.kept.absences.keep_only(&gone);
        if back.is_empty() {
            return status;
        }
        self.carrier.errors.retain(|error| error.role.is_none_or(|role| !back.contains(&role)));
        self.status()
    }
}
