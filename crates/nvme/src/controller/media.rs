//! What a subsystem does with blocks: the caller's part.

use crate::spec::{Sqe, Status};

/// The slot of the flush that a shutdown asks for; it belongs to no command.
pub const SHUTDOWN_SLOT: u16 = u16::MAX;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Read.
    Read,
    /// Write the request's data.
    Write,
    /// Make every completed write durable.
    Flush,
    /// Make the blocks unreadable until they are written.
    WriteUncorrectable,
    /// Compare with the request's data.
    Compare,
    /// Write zeros.
    WriteZeroes,
    /// The blocks' content is not needed any more. The request's data are the ranges, 16 bytes each: context 0:4, blocks 4:4, first block 8:8.
    Deallocate,
    /// Read without transferring.
    Verify,
    /// A vendor command; see `command`.
    Vendor,
}

/// A request for a medium.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What the completion names; unique within the connection.
    pub slot: u16,
    /// The namespace, 1 to as many as there are; `u32::MAX` for all of them (Flush).
    pub nsid: u32,
    /// The controller whose queue it came over.
    pub cntlid: u16,
    /// What is asked for.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Durable before it completes.
    pub fua: bool,
    /// Data from the host.
    pub data: &'a [u8],
    /// The command.
    pub command: &'a Sqe,
}

/// Who says how much data a connection may ask for, beside the connection's own bound.
pub trait Windows: std::fmt::Debug + Send + Sync {
    /// Takes room for so many bytes; false where there is none now. It is asked again when something ends, and at the next tick.
    fn take(&self, bytes: u32) -> bool;

    /// Gives it back.
    fn give_back(&self, bytes: u32);
}

/// What the caller does with requests. Each request is answered at once, or later through [`Connection::complete`](super::Connection::complete) and its
/// siblings, once.
pub trait Media {
    /// Reads at once into `into`, where that needs no waiting; `None` where the request must be submitted.
    fn read_now(&mut self, nsid: u32, offset: u64, into: &mut [u8]) -> Option<Status>;

    /// Whether [`read_now`](Self::read_now) answers for this namespace.
    fn is_immediate(&self, nsid: u32) -> bool;

    /// Lends the data of a read: the caller of [`Connection::receive`](super::Connection::receive) puts `len` bytes from `offset` on in front of byte `at` of what
    /// that call appends, when it sends it. A status other than success where they cannot be read; `None` where the medium does not lend.
    fn lend(&mut self, _nsid: u32, _offset: u64, _len: u64, _at: usize) -> Option<Status> {
        None
    }

    /// A command has come whose data are still to come: it will be submitted under the same slot, or [`abandon`](Self::abandon)ed.
    fn expect(&mut self, _request: &Request<'_>) {}

    /// A command that was expected will not be submitted.
    fn abandon(&mut self, _slot: u16) {}

    /// Whether there is room for one more command of any size; else what follows waits with the caller.
    fn has_room(&self) -> bool {
        true
    }

    /// Begins a request; `Some` where it is already done. `request.data` is gone afterwards.
    fn submit(&mut self, request: &Request<'_>) -> Option<Status>;
}
