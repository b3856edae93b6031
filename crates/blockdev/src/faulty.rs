//! A device that fails as real devices do, from a seed.
//!
//! # The fault model
//! * **Volatile cache.** Every read sees a write at once, but the write is durable only after a
//!   subsequent flush. At a power loss ([`FaultyDevice::crash`]), each write since the last flush
//!   is, independently of the others, kept, dropped, or *torn*: each of its 512-byte sectors is
//!   kept or dropped separately. A sector is never torn, and neither is a larger [atomic
//!   unit](FaultyDevice::set_atomic_unit).
//! * **Power cut.** After a set number of operations every call fails. The write at which the power
//!   is cut has reached the cache: it can become durable, although its caller got an error.
//! * **Unreadable sectors.** Reads that touch one fail with EIO until it is written, or, if
//!   transient, until enough reads have failed.
//! * **Write errors.** Writes that touch a set range fail with EIO and change nothing.

use crate::error::Operation;
use crate::memory::range;
use crate::{BlockDevice, IoError};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that a drive writes all or nothing.
const SECTOR: usize = 512;

/// Requests to a device so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
}

struct State {
    durable: Vec<u8>,
    live: Vec<u8>,
    /// Writes since the last flush, in order.
    pending: Vec<(usize, Vec<u8>)>,
    unreadable: BTreeSet<usize>,
    /// Sectors that fail for so many more reads.
    transient: BTreeMap<usize, u32>,
    unwritable: Vec<Range<u64>>,
    /// Bytes that a power cut leaves old or new.
    unit: usize,
    /// Operations until the power goes; `None` for never.
    budget: Option<u64>,
    counts: Counts,
    random: u64,
}

/// A device in memory with faults.
pub struct FaultyDevice {
    name: String,
    state: Mutex<State>,
}

impl FaultyDevice {
    /// A device that holds `content`, with no faults yet. The seed decides what a crash does.
    #[must_use]
    pub fn new(name: &str, content: Vec<u8>, seed: u64) -> Self {
        let state = State {
            durable: content.clone(),
            live: content,
            pending: Vec::new(),
            unreadable: BTreeSet::new(),
            transient: BTreeMap::new(),
            unwritable: Vec::new(),
            unit: SECTOR,
            budget: None,
            counts: Counts::default(),
            random: seed,
        };
        Self { name: name.to_owned(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a crash leaves so many bytes old or new, at a multiple of their number: 512 to
    /// begin with.
    ///
    /// # Panics
    /// If that is not a number of sectors.
    pub fn set_atomic_unit(&self, bytes: u32) {
        assert!(bytes > 0 && (bytes as usize).is_multiple_of(SECTOR), "a unit of {bytes} bytes");
        self.state().unit = bytes as usize;
    }

    /// The power goes after `operations` more operations.
    pub fn cut_power_after(&self, operations: u64) {
        self.state().budget = Some(operations);
    }

    /// The power goes now, and comes back: what was not flushed is kept, dropped or torn.
    pub fn crash(&self) {
        let mut state = self.state();
        let pending = std::mem::take(&mut state.pending);
        for (offset, data) in pending {
            match state.next_random() % 4 {
                0 => {}
                1 => state.durable[offset..offset + data.len()].copy_from_slice(&data),
                _ => state.tear(offset, &data),
            }
        }
        state.live = state.durable.clone();
        state.budget = None;
    }

    /// Makes a range unreadable, in whole sectors, until it is written.
    pub fn lose(&self, bytes: Range<u64>) {
        let (first, last) = (bytes.start as usize / SECTOR, (bytes.end as usize).div_ceil(SECTOR));
        self.state().unreadable.extend(first..last);
    }

    /// Makes a range unreadable, in whole sectors, until it is written or `reads` reads of it have
    /// failed.
    pub fn lose_for(&self, bytes: Range<u64>, reads: u32) {
        let (first, last) = (bytes.start as usize / SECTOR, (bytes.end as usize).div_ceil(SECTOR));
        self.state().transient.extend((first..last).map(|sector| (sector, reads)));
    }

    /// The sectors that are unreadable for good.
    #[must_use]
    pub fn lost_sectors(&self) -> BTreeSet<usize> {
        self.state().unreadable.clone()
    }

    /// Makes writes to a range fail.
    pub fn refuse_writes(&self, bytes: Range<u64>) {
        self.state().unwritable.push(bytes);
    }

    /// The content now, as reads see it.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        self.state().live.clone()
    }

    /// Some of what it holds now, readable or not, without asking it.
    ///
    /// # Panics
    /// If the range is not within the device.
    #[must_use]
    pub fn peek(&self, offset: u64, len: usize) -> Vec<u8> {
        self.state().live[offset as usize..offset as usize + len].to_vec()
    }

    /// The requests so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state().counts
    }
}

impl State {
    /// SplitMix64 (Steele, Lea, Flood, 2014).
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Keeps each unit of a write, or not.
    fn tear(&mut self, offset: usize, data: &[u8]) {
        let mut at = 0;
        while at < data.len() {
            let len = (self.unit - (offset + at) % self.unit).min(data.len() - at);
            if self.next_random().is_multiple_of(2) {
                self.durable[offset + at..offset + at + len].copy_from_slice(&data[at..at + len]);
            }
            at += len;
        }
    }

    /// Takes one operation off the budget; the error of a dead device once it is spent.
    fn spend(&mut self) -> io::Result<()> {
        match &mut self.budget {
            Some(0) => Err(io::Error::from_raw_os_error(libc::ENODEV)),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl BlockDevice for FaultyDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.state().live.len() as u64
    }

    fn logical_block(&self) -> u32 {
        SECTOR as u32
    }

    fn atomic_unit(&self) -> u32 {
        self.state().unit as u32
    }

    fn read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        let mut state = self.state();
        let fail = |error| IoError::new(&self.name, Operation::Read, offset, buf.len(), error);
        state.spend().map_err(fail)?;
        state.counts.reads += 1;
        let range = range(&self.name, Operation::Read, offset, buf.len(), state.live.len())?;
        let sectors = range.start / SECTOR..range.end.div_ceil(SECTOR);
        let mut refused = state.unreadable.range(sectors.clone()).next().is_some();
        for (_, left) in state.transient.range_mut(sectors).filter(|(_, left)| **left > 0) {
            *left -= 1;
            refused = true;
        }
        if refused {
            return Err(fail(io::Error::from_raw_os_error(libc::EIO)));
        }
        buf.copy_from_slice(&state.live[range]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        let mut state = self.state();
        let fail = |error| IoError::new(&self.name, Operation::Write, offset, data.len(), error);
        let range = range(&self.name, Operation::Write, offset, data.len(), state.live.len())?;
        let cut = state.budget == Some(0);
        let dead = state.spend();
        if cut && state.next_random().is_multiple_of(2) {
            // On its way when the power went.
            state.pending.push((range.start, data.to_vec()));
        }
        dead.map_err(fail)?;
        state.counts.writes += 1;
        let touched = |bad: &Range<u64>| bad.start < range.end as u64 && (range.start as u64) < bad.end;
        if state.unwritable.iter().any(touched) {
            return Err(fail(io::Error::from_raw_os_error(libc::EIO)));
        }
        // Only a sector that is written whole becomes readable.
        for sector in range.start.div_ceil(SECTOR)..range.end / SECTOR {
            state.unreadable.remove(&sector);
            state.transient.remove(&sector);
        }
        state.live[range.clone()].copy_from_slice(data);
        state.pending.push((range.start, data.to_vec()));
        Ok(())
    }

    fn flush(&self) -> Result<(), IoError> {
        let mut state = self.state();
        state.spend().map_err(|error| IoError::new(&self.name, Operation::Flush, 0, 0, error))?;
        state.counts.flushes += 1;
        for (offset, data) in std::mem::take(&mut state.pending) {
            state.durable[offset..offset + data.len()].copy_from_slice(&data);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_flushed_stays_and_what_was_not_is_kept_dropped_or_torn() {
        let mut seen = BTreeSet::new();
        for seed in 0..64 {
            let device = FaultyDevice::new("d", vec![0; 8192], seed);
            device.write_at(0, &[1; 1024]).unwrap();
            device.flush().unwrap();
            device.write_at(4096, &[2; 1024]).unwrap();
            device.crash();
            let content = device.content();
            assert_eq!(content[..1024], [1; 1024]);
            let sectors: Vec<u8> = [4096, 4608].iter().map(|at| content[*at]).collect();
            assert!(content[4096..4608].iter().all(|b| *b == sectors[0]), "a sector is never torn");
            seen.insert(sectors);
        }
        assert_eq!(seen.len(), 4, "kept, dropped and torn both ways: {seen:?}");
    }

    #[test]
    fn a_larger_atomic_unit_is_never_torn() {
        let mut seen = BTreeSet::new();
        for seed in 0..64 {
            let device = FaultyDevice::new("d", vec![0; 16384], seed);
            device.set_atomic_unit(4096);
            device.write_at(4096, &[1; 8192]).unwrap();
            device.crash();
            let content = device.content();
            assert!(content[4096..12288].chunks(4096).all(|unit| unit.iter().all(|b| *b == unit[0])));
            seen.insert([content[4096], content[8192]]);
        }
        assert_eq!(seen.len(), 4, "kept, dropped, and each unit alone: {seen:?}");
    }

    #[test]
    fn after_the_cut_everything_fails_until_the_power_is_back() {
        let device = FaultyDevice::new("d", vec![0; 4096], 1);
        device.cut_power_after(1);
        device.write_at(0, &[1; 512]).unwrap();
        assert!(!device.flush().unwrap_err().is_media_error());
        assert!(device.read_at(0, &mut [0; 512]).is_err());
        device.crash();
        device.read_at(0, &mut [0; 512]).unwrap();
    }

    #[test]
    fn lost_sectors_come_back_when_they_are_written() {
        let device = FaultyDevice::new("d", vec![0; 4096], 1);
        device.lose(600..601);
        let mut buf = [0; 512];
        device.read_at(0, &mut buf).unwrap();
        assert!(device.read_at(512, &mut buf).unwrap_err().is_media_error());
        device.write_at(512, &[3; 512]).unwrap();
        device.read_at(512, &mut buf).unwrap();
        assert_eq!(buf, [3; 512]);
        device.refuse_writes(0..512);
        assert!(device.write_at(100, &[0]).unwrap_err().is_media_error());
    }
}
