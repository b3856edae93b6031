//! Takes up what passes found: one transaction for a pass, its findings and its events.

use crate::history::document::{Finding, MOST_BYTES, PassFile};
use crate::history::error::Fault;
use crate::history::events::add_events;
use crate::history::place;
use crate::history::rows::{ArrayRow, Event, optional_text, text};
use crate::history::schema::{ARRAYS, CELLS, FINDINGS, PASSES, REPORTS};
use crate::history::values::{ArrayUuid, Count, Time};
use crate::history::{Error, History, cells};
use rusqlite::types::Value;
use rusqlite::{Connection, TransactionBehavior};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Findings of a pass that have rows; the report has all.
pub const MOST_FINDINGS: usize = 100_000;
/// Compression level of zstd. Reports repeat themselves, so a low level is enough.
const EFFORT: i32 = 3;

/// Outcome of taking up a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The pass is in the database now.
    New,
    /// It was there already; nothing was added.
    Already,
}

impl History {
    /// Takes up a pass, its findings, its report, the cells that it checked, and events: all or
    /// nothing, and durable afterwards. A pass that is known adds nothing.
    ///
    /// # Errors
    /// If the database is locked for longer than 2 seconds, full or damaged; then nothing was
    /// added.
    pub fn take_up(&mut self, file: &PassFile, events: &[Event]) -> Result<Taken, Error> {
        let report = file.document.get().as_bytes();
        let packed = zstd::bulk::compress(report, EFFORT)
            .map_err(|error| Error::Invalid { subject: "report".to_owned(), what: error.to_string() })?;
        self.change("taking up a pass", |database| {
            if PASSES.row(database, "WHERE pass = ?1", &[&file.pass.as_str()])?.is_some() {
                return Ok(Taken::Already);
            }
            let array = put_array(database, file)?;
            let pass = put_pass(database, file, array)?;
            let findings = file.report.findings.iter().take(MOST_FINDINGS).enumerate();
            FINDINGS
                .put(database, findings.map(|(number, finding)| finding_values(pass, number, finding)))?;
            let length = report.len() as i64;
            REPORTS.put(database, [vec![pass.into(), length.into(), Value::Blob(packed)]])?;
            put_cells(database, file, array)?;
            add_events(database, events)?;
            Ok(Taken::New)
        })
    }

    /// Takes up a pass file, then removes it. `events` makes the events of the pass.
    ///
    /// # Errors
    /// If the file is not a pass file, or as of [`Self::take_up`]; the file stays then.
    pub fn take_file(
        &mut self,
        path: &Path,
        events: impl FnOnce(&PassFile) -> Vec<Event>,
    ) -> Result<Taken, Error> {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(place::failed(path))?;
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(place::failed(path))?;
        let file = PassFile::parse(&path.display().to_string(), &bytes)?;
        drop(bytes);
        let taken = self.take_up(&file, &events(&file))?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(place::failed(path)(error)),
            _ => place::sync_folder(place::folder(path))?,
        }
        Ok(taken)
    }

    /// Notes that a member joined an array: cells that were checked earlier count as unchecked.
    /// The latest time counts; an array without a pass has no cells, and nothing is noted.
    ///
    /// # Errors
    /// As of [`Self::take_up`].
    pub fn member_joined(&mut self, array: &ArrayUuid, at: Time) -> Result<(), Error> {
        self.change("noting a member", |database| {
            let row = ARRAYS.row(database, "WHERE uuid = ?1", &[&array.as_str()])?;
            let Some(mut row) = row.map(|row| ArrayRow::of(&row)).transpose()? else { return Ok(()) };
            row.joined = row.joined.max(Some(at));
            ARRAYS.put(database, [row.values()])
        })
    }

    /// Does a change in one transaction.
    pub(crate) fn change<T>(
        &mut self,
        doing: &'static str,
        change: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let database = &mut self.reader.database;
        let whole = || {
            let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = change(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        whole().map_err(|fault| Error::of(&self.reader.path, doing, fault))
    }
}

/// The array of a pass as it is now. A pass that ended before the last one changes nothing but
/// makes the array known.
fn put_array(database: &Connection, file: &PassFile) -> Result<i64, Fault> {
    let array = &file.report.array;
    let known = ARRAYS.row(database, "WHERE uuid = ?1", &[&array.uuid.as_str()])?;
    let known = known.map(|row| ArrayRow::of(&row)).transpose()?;
    let (id, joined) = match &known {
        Some(known) if known.seen > file.ended => return Ok(known.id),
        Some(known) => (known.id, known.joined),
        None => (ARRAYS.next_id(database)?, None),
    };
    if known.is_some_and(|known| known.stripes != array.stripes) {
        // The cells are other stripes now.
        database.execute("DELETE FROM cells WHERE array = ?1", [id])?;
    }
    let row = ArrayRow {
        id,
        uuid: array.uuid.clone(),
        name: array.name.clone(),
        level: array.level,
        raid_disks: array.raid_disks,
        stripes: array.stripes,
        chunk_bytes: array.chunk_bytes,
        seen: file.ended,
        joined,
    };
    ARRAYS.put(database, [row.values()])?;
    Ok(id)
}

fn put_pass(database: &Connection, file: &PassFile, array: i64) -> Result<i64, Fault> {
    let id = PASSES.next_id(database)?;
    let report = &file.report;
    let damaged = report.damaged();
    PASSES.put(
        database,
        [vec![
            id.into(),
            text(&file.pass),
            array.into(),
            text(&file.by),
            file.begun.micros().into(),
            file.ended.micros().into(),
            text(&report.method),
            text(&report.result),
            optional_text(report.stopped.as_ref()),
            report.range.start.column().into(),
            report.range.end.column().into(),
            report.is_complete().into(),
            report.degraded.into(),
            report.stripes_checked.column().into(),
            report.stripes_skipped.column().into(),
            report.stripes_rechecked.column().into(),
            report.bytes_checked.column().into(),
            report.reading_us().into(),
            (damaged as i64).into(),
            ((report.findings.len() - damaged) as i64).into(),
            (report.repaired() as i64).into(),
        ]],
    )?;
    Ok(id)
}

fn finding_values(pass: i64, number: usize, finding: &Finding) -> Vec<Value> {
    let count = |count: Option<Count>| count.map(Count::column).into();
    vec![
        pass.into(),
        (number as i64).into(),
        finding.stripe.column().into(),
        text(&finding.verdict),
        text(&finding.certainty),
        text(&finding.strength),
        finding.member.map(i64::from).into(),
        optional_text(finding.device.as_ref()),
        count(finding.device_offset),
        count(finding.array_offset),
        finding.chunk_offset.column().into(),
        finding.length.column().into(),
        finding.repaired.into(),
    ]
}

fn put_cells(database: &Connection, file: &PassFile, array: i64) -> Result<(), Fault> {
    let now = ARRAYS.row(database, "WHERE id = ?1", &[&array])?;
    if now.map(|row| row.count("stripes")).transpose()? != Some(file.report.array.stripes) {
        // An older pass, taken up late, of an array that has other stripes since.
        return Ok(());
    }
    let mut known = BTreeMap::new();
    CELLS.each(database, "WHERE array = ?1", &[&array], |row| {
        known.insert(row.number::<u16>("cell")?, row.time("checked_us")?);
        Ok(())
    })?;
    let covered = cells::covered(file.report.array.stripes.get(), &file.checked);
    let newer = covered.into_iter().filter(|(cell, time)| known.get(cell).is_none_or(|known| known < time));
    let values = |(cell, time): (u16, Time)| vec![array.into(), i64::from(cell).into(), time.micros().into()];
    CELLS.put(database, newer.map(values))
}
