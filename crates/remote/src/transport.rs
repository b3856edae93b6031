//! The byte streams under both ends of NVMe/TCP.
//!
//! ```text
//! Transport ── makes, of a socket ──▶ Stream ─┬─ Tcp: the socket itself
//!                                             └─ Layered: bytes of another form over the socket, such as TLS
//! ```
//!
//! A node and a host read and write [`Stream`]s. Either blocks or does not, as its [`Socket`] is
//! set. [`ByteStream`] says how a stream that is not the socket itself may behave, and so what its
//! callers have to do; `docs/design/node.md`, *Streams*, has the reasons.

mod prepare;
mod socket;
mod stream;

pub use prepare::prepare;
pub use socket::{Closer, Socket};
pub use stream::{ByteStream, INTEREST, Plain, Stream, Transport};
