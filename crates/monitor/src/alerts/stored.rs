//! The state of the alerts as it is stored.

use super::event::Key;
use super::outbox::Outbox;
use super::{Alerts, MOST_OPEN, Open};
use crate::config::AlertsConfig;
use crate::time::{DAY, Now, Wall};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version that is written and read.
const VERSION: u32 = 1;
/// Seconds by which own time grows at most while the monitor is down.
const LONGEST_DOWN: i64 = 30 * DAY;

/// The reason why a stored state is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Another version wrote it.
    #[error("version: {0} is not known: this program reads version 1")]
    Version(u32),
    /// It has more than it may, or a time that cannot be.
    #[error("{0}: out of bounds")]
    Bounds(&'static str),
}

/// The state of the alerts: a value for serde.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    version: u32,
    series: u64,
    next: u64,
    age: u64,
    wall: Wall,
    open: Vec<(Key, Open)>,
    quiet: BTreeMap<String, u64>,
    well_at: u64,
    outbox: Outbox,
}

impl Alerts {
    /// The state as it is stored. What is being sent is stored as not sent.
    #[must_use]
    pub fn store(&self) -> Stored {
        Stored {
            version: VERSION,
            series: self.series,
            next: self.next,
            age: self.age,
            wall: self.wall,
            open: self.open.iter().map(|(key, open)| (key.clone(), open.clone())).collect(),
            quiet: self.quiet.clone(),
            well_at: self.well_at,
            outbox: self.outbox.clone(),
        }
    }

    /// Alerts with a stored state. The 10 min before an alert closes are counted anew.
    ///
    /// # Errors
    /// If the state is of another version, or has values that cannot be.
    pub fn restore(
        config: &AlertsConfig,
        programs: &[String],
        now: Now,
        stored: Stored,
    ) -> Result<Self, StateError> {
        if stored.version != VERSION {
            return Err(StateError::Version(stored.version));
        }
        // Far from where sums of them would overflow.
        if stored.age > 1 << 40 || stored.next > 1 << 60 {
            return Err(StateError::Bounds("age, next"));
        }
        if stored.open.len() > MOST_OPEN + 1 || stored.quiet.len() > 1000 || !stored.outbox.is_bounded() {
            return Err(StateError::Bounds("open, quiet, outbox"));
        }
        let down = now.wall.since(stored.wall).clamp(0, LONGEST_DOWN).unsigned_abs();
        let mut alerts = Self::new(config, programs, stored.series);
        alerts.next = stored.next;
        alerts.age = stored.age + down;
        alerts.wall = now.wall.bounded();
        alerts.last = Some(now.running);
        alerts.open = stored.open.into_iter().collect();
        for open in alerts.open.values_mut() {
            open.well_since = open.well_since.map(|_| alerts.age);
        }
        alerts.quiet = stored.quiet;
        alerts.well_at = stored.well_at;
        alerts.outbox = stored.outbox;
        alerts.configure(config, programs);
        Ok(alerts)
    }
}
