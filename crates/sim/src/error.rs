//! Why a study of a trace cannot be made.

use crate::trace::TraceError;
use thiserror::Error;

/// Why a study cannot be made.
#[derive(Debug, Error)]
pub enum StudyError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// No such device.
    #[error("{path}: no device '{device}'; it has {known}")]
    Device {
        /// The trace.
        path: String,
        /// What was asked for.
        device: String,
        /// What there is.
        known: String,
    },
    /// A drive that the trace does not fit, or that failed.
    #[error("the drive of the study: {0}")]
    Drive(String),
}
