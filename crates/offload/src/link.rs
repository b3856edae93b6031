//! The traffic of a caller's connections to a node, and its protection.

/// What one queue has moved over its connection, headers and digests among it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueTraffic {
    /// Bytes that were sent to the node.
    pub sent: u64,
    /// Bytes that came from it.
    pub received: u64,
}

/// What a caller's own connections to a node have moved since the first of them, and how the bytes
/// are protected on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkFigures {
    /// Bytes, both ways, with headers and digests.
    pub bytes: u64,
    /// Messages (PDUs), both ways.
    pub pdus: u64,
    /// Whether every header and all data carry a CRC-32C of their own.
    pub digests: bool,
    /// Whether both ends are on this machine.
    pub loopback: bool,
}
