//! The rules as `xtask/tidy.toml` lists them.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Rules for the sources.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rules {
    /// Lines of a production file, at most.
    pub(super) max_lines: usize,
    /// Lines of a file of tests, at most.
    pub(super) max_test_lines: usize,
    /// Lines of a production function, at most.
    pub(super) max_function_lines: usize,
    /// Columns of prose and of comments, at most.
    pub(super) max_columns: usize,
    /// Floors of crates, the lowest first: a crate depends on crates of lower floors only.
    pub(super) floors: Vec<Vec<String>>,
    /// Crates and modules that have no clock, no thread and no file.
    pub(super) pure: BTreeSet<String>,
    /// Modules of them that are not pure.
    #[serde(default)]
    pub(super) impure: BTreeSet<String>,
    /// Crates and modules that may contain `unsafe`.
    pub(super) may_be_unsafe: BTreeSet<String>,
    /// For a folder of modules: its modules, the lowest first. A module imports lower ones only.
    pub(super) modules: BTreeMap<String, Vec<String>>,
    /// Production files that are too long.
    #[serde(default)]
    pub(super) long: BTreeSet<String>,
    /// Files with prose or comments that are too wide.
    #[serde(default)]
    pub(super) wide: BTreeSet<String>,
    /// Imports that go up: `folder: from -> to`.
    #[serde(default)]
    pub(super) upward: BTreeSet<String>,
    /// Modules that import one another, in folders without a list: `folder: one, other`.
    #[serde(default)]
    pub(super) circles: BTreeSet<String>,
    /// Production functions that are too long: `file: function`.
    #[serde(default)]
    pub(super) long_functions: BTreeSet<String>,
    /// Files and folders with doc comments that begin with a question.
    #[serde(default)]
    pub(super) questions: BTreeSet<String>,
}

impl Rules {
    /// Reads the rules.
    pub(super) fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}
