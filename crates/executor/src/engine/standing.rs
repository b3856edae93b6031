//! The standing of a volume, and the time that its core is told.

use super::Engine;
use crate::state::Status;
use pumice_base::units::Role;
use pumice_volume::choice::{Class, Standing, Way};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

impl Engine<'_> {
    /// Tells the core the time.
    pub(super) fn pass_time(&mut self) {
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.volume.pass_time(now);
    }

    /// Returns whether the volume survives the loss of `role` as well. Failures that no superblock
    /// says yet count.
    pub(super) fn survives_without(&self, role: Role) -> bool {
        let mut gone: BTreeSet<Role> = self.volume.missing().into_iter().collect();
        gone.extend(self.lost());
        gone.insert(role);
        self.facts.corrects(&gone)
    }

    /// Members that have failed, and those that were given up, though superblocks do not say so.
    fn lost(&self) -> BTreeSet<Role> {
        self.volume.failing().into_iter().chain(self.kept.given_up.iter().copied()).collect()
    }

    pub(super) fn status(&self) -> Status {
        let rebuilding = self.volume.rebuilding();
        let mut missing: BTreeSet<Role> = self.volume.missing().into_iter().collect();
        missing.extend(rebuilding.iter().map(|(role, ..)| *role));
        let devices = (0..self.facts.members).map(Role).map(|role| {
            let name = self.carrier.drive(role).map(|drive| drive.name().to_owned());
            (role, name.filter(|_| !self.kept.given_up.contains(&role)))
        });
        let here = self.volume.members_here();
        let is_here = |role: &Role| here.iter().any(|(other, _)| other == role);
        let (near_writes, far_writes) = self.volume.ways();
        let traffic = self.carrier.traffic();
        Status {
            near: self.nodes.as_ref().map(|_| ()).map_err(Clone::clone),
            ways: self.volume.standings(),
            near_writes,
            far_writes,
            rewritten: self.volume.rewritten(),
            link_sent: traffic.sent,
            link_received: traffic.received,
            facts: self.facts.clone(),
            rebuilding,
            devices: devices.collect(),
            missing: missing.into_iter().collect(),
            lost: self.lost().into_iter().collect(),
            clean: self.volume.is_clean(),
            held: self.kept.held.is_some(),
            recording: self.volume.is_recording() || self.kept.given_up.iter().any(is_here),
            user_read: self.kept.user_read,
            user_written: self.kept.user_written,
            member_read: self.carrier.moved.read,
            member_written: self.carrier.moved.written,
            between_nodes: self.carrier.moved.between,
            // Relaxed: a sum that nothing depends on.
            host_memory: self.carrier.moved.memory + 2 * self.copied.load(Ordering::Relaxed),
            requests: self.kept.asked.len(),
            errors: self.carrier.errors.iter().chain(self.kept.why_held()).cloned().collect(),
        }
    }
}

/// Logs where operations go from now on.
pub(super) fn chosen(Standing { class, way, near_rate, far_rate, .. }: Standing) {
    let work = match class {
        Class::FullStripes => "full stripes",
        Class::PartialWrites => "partial writes",
        Class::LostReads => "reads of lost blocks",
    };
    let made = match way {
        Way::Near => "by the nodes of the drives",
        Way::Far => "by this machine",
    };
    let rate = |rate: Option<u64>| rate.unwrap_or(0);
    tracing::info!(
        work,
        made,
        near_bytes_per_s = rate(near_rate),
        far_bytes_per_s = rate(far_rate),
        "parity is made elsewhere from now on"
    );
}
