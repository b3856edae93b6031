//! Volumes, opened from the names of their devices.

use crate::failure::Failure;
use crate::identity::writer;
use crate::members::Devices;
use pumice_base::units::Role;
use pumice_executor::{Consistency, Offload, OpenOptions, ServedVolume, open};
use pumice_raid::Metadata;
use pumice_remote::initiator::DigestPolicy;
use std::path::PathBuf;
use std::time::Duration;

/// A volume that is to be opened.
#[derive(Debug, Clone)]
pub struct OpenSpec {
    /// Block devices, image files, drives of nodes, or nodes for all of their drives that have a
    /// superblock.
    pub devices: Vec<PathBuf>,
    /// The version of the superblocks that count, if the operator names it.
    pub metadata: Option<Metadata>,
    /// Protection of rows against a crash.
    pub consistency: Consistency,
    /// Members may be missing that the superblocks call active.
    pub degraded: bool,
    /// All members that are missing, if the operator names them.
    pub without: Vec<Role>,
    /// The place where parity is computed.
    pub offload: Offload,
    /// Digests of connections to nodes.
    pub digests: DigestPolicy,
    /// Time for which requests wait while too many members are missing.
    pub hold_timeout: Duration,
    /// Most bytes a second that a rebuild writes to a member.
    pub rebuild_rate: Option<u64>,
}

/// A volume that is open, and its devices.
pub struct OpenVolume {
    /// The volume.
    pub volume: ServedVolume,
    /// Its devices, and the nodes that are held for it.
    pub devices: Devices,
}

/// Opens a volume; a crash before is recovered from.
///
/// # Errors
/// If a device cannot be opened or is no member, or the array cannot be written as it is. Nothing
/// was written then.
pub fn open_volume(spec: &OpenSpec) -> Result<OpenVolume, Failure> {
    let mut devices = Devices::new(spec.digests).with_metadata(spec.metadata);
    let drives = devices.open(&spec.devices, true)?;
    let (writer, formerly) = writer()?;
    let mut options = OpenOptions {
        metadata: spec.metadata,
        consistency: spec.consistency,
        degraded: spec.degraded,
        offload: spec.offload,
        majority: devices.any_far(),
        without: spec.without.iter().copied().collect(),
        hold_timeout: spec.hold_timeout,
        writer,
        rebuild_rate: spec.rebuild_rate,
        ..OpenOptions::default()
    };
    let mut opened = open(&drives, &options);
    if let Err(error) = &opened
        && formerly != 0
        && error.held_by() == Some(formerly)
    {
        // An earlier version of this program has left it open here.
        options.writer = formerly;
        opened = open(&drives, &options);
    }
    Ok(OpenVolume { volume: opened?, devices })
}
