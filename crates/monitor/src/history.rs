//! The history of a machine: what passes found, what happened, how drives were.
//!
//! One SQLite database, which one process writes and others read. Tables, settings, the order of
//! durable steps and failures are in `docs/reference/on-disk/history.md`. Time is an argument:
//! Unix microseconds.

pub mod cells;
mod document;
mod error;
mod events;
mod keep;
mod open;
mod place;
mod query;
mod rows;
mod schema;
mod table;
mod take;
mod values;

#[cfg(test)]
mod tests;

pub use document::{Array, Checked, Finding, MOST_BYTES, PassFile, Report, Stripes};
pub use error::Error;
pub use keep::{Removed, Retention};
pub use open::Opened;
pub use query::Reader;
pub use rows::{ArrayRow, Cursor, Drive, Event, EventRow, FindingRow, PassRow, Sample};
pub use take::{MOST_FINDINGS, Taken};
pub use values::{ArrayUuid, Change, Count, DriveState, Id, Invalid, Kind, Limit, Severity, Text, Time};

use std::fs::File;

/// The database, for the one process that writes it.
#[derive(Debug)]
pub struct History {
    reader: Reader,
    // Held for its lock alone.
    _lock: File,
}

impl History {
    /// The questions.
    #[must_use]
    pub const fn reader(&self) -> &Reader {
        &self.reader
    }
}
