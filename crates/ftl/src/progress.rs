//! The progress of a recovery.

/// How far a recovery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What it is about to look at: words that follow a number.
    pub step: &'static str,
    /// How many of them it has looked at.
    pub done: u64,
    /// How many there are.
    pub of: u64,
}
