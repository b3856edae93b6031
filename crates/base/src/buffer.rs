//! Memory for direct I/O.

#![expect(
    unsafe_code,
    reason = "direct I/O wants memory on page borders, which only the raw allocator gives"
)]

mod shared;

pub use shared::SharedBuffer;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The border, in bytes, on which memory for direct I/O must begin: the most that the block layer
/// of current systems asks for.
pub const MEMORY_GRAIN: usize = 512;
/// The border on which a buffer begins: the largest that direct I/O asks for on current systems.
pub const ALIGNMENT: usize = 4096;
/// Buffers of this size and more begin on a huge page, and ask for huge pages: a fold over many
/// streams is up to a seventh faster.
const HUGE_PAGE: usize = 2 << 20;

/// Buffers of this size and more are allocated with room for a page more, without asking for a
/// border: the allocator knows which memory is new from the system, and does not fill that with
/// zeros again. Page faults of that were most of what reads cost (docs/notebook/serving.md).
const ROOMY: usize = 64 << 10;

/// Zeroed memory that begins on a page border.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    len: usize,
    /// The allocation.
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the buffer owns its memory alone, as a Box<[u8]> does; nothing in it is tied to a thread.
unsafe impl Send for AlignedBuffer {}
// SAFETY: a shared reference gives out shared slices only.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// A buffer of `len` bytes, rounded up to whole pages.
    ///
    /// # Panics
    /// If `len` is zero or near the size of the address space.
    #[must_use]
    pub fn new(len: usize) -> Self {
        // SAFETY: this allocator fills the memory with zeros, so all of it is initialised.
        unsafe { Self::allocate(len, alloc_zeroed) }
    }

    /// A buffer that begins with these bytes, without filling it with zeros first. The rest of its
    /// last page is zeros.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        // SAFETY: every byte is initialised below, before the buffer is lent to anyone.
        let buffer = unsafe { Self::allocate(bytes.len(), alloc) };
        let rest = buffer.len - bytes.len();
        // SAFETY: `start` is valid for writes of `len` bytes, of which `bytes.len()` and `rest` are
        // the two parts; the memory is new, so it does not overlap `bytes`.
        unsafe {
            buffer.start.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            buffer.start.as_ptr().add(bytes.len()).write_bytes(0, rest);
        }
        buffer
    }

    /// Memory of `len` bytes, rounded up to whole pages.
    ///
    /// # Safety
    /// `memory_of` is `alloc` or `alloc_zeroed`. After `alloc`, every byte is initialised before it
    /// is read.
    unsafe fn allocate(len: usize, memory_of: unsafe fn(Layout) -> *mut u8) -> Self {
        assert!(len > 0, "a buffer holds something");
        let len = len.next_multiple_of(ALIGNMENT);
        let (size, border) = match len {
            HUGE_PAGE.. => (Some(len), HUGE_PAGE),
            ROOMY.. => (len.checked_add(ALIGNMENT), 1),
            _ => (Some(len), ALIGNMENT),
        };
        let layout = size.and_then(|size| Layout::from_size_align(size, border).ok());
        let layout = layout.expect("a buffer fits the address space");
        // SAFETY: the layout's size is not zero: `len` was not, and rounding up keeps it so.
        let memory = unsafe { memory_of(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let skipped = memory.align_offset(ALIGNMENT);
        // SAFETY: memory on a larger border is on this one as well, so nothing is skipped; without
        // a border less than a page is, and the allocation has a page more than `len`.
        let start = unsafe { memory.add(skipped) };
        if len >= HUGE_PAGE {
            // SAFETY: the range is the allocation just made; advice changes neither content nor
            // validity. That it may be refused is of no account.
            unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        }
        Self { start, len, memory, layout }
    }

    /// Its first byte. The address stays the same while the buffer lives, wherever the value is
    /// moved.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: `memory` came from the allocator with this very layout, and is freed once.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialised (zeroed, or written) bytes while
        // `self` lives, and nobody writes them while it is borrowed: a buffer whose memory the
        // kernel may write is owned by the object that gave it to the kernel, and not lent out.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zeroed_aligned_and_whole_pages() {
        for len in [1, 4096, 4097, ROOMY - 1, ROOMY, 1 << 20, HUGE_PAGE - 1, HUGE_PAGE, 3 << 20] {
            let mut buffer = AlignedBuffer::new(len);
            assert!(buffer.len() >= len && buffer.len().is_multiple_of(ALIGNMENT));
            assert_eq!(buffer.as_ptr().align_offset(ALIGNMENT), 0);
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer[len - 1] = 1;
        }
    }

    #[test]
    fn a_copy_has_the_bytes_and_then_zeros() {
        for len in [1, 4095, 4096, 4097, ROOMY + 3, HUGE_PAGE + 1] {
            // Memory that was used before, where the allocator has it.
            AlignedBuffer::new(len).fill(0xFF);
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8 | 1).collect();
            let copy = AlignedBuffer::copy_of(&bytes);
            assert_eq!(copy.len(), len.next_multiple_of(ALIGNMENT));
            assert!(copy[..len] == bytes[..] && copy[len..].iter().all(|byte| *byte == 0));
        }
    }
}
