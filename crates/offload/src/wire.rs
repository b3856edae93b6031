//! Commands and results as bytes. Byte tables: `docs/reference/wire-format/offload.md`.

mod command;
mod drives;
mod grant;
mod hosts;
pub mod opcode;
mod pacing;
mod result;
mod superblocks;
mod tags;
mod transfer;
mod update;

pub use command::{decode_command, encode_command};
pub use drives::{
    DESCRIPTION_HEADER, DRIVES_PER_PAGE, SocketBytes, decode_drives, decode_sockets, encode_drives,
};
pub use grant::{GRANT_BYTES, decode_grant, encode_grant};
pub use hosts::{HOST_BYTES, HOSTS_HEADER, MAX_HOSTS, decode_hosts, encode_hosts};
pub use opcode::{COMMANDS, Command, Length, Sender, command, name};
pub use pacing::{
    FIGURES_BYTES, FIGURES_HEADER, FIGURES_PER_PAGE, PACE_BYTES, decode_figures, decode_pace, encode_figures,
    encode_pace,
};
pub use result::{decode_result, encode_result};
pub use superblocks::{
    SUPERBLOCK_BYTES, SUPERBLOCKS_HEADER, SUPERBLOCKS_PAGE, decode_superblocks, encode_superblocks,
};

pub use tags::{TAGGED_ENTRY, TAGGED_HEADER, decode_tagged, encode_tagged, tagged_len};
pub use transfer::{decode_transfer, encode_transfer};
pub use update::{UpdateWords, decode_update, encode_update};

use crate::record::put;
use std::fmt::Display;
use thiserror::Error;

/// The version of descriptors and results.
pub const VERSION: u8 = 3;
/// Most bytes of a descriptor.
pub const MAX_DESCRIPTOR: usize = 1 << 20;
/// Magic at byte 3072 of Identify Controller.
pub const SIGNATURE: [u8; 8] = *b"PUMICEPC";

/// Status: the peer of a transfer is unknown or does not answer.
pub const STATUS_PEER: u16 = 0x7C0;
/// Status: other hosts are associated, or one of them holds the node.
pub const STATUS_IN_USE: u16 = 0x7C1;
/// Status: other hosts have leased the drive's local memory.
pub const STATUS_NO_MEMORY: u16 = 0x7C2;
/// Status: a source of an update has a different checksum.
pub const STATUS_OTHER_BYTES: u16 = 0x7C3;
/// Bit 4 of byte 3082 of Identify Controller: Path, Update, Store and stretches, with sums of
/// records and interims under keys. Nodes of earlier versions set bits 0 and 1 instead. They have
/// sums that this version refuses, and refuse those of this version.
pub const HAS_UPDATES: u8 = 16;
/// Bit 2 of the same byte: Tagged Write.
pub const HAS_TAGGED_WRITE: u8 = 4;
/// Bit 3 of the same byte: Parity Execute knows commands without a pace, and Pace Read says how
/// long a read would wait.
pub const HAS_UNPACED: u8 = 8;
/// Tagged Write, dword 13: the blocks get adopted tags.
pub const TAGS_ADOPTED: u32 = 0;
/// Tagged Write, dword 13: their tags stay.
pub const TAGS_STAY: u32 = 1;
/// Store, dword 13, bit 0: durable.
pub const STORE_DURABLE: u32 = 1;
/// Hold, dword 10: release the hold.
pub const HOLD_RELEASE: u32 = 0;
/// Hold, dword 10: keep other hosts away.
pub const HOLD_TAKE: u32 = 1;
/// Hold, dword 10: this host promises not to write any namespace from now on.
pub const HOLD_OBSERVE: u32 = 2;
/// The host identifier under which a node connects to another one. A peer that uses it can only
/// write granted local memory, so it does not count as a host.
pub const NODE_HOST_ID: [u8; 16] = *b"pumice data node";
/// Local memory is leased in units of so many bytes.
pub const LEASE_UNIT: u64 = 4096;

/// An invalid field of a descriptor or result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field} is {found}")]
pub struct WireError {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub found: String,
}

fn wrong<T>(field: &'static str, found: impl Display) -> Result<T, WireError> {
    Err(WireError { field, found: format!("{found}") })
}

/// Reserved and unused fields must be zero, so that fields of a later version are never ignored.
fn zeros(bytes: &[u8], at: std::ops::Range<usize>) -> Result<(), WireError> {
    match at.clone().zip(&bytes[at]).find(|(_, byte)| **byte != 0) {
        Some((at, byte)) => wrong("a reserved byte", format!("{byte} (byte {at})")),
        None => Ok(()),
    }
}

/// Bytes that are read field by field, each within bounds.
struct Fields<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8], what: &'static str, fixed: usize) -> Result<Self, WireError> {
        if bytes.len() < fixed {
            return wrong(what, format!("{} bytes, less than {fixed}", bytes.len()));
        }
        if bytes[0] != VERSION {
            return wrong("version", bytes[0]);
        }
        Ok(Self { bytes, what })
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|i| self.bytes[at + i])
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    fn slice(&self, at: usize, len: usize) -> Result<&'a [u8], WireError> {
        at.checked_add(len).and_then(|end| self.bytes.get(at..end)).ok_or_else(|| WireError {
            field: self.what,
            found: format!("{} bytes, shorter than its counts say", self.bytes.len()),
        })
    }
}

/// Returns whether a node with this byte 3082 of Identify Controller makes parity as this version
/// does.
#[must_use]
pub fn makes_parity(announced: u8) -> bool {
    announced & HAS_UPDATES != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_other_sums_make_no_parity() {
        assert!(!makes_parity(1 | 2 | HAS_TAGGED_WRITE | HAS_UNPACED), "an earlier version");
        assert!(makes_parity(HAS_UPDATES));
        assert_eq!(HAS_UPDATES & 3, 0, "nor does an earlier version's server ask for them");
    }
}
