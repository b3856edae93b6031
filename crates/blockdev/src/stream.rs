//! Copies of many bytes past the caches.
//!
//! A store through the caches first reads the line that it overwrites; a streaming store does not.
//! And the C library's copy of 64 KiB takes 1.5 to 2.6 times as long if the bytes lie differently
//! within a line at both ends, as data behind a header do. Measured in `docs/notebook/serving.md`.

#![expect(unsafe_code, reason = "streaming stores take pointers")]

/// Bytes of a copy from which on it goes past the caches.
pub const LARGE: usize = 16 << 10;

/// Copies bytes to memory of the same length that will not be used soon: past the caches, if they
/// are at least [`LARGE`].
///
/// # Panics
/// If the lengths differ.
pub fn copy(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "a copy has one length");
    if to.len() < LARGE || !stream(to, from) {
        to.copy_from_slice(from);
    }
}

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Copies bytes of one length by streaming stores; false where there are none.
#[cfg(target_arch = "x86_64")]
fn stream(to: &mut [u8], from: &[u8]) -> bool {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    let head = to.as_ptr().align_offset(LINE).min(to.len());
    let (to_head, to) = to.split_at_mut(head);
    let (from_head, from) = from.split_at(head);
    to_head.copy_from_slice(from_head);
    let (lines, to_tail) = to.as_chunks_mut::<LINE>();
    let (from_lines, from_tail) = from.as_chunks::<LINE>();
    for (line, from) in lines.iter_mut().zip(from_lines) {
        let (line, from) = (line.as_mut_ptr().cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
        // SAFETY: both point to 64 bytes, four vectors; loads need no border, and `line` begins on
        // a border of 64, as `head` bytes lie before the first and each is as long. SSE2 is part of
        // x86_64.
        unsafe {
            let vectors = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.add(i)));
            for (i, vector) in vectors.into_iter().enumerate() {
                _mm_stream_si128(line.add(i), vector);
            }
        }
    }
    // SAFETY: it only orders stores: a thread that sees a later one, such as the release of the
    // drive's lock, sees the streamed ones, which the language's own orders do not cover.
    unsafe { _mm_sfence() };
    to_tail.copy_from_slice(from_tail);
    true
}

#[cfg(not(target_arch = "x86_64"))]
fn stream(_: &mut [u8], _: &[u8]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_and_no_other_is_touched() {
        let from: Vec<u8> = (0..LARGE + 300).map(|i| (i % 251) as u8).collect();
        for len in [0, 1, 63, LARGE - 1, LARGE, LARGE + 1, LARGE + 64, LARGE + 100] {
            for (at, skip) in [(0, 0), (1, 0), (0, 1), (16, 72), (63, 64), (64, 63), (100, 7)] {
                let mut to = vec![0xEE; LARGE + 300];
                copy(&mut to[at..at + len], &from[skip..skip + len]);
                assert!(to[at..at + len] == from[skip..skip + len], "{len} {at} {skip}");
                assert!(to[..at].iter().chain(&to[at + len..]).all(|byte| *byte == 0xEE), "{len} {at}");
            }
        }
    }
}
