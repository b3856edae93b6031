//! The progress of a recovery.

/// The progress of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The things that it is about to look at: words that follow a number.
    pub step: &'static str,
    /// The number of them that it has looked at.
    pub done: u64,
    /// The number of them.
    pub of: u64,
}
