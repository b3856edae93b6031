//! The structures of the NVMe base, NVM command set and fabrics specifications, as far as a
//! controller over TCP needs them.

pub mod ana;
pub mod command;
pub mod connect;
pub mod effects;
pub mod feature;
pub mod identify;
pub mod log;
pub mod opcode;
pub mod property;
mod sqe;
mod status;

pub use crate::auth::nqn::{DISCOVERY_NQN, Nqn, NqnError};
pub use sqe::{Cqe, Sgl, Sqe};
pub use status::Status;
