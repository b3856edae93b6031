//! The namespaces that are attached to each host.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The namespaces that are attached to the controllers of one host. The host cannot use the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached(Arc<[bool]>);

/// The meaning of an NSID for a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nsid {
    /// A namespace, by its index.
    Active(usize),
    /// No namespace, but a larger NSID has one.
    Inactive,
    /// No namespace, and no larger NSID has one.
    Invalid,
}

impl Attached {
    /// For namespaces 1, 2, …: whether each is attached.
    #[must_use]
    pub fn new(namespaces: impl IntoIterator<Item = bool>) -> Self {
        let mut attached: Vec<bool> = namespaces.into_iter().collect();
        let most = attached.iter().rposition(|attached| *attached).map_or(0, |last| last + 1);
        attached.truncate(most);
        Self(attached.into())
    }

    /// The largest NSID; 0 if there is no namespace.
    #[must_use]
    pub fn largest(&self) -> u32 {
        self.0.len() as u32
    }

    /// Returns whether a namespace is attached.
    #[must_use]
    pub fn has(&self, nsid: u32) -> bool {
        matches!(self.find(nsid), Nsid::Active(_))
    }

    /// The attached NSIDs above `nsid`, ascending.
    pub fn above(&self, nsid: u32) -> impl Iterator<Item = u32> {
        (1..).zip(self.0.iter()).skip(nsid as usize).filter_map(|(nsid, attached)| attached.then_some(nsid))
    }

    pub(crate) fn find(&self, nsid: u32) -> Nsid {
        let index = (nsid as usize).checked_sub(1);
        match index.and_then(|index| Some((index, *self.0.get(index)?))) {
            Some((index, true)) => Nsid::Active(index),
            Some((_, false)) => Nsid::Inactive,
            None => Nsid::Invalid,
        }
    }
}

/// The namespaces that are attached to each host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachments {
    /// For hosts that are not in `hosts`.
    pub others: Attached,
    /// By NQN of the host.
    pub hosts: BTreeMap<String, Attached>,
}

impl Attachments {
    /// All of `namespaces` namespaces for every host.
    #[must_use]
    pub fn all(namespaces: usize) -> Self {
        Self { others: Attached::new((0..namespaces).map(|_| true)), hosts: BTreeMap::new() }
    }

    /// The namespaces of the host with this NQN.
    #[must_use]
    pub fn of(&self, hostnqn: &str) -> Attached {
        self.hosts.get(hostnqn).unwrap_or(&self.others).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_attached_has_no_number_above_the_largest() {
        let attached = Attached::new([false, true, false, true, false]);
        assert_eq!(attached.largest(), 4);
        let found: Vec<Nsid> = (0..7).map(|nsid| attached.find(nsid)).collect();
        use Nsid::{Active, Inactive, Invalid};
        assert_eq!(found, [Invalid, Inactive, Active(1), Inactive, Active(3), Invalid, Invalid]);
        let above = |nsid| attached.above(nsid).collect::<Vec<_>>();
        assert_eq!((above(0), above(2), above(4), above(u32::MAX)), (vec![2, 4], vec![4], vec![], vec![]));
        assert_eq!(Attached::new([false]).largest(), 0);
        let mut of = Attachments::all(2);
        of.hosts.insert("one".to_owned(), attached.clone());
        assert_eq!((of.of("one"), of.of("two").largest()), (attached, 2));
    }
}
