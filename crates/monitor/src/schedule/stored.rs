//! The state of the schedule as it is stored.

use super::array::{Array, Kept};
use super::{ArrayId, MOST_ARRAYS, MachineId, Scheduler, grid};
use crate::config::Config;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version that is written and read.
const VERSION: u32 = 1;

/// The reason why a stored state is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Another version wrote it.
    #[error("version: {0} is not known: this program reads version 1")]
    Version(u32),
    /// It has more than it may.
    #[error("{0}: too many")]
    TooMany(&'static str),
}

/// The state of a scheduler: a value for serde.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    version: u32,
    arrays: BTreeMap<ArrayId, Kept>,
}

impl Scheduler {
    /// The state as it is stored. Runs are not part of it: they end with the monitor.
    #[must_use]
    pub fn store(&self) -> Stored {
        let arrays = self.arrays.iter().map(|(uuid, array)| (uuid.clone(), array.kept.clone())).collect();
        Stored { version: VERSION, arrays }
    }

    /// A scheduler with a stored state.
    ///
    /// # Errors
    /// If the state is of another version, or too large.
    pub fn restore(
        machine: MachineId,
        zone: TimeZone,
        config: Config,
        stored: Stored,
    ) -> Result<Self, StateError> {
        if stored.version != VERSION {
            return Err(StateError::Version(stored.version));
        }
        if stored.arrays.len() > MOST_ARRAYS {
            return Err(StateError::TooMany("arrays"));
        }
        let mut scheduler = Self::new(machine, zone, config);
        for (uuid, mut kept) in stored.arrays {
            if kept.nights.len() > 64 || kept.busy.len() > 1000 {
                return Err(StateError::TooMany("nights, busy"));
            }
            kept.waiting = kept.waiting.map(crate::time::Wall::bounded);
            kept.closed = kept.closed.map(crate::time::Wall::bounded);
            let policy = scheduler.config.policy(&uuid.0, "").clone();
            let phase = grid::phase(&scheduler.machine, &uuid);
            scheduler.arrays.insert(uuid, Array::kept(kept, policy, phase));
        }
        Ok(scheduler)
    }
}
