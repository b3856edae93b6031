//! The faces of drives with tags that hosts see: `docs/design/visible-face.md`.

use pumice_nvme::spec::Nqn;

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

    /// The hosts, each with its faces.
    pub(super) fn into_hosts(self) -> impl Iterator<Item = (Nqn, Faces)> {
        self.0.into_iter()
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
}
