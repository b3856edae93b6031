//! A drive in memory that may lose what was not made durable: each sector of it by itself.

use pumice_volume::token::Guard;
use std::collections::BTreeSet;

const SECTOR: usize = 512;

pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next(100) < percent
    }
}

#[derive(Clone, Default)]
pub(crate) struct Disk {
    /// The bytes that a read sees.
    pub(crate) now: Vec<u8>,
    /// The bytes that a crash leaves at least.
    durable: Vec<u8>,
    /// Written and not flushed.
    pending: Vec<(usize, Vec<u8>)>,
    /// It can be reached.
    pub(crate) up: bool,
    /// It is gone for good.
    pub(crate) lost: bool,
    pub(crate) guard: Guard,
    /// Blocks that the medium does not give until they are written, by their first byte.
    pub(crate) unreadable: BTreeSet<u64>,
    /// The same after a crash: what was written there may not have reached the medium.
    worn: BTreeSet<u64>,
}

impl Disk {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { now: vec![0; bytes], durable: vec![0; bytes], up: true, ..Self::default() }
    }

    pub(crate) fn read(&self, at: u64, len: usize) -> &[u8] {
        &self.now[at as usize..at as usize + len]
    }

    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        self.unreadable.retain(|bad| !(at..at + bytes.len() as u64).contains(bad));
        let at = at as usize;
        self.now[at..at + bytes.len()].copy_from_slice(bytes);
        self.pending.push((at, bytes.to_vec()));
    }

    /// The medium does not give this block any more.
    pub(crate) fn decay(&mut self, at: u64) {
        self.unreadable.insert(at);
        self.worn.insert(at);
    }

    /// Returns whether the medium does not give this block, or would not after a crash.
    pub(crate) fn is_worn(&self, at: u64) -> bool {
        self.unreadable.contains(&at) || self.worn.contains(&at)
    }

    /// Every block can be read again.
    pub(crate) fn heal(&mut self) {
        self.unreadable.clear();
        self.worn.clear();
    }

    /// Durable at once, with what was written to the same place before.
    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = at as usize;
        self.now[at..at + bytes.len()].copy_from_slice(bytes);
        self.durable[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn flush(&mut self) {
        self.worn.clone_from(&self.unreadable);
        for (at, bytes) in self.pending.drain(..) {
            self.durable[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// The power goes. Of what was not durable, each sector is kept or not; in any order.
    pub(crate) fn crash(&mut self, random: &mut Random) {
        let mut pending = std::mem::take(&mut self.pending);
        for i in (1..pending.len()).rev() {
            pending.swap(i, random.next(i as u64 + 1) as usize);
        }
        let keep = [0, 50, 100][random.next(3) as usize];
        for (at, bytes) in pending {
            let mut whole = true;
            for (i, sector) in bytes.chunks(SECTOR).enumerate() {
                let kept = random.chance(keep);
                whole &= kept;
                if kept {
                    self.durable[at + i * SECTOR..at + i * SECTOR + sector.len()].copy_from_slice(sector);
                }
            }
            if whole {
                self.worn.remove(&(at as u64));
            }
        }
        self.unreadable.clone_from(&self.worn);
        self.now.clone_from(&self.durable);
    }
}
