//! The one table of hosts, with their faces, rights and shares.
//!
//! `docs/design/node.md`, *Who may do what*, has the rights of each command. Code that
//! depends on the host asks here, once it knows the host of a connection. Other tables by host hold
//! only what hosts use at the moment. Today every host has every right.

mod ask;

pub(super) use ask::asked;

use pumice_nvme::spec::command::On;
use pumice_nvme::spec::{Nqn, Status};
use std::collections::BTreeMap;

/// The check of tags in reads over the hidden face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// A block that differs from its tag is refused.
    Checked,
    /// Tags are not checked.
    Unchecked,
}

/// The faces of a host: `docs/design/visible-face.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faces {
    hidden: Option<Reads>,
    visible: bool,
}

impl Default for Faces {
    /// The hidden face, with checks.
    fn default() -> Self {
        Self { hidden: Some(Reads::Checked), visible: false }
    }
}

impl Faces {
    /// None: the host sees no namespace, and may do nothing to drives.
    pub(super) const NONE: Self = Self { hidden: None, visible: false };

    /// Parses a list of the words `hidden`, `visible` and `unchecked`.
    ///
    /// # Errors
    /// If the list is empty, a word is unknown or repeated, or both `hidden` and `unchecked` are in
    /// it: they are the same namespace.
    pub fn parse<T: AsRef<str>>(words: &[T]) -> Result<Self, String> {
        let mut faces = Self::NONE;
        for word in words.iter().map(AsRef::as_ref) {
            let reads = match word {
                "visible" if faces.visible => return Err("'visible' is given twice".to_owned()),
                "visible" => {
                    faces.visible = true;
                    continue;
                }
                "hidden" => Reads::Checked,
                "unchecked" => Reads::Unchecked,
                _ => return Err(format!("'{word}' is not hidden, visible or unchecked")),
            };
            match faces.hidden.replace(reads) {
                None => {}
                Some(before) if before == reads => return Err(format!("'{word}' is given twice")),
                Some(_) => return Err("'hidden' and 'unchecked' are the same namespace".to_owned()),
            }
        }
        if faces == Self::NONE {
            return Err("a host has one face at least".to_owned());
        }
        Ok(faces)
    }

    /// Returns whether the visible face is one of them.
    #[must_use]
    pub fn has_visible(&self) -> bool {
        self.visible
    }

    /// Returns whether the hidden face is one of them.
    pub(super) fn has_hidden(self) -> bool {
        self.hidden.is_some()
    }

    /// Returns whether reads over the hidden face skip the check of tags.
    #[must_use]
    pub fn is_unchecked(&self) -> bool {
        self.hidden == Some(Reads::Unchecked)
    }
}

/// The faces of hosts that an operator gave, each host once: what the table is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFaces(Vec<(Nqn, Faces)>);

impl HostFaces {
    /// The faces of these hosts.
    ///
    /// # Errors
    /// The NQN of a host that is given twice.
    pub fn new(hosts: impl IntoIterator<Item = (Nqn, Faces)>) -> Result<Self, Nqn> {
        let mut all: Vec<(Nqn, Faces)> = Vec::new();
        for (nqn, faces) in hosts {
            if all.iter().any(|(known, _)| *known == nqn) {
                return Err(nqn);
            }
            all.push((nqn, faces));
        }
        Ok(Self(all))
    }

    /// Returns whether any host has the visible face.
    #[must_use]
    pub fn has_visible(&self) -> bool {
        self.0.iter().any(|(_, faces)| faces.has_visible())
    }
}

/// A right of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    /// To associate, and to keep the association.
    Connect,
    /// To learn about the controller, its namespaces, drives and hosts, and to set features.
    Admin,
    /// To read drives.
    Read,
    /// To write drives.
    Write,
    /// To make blocks unreadable.
    Mark,
    /// To have the parity engine work, and to set its pace.
    Parity,
    /// To lease and use local memory.
    Lease,
    /// To have nodes send to each other: updates, transfers, and the writes that arrive from them.
    Peers,
    /// To keep other hosts away.
    Hold,
}

impl Right {
    /// All of them, in the order of the page.
    pub(super) const ALL: [Self; 9] = [
        Self::Connect,
        Self::Admin,
        Self::Read,
        Self::Write,
        Self::Mark,
        Self::Parity,
        Self::Lease,
        Self::Peers,
        Self::Hold,
    ];
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights(u16);

impl Rights {
    /// No right.
    pub(super) const NONE: Self = Self(0);
    /// Every right.
    pub(super) const ALL: Self = Self((1 << Right::ALL.len()) - 1);
    /// The rights that have nothing to do with drives.
    const WITHOUT_DRIVES: Self = Self::of(&[Right::Connect, Right::Admin]);

    /// These rights.
    pub(super) const fn of(rights: &[Right]) -> Self {
        let (mut set, mut i) = (0, 0);
        while i < rights.len() {
            set |= 1 << rights[i] as u16;
            i += 1;
        }
        Self(set)
    }

    /// Returns whether it has a right.
    #[cfg(test)]
    pub(super) const fn has(self, right: Right) -> bool {
        self.0 & 1 << right as u16 != 0
    }

    /// Returns whether it has all of others.
    const fn has_all(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// The rights that both have.
    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// All but one.
    #[cfg(test)]
    pub(super) const fn without(self, right: Right) -> Self {
        Self(self.0 & !(1 << right as u16))
    }
}

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Granted {
    faces: Faces,
    rights: Rights,
    shares: Shares,
}

impl Granted {
    /// A row with every right.
    pub(super) fn with_faces(faces: Faces) -> Self {
        Self { faces, rights: Rights::ALL, shares: Shares::EACH }
    }

    /// The same row with other rights.
    #[cfg(test)]
    pub(super) fn with_rights(self, rights: Rights) -> Self {
        Self { rights, ..self }
    }

    /// The faces of drives that it sees.
    pub(super) fn faces(&self) -> Faces {
        self.faces
    }

    /// Its shares.
    pub(super) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Its rights: a host that sees no namespace has none to drives.
    fn rights(&self) -> Rights {
        if self.faces == Faces::NONE { self.rights.and(Rights::WITHOUT_DRIVES) } else { self.rights }
    }
}

/// The one place where a command is allowed or denied. `on` is the queue that it came over.
///
/// # Errors
/// The status of the command if the host lacks one of the rights.
pub(super) fn allowed(host: &Granted, on: On, asked: Rights) -> Result<(), Status> {
    if host.rights().has_all(asked) {
        return Ok(());
    }
    let status = match on {
        On::Unbound => Status::CONNECT_HOST,
        On::Admin => Status::OPERATION_DENIED,
        On::Io => Status::ACCESS_DENIED,
    };
    Err(status.dnr())
}

/// The table of hosts.
#[derive(Debug, Clone)]
pub(super) struct HostTable {
    hosts: BTreeMap<String, Granted>,
    /// Hosts that have no row.
    others: Granted,
}

impl HostTable {
    /// Hosts with these faces, and others with the default ones; all have every right.
    pub(super) fn of_faces(HostFaces(hosts): HostFaces) -> Self {
        let row = |(nqn, faces): (Nqn, Faces)| (nqn.as_str().to_owned(), Granted::with_faces(faces));
        Self { hosts: hosts.into_iter().map(row).collect(), others: Granted::with_faces(Faces::default()) }
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
