//! NVMe qualified names.

use std::fmt;
use std::str::FromStr;

/// The name by which every discovery service goes.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// A qualified name: `nqn.` and more, at most 223 bytes of UTF-8 without zeros. (NVMe Base, NVMe Qualified Names.)
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nqn(String);

/// Why a text is no qualified name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no NVMe qualified name: nqn. and 7 to 219 bytes more")]
pub struct NqnError(String);

impl Nqn {
    /// The discovery service's name.
    #[must_use]
    pub fn discovery() -> Self {
        Self(DISCOVERY_NQN.to_owned())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Nqn {
    type Err = NqnError;

    fn from_str(text: &str) -> Result<Self, NqnError> {
        let good = text.starts_with("nqn.")
            && (11..=223).contains(&text.len())
            && !text.chars().any(char::is_control);
        if good { Ok(Self(text.to_owned())) } else { Err(NqnError(text.to_owned())) }
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
