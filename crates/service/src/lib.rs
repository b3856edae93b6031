//! Volumes in service, as a library: serves them with a control socket, joins and replaces their
//! members, scrubs them. The lower modules are what that rests on: names of devices and nodes,
//! connections, the identity of this machine, superblocks of everything that is named.
//!
//! A program parses arguments, calls this crate, and prints. `docs/reference/control.md` has the
//! control socket, [`api`] its types.

pub mod access;
pub mod api;
pub mod assembling;
mod changes;
pub mod client;
pub mod doctor;
pub mod events;
pub mod failure;
pub mod folder;
pub mod formats;
pub mod identity;
mod lines;
mod listener;
pub mod look;
pub mod mapped;
pub mod members;
mod metrics;
pub mod name;
pub mod notify;
pub mod open;
pub mod opening;
mod orders;
pub mod part;
pub mod passes;
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
pub mod systemd;
pub mod tagged;
pub mod targets;
mod watch;
pub mod words;
