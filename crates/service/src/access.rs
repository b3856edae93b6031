//! Choices for opening devices and nodes.

use pumice_raid::{Known, MemberRecord, Metadata, ProbeError, ReadAt, probe_at, probe_together};
use pumice_remote::initiator::DigestPolicy;

/// Choices for opening devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// For writing, and then exclusively.
    pub write: bool,
    /// Devices that are in use may be opened, for reading.
    pub allow_in_use: bool,
    /// Digests of connections to nodes.
    pub digests: DigestPolicy,
    /// The metadata version whose superblocks count, if the operator names it.
    pub metadata: Option<Metadata>,
}

/// Looks for the superblocks of devices that are said to be of one array; if the operator names
/// their version, at its place alone.
pub(crate) fn probe_named(
    devices: &[&dyn ReadAt],
    metadata: Option<Metadata>,
) -> Vec<Result<Option<MemberRecord>, ProbeError>> {
    match metadata {
        Some(metadata) => probe_at(devices, metadata),
        None => probe_together(devices, Known::default()),
    }
}
