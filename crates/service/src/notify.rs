//! Channels: the ways by which events of alerts leave this machine. `docs/design/monitor.md` has
//! the rules; the outbox of crate `monitor` decides what is sent, and when.
//! `docs/reference/channels.md` has the form of what is sent.

pub mod mail;
mod program;
pub mod programs;
pub mod single;
pub mod textfile;
mod words;

use pumice_monitor::alerts::Sending;
use std::fmt;
use std::time::Instant;

/// A message: events that a channel is to take, all or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The name of this machine.
    pub host: String,
    /// The events, and the numbers of those that are not listed. A program's has one event.
    pub sending: Sending,
}

/// The reason why a channel did not take a message. It is tried again later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelFailure(pub String);

impl fmt::Display for ChannelFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ChannelFailure {}

/// A way by which events leave this machine: mail, a program, a file.
///
/// Each channel has a thread of its own, so a slow one delays no other.
pub trait Channel: Send {
    /// The name, by which the outbox knows it: [`MAIL`](pumice_monitor::alerts::MAIL) for mail,
    /// otherwise the name of the program. 1 to 255 bytes.
    fn name(&self) -> &str;

    /// Sends a message. It was taken if there is no error; then it is not sent again. It may be
    /// sent again after a success too, if the monitor ended before that was stored: receivers drop
    /// ids that they know.
    ///
    /// # Errors
    /// If it was not taken, or not before `deadline`. The words say which step failed, for a
    /// person.
    fn send(&mut self, message: &Message, deadline: Instant) -> Result<(), ChannelFailure>;
}
