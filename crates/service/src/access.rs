//! Choices for opening devices and nodes.

use pumice_raid::Metadata;
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
