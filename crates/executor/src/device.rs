//! A volume as a block device.

use crate::message::{Answer, Failed, Message};
use pumice_blockdev::{BlockDevice, Grains, IoError, Operation};
use pumice_units::SECTOR;
use pumice_volume::Request;
use pumice_volume::rows::BLOCK;
use std::io;
use std::sync::mpsc::{Sender, sync_channel};
use std::sync::{PoisonError, RwLock};

/// Bytes of one request to the volume, at most.
const PIECE: u64 = 4 << 20;

/// A volume. Calls wait for their answers; any number of threads may call.
pub struct VolumeDevice {
    name: String,
    bytes: u64,
    block: u32,
    stripe: u64,
    messages: Sender<Message>,
    /// Held alone while part of a sector is read, changed and written back, and shared by writes of
    /// whole sectors.
    part: RwLock<()>,
}

impl VolumeDevice {
    pub(crate) fn new(name: String, bytes: u64, block: u32, stripe: u64, messages: Sender<Message>) -> Self {
        Self { name, bytes, block, stripe, messages, part: RwLock::default() }
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

    fn ask(&self, operation: Operation, request: Request, bytes: Vec<u8>) -> Result<Vec<u8>, IoError> {
        let (offset, len) = match request {
            Request::Read { offset, len } | Request::Write { offset, len, .. } => (offset, len as usize),
            Request::Flush => (0, 0),
        };
        let fail = |source| self.error(operation, offset, len, source);
        let gone = || fail(io::Error::new(io::ErrorKind::NotConnected, "the volume has stopped"));
        let (reply, answer) = sync_channel::<Answer>(1);
        self.messages.send(Message::Request { request, bytes, reply }).map_err(|_| gone())?;
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
    fn read_sectors(&self, offset: u64, len: u64) -> Result<Vec<u8>, IoError> {
        let mut out = Vec::with_capacity(len as usize);
        while (out.len() as u64) < len {
            let at = offset + out.len() as u64;
            let piece = (len - out.len() as u64).min(PIECE);
            let request = Request::Read { offset: at, len: piece };
            out.extend(self.ask(Operation::Read, request, vec![0; piece as usize])?);
        }
        Ok(out)
    }

    /// Writes whole sectors.
    fn write_sectors(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        for (i, piece) in (0_u64..).zip(data.chunks(PIECE as usize)) {
            let (offset, len) = (offset + i * PIECE, piece.len() as u64);
            self.ask(Operation::Write, Request::Write { offset, len, fua: false }, piece.to_vec())?;
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
        let bytes = self.read_sectors(start, end - start)?;
        let skip = (offset - start) as usize;
        buf.copy_from_slice(&bytes[skip..skip + buf.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.check(Operation::Write, offset, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        let (start, end) = around(offset, data.len());
        if (start, end - start) == (offset, data.len() as u64) {
            let _whole = self.part.read().unwrap_or_else(PoisonError::into_inner);
            return self.write_sectors(offset, data);
        }
        let _part = self.part.write().unwrap_or_else(PoisonError::into_inner);
        let mut whole = vec![0; (end - start) as usize];
        let last = whole.len() - SECTOR as usize;
        whole[..SECTOR as usize].copy_from_slice(&self.read_sectors(start, SECTOR)?);
        whole[last..].copy_from_slice(&self.read_sectors(end - SECTOR, SECTOR)?);
        let skip = (offset - start) as usize;
        whole[skip..skip + data.len()].copy_from_slice(data);
        self.write_sectors(start, &whole)
    }

    fn flush(&self) -> Result<(), IoError> {
        self.ask(Operation::Flush, Request::Flush, Vec::new()).map(drop)
    }
}
