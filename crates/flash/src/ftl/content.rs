//! The contents of a page, as far as deduplication must know.

use crate::ftl::fingerprint::Fingerprint;
use crate::ftl::sums::Sums;
use std::fmt::Debug;

/// The content of a page.
pub trait Content: Clone + Eq + Debug {
    /// A CRC-32 or the like: equal contents have equal ones.
    fn weak(&self) -> u32;
    /// The first 64 bits of a fingerprint.
    fn key(&self, by: Fingerprint) -> u64;
    /// A stand-in for a content that was lost, in a page of `bytes` bytes.
    fn blank(bytes: u32) -> Self;
}

/// The bytes of a page, perhaps with what is known of them already: sums and hashes that a caller
/// took before it asked for the lock of its drive.
pub trait Bytes: Content + From<Vec<u8>> + AsRef<[u8]> {
    /// Their sum, by the sums of the drive that they belong to.
    fn sum(&self, sums: &Sums) -> u32 {
        sums.of(self.as_ref())
    }

    /// Their sum, by the sums of their drive, is this one: it need not be computed again.
    fn know_sum(&mut self, _sum: u32) {}
}

impl Bytes for Vec<u8> {}

/// The weak hash of some bytes.
#[must_use]
pub fn weak_hash(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

impl Content for Vec<u8> {
    fn weak(&self) -> u32 {
        weak_hash(self)
    }

    fn key(&self, by: Fingerprint) -> u64 {
        by.key(self)
    }

    fn blank(bytes: u32) -> Self {
        vec![0; bytes as usize]
    }
}

/// A content without its bytes, for simulations: equal numbers are equal contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentId {
    /// Names the content; the first 64 bits of a strong hash, for one.
    pub strong: u64,
    /// Its weak hash.
    pub weak: u32,
}

impl Content for ContentId {
    fn weak(&self) -> u32 {
        self.weak
    }

    fn key(&self, _by: Fingerprint) -> u64 {
        self.strong
    }

    fn blank(_bytes: u32) -> Self {
        Self { strong: 0, weak: 0 }
    }
}
