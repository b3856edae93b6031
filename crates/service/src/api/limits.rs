//! Bounds of lines, in bytes and in time.

use std::time::Duration;

/// Most bytes of a request.
pub const REQUEST_BYTES: u64 = 64 << 10;
/// Most bytes of an answer.
pub const ANSWER_BYTES: u64 = 4 << 20;
/// Most bytes of one line of a scrub: the last has the report.
pub const SCRUB_LINE_BYTES: u64 = 256 << 20;
/// Time for a request to arrive, and for any line to be sent, as a whole.
pub const LINE_TIME: Duration = Duration::from_secs(10);
/// Time for an answer: some wait for members, or for a request before.
pub const ANSWER_TIME: Duration = Duration::from_secs(20);
/// Time for a volume to stop.
pub const STOP_TIME: Duration = Duration::from_secs(120);
/// Clients that are served at a time; the next one waits.
pub const CLIENTS: usize = 32;
/// Events that a server keeps.
pub const EVENTS_KEPT: usize = 1024;
/// Events of one answer, at most.
pub const EVENTS_AT_ONCE: usize = 256;
