//! Buffers that are used again.
//!
//! Memory on page borders costs an allocator much, and so does filling it with zeros. A write of
//! one block takes up to six buffers, which live for some microseconds each.

use pumice_base::buffer::{ALIGNMENT, AlignedBuffer, SharedBuffer};
use pumice_offload::MAX_OPERATION;

/// Bytes that are kept at most.
const MOST: usize = 8 << 20;

/// Buffers that nobody uses, by their pages.
pub(crate) struct Pool {
    free: Vec<Vec<AlignedBuffer>>,
    bytes: usize,
}

impl Default for Pool {
    fn default() -> Self {
        let free = std::iter::repeat_with(Vec::new).take(MAX_OPERATION / ALIGNMENT + 1).collect();
        Self { free, bytes: 0 }
    }
}

impl Pool {
    /// A buffer of `len` bytes, rounded up to whole pages. It holds anything: whoever takes it
    /// fills it.
    pub(crate) fn take(&mut self, len: usize) -> AlignedBuffer {
        let buffer = self.free.get_mut(len.div_ceil(ALIGNMENT)).and_then(Vec::pop);
        if let Some(buffer) = &buffer {
            self.bytes -= buffer.len();
        }
        buffer.unwrap_or_else(|| AlignedBuffer::new(len))
    }

    /// Keeps a buffer, unless there are enough.
    pub(crate) fn give(&mut self, buffer: AlignedBuffer) {
        let len = buffer.len();
        if self.bytes + len > MOST {
            return;
        }
        if let Some(free) = self.free.get_mut(len / ALIGNMENT) {
            self.bytes += len;
            free.push(buffer);
        }
    }

    /// The same, if nobody else has a part of it.
    pub(crate) fn give_shared(&mut self, buffer: SharedBuffer) {
        if let Some(buffer) = buffer.into_buffer() {
            self.give(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_used_again() {
        let mut pool = Pool::default();
        for len in [1, 4096, 4097, MAX_OPERATION, MAX_OPERATION + 1] {
            let buffer = pool.take(len);
            assert_eq!(buffer.len(), len.next_multiple_of(ALIGNMENT));
            let start = buffer.start();
            pool.give(buffer);
            let kept = len <= MAX_OPERATION;
            assert_eq!(pool.bytes > 0, kept);
            let again = pool.take(len);
            assert_eq!((again.start() == start, pool.bytes), (kept || again.start() == start, 0));
        }
        let shared = SharedBuffer::new(pool.take(4096), 100);
        let part = shared.part(0..5);
        pool.give_shared(shared);
        assert_eq!(pool.bytes, 0, "somebody reads it");
        pool.give_shared(part);
        assert_eq!(pool.bytes, 4096);
        for _ in 0..100 {
            pool.give(AlignedBuffer::new(MAX_OPERATION));
        }
        assert_eq!(pool.bytes, MOST / MAX_OPERATION * MAX_OPERATION - MAX_OPERATION + 4096);
    }
}
