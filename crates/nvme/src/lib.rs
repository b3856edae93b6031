//! NVMe over TCP without sockets: PDUs, structures, and both sides of the protocol.
//!
//! Nothing here waits, reads a clock or opens a socket: bytes come in as slices, answers are
//! appended to a buffer, time is an argument. So whole connections run in tests, byte by byte, in
//! virtual time.
//!
//! * [`pdu`]: the transport's units, digests, framing.
//! * [`spec`]: commands, completions, Identify data, log pages.
//! * [`controller`]: a subsystem and its connections.
//! * [`host`]: a queue of a host.
//!
//! Sources: NVM Express Base, NVM Command Set and TCP Transport specifications;
//! `docs/design/nvme-tcp.md` says what is supported.

pub mod auth;
mod bytes;
pub mod controller;
pub mod host;
pub mod pdu;
pub mod spec;
