//! Features: their numbers, and the data of those that have some. (NVMe Base, Feature Identifiers.)

use crate::bytes::{put, u64_at};

/// Arbitration.
pub const ARBITRATION: u8 = 0x01;
/// Power state.
pub const POWER: u8 = 0x02;
/// Temperature threshold.
pub const TEMPERATURE: u8 = 0x04;
/// Error recovery.
pub const ERROR_RECOVERY: u8 = 0x05;
/// Volatile write cache.
pub const WRITE_CACHE: u8 = 0x06;
/// Number of queues.
pub const QUEUES: u8 = 0x07;
/// Atomicity of writes that are larger than one block and no larger than AWUN.
pub const ATOMICITY: u8 = 0x0A;
/// Events that are reported.
pub const ASYNC_EVENTS: u8 = 0x0B;
/// The host's time.
pub const TIMESTAMP: u8 = 0x0E;
/// Keep-alive timeout in milliseconds.
pub const KEEP_ALIVE: u8 = 0x0F;
/// Kinds of answers that the host understands.
pub const HOST_BEHAVIOR: u8 = 0x16;
/// Combination of command sets in use.
pub const COMMAND_SETS: u8 = 0x19;
/// The host's id.
pub const HOST_ID: u8 = 0x81;

/// Kinds of values that Get Features asks for (dword 10, bits 8 to 10).
pub mod select {
    /// The value now.
    pub const CURRENT: u8 = 0;
    /// The value after a reset.
    pub const DEFAULT: u8 = 1;
    /// The value that was saved; where nothing can be, the default.
    pub const SAVED: u8 = 2;
    /// Capabilities of the feature: bits 0 saved, 1 of a namespace, 2 changed.
    pub const CAPABILITIES: u8 = 3;
}

/// Capability: it can be changed.
pub const CHANGEABLE: u32 = 1 << 2;

/// Bytes of a feature's data; 0 where it is a number alone.
#[must_use]
pub const fn data_len(feature: u8) -> u32 {
    match feature {
        TIMESTAMP => Timestamp::LEN as u32,
        HOST_BEHAVIOR => HOST_BEHAVIOR_LEN as u32,
        HOST_ID => 16,
        _ => 0,
    }
}

/// Bytes of Host Behavior Support: 0 advanced command retry, 1 extended telemetry, 2 extended block
/// formats; each 0 or 1, the rest 0.
pub const HOST_BEHAVIOR_LEN: usize = 512;
/// The first bytes of Host Behavior Support, which mean something.
pub const HOST_BEHAVIOR_FIELDS: usize = 3;

/// A time. (NVMe Base, Timestamp: milliseconds 0:6, attributes 6:1.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timestamp {
    /// Milliseconds: since 1970 where a host has set it, since the controller's reset where not. 48
    /// bits.
    pub ms: u64,
    /// True if a host has set it (origin, bits 1 to 3 of the attributes: 1), or a reset has (0).
    pub from_host: bool,
    /// True if the clock may have stood still at times (bit 0 of the attributes).
    pub stopped: bool,
}

impl Timestamp {
    /// Bytes.
    pub const LEN: usize = 8;
    /// The milliseconds.
    const MS: u64 = (1 << 48) - 1;

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = (self.ms & Self::MS).to_le_bytes();
        put(&mut bytes, 6, &[u8::from(self.from_host) << 1 | u8::from(self.stopped), 0]);
        bytes
    }

    /// Reads eight bytes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        Self {
            ms: u64_at(bytes, 0) & Self::MS,
            from_host: bytes[6] >> 1 & 0b111 == 1,
            stopped: bytes[6] & 1 != 0,
        }
    }
}
