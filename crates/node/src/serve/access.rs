//! The one table of hosts, with their faces, rights and shares.
//!
//! `docs/design/access.md` has the rights of each command. Code that depends on the host asks here,
//! once it knows the host of a connection. Other tables by host hold only what hosts use at the
//! moment.

mod drives;
mod rows;

pub use super::host_faces::{Faces, HostFaces};
pub(super) use drives::permit;
pub(super) use rows::{Asks, asked};

use super::hosts::{AccessConfig, AccessMode, HostEntry, OwnDrives, PeerEntry};
use super::rights::{Right, Rights};
use pumice_nvme::spec::command::On;
use pumice_nvme::spec::connect::Data;
use pumice_nvme::spec::{DISCOVERY_NQN, Status};
use std::collections::BTreeMap;

/// A host's share of memory that hosts make the node use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// Bytes that it has for itself.
    pub(super) own: u64,
    /// Its bytes, at most.
    pub(super) most: u64,
}

/// The shares of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    /// Commands under way with their data, answers that were not sent, receive buffers beyond the
    /// smallest.
    pub(super) flight: Share,
    /// Data that it was asked for, and memory that is kept for the next.
    pub(super) windows: Share,
}

const MIB: u64 = 1 << 20;

impl Shares {
    /// The shares of every host today.
    pub(super) const EACH: Self = Self {
        flight: Share { own: 4 * MIB, most: 128 * MIB },
        windows: Share { own: 2 * MIB, most: 64 * MIB },
    };
}

/// A row of the table: what a host has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Granted {
    /// It is admitted.
    listed: bool,
    faces: Faces,
    rights: Rights,
    own: OwnDrives,
    shares: Shares,
}

impl Granted {
    /// A row with every right and drive.
    pub(super) fn with_faces(faces: Faces) -> Self {
        Self { listed: true, faces, rights: Rights::ALL, own: OwnDrives::All, shares: Shares::EACH }
    }

    /// The row of an entry.
    fn of(host: &HostEntry) -> Self {
        Self::with_faces(host.faces).with_rights(host.may).with_drives(host.drives.clone())
    }

    /// The row of a peer node: it is admitted, and has no right and no drive.
    fn of_peer() -> Self {
        Self::with_faces(Faces::NONE).with_rights(Rights::NONE).with_drives(OwnDrives::none())
    }

    /// The row of a stranger, which is not admitted.
    fn none() -> Self {
        Self { listed: false, ..Self::of_peer() }
    }

    /// The same row with other rights.
    pub(super) fn with_rights(self, rights: Rights) -> Self {
        Self { rights, ..self }
    }

    /// The same row with other drives.
    pub(super) fn with_drives(self, own: OwnDrives) -> Self {
        Self { own, ..self }
    }

    /// Its drives.
    pub(super) fn own(&self) -> &OwnDrives {
        &self.own
    }

    /// The faces of drives that it sees.
    pub(super) fn faces(&self) -> Faces {
        self.faces
    }

    /// Its shares.
    pub(super) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Its rights: a host that sees no namespace may learn about the controller, and no more.
    fn rights(&self) -> Rights {
        if self.faces == Faces::NONE { self.rights.and(Rights::of(Right::Read)) } else { self.rights }
    }
}

/// The one place where a command is allowed or denied for its right. `on` is the queue that it came
/// over. Drives are judged where their numbers are known: those of NSIDs by attachment, those of
/// vendor commands by [`permit`].
///
/// # Errors
/// The status of the command if the host lacks the right.
pub(super) fn allowed(host: &Granted, on: On, asked: Asks) -> Result<(), Status> {
    let may = match asked {
        Asks::Nothing => true,
        Asks::Listed => host.listed,
        Asks::May(right) => host.rights().has(right),
    };
    match (may, on) {
        (true, _) => Ok(()),
        (false, On::Unbound) => Err(Status::CONNECT_HOST.dnr()),
        (false, On::Admin | On::Io) => Err(Status::ACCESS_DENIED.dnr()),
    }
}

/// The table of hosts.
#[derive(Debug, Clone)]
pub(super) struct HostTable {
    hosts: BTreeMap<String, Granted>,
    /// Hosts that have no row.
    others: Granted,
    /// Identifiers that one host alone may use.
    pins: BTreeMap<[u8; 16], String>,
}

impl HostTable {
    /// The table of a configuration.
    pub(super) fn from_config(access: &AccessConfig) -> Self {
        let host = |host: &HostEntry| (host.nqn.as_str().to_owned(), Granted::of(host));
        let mut hosts: BTreeMap<String, Granted> = access.hosts().iter().map(host).collect();
        let others = match access.mode() {
            AccessMode::Open | AccessMode::Anyone => Granted::with_faces(Faces::default()),
            AccessMode::Listed => {
                let peer = |peer: &PeerEntry| (peer.nqn.as_str().to_owned(), Granted::of_peer());
                hosts.extend(access.peers().iter().map(peer));
                Granted::none()
            }
        };
        let pin = |host: &HostEntry| Some((host.id?, host.nqn.as_str().to_owned()));
        Self { hosts, others, pins: access.hosts().iter().filter_map(pin).collect() }
    }

    /// Judges a Connect. Anyone may ask the discovery service, which shows strangers nothing.
    ///
    /// # Errors
    /// Connect Invalid Host for a stranger; Connect Invalid Parameters for an identifier that is
    /// pinned to another host.
    pub(super) fn admit(&self, host: &Data) -> Result<(), Status> {
        if host.subnqn == DISCOVERY_NQN {
            return Ok(());
        }
        allowed(self.of(&host.hostnqn), On::Unbound, Asks::Listed)?;
        match self.pins.get(&host.hostid) {
            Some(pinned) if *pinned != host.hostnqn => Err(Status::CONNECT_INVALID.dnr()),
            _ => Ok(()),
        }
    }

    /// Hosts with these faces, and others with the default ones; all have every right.
    pub(super) fn of_faces(faces: HostFaces) -> Self {
        Self::from_config(&AccessConfig::open(faces))
    }

    /// Gives a host a row.
    #[cfg(test)]
    pub(super) fn grant(&mut self, nqn: &str, granted: Granted) {
        self.hosts.insert(nqn.to_owned(), granted);
    }

    /// The row of a host. It is known by the name that it gives; an identity that it has proved
    /// belongs here too.
    pub(super) fn of(&self, nqn: &str) -> &Granted {
        self.hosts.get(nqn).unwrap_or(&self.others)
    }
}

#[cfg(test)]
mod tests;
