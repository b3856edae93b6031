//! A scrub: check the batches of a pass, examine suspects, repair, and return the result.
//!
//! ```text
//! pass::Course (which batch, when)
//!    └▶ Checker: suspects of a batch ─▶ examine: verdicts ─▶ Finding ─▶ repair (with --repair)
//!                                                              └▶ progress, saved for --resume
//! ```

mod again;
mod begin;
mod books;
mod check;
mod checked;
mod confirm;
mod conventional;
mod examine;
mod mend;
mod options;
mod outcome;
mod pace;
mod pending;
mod run;
mod settle;
pub(crate) mod settling;
mod vouch;
mod witness;

pub use options::Options;
pub use outcome::{Outcome, SkippedStripes, Unfinished};
pub use run::run;
pub use settle::SETTLE;
