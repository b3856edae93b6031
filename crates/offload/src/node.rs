//! The trait of every data node, in this process or behind a network.

use crate::{
    DriveId, Ended, Grant, Hosts, LinkFigures, MemoryAddress, NodeDescription, NodeError, OperationQueue,
    PaceFigures, PaceRequest, ParityCommand, ParityResult, Piece, PieceFailure, SuperblockSeen, TagFormat,
    TaggedBlocks, Transfer, TransferResult,
};
use crate::{PathId, PeerRange};
use pumice_buffer::AlignedBuffer;

/// A machine with drives and engines for parity and transfer.
///
/// Every method may be called from several threads at once. An implementation behind a network puts
/// a deadline on each call and reports [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable)
/// when it passes.
pub trait DataNode: Send + Sync {
    /// The node and its drives.
    ///
    /// # Errors
    /// If the node does not answer.
    fn describe(&self) -> Result<NodeDescription, NodeError>;

    /// Reads `buf.len()` bytes of a drive's medium.
    ///
    /// # Errors
    /// [`ErrorKind::Media`](crate::ErrorKind::Media) for unreadable sectors,
    /// [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField) for a range outside the drive.
    fn read(&self, drive: DriveId, offset: u64, buf: &mut [u8]) -> Result<(), NodeError>;

    /// Reads pieces side by side if that saves time over one [`read`](Self::read) after another,
    /// and returns the indices of those that are in the buffer now. Any may be left out, with no
    /// reason given: a read of it gives the bytes, or the error.
    fn read_ahead(&self, _pieces: &[Piece], _buffer: &mut [u8]) -> Vec<usize> {
        Vec::new()
    }

    /// Which tags a drive has; `None` if it has none, or the node knows of none.
    ///
    /// # Errors
    /// If the node does not answer, or has no such drive.
    fn tag_format(&self, _drive: DriveId) -> Result<Option<TagFormat>, NodeError> {
        Ok(None)
    }

    /// Reads whole blocks of a drive with tags, refused or not, and what their tags say of them.
    /// [`MAX_TAGGED_BLOCKS`](crate::MAX_TAGGED_BLOCKS) and 1 MiB at most.
    ///
    /// # Errors
    /// [`ErrorKind::Media`](crate::ErrorKind::Media) if the medium cannot give all of them,
    /// [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField) if the drive has no tags, or the
    /// range is not of whole blocks on it.
    fn read_tagged(&self, _drive: DriveId, _offset: u64, _len: u64) -> Result<TaggedBlocks, NodeError> {
        Err(NodeError::invalid("drive", "the drive has no tags"))
    }

    /// Vouches for the adopted tags of whole blocks: the parity of their stripes held when they
    /// were read last, and all of them fitted. Returns how many there are.
    ///
    /// # Errors
    /// As [`read_tagged`](Self::read_tagged), and if the tags cannot be written.
    fn vouch(&self, _drive: DriveId, _offset: u64, _len: u64) -> Result<u64, NodeError> {
        Ok(0)
    }

    /// Reads many pieces at once into one buffer, which is handed through.
    ///
    /// Pieces that the medium cannot give back are listed; their part of the buffer means nothing.
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

    /// Makes a range of a drive's medium zeros. Durable only after a [`flush`](Self::flush) that
    /// follows. If the drive can, nothing is moved to it for that.
    ///
    /// # Errors
    /// As [`write`](Self::write). Some of the range may be zeros then.
    fn zero(&self, drive: DriveId, offset: u64, len: u64) -> Result<(), NodeError>;

    /// Makes every completed write of the drive durable.
    ///
    /// # Errors
    /// If the drive cannot promise that.
    fn flush(&self, drive: DriveId) -> Result<(), NodeError>;

    /// Opens a queue for up to `depth` operations at a time; `ended` is told of each that has
    /// ended.
    ///
    /// # Errors
    /// If the node does not answer, or the machine has no threads or descriptors left.
    fn operations(&self, depth: usize, ended: Ended) -> Result<Box<dyn OperationQueue>, NodeError>;

    /// Whether its queues take [`Operation::Update`](crate::Operation::Update) and
    /// [`Operation::Store`](crate::Operation::Store).
    fn has_updates(&self) -> bool {
        false
    }

    /// Names a range of a peer's local memory, for updates of this caller.
    ///
    /// # Errors
    /// If the node has no updates, no such peer, or names too many.
    fn set_path(&self, _path: PathId, _range: &PeerRange) -> Result<(), NodeError> {
        Err(NodeError::invalid("path", "the node has no updates"))
    }

    /// Executes a parity command.
    ///
    /// Unreadable media is part of the result, never an error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField) names the field of a command
    /// that makes no sense for this node.
    fn parity(&self, command: &ParityCommand) -> Result<ParityResult, NodeError>;

    /// The other hosts that may write the node's drives; `None` if the node cannot know.
    ///
    /// # Errors
    /// If the node does not answer.
    fn hosts(&self) -> Result<Option<Hosts>, NodeError> {
        Ok(None)
    }

    /// What the node remembers of the superblocks on its drives, of those that were written since
    /// it started; `None` if it does not look.
    ///
    /// # Errors
    /// If the node does not answer.
    fn superblocks(&self) -> Result<Option<Vec<SuperblockSeen>>, NodeError> {
        Ok(None)
    }

    /// Keeps all other hosts away from the node's drives for as long as the caller is associated
    /// with it.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) where another host is associated already.
    fn hold(&self) -> Result<(), NodeError> {
        Ok(())
    }

    /// Promises to write no drive for as long as the caller is associated: other hosts see it, and
    /// the node holds the caller to it.
    ///
    /// # Errors
    /// If the node does not answer.
    fn observe(&self) -> Result<(), NodeError> {
        Ok(())
    }

    /// Lets another node write `len` bytes of local memory from `to` on, as
    /// [`absolute`](Self::absolute) says, until the grant is taken back.
    ///
    /// # Errors
    /// If the caller has not leased that memory.
    fn grant(&self, _to: MemoryAddress, _len: u64) -> Result<Grant, NodeError> {
        Ok(Grant::NONE)
    }

    /// Takes a grant back: nothing is written under it any more.
    ///
    /// # Errors
    /// If the node does not answer.
    fn revoke(&self, _to: MemoryAddress, _grant: &Grant) -> Result<(), NodeError> {
        Ok(())
    }

    /// Ends the wait of every parity command that is under way, now, and fails those that follow:
    /// the caller is about to end. Other operations go on.
    fn give_up(&self) {}

    /// Makes the connections to the node anew, if they were lost. After that every address of local
    /// memory means another place, and what was asked of the node's pace is asked again. Returns
    /// whether they had been lost.
    ///
    /// # Errors
    /// If the node cannot be reached, is not the one that it was, or was held: others may have
    /// written since.
    fn reconnect(&self) -> Result<bool, NodeError> {
        Ok(false)
    }

    /// What the connections to the node have moved; `None` if there is no network between.
    fn link_figures(&self) -> Option<LinkFigures> {
        None
    }

    /// Has every parity command over media, of this and any other host, read its drives at a pace,
    /// for as long as the caller is associated. Where several ask, and the node's own configuration
    /// does, all of them are heeded. An empty request is taken back.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField) names the field of a request
    /// that makes no sense.
    fn pace(&self, request: &PaceRequest) -> Result<(), NodeError>;

    /// What was measured of each drive since its pacing began; empty if there is none.
    ///
    /// # Errors
    /// If the node does not answer.
    fn pace_figures(&self) -> Result<Vec<PaceFigures>, NodeError>;

    /// Where an address of local memory, as this caller counts it, lies for other nodes: several
    /// hosts may share a drive's memory, each has its own part of it.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) where other hosts have all of the memory.
    fn absolute(&self, address: MemoryAddress) -> Result<MemoryAddress, NodeError> {
        Ok(address)
    }

    /// Moves local memory of one drive to local memory of a drive of another node. `from` is
    /// counted as the caller counts it, `to` as [`absolute`](Self::absolute) says.
    ///
    /// # Errors
    /// If a range lies outside its memory, or the peer is not known or not reachable.
    fn transfer(&self, transfer: &Transfer) -> Result<TransferResult, NodeError>;

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
}
