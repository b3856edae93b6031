//! The host side: array assembly, scrub methods, verdicts, repair with its journal, saved progress.
//!
//! ```text
//! Target (array + members on their nodes)
//!   └▶ pass: Schedule ─▶ Course ─▶ Work on each batch
//!        └▶ scrub: check a batch by a Method ─▶ examine suspects ─▶ Finding ─▶ repair ─▶ Report
//! ```
//!
//! Nothing here depends on the kind of node: everything goes through [`pumice_offload::DataNode`].

pub mod again;
mod astray;
pub mod date;
pub mod error;
pub mod finding;
pub mod heal;
pub mod instance;
pub mod locks;
mod media_errors;
pub mod members;
mod method;
pub mod order;
mod parts;
pub mod pass;
pub mod pattern;
pub mod plan;
pub mod premises;
pub mod probe;
mod relay;
pub mod repair;
pub mod report;
pub mod scrub;
mod sectors;
pub mod state;
pub mod stop;
mod stripes;
pub mod target;
mod testimony;
pub mod wire;

pub use media_errors::ErrorLimit;
pub use method::Method;
