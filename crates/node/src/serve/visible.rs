//! Execution of commands over a visible face: `docs/design/visible-face.md`.

use super::faults::{Fault, read_fault, write_fault};
use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use pumice_blockdev::{BlockDevice, Tagged};
use pumice_nvme::controller::Request;
use pumice_nvme::spec::{Sqe, Status};
use pumice_protect::face::{self, CompareStream, FaceCommand, Failure, Operation, VerifyStream, WriteStream};

/// Bytes of data that are verified or zeroed before other commands have their turn.
const PIECE: u64 = 1 << 20;

/// A command over a visible face, and its progress.
#[derive(Debug)]
pub(super) struct Visible {
    command: FaceCommand,
    /// First byte and bytes of the medium.
    offset: u64,
    len: u64,
    /// Bytes of the medium that were verified or zeroed.
    done: u64,
    verify: VerifyStream,
    /// True if zeroing frees the room of the blocks.
    frees_room: bool,
}

impl Visible {
    /// The visible part of a request. `None` if it is carried out as over the hidden face: it has
    /// no protection information fields, or it stores zeros with the same tuples as the hidden
    /// face.
    pub(super) fn of(request: &Request<'_>) -> Option<Self> {
        let command = request.face?;
        if command.operation() == Operation::WriteZeroes && command.zeros_as_deallocated() {
            return None;
        }
        Some(Self {
            command,
            offset: request.offset,
            len: request.len,
            done: 0,
            verify: VerifyStream::new(command),
            frees_room: request.command.control() & Sqe::DEAC != 0,
        })
    }

    /// Bytes that the host transfers.
    pub(super) fn transfer_bytes(&self) -> u64 {
        self.command.transfer_bytes()
    }

    /// Bytes of memory that it needs: the bytes transferred, and the data and metadata as stored.
    pub(super) fn memory(&self) -> u64 {
        let format = self.command.format();
        let blocks = match self.command.operation() {
            Operation::Write | Operation::Read | Operation::Compare => self.command.blocks(),
            Operation::Verify | Operation::WriteZeroes => self.len.min(PIECE) / format.data_bytes() as u64,
        };
        self.transfer_bytes() + blocks * format.block_bytes() as u64
    }

    /// Reads, and returns the bytes for the host.
    pub(super) fn read(&self, device: &dyn BlockDevice) -> Result<SharedBuffer, Fault> {
        let (data, metadata) = self.stored(device, self.offset, self.len)?;
        let len = self.transfer_bytes() as usize;
        let mut out = AlignedBuffer::new(len);
        let stored = &data[..self.len as usize];
        face::read(&self.command, stored, &metadata, &mut out[..len]).map_err(|why| self.fault(&why))?;
        Ok(SharedBuffer::new(out, len))
    }

    /// Compares with the bytes from the host.
    pub(super) fn compare(&self, device: &dyn BlockDevice, sent: &[u8]) -> Result<(), Fault> {
        let (data, metadata) = self.stored(device, self.offset, self.len)?;
        let mut stream = CompareStream::new(self.command, &data[..self.len as usize], &metadata);
        stream.take(sent);
        stream.finish().map_err(|why| self.fault(&why))
    }

    /// Stores the bytes from the host, or nothing if a block fails its check.
    pub(super) fn write(&self, device: &dyn BlockDevice, sent: &[u8]) -> Result<(), Fault> {
        let mut data = Vec::with_capacity(self.len as usize);
        let mut metadata = Vec::with_capacity(self.metadata_of(self.len));
        let mut stream = WriteStream::new(self.command);
        stream.take(sent, &mut data, &mut metadata);
        stream.finish().map_err(|why| self.fault(&why))?;
        let written = tags(device)?.write_with_metadata(self.offset, &data, &metadata);
        Ok(written.map_err(|error| write_fault(&error))?)
    }

    /// Verifies a piece; true if that was the last.
    pub(super) fn verify(&mut self, device: &dyn BlockDevice) -> Result<bool, Fault> {
        let len = (self.len - self.done).min(PIECE);
        let (data, metadata) = self.stored(device, self.offset + self.done, len)?;
        let taken = self.verify.take(&data[..len as usize], &metadata);
        taken.map_err(|why| self.fault(&why))?;
        self.done += len;
        Ok(self.done == self.len)
    }

    /// Fills a piece with zeros, with the metadata of the command; true if that was the last.
    pub(super) fn zero(&mut self, device: &dyn BlockDevice) -> Result<bool, Fault> {
        let block = self.command.format().data_bytes() as u64;
        let len = (self.len - self.done).min(PIECE);
        let first = self.done / block;
        let metadata: Vec<u8> = (first..first + len / block).flat_map(|i| self.command.zeros(i)).collect();
        let zeroed = tags(device)?.zero_with_metadata(self.offset + self.done, &metadata, self.frees_room);
        zeroed.map_err(|error| write_fault(&error))?;
        self.done += len;
        Ok(self.done == self.len)
    }

    /// Bytes of metadata of `len` bytes of data.
    fn metadata_of(&self, len: u64) -> usize {
        let format = self.command.format();
        len as usize / format.data_bytes() * format.metadata_bytes()
    }

    /// Reads data and metadata as stored.
    fn stored(
        &self,
        device: &dyn BlockDevice,
        offset: u64,
        len: u64,
    ) -> Result<(AlignedBuffer, Vec<u8>), Fault> {
        let mut data = AlignedBuffer::new(len as usize);
        let mut metadata = vec![0; self.metadata_of(len)];
        let read = tags(device)?.read_with_metadata(offset, &mut data[..len as usize], &mut metadata);
        read.map_err(|error| read_fault(&error))?;
        Ok((data, metadata))
    }

    /// The fault for a block that failed its check. It would fail again, so do not retry.
    fn fault(&self, why: &Failure) -> Fault {
        Fault { status: Status(why.status()).dnr(), lba: Some(self.command.lba(why)) }
    }
}

/// The tags of a drive with a visible face, whose format its commands have.
fn tags(device: &dyn BlockDevice) -> Result<&dyn Tagged, Fault> {
    device.tagged().ok_or(Status::INTERNAL.into())
}
