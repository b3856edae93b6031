//! System calls that the standard library lacks.

#![expect(unsafe_code, reason = "clock_gettime, fcntl and signal are foreign, and one runs before main")]

use std::sync::atomic::{AtomicBool, Ordering};

/// Seconds of processor time that this thread has used: what other programs take of a shared
/// machine is not in it.
pub fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec to the pointer, which is valid for that.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "every thread has a clock of its own");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Calls `handler`, in a thread of its own, at each SIGINT, SIGTERM and SIGHUP. A SIGHUP that was
/// ignored when the program was started (`nohup`) stays ignored.
///
/// # Errors
/// If the program has a handler already, or the system refuses.
pub(crate) fn on_signals(handler: impl FnMut() + 'static + Send) -> Result<(), ctrlc::Error> {
    let ignored = hangup_is_ignored();
    ctrlc::set_handler(handler)?;
    if ignored {
        // SAFETY: SIG_IGN is no function of ours, and nothing of the program depends on SIGHUP.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    }
    Ok(())
}

fn hangup_is_ignored() -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call changes nothing; it writes the present one to the
    // pointer, which is valid for that.
    let result = unsafe { libc::sigaction(libc::SIGHUP, std::ptr::null(), now.as_mut_ptr()) };
    // SAFETY: the call has filled it if it succeeded.
    result == 0 && unsafe { now.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// A file that grows past the limit of the process (`ulimit -f`) is a write that fails, and not the
/// end of the process.
pub(crate) fn survive_file_limits() {
    // SAFETY: SIG_IGN is no function of ours, and nothing of the program depends on SIGXFSZ.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns whether the program was started without a standard output (`>&-`). The standard library
/// opens /dev/null in its place before `main`, and every write succeeds. Afterwards nobody can tell
/// that from a /dev/null that was meant: Python, for one, opens it in the same way.
pub(crate) fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

extern "C" fn look_at_stdout() {
    // SAFETY: F_GETFD takes no further argument, hands over no memory, and changes nothing,
    // whether the descriptor is open or not.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_WAS_CLOSED.store(flags < 0, Ordering::Relaxed);
}

// SAFETY: the C library calls the functions of this section one after another before `main`, with
// arguments that a C function without parameters ignores. This one needs nothing that the runtime
// of Rust sets up: it makes one system call and stores to an atomic, and it cannot panic.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;
