//! Opens the database: for the process that writes, and for readers.

use crate::history::error::Fault;
use crate::history::place::{self, There};
use crate::history::schema::{self, APPLICATION, MIGRATIONS, Migration, TABLES};
use crate::history::table::Table;
use crate::history::{Error, History, Reader};
use rusqlite::{Connection, MAIN_DB, OpenFlags};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait of a statement for another process.
const BUSY: Duration = Duration::from_secs(2);

/// Result of opening a database for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// A sound database.
    Found,
    /// A sound database of an older version, which is of this version now.
    Migrated {
        /// The version that it had.
        from: i64,
    },
    /// None: a new one was made.
    New,
    /// An empty file, which became a new database. A cut while it was made leaves that, or a
    /// loss: say so.
    Empty,
    /// A damaged database: it was set aside, and a new one made. Warn, with both names.
    SetAside {
        /// New path of the damaged database.
        kept: PathBuf,
        /// Description of the damage.
        why: String,
    },
}

pub(crate) fn settings(database: &Connection) -> Result<(), Fault> {
    database.busy_timeout(BUSY)?;
    database.pragma_update(None, "trusted_schema", false)?;
    database.pragma_update(None, "cell_size_check", true)?;
    database.pragma_update(None, "foreign_keys", true)?;
    database.pragma_update(None, "synchronous", "EXTRA")?;
    Ok(())
}

/// Compares the versions of a database that is not new with the one that is known.
fn version(database: &Connection, known: i64) -> Result<Version, Fault> {
    let application: i64 = database.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if application != APPLICATION {
        return Err(Fault::Damaged("it is not a history".to_owned()));
    }
    let found = schema::version(database)?;
    if found != known && schema::version_in_table(database)? != Some(found) {
        return Err(Fault::Damaged("its two versions differ".to_owned()));
    }
    Ok(match found {
        found if found > known => Version::Newer(found),
        found if found == known => Version::Same,
        found if found > 0 => Version::Older(found),
        _ => return Err(Fault::Damaged(format!("there is no version {found}"))),
    })
}

enum Version {
    Older(i64),
    Same,
    Newer(i64),
}

/// Steps to the version that a database must have, and the tables of that version.
pub(crate) struct Target {
    pub(crate) steps: &'static [Migration],
    pub(crate) tables: &'static [&'static Table],
}

const TARGET: Target = Target { steps: MIGRATIONS, tables: &TABLES };

/// Opens a file that is there, for writing: settings, migration, check.
fn begin(path: &Path, target: &Target) -> Result<(Connection, Option<i64>), Error> {
    let failed = |fault| Error::of(path, "opening", fault);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(path, flags).map_err(|error| failed(error.into()))?;
    settings(&database).map_err(failed)?;
    let mode = || -> Result<String, Fault> {
        Ok(database.query_row("PRAGMA journal_mode = TRUNCATE", [], |row| row.get(0))?)
    };
    if mode().map_err(failed)? != "truncate" {
        return Err(failed(Fault::Damaged("its journal cannot be of the kind TRUNCATE".to_owned())));
    }
    let known = target.steps.len() as i64;
    let from = if schema::is_new(&database).map_err(failed)? {
        0
    } else {
        match version(&database, known).map_err(failed)? {
            Version::Newer(found) => return Err(Error::Newer { path: path.to_owned(), found, known }),
            Version::Older(found) => found,
            Version::Same => known,
        }
    };
    schema::migrate(&mut database, from as usize, target.steps).map_err(failed)?;
    schema::check(&database, target.steps, target.tables).map_err(failed)?;
    // A damaged header may say that the database can only be read.
    if database.is_readonly(MAIN_DB).map_err(|error| failed(error.into()))? {
        return Err(failed(Fault::Damaged("its header says that it cannot be written".to_owned())));
    }
    Ok((database, (from != known).then_some(from)))
}

impl History {
    /// Opens the database for the process that writes; makes folder and database if they are
    /// missing, migrates an older version, and sets a damaged database aside.
    ///
    /// It reads the whole database to check it.
    ///
    /// # Errors
    /// If another process writes, the database is of a newer version, there is no room, or the
    /// file system fails.
    pub fn open(path: &Path) -> Result<(Self, Opened), Error> {
        Self::open_as(path, &TARGET)
    }

    pub(crate) fn open_as(path: &Path, target: &Target) -> Result<(Self, Opened), Error> {
        place::make_folder(path)?;
        let lock = place::lock(path)?;
        let there = place::prepare(path)?;
        place::sync_journal(path)?;
        let (database, opened) = match begin(path, target) {
            Ok((database, from)) => {
                let opened = match (there, from) {
                    (There::Nothing, _) => Opened::New,
                    (There::Empty, _) => Opened::Empty,
                    (There::Something, Some(from)) if from > 0 => Opened::Migrated { from },
                    // A cut while it was made, which SQLite rolled back to nothing.
                    (There::Something, Some(_)) => Opened::Empty,
                    (There::Something, None) => Opened::Found,
                };
                (database, opened)
            }
            Err(Error::Damaged { what, .. }) => {
                // SQLite tells a failed read as damage. Only a file that can be read whole is
                // damaged.
                let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
                read.map_err(place::failed(path))?;
                let kept = place::set_aside(path)?;
                place::prepare(path)?;
                let (database, _) = begin(path, target)?;
                (database, Opened::SetAside { kept, why: what })
            }
            Err(error) => return Err(error),
        };
        Ok((Self { reader: Reader { database, path: path.to_owned() }, _lock: lock }, opened))
    }
}

impl Reader {
    /// Opens the database to read it, without write access to file or folder. Rows are checked
    /// when they are read.
    ///
    /// # Errors
    /// If there is no database, it is of another version, it has a hot journal, or it is locked
    /// for longer than 2 seconds.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |fault| Error::of(path, "opening", fault);
        match std::fs::metadata(path) {
            // SQLite takes one byte for none.
            Ok(file) if file.len() > 1 => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(place::failed(path)(error));
            }
            _ => return Err(Error::Missing { path: path.to_owned() }),
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(path, flags).map_err(|error| failed(error.into()))?;
        settings(&database).map_err(failed)?;
        let known = MIGRATIONS.len() as i64;
        let path = path.to_owned();
        match version(&database, known).map_err(failed)? {
            Version::Newer(found) => Err(Error::Newer { path, found, known }),
            Version::Older(found) => Err(Error::Older { path, found, known }),
            Version::Same => Ok(Self { database, path }),
        }
    }

    /// The path of the database.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
