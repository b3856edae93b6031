//! The dates on which arrays are due.

use crate::time::Wall;
use serde::{Deserialize, Serialize};

/// An array's UUID.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ArrayId(pub String);

/// The machine's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineId(pub String);

/// A number that spreads arrays and machines over a period: FNV-1a (Fowler, Noll, Vo), 64 bits, of
/// both ids, with the last step of MurmurHash3 (Appleby), because FNV leaves the high bits alike.
pub(super) fn phase(machine: &MachineId, array: &ArrayId) -> u64 {
    let bytes = machine.0.bytes().chain([0]).chain(array.0.bytes());
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325, step);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The last point of a grid up to a moment.
pub(super) fn last_point(every: i64, phase: u64, at: Wall) -> Wall {
    let offset = (phase % every.max(1).unsigned_abs()) as i64;
    Wall(at.0 - (at.0 - offset).rem_euclid(every.max(1)))
}

/// The first point of a grid after a moment.
pub(super) fn next_point(every: i64, phase: u64, after: Wall) -> Wall {
    Wall(last_point(every, phase, after).0.saturating_add(every))
}
