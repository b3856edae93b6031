//! The faces of drives with tags, by host: `docs/design/visible-face.md`.

use super::drive::Drive;
use pumice_nvme::controller::{Attached, Attachments};
use pumice_nvme::spec::Nqn;
use pumice_nvme::spec::identify::Namespace;
use std::collections::BTreeMap;

/// The check of tags in reads over the hidden face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// A block that differs from its tag is refused.
    Checked,
    /// Tags are not checked.
    Unchecked,
}

/// The faces of a host, at least one.
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
    /// Parses a list of the words `hidden`, `visible` and `unchecked`.
    ///
    /// # Errors
    /// If the list is empty, a word is unknown or repeated, or both `hidden` and `unchecked` are in
    /// it: they are the same namespace.
    pub fn parse<T: AsRef<str>>(words: &[T]) -> Result<Self, String> {
        let mut faces = Self { hidden: None, visible: false };
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
        if words.is_empty() {
            return Err("a host has one face at least".to_owned());
        }
        Ok(faces)
    }

    /// Whether the visible face is one of them.
    #[must_use]
    pub fn has_visible(&self) -> bool {
        self.visible
    }

    /// Whether reads over the hidden face skip the check of tags.
    #[must_use]
    pub fn is_unchecked(&self) -> bool {
        self.hidden == Some(Reads::Unchecked)
    }
}

/// The faces of each host, by its NQN.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFaces(BTreeMap<String, Faces>);

impl HostFaces {
    /// The faces of these hosts; others have the default.
    ///
    /// # Errors
    /// The NQN of a host that is given twice.
    pub fn new(hosts: impl IntoIterator<Item = (Nqn, Faces)>) -> Result<Self, Nqn> {
        let mut all = BTreeMap::new();
        for (nqn, faces) in hosts {
            if all.insert(nqn.as_str().to_owned(), faces).is_some() {
                return Err(nqn);
            }
        }
        Ok(Self(all))
    }

    /// The faces of the host with this NQN.
    #[must_use]
    pub fn of(&self, nqn: &str) -> Faces {
        self.0.get(nqn).copied().unwrap_or_default()
    }

    /// Whether any host has the visible face.
    #[must_use]
    pub fn has_visible(&self) -> bool {
        self.0.values().any(Faces::has_visible)
    }

    /// The attachments for drives with a visible face (true) or without. The one namespace of a
    /// drive without a visible face is attached to every host.
    fn attachments(&self, visible: &[bool]) -> Attachments {
        let attached = |faces: Faces| {
            let hidden = visible.iter().map(|visible| faces.hidden.is_some() || !visible);
            Attached::new(hidden.chain(visible.iter().map(|visible| faces.visible && *visible)))
        };
        let hosts = self.0.iter().map(|(nqn, faces)| (nqn.clone(), attached(*faces))).collect();
        Attachments { others: attached(Faces::default()), hosts }
    }
}

/// The namespaces of drives and their attachments: first the hidden face of each drive, then the
/// visible face of each. The number for the visible face of a drive without one stays unused.
pub(super) fn namespaces(drives: &[Drive], hosts: &HostFaces) -> (Vec<Namespace>, Attachments) {
    let mut namespaces: Vec<Namespace> = drives.iter().map(Drive::namespace).collect();
    let visible: Vec<Option<Namespace>> = drives.iter().map(Drive::visible_namespace).collect();
    let has: Vec<bool> = visible.iter().map(Option::is_some).collect();
    // The namespace under an unused number is attached to no host.
    let fill: Vec<Namespace> =
        visible.iter().zip(&namespaces).map(|(visible, hidden)| visible.unwrap_or(*hidden)).collect();
    namespaces.extend(fill);
    (namespaces, hosts.attachments(&has))
}

/// A drive and its face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Face {
    /// The drive, counted from 0.
    pub(super) drive: usize,
    /// Whether it is the visible one.
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

    #[test]
    fn words_are_faces() {
        let (checked, unchecked) = (Some(Reads::Checked), Some(Reads::Unchecked));
        for (words, hidden, visible) in [
            (&["hidden"][..], checked, false),
            (&["visible"], None, true),
            (&["visible", "hidden"], checked, true),
            (&["unchecked"], unchecked, false),
            (&["unchecked", "visible"], unchecked, true),
        ] {
            assert_eq!(Faces::parse(words), Ok(Faces { hidden, visible }), "{words:?}");
        }
        assert_eq!(Faces::parse(&["hidden"]), Ok(Faces::default()));
        for (words, why) in [
            (&[][..], "one face at least"),
            (&["seen"], "'seen'"),
            (&["visible", "visible"], "twice"),
            (&["hidden", "visible", "hidden"], "twice"),
            (&["hidden", "unchecked"], "the same namespace"),
        ] {
            let error = Faces::parse(words).unwrap_err();
            assert!(error.contains(why), "{words:?}: {error}");
        }
    }

    #[test]
    fn a_host_has_the_faces_that_the_list_says() {
        let nqn = |name: &str| format!("nqn.2026-11.example:{name}").parse::<Nqn>().unwrap();
        let faces = |words: &[&str]| Faces::parse(words).unwrap();
        let hosts = [
            (nqn("v"), faces(&["visible"])),
            (nqn("b"), faces(&["visible", "hidden"])),
            (nqn("u"), faces(&["unchecked"])),
        ];
        let hosts = HostFaces::new(hosts).unwrap();
        // The second of three drives has no tags.
        let attachments = hosts.attachments(&[true, false, true]);
        let of = |host: &str| attachments.of(nqn(host).as_str()).above(0).collect::<Vec<_>>();
        assert_eq!(of("v"), [2, 4, 6]);
        assert_eq!(of("b"), [1, 2, 3, 4, 6]);
        assert_eq!((of("u"), of("another")), (vec![1, 2, 3], vec![1, 2, 3]));
        assert!(hosts.of(nqn("u").as_str()).is_unchecked() && !hosts.of("").is_unchecked());
        assert_eq!(HostFaces::new(vec![(nqn("v"), Faces::default()); 2]), Err(nqn("v")));
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
