//! The traffic of a caller's connections to a node, and its protection.

/// Traffic of one queue over its connection, including headers and digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueTraffic {
    /// Bytes that were sent to the node.
    pub sent: u64,
    /// Bytes that came from it.
    pub received: u64,
}

/// Traffic of a caller's connections to a node since the first of them, and its protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkFigures {
    /// Bytes, both ways, with headers and digests.
    pub bytes: u64,
    /// Messages (PDUs), both ways.
    pub pdus: u64,
    /// True if every header and all data carry a CRC-32C.
    pub digests: bool,
    /// True if both ends are on this machine.
    pub loopback: bool,
}
