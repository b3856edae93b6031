//! Memory that several may read.

use crate::buffer::{AlignedBuffer, MEMORY_GRAIN};
use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// A part of a buffer that nobody writes any more. A clone, and a part of it, are the same memory.
#[derive(Clone)]
pub struct SharedBuffer {
    buffer: Arc<AlignedBuffer>,
    range: Range<usize>,
}

impl SharedBuffer {
    /// The first `len` bytes of a buffer.
    ///
    /// # Panics
    /// If the buffer is shorter.
    #[must_use]
    pub fn new(buffer: AlignedBuffer, len: usize) -> Self {
        assert!(len <= buffer.len(), "{len} bytes of a buffer of {}", buffer.len());
        Self { buffer: Arc::new(buffer), range: 0..len }
    }

    /// A copy of these bytes, which must be some.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self::new(AlignedBuffer::copy_of(bytes), bytes.len())
    }

    /// A part of it.
    ///
    /// # Panics
    /// If the part lies outside.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        let len = self.range.len();
        assert!(range.start <= range.end && range.end <= len, "{range:?} of {len} bytes");
        let start = self.range.start;
        Self { buffer: Arc::clone(&self.buffer), range: start + range.start..start + range.end }
    }

    /// The whole buffer, to be written again; `None` if somebody else has a clone or a part of it.
    #[must_use]
    pub fn into_buffer(self) -> Option<AlignedBuffer> {
        Arc::into_inner(self.buffer)
    }

    /// Bytes of memory that live as long as it does.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.buffer.len()
    }

    /// Its first byte. The address stays the same while it, or a clone or part, lives.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        // A part begins within the buffer, or just behind it.
        NonNull::from(&self[..]).cast()
    }

    /// Returns whether the memory is aligned as direct I/O requires.
    #[must_use]
    pub fn is_aligned(&self) -> bool {
        self.range.start.is_multiple_of(MEMORY_GRAIN)
    }
}

impl Deref for SharedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl fmt::Debug for SharedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBuffer").field("range", &self.range).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_same_memory() {
        let bytes: Vec<u8> = (0..9000_u32).map(|i| i as u8).collect();
        let whole = SharedBuffer::copy_of(&bytes);
        let part = whole.part(4096..9000).part(512..1024);
        assert_eq!(part.start(), whole.part(4608..4609).start());
        assert!(whole.is_aligned() && part.is_aligned() && !whole.part(1..2).is_aligned());
        drop(whole);
        assert_eq!(part[..], bytes[4608..5120]);
        assert!(part.part(512..512).is_empty());
        let last = part.clone();
        assert!(part.into_buffer().is_none(), "there is another part of it");
        assert_eq!(last.into_buffer().unwrap()[..9000], bytes);
    }
}
