//! Answers to requests that were submitted.

use crate::buffers::Piece;
use crate::reply::{Failed, Wake};
use pumice_base::buffer::{ALIGNMENT, AlignedBuffer, SharedBuffer};
use pumice_blockdev::{IoError, LostWrites, Operation};
use pumice_volume::Request;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A request that was submitted has ended.
#[derive(Debug)]
pub struct Ended {
    /// The number under which it was submitted.
    pub number: u64,
    /// The result; a read with its bytes.
    pub result: Result<Option<ReadBytes>, IoError>,
}

/// The place where the ends of requests come that were submitted without waiting; a clone is the
/// same place. The volume's thread wakes who waits once for all that have ended meanwhile, so that
/// one thread can keep many requests in flight.
#[derive(Debug, Clone, Default)]
pub struct Answers(Arc<Place>);

#[derive(Debug, Default)]
struct Place {
    list: Mutex<List>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct List {
    ended: Vec<Ended>,
    /// Somebody waits and was not woken yet.
    waits: bool,
}

impl Answers {
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one. Returns what wakes who waits, if somebody does.
    pub(crate) fn put(self, ended: Ended) -> Option<Wake> {
        let mut list = self.list();
        list.ended.push(ended);
        let waits = std::mem::take(&mut list.waits);
        drop(list);
        waits.then(|| Wake::new(move || self.0.came.notify_one()))
    }

    /// Waits until some have come, and takes all in the order of their ends. `into` is emptied
    /// before. One thread at a time waits.
    pub fn wait(&self, into: &mut Vec<Ended>) {
        into.clear();
        let mut list = self.list();
        while list.ended.is_empty() {
            list.waits = true;
            list = self.0.came.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
        list.waits = false;
        std::mem::swap(into, &mut list.ended);
    }
}

/// The bytes of a read that was submitted.
#[derive(Debug)]
pub struct ReadBytes {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) len: usize,
    pub(crate) copied: Arc<AtomicU64>,
}

impl ReadBytes {
    /// They, in one buffer. Copies them, unless they are in one already.
    #[must_use]
    pub fn into_shared(mut self) -> SharedBuffer {
        if let Some(bytes) = alone(&mut self.pieces, self.len) {
            return bytes;
        }
        let mut buffer = AlignedBuffer::new(self.len);
        assemble(&self.copied, &self.pieces, &mut buffer[..self.len]);
        SharedBuffer::new(buffer, self.len)
    }
}

/// The only piece of an answer, if it keeps no memory but its own: one of many pieces would keep
/// that of all.
pub(crate) fn alone(pieces: &mut Vec<Piece>, len: usize) -> Option<SharedBuffer> {
    let most = len.next_multiple_of(ALIGNMENT);
    let alone = |piece: &mut Piece| piece.bytes.len() == len && piece.bytes.memory() <= most;
    pieces.pop_if(alone).map(|piece| piece.bytes)
}

/// Puts the pieces of an answer together.
pub(crate) fn assemble(copied: &AtomicU64, pieces: &[Piece], room: &mut [u8]) {
    // Relaxed: a sum that nothing depends on.
    copied.fetch_add(room.len() as u64, Ordering::Relaxed);
    for Piece { at, bytes } in pieces {
        room[*at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// EIO.
const LOST: i32 = 5;

/// The error that a request's user is told.
pub(crate) fn error_of(name: &str, operation: Operation, request: Request, failed: Failed) -> IoError {
    let (offset, len) = match request {
        Request::Read { offset, len } | Request::Write { offset, len, .. } => (offset, len as usize),
        Request::Flush => (0, 0),
    };
    let source = match failed {
        Failed::Gone => io::Error::new(io::ErrorKind::NotConnected, failed),
        Failed::Unsure => io::Error::other(LostWrites),
        // What a drive says of a block that it cannot read.
        Failed::Request(pumice_volume::RequestError::Lost) => io::Error::from_raw_os_error(LOST),
        other => io::Error::other(other),
    };
    IoError::new(name, operation, offset, len, source)
}
