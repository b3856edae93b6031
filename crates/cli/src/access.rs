//! How devices and nodes are opened.

use pumice_initiator::DigestPolicy;
use pumice_raid::{Known, MemberRecord, Metadata, ProbeError, ReadAt, probe_at, probe_together};

/// How devices are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Access {
    /// For writing, and then exclusively.
    pub(crate) write: bool,
    /// Devices that are in use may be opened, for reading.
    pub(crate) allow_in_use: bool,
    /// Whether connections to nodes carry digests.
    pub(crate) digests: DigestPolicy,
    /// The metadata version whose superblocks count, if the operator names it.
    pub(crate) metadata: Option<Metadata>,
}

/// A metadata version by its name.
pub(crate) fn metadata(text: &str) -> Result<Metadata, String> {
    let found = Metadata::ALL.into_iter().find(|metadata| metadata.to_string() == text);
    found.ok_or_else(|| format!("'{text}': 0.90, 1.0, 1.1 or 1.2"))
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
