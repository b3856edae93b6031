//! Messages to a person: faults in, events and messages out. `docs/design/monitor.md`
//! has the rules A1 to A11.

mod event;
mod outbox;
mod stored;

pub use event::{Change, Event, EventId, Key, Kind, Severity};
pub use outbox::{MAIL, Sending};
pub use stored::{StateError, Stored};

use crate::config::AlertsConfig;
use crate::time::{DAY, MINUTE, Now, Running, Wall};
use outbox::Outbox;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Alerts open at most.
const MOST_OPEN: usize = 10_000;
/// Seconds without its fault after which an alert closes (A2).
const WELL: u64 = 10 * MINUTE as u64;
/// Seconds for which mails may be held back.
const LONGEST_QUIET: u64 = 30 * DAY as u64;

/// The reason why an order of a person is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// No such alert is open.
    #[error("no such alert is open")]
    NotOpen,
    /// An acknowledgement without a name or a reason.
    #[error("an acknowledgement needs a name and a reason")]
    NoReason,
    /// Too long, or too many.
    #[error("mails are held back for 30 days at most, of 1,000 subjects at most")]
    Quiet,
}

/// An alert that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Open {
    opened: Wall,
    detail: String,
    /// Since when its fault is gone, in the alerts' own time.
    well_since: Option<u64>,
    acknowledged: bool,
    /// Closed for everyone, but its fault is still there.
    silent: bool,
    repeat_at: u64,
    repeats: u32,
}

/// An alert that is open, for those who ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAlert {
    /// Its kind and subject.
    pub key: Key,
    /// Time at which it opened.
    pub opened: Wall,
    /// The last words that were seen.
    pub detail: String,
    /// True if a person acknowledged it.
    pub acknowledged: bool,
}

/// The alerts of a machine.
#[derive(Debug, Clone)]
pub struct Alerts {
    repeat: Vec<i64>,
    well: Option<i64>,
    series: u64,
    next: u64,
    /// The alerts' own time, in seconds (A11).
    age: u64,
    wall: Wall,
    last: Option<Running>,
    open: BTreeMap<Key, Open>,
    /// Subjects whose mails are held back, and until when in own time.
    quiet: BTreeMap<String, u64>,
    well_at: u64,
    outbox: Outbox,
    fresh: Vec<Event>,
}

impl Alerts {
    /// Alerts of a machine that has none yet. `series` is random; `programs` are the names of
    /// channels other than mail.
    #[must_use]
    pub fn new(config: &AlertsConfig, programs: &[String], series: u64) -> Self {
        let mut alerts = Self {
            repeat: Vec::new(),
            well: None,
            series,
            next: 1,
            age: 0,
            wall: Wall(0),
            last: None,
            open: BTreeMap::new(),
            quiet: BTreeMap::new(),
            well_at: 0,
            outbox: Outbox::default(),
            fresh: Vec::new(),
        };
        alerts.configure(config, programs);
        alerts.well_at = alerts.well.unwrap_or(0).unsigned_abs();
        alerts
    }

    /// Takes a configuration. Events that a removed channel has not sent are lost.
    pub fn configure(&mut self, config: &AlertsConfig, programs: &[String]) {
        self.repeat.clone_from(&config.repeat);
        self.well = config.well;
        let mail = config.mail.iter().map(|_| MAIL.to_owned());
        let channels: Vec<String> = mail.chain(programs.iter().cloned()).collect();
        self.outbox.set_channels(&channels);
        let gone =
            |key: &Key| key.kind() == Kind::ChannelFailed && !channels.contains(&key.subject().to_owned());
        let gone: Vec<Key> = self.open.keys().filter(|key| gone(key)).cloned().collect();
        for key in gone {
            self.gone(&key);
        }
    }

    /// Lets the alerts' own time grow.
    fn advance(&mut self, now: Now) {
        self.age += self.last.map_or(0, |last| now.running.since(last));
        self.last = Some(now.running);
        self.wall = now.wall.bounded();
    }

    fn emit(&mut self, key: &Key, change: Change, detail: &str) {
        let id = EventId { series: self.series, number: self.next };
        self.next += 1;
        let event =
            Event { id, at: self.wall, change, key: key.clone(), detail: event::bounded(detail, 2048) };
        self.outbox.add(&event);
        self.fresh.push(event);
    }

    /// Says that a fault is there. Its alert opens if it is not open (A1).
    pub fn fault(&mut self, now: Now, key: &Key, detail: &str) {
        self.advance(now);
        self.seen(key, detail);
    }

    fn seen(&mut self, key: &Key, detail: &str) {
        if let Some(open) = self.open.get_mut(key) {
            open.well_since = None;
            if open.detail != detail {
                open.detail = event::bounded(detail, 2048);
            }
            return;
        }
        if self.open.len() >= MOST_OPEN && key.kind() != Kind::StateFull {
            self.seen(&Key::new(Kind::StateFull, "alerts"), "more than 10,000 alerts are open");
            return;
        }
        let repeat = self.repeat.first().map_or(u64::MAX, |first| self.age + first.unsigned_abs());
        let open = Open {
            opened: self.wall,
            detail: event::bounded(detail, 2048),
            well_since: None,
            acknowledged: false,
            silent: false,
            repeat_at: repeat,
            repeats: 0,
        };
        self.open.insert(key.clone(), open);
        self.emit(key, Change::Opened, detail);
    }

    /// Says that a fault is not there. Its alert closes after 10 min (A2).
    pub fn no_fault(&mut self, now: Now, key: &Key) {
        self.advance(now);
        self.gone(key);
    }

    fn gone(&mut self, key: &Key) {
        let age = self.age;
        if let Some(open) = self.open.get_mut(key) {
            open.well_since = open.well_since.or(Some(age));
        }
    }

    /// Tells something that needs nothing.
    pub fn inform(&mut self, now: Now, key: &Key, detail: &str) {
        self.advance(now);
        self.emit(key, Change::Told, detail);
    }

    /// Notes that a person knows of an alert (A9).
    ///
    /// # Errors
    /// If it is not open, or name or reason is empty.
    pub fn acknowledge(&mut self, now: Now, key: &Key, name: &str, reason: &str) -> Result<(), OrderError> {
        self.advance(now);
        if name.trim().is_empty() || reason.trim().is_empty() {
            return Err(OrderError::NoReason);
        }
        let open = self.open.get_mut(key).filter(|open| !open.silent).ok_or(OrderError::NotOpen)?;
        open.acknowledged = true;
        open.silent = key.kind().ends_when_acknowledged();
        let words = format!("{}: {}", event::bounded(name, 255), event::bounded(reason, 1024));
        let change = if open.silent { Change::Closed } else { Change::Acknowledged };
        self.emit(key, change, &words);
        Ok(())
    }

    /// Holds back mails of a subject for some seconds; 0 ends it (A8).
    ///
    /// # Errors
    /// If that is longer than 30 days, or 1,000 subjects are quiet.
    pub fn quiet(&mut self, now: Now, subject: &str, seconds: u64) -> Result<(), OrderError> {
        self.advance(now);
        let subject = event::bounded(subject, 512);
        if seconds > LONGEST_QUIET || self.quiet.len() >= 1000 && !self.quiet.contains_key(&subject) {
            return Err(OrderError::Quiet);
        }
        self.quiet.insert(subject, self.age + seconds);
        Ok(())
    }

    /// Lets time pass: closes and repeats alerts, and says what is to be sent. To be called after
    /// each event, and at the latest when [`Self::wake`] says.
    pub fn tick(&mut self, now: Now) -> Vec<Sending> {
        self.advance(now);
        self.close();
        self.repeat();
        self.tell_well();
        let over: Vec<String> = self
            .quiet
            .iter()
            .filter(|(_, until)| **until <= self.age)
            .map(|(name, _)| name.clone())
            .collect();
        for subject in over {
            self.quiet.remove(&subject);
            self.outbox.drop_over(&subject);
        }
        self.outbox.take(self.age, &self.quiet)
    }

    fn close(&mut self) {
        let over = |open: &Open| open.well_since.is_some_and(|since| self.age >= since + WELL);
        let keys: Vec<Key> =
            self.open.iter().filter(|(_, open)| over(open)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            if let Some(open) = self.open.remove(&key).filter(|open| !open.silent) {
                self.emit(&key, Change::Closed, &open.detail);
            }
        }
        if self.open.len() < MOST_OPEN {
            self.gone(&Key::new(Kind::StateFull, "alerts"));
        }
    }

    fn repeat(&mut self) {
        let mut repeated = Vec::new();
        for (key, open) in &mut self.open {
            if open.acknowledged || open.well_since.is_some() || self.age < open.repeat_at {
                continue;
            }
            open.repeats = open.repeats.saturating_add(1);
            let next = self.repeat.get(open.repeats as usize).or(self.repeat.last());
            open.repeat_at = next.map_or(u64::MAX, |next| self.age + next.unsigned_abs());
            repeated.push((key.clone(), open.detail.clone()));
        }
        for (key, detail) in repeated {
            self.emit(&key, Change::Repeated, &detail);
        }
    }

    fn tell_well(&mut self) {
        let Some(well) = self.well else { return };
        if self.age >= self.well_at && self.open.values().all(|open| open.silent) {
            self.well_at = self.age + well.unsigned_abs();
            self.emit(&Key::new(Kind::Well, "all"), Change::Told, "nothing needs you");
        }
    }

    /// Notes what came of a sending (A4, A5).
    pub fn sent(&mut self, now: Now, channel: &str, taken: bool, why: &str) {
        self.advance(now);
        if !self.outbox.sent(channel, taken, self.age) {
            return;
        }
        let key = Key::new(Kind::ChannelFailed, channel);
        if taken {
            self.gone(&key);
        } else {
            self.seen(&key, why);
        }
    }

    /// The events since the last call: for the journal and the history.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.fresh)
    }

    /// The alerts that are open.
    #[must_use]
    pub fn open(&self) -> Vec<OpenAlert> {
        let shown = self.open.iter().filter(|(_, open)| !open.silent);
        let alert = |(key, open): (&Key, &Open)| OpenAlert {
            key: key.clone(),
            opened: open.opened,
            detail: open.detail.clone(),
            acknowledged: open.acknowledged,
        };
        shown.map(alert).collect()
    }

    /// Seconds after which the next tick is due, if nothing happens before; a day at most.
    #[must_use]
    pub fn wake(&self) -> u64 {
        let of = |open: &Open| match open.well_since {
            Some(since) => since + WELL,
            None if open.acknowledged => u64::MAX,
            None => open.repeat_at,
        };
        let alerts = self.open.values().map(of);
        let quiet = self.quiet.values().copied();
        let well = self.well.map(|_| self.well_at);
        let all = alerts.chain(quiet).chain(well).chain(self.outbox.wake(self.age, &self.quiet));
        let next = all.min().unwrap_or(u64::MAX);
        next.saturating_sub(self.age).clamp(1, DAY as u64)
    }
}

#[cfg(test)]
mod tests;
