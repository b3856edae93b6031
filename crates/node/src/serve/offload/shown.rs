//! The drives that answers show to a host: its own.

use super::{Answered, Offload, plain};
use crate::serve::SharedSubsystem;
use crate::serve::faces::own_drives;
use pumice_nvme::controller::Access;
use pumice_offload::wire;
use pumice_offload::{DataNode, DriveId};

/// The drives of which a controller's host has a namespace.
pub(super) struct Own(Vec<bool>);

impl Own {
    pub(super) fn has(&self, drive: DriveId) -> bool {
        (drive.0 as usize).checked_sub(1).and_then(|index| self.0.get(index)).is_some_and(|own| *own)
    }

    /// The largest number among them; 0 of none.
    pub(super) fn largest(&self) -> u32 {
        self.0.iter().rposition(|own| *own).map_or(0, |index| index as u32 + 1)
    }

    /// Returns whether both have a drive in common.
    pub(super) fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(one, two)| *one && *two)
    }
}

impl Offload {
    /// The drives of the host of a controller; none if the controller has ended.
    pub(super) fn own(&self, subsystem: &SharedSubsystem, cntlid: u16) -> Own {
        let drives = self.watch.superblocks().len();
        let attached = subsystem.with(|s| s.attached(cntlid));
        Own(attached.map_or_else(Vec::new, |attached| own_drives(&attached, drives)))
    }

    /// The answer to a Describe.
    pub(super) fn shown_drives(
        &self,
        subsystem: &SharedSubsystem,
        cntlid: u16,
        page: u32,
        len: u64,
    ) -> Answered {
        let own = self.own(subsystem, cntlid);
        match self.node.describe() {
            Ok(mut description) => {
                description.drives.retain(|drive| own.has(drive.id));
                Answered::data(wire::encode_drives(&description.drives, page, self.traffic.sum()), len)
            }
            Err(error) => plain(Err(error)),
        }
    }

    /// The answer to a Superblocks Read.
    pub(super) fn shown_superblocks(
        &self,
        subsystem: &SharedSubsystem,
        cntlid: u16,
        page: u32,
        len: u64,
    ) -> Answered {
        let own = self.own(subsystem, cntlid);
        let mut seen = self.superblocks(subsystem, page);
        seen.retain(|of| own.has(of.drive));
        Answered::data(wire::encode_superblocks(&seen, own.largest()), len)
    }

    /// The answer to a Pace Read.
    pub(super) fn shown_pace(
        &self,
        subsystem: &SharedSubsystem,
        cntlid: u16,
        page: u32,
        len: u64,
    ) -> Answered {
        let own = self.own(subsystem, cntlid);
        let mut figures = self.node.pacing().figures(cntlid);
        figures.retain(|of| own.has(of.drive));
        Answered::data(wire::encode_figures(&figures, page), len)
    }
}
