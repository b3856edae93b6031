//! Finds the part of a failed read that the medium really refuses.
//!
//! A read of many sectors fails as a whole if one of them fails. It is repeated in small pieces:
//! pieces that can be read are used, pieces that fail are *refused*. A drive may spend seconds on
//! retries for each refusal, so the time of a source's refusals is summed over a command; beyond a
//! limit the rest of a failed read is *not asked for*. The two must never be confused: a repair
//! rewrites refused bytes, and must not touch bytes that were not asked for.

use super::Permit;
use pumice_blockdev::{BlockDevice, IoError, Judgement, read_judged};
use pumice_offload::Unread;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The piece in which a failed read is repeated: the physical sector of current drives.
const PIECE: u64 = 4096;

/// The time that refused reads of one source may take in one command.
#[derive(Debug)]
pub(crate) struct ErrorTime {
    limit: Duration,
    spent_ns: AtomicU64,
}

impl ErrorTime {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, spent_ns: AtomicU64::new(0) }
    }

    /// Returns whether the medium should not be asked again for bytes of a read that failed.
    fn is_spent(&self) -> bool {
        // Relaxed: a sum of times, which orders nothing else.
        u128::from(self.spent_ns.load(Ordering::Relaxed)) >= self.limit.as_nanos()
    }

    fn spend(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.spent_ns.fetch_add(ns.max(1), Ordering::Relaxed);
    }
}

/// A range that is missing, relative to the buffer of the read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) why: Unread,
    pub(crate) reason: String,
}

/// The repeated read of one failed part.
pub(crate) struct Probe<'d> {
    device: &'d dyn BlockDevice,
    time: &'d ErrorTime,
    permit: &'d dyn Permit,
    holes: Vec<Hole>,
    bytes: u64,
    /// Results of the check of tags of the pieces that were read, with their places in the buffer.
    judged: Vec<(usize, Judgement)>,
}

impl<'d> Probe<'d> {
    pub(crate) fn new(device: &'d dyn BlockDevice, time: &'d ErrorTime, permit: &'d dyn Permit) -> Self {
        Self { device, time, permit, holes: Vec::new(), bytes: 0, judged: Vec::new() }
    }

    /// Reads `buf` at `offset` piece by piece, at the pieces' natural borders on the device.
    ///
    /// # Errors
    /// If the drive fails as a whole, which says nothing of single bytes.
    pub(crate) fn read(&mut self, offset: u64, buf: &mut [u8], first_reason: &str) -> Result<(), IoError> {
        let piece = PIECE.max(u64::from(self.device.logical_block()));
        let mut at = 0;
        while at < buf.len() {
            let place = offset + at as u64;
            // Nobody waits for it any more: what was not asked for is nobody's finding.
            if self.time.is_spent() || !self.permit.is_wanted() {
                self.hole(at, buf.len() - at, Unread::NotAsked, first_reason.to_owned());
                return Ok(());
            }
            let to_border = (piece - place % piece) as usize;
            let len = to_border.min(buf.len() - at);
            let began = Instant::now();
            match read_judged(self.device, place, &mut buf[at..at + len]) {
                Ok(judgement) => {
                    self.bytes += len as u64;
                    self.judged.extend(judgement.map(|judgement| (at, judgement)));
                }
                Err(error) if error.is_media_error() => {
                    self.time.spend(began.elapsed());
                    self.hole(at, len, Unread::Refused, error.to_string());
                }
                Err(error) => return Err(error),
            }
            at += len;
        }
        Ok(())
    }

    fn hole(&mut self, at: usize, len: usize, why: Unread, reason: String) {
        match self.holes.last_mut() {
            Some(last) if last.at + last.len == at && last.why == why => last.len += len,
            _ => self.holes.push(Hole { at, len, why, reason }),
        }
    }

    /// Results of the check of tags of the pieces that were read, with their places in the buffer.
    pub(crate) fn judged(&self) -> &[(usize, Judgement)] {
        &self.judged
    }

    pub(crate) fn holes(&self) -> &[Hole] {
        &self.holes
    }

    /// Bytes that the medium gave in the end.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes
    }
}
