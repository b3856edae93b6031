//! An NVMe/TCP host over sockets.
//!
//! ```text
//! Controller ── admin queue: Connect, enable, Identify, logs
//!     └▶ Queue ── one connection: many commands in flight, a deadline on each batch; calls wait
//!          └▶ Pipeline ── the same with a thread: commands are handed in and end later
//! ```
//!
//! The protocol is in crate `nvme`, the streams under it in `remote::transport`; this crate adds
//! connections, deadlines and threads.

mod busy_poll;
mod controller;
mod cut;
mod digest;
mod discovery;
mod error;
mod pipeline;
mod queue;
mod stream;

pub use busy_poll::BusyPoll;
pub use controller::{ConnectOptions, Controller, IoQueues};
pub use cut::Cut;
pub use digest::DigestPolicy;
pub use discovery::{discover, discover_over, discover_with};
pub use error::InitiatorError;
pub use pipeline::{Exchange, Patience, Pipeline, Told};
pub use queue::{Command, Outcome, Queue, Stopper, Traffic};
pub use stream::PollingStream;
