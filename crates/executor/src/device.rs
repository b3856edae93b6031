//! A volume as a block device.

use crate::buffers::Piece;
use crate::message::{Answer, Failed, Message};
use pumice_blockdev::{BlockDevice, Grains, IoError, Operation};
use pumice_buffer::{ALIGNMENT, AlignedBuffer, SharedBuffer};
use pumice_units::SECTOR;
use pumice_volume::Request;
use pumice_volume::rows::BLOCK;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes of one request to the volume, at most.
const PIECE: u64 = 4 << 20;

/// A volume. Calls wait for their answers; any number of threads may call.
pub struct VolumeDevice {
    name: String,
    bytes: u64,
    block: u32,
    stripe: u64,
    messages: Sender<Message>,
    /// Bytes that were copied between users' memory and the volume's.
    copied: Arc<AtomicU64>,
    /// Held alone while part of a sector is read, changed and written back, and shared by writes of
    /// whole sectors.
    part: RwLock<()>,
}

impl VolumeDevice {
    /// A volume of so many bytes, with blocks and stripes of so many.
    pub(crate) fn new(
        name: String,
        (bytes, block, stripe): (u64, u32, u64),
        messages: Sender<Message>,
        copied: Arc<AtomicU64>,
    ) -> Self {
        Self { name, bytes, block, stripe, messages, copied, part: RwLock::default() }
    }

    /// So many bytes are copied from a user, or to one.
    fn copies(&self, bytes: usize) {
        // Relaxed: a sum that nothing depends on.
        self.copied.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A write's bytes in memory that the volume may keep.
    fn copy_of(&self, data: &[u8]) -> SharedBuffer {
        self.copies(data.len());
        SharedBuffer::copy_of(data)
    }

    /// Puts the pieces of an answer together.
    fn assemble(&self, pieces: &[Piece], room: &mut [u8]) {
        self.copies(room.len());
        for Piece { at, bytes } in pieces {
            room[*at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn error(&self, operation: Operation, offset: u64, len: usize, source: io::Error) -> IoError {
        IoError::new(&self.name, operation, offset, len, source)
    }

    fn check(&self, operation: Operation, offset: u64, len: usize) -> Result<(), IoError> {
        if offset.checked_add(len as u64).is_some_and(|end| end <= self.bytes) {
            return Ok(());
        }
        let why = format!("the volume has {} bytes", self.bytes);
        Err(self.error(operation, offset, len, io::Error::new(io::ErrorKind::UnexpectedEof, why)))
    }

    fn ask(
        &self,
        operation: Operation,
        request: Request,
        data: Option<SharedBuffer>,
    ) -> Result<Vec<Piece>, IoError> {
        let (offset, len) = match request {
            Request::Read { offset, len } | Request::Write { offset, len, .. } => (offset, len as usize),
            Request::Flush => (0, 0),
        };
        let fail = |source| self.error(operation, offset, len, source);
        let gone = || fail(io::Error::new(io::ErrorKind::NotConnected, "the volume has stopped"));
        let (reply, answer) = sync_channel::<Answer>(1);
        self.messages.send(Message::Request { request, data, reply }).map_err(|_| gone())?;
        let answer = answer.recv().map_err(|_| gone())?;
        answer.map_err(|failed| match failed {
            Failed::Request(pumice_volume::RequestError::Lost) => {
                // What a drive says of a block that it cannot read.
                fail(io::Error::from_raw_os_error(LOST))
            }
            other => fail(io::Error::other(other)),
        })
    }

    /// Reads whole sectors.
    fn read_sectors(&self, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        for (i, room) in (0_u64..).zip(into.chunks_mut(PIECE as usize)) {
            let request = Request::Read { offset: offset + i * PIECE, len: room.len() as u64 };
            self.assemble(&self.ask(Operation::Read, request, None)?, room);
        }
        Ok(())
    }

    /// Writes whole sectors.
    fn write_sectors(&self, offset: u64, data: &SharedBuffer) -> Result<(), IoError> {
        for from in (0..data.len()).step_by(PIECE as usize) {
            let piece = data.part(from..data.len().min(from + PIECE as usize));
            let (offset, len) = (offset + from as u64, piece.len() as u64);
            let request = Request::Write { offset, len, fua: false };
            self.ask(Operation::Write, request, Some(piece))?;
        }
        Ok(())
    }
}

/// EIO.
const LOST: i32 = 5;

/// Whole sectors around a range.
const fn around(offset: u64, len: usize) -> (u64, u64) {
    (offset / SECTOR * SECTOR, (offset + len as u64).next_multiple_of(SECTOR))
}

impl BlockDevice for VolumeDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.bytes
    }

    fn logical_block(&self) -> u32 {
        self.block
    }

    fn read_only(&self) -> bool {
        false
    }

    fn grains(&self) -> Grains {
        let stripe = u32::try_from(self.stripe).ok().filter(|stripe| stripe.is_power_of_two());
        let block = BLOCK as u32;
        Grains { write: block, discard: stripe.unwrap_or(block) }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.check(Operation::Read, offset, buf.len())?;
        if buf.is_empty() {
            return Ok(());
        }
        let (start, end) = around(offset, buf.len());
        if (start, end - start) == (offset, buf.len() as u64) {
            return self.read_sectors(offset, buf);
        }
        let mut bytes = vec![0; (end - start) as usize];
        self.read_sectors(start, &mut bytes)?;
        let skip = (offset - start) as usize;
        buf.copy_from_slice(&bytes[skip..skip + buf.len()]);
        Ok(())
    }

    fn read_shared(&self, offset: u64, len: usize) -> Result<SharedBuffer, IoError> {
        self.check(Operation::Read, offset, len)?;
        let mut pieces = Vec::new();
        let whole = (offset | len as u64).is_multiple_of(SECTOR) && len as u64 <= PIECE;
        if whole {
            pieces = self.ask(Operation::Read, Request::Read { offset, len: len as u64 }, None)?;
            // One of many pieces would keep the memory of all.
            let most = len.next_multiple_of(ALIGNMENT);
            let alone = |piece: &mut Piece| piece.bytes.len() == len && piece.bytes.memory() <= most;
            if let Some(piece) = pieces.pop_if(alone) {
                return Ok(piece.bytes);
            }
        }
        let mut buffer = AlignedBuffer::new(len);
        if whole {
            self.assemble(&pieces, &mut buffer[..len]);
        } else {
            self.read_at(offset, &mut buffer[..len])?;
        }
        Ok(SharedBuffer::new(buffer, len))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.check(Operation::Write, offset, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        let (start, end) = around(offset, data.len());
        if (start, end - start) == (offset, data.len() as u64) {
            let copy = self.copy_of(data);
            let _whole = self.part.read().unwrap_or_else(PoisonError::into_inner);
            return self.write_sectors(offset, &copy);
        }
        let _part = self.part.write().unwrap_or_else(PoisonError::into_inner);
        let mut whole = AlignedBuffer::new((end - start) as usize);
        let len = (end - start) as usize;
        let last = len - SECTOR as usize;
        self.read_sectors(start, &mut whole[..SECTOR as usize])?;
        self.read_sectors(end - SECTOR, &mut whole[last..len])?;
        let skip = (offset - start) as usize;
        self.copies(data.len());
        whole[skip..skip + data.len()].copy_from_slice(data);
        self.write_sectors(start, &SharedBuffer::new(whole, len))
    }

    fn write_shared(&self, offset: u64, data: &SharedBuffer) -> Result<(), IoError> {
        self.check(Operation::Write, offset, data.len())?;
        let whole = (offset | data.len() as u64).is_multiple_of(SECTOR);
        if !whole || data.is_empty() {
            return self.write_at(offset, data);
        }
        let _whole = self.part.read().unwrap_or_else(PoisonError::into_inner);
        self.write_sectors(offset, data)
    }

    fn flush(&self) -> Result<(), IoError> {
        self.ask(Operation::Flush, Request::Flush, None).map(drop)
    }
}
