//! Protection fields of a command.

use crate::format::{Format, Type};
use crate::guard::Guard;
use crate::tuple::{Tuple, split_space};
use crate::verdict::{Fault, Field};
use thiserror::Error;

/// Fields that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prchk {
    /// The guard against the bytes of the block.
    pub guard: bool,
    /// The application tag against LBAT, as far as LBATM says.
    pub application: bool,
    /// The storage tag against LBST, as far as LBSTM says (the STC bit of a command).
    pub storage: bool,
    /// The reference tag against the expected one; never with type 3.
    pub reference: bool,
}

impl Prchk {
    /// All checks.
    pub const ALL: Self = Self { guard: true, application: true, storage: true, reference: true };
    /// No check.
    pub const NONE: Self = Self { guard: false, application: false, storage: false, reference: false };
    /// Only the guard.
    pub const GUARD: Self = Self { guard: true, ..Self::NONE };
}

/// PRACT: whose task the tuples are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pract {
    /// The host sends and gets tuples (0).
    Pass,
    /// The controller makes tuples and takes them off (1).
    Act,
}

/// Treatment of the tuples of a command's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Tuples are checked and go on as they came.
    Pass,
    /// Data come in, extended blocks go on.
    Insert,
    /// Extended blocks come in, their tuples are replaced.
    Overwrite,
    /// Extended blocks come in, tuples are checked, data go on.
    Strip,
}

impl Pract {
    /// The action on blocks on their way to media.
    #[must_use]
    pub const fn of_write(self, format: &Format) -> Action {
        match self {
            Self::Pass => Action::Pass,
            Self::Act if format.metadata_bytes() == format.tuple_bytes() => Action::Insert,
            Self::Act => Action::Overwrite,
        }
    }

    /// The action on blocks on their way from media.
    #[must_use]
    pub const fn of_read(self, format: &Format) -> Action {
        match self {
            Self::Act if format.metadata_bytes() == format.tuple_bytes() => Action::Strip,
            Self::Pass | Self::Act => Action::Pass,
        }
    }
}

/// The tags of a command's blocks: what is expected of them, or what they get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tags {
    /// LBAT.
    pub application: u16,
    /// LBATM: the bits of the application tag that are compared. All of LBAT is written.
    pub application_mask: u16,
    /// LBST, in the low [`Format::storage_bits`].
    pub storage: u64,
    /// The reference tag of the first block; of the next ones, with types 1 and 2, one more each.
    pub reference: u64,
}

impl Tags {
    /// Tags of blocks from `lba` on: the reference tag of types 1 and 2, other tags 0 and all
    /// compared.
    #[must_use]
    pub const fn at(format: &Format, lba: u64) -> Self {
        let reference = lba & format.reference_mask();
        Self { application: 0, application_mask: 0xFFFF, storage: 0, reference }
    }

    /// The reference tag of block `index`.
    #[must_use]
    pub const fn reference_of(&self, format: &Format, index: u64) -> u64 {
        let count = match format.kind() {
            Type::One | Type::Two => index,
            Type::Three => 0,
        };
        self.reference.wrapping_add(count) & format.reference_mask()
    }

    /// The tuple of block `index` with this guard.
    #[must_use]
    pub const fn tuple(&self, format: &Format, index: u64, guard: u64) -> Tuple {
        Tuple {
            guard,
            application: self.application,
            storage: self.storage,
            reference: self.reference_of(format, index),
        }
    }

    /// Puts the tuples of blocks from `index` on, with these guards, into their metadata.
    pub(crate) fn put(&self, format: &Format, index: u64, guards: &[u64], metadata: &mut [u8]) {
        let pitch = format.metadata_bytes();
        if format.guard() == Guard::Crc16 && pitch == format.tuple_bytes() {
            // Only guard and reference tag differ: the rest is computed once.
            let rest = self.tuple(format, 0, 0).encode(format);
            let rest = rest.as_slice().first_chunk().copied().map_or(0, u64::from_be_bytes)
                & !format.reference_mask();
            let tuples = metadata.as_chunks_mut::<8>().0;
            for (block, (guard, tuple)) in (index..).zip(guards.iter().zip(tuples)) {
                *tuple = (guard << 48 | rest | self.reference_of(format, block)).to_be_bytes();
            }
            return;
        }
        for (block, (guard, to)) in (index..).zip(guards.iter().zip(metadata.chunks_exact_mut(pitch))) {
            let tuple = self.tuple(format, block, *guard).encode(format);
            to[format.tuple_range()].copy_from_slice(tuple.as_slice());
        }
    }

    /// Judges the tuple of block `index`. `guard` is that of the block's bytes; it may be any value
    /// if the guard is not checked.
    #[must_use]
    pub fn judge(
        &self,
        format: &Format,
        checks: Prchk,
        index: u64,
        guard: u64,
        found: &Tuple,
    ) -> Option<Fault> {
        if found.is_escape(format) {
            return None;
        }
        let reference = self.reference_of(format, index);
        let counted = format.kind() != Type::Three;
        // The order of the specification: the first field that fails is the status.
        let fields = [
            (checks.guard, Field::Guard, guard, found.guard, u64::MAX),
            (
                checks.application,
                Field::Application,
                self.application.into(),
                found.application.into(),
                self.application_mask.into(),
            ),
            (checks.storage, Field::Storage, self.storage, found.storage, format.storage_mask()),
            (checks.reference && counted, Field::Reference, reference, found.reference, u64::MAX),
        ];
        let (_, field, expected, found, _) = fields
            .into_iter()
            .find(|(checked, _, expected, found, mask)| *checked && (expected ^ found) & mask != 0)?;
        Some(Fault { block: index, field, expected, found })
    }
}

/// The fields of a command that concern protection information, as they are in its dwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandFields {
    /// The starting LBA.
    pub slba: u64,
    /// Dword 2: bits 64-79 of the storage and reference space.
    pub dword2: u32,
    /// Dword 3: bits 32-63.
    pub dword3: u32,
    /// The high half of dword 12: PRACT, PRCHK, STC.
    pub control: u16,
    /// Dword 14: bits 0-31.
    pub dword14: u32,
    /// Dword 15: LBAT and LBATM.
    pub dword15: u32,
}

/// A type 1 command with an initial reference tag that is not of its starting LBA: status 181h,
/// Invalid Protection Information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("ILBRT: {found:#x} is not the reference tag {expected:#x} of the starting LBA")]
pub struct InvalidReference {
    /// The low bits of the starting LBA.
    pub expected: u64,
    /// The reference tag of the command.
    pub found: u64,
}

impl InvalidReference {
    /// The NVMe status: code type in bits 8-10, code in bits 0-7.
    pub const STATUS: u16 = 0x181;
}

/// Direction in which the blocks of a command move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To media: Write, Write Zeroes. PRACT makes tuples.
    Write,
    /// From media: Read, Compare, Verify. Tuples are only checked.
    Read,
}

/// Protection that a command asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    /// The side that makes and strips the tuples.
    pub pract: Pract,
    /// The checks.
    pub checks: Prchk,
    /// The tags.
    pub tags: Tags,
}

impl Protection {
    /// Reads the fields of a command.
    ///
    /// # Errors
    /// For type 1, if the reference tag is to be checked or written into tuples, and ILBRT is not
    /// that of the starting LBA.
    pub fn parse(
        format: &Format,
        fields: &CommandFields,
        direction: Direction,
    ) -> Result<Self, InvalidReference> {
        let bit = |n: u32| fields.control >> n & 1 == 1;
        let space = u128::from(fields.dword2) << 64 | u128::from(fields.dword3) << 32;
        let (storage, reference) = split_space(format, space | u128::from(fields.dword14));
        let pract = if bit(13) { Pract::Act } else { Pract::Pass };
        let checks = Prchk { guard: bit(12), application: bit(11), reference: bit(10), storage: bit(8) };
        let expected = fields.slba & format.reference_mask();
        let made = pract == Pract::Act && direction == Direction::Write;
        let used = made || checks.reference;
        if format.kind() == Type::One && used && reference != expected {
            return Err(InvalidReference { expected, found: reference });
        }
        let (application, application_mask) = (fields.dword15 as u16, (fields.dword15 >> 16) as u16);
        Ok(Self { pract, checks, tags: Tags { application, application_mask, storage, reference } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Place;
    use crate::guard::Guard;

    fn format(guard: Guard, kind: Type, sts: u32) -> Format {
        Format::new(4096, 16, guard, kind, Place::Last)
            .and_then(|format| format.with_storage_tag(sts, u64::MAX))
            .expect("a format")
    }

    #[test]
    fn fields_of_a_command() {
        let fields = CommandFields {
            slba: 0x1_2345_6789,
            dword2: 0xFFFF_ABCD,
            dword3: 0x1122_3344,
            control: 1 << 15 | 1 << 13 | 1 << 11 | 1 << 8,
            dword14: 0x5566_7788,
            dword15: 0xF0F0_1234,
        };
        let got = Protection::parse(&format(Guard::Crc32c, Type::Two, 24), &fields, Direction::Write)
            .expect("type 2");
        assert_eq!(got.pract, Pract::Act);
        assert_eq!(got.checks, Prchk { guard: false, application: true, reference: false, storage: true });
        assert_eq!(
            got.tags,
            Tags {
                application: 0x1234,
                application_mask: 0xF0F0,
                storage: 0xABCD11,
                reference: 0x22_3344_5566_7788
            }
        );
        let got = Protection::parse(&format(Guard::Crc64, Type::Three, 16), &fields, Direction::Read)
            .expect("type 3");
        assert_eq!((got.tags.storage, got.tags.reference), (0x3344, 0x5566_7788));
    }

    #[test]
    fn type_1_wants_the_reference_tag_of_the_lba() {
        let format = format(Guard::Crc16, Type::One, 8);
        let fields = CommandFields { slba: 0x1_2345_6789, dword14: 0xAA34_5678, ..Default::default() };
        // Control word; refused as a write, refused as a read.
        for (control, write, read) in [
            (0, false, false),
            (1 << 12, false, false),
            (1 << 10, true, true),
            // A read makes no tuples, so nothing looks at ILBRT.
            (1 << 13, true, false),
        ] {
            for (direction, refused) in [(Direction::Write, write), (Direction::Read, read)] {
                let got = Protection::parse(&format, &CommandFields { control, ..fields }, direction);
                assert_eq!(got.is_err(), refused, "control {control:#x}, {direction:?}");
                let good = CommandFields { control, dword14: 0xAA45_6789, ..fields };
                assert!(Protection::parse(&format, &good, direction).is_ok(), "control {control:#x}");
            }
        }
    }

    #[test]
    fn pract_of_each_metadata_size() {
        let small = format(Guard::Crc64, Type::One, 0);
        let large = format(Guard::Crc16, Type::One, 0);
        assert_eq!(
            (Pract::Act.of_write(&small), Pract::Act.of_read(&small)),
            (Action::Insert, Action::Strip)
        );
        assert_eq!(
            (Pract::Act.of_write(&large), Pract::Act.of_read(&large)),
            (Action::Overwrite, Action::Pass)
        );
        assert_eq!((Pract::Pass.of_write(&small), Pract::Pass.of_read(&small)), (Action::Pass, Action::Pass));
    }
}
