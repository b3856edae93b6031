//! Questions: each is one statement, or a few, with at most 1,000 rows, and holds nothing
//! afterwards.

use crate::history::document::MOST_BYTES;
use crate::history::error::Fault;
use crate::history::rows::{ArrayRow, Cursor, Drive, EventRow, FindingRow, PassRow, Sample};
use crate::history::schema::{ARRAYS, CELLS, DRIVES, EVENTS, FINDINGS, HEALTH, PASSES, REPORTS};
use crate::history::values::{ArrayUuid, Id, Kind, Limit, Text, Time};
use crate::history::{Error, cells};
use rusqlite::Connection;
use std::path::PathBuf;

/// The database, to be read.
#[derive(Debug)]
pub struct Reader {
    pub(crate) database: Connection,
    pub(crate) path: PathBuf,
}

/// The events that opened an alert which no later event closed.
pub(crate) const OPEN: &str = "events.change = 'opened' AND NOT EXISTS (SELECT 1 FROM events AS later
    WHERE later.array IS events.array AND later.kind = events.kind AND later.subject = events.subject
    AND later.id > events.id AND later.change <> 'note')";

impl Reader {
    fn ask<T>(
        &self,
        doing: &'static str,
        ask: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        ask(&self.database).map_err(|fault| Error::of(&self.path, doing, fault))
    }

    /// The arrays, by UUID, after one that the last page ended with.
    ///
    /// # Errors
    /// If the database is locked for longer than 2 seconds, has a hot journal, or is damaged.
    pub fn arrays(&self, after: Option<&ArrayUuid>, limit: Limit) -> Result<Vec<ArrayRow>, Error> {
        let after = after.map_or("", ArrayUuid::as_str);
        self.ask("reading arrays", |database| {
            let rest = "WHERE uuid > ?1 ORDER BY uuid LIMIT ?2";
            ARRAYS.rows(database, rest, &[&after, &limit.column()])?.iter().map(ArrayRow::of).collect()
        })
    }

    /// An array.
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn array(&self, uuid: &ArrayUuid) -> Result<Option<ArrayRow>, Error> {
        self.ask("reading an array", |database| {
            let row = ARRAYS.row(database, "WHERE uuid = ?1", &[&uuid.as_str()])?;
            row.map(|row| ArrayRow::of(&row)).transpose()
        })
    }

    /// The runs of an array, or of all, the last that ended first; before the place where the last
    /// page ended.
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn passes(
        &self,
        array: Option<&ArrayRow>,
        before: Option<Cursor>,
        limit: Limit,
    ) -> Result<Vec<PassRow>, Error> {
        let before = before.unwrap_or(Cursor { ended: i64::MAX, id: i64::MAX });
        self.ask("reading passes", |database| {
            let order = "(ended_us, id) < (?2, ?3) ORDER BY ended_us DESC, id DESC LIMIT ?4";
            let of = if array.is_some() { "array = ?1" } else { "?1 = 0" };
            let array = array.map_or(0, |array| array.id);
            let values: [&dyn rusqlite::ToSql; 4] = [&array, &before.ended, &before.id, &limit.column()];
            let rows = PASSES.rows(database, &format!("WHERE {of} AND {order}"), &values)?;
            rows.iter().map(PassRow::of).collect()
        })
    }

    /// A run.
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn pass(&self, pass: &Id) -> Result<Option<PassRow>, Error> {
        self.ask("reading a pass", |database| {
            let row = PASSES.row(database, "WHERE pass = ?1", &[&pass.as_str()])?;
            row.map(|row| PassRow::of(&row)).transpose()
        })
    }

    /// The last run of an array that judged all of it.
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn last_complete(&self, array: &ArrayRow) -> Result<Option<PassRow>, Error> {
        self.ask("reading the last complete pass", |database| {
            let rest = "WHERE array = ?1 AND complete = 1 ORDER BY ended_us DESC, id DESC";
            PASSES.row(database, rest, &[&array.id])?.map(|row| PassRow::of(&row)).transpose()
        })
    }

    /// The array of a run.
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn array_of(&self, pass: &PassRow) -> Result<Option<ArrayRow>, Error> {
        self.ask("reading an array", |database| {
            let row = ARRAYS.row(database, "WHERE id = ?1", &[&pass.array])?;
            row.map(|row| ArrayRow::of(&row)).transpose()
        })
    }

    /// Findings of a run, from a number on.
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn findings(&self, pass: &PassRow, from: u32, limit: Limit) -> Result<Vec<FindingRow>, Error> {
        self.ask("reading findings", |database| {
            let rest = "WHERE pass = ?1 AND number >= ?2 ORDER BY number LIMIT ?3";
            let rows = FINDINGS.rows(database, rest, &[&pass.id, &from, &limit.column()])?;
            rows.iter().map(FindingRow::of).collect()
        })
    }

    /// The bytes of the document of a run, if it is kept.
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn report(&self, pass: &PassRow) -> Result<Option<Vec<u8>>, Error> {
        self.ask("reading a report", |database| {
            let Some(row) = REPORTS.row(database, "WHERE pass = ?1", &[&pass.id])? else { return Ok(None) };
            let bytes = row.number::<usize>("bytes")?;
            let wrong = |what: String| Fault::Damaged(format!("the report of pass {}: {what}", pass.pass));
            if bytes as u64 > MOST_BYTES {
                return Err(wrong("too long".to_owned()));
            }
            let document = zstd::bulk::decompress(row.blob("document")?, bytes)
                .map_err(|error| wrong(error.to_string()))?;
            if document.len() == bytes { Ok(Some(document)) } else { Err(wrong("too short".to_owned())) }
        })
    }

    /// The cells of an array: when each was last checked whole, `None` if it is unchecked. A cell
    /// without stripes is `None` as well: see [`cells::stripes_of`].
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn cells(&self, array: &ArrayRow) -> Result<Vec<Option<Time>>, Error> {
        self.ask("reading cells", |database| {
            let mut times = vec![None; usize::from(cells::CELLS)];
            CELLS.each(database, "WHERE array = ?1", &[&array.id], |row| {
                let time = row.time("checked_us")?;
                if array.joined.is_none_or(|joined| joined <= time) {
                    let at = times.get_mut(row.number::<usize>("cell")?);
                    *at.ok_or_else(|| Fault::Damaged("there is no such cell".to_owned()))? = Some(time);
                }
                Ok(())
            })?;
            Ok(times)
        })
    }

    /// Events after one, by [`EventRow::id`]; 0 for all.
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn events(&self, after: i64, limit: Limit) -> Result<Vec<EventRow>, Error> {
        self.ask("reading events", |database| {
            let rest = "WHERE id > ?1 ORDER BY id LIMIT ?2";
            EVENTS.rows(database, rest, &[&after, &limit.column()])?.iter().map(EventRow::of).collect()
        })
    }

    /// Events that a channel has yet to accept, the oldest first.
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn undelivered(&self, channel: &Kind, limit: Limit) -> Result<Vec<EventRow>, Error> {
        self.ask("reading events", |database| {
            let rest = "WHERE NOT EXISTS (SELECT 1 FROM deliveries WHERE channel = ?1 AND event = events.id)
                ORDER BY id LIMIT ?2";
            let rows = EVENTS.rows(database, rest, &[&channel.as_str(), &limit.column()])?;
            rows.iter().map(EventRow::of).collect()
        })
    }

    /// The events that opened the alerts which are open, after one, by [`EventRow::id`].
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn open_alerts(&self, after: i64, limit: Limit) -> Result<Vec<EventRow>, Error> {
        self.ask("reading alerts", |database| {
            let rest = format!("WHERE id > ?1 AND {OPEN} ORDER BY id LIMIT ?2");
            EVENTS.rows(database, &rest, &[&after, &limit.column()])?.iter().map(EventRow::of).collect()
        })
    }

    /// Drives and when each was last seen, by name, after one that the last page ended with.
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn drives(&self, after: Option<&Text>, limit: Limit) -> Result<Vec<(Drive, Time)>, Error> {
        let after = after.map_or("", Text::as_str);
        self.ask("reading drives", |database| {
            let rest = "WHERE drive > ?1 ORDER BY drive LIMIT ?2";
            let rows = DRIVES.rows(database, rest, &[&after, &limit.column()])?;
            rows.iter().map(|row| Ok((Drive::of(row)?, row.time("seen_us")?))).collect()
        })
    }

    /// Samples of a drive's health before a time, the last first.
    ///
    /// # Errors
    /// As of [`Self::arrays`].
    pub fn health(&self, drive: &Text, before: Time, limit: Limit) -> Result<Vec<Sample>, Error> {
        self.ask("reading a drive's health", |database| {
            let rest = "WHERE drive = (SELECT id FROM drives WHERE drive = ?1) AND at_us < ?2
                ORDER BY at_us DESC LIMIT ?3";
            let values: [&dyn rusqlite::ToSql; 3] = [&drive.as_str(), &before.micros(), &limit.column()];
            HEALTH.rows(database, rest, &values)?.iter().map(Sample::of).collect()
        })
    }
}
