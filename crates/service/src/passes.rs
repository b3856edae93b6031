//! Passes of commands: the orders that they take while they run, their sockets, and the files that
//! they leave. `docs/reference/control.md` has the sockets, `docs/reference/on-disk/history.md` the
//! files.

mod client;
mod control;
mod file;
mod socket;

pub use client::{Found, all, find, order};
pub use control::{Next, PassControl};
pub use file::{PassPlace, passes_of};
pub use socket::PassSocket;
