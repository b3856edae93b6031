//! Buffers of updates, kept for the next ones: new memory is filled with zeros each time, which
//! takes longer than to fold a source.

use pumice_base::buffer::AlignedBuffer;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a buffer: the most that an update folds.
const BYTES: usize = pumice_offload::MAX_UPDATE_BYTES as usize;
/// Buffers that are kept: 2 MiB.
const MOST: usize = 32;

/// Buffers that no update has.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<AlignedBuffer>>);

impl Spare {
    fn lock(&self) -> MutexGuard<'_, Vec<AlignedBuffer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of `len` bytes, at most [`MAX_UPDATE_BYTES`](pumice_offload::MAX_UPDATE_BYTES),
    /// with any content.
    pub(crate) fn take(&self, len: usize) -> Taken<'_> {
        let buffer = self.lock().pop().unwrap_or_else(|| AlignedBuffer::new(BYTES));
        Taken { of: self, buffer: Some(buffer), len: len.min(BYTES) }
    }
}

/// A buffer that goes back when it is dropped.
pub(crate) struct Taken<'s> {
    of: &'s Spare,
    /// There until the drop.
    buffer: Option<AlignedBuffer>,
    len: usize,
}

impl Deref for Taken<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer[..self.len])
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        self.buffer.as_mut().map_or(&mut [], |buffer| &mut buffer[..len])
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut spare = self.of.lock();
        if spare.len() < MOST {
            spare.extend(self.buffer.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_a_bounded_number_is_kept() {
        let spare = Spare::default();
        let mut first = spare.take(512);
        first.fill(7);
        let at = first.as_ptr();
        drop(first);
        assert_eq!((spare.take(BYTES).as_ptr(), spare.take(4096).len()), (at, 4096));
        let many: Vec<_> = (0..MOST + 5).map(|_| spare.take(BYTES)).collect();
        drop(many);
        assert_eq!(spare.lock().len(), MOST);
    }
}
