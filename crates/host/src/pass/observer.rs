//! The events of a pass, for observers such as a progress bar.

use crate::finding::Finding;

/// The progress of a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Stripes checked.
    pub stripes: u64,
    /// Stripes to check in all.
    pub of_stripes: u64,
    /// Bytes checked.
    pub bytes: u64,
    /// Findings so far.
    pub findings: usize,
}

/// An observer of a pass.
pub trait Observer {
    /// A batch is done.
    fn progress(&mut self, progress: &Progress);
    /// There is a new finding (perhaps already repaired).
    fn finding(&mut self, finding: &Finding);
    /// A note for the operator.
    fn note(&mut self, note: &str);
}

/// The reasons why a pass ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The operator wanted it.
    Interrupted,
    /// A node or the state directory failed.
    Failed(String),
    /// The limit of findings was reached.
    TooManyFindings,
    /// The array is no longer the one that was read: the first difference.
    ArrayChanged(String),
    /// Somebody took a device of this machine into use during the pass: who, and which device.
    TakenIntoUse(String),
}
