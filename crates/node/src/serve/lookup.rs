//! The keys by which hosts prove their names.

use pumice_nvme::auth::credentials::{Credentials, CredentialsError};
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::policy::Policy;
use pumice_nvme::controller::HostKeys;
use pumice_nvme::spec::Nqn;
use std::collections::HashMap;
use std::sync::Arc;

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

/// The keys of hosts for a node and for its discovery service, prepared once.
#[derive(Debug, Default)]
pub struct KeyTable {
    hosts: HashMap<String, [HostKeys; 2]>,
}

impl KeyTable {
    /// The keys of hosts of the node with this name: of each host its own one or two, up to two of
    /// the node, the current one first, and what is accepted.
    ///
    /// # Errors
    ///
    /// The host whose keys do not fit together.
    pub fn new(
        node: &Nqn,
        hosts: impl IntoIterator<Item = (Nqn, Vec<ChapKey>, Vec<ChapKey>, Policy)>,
    ) -> Result<Self, (Nqn, CredentialsError)> {
        let mut table = Self::default();
        for (host, own, controller, policy) in hosts {
            let policy = Arc::new(policy);
            let keys = |subsystem: Nqn| {
                let credentials = Credentials::new(host.clone(), subsystem, &own, &controller)?;
                Ok(HostKeys { credentials: Arc::new(credentials), policy: Arc::clone(&policy) })
            };
            let both = keys(node.clone()).and_then(|here| Ok([here, keys(Nqn::discovery())?]));
            let both = both.map_err(|error| (host.clone(), error))?;
            table.hosts.insert(host.as_str().to_owned(), both);
        }
        Ok(table)
    }
}

impl KeyLookup for KeyTable {
    fn keys(&self, host: &str, subsystem: &str) -> Option<HostKeys> {
        let keys = self.hosts.get(host)?;
        keys.iter().find(|keys| keys.credentials.subsystem().as_str() == subsystem).cloned()
    }
}
