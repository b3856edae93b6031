//! Supported commands, and their effects on a namespace: the log page 05. (NVMe Base, Commands
//! Supported and Effects.)

use super::command::{self, Effect};
use crate::bytes::put;

/// The command is supported.
pub const SUPPORTED: u32 = 1;
/// It changes what a namespace holds.
pub const CHANGES_DATA: u32 = 1 << 1;

/// Bytes of the page: admin commands at 0 and I/O commands at 1024, four bytes an opcode; the rest
/// is reserved.
pub const LEN: usize = 4096;
/// Offset of the I/O commands.
pub const IO: usize = 1024;

/// The entry of a command that is supported.
#[must_use]
pub const fn word(effect: Effect) -> u32 {
    match effect {
        Effect::Nothing => SUPPORTED,
        Effect::ChangesData => SUPPORTED | CHANGES_DATA,
    }
}

/// The page: what every controller here supports, and the vendor's I/O commands with their entries.
#[must_use]
pub fn encode(vendor: &[(u8, u32)]) -> Vec<u8> {
    let mut page = vec![0; LEN];
    let mut entry = |at: usize, opcode: u8, effects: u32| {
        put(&mut page, at + usize::from(opcode) * 4, &effects.to_le_bytes());
    };
    for (opcode, effect) in command::effects(command::ADMIN) {
        entry(0, opcode, word(effect));
    }
    for (opcode, effect) in command::effects(command::IO) {
        entry(IO, opcode, word(effect));
    }
    for (opcode, effects) in vendor {
        entry(IO, *opcode, *effects);
    }
    page
}
