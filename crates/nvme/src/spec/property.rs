//! Controller properties, read and written by Property Get and Set. (NVMe Base, controller
//! properties.)

/// Offsets.
pub mod offset {
    /// Capabilities, 8 bytes.
    pub const CAP: u32 = 0x00;
    /// Version, 4 bytes.
    pub const VS: u32 = 0x08;
    /// Configuration, 4 bytes.
    pub const CC: u32 = 0x14;
    /// Status, 4 bytes.
    pub const CSTS: u32 = 0x1C;
}

/// NVMe 1.4: what this controller speaks.
pub const VERSION: u32 = 0x0001_0400;

/// CAP for queues of `depth` entries: contiguous queues, NVM command set, ready within 15 units of
/// 500 ms, pages of 4 KiB.
///
/// Of command sets there is only that one; but hosts ask for what Identify says by command set
/// (formats of protection information are there) only if bit 43 says that there can be several.
#[must_use]
pub const fn capabilities(depth: u16) -> u64 {
    (depth - 1) as u64 | 1 << 16 | 15 << 24 | 1 << 37 | 1 << 43
}

/// Bits of CC.
pub mod cc {
    /// Enable.
    pub const ENABLE: u32 = 1;
    /// Command set selected.
    pub const COMMAND_SET: u32 = 0b111 << 4;
    /// The same: all that there are, rather than the NVM command set.
    pub const ALL_COMMAND_SETS: u32 = 0b110 << 4;
    /// Memory page size, arbitration: must all be 0 here.
    pub const MUST_BE_ZERO: u32 = 0b1111 << 7 | 0b111 << 11;
    /// Shutdown notification: 1 normal, 2 abrupt.
    pub const SHUTDOWN: u32 = 0b11 << 14;
    /// I/O queue entry sizes as powers of two: submission in bits 16-19, completion in bits 20-23.
    pub const ENTRY_SIZES: u32 = 0xFF << 16;
    /// 64 and 16 bytes.
    pub const ENTRY_SIZES_64_16: u32 = 0x46 << 16;
}

/// Bits of CSTS.
pub mod csts {
    /// Ready.
    pub const READY: u32 = 1;
    /// Failed.
    pub const FATAL: u32 = 1 << 1;
    /// Shutdown status.
    pub const SHUTDOWN: u32 = 0b11 << 2;
    /// Shutdown under way.
    pub const SHUTDOWN_OCCURRING: u32 = 1 << 2;
    /// Shutdown done.
    pub const SHUTDOWN_COMPLETE: u32 = 2 << 2;
}
