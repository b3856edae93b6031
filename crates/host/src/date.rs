//! The time of day as the files of a scrub store it: whole seconds since 1970, UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now; 0 if the clock shows a time before 1970.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
