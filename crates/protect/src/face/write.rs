//! Write.

use super::{FaceCommand, Failure};
use crate::command::Action;
use crate::stream::{CheckStream, MakeStream};
use crate::tuple::TupleBytes;

/// Treatment of tuples on their way to the store.
#[derive(Debug, Clone)]
enum Way {
    /// They are checked, and stored as they come.
    Check(CheckStream),
    /// The host sends none.
    Insert(MakeStream),
    /// The host's are replaced.
    Overwrite(MakeStream),
}

/// A Write whose bytes come in pieces: data and metadata go to the store apart.
#[derive(Debug, Clone)]
pub struct WriteStream {
    command: FaceCommand,
    way: Way,
    /// Bytes that have come.
    come: u64,
}

impl WriteStream {
    /// Before the first byte.
    #[must_use]
    pub fn new(command: FaceCommand) -> Self {
        let (format, protection) = (command.format, command.protection);
        let way = match protection.pract.of_write(&format) {
            Action::Insert => Way::Insert(MakeStream::new(format, protection.tags)),
            Action::Overwrite => Way::Overwrite(MakeStream::new(format, protection.tags)),
            Action::Pass | Action::Strip => {
                Way::Check(CheckStream::new(format, protection.tags, protection.checks))
            }
        };
        Self { command, way, come: 0 }
    }

    /// Takes the next bytes, and appends what is to be stored. A piece may end anywhere.
    ///
    /// # Panics
    /// If more come than [`FaceCommand::transfer_bytes`].
    pub fn take(&mut self, piece: &[u8], data: &mut Vec<u8>, metadata: &mut Vec<u8>) {
        let at = self.come;
        self.come += piece.len() as u64;
        assert!(self.come <= self.command.transfer_bytes(), "bytes beyond the command's blocks");
        match &mut self.way {
            Way::Check(stream) => {
                stream.verify(piece);
                self.command.apart(at, piece, data, metadata);
            }
            Way::Overwrite(stream) => {
                let mut piece = piece.to_vec();
                stream.overwrite(&mut piece);
                self.command.apart(at, &piece, data, metadata);
            }
            Way::Insert(stream) => {
                data.extend_from_slice(piece);
                let mut rest = piece;
                while !rest.is_empty() {
                    let (taken, tuple) = stream.tuple_after(rest);
                    rest = &rest[taken..];
                    // The metadata are the tuple: else nothing is inserted.
                    metadata.extend_from_slice(tuple.as_ref().map_or(&[], TupleBytes::as_slice));
                }
            }
        }
    }

    /// All bytes have come: what [`take`](Self::take) gave out may be stored.
    ///
    /// # Errors
    /// The first block that fails; then nothing is to be stored.
    ///
    /// # Panics
    /// If bytes are missing.
    pub fn finish(self) -> Result<(), Failure> {
        assert_eq!(self.come, self.command.transfer_bytes(), "bytes of the command's blocks");
        match self.way {
            Way::Check(stream) => stream.fault().map_or(Ok(()), |fault| Err(Failure::Fault(fault))),
            Way::Insert(_) | Way::Overwrite(_) => Ok(()),
        }
    }
}

impl FaceCommand {
    /// Takes bytes of extended blocks apart, from byte `at` of the command on.
    fn apart(&self, at: u64, mut piece: &[u8], data: &mut Vec<u8>, metadata: &mut Vec<u8>) {
        let (of_data, of_block) = (self.format.data_bytes(), self.format.block_bytes());
        // Below the bytes of a block.
        let mut at = (at % of_block as u64) as usize;
        while !piece.is_empty() {
            let (to, end) = if at < of_data { (&mut *data, of_data) } else { (&mut *metadata, of_block) };
            let (part, rest) = piece.split_at(piece.len().min(end - at));
            to.extend_from_slice(part);
            at = (at + part.len()) % of_block;
            piece = rest;
        }
    }
}
