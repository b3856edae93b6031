//! Filters of unique contents by their weak hashes.

use super::scheme::FilterKind;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Spreads keys that are hashes already.
#[derive(Debug, Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn write_u32(&mut self, n: u32) {
        self.0 = u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

pub(super) type Spreading = BuildHasherDefault<Spread>;

/// A guess if a content is a duplicate: no false "unique", some false "maybe".
#[derive(Debug)]
pub(super) enum Filter {
    /// Everything may be.
    Absent,
    /// Contents with the weak hash of any content that was ever written.
    Ever(HashSet<u32, Spreading>),
    /// Contents with the weak hash of a content that is live, by the number of pages that hold it.
    Live(HashMap<u32, u32, Spreading>),
}

impl Filter {
    pub(super) fn new(kind: FilterKind) -> Self {
        match kind {
            FilterKind::Absent => Self::Absent,
            FilterKind::Ever => Self::Ever(HashSet::default()),
            FilterKind::Live => Self::Live(HashMap::default()),
        }
    }

    pub(super) fn seen(&self, weak: u32) -> bool {
        match self {
            Self::Absent => false,
            Self::Ever(seen) => seen.contains(&weak),
            Self::Live(live) => live.contains_key(&weak),
        }
    }

    pub(super) fn born(&mut self, weak: u32) {
        match self {
            Self::Absent => {}
            Self::Ever(seen) => {
                seen.insert(weak);
            }
            Self::Live(live) => *live.entry(weak).or_default() += 1,
        }
    }

    /// A page died; whether it was the last of its content, as far as the filter knows.
    pub(super) fn died(&mut self, weak: u32) -> bool {
        let Self::Live(live) = self else { return false };
        match live.get_mut(&weak) {
            Some(pages) if *pages > 1 => {
                *pages -= 1;
                false
            }
            Some(_) => {
                live.remove(&weak);
                true
            }
            // After a recovery the filter does not know what was there before.
            None => false,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Absent => 0,
            Self::Ever(seen) => 4 * seen.len() as u64,
            Self::Live(live) => 8 * live.len() as u64,
        }
    }
}
