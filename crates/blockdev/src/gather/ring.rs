//! Parts carried by io_uring.

#![expect(unsafe_code, reason = "the kernel is handed pointers to buffers")]

use super::{Flight, Gathered};
use crate::error::Operation;
use crate::ring::{drain, is_passing};
use crate::{BlockDevice, IoError};
use io_uring::{IoUring, opcode, types};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A part, or the rest of one, that is yet to be read.
#[derive(Debug, Clone, Copy)]
struct Piece {
    flight: usize,
    part: usize,
    /// Bytes of the part that are there already.
    done: usize,
}

/// A ring, and the gathers whose buffers the kernel may be writing.
pub(super) struct Ring {
    ring: IoUring,
    /// Gathers under way; a place is free when it is `None`.
    flights: Vec<Option<Flight>>,
    /// Pieces the kernel has, by the number in their entry; a place is free when it is `None`.
    with_kernel: Vec<Option<Piece>>,
    count: usize,
    waiting: VecDeque<Piece>,
    finished: VecDeque<Gathered>,
}

impl Ring {
    pub(super) fn new(depth: u32) -> io::Result<Self> {
        let depth = depth.clamp(1, 4096);
        let ring = IoUring::builder().build(depth)?;
        Ok(Self {
            ring,
            flights: Vec::new(),
            with_kernel: (0..depth).map(|_| None).collect(),
            count: 0,
            waiting: VecDeque::new(),
            finished: VecDeque::new(),
        })
    }

    /// Begins the parts `carried` of a gather.
    pub(super) fn submit(&mut self, flight: Flight, carried: &[usize], devices: &[Arc<dyn BlockDevice>]) {
        let place = self.flights.iter().position(Option::is_none).unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        self.flights[place] = Some(flight);
        self.waiting.extend(carried.iter().map(|part| Piece { flight: place, part: *part, done: 0 }));
        self.push(devices);
        self.enter(0, devices);
    }

    /// A finished gather.
    pub(super) fn next(&mut self, wait: bool, devices: &[Arc<dyn BlockDevice>]) -> Option<Gathered> {
        self.reap(devices);
        while self.finished.is_empty() && wait && (self.count > 0 || !self.waiting.is_empty()) {
            self.push(devices);
            self.enter(1, devices);
            self.reap(devices);
        }
        self.finished.pop_front()
    }

    /// Hands waiting pieces to the ring while it has room.
    fn push(&mut self, devices: &[Arc<dyn BlockDevice>]) {
        while let Some(piece) = self.waiting.front().copied() {
            let Some(number) = self.with_kernel.iter().position(Option::is_none) else { return };
            let flight = self.flights[piece.flight].as_ref().expect("a piece belongs to a flight");
            let part = flight.gather.parts[piece.part];
            let Some(direct) = devices[part.device].direct_fd() else {
                // It had one when the gather was submitted: its file was lost since.
                self.waiting.pop_front();
                let lost = io::Error::other("the device was lost before it was read");
                self.fail(piece, lost, devices);
                continue;
            };
            let fd = direct.fd;
            let len = u32::try_from(part.len - piece.done).unwrap_or(1 << 30);
            // SAFETY: `submit` of the gatherer checked that the part lies within the buffer, so the
            // sum stays in the allocation.
            let target = unsafe { flight.gather.buffer.start().add(part.at + piece.done) };
            let entry = opcode::Read::new(types::Fd(fd), target.as_ptr(), len)
                .offset(part.offset + piece.done as u64)
                .build()
                .user_data(number as u64);
            // SAFETY: the kernel writes `len` bytes at `target`, all within the part's own range of
            // the buffer (parts do not overlap). The buffer is in `self.flights`, is lent to nobody
            // there, and leaves it only in `settle`, when no piece of the flight is with the
            // kernel; if the ring goes first, `Drop` waits for every piece or leaks the buffers.
            // The descriptor is open: the gatherer holds the device.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                return;
            }
            self.with_kernel[number] = Some(piece);
            self.count += 1;
            self.waiting.pop_front();
        }
    }

    /// Enters the kernel: hands over what was pushed, and waits for `want` completions.
    fn enter(&mut self, want: usize, devices: &[Arc<dyn BlockDevice>]) {
        loop {
            match self.ring.submit_and_wait(want) {
                Ok(_) => return,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // Take what is there and come again.
                Err(error) if is_passing(&error) => {
                    self.reap(devices);
                    if want == 0 {
                        return;
                    }
                    std::thread::yield_now();
                }
                Err(error) => unreachable!("io_uring_enter with valid arguments: {error}"),
            }
        }
    }

    /// Takes completions.
    fn reap(&mut self, devices: &[Arc<dyn BlockDevice>]) {
        let completions: Vec<(u64, i32)> =
            self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (number, result) in completions {
            let piece =
                self.with_kernel[number as usize].take().expect("the kernel completes what it was given");
            self.count -= 1;
            self.complete(piece, result, devices);
        }
        if !self.waiting.is_empty() {
            self.push(devices);
        }
    }

    fn complete(&mut self, mut piece: Piece, result: i32, devices: &[Arc<dyn BlockDevice>]) {
        let flight = self.flights[piece.flight].as_mut().expect("a piece belongs to a flight");
        let part = flight.gather.parts[piece.part];
        let error = match result {
            negative if negative < 0 => io::Error::from_raw_os_error(-negative),
            0 => io::ErrorKind::UnexpectedEof.into(),
            read => {
                piece.done += read as usize;
                if piece.done < part.len {
                    // A short read: the rest in its turn.
                    self.waiting.push_back(piece);
                    return;
                }
                self.settle(piece.flight);
                return;
            }
        };
        if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) {
            self.waiting.push_back(piece);
            return;
        }
        self.fail(piece, error, devices);
    }

    /// A part has failed.
    fn fail(&mut self, piece: Piece, error: io::Error, devices: &[Arc<dyn BlockDevice>]) {
        let flight = self.flights[piece.flight].as_mut().expect("a piece belongs to a flight");
        let part = flight.gather.parts[piece.part];
        let error = IoError::new(devices[part.device].name(), Operation::Read, part.offset, part.len, error);
        flight.gather.failures.push((piece.part, error));
        self.settle(piece.flight);
    }

    /// One part less; the gather is finished when none is left.
    fn settle(&mut self, place: usize) {
        let flight = self.flights[place].as_mut().expect("it has a part that has just ended");
        flight.left -= 1;
        if flight.left == 0
            && let Some(flight) = self.flights[place].take()
        {
            self.finished.push_back(flight.gather);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.waiting.clear();
        if !drain(&mut self.ring, self.count, |_| {}) {
            self.flights.drain(..).for_each(std::mem::forget);
        }
    }
}
