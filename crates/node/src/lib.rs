//! The data node: drives, local memory, the parity engine and the transfer engine.
//!
//! ```text
//! ParityCommand ─▶ LocalNode ─▶ engine: shape the work into units ─▶ workers: gather a unit from the drives,
//!                                 fold it by the command's rule while it is hot in the cache ─▶ merge ─▶ ParityResult
//! ```
//!
//! [`LocalNode`] serves drives of this machine, to a host in the same process; [`serve::Server`]
//! serves them over NVMe/TCP.

mod engine;
mod local;
mod memory;
mod operations;
mod pace;
pub mod serve;
mod spare;
pub mod superblocks;
mod update;
mod watch;

pub use local::{LocalNode, NodeOptions};
pub use memory::Peers;
pub use watch::{WriteWatch, Writing};
