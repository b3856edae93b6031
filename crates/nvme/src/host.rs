//! The host's side of one queue: from commands to bytes, and from bytes to completions.
//!
//! A [`Connection`] is a queue: it says ICReq, then Connect, then takes commands. Data for the host
//! are handed out as they come, data for the controller are sent in the capsule where they fit, on
//! request otherwise; the data of a [`Connection::lending`] can stay in their memory until they are
//! sent ([`Outgoing`]). A [`DiscoveryReader`] reads a discovery log.

mod connection;
mod discovery;
mod outgoing;

pub use connection::{Completion, Connection, Event, Options, SubmitError};
pub use discovery::{DiscoveryError, DiscoveryReader, LogPart, MAX_RECORDS, TRIES};
pub use outgoing::{Outgoing, Payload, Sink};
