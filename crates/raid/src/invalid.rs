//! An invalid structure on disk: the name of the field, and the reason.

use std::fmt;

/// A field of an on-disk structure with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The structure, such as `superblock 1.2`.
    pub structure: &'static str,
    /// The field, by its name in `docs/reference/on-disk/md.md`.
    pub field: &'static str,
    /// Its value.
    pub found: String,
    /// The allowed values.
    pub allowed: String,
}

impl Invalid {
    pub(crate) fn new(
        structure: &'static str,
        field: &'static str,
        found: impl fmt::Display,
        allowed: impl fmt::Display,
    ) -> Self {
        Self { structure, field, found: found.to_string(), allowed: allowed.to_string() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is {}; must be {}", self.structure, self.field, self.found, self.allowed)
    }
}

impl std::error::Error for Invalid {}

/// The checks of one structure, each a line where it is used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check(pub(crate) &'static str);

impl Check {
    /// `field` has the value `found`; unless `ok`, this is an error that names the `allowed`
    /// values.
    pub(crate) fn that(
        self,
        ok: bool,
        field: &'static str,
        found: impl fmt::Display,
        allowed: impl fmt::Display,
    ) -> Result<(), Invalid> {
        if ok { Ok(()) } else { Err(Invalid::new(self.0, field, found, allowed)) }
    }
}
