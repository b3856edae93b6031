//! Jobs of a kernel.

/// Blocks of one length at a fixed pitch.
pub(super) struct Run {
    pub(super) src: *const u8,
    pub(super) src_pitch: usize,
    /// Null if nothing is copied.
    pub(super) dst: *mut u8,
    pub(super) dst_pitch: usize,
    /// Bytes of a block.
    pub(super) len: usize,
    pub(super) count: usize,
    /// The register before each block.
    pub(super) start: u64,
    /// The register after each block, `count` of them.
    pub(super) registers: *mut u64,
}
