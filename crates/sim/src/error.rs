//! Reasons why a trace cannot be studied.

use crate::trace::TraceError;
use thiserror::Error;

/// Failure of a study.
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
        /// The device asked for.
        device: String,
        /// The devices of the trace.
        known: String,
    },
    /// A drive that the trace does not fit, or that failed.
    #[error("the drive of the study: {0}")]
    Drive(String),
}
