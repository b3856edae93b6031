//! Random numbers of 16 bytes, and their encoding in commands.

use pumice_nvme::spec::Sqe;
use pumice_offload::{ErrorKind, NodeError};
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

/// An unguessable number.
pub(crate) fn random() -> Result<[u8; 16], NodeError> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes)).map_err(|error| {
        NodeError::new(ErrorKind::Unreachable, "/dev/urandom gives no random number").with_source(error)
    })?;
    Ok(bytes)
}

/// The number from which hosts' marks are derived in this process: the same for all nodes, so that
/// a host is recognised on several of them.
pub(crate) fn asker() -> Result<[u8; 16], NodeError> {
    static ASKER: OnceLock<[u8; 16]> = OnceLock::new();
    let drawn = random()?;
    Ok(*ASKER.get_or_init(|| drawn))
}

/// Puts a number of 16 bytes into four dwords of a command.
pub(crate) fn put_number(sqe: &mut Sqe, dwords: [usize; 4], number: &[u8; 16]) {
    for (dword, bytes) in dwords.into_iter().zip(number.chunks_exact(4)) {
        sqe.set_dword(dword, u32::from_le_bytes(std::array::from_fn(|i| bytes[i])));
    }
}
