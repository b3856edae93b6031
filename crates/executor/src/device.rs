//! A volume as a block device.

use crate::answers::{Answers, Ended, ReadBytes, alone, assemble, error_of};
use crate::buffers::Piece;
use crate::losses::SharedLosses;
use crate::message::Message;
use crate::reply::{Answer, Failed, Reply};
use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use pumice_base::units::SECTOR;
use pumice_blockdev::{Asker, BlockDevice, Grains, IoError, Lossy, LostWrites, Operation};
use pumice_volume::Request;
use pumice_volume::losses::Untold;
use pumice_volume::rows::BLOCK;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

/// Bytes of one request to the volume, at most.
const PIECE: u64 = 4 << 20;

/// A volume. Calls of [`BlockDevice`] wait for their answers; what is submitted does not. Any
/// number of threads may call.
pub struct VolumeDevice {
    name: Arc<str>,
    bytes: u64,
    block: u32,
    stripe: u64,
    messages: Sender<Message>,
    /// Bytes that were copied between users' memory and the volume's.
    copied: Arc<AtomicU64>,
    losses: Arc<SharedLosses>,
    /// Held alone while part of a sector is read, changed and written back, and shared by writes of
    /// whole sectors.
    part: RwLock<()>,
    /// Writes of whole sectors that were submitted.
    submitted: Arc<Submitted>,
}

/// The number of submitted writes that have no answer yet.
#[derive(Default)]
struct Submitted {
    count: Mutex<usize>,
    none: Condvar,
}

impl Submitted {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) {
        let mut count = self.count();
        *count -= 1;
        if *count == 0 {
            self.none.notify_all();
        }
    }

    fn wait(&self) {
        let mut count = self.count();
        while *count > 0 {
            count = self.none.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl VolumeDevice {
    /// A volume of so many bytes, with blocks and stripes of so many.
    pub(crate) fn new(
        name: String,
        (bytes, block, stripe): (u64, u32, u64),
        messages: Sender<Message>,
        (copied, losses): (Arc<AtomicU64>, Arc<SharedLosses>),
    ) -> Self {
        let (part, submitted) = (RwLock::default(), Arc::default());
        Self { name: name.into(), bytes, block, stripe, messages, copied, losses, part, submitted }
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
        let (reply, answer) = Reply::waited_for();
        self.send(request, data, reply);
        answer.wait().map_err(|failed| error_of(&self.name, operation, request, failed))
    }

    /// Sends a request; one that nobody takes is answered as it is dropped.
    fn send(&self, request: Request, data: Option<SharedBuffer>, reply: Reply) {
        drop(self.messages.send(Message::Request { request, data, reply }));
    }

    /// Returns whether a range can be submitted.
    fn check_whole(&self, operation: Operation, offset: u64, len: usize) -> Result<(), IoError> {
        self.check(operation, offset, len)?;
        if (1..=PIECE).contains(&(len as u64)) && (offset | len as u64).is_multiple_of(SECTOR) {
            return Ok(());
        }
        let why = format!("not 1 to {PIECE} bytes in whole sectors of {SECTOR}");
        Err(self.error(operation, offset, len, io::Error::new(io::ErrorKind::InvalidInput, why)))
    }

    /// The outcome of a request that was submitted, from its answer.
    fn queued(
        &self,
        operation: Operation,
        request: Request,
        answers: &Answers,
        number: u64,
        submitted: Option<Arc<Submitted>>,
    ) -> Reply {
        let (name, copied) = (Arc::clone(&self.name), Arc::clone(&self.copied));
        let answers = answers.clone();
        Reply::queued(move |answer: Answer| {
            if let Some(submitted) = submitted {
                submitted.ended();
            }
            let result = match (request, answer) {
                (Request::Read { len, .. }, Ok(pieces)) => {
                    Ok(Some(ReadBytes { pieces, len: len as usize, copied }))
                }
                (_, Ok(_)) => Ok(None),
                (_, Err(failed)) => Err(error_of(&name, operation, request, failed)),
            };
            answers.put(Ended { number, result })
        })
    }

    /// Reads `len` bytes at `offset`, at most 4 MiB in whole sectors of 512, without waiting. Its
    /// end comes to `answers` under `number`, with the bytes or an error as that of
    /// [`read_at`](BlockDevice::read_at).
    ///
    /// # Errors
    /// For any other range. Nothing comes to `answers` then.
    pub fn submit_read(
        &self,
        offset: u64,
        len: usize,
        answers: &Answers,
        number: u64,
    ) -> Result<(), IoError> {
        self.check_whole(Operation::Read, offset, len)?;
        let request = Request::Read { offset, len: len as u64 };
        self.send(request, None, self.queued(Operation::Read, request, answers, number, None));
        Ok(())
    }

    /// Writes at `offset`, at most 4 MiB in whole sectors of 512, without waiting for the end: it
    /// comes to `answers` as [`submit_read`](Self::submit_read) says. Waits only for writes of
    /// parts of sectors that are under way.
    ///
    /// # Errors
    /// As [`submit_read`](Self::submit_read).
    pub fn submit_write(
        &self,
        offset: u64,
        data: SharedBuffer,
        answers: &Answers,
        number: u64,
    ) -> Result<(), IoError> {
        self.check_whole(Operation::Write, offset, data.len())?;
        let request = Request::Write { offset, len: data.len() as u64, fua: false };
        let whole = self.part.read().unwrap_or_else(PoisonError::into_inner);
        *self.submitted.count() += 1;
        drop(whole);
        let submitted = Some(Arc::clone(&self.submitted));
        self.send(request, Some(data), self.queued(Operation::Write, request, answers, number, submitted));
        Ok(())
    }

    /// [`flush`](BlockDevice::flush) without waiting: its end comes to `answers`. Covers what was
    /// answered before.
    pub fn submit_flush(&self, answers: &Answers, number: u64) {
        let reply = self.queued(Operation::Flush, Request::Flush, answers, number, None);
        let (own, losses) = (Asker::own(), Arc::clone(&self.losses));
        let began = losses.flush_begins(&own);
        let Ok(began) = began else { return reply.send(Err(Failed::Unsure)) };
        let told = Reply::queued(move |answer: Answer| {
            let ended = losses.flush_ends(&own, began);
            reply.give(if ended.is_ok() { answer } else { Err(Failed::Unsure) })
        });
        self.send(Request::Flush, None, told);
    }

    fn unsure(&self, operation: Operation, offset: u64, len: usize) -> IoError {
        self.error(operation, offset, len, io::Error::other(LostWrites))
    }

    /// Reads whole sectors.
    fn read_sectors(&self, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        for (i, room) in (0_u64..).zip(into.chunks_mut(PIECE as usize)) {
            let request = Request::Read { offset: offset + i * PIECE, len: room.len() as u64 };
            assemble(&self.copied, &self.ask(Operation::Read, request, None)?, room);
        }
        Ok(())
    }

    /// Writes whole sectors.
    fn write_sectors(&self, offset: u64, data: &SharedBuffer) -> Result<(), IoError> {
        let before = self.losses();
        for from in (0..data.len()).step_by(PIECE as usize) {
            let piece = data.part(from..data.len().min(from + PIECE as usize));
            let (offset, len) = (offset + from as u64, piece.len() as u64);
            let request = Request::Write { offset, len, fua: false };
            self.ask(Operation::Write, request, Some(piece))?;
        }
        if data.len() as u64 > PIECE && self.losses() != before {
            // The first pieces were answered, and nobody does them again.
            return Err(self.unsure(Operation::Write, offset, data.len()));
        }
        Ok(())
    }
}

impl Lossy for VolumeDevice {
    fn losses(&self) -> u64 {
        self.losses.count()
    }

    fn writes(&self, asker: &Asker) {
        self.losses.writes(asker);
    }

    fn flush_of(&self, asker: &Asker) -> Result<(), IoError> {
        let untold = |_: Untold| self.unsure(Operation::Flush, 0, 0);
        let began = self.losses.flush_begins(asker).map_err(untold)?;
        let flushed = self.ask(Operation::Flush, Request::Flush, None);
        self.losses.flush_ends(asker, began).map_err(untold)?;
        flushed.map(drop)
    }

    fn settle(&self) -> Result<(), IoError> {
        let (reply, answer) = Reply::waited_for();
        drop(self.messages.send(Message::Settle(reply)));
        let failed = |failed| error_of(&self.name, Operation::Flush, Request::Flush, failed);
        answer.wait().map(drop).map_err(failed)
    }
}

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
            if let Some(bytes) = alone(&mut pieces, len) {
                return Ok(bytes);
            }
        }
        let mut buffer = AlignedBuffer::new(len);
        if whole {
            assemble(&self.copied, &pieces, &mut buffer[..len]);
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
        // No more are submitted meanwhile.
        self.submitted.wait();
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

    fn lossy(&self) -> Option<&dyn Lossy> {
        Some(self)
    }

    fn flush(&self) -> Result<(), IoError> {
        self.flush_of(&Asker::own())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// A write of two pieces; writes are lost after the first, if `loses`.
    fn write_in_pieces(loses: bool) -> Result<(), IoError> {
        let (messages, inbox) = channel();
        let losses = Arc::new(SharedLosses::default());
        let shared = (Arc::default(), Arc::clone(&losses));
        let device = VolumeDevice::new("volume".into(), (64 << 20, 4096, 65_536), messages, shared);
        let volume = std::thread::spawn(move || {
            for message in inbox.iter().take(2) {
                if let Message::Request { request: Request::Write { offset, .. }, reply, .. } = message {
                    if loses && offset > 0 {
                        losses.lose();
                    }
                    reply.send(Ok(Vec::new()));
                }
            }
        });
        let written = device.write_at(0, &vec![7; 2 * PIECE as usize]);
        volume.join().unwrap();
        written
    }

    #[test]
    fn a_write_in_pieces_fails_if_writes_are_lost_between_them() {
        write_in_pieces(false).unwrap();
        assert!(write_in_pieces(true).unwrap_err().is_lost_writes());
    }
}
