//! The visible face: what each command does with blocks and the metadata beside them.
//!
//! `docs/design/visible-face.md` has the commands. Pure: a host's bytes come in pieces that end
//! anywhere; data and metadata for the store go out, or the first block that fails.

mod compare;
mod read;
mod verify;
mod write;

pub use compare::CompareStream;
pub use read::read;
pub use verify::VerifyStream;
pub use write::WriteStream;

use crate::block_format::BlockFormat;
use crate::command::{Action, CommandFields, Direction, InvalidReference, Pract, Protection};
use crate::format::Format;
use crate::verdict::Fault;

/// A command for blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Write.
    Write,
    /// Read.
    Read,
    /// Compare.
    Compare,
    /// Verify.
    Verify,
    /// Write Zeroes.
    WriteZeroes,
}

/// A command for blocks of a visible face, as its fields say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaceCommand {
    format: Format,
    operation: Operation,
    protection: Protection,
    slba: u64,
    blocks: u64,
}

/// Failure of a command over a visible face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// A tuple failed its check.
    Fault(Fault),
    /// A block differs from what a Compare brought; counted from the first of the command.
    Differs(u64),
}

impl Failure {
    /// Compare Failure.
    pub const COMPARE: u16 = 0x285;

    /// The NVMe status: code type in bits 8-10, code in bits 0-7.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Fault(fault) => fault.status(),
            Self::Differs(_) => Self::COMPARE,
        }
    }

    /// The block, from the first of the command.
    #[must_use]
    pub const fn block(&self) -> u64 {
        match self {
            Self::Fault(fault) => fault.block,
            Self::Differs(block) => *block,
        }
    }
}

impl FaceCommand {
    /// Reads the fields of a command for `blocks` blocks.
    ///
    /// # Errors
    /// As [`Protection::parse`].
    pub fn parse(
        format: &Format,
        operation: Operation,
        fields: &CommandFields,
        blocks: u64,
    ) -> Result<Self, InvalidReference> {
        let direction = match operation {
            Operation::Write | Operation::WriteZeroes => Direction::Write,
            Operation::Read | Operation::Compare | Operation::Verify => Direction::Read,
        };
        // Zeros whose tuples are zeros have no reference tags to be wrong, and are not checked.
        let zeros = operation == Operation::WriteZeroes && fields.control >> 13 & 1 == 0;
        let plain = CommandFields { control: 0, ..*fields };
        let protection = Protection::parse(format, if zeros { &plain } else { fields }, direction)?;
        Ok(Self { format: *format, operation, protection, slba: fields.slba, blocks })
    }

    /// The operation.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// The format of its blocks.
    #[must_use]
    pub const fn format(&self) -> &Format {
        &self.format
    }

    /// The protection that the command asks for.
    #[must_use]
    pub const fn protection(&self) -> &Protection {
        &self.protection
    }

    /// Number of blocks.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The number of a block of the command, for the error log.
    #[must_use]
    pub const fn lba(&self, failure: &Failure) -> u64 {
        self.slba + failure.block()
    }

    /// Bytes that the host sends or gets.
    ///
    /// # Panics
    /// If they are more than 2^64 - 1; no command of a host has so many blocks.
    #[must_use]
    pub const fn transfer_bytes(&self) -> u64 {
        let without = matches!(self.protection.pract.of_read(&self.format), Action::Strip);
        let format = BlockFormat::protected(self.format);
        match self.operation {
            Operation::Write | Operation::Read | Operation::Compare if without => {
                format.data_len(self.blocks)
            }
            Operation::Write | Operation::Read | Operation::Compare => format.extended_len(self.blocks),
            Operation::Verify | Operation::WriteZeroes => 0,
        }
    }

    /// Checks stored blocks: Verify.
    ///
    /// # Errors
    /// The first block that fails.
    ///
    /// # Panics
    /// If these are not the data and the metadata of the command's blocks.
    pub fn verify(&self, data: &[u8], metadata: &[u8]) -> Result<(), Failure> {
        self.assert_stored(data, metadata);
        VerifyStream::new(*self).take(data, metadata)
    }

    /// The metadata of a block of zeros: Write Zeroes. `index` is from the first block of the
    /// command.
    #[must_use]
    pub fn zeros(&self, index: u64) -> Vec<u8> {
        let mut metadata = vec![0; self.format.metadata_bytes()];
        if self.protection.pract == Pract::Act {
            metadata_of_zeros(&self.format, &self.protection, index, &mut metadata);
        }
        metadata
    }

    /// Returns whether this Write Zeroes stores the same metadata as a deallocation
    /// ([`deallocated`]).
    #[must_use]
    pub fn zeros_as_deallocated(&self) -> bool {
        // Reference tags of deallocated blocks count up. Two blocks show whether these do: with
        // type 3, and with tuples of zeros, they do not.
        let first = self.slba;
        (0..self.blocks.min(2))
            .all(|index| self.zeros(index) == deallocated(&self.format, first.wrapping_add(index)))
    }

    fn assert_stored(&self, data: &[u8], metadata: &[u8]) {
        let count = |bytes: usize, of: usize| (bytes as u64, self.blocks.checked_mul(of as u64));
        let data = count(data.len(), self.format.data_bytes());
        let metadata = count(metadata.len(), self.format.metadata_bytes());
        assert!(Some(data.0) == data.1 && Some(metadata.0) == metadata.1, "the command's blocks");
    }
}

/// The metadata of a block that nothing is known of: an escape.
#[must_use]
pub fn unknown(format: &Format) -> Vec<u8> {
    vec![0xFF; format.metadata_bytes()]
}

/// The metadata of a block of zeros that was deallocated, by its number on the drive.
#[must_use]
pub fn deallocated(format: &Format, lba: u64) -> Vec<u8> {
    let mut metadata = vec![0; format.metadata_bytes()];
    let tags = crate::command::Tags::at(format, lba);
    let protection = Protection { pract: Pract::Act, checks: crate::command::Prchk::NONE, tags };
    metadata_of_zeros(format, &protection, 0, &mut metadata);
    metadata
}

fn metadata_of_zeros(format: &Format, protection: &Protection, index: u64, metadata: &mut [u8]) {
    let covered = vec![0; format.covered_bytes()];
    let tuple = protection.tags.tuple(format, index, format.guard().of(&covered));
    metadata[format.tuple_range()].copy_from_slice(tuple.encode(format).as_slice());
}
