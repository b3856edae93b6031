//! The events that can happen in a simulated world.

/// A millisecond, in microseconds.
pub(super) const MS: u64 = 1000;
/// A second.
pub(super) const S: u64 = 1_000_000;

/// Records of writes under way that the array keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Nothing,
    Bitmap,
    Ppl,
    Journal,
}

/// Kinds of events, and their rates.
#[derive(Debug, Clone)]
pub(super) struct Config {
    pub(super) kept: Kept,
    /// Drives are on nodes, which count writes; else they are devices of the host's own machine.
    pub(super) counted: bool,
    pub(super) nodes: usize,
    pub(super) members: usize,
    pub(super) stripes: usize,
    /// Between two writes to the array, in the mean.
    pub(super) gap: u64,
    /// Only these first stripes are written.
    pub(super) written: usize,
    /// Blocks take two contents in turn.
    pub(super) toggle: bool,
    /// In percent of writes, and for how long at most, the host holds one back.
    pub(super) held: (u64, u64),
    /// Percent: looks and evidence that take long.
    pub(super) slow_looks: u64,
    /// True if the host stops writing for seconds now and then.
    pub(super) pauses: bool,
    /// A crash is due within this time.
    pub(super) crash: Option<u64>,
    /// The host comes back after it.
    pub(super) comes_back: bool,
    /// Percent: an array that was cut off is assembled read-only until the first write.
    pub(super) read_only: u64,
    /// Of a stripe of a resync.
    pub(super) resync: u64,
    /// Paths are lost now and then.
    pub(super) paths: bool,
    /// Members fail and come back or are replaced, or the array is reshaped.
    pub(super) changes: bool,
    /// Nodes are started anew now and then.
    pub(super) restarts: bool,
    /// Other hosts come and go: some that might write, some that only read, as other scrubs do.
    pub(super) visitors: bool,
    /// Percent: damage is planted.
    pub(super) damage: u64,
    /// The array begins as one that was cut off.
    pub(super) begins_cut_off: bool,
}
