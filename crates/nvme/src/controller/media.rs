//! Interface to the media: the caller's part of reads and writes.

use super::upcoming::Upcoming;
use crate::auth::Job;
use crate::auth::credentials::Credentials;
use crate::auth::policy::Policy;
use crate::auth::secret::Seed;
pub use crate::spec::command::Op;
use crate::spec::command::{On, Sender};
use crate::spec::connect::Data;
use crate::spec::{Sqe, Status};
use pumice_protect::face::FaceCommand;
use std::sync::Arc;

/// The slot of the flush that a shutdown asks for; it belongs to no command.
pub const SHUTDOWN_SLOT: u16 = u16::MAX;

/// A request for a medium.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Identifier for the completion; unique within the connection.
    pub slot: u16,
    /// The namespace, 1 to as many as there are; `u32::MAX` for all of them (Flush).
    pub nsid: u32,
    /// The controller whose queue it came over.
    pub cntlid: u16,
    /// The operation.
    pub op: Op,
    /// First byte of the medium.
    pub offset: u64,
    /// Bytes of the medium.
    pub len: u64,
    /// The protection information fields of a command, if its host sees tuples. The data then has
    /// [`FaceCommand::transfer_bytes`] bytes.
    pub face: Option<FaceCommand>,
    /// Durable before it completes.
    pub fua: bool,
    /// Data from the host.
    pub data: &'a [u8],
    /// The command.
    pub command: &'a Sqe,
}

/// Result of handing a request to a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Submitted {
    /// It is done, with this status.
    Done(Status),
    /// It is under way: [`Connection::complete`](super::Connection::complete) or a sibling will be
    /// called for its slot, once.
    Later,
}

/// Answer of a medium that is asked to lend the data of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Lent {
    /// It lends nothing: [`Media::read_now`] copies.
    Nothing,
    /// The caller of [`Connection::receive`](super::Connection::receive) sends the data.
    Data,
    /// The data cannot be read.
    Failed(Status),
}

/// A bound on the data that a connection may ask for, in addition to its own.
pub trait Windows: std::fmt::Debug + Send + Sync {
    /// Takes room for so many bytes; false where there is none now. It is asked again when
    /// something ends, and at the next tick.
    fn take(&self, bytes: u32) -> bool;

    /// Gives it back.
    fn give_back(&self, bytes: u32);
}

/// The keys with which a host and a subsystem prove themselves to each other.
#[derive(Debug, Clone)]
pub struct HostKeys {
    /// The names and their keys.
    pub credentials: Arc<Credentials>,
    /// The hashes and groups that are accepted.
    pub policy: Arc<Policy>,
}

/// The caller's handling of requests. Each request is answered at once, or later through
/// [`Connection::complete`](super::Connection::complete) and its siblings, once.
pub trait Media {
    /// Checks whether a host may associate.
    ///
    /// # Errors
    /// The status of Connect if it may not.
    fn admit(&self, _host: &Data) -> Result<(), Status> {
        Ok(())
    }

    /// The keys of a host for a subsystem, by the names of Connect; `None` if the host need not
    /// prove itself. Asked at Connect, at the beginning of each authentication, and when a proof is
    /// there.
    fn keys(&self, _host: &str, _subsystem: &str) -> Option<HostKeys> {
        None
    }

    /// Random bytes for one step of an authentication; `None` if the system gives none.
    fn seed(&mut self) -> Option<Seed> {
        None
    }

    /// Computes elsewhere, for a host that claims this name: the result comes by
    /// [`Connection::computed`](super::Connection::computed). False if there is no place for it.
    fn compute(&mut self, _host: &str, _job: Job) -> bool {
        false
    }

    /// Checks whether the host may send a command. It is asked once for each command, before
    /// anything is done for it, and before its data are asked for.
    ///
    /// # Errors
    /// The status of the command if it may not.
    fn allow(&self, _sender: Sender, _on: On, _command: &Sqe) -> Result<(), Status> {
        Ok(())
    }

    /// Returns whether reads of a namespace need no waiting: then they go to [`lend`](Self::lend)
    /// and [`read_now`](Self::read_now), and are not submitted.
    fn is_immediate(&self, nsid: u32) -> bool;

    /// Reads at once into `into`. Called for namespaces that are immediate.
    fn read_now(&mut self, nsid: u32, offset: u64, into: &mut [u8]) -> Status;

    /// Lends the data of a read: the caller of [`Connection::receive`](super::Connection::receive)
    /// puts `len` bytes from `offset` on in front of byte `at` of what that call appends, when it
    /// sends it.
    fn lend(&mut self, _nsid: u32, _offset: u64, _len: u64, _at: usize) -> Lent {
        Lent::Nothing
    }

    /// A command has come whose data are still to come: it will be submitted under the same slot,
    /// or [`abandon`](Self::abandon)ed.
    fn expect(&mut self, _request: &Request<'_>) {}

    /// A command that was expected will not be submitted.
    fn abandon(&mut self, _slot: u16) {}

    /// Returns whether there is room for one more command of any size; else what follows waits with
    /// the caller.
    fn has_room(&self) -> bool {
        true
    }

    /// This command comes next: its memory may be brought nearer meanwhile. A hint from a host, of
    /// which nothing has been checked.
    fn prepare(&mut self, _next: Upcoming) {}

    /// Begins a request. `request.data` is gone afterwards.
    fn submit(&mut self, request: &Request<'_>) -> Submitted;
}
