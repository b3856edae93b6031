//! Events and their deliveries; the health of drives.

use crate::history::error::Fault;
use crate::history::rows::{Drive, Event, Sample, text};
use crate::history::schema::{DELIVERIES, DRIVES, EVENTS, HEALTH};
use crate::history::values::{Kind, Text, Time};
use crate::history::{Error, History};
use rusqlite::Connection;

/// Adds events that are not known yet.
pub(crate) fn add_events(database: &Connection, events: &[Event]) -> Result<(), Fault> {
    for event in events {
        if EVENTS.row(database, "WHERE event = ?1", &[&event.event.as_str()])?.is_none() {
            EVENTS.put(database, [event.values(EVENTS.next_id(database)?)])?;
        }
    }
    Ok(())
}

impl History {
    /// Adds events that no pass found; durable afterwards. Those that are known add nothing.
    ///
    /// # Errors
    /// If the database is locked for longer than 2 seconds, full or damaged; then nothing was
    /// added.
    pub fn add_events(&mut self, events: &[Event]) -> Result<(), Error> {
        self.change("adding events", |database| add_events(database, events))
    }

    /// Notes that a channel accepted events, by [`crate::history::EventRow::id`]. Call it after the
    /// sending, so that each event is sent at least once. Unknown events are left out.
    ///
    /// # Errors
    /// As of [`Self::add_events`].
    pub fn delivered(&mut self, channel: &Kind, events: &[i64], at: Time) -> Result<(), Error> {
        self.change("noting deliveries", |database| {
            for event in events {
                if EVENTS.row(database, "WHERE id = ?1", &[event])?.is_some() {
                    DELIVERIES.put(database, [vec![text(channel), (*event).into(), at.micros().into()]])?;
                }
            }
            Ok(())
        })
    }

    /// Adds a sample of a drive's health, and what the drive is now. A sample of the same time is
    /// replaced.
    ///
    /// # Errors
    /// As of [`Self::add_events`], and if the temperature is not -273 to 1000.
    pub fn add_health(&mut self, drive: &Drive, sample: &Sample) -> Result<(), Error> {
        if sample.celsius.is_some_and(|celsius| !(-273..=1000).contains(&celsius)) {
            return Err(Error::Invalid { subject: "celsius".to_owned(), what: "-273 to 1000".to_owned() });
        }
        self.change("adding a drive's health", |database| {
            let id = put_drive(database, drive, sample.at)?;
            HEALTH.put(database, [sample.values(id)])
        })
    }
}

fn put_drive(database: &Connection, drive: &Drive, at: Time) -> Result<i64, Fault> {
    let id = match DRIVES.row(database, "WHERE drive = ?1", &[&drive.drive.as_str()])? {
        Some(known) if known.time("seen_us")? > at => return known.integer("id"),
        Some(known) => known.integer("id")?,
        None => DRIVES.next_id(database)?,
    };
    let of = |value: &Text| text(value);
    let values =
        [of(&drive.drive), of(&drive.device), of(&drive.model), of(&drive.serial), at.micros().into()];
    DRIVES.put(database, [[id.into()].into_iter().chain(values).collect()])?;
    Ok(id)
}
