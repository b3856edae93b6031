//! Hashes and groups that an end accepts.

use crate::auth::group::{Ffdhe, Group};
use crate::auth::hash::Hash;
use crate::auth::message::Offer;

/// The hashes and groups of an end, in the order in which it wants them. Each list has at least
/// one, and none twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    hashes: Vec<Hash>,
    groups: Vec<Group>,
}

/// Lists that are no policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A list is empty.
    #[error("{0}: at least one is needed")]
    Empty(&'static str),
    /// A list has an entry twice.
    #[error("{0}: one is listed twice")]
    Twice(&'static str),
}

impl Policy {
    /// A policy of these lists.
    ///
    /// # Errors
    ///
    /// If one is empty, or has an entry twice.
    pub fn new(hashes: &[Hash], groups: &[Group]) -> Result<Self, PolicyError> {
        check(hashes, "hashes")?;
        check(groups, "groups")?;
        Ok(Self { hashes: hashes.to_vec(), groups: groups.to_vec() })
    }

    /// The hashes, the most wanted first.
    #[must_use]
    pub fn hashes(&self) -> &[Hash] {
        &self.hashes
    }

    /// The groups, the most wanted first.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// All of it, as a host offers it.
    #[must_use]
    pub fn offer(&self) -> Offer {
        Offer { hashes: self.hashes.clone(), groups: self.groups.clone() }
    }

    /// Our most wanted hash that is offered.
    #[must_use]
    pub fn choose_hash(&self, offer: &Offer) -> Option<Hash> {
        self.hashes.iter().copied().find(|hash| offer.hashes.contains(hash))
    }

    /// Our most wanted group that is offered.
    #[must_use]
    pub fn choose_group(&self, offer: &Offer) -> Option<Group> {
        self.groups.iter().copied().find(|group| offer.groups.contains(group))
    }
}

impl Default for Policy {
    /// All hashes; the groups of 3072 and 2048 bits. Larger groups let strangers cost us time, and
    /// without a group a listener can try keys.
    fn default() -> Self {
        let groups = vec![Group::Ffdhe(Ffdhe::F3072), Group::Ffdhe(Ffdhe::F2048)];
        Self { hashes: Hash::ALL.to_vec(), groups }
    }
}

fn check<T: PartialEq>(list: &[T], name: &'static str) -> Result<(), PolicyError> {
    if list.is_empty() {
        return Err(PolicyError::Empty(name));
    }
    let twice = list.iter().enumerate().any(|(i, entry)| list[..i].contains(entry));
    if twice { Err(PolicyError::Twice(name)) } else { Ok(()) }
}
