//! A scrub pass: plan, check, examine, repair, report.
//!
//! ```text
//! Schedule (which stripes, in which batches)
//!    └▶ Checker: suspects of a batch ─▶ examine: verdicts ─▶ Finding ─▶ repair (with --repair)
//!                                                              └▶ progress, saved for --resume
//! ```

mod batch;
mod begin;
mod check;
mod checked;
mod conventional;
mod error;
mod examine;
mod pass;
mod retry;
mod settle;
pub(crate) mod settling;

pub use batch::Order;
pub use error::ScrubError;
pub use pass::{
    Observer, Options, Outcome, Progress, RepairPolicy, SkippedStripes, StopReason, Unfinished, run,
};
pub use retry::RECONNECT;
pub use settle::SETTLE;
