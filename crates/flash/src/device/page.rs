//! Pages on their way to the file: bytes that are held, not copied, with what is known of them.

use crate::ftl::{Bytes, Content, Fingerprint, Plan, Sums, weak_hash};
use pumice_base::durable::Held;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes in one buffer, at most.
pub(crate) const LONGEST: usize = 256 << 10;
/// The smallest buffer, in powers of two.
const SMALLEST: u32 = 12;
/// Sizes of buffers.
const SIZES: usize = (LONGEST.ilog2() - SMALLEST) as usize + 1;
/// Pages that are hashed at a time.
const AT_ONCE: usize = 16;
/// Buffers of a size that are kept.
const KEPT: usize = 16;

/// The bytes of a page, with the sum of its drive and the hashes that were taken of them already.
#[derive(Debug, Clone)]
pub struct Page {
    bytes: Held,
    sum: Option<u32>,
    weak: Option<u32>,
    key: Option<(Fingerprint, u64)>,
}

impl Page {
    /// These bytes, with their sum if it is asked for.
    pub(crate) fn of(bytes: Held, sums: Option<&Sums>) -> Self {
        let sum = sums.map(|sums| sums.of(&bytes));
        Self { bytes, sum, weak: None, key: None }
    }

    /// Its bytes, for those who keep them.
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.bytes
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Vec<u8>> for Page {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: Held::new(bytes), sum: None, weak: None, key: None }
    }
}

impl PartialEq for Page {
    fn eq(&self, other: &Self) -> bool {
        *self.bytes == *other.bytes
    }
}

impl Eq for Page {}

impl Content for Page {
    fn weak(&self) -> u32 {
        self.weak.unwrap_or_else(|| weak_hash(&self.bytes))
    }

    fn key(&self, by: Fingerprint) -> u64 {
        let known = self.key.filter(|(known, _)| *known == by);
        known.map_or_else(|| by.key(&self.bytes), |(_, key)| key)
    }

    fn blank(bytes: u32) -> Self {
        vec![0; bytes as usize].into()
    }
}

impl Bytes for Page {
    fn sum(&self, sums: &Sums) -> u32 {
        self.sum.unwrap_or_else(|| sums.of(&self.bytes))
    }

    fn know_sum(&mut self, sum: u32) {
        self.sum = Some(sum);
    }
}

/// The questions of the translation layer about a page that is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashes {
    pub(crate) weak: bool,
    pub(crate) key: Option<Fingerprint>,
}

impl Hashes {
    /// Those of a plan.
    pub(crate) fn of(plan: Plan, fingerprint: Fingerprint) -> Self {
        Self { weak: plan.uses_weak(), key: plan.inline.then_some(fingerprint) }
    }
}

type Spare = [Vec<Vec<u8>>; SIZES];

/// Buffers for the data of commands. They come back when nobody holds them any more: new memory
/// costs more than the copy into it.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Arc<Mutex<Spare>>);

/// A buffer of [`Buffers`].
#[derive(Debug)]
struct Lent {
    bytes: Vec<u8>,
    home: Arc<Mutex<Spare>>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut spare = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        let same = &mut spare[size(bytes.capacity())];
        if same.len() < KEPT {
            same.push(bytes);
        }
    }
}

/// The size that so many bytes need.
fn size(len: usize) -> usize {
    let power = len.max(1).next_power_of_two().ilog2().max(SMALLEST) - SMALLEST;
    (power as usize).min(SIZES - 1)
}

impl Buffers {
    fn lend(&self, len: usize) -> Lent {
        let size = size(len);
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner)[size].pop();
        let bytes = spare.unwrap_or_else(|| Vec::with_capacity(1 << (size + SMALLEST as usize)));
        Lent { bytes, home: Arc::clone(&self.0) }
    }

    /// A buffer of so many bytes, at most [`LONGEST`], with what `fill` makes of any bytes.
    pub(crate) fn filled(&self, len: usize, fill: impl FnOnce(&mut [u8])) -> Held {
        let mut lent = self.lend(len);
        // It still has the length that it had: hardly anything is made zeros.
        lent.bytes.resize(len, 0);
        fill(&mut lent.bytes);
        Held::new(lent)
    }

    /// Copies of whole pages of `page_bytes`, with their sums and these hashes.
    pub(crate) fn pages(&self, data: &[u8], page_bytes: usize, hashes: Hashes, sums: &Sums) -> Vec<Page> {
        let mut pages = Vec::with_capacity(data.len() / page_bytes);
        for data in data.chunks(LONGEST) {
            let (mut lent, first) = (self.lend(data.len()), pages.len());
            lent.bytes.clear();
            let mut known = Vec::with_capacity(data.len() / page_bytes);
            // A few pages at a time, so that they are in the processor's cache when they are
            // hashed. The copy is: the memory of a host may change meanwhile.
            for some in data.chunks(AT_ONCE * page_bytes) {
                let at = lent.bytes.len();
                lent.bytes.extend_from_slice(some);
                let some = &lent.bytes[at..];
                let keys = hashes.key.map(|by| (by, by.keys(some, page_bytes)));
                for (n, page) in some.chunks(page_bytes).enumerate() {
                    let weak = hashes.weak.then(|| weak_hash(page));
                    let key = keys.as_ref().map(|(by, keys)| (*by, keys[n]));
                    known.push((sums.of(page), weak, key));
                }
            }
            let all = Held::new(lent);
            pages.extend(known.into_iter().enumerate().map(|(n, (sum, weak, key))| Page {
                bytes: all.part(n * page_bytes..(n + 1) * page_bytes),
                sum: Some(sum),
                weak,
                key,
            }));
            debug_assert_eq!((pages.len() - first) * page_bytes, data.len(), "whole pages");
        }
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::Secret;

    #[test]
    fn what_is_known_of_a_page_is_what_it_would_say_itself_and_buffers_come_back() {
        let buffers = Buffers::default();
        let data: Vec<u8> = (0..600_u32 << 10).map(|i| (i ^ i >> 12) as u8).collect();
        let hashes = Hashes { weak: true, key: Some(Fingerprint::Blake3) };
        let sums = Sums::keyed(&Secret([3; 32]), 4096);
        for _ in 0..3 {
            let pages = buffers.pages(&data, 4096, hashes, &sums);
            assert_eq!(pages.len(), 150);
            for (page, bytes) in pages.iter().zip(data.chunks(4096)) {
                let plain = bytes.to_vec();
                assert_eq!((page.sum, page.weak), (Some(plain.sum(&sums)), Some(plain.weak())));
                assert_eq!(page.key, Some((Fingerprint::Blake3, plain.key(Fingerprint::Blake3))));
                assert_eq!(page.key(Fingerprint::Sha1), plain.key(Fingerprint::Sha1));
                assert_eq!(page.as_ref(), bytes);
            }
            assert!(pages[0].bytes.joined(&pages[1].bytes).is_some());
        }
        let kept: Vec<usize> = buffers.0.lock().unwrap().iter().map(Vec::len).collect();
        // Two of 256 KiB, and one for the last 88 KiB.
        assert_eq!(kept, [0, 0, 0, 0, 0, 1, 2]);
        let none = Hashes { weak: false, key: None };
        assert_eq!(buffers.pages(&data[..4096], 4096, none, &sums)[0].key, None);
        assert_eq!(buffers.0.lock().unwrap()[0].len(), 1);
    }
}
