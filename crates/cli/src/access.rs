//! How devices and nodes are opened.

use pumice_initiator::DigestPolicy;

/// How devices are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Access {
    /// For writing, and then exclusively.
    pub(crate) write: bool,
    /// Devices that are in use may be opened, for reading.
    pub(crate) allow_in_use: bool,
    /// Whether connections to nodes carry digests.
    pub(crate) digests: DigestPolicy,
}
