//! Authentication of hosts: keys, DH-HMAC-CHAP at both ends, and the pre-shared keys of TLS.
//!
//! Pure: bytes come in as slices, time and randomness are arguments, and nothing here opens a file
//! or a socket. Powers in groups take milliseconds; they come out as jobs that run anywhere.
//!
//! * [`keys`]: keys as texts, and what is derived from them.
//! * [`message`]: the messages of the protocol.
//! * [`controller`], [`host`]: the two ends.
//!
//! `docs/reference/wire-format/authentication.md` and `docs/reference/keys.md` have the bytes, the
//! states and the formulas.

pub mod controller;
pub mod credentials;
mod exchange;
pub mod failure;
pub mod group;
pub mod hash;
pub mod host;
pub mod keys;
pub mod message;
pub mod nqn;
pub mod policy;
pub mod response;
pub mod secret;

pub use exchange::{Computed, Job, Proof, step_limit};
