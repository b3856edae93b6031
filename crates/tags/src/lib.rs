//! Protection information beside drives that have no metadata.
//!
//! ```text
//! TaggedDevice (a BlockDevice) ── Machine (pure: locks, order, checkpoints)
//!        │                            Recovery (pure: what a crash left)
//!        └── TagFile, Log ─────────── Header, Page, Record (bytes)
//! ```
//!
//! A drive in memory has its tags in the same memory: [`TaggedMemory`].
//!
//! `docs/reference/on-disk/tags.md` has the byte maps, `docs/design/tags.md` the order of writes
//! and the reason why no crash leads to a false finding.

pub mod adoption;
mod carrier;
mod device;
pub mod evidence;
pub mod file;
#[cfg(test)]
mod forge;
pub mod geometry;
pub mod group;
pub mod header;
pub mod kept;
mod locks;
pub mod machine;
mod memory;
#[cfg(test)]
mod mutation;
pub mod page;
mod place;
pub mod record;
pub mod recovery;
mod refusals;
#[cfg(test)]
mod simulation;
pub mod sum;
mod view;

pub use device::{OpenError, TaggedDevice};
pub use memory::{NewMemoryError, TaggedMemory};
pub use place::{PlaceError, make_in_memory, open_place, open_place_to_read, remove_place, serial_of};
pub use pumice_blockdev::DeviceMedium;
