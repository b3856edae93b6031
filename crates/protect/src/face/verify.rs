//! Verify.

use super::{FaceCommand, Failure};
use crate::stream::CheckStream;

/// Checks the stored blocks of a command in several parts.
#[derive(Debug, Clone)]
pub struct VerifyStream {
    command: FaceCommand,
    stream: CheckStream,
}

impl VerifyStream {
    /// Before the first block.
    #[must_use]
    pub fn new(command: FaceCommand) -> Self {
        let (tags, checks) = (command.protection.tags, command.protection.checks);
        Self { command, stream: CheckStream::new(command.format, tags, checks) }
    }

    /// Checks the next blocks.
    ///
    /// # Errors
    /// The first block that fails.
    ///
    /// # Panics
    /// If `data` and `metadata` are not of the same number of whole blocks, or of more blocks than
    /// are left of the command.
    pub fn take(&mut self, data: &[u8], metadata: &[u8]) -> Result<(), Failure> {
        let format = &self.command.format;
        let blocks = (data.len() / format.data_bytes()) as u64;
        let whole = (blocks as usize * format.data_bytes(), blocks as usize * format.metadata_bytes());
        assert!((data.len(), metadata.len()) == whole, "whole blocks");
        assert!(self.stream.blocks() + blocks <= self.command.blocks, "the command's blocks");
        self.stream.verify_separate(data, None, metadata);
        self.stream.fault().map_or(Ok(()), |fault| Err(Failure::Fault(fault)))
    }
}
