//! The traits of data nodes, in this process or behind a network: a trait for each capability.
//!
//! Capabilities of every node are supertraits of [`DataNode`]. For each of the others it has a
//! method, which returns `None` if the node lacks it. Callers take the trait that they use.

use crate::{
    DriveId, DriveRange, Ended, Grant, Hosts, LinkFigures, MemoryAddress, NodeDescription, NodeError,
    OperationQueue, PaceFigures, PaceRequest, ParityCommand, ParityResult, Piece, PieceFailure,
    SuperblockSeen, TagFormat, Transfer, TransferResult,
};
use crate::{PathId, PeerRange};
use pumice_base::buffer::AlignedBuffer;
use pumice_protect::origin::{Judged, RestoredTag};

/// A machine with drives and engines for parity and transfer.
///
/// Every method may be called from several threads at once. An implementation behind a network puts
/// a deadline on each call and reports [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable)
/// when it passes.
pub trait DataNode: Drives + ParityEngine + DriveMemory + Paced {
    /// The node and its drives.
    ///
    /// # Errors
    /// If the node does not answer.
    fn describe(&self) -> Result<NodeDescription, NodeError>;

    /// The tags of its drives; `None` if no drive has any.
    fn tagged(&self) -> Option<&dyn TaggedDrives> {
        None
    }

    /// Steps of writes of parity; `None` if its queues do not support
    /// [`Operation::Update`](crate::Operation::Update) and
    /// [`Operation::Store`](crate::Operation::Store).
    fn updates(&self) -> Option<&dyn Updates> {
        None
    }

    /// The other hosts that use it; `None` for a node that this process alone uses.
    fn presence(&self) -> Option<&dyn Presence> {
        None
    }

    /// The connections to it; `None` without a network.
    fn link(&self) -> Option<&dyn Link> {
        None
    }
}

impl dyn DataNode + '_ {
    /// The tags of its drives, for a drive that has some.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField) if no drive has any.
    pub fn tagged_drives(&self) -> Result<&dyn TaggedDrives, NodeError> {
        self.tagged().ok_or_else(|| NodeError::invalid("drive", "the drive has no tags"))
    }
}

/// Reads and writes of the drives of a node, by byte range.
pub trait Drives: Send + Sync {
    /// Reads `buf.len()` bytes of a drive's medium.
    ///
    /// # Errors
    /// [`ErrorKind::Media`](crate::ErrorKind::Media) for unreadable sectors,
    /// [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField) for a range outside the drive.
    fn read(&self, drive: DriveId, offset: u64, buf: &mut [u8]) -> Result<(), NodeError>;

    /// Reads pieces in parallel if that is faster than one [`read`](Self::read) after another, and
    /// returns the indices of the pieces that are now in the buffer. Any piece may be left out
    /// without a reason: a read of it returns the bytes, or the error.
    fn read_ahead(&self, _pieces: &[Piece], _buffer: &mut [u8]) -> Vec<usize> {
        Vec::new()
    }

    /// Reads many pieces at once into one buffer, which is passed through.
    ///
    /// Pieces that the medium refuses are listed; their part of the buffer is undefined.
    ///
    /// # Errors
    /// If the read as a whole could not be carried out.
    fn gather(
        &self,
        pieces: &[Piece],
        buffer: AlignedBuffer,
    ) -> Result<(AlignedBuffer, Vec<PieceFailure>), NodeError>;

    /// Writes to a drive's medium. Durable only after a [`flush`](Self::flush) that follows.
    ///
    /// # Errors
    /// If the drive is read-only, the range lies outside it, or the medium fails.
    fn write(&self, drive: DriveId, offset: u64, data: &[u8]) -> Result<(), NodeError>;

    /// Zeroes a range of a drive's medium. Durable only after a subsequent [`flush`](Self::flush).
    /// If the drive supports it, no zeros are transferred to it.
    ///
    /// # Errors
    /// As [`write`](Self::write). Then part of the range may be zeros.
    fn zero(&self, drive: DriveId, offset: u64, len: u64) -> Result<(), NodeError>;

    /// Zeroes ranges of several drives as [`zero`](Self::zero) does; all at a time, if the
    /// implementation can.
    ///
    /// # Errors
    /// The first of the ranges that failed, by its index; the first of all if the node does not
    /// answer. The others may be zeros, or part of them.
    fn zero_ranges(&self, ranges: &[DriveRange]) -> Result<(), (usize, NodeError)> {
        let zero = |range: &DriveRange| self.zero(range.drive, range.offset, range.len);
        ranges.iter().enumerate().try_for_each(|(i, range)| zero(range).map_err(|error| (i, error)))
    }

    /// Makes every completed write of the drive durable.
    ///
    /// # Errors
    /// If the drive cannot guarantee that.
    fn flush(&self, drive: DriveId) -> Result<(), NodeError>;

    /// Opens a queue for up to `depth` operations at a time; `ended` is called for each when it has
    /// ended.
    ///
    /// # Errors
    /// If the node does not answer, or the machine has no threads or descriptors left.
    fn operations(&self, depth: usize, ended: Ended) -> Result<Box<dyn OperationQueue>, NodeError>;
}

/// Blocks of drives with their tags.
pub trait TaggedDrives: Send + Sync {
    /// The format of a drive's tags; `None` if it has none.
    ///
    /// # Errors
    /// If the node does not answer, or has no such drive.
    fn tag_format(&self, drive: DriveId) -> Result<Option<TagFormat>, NodeError>;

    /// Reads whole blocks of a drive with tags, even if plain reads refuse them; returns the result
    /// of checking their tags. [`MAX_TAGGED_BLOCKS`](crate::MAX_TAGGED_BLOCKS) and 1 MiB at most.
    ///
    /// # Errors
    /// [`ErrorKind::Media`](crate::ErrorKind::Media) if the medium cannot read all of them,
    /// [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField) if the drive has no tags, or the
    /// range is not of whole blocks on it.
    fn read_tagged(&self, drive: DriveId, offset: u64, buf: &mut [u8]) -> Result<Vec<Judged>, NodeError>;

    /// Vouches for the adopted tags of whole blocks: when these were last read, the parity of their
    /// stripes held and all of them matched their tags. Returns the number of such tags.
    ///
    /// # Errors
    /// As [`read_tagged`](Self::read_tagged), and if the tags cannot be written.
    fn vouch(&self, drive: DriveId, offset: u64, len: u64) -> Result<u64, NodeError>;

    /// Returns whether the node knows [`restore`](Self::restore).
    fn restores(&self) -> bool;

    /// Writes whole blocks of a drive with tags, whose bytes come from no host's present write,
    /// with such a tag. Durable only after a [`flush`](Drives::flush) that follows.
    ///
    /// # Errors
    /// As [`write`](Drives::write), and [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField)
    /// if the node does not support it, the drive has no tags, or the range is not of whole blocks.
    fn restore(&self, drive: DriveId, offset: u64, data: &[u8], tag: RestoredTag) -> Result<(), NodeError>;
}

/// Commands that fold media, or local memory, where they are.
pub trait ParityEngine: Send + Sync {
    /// Executes a parity command.
    ///
    /// Unreadable media is part of the result, never an error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField) names a field of the command
    /// that is invalid on this node.
    fn parity(&self, command: &ParityCommand) -> Result<ParityResult, NodeError>;

    /// Returns whether the node knows commands that are read without a pace
    /// ([`ParityCommand::unpaced`]). One that does not reads a command of one repetition at once,
    /// and longer ones at its pace.
    fn reads_unpaced(&self) -> bool;

    /// Ends the wait of every parity command under way at once, and fails later ones, because the
    /// caller is about to end. Other operations continue.
    fn give_up(&self);
}

/// Local memory of the drives, and its way to other nodes.
pub trait DriveMemory: Send + Sync {
    /// Writes local memory.
    ///
    /// # Errors
    /// If the range lies outside it.
    fn memory_write(&self, address: MemoryAddress, data: &[u8]) -> Result<(), NodeError>;

    /// Reads local memory.
    ///
    /// # Errors
    /// If the range lies outside it.
    fn memory_read(&self, address: MemoryAddress, buf: &mut [u8]) -> Result<(), NodeError>;

    /// Moves local memory of one drive to local memory of a drive of another node. `from` is
    /// counted as the caller counts it, `to` as [`absolute`](Self::absolute) says.
    ///
    /// # Errors
    /// If a range lies outside its memory, or the peer is not known or not reachable.
    fn transfer(&self, transfer: &Transfer) -> Result<TransferResult, NodeError>;

    /// Converts a caller's address of local memory to the address that other nodes use: several
    /// hosts may share a drive's memory, each with its own part.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) where other hosts have all of the memory.
    fn absolute(&self, address: MemoryAddress) -> Result<MemoryAddress, NodeError> {
        Ok(address)
    }

    /// Lets another node write `len` bytes of local memory from `to` on, as
    /// [`absolute`](Self::absolute) says, until the grant is revoked.
    ///
    /// # Errors
    /// If the caller has not leased that memory.
    fn grant(&self, _to: MemoryAddress, _len: u64) -> Result<Grant, NodeError> {
        Ok(Grant::NONE)
    }

    /// Revokes a grant: nothing is written under it any more.
    ///
    /// # Errors
    /// If the node does not answer.
    fn revoke(&self, _to: MemoryAddress, _grant: &Grant) -> Result<(), NodeError> {
        Ok(())
    }
}

/// Local memory of updates, and their paths to the memory of other nodes.
pub trait Updates: Send + Sync {
    /// Has this caller lease half of each drive's local memory from now on, or the usual quarter.
    /// What was leased before is given back with the next lease.
    fn widen_memory(&self, wide: bool);

    /// Names a range of a peer's local memory, for updates of this caller.
    ///
    /// # Errors
    /// If the node has no updates, no such peer, or names too many.
    fn set_path(&self, path: PathId, range: &PeerRange) -> Result<(), NodeError>;
}

/// Hosts that share a node: which there are, and what this one promises or asks of them.
pub trait Presence: Send + Sync {
    /// The other hosts that may write the node's drives.
    ///
    /// # Errors
    /// If the node does not answer.
    fn hosts(&self) -> Result<Hosts, NodeError>;

    /// The node's records of superblocks that were written to its drives since it started; `None`
    /// if it is older and keeps none.
    ///
    /// # Errors
    /// If the node does not answer.
    fn superblocks(&self) -> Result<Option<Vec<SuperblockSeen>>, NodeError>;

    /// Keeps all other hosts away from the node's drives for as long as the caller is associated
    /// with it.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) where another host is associated already.
    fn hold(&self) -> Result<(), NodeError>;

    /// Promises not to write any drive for as long as the caller is associated. Other hosts can see
    /// this, and the node enforces it.
    ///
    /// # Errors
    /// If the node does not answer.
    fn observe(&self) -> Result<(), NodeError>;
}

/// Connections to a node, which can be lost and made again.
pub trait Link: Send + Sync {
    /// Re-establishes the connections to the node, if they were lost. Afterwards earlier addresses
    /// of local memory are invalid; a pace that was set is set again. Returns whether the
    /// connections had been lost.
    ///
    /// # Errors
    /// If the node cannot be reached, is a different one, or was held: then others may have written
    /// since.
    fn reconnect(&self) -> Result<bool, NodeError>;

    /// Re-establishes the connections to the node, if they were lost, and holds it again, if it was
    /// held. Earlier addresses of local memory, and earlier queues, are invalid then. Others may
    /// have written in between: the caller has to look. Returns whether anything had been lost.
    ///
    /// # Errors
    /// If the node cannot be reached, is a different one, or cannot be held yet.
    fn retake(&self) -> Result<bool, NodeError>;

    /// The traffic of the connections to the node.
    fn link_figures(&self) -> LinkFigures;
}

/// The pace of a node's parity commands.
pub trait Paced: Send + Sync {
    /// Has every parity command over media, of this and any other host, read its drives at a pace,
    /// for as long as the caller is associated. If several hosts ask, and the node's own
    /// configuration sets a pace too, all of them apply. An empty request revokes the caller's
    /// pace.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField) names an invalid field of the
    /// request.
    fn pace(&self, request: &PaceRequest) -> Result<(), NodeError>;

    /// Measurements of each drive since its pacing began; empty without a pace.
    ///
    /// # Errors
    /// If the node does not answer.
    fn pace_figures(&self) -> Result<Vec<PaceFigures>, NodeError>;
}
