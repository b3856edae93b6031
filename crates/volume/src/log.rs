//! The stripe log: heads, records, room, and what replay makes of them.
//!
//! `docs/reference/on-disk/stripe-log.md` has the byte maps and the rules.

mod head;
mod place;
mod record;
mod replay;

pub use head::{Head, SuperblockMark, highest_serial, newest_head};
pub use place::{HEAD_BYTES, HEADS, MAX_RECORDS, MIN_RECORDS, NoRoom, Region, region};
pub use pumice_offload::record::Sums;
pub use record::{Kind, LoggedBlocks, Record, scan};
pub use replay::{Applied, LoggedMember, Replay, replay};

pub(crate) use place::Space;
#[cfg(feature = "mutants")]
pub(crate) use replay::judged;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}
