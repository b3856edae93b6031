//! Volumes in service, as a library: serves them with a control socket, joins and replaces their
//! members, scrubs them. The lower modules are what that rests on: names of devices and nodes,
//! connections, the identity of this machine, superblocks of everything that is named.
//!
//! A program parses arguments, calls this crate, and prints. `docs/reference/control.md` has the
//! control socket, [`api`] its types.

pub mod access;
pub mod api;
mod changes;
pub mod client;
pub mod events;
pub mod failure;
pub mod folder;
pub mod identity;
mod lines;
pub mod members;
mod metrics;
pub mod name;
pub mod open;
pub mod opening;
mod orders;
pub mod place;
pub mod probed;
pub mod probing;
pub mod remote;
mod returns;
pub mod say;
pub mod scrubs;
pub mod serve;
mod socket;
pub mod state;
pub mod status;
pub mod stopping;
pub mod tagged;
mod watch;
pub mod words;
