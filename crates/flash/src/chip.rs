//! NAND flash: what a flash translation layer may ask of it, and a model of it in memory.
//!
//! A flash device is an array of blocks. A block is erased as a whole, and its pages are programmed
//! once each, in order. Each page has out-of-band bytes beside its data. [`Nand`] is that contract;
//! [`MemoryNand`] keeps it in memory, with times, wear, and faults that come from a seed.
//!
//! This crate is pure: times are arguments and results, and randomness comes from a seed.

mod error;
mod faults;
mod forge;
mod geometry;
mod memory;
mod nand;
mod power;
mod random;
mod slot;

pub use error::NandError;
pub use faults::{Faults, Tear};
pub use forge::forge_crc32c;
pub use geometry::{BlockId, Geometry, Nanos, Ppn};
pub use memory::{MemoryNand, Timing};
pub use nand::{Nand, PageRead};
pub use random::Random;

/// Out-of-band bytes that a page must have for the records of a flash translation layer.
///
/// Protection information of eight 512-byte blocks takes 64 of them.
pub const MIN_OOB_BYTES: u32 = 128;
