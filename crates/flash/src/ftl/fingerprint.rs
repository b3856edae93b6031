//! Fingerprints: hashes that find candidates for a merge.

use blake3::IncrementCounter;
use blake3::platform::Platform;
use sha1::Digest;

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

/// Pages that are hashed side by side, at most: as many as the widest vectors of today have lanes.
const LANES: usize = 16;
/// A page whose keys can be taken side by side: four chunks of BLAKE3.
const PAGE: usize = CHUNKS * CHUNK;
const CHUNKS: usize = 4;
const CHUNK: usize = blake3::CHUNK_LEN;
const BLOCK: usize = blake3::BLOCK_LEN;
const OUT: usize = blake3::OUT_LEN;

/// The key of BLAKE3 without a key, and its flags (section 2.2 and table 3 of its paper).
const IV: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];
const CHUNK_START: u8 = 1;
const CHUNK_END: u8 = 2;
const PARENT: u8 = 4;
const ROOT: u8 = 8;

fn first(digest: &[u8]) -> u64 {
    digest.iter().take(8).fold(0, |key, &byte| key << 8 | u64::from(byte))
}

impl Fingerprint {
    /// The first 64 bits of the fingerprint of some bytes.
    #[must_use]
    pub fn key(self, bytes: &[u8]) -> u64 {
        match self {
            Self::Blake3 => first(blake3::hash(bytes).as_bytes()),
            Self::Sha1 => first(&sha1::Sha1::digest(bytes)),
        }
    }

    /// The keys of pages of `page_bytes` that lie one after another. BLAKE3 takes those of pages of
    /// 4 KiB side by side: a page alone has too few chunks for the vectors of a processor.
    ///
    /// # Panics
    /// If `page_bytes` is 0.
    #[must_use]
    pub fn keys(self, pages: &[u8], page_bytes: usize) -> Vec<u64> {
        match (self, pages.as_chunks::<PAGE>()) {
            (Self::Blake3, (whole, [])) if page_bytes == PAGE => {
                let platform = Platform::detect();
                whole.chunks(LANES).flat_map(|some| side_by_side(platform, some)).collect()
            }
            _ => pages.chunks(page_bytes).map(|page| self.key(page)).collect(),
        }
    }
}

/// Two digests one after the other, as their parent hashes them.
fn joined(left: &[u8; OUT], right: &[u8; OUT]) -> [u8; BLOCK] {
    let mut both = [0; BLOCK];
    both[..OUT].copy_from_slice(left);
    both[OUT..].copy_from_slice(right);
    both
}

/// The keys of at most [`LANES`] pages. `hash_many` is not a documented part of the crate, so its
/// version is fixed, and a test compares the keys with those of pages alone.
fn side_by_side(platform: Platform, pages: &[[u8; PAGE]]) -> impl Iterator<Item = u64> + use<> {
    let n = pages.len();
    let parents = |blocks: &[[u8; BLOCK]; LANES], flags| {
        let (mut out, inputs) = ([[0; OUT]; LANES], blocks.each_ref());
        let no = IncrementCounter::No;
        platform.hash_many(&inputs[..n], &IV, 0, no, flags, 0, 0, out.as_flattened_mut());
        out
    };
    let chunks: [[[u8; OUT]; LANES]; CHUNKS] = std::array::from_fn(|chunk| {
        // Lanes beyond the last page are not hashed.
        let of = |lane: usize| &pages[lane.min(n - 1)].as_chunks().0[chunk];
        let (mut out, inputs): (_, [&[u8; CHUNK]; LANES]) = ([[0; OUT]; LANES], std::array::from_fn(of));
        let (counter, no) = (chunk as u64, IncrementCounter::No);
        let into = out.as_flattened_mut();
        platform.hash_many(&inputs[..n], &IV, counter, no, 0, CHUNK_START, CHUNK_END, into);
        out
    });
    let pair = |left: &[[u8; OUT]; LANES], right: &[[u8; OUT]; LANES]| {
        std::array::from_fn(|lane| joined(&left[lane], &right[lane]))
    };
    let [left, right] = [0, 2].map(|at| parents(&pair(&chunks[at], &chunks[at + 1]), PARENT));
    let roots = parents(&pair(&left, &right), PARENT | ROOT);
    roots.into_iter().take(n).map(|digest| first(&digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_pages_side_by_side_are_those_of_pages_alone() {
        let bytes: Vec<u8> =
            (0..37 * PAGE as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        for by in [Fingerprint::Blake3, Fingerprint::Sha1] {
            for (pages, size) in
                [(0, PAGE), (1, PAGE), (15, PAGE), (16, PAGE), (17, PAGE), (37, PAGE), (3, 512)]
            {
                let some = &bytes[..pages * size];
                let alone: Vec<u64> = some.chunks(size).map(|page| by.key(page)).collect();
                assert_eq!(by.keys(some, size), alone, "{pages} pages of {size} bytes");
            }
        }
    }
}
