//! The events of a pass, for observers such as a progress bar.

use crate::finding::Finding;

/// Where a pass is.
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

/// Who watches a pass.
pub trait Observer {
    /// A batch is done.
    fn progress(&mut self, progress: &Progress);
    /// Something was found (and perhaps repaired).
    fn finding(&mut self, finding: &Finding);
    /// Something an operator should know.
    fn note(&mut self, note: &str);
}

/// Why a pass ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The operator wanted it.
    Interrupted,
    /// A node or the state directory failed.
    Failed(String),
    /// More findings than a scrub can be about.
    TooManyFindings,
    /// Somebody took a device of this machine into use, which nobody had when the pass began: who,
    /// and which device.
    TakenIntoUse(String),
}
