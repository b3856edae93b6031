//! For what devices and nodes are opened.

use pumice_initiator::DigestPolicy;

/// How devices are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Access {
    /// For writing, and then exclusively.
    pub(crate) write: bool,
    /// Devices that the kernel holds are let through, for reading.
    pub(crate) allow_in_use: bool,
    /// Whether connections to nodes carry digests.
    pub(crate) digests: DigestPolicy,
}
