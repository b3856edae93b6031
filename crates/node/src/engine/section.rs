//! The unit in which stripes are folded.

/// The same bytes of one stripe on every source.
pub(crate) struct Section<'a> {
    pub(crate) stripe: u64,
    /// Offset within the command's window.
    pub(crate) start: u32,
    pub(crate) slices: &'a [&'a [u8]],
}
