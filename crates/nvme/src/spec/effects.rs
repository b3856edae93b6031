//! Which commands there are, and what they do to a namespace: the log page 05. (NVMe Base, Commands Supported and Effects.)

use super::opcode::{FABRICS, admin, io};
use crate::bytes::put;

/// The command is supported.
pub const SUPPORTED: u32 = 1;
/// It changes what a namespace holds.
pub const CHANGES_DATA: u32 = 1 << 1;

/// Bytes of the page: admin commands at 0 and I/O commands at 1024, four bytes an opcode; the rest is reserved.
pub const LEN: usize = 4096;
/// Where the I/O commands begin.
pub const IO: usize = 1024;

const ADMIN_COMMANDS: [u8; 8] = [
    admin::GET_LOG_PAGE,
    admin::IDENTIFY,
    admin::ABORT,
    admin::SET_FEATURES,
    admin::GET_FEATURES,
    admin::ASYNC_EVENT,
    admin::KEEP_ALIVE,
    FABRICS,
];

const IO_COMMANDS: [(u8, u32); 9] = [
    (io::FLUSH, 0),
    (io::WRITE, CHANGES_DATA),
    (io::READ, 0),
    (io::WRITE_UNCORRECTABLE, CHANGES_DATA),
    (io::COMPARE, 0),
    (io::WRITE_ZEROES, CHANGES_DATA),
    (io::DATASET_MANAGEMENT, CHANGES_DATA),
    (io::VERIFY, 0),
    (FABRICS, 0),
];

/// The page: what every controller here supports, and the vendor's I/O commands with their effects.
#[must_use]
pub fn encode(vendor: &[(u8, u32)]) -> Vec<u8> {
    let mut page = vec![0; LEN];
    let mut entry = |at: usize, opcode: u8, effects: u32| {
        put(&mut page, at + usize::from(opcode) * 4, &effects.to_le_bytes());
    };
    for opcode in ADMIN_COMMANDS {
        entry(0, opcode, SUPPORTED);
    }
    for (opcode, effects) in IO_COMMANDS {
        entry(IO, opcode, SUPPORTED | effects);
    }
    for (opcode, effects) in vendor {
        entry(IO, *opcode, *effects);
    }
    page
}
