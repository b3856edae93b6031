//! Errors of the history, told apart by the action that each asks of a person.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Failure to open, read or write the history.
#[derive(Debug, Error)]
pub enum Error {
    /// There is no database, or an empty one.
    #[error("{}: there is no history yet; start the monitor", path.display())]
    Missing {
        /// The database.
        path: PathBuf,
    },
    /// A hot journal, and no right to roll it back.
    #[error("{}: the monitor did not end well; start it", path.display())]
    HotJournal {
        /// The database.
        path: PathBuf,
    },
    /// Another process has a lock of SQLite for longer than 2 seconds.
    #[error("{}: {doing}: waited 2 s for another process that has the database locked", path.display())]
    Busy {
        /// The database.
        path: PathBuf,
        /// The action that failed.
        doing: &'static str,
    },
    /// Another process writes this history.
    #[error("{}: another process writes the history", path.display())]
    Held {
        /// The database.
        path: PathBuf,
    },
    /// A newer program wrote the database.
    #[error("{}: version {found} is newer than {known}, the newest that this program knows", path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version that is known.
        known: i64,
    },
    /// An older program wrote the database, and a reader cannot migrate it.
    #[error("{}: version {found} is older than {known}; start the monitor, which migrates it", path.display())]
    Older {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version that is needed.
        known: i64,
    },
    /// The database is damaged.
    #[error("{}: the database is damaged: {what}", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// There is no room left.
    #[error("{}: {doing}: no room is left on the file system", path.display())]
    Full {
        /// The database.
        path: PathBuf,
        /// The action that failed.
        doing: &'static str,
    },
    /// A pass file, or something that was to be written, is not what it must be.
    #[error("{subject}: {what}")]
    Invalid {
        /// The file or the field.
        subject: String,
        /// Description of the mistake.
        what: String,
    },
    /// The file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// SQLite failed in another way.
    #[error("{}: {doing}: {what}", path.display())]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// The action that failed.
        doing: &'static str,
        /// SQLite's words.
        what: String,
    },
}

/// Failure of a statement.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite refused.
    Sqlite(rusqlite::Error),
    /// A row is not what it must be.
    Damaged(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// `SQLITE_READONLY_ROLLBACK`: a hot journal, and the connection may not write.
const READONLY_ROLLBACK: i32 = 776;

impl Error {
    /// The error of a fault while something was done with a database.
    pub(crate) fn of(path: &Path, doing: &'static str, fault: Fault) -> Self {
        let path = path.to_owned();
        let error = match fault {
            Fault::Damaged(what) => return Self::Damaged { path, what },
            Fault::Sqlite(error) => error,
        };
        let what = error.to_string();
        let rusqlite::Error::SqliteFailure(failure, _) = &error else {
            // A value of a wrong type or without meaning: the schema is checked, so a row is wrong.
            return Self::Damaged { path, what };
        };
        if failure.extended_code == READONLY_ROLLBACK {
            return Self::HotJournal { path };
        }
        // The result codes of <https://www.sqlite.org/rescode.html>.
        match failure.extended_code & 0xff {
            5 | 6 => Self::Busy { path, doing },
            13 => Self::Full { path, doing },
            // SQLITE_ERROR as well: the statements are right for the schema, so it is another one.
            1 | 11 | 18 | 24 | 26 => Self::Damaged { path, what },
            // SQLITE_READONLY alone: the file can be written, so its header says a format of the
            // future. Its extended codes have other causes, such as a file that was moved.
            8 if failure.extended_code == 8 => Self::Damaged { path, what },
            _ => Self::Sqlite { path, doing, what },
        }
    }
}
