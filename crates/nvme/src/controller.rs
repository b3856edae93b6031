//! The controller's side: a subsystem with its namespaces and controllers, and the connections that
//! reach it.
//!
//! ```text
//! bytes ─▶ Connection ─▶ frame ─▶ Sqe ─┬─ Fabrics, admin ─▶ Subsystem (shared; behind [`Access`])
//!                                      └─ I/O ─▶ Media (what the caller does with blocks)
//! bytes ◀─ out ◀───────────── completion ◀──────┘
//! ```
//!
//! Nothing here reads a clock, a socket or a medium. States, limits and deadlines are in
//! `docs/design/nvme-tcp.md`.

mod admin;
mod admission;
mod association;
mod attached;
mod connection;
mod exchange;
mod fabrics;
mod features;
mod io;
mod logs;
mod media;
mod notice;
mod ports;
mod proving;
mod settings;
mod slots;
mod subsystem;
mod unproven;
mod upcoming;

pub use admission::Places;
pub use attached::{Attached, Attachments};
pub use connection::{Connection, Received};
pub use media::{HostKeys, Lent, Media, Op, Request, SHUTDOWN_SLOT, Submitted, Windows};
pub use notice::{EndReason, Ended, Notice, Who};
pub use subsystem::{Access, Counters, HostInfo, Identity, Limits, Subsystem, VendorSet};
pub use unproven::network;
pub use upcoming::Upcoming;
