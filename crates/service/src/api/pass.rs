//! Requests to a pass, and its answers.

use super::fault::Fault;
use serde::{Deserialize, Serialize};

/// A request to a pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum PassRequest {
    /// Tells how the pass stands.
    Status,
    /// Saves, lets go of everything, and waits.
    Pause,
    /// Ends a pause.
    GoOn,
    /// Goes on at another pace; `None` leaves a part as it was.
    Pace {
        /// Bytes a second from each drive.
        rate: Option<u64>,
        /// Nanoseconds by which requests of others may be slowed down.
        slowdown_ns: Option<u64>,
    },
    /// Saves and ends.
    Stop,
}

/// A line of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassAnswer {
    /// The state of the pass, after the request.
    Scrub(Box<PassState>),
    /// The request came to nothing.
    Error(Fault),
}

/// A phase of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassPhase {
    /// It reads, or waits for what it is to read.
    Running,
    /// It ends what is under way, and saves.
    Pausing,
    /// It holds nothing, and waits.
    Paused,
    /// It saves and ends.
    Stopping,
}

/// The state of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassState {
    /// UUID of the array.
    pub array: String,
    /// Its name; may be empty.
    pub name: String,
    /// The phase.
    pub state: PassPhase,
    /// Stripes done.
    pub stripes: u64,
    /// Stripes of the pass.
    pub of_stripes: u64,
    /// Bytes that were checked.
    pub bytes: u64,
    /// Findings so far.
    pub findings: usize,
    /// Start of the command, in microseconds since 1970.
    pub begun_us: u64,
    /// Seconds until a pause ends the scrub.
    pub pause_left_s: Option<u64>,
    /// The last note.
    pub note: Option<String>,
    /// Bytes a second from each drive that were asked for.
    pub rate: Option<u64>,
    /// Nanoseconds of slowdown that were asked for.
    pub slowdown_ns: Option<u64>,
    /// Number of the process.
    pub pid: u32,
    /// The person or program that started it.
    pub by: String,
}

impl PassState {
    /// Returns whether a name or a UUID is that of the array.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.array == name || self.name == name || self.name.split_once(':').is_some_and(|(_, n)| n == name)
    }
}
