//! The rule of `docs/design/settling.md` as a pure step machine: events in, actions out.
//!
//! No clock, no thread, no input or output: [`settle`](super::settle) carries the actions out, and
//! the simulator in `simulation` does so in virtual time.
//!
//! ```text
//! Standing (of a pass) ──▶ Settling (of some suspects) ──next()──▶ Action
//!                               ▲                                    │
//!                               └─────────take()──── Event ◀─────────┘
//! ```

mod evidence;
mod machine;
mod messages;
#[cfg(test)]
mod simulation;

pub(crate) use evidence::{ArrayNow, HeldBy, HostsSeen, Records, Standing, Word};
pub(crate) use machine::{Patience, Settling};
pub(crate) use messages::{Action, Decision, Event, Look};

use std::time::Duration;

/// A moment: the time since a zero that the caller has chosen.
pub(crate) type Moment = Duration;
