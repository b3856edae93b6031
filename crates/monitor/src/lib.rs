//! Daily operation without a process: when arrays are scrubbed, how old each part's last check is,
//! and when a person is told.
//!
//! Everything here is pure: time, the time zone, the machine's id and random numbers are arguments.
//! `docs/design/monitor.md` has the rules, `docs/reference/monitor-configuration.md` the fields of
//! the configuration.

pub mod alerts;
pub mod cells;
pub mod config;
pub mod history;
mod ranges;
pub mod schedule;
mod time;
pub mod window;

pub use ranges::{Range, Ranges};
pub use time::{DAY, HOUR, MINUTE, Now, Running, Wall};
