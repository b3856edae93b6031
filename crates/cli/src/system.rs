//! The processor time of the calling thread: what other programs take of a shared machine is not in
//! it.

#![expect(unsafe_code, reason = "clock_gettime is a foreign function")]

/// Seconds of processor time that this thread has used.
pub(super) fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec to the pointer, which is valid for that.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "every thread has a clock of its own");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
