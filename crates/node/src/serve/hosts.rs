//! The hosts and peers of `node.toml`, with all that is said of them: `docs/design/access.md`.

mod file;

pub(super) use file::{FileAccess, FileHost, FilePeer};

use super::host_faces::{Faces, HostFaces};
use super::rights::Rights;
use pumice_nvme::auth::policy::Policy;
use pumice_nvme::spec::Nqn;
use std::path::PathBuf;
use std::sync::Arc;

/// The hosts that a node admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessMode {
    /// `access` is not given: every host, told apart by identifier and address.
    #[default]
    Open,
    /// `access = "anyone"`: every host, told apart by the name that it gives.
    Anyone,
    /// `access = "listed"`: hosts with an entry, and no others.
    Listed,
}

/// The protection of connections to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsUse {
    /// `tls = "off"`: plain connections only.
    #[default]
    Off,
    /// `tls = "required"`: TLS only.
    Required,
}

/// The drives of a host, by their numbers from 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OwnDrives {
    /// All drives, those too that a later configuration adds.
    #[default]
    All,
    /// One bit for each, in words of 64; the last word is not 0.
    Only(Arc<[u64]>),
}

impl OwnDrives {
    /// None.
    #[must_use]
    pub fn none() -> Self {
        Self::Only(Arc::new([]))
    }

    /// These drives.
    #[must_use]
    pub fn only(drives: impl IntoIterator<Item = usize>) -> Self {
        let mut words: Vec<u64> = Vec::new();
        for drive in drives {
            if words.len() <= drive / 64 {
                words.resize(drive / 64 + 1, 0);
            }
            words[drive / 64] |= 1 << (drive % 64);
        }
        Self::Only(words.into())
    }

    /// Returns whether a drive, from 0, is one of them.
    #[must_use]
    pub fn has(&self, drive: usize) -> bool {
        match self {
            Self::All => true,
            Self::Only(words) => words.get(drive / 64).is_some_and(|word| word >> (drive % 64) & 1 != 0),
        }
    }

    /// Returns whether all of `others` are among them.
    #[must_use]
    pub fn has_all(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::All, _) => true,
            // Those that a later configuration adds are not.
            (Self::Only(_), Self::All) => false,
            (Self::Only(own), Self::Only(others)) => {
                others.iter().enumerate().all(|(i, word)| word & !own.get(i).copied().unwrap_or(0) == 0)
            }
        }
    }

    /// Returns whether both have a drive in common. Of all drives there is one at least.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, Self::All) => true,
            (Self::All, Self::Only(words)) | (Self::Only(words), Self::All) => !words.is_empty(),
            (Self::Only(one), Self::Only(two)) => one.iter().zip(two.iter()).any(|(a, b)| a & b != 0),
        }
    }
}

/// The files of the keys between this node and another end: each list has the current key and,
/// while keys change, the next one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyPaths {
    /// DH-HMAC-CHAP: the other end proves that it has it.
    pub key: Vec<PathBuf>,
    /// DH-HMAC-CHAP: this node proves that it has it. Only beside `key`.
    pub controller_key: Vec<PathBuf>,
    /// TLS: pre-shared keys.
    pub psk: Vec<PathBuf>,
    /// Hashes and groups of DH-HMAC-CHAP.
    pub policy: Policy,
}

impl KeyPaths {
    /// Returns whether the other end has to prove its name by DH-HMAC-CHAP.
    #[must_use]
    pub fn asks_for_proof(&self) -> bool {
        !self.key.is_empty()
    }

    /// All paths, each with the name of its field.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let key = self.key.iter().map(|path| ("key", path));
        let controller = self.controller_key.iter().map(|path| ("controller_key", path));
        key.chain(controller).chain(self.psk.iter().map(|path| ("psk", path)))
    }
}

/// A host of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEntry {
    /// Its name.
    pub nqn: Nqn,
    /// Its host identifier, if no other host may use it.
    pub id: Option<[u8; 16]>,
    /// Its rights.
    pub may: Rights,
    /// Its drives.
    pub drives: OwnDrives,
    /// The faces of those with tags that it sees.
    pub faces: Faces,
    /// Its keys.
    pub keys: KeyPaths,
}

/// A node that may write local memory under a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerEntry {
    /// The name of its subsystem, under which it connects too.
    pub nqn: Nqn,
    /// Its keys: `key` is proved by the peer, `controller_key` by this node, whoever connects.
    pub keys: KeyPaths,
}

/// The hosts that a node admits, and what each of them may do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessConfig {
    mode: AccessMode,
    hosts: Vec<HostEntry>,
    peers: Vec<PeerEntry>,
    mark_secret: Option<PathBuf>,
}

impl AccessConfig {
    /// These hosts and peers.
    ///
    /// # Errors
    /// Where a name or a pinned identifier is given twice.
    pub fn new(
        mode: AccessMode,
        hosts: Vec<HostEntry>,
        peers: Vec<PeerEntry>,
        mark_secret: Option<PathBuf>,
    ) -> Result<Self, String> {
        for (i, host) in hosts.iter().enumerate() {
            let before = &hosts[..i];
            if before.iter().any(|other| other.nqn == host.nqn) {
                return Err(format!("host: nqn: {} is given twice", host.nqn));
            }
            if host.id.is_some() && before.iter().any(|other| other.id == host.id) {
                return Err(format!("host {}: id: another host has it", i + 1));
            }
        }
        for (i, peer) in peers.iter().enumerate() {
            if peers[..i].iter().any(|other| other.nqn == peer.nqn) {
                return Err(format!("peer: nqn: {} is given twice", peer.nqn));
            }
            if hosts.iter().any(|host| host.nqn == peer.nqn) {
                return Err(format!("peer {}: nqn: it is a host's too", i + 1));
            }
        }
        Ok(Self { mode, hosts, peers, mark_secret })
    }

    /// Every host, with every right and drive; those of the list with other faces.
    #[must_use]
    pub fn open(faces: HostFaces) -> Self {
        let host = |(nqn, faces): (Nqn, Faces)| HostEntry {
            nqn,
            id: None,
            may: Rights::ALL,
            drives: OwnDrives::All,
            faces,
            keys: KeyPaths::default(),
        };
        Self { hosts: faces.into_hosts().map(host).collect(), ..Self::default() }
    }

    /// The hosts that are admitted.
    #[must_use]
    pub fn mode(&self) -> AccessMode {
        self.mode
    }

    /// The hosts with an entry, each once.
    #[must_use]
    pub fn hosts(&self) -> &[HostEntry] {
        &self.hosts
    }

    /// The peers with a name, each once.
    #[must_use]
    pub fn peers(&self) -> &[PeerEntry] {
        &self.peers
    }

    /// The file of the secret of marks in Hosts Read.
    #[must_use]
    pub fn mark_secret(&self) -> Option<&PathBuf> {
        self.mark_secret.as_ref()
    }

    /// Returns whether a host or a peer has a key.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        let hosts = self.hosts.iter().map(|host| &host.keys);
        { hosts }.chain(self.peers.iter().map(|peer| &peer.keys)).any(|keys| keys.all().next().is_some())
    }

    /// Returns whether a host has the visible face.
    #[must_use]
    pub fn has_visible(&self) -> bool {
        self.hosts.iter().any(|host| host.faces.has_visible())
    }

    /// The rights of a host for which the file gives none.
    const fn usual(mode: AccessMode) -> Option<Rights> {
        match mode {
            AccessMode::Open | AccessMode::Anyone => Some(Rights::ALL),
            AccessMode::Listed => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
