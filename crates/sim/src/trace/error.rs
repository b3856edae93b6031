//! Faults of a trace, and their places.

use std::io;
use thiserror::Error;

/// A trace that cannot be read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("{path}: {source}")]
    Open {
        /// Its path.
        path: String,
        /// The failure.
        source: io::Error,
    },
    /// It ends early or its compression is damaged.
    #[error(
        "{path}: line {line}, field 'line': the file is damaged or cut off within it or the line before: {source}"
    )]
    Read {
        /// Its path.
        path: String,
        /// The line that could not be read, from 1.
        line: u64,
        /// The failure.
        source: io::Error,
    },
    /// A field is missing or senseless.
    #[error("{path}: line {line}, field '{field}': {what}")]
    Field {
        /// The file's path.
        path: String,
        /// The line, from 1.
        line: u64,
        /// The field's name in its format.
        field: &'static str,
        /// The problem with it.
        what: String,
    },
    /// No format that is known.
    #[error(
        "{path}: line {line}, field '{field}': {what}; formats are csv, msr, spc, blkparse and fio (--format)"
    )]
    Format {
        /// The file's path.
        path: String,
        /// The line that was looked at.
        line: u64,
        /// The field that told.
        field: &'static str,
        /// The problem.
        what: String,
    },
    /// No requests.
    #[error("{path}: line {line}, field '{field}': {what}")]
    Empty {
        /// The file's path.
        path: String,
        /// The line after the last.
        line: u64,
        /// The field that was looked for.
        field: &'static str,
        /// The part that is missing.
        what: String,
    },
}

/// A field that is wrong: its name and why. The reader adds path and line.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) field: &'static str,
    pub(crate) what: String,
}

impl Wrong {
    pub(crate) fn new(field: &'static str, what: impl Into<String>) -> Self {
        Self { field, what: what.into() }
    }
}
