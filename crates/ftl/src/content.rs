//! What a page holds, as far as deduplication must know.

use sha1::Digest;
use std::fmt::Debug;

/// The hash that finds candidates for a merge. It proves nothing: contents are compared before they
/// are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fingerprint {
    /// BLAKE3.
    #[default]
    Blake3,
    /// SHA-1.
    Sha1,
}

/// The content of a page.
pub trait Content: Clone + Eq + Debug {
    /// A CRC-32 or the like: equal contents have equal ones.
    fn weak(&self) -> u32;
    /// The first 64 bits of a fingerprint.
    fn key(&self, by: Fingerprint) -> u64;
    /// What stands for a content that was lost, in a page of `bytes` bytes.
    fn blank(bytes: u32) -> Self;
}

impl Content for Vec<u8> {
    fn weak(&self) -> u32 {
        crc32fast::hash(self)
    }

    fn key(&self, by: Fingerprint) -> u64 {
        let first = |digest: &[u8]| digest.iter().take(8).fold(0, |key, &b| key << 8 | u64::from(b));
        match by {
            Fingerprint::Blake3 => first(blake3::hash(self).as_bytes()),
            Fingerprint::Sha1 => first(&sha1::Sha1::digest(self)),
        }
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
