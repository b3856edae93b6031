//! Bytes that are read ahead when a log is opened.

/// Bytes that are read at once when a log is opened.
pub(super) const READ_AHEAD: usize = 256 << 10;

/// Bytes of the region that were read in one piece, from `at` on.
#[derive(Default)]
pub(super) struct Ahead {
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
    /// Up to here it is read in small pieces: a large one failed.
    pub(super) small_until: u64,
}

impl Ahead {
    pub(super) fn slice(&self, begin: u64, end: u64) -> Option<&[u8]> {
        let from = usize::try_from(begin.checked_sub(self.at)?).ok()?;
        self.bytes.get(from..from + (end - begin) as usize)
    }
}
