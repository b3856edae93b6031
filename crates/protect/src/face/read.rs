//! Read.

use super::{FaceCommand, Failure};
use crate::command::{Action, Protection};
use crate::stream::CheckStream;

/// Makes what a Read gives of stored blocks.
///
/// # Errors
/// The first block that fails; then `out` is zeros: nothing of it may leave.
///
/// # Panics
/// If `data` and `metadata` are not those of the command's blocks, or `out` is not of
/// [`FaceCommand::transfer_bytes`].
pub fn read(command: &FaceCommand, data: &[u8], metadata: &[u8], out: &mut [u8]) -> Result<(), Failure> {
    command.assert_stored(data, metadata);
    assert_eq!(out.len() as u64, command.transfer_bytes(), "room for what the host gets");
    let Protection { pract, checks, tags } = command.protection;
    let format = command.format;
    let mut stream = CheckStream::new(format, tags, checks);
    if pract.of_read(&format) == Action::Strip {
        stream.verify_separate(data, Some(&mut *out), metadata);
    } else {
        let blocks =
            data.chunks_exact(format.data_bytes()).zip(metadata.chunks_exact(format.metadata_bytes()));
        for ((data, metadata), out) in blocks.zip(out.chunks_exact_mut(format.block_bytes())) {
            let (to_data, to_metadata) = out.split_at_mut(data.len());
            stream.verify_copy(data, to_data);
            stream.verify_copy(metadata, to_metadata);
        }
    }
    match stream.fault() {
        None => Ok(()),
        Some(fault) => {
            out.fill(0);
            Err(Failure::Fault(fault))
        }
    }
}
