//! Common parts of all users of io_uring.

use io_uring::IoUring;
use std::io;

/// Returns whether to enter the kernel again: it was interrupted, is short of memory, or wants
/// completions taken first.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

/// Waits until the kernel is done with `count` entries, pushed ones among them, and tells the
/// number of each. False where the kernel cannot be asked: it may still use the buffers of the
/// others, which must outlive everything then.
#[must_use]
pub(crate) fn drain(ring: &mut IoUring, mut count: usize, mut ended: impl FnMut(usize)) -> bool {
    while count > 0 {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
            Err(_) => return false,
        }
        for entry in ring.completion() {
            count -= 1;
            ended(entry.user_data() as usize);
        }
    }
    true
}
