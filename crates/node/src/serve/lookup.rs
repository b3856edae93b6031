//! The keys by which hosts prove their names.

use pumice_nvme::controller::HostKeys;

/// Keys of hosts. They may change while the node runs: each call has those of now.
pub trait KeyLookup: std::fmt::Debug + Send + Sync {
    /// The keys of a host for a subsystem (the node's, or the discovery service), by their names;
    /// `None` if the host need not prove itself.
    fn keys(&self, host: &str, subsystem: &str) -> Option<HostKeys>;
}

/// No host has to prove itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKeys;

impl KeyLookup for NoKeys {
    fn keys(&self, _host: &str, _subsystem: &str) -> Option<HostKeys> {
        None
    }
}
