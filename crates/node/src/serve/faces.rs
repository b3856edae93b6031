//! The faces of drives with tags, as namespaces: `docs/design/visible-face.md`. The table of hosts
//! says who has which.

use super::access::{Granted, HostTable};
use super::drive::Drive;
use pumice_nvme::controller::{Attached, Attachments};
use pumice_nvme::spec::identify::Namespace;
use std::sync::Arc;

/// The namespaces of a host for drives with a visible face (true) or without. The one namespace of
/// a drive without a visible face is attached to every host that has a face, and the drive.
fn attached(host: &Granted, visible: &[bool]) -> Attached {
    let (faces, own) = (host.faces(), host.own());
    let drives = || visible.iter().enumerate();
    let hidden =
        drives().map(|(i, visible)| own.has(i) && (faces.has_hidden() || faces.has_visible() && !visible));
    Attached::new(hidden.chain(drives().map(|(i, visible)| own.has(i) && faces.has_visible() && *visible)))
}

/// The drives, from 0, of which a host has a namespace.
pub(super) fn own_drives(attached: &Attached, drives: usize) -> Vec<bool> {
    let has = |drive, visible| attached.has(Face { drive, visible }.nsid(drives));
    (0..drives).map(|drive| has(drive, false) || has(drive, true)).collect()
}

/// The namespaces of drives and their attachments: first the hidden face of each drive, then the
/// visible face of each. The number for the visible face of a drive without one stays unused.
pub(super) fn namespaces(drives: &[Drive], access: Arc<HostTable>) -> (Vec<Namespace>, Attachments) {
    let mut namespaces: Vec<Namespace> = drives.iter().map(Drive::namespace).collect();
    let visible: Vec<Option<Namespace>> = drives.iter().map(Drive::visible_namespace).collect();
    let has: Vec<bool> = visible.iter().map(Option::is_some).collect();
    // The namespace under an unused number is attached to no host.
    let fill: Vec<Namespace> =
        visible.iter().zip(&namespaces).map(|(visible, hidden)| visible.unwrap_or(*hidden)).collect();
    namespaces.extend(fill);
    (namespaces, Attachments::new(move |nqn| attached(access.of(nqn), &has)))
}

/// A drive and its face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Face {
    /// The drive, counted from 0.
    pub(super) drive: usize,
    /// True if it is the visible one.
    pub(super) visible: bool,
}

impl Face {
    /// The face with this NSID, if there are `drives` drives.
    pub(super) fn of(nsid: u32, drives: usize) -> Option<Self> {
        let index = (nsid as usize).checked_sub(1).filter(|index| *index < 2 * drives)?;
        Some(Self { drive: index % drives, visible: index >= drives })
    }

    /// Its NSID.
    pub(super) fn nsid(self, drives: usize) -> u32 {
        (self.drive + 1 + if self.visible { drives } else { 0 }) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::access::Faces;
    use crate::serve::hosts::OwnDrives;

    #[test]
    fn a_host_has_the_namespaces_of_its_faces() {
        // The second of three drives has no tags.
        let row = |faces| Granted::with_faces(faces);
        let of = |faces| attached(&row(faces), &[true, false, true]).above(0).collect::<Vec<_>>();
        let faces = |words: &[&str]| Faces::parse(words).unwrap();
        assert_eq!(of(faces(&["visible"])), [2, 4, 6]);
        assert_eq!(of(faces(&["visible", "hidden"])), [1, 2, 3, 4, 6]);
        assert_eq!((of(faces(&["unchecked"])), of(Faces::default())), (vec![1, 2, 3], vec![1, 2, 3]));
        assert_eq!(of(Faces::NONE), [], "not even those that have one face");
        let last = row(faces(&["visible", "hidden"])).with_drives(OwnDrives::only([2]));
        let last = attached(&last, &[true, false, true]);
        assert_eq!(last.above(0).collect::<Vec<_>>(), [3, 6]);
        assert_eq!(own_drives(&last, 3), [false, false, true]);
    }

    #[test]
    fn numbers_of_faces() {
        for nsid in 1..=6 {
            let face = Face::of(nsid, 3).unwrap();
            assert_eq!((face.drive, face.visible), ((nsid as usize - 1) % 3, nsid > 3));
            assert_eq!(face.nsid(3), nsid);
        }
        assert!([0, 7, u32::MAX].iter().all(|nsid| Face::of(*nsid, 3).is_none()));
    }
}
