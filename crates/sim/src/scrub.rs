//! The study: one foreground trace, every policy, tuned on its first part and measured on the rest,
//! beside tuned and measured on all of it.

mod contender;
mod notes;
mod outcome;
mod passes;

pub use contender::{Choice, PolicyName};
pub use outcome::{Equal, Point, Report, Row};

use crate::drive::Drive;
use crate::error::StudyError;
use crate::trace::Format;
use crate::tuner::Advice;
use pumice_pacer::Goal;
use std::path::PathBuf;

/// Settings of a study.
#[derive(Debug, Clone)]
pub struct Study {
    /// The trace.
    pub trace: PathBuf,
    /// Its format, if it is not to be detected.
    pub format: Option<Format>,
    /// A device of it; without one, the device with the most requests.
    pub device: Option<String>,
    /// Bound on the slowdown of the foreground.
    pub goal: Goal,
    /// The policies to compare.
    pub policies: Vec<PolicyName>,
    /// The share of the trace's time that is for tuning (0 to less than 1); 0 gives in-sample rows
    /// only.
    pub train: f64,
    /// The drive's model; without one, a disk, or an SSD where the load is more than a disk can
    /// serve.
    pub drive: Option<Drive>,
    /// True if the goal counts requests that queue behind a slowed one.
    pub queued: bool,
    /// True if curves of throughput against slowdown are wanted.
    pub curves: bool,
}

/// Name of an advice in documents.
pub(crate) fn advice_name(advice: Advice) -> &'static str {
    match advice {
        Advice::NoHistory => "no_history",
        Advice::WaitingHelps => "waiting_helps",
        Advice::WaitingCannotHelp => "waiting_cannot_help",
    }
}

/// Makes a study. The trace is gone through three times: in memory, or where it does not fit there,
/// in its file.
///
/// # Errors
/// Where the trace is damaged or has no such device.
pub fn study(study: &Study) -> Result<Report, StudyError> {
    passes::run(study)
}
