//! Formats: where the tuple is, and what its fields are.

use crate::guard::Guard;
use std::ops::Range;
use thiserror::Error;

/// The most metadata bytes of a block.
pub const MAX_METADATA: usize = 4096;
/// The most bytes of a tuple.
pub const MAX_TUPLE: usize = 16;

/// The type of protection: what the reference tag means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// The reference tag is the low bits of the LBA.
    One,
    /// The reference tag starts at any value and counts up.
    Two,
    /// The reference tag is opaque: not counted up, not checked.
    Three,
}

/// Place of the tuple in the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The first bytes; the guard covers the data.
    First,
    /// The last bytes; the guard covers the data and the metadata before the tuple.
    Last,
}

/// A format that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{field}: {value} {problem}")]
pub struct InvalidFormat {
    /// The field, as the NVM Command Set specification calls it.
    pub field: &'static str,
    /// The value given.
    pub value: u64,
    /// The problem with the value.
    pub problem: &'static str,
}

/// The fields of Identify that make a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdentifyFields {
    /// LBADS: the data size of a block is 2 to the power of this, in bytes.
    pub lbads: u8,
    /// MS: metadata bytes of a block.
    pub ms: u16,
    /// DPS: type in bits 0-2, place in bit 3.
    pub dps: u8,
    /// ELBAF: STS in bits 0-6, PIF in bits 7-8; 0 without extended formats.
    pub elbaf: u32,
    /// LBSTM: the bits of the storage tag that are compared.
    pub lbstm: u64,
}

/// Format of a namespace's blocks: sizes, place and type of the tuple, and its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    data: usize,
    metadata: usize,
    guard: Guard,
    kind: Type,
    place: Place,
    /// Bits of the storage tag.
    sts: u32,
    /// The bits of the storage tag that are compared.
    storage_mask: u64,
}

impl Format {
    /// A format without storage tag (with one of 16 bits and mask 0 if the guard has 32 bits, which
    /// is the least).
    ///
    /// # Errors
    /// If `data` (bytes) is no power of two from 512 to 65,536, or `metadata` (bytes) below the
    /// tuple or above [`MAX_METADATA`].
    pub fn new(
        data: usize,
        metadata: usize,
        guard: Guard,
        kind: Type,
        place: Place,
    ) -> Result<Self, InvalidFormat> {
        let wrong = |field, value: usize, problem| InvalidFormat { field, value: value as u64, problem };
        if !data.is_power_of_two() || !(512..=65_536).contains(&data) {
            return Err(wrong("LBADS", data, "bytes of data are no power of two from 512 to 65536"));
        }
        let sts = *storage_bits(guard).start();
        let format = Self { data, metadata, guard, kind, place, sts, storage_mask: 0 };
        if metadata < format.tuple_bytes() {
            return Err(wrong("MS", metadata, "bytes of metadata do not hold the tuple"));
        }
        if metadata > MAX_METADATA {
            return Err(wrong("MS", metadata, "bytes of metadata are more than 4096"));
        }
        Ok(format)
    }

    /// The same format with a storage tag of `bits`, of which those in `mask` are compared.
    ///
    /// # Errors
    /// If the guard does not allow so many bits: 0 to 32 with 16 bits of guard, 16 to 64 with 32, 0
    /// to 48 with 64.
    pub fn with_storage_tag(self, bits: u32, mask: u64) -> Result<Self, InvalidFormat> {
        if !storage_bits(self.guard).contains(&bits) {
            let problem = "bits of storage tag are not possible with this guard";
            return Err(InvalidFormat { field: "STS", value: u64::from(bits), problem });
        }
        Ok(Self { sts: bits, storage_mask: mask & low_bits(bits), ..self })
    }

    /// The format that Identify describes; `None` if protection information is off (type 0).
    ///
    /// # Errors
    /// With the name of the field, if there is no such format.
    pub fn from_identify(fields: &IdentifyFields) -> Result<Option<Self>, InvalidFormat> {
        let wrong = |field, value, problem| Err(InvalidFormat { field, value, problem });
        if fields.dps >> 4 != 0 {
            return wrong("DPS", u64::from(fields.dps), "has reserved bits set");
        }
        let kind = match fields.dps & 7 {
            0 => return Ok(None),
            1 => Type::One,
            2 => Type::Two,
            3 => Type::Three,
            _ => return wrong("DPS", u64::from(fields.dps), "is no type of protection"),
        };
        let place = if fields.dps & 8 == 0 { Place::Last } else { Place::First };
        let guard = match fields.elbaf >> 7 & 3 {
            0 => Guard::Crc16,
            1 => Guard::Crc32c,
            2 => Guard::Crc64,
            _ => return wrong("PIF", 3, "(qualified formats) is not supported"),
        };
        if !(9..=16).contains(&fields.lbads) {
            return wrong("LBADS", u64::from(fields.lbads), "is not from 9 to 16");
        }
        Self::new(1 << fields.lbads, usize::from(fields.ms), guard, kind, place)?
            .with_storage_tag(fields.elbaf & 0x7F, fields.lbstm)
            .map(Some)
    }

    /// Data bytes of a block.
    #[must_use]
    pub const fn data_bytes(&self) -> usize {
        self.data
    }

    /// Metadata bytes of a block.
    #[must_use]
    pub const fn metadata_bytes(&self) -> usize {
        self.metadata
    }

    /// Data and metadata bytes of a block.
    #[must_use]
    pub const fn block_bytes(&self) -> usize {
        self.data + self.metadata
    }

    /// Bytes of the tuple: 8 or 16.
    #[must_use]
    pub const fn tuple_bytes(&self) -> usize {
        match self.guard {
            Guard::Crc16 => 8,
            Guard::Crc32c | Guard::Crc64 => MAX_TUPLE,
        }
    }

    /// Range of the tuple, in bytes from the start of the metadata.
    #[must_use]
    pub const fn tuple_range(&self) -> Range<usize> {
        let start = match self.place {
            Place::First => 0,
            Place::Last => self.metadata - self.tuple_bytes(),
        };
        start..start + self.tuple_bytes()
    }

    /// Bytes of an extended block that the guard covers: the data, and the metadata before the
    /// tuple.
    #[must_use]
    pub const fn covered_bytes(&self) -> usize {
        self.data + self.tuple_range().start
    }

    /// The checksum.
    #[must_use]
    pub const fn guard(&self) -> Guard {
        self.guard
    }

    /// The type.
    #[must_use]
    pub const fn kind(&self) -> Type {
        self.kind
    }

    /// The place of the tuple.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
    }

    /// Bits of the storage tag: 0 to 64.
    #[must_use]
    pub const fn storage_bits(&self) -> u32 {
        self.sts
    }

    /// The bits of the storage tag that are compared.
    #[must_use]
    pub const fn storage_mask(&self) -> u64 {
        self.storage_mask
    }

    /// Bits of the storage and reference space: 32, 80 or 48.
    #[must_use]
    pub(crate) const fn space_bits(&self) -> u32 {
        match self.guard {
            Guard::Crc16 => 32,
            Guard::Crc32c => 80,
            Guard::Crc64 => 48,
        }
    }

    /// Bits of the reference tag: 0 to 64.
    #[must_use]
    pub const fn reference_bits(&self) -> u32 {
        self.space_bits() - self.sts
    }

    /// All ones of the reference tag; 0 if there is none.
    #[must_use]
    pub const fn reference_mask(&self) -> u64 {
        low_bits(self.reference_bits())
    }
}

/// The sizes of storage tag that a guard allows, in bits.
const fn storage_bits(guard: Guard) -> std::ops::RangeInclusive<u32> {
    match guard {
        Guard::Crc16 => 0..=32,
        Guard::Crc32c => 16..=64,
        Guard::Crc64 => 0..=48,
    }
}

/// So many ones: 0 to 64.
pub(crate) const fn low_bits(bits: u32) -> u64 {
    if bits == 0 { 0 } else { u64::MAX >> (64 - bits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(fields: IdentifyFields) -> &'static str {
        Format::from_identify(&fields).expect_err("no such format").field
    }

    #[test]
    fn formats_that_do_not_exist_are_refused_by_field() {
        let good = IdentifyFields { lbads: 12, ms: 16, dps: 1, elbaf: 0, lbstm: 0 };
        assert!(Format::from_identify(&good).is_ok());
        assert_eq!(field(IdentifyFields { lbads: 8, ..good }), "LBADS");
        assert_eq!(field(IdentifyFields { lbads: 17, ..good }), "LBADS");
        assert_eq!(field(IdentifyFields { lbads: 255, ..good }), "LBADS");
        assert_eq!(field(IdentifyFields { ms: 7, ..good }), "MS");
        assert_eq!(field(IdentifyFields { ms: 4097, ..good }), "MS");
        assert_eq!(field(IdentifyFields { ms: 15, elbaf: 2 << 7, ..good }), "MS");
        assert_eq!(field(IdentifyFields { dps: 4, ..good }), "DPS");
        assert_eq!(field(IdentifyFields { dps: 0x11, ..good }), "DPS");
        assert_eq!(field(IdentifyFields { dps: 0x10, ..good }), "DPS");
        assert_eq!(field(IdentifyFields { elbaf: 3 << 7, ..good }), "PIF");
        assert_eq!(field(IdentifyFields { elbaf: 33, ..good }), "STS");
        assert_eq!(field(IdentifyFields { elbaf: 1 << 7 | 15, ..good }), "STS");
        assert_eq!(field(IdentifyFields { elbaf: 1 << 7 | 65, ..good }), "STS");
        assert_eq!(field(IdentifyFields { elbaf: 2 << 7 | 49, ..good }), "STS");
        // Off, whatever else.
        assert_eq!(Format::from_identify(&IdentifyFields::default()), Ok(None));
    }

    #[test]
    fn fields_of_identify_say_the_format() {
        let fields = IdentifyFields { lbads: 12, ms: 64, dps: 0b1010, elbaf: 1 << 7 | 20, lbstm: u64::MAX };
        let format = Format::from_identify(&fields).expect("a format").expect("protection is on");
        let same = Format::new(4096, 64, Guard::Crc32c, Type::Two, Place::First)
            .and_then(|f| f.with_storage_tag(20, 0xF_FFFF))
            .expect("the same");
        assert_eq!(format, same);
        assert_eq!(
            (format.reference_bits(), format.tuple_range(), format.covered_bytes()),
            (60, 0..16, 4096)
        );
        let last = Format::new(4096, 64, Guard::Crc16, Type::One, Place::Last).expect("a format");
        assert_eq!((last.tuple_range(), last.covered_bytes(), last.block_bytes()), (56..64, 4152, 4160));
    }
}
