//! Compare.

use super::{FaceCommand, Failure};
use crate::command::{Action, Protection};
use crate::stream::CheckStream;

/// A Compare whose bytes come in pieces, against stored blocks.
#[derive(Debug, Clone)]
pub struct CompareStream<'s> {
    command: FaceCommand,
    data: &'s [u8],
    metadata: &'s [u8],
    /// Result of the check of the stored tuples.
    stored: Result<(), Failure>,
    /// Checks the host's tuples, if it sends some.
    host: Option<CheckStream>,
    /// The first block that differs.
    differs: Option<u64>,
    /// Bytes that have come.
    come: u64,
}

impl<'s> CompareStream<'s> {
    /// Before the first byte.
    ///
    /// # Panics
    /// If these are not the data and the metadata of the command's blocks.
    #[must_use]
    pub fn new(command: FaceCommand, data: &'s [u8], metadata: &'s [u8]) -> Self {
        let Protection { pract, tags, checks } = command.protection;
        let sends = pract.of_read(&command.format) != Action::Strip;
        let host = sends.then(|| CheckStream::new(command.format, tags, checks));
        let stored = command.verify(data, metadata);
        Self { command, data, metadata, stored, host, differs: None, come: 0 }
    }

    /// Takes the next bytes. A piece may end anywhere.
    ///
    /// # Panics
    /// If more come than [`FaceCommand::transfer_bytes`].
    pub fn take(&mut self, mut piece: &[u8]) {
        let format = self.command.format;
        assert!(
            self.come + piece.len() as u64 <= self.command.transfer_bytes(),
            "bytes beyond the command's blocks"
        );
        let block_bytes = match &mut self.host {
            Some(stream) => {
                stream.verify(piece);
                format.block_bytes()
            }
            None => format.data_bytes(),
        };
        let tuple = format.tuple_range();
        while !piece.is_empty() {
            // As many blocks as are in memory.
            let (block, at) =
                ((self.come / block_bytes as u64) as usize, (self.come % block_bytes as u64) as usize);
            let (of_data, of_metadata) = (format.data_bytes(), format.metadata_bytes());
            let (part, rest);
            if let Some(in_metadata) = at.checked_sub(of_data) {
                let edges = [tuple.start, tuple.end, of_metadata];
                let end = edges.into_iter().find(|edge| in_metadata < *edge).unwrap_or(of_metadata);
                (part, rest) = piece.split_at(piece.len().min(end - in_metadata));
                let there = &self.metadata[block * of_metadata + in_metadata..][..part.len()];
                // Tuples are checked, and not compared.
                if !tuple.contains(&in_metadata) && part != there {
                    self.differs.get_or_insert(block as u64);
                }
            } else {
                (part, rest) = piece.split_at(piece.len().min(of_data - at));
                if *part != self.data[block * of_data + at..][..part.len()] {
                    self.differs.get_or_insert(block as u64);
                }
            }
            self.come += part.len() as u64;
            piece = rest;
        }
    }

    /// All bytes have come.
    ///
    /// # Errors
    /// The first block that fails a check, stored or brought, or that differs.
    ///
    /// # Panics
    /// If bytes are missing.
    pub fn finish(self) -> Result<(), Failure> {
        assert_eq!(self.come, self.command.transfer_bytes(), "bytes of the command's blocks");
        let host = self.host.and_then(|stream| stream.fault()).map(Failure::Fault);
        let failures = [self.stored.err(), host, self.differs.map(Failure::Differs)];
        // The first of those that are of the same block.
        match failures.into_iter().flatten().min_by_key(Failure::block) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}
