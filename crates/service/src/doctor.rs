//! Things that keep Pumice from working as its operator expects, found in configuration files.
//! Nothing is changed. `docs/reference/doctor.md` has the checks.

mod mdadm;
mod own;
mod root;
mod schedulers;
mod served;

use root::Root;
use serde::Serialize;
use std::path::Path;

/// The urgency of a trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Urgency {
    /// Something does not work, or data is at stake.
    Wrong,
    /// Something works worse than it could.
    Warning,
    /// Nothing needs to be done.
    Note,
}

/// Something that collides with Pumice or is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// The check that found it, such as `md-check`.
    pub check: &'static str,
    /// Its urgency.
    pub urgency: Urgency,
    /// A unit, a file, a program.
    pub subject: String,
    /// The words for it.
    pub words: String,
    /// The command that mends it, or what to write.
    pub mend: String,
}

/// The troubles of the system below a folder, `/` for this one; the most urgent first.
#[must_use]
pub fn examine(folder: &Path) -> Vec<Trouble> {
    let root = Root::new(folder);
    let checks = [schedulers::checks, served::checks, own::checks];
    let mut all: Vec<Trouble> = checks.iter().flat_map(|check| check(&root)).collect();
    all.sort_by_key(|trouble| trouble.urgency);
    all
}

#[cfg(test)]
mod tests;
