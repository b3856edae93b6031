//! Results of parity commands: small, however much data was folded.

use crate::{Activity, MAX_TAG_PLACES, TagReport};
use pumice_base::telemetry::Ledger;
use pumice_parity::fingerprint::PowerSums;

/// Bytes of every result before its payload: counts, first and last non-zero byte, what was moved,
/// counters of writes.
pub const RESULT_HEADER_BYTES: u64 = 96;
/// Bytes of one entry in the list of unreadable places.
pub const UNREADABLE_ENTRY_BYTES: u64 = 24;
/// Bytes of the report on tags before its list of places; absent without tags.
pub const TAGS_HEADER_BYTES: u64 = 40;

/// Most unreadable places of a result. If there are more, the result has the first ones, in order
/// of stripes, and the bits of all stripes from the last listed one on are set.
pub const MAX_UNREADABLE: usize = 1 << 14;

/// One bit a repetition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StripeBitmap {
    words: Vec<u64>,
    len: u64,
}

impl StripeBitmap {
    /// `len` zero bits.
    ///
    /// # Panics
    /// If `len` bits do not fit memory addresses.
    #[must_use]
    pub fn new(len: u64) -> Self {
        let words = usize::try_from(len.div_ceil(64)).expect("a batch fits memory");
        Self { words: vec![0; words], len }
    }

    /// Bits.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether it has no bits at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets bit `index`.
    ///
    /// # Panics
    /// If it has no such bit.
    pub fn set(&mut self, index: u64) {
        assert!(index < self.len, "bit {index} of {}", self.len);
        self.words[(index / 64) as usize] |= 1 << (index % 64);
    }

    /// The set bits, in order.
    pub fn ones(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().enumerate().flat_map(|(i, word)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| i as u64 * 64 + bit)
        })
    }

    /// `self |= other`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn union(&mut self, other: &Self) {
        assert_eq!(self.len, other.len, "bitmaps of one batch");
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a |= b;
        }
    }

    /// Bytes on the wire.
    #[must_use]
    pub fn encoded_len(&self) -> u64 {
        self.len.div_ceil(8)
    }

    /// Its bytes: bit 0 first.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        out.truncate(self.len.div_ceil(8) as usize);
        out
    }

    /// `len` bits from bytes; further bits are ignored.
    #[must_use]
    pub fn from_bytes(len: u64, bytes: &[u8]) -> Self {
        let mut map = Self::new(len);
        for bit in
            (0..len).filter(|bit| bytes.get((bit / 8) as usize).is_some_and(|b| b >> (bit % 8) & 1 != 0))
        {
            map.set(bit);
        }
        map
    }
}

/// The reason why the bytes of a place are missing from a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unread {
    /// The medium refused them when they were read separately.
    Refused,
    /// The medium was not asked: earlier failures used up the error time of its drive. The bytes
    /// may well be readable, and nothing may be concluded from their absence.
    NotAsked,
}

/// A place whose bytes are missing from a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Index into the command's sources.
    pub source: usize,
    /// The stripe.
    pub stripe: u64,
    /// First byte within the chunk.
    pub start: u32,
    /// Bytes; whole logical blocks where the drive tells them apart.
    pub len: u32,
    /// Refused by the medium, or not asked.
    pub why: Unread,
    /// The drive's error text.
    pub reason: String,
}

/// The result of a parity command.
#[derive(Debug, Clone, Default)]
pub struct ParityResult {
    /// Check and Generate: the repetitions with a row that is not zero. Empty for the other modes.
    pub nonzero: StripeBitmap,
    /// First and last non-zero byte over all rows and repetitions, relative to the window (for
    /// Accumulate: of the accumulators). `None` if all is zero. Not reported by Fingerprint.
    pub range: Option<(u32, u32)>,
    /// Fingerprint mode: the power sums.
    pub fingerprint: Option<PowerSums>,
    /// Places that could not be read, in order of stripes. If there is one, all sums over
    /// repetitions are meaningless, and so are the bits of its stripe.
    pub unreadable: Vec<Unreadable>,
    /// Writes of others to the regions that were read; `None` if the node does not see the writes
    /// to its drives.
    pub activity: Option<Activity>,
    /// The report on the tags of the blocks that were read; `None` if no drive of the command has
    /// tags.
    pub tags: Option<TagReport>,
    /// The bytes that the command moved inside the node.
    pub moved: Ledger,
}

impl ParityResult {
    /// Bytes on the wire.
    #[must_use]
    pub fn encoded_len(&self) -> u64 {
        RESULT_HEADER_BYTES
            + self.nonzero.encoded_len()
            + self.fingerprint.as_ref().map_or(0, |f| f.to_bytes().len() as u64)
            + self.unreadable.len().min(MAX_UNREADABLE) as u64 * UNREADABLE_ENTRY_BYTES
            + self.tags.as_ref().map_or(0, |tags| {
                TAGS_HEADER_BYTES + tags.places.len().min(MAX_TAG_PLACES) as u64 * UNREADABLE_ENTRY_BYTES
            })
    }
}

/// The result of a transfer.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransferResult {
    /// The bytes that the transfer moved between the nodes.
    pub moved: Ledger,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bitmap_gives_back_what_was_set() {
        let mut map = StripeBitmap::new(130);
        for i in [0, 63, 64, 129] {
            map.set(i);
        }
        assert_eq!(map.ones().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert_eq!(map.encoded_len(), 17);
        let mut other = StripeBitmap::new(130);
        other.set(5);
        map.union(&other);
        assert_eq!(map.ones().count(), 5);
    }
}
