//! Retention and backups.

use crate::history::error::Fault;
use crate::history::open::settings;
use crate::history::place;
use crate::history::query::OPEN;
use crate::history::schema::{self, MIGRATIONS, TABLES};
use crate::history::values::{Kind, Time};
use crate::history::{Error, History, Reader};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Times before which rows are removed, and the channels that must have accepted an event first.
#[derive(Debug, Clone, Copy)]
pub struct Retention<'a> {
    /// Reports of runs that ended before it go; samples of health and events from before it too.
    pub reports: Time,
    /// Findings of runs that ended before it go.
    pub findings: Time,
    /// An event stays until each of these channels has accepted it.
    pub channels: &'a [Kind],
}

/// Numbers of removed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Reports.
    pub reports: usize,
    /// Findings.
    pub findings: usize,
    /// Samples of health.
    pub samples: usize,
    /// Events.
    pub events: usize,
}

/// Pages that a backup copies at once: 4 MiB.
const STEP: i32 = 1024;

impl History {
    /// Removes what is too old, in one transaction. Rows of passes stay.
    ///
    /// # Errors
    /// If the database is locked for longer than 2 seconds, full or damaged; then nothing went.
    pub fn retain(&mut self, retention: &Retention<'_>) -> Result<Removed, Error> {
        self.change("removing old reports and findings", |database| {
            let old = "pass IN (SELECT id FROM passes WHERE ended_us < ?1)";
            let reports = retention.reports.micros();
            Ok(Removed {
                reports: database.execute(&format!("DELETE FROM reports WHERE {old}"), [reports])?,
                findings: database
                    .execute(&format!("DELETE FROM findings WHERE {old}"), [retention.findings.micros()])?,
                samples: database.execute("DELETE FROM health WHERE at_us < ?1", [reports])?,
                events: remove_events(database, reports, retention.channels)?,
            })
        })
    }
}

fn remove_events(database: &Connection, before: i64, channels: &[Kind]) -> Result<usize, Fault> {
    // The newest stays, so that its number is not used again.
    let mut old = format!("at_us < ?1 AND id < (SELECT max(id) FROM events) AND NOT ({OPEN})");
    for channel in channels {
        // A kind has no quotation marks.
        old += &format!(
            " AND EXISTS (SELECT 1 FROM deliveries WHERE channel = '{channel}' AND event = events.id)"
        );
    }
    let mut statement = database.prepare(&format!("SELECT id FROM events WHERE {old}"))?;
    let ids = statement.query_map([before], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    for id in &ids {
        database.execute("DELETE FROM deliveries WHERE event = ?1", [id])?;
        database.execute("DELETE FROM events WHERE id = ?1", [id])?;
    }
    Ok(ids.len())
}

impl Reader {
    /// Copies the database to a folder, checks the copy, and returns its path. The monitor may
    /// write meanwhile. `now` names the copy.
    ///
    /// # Errors
    /// If a copy of that name is there, the folder cannot be written, or the database is locked
    /// for longer than 2 seconds, has a hot journal, or is damaged.
    pub fn backup(&self, folder: &Path, now: Time) -> Result<PathBuf, Error> {
        let name = format!("history-{}.db", now.micros());
        let made = folder.join(&name);
        if fs::symlink_metadata(&made).is_ok() {
            return Err(place::failed(&made)(ErrorKind::AlreadyExists.into()));
        }
        let temporary = folder.join(format!(".{name}.tmp"));
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(place::failed(&temporary)(error));
            }
            _ => place::make_file(&temporary)?,
        }
        let done = self.copy(&temporary).and_then(|()| {
            File::open(&temporary).and_then(|file| file.sync_all()).map_err(place::failed(&temporary))?;
            fs::rename(&temporary, &made).map_err(place::failed(&made))?;
            place::sync_folder(folder)
        });
        if done.is_err() {
            // What is left of it is of no use; the error says what happened.
            let _ = fs::remove_file(&temporary);
        }
        done.map(|()| made)
    }

    fn copy(&self, to: &Path) -> Result<(), Error> {
        let doing = "making a backup";
        let failed = |fault| Error::of(&self.path, doing, fault);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut copy =
            Connection::open_with_flags(to, flags).map_err(|error| Error::of(to, doing, error.into()))?;
        settings(&copy).map_err(|fault| Error::of(to, doing, fault))?;
        let backup = Backup::new(&self.database, &mut copy).map_err(|error| failed(error.into()))?;
        loop {
            match backup.step(STEP).map_err(|error| failed(error.into()))? {
                StepResult::Done => break,
                StepResult::More => {}
                // SQLite has waited for its time.
                _ => return Err(Error::Busy { path: self.path.clone(), doing }),
            }
        }
        drop(backup);
        schema::check(&copy, MIGRATIONS, &TABLES).map_err(|fault| Error::of(to, doing, fault))
    }
}
