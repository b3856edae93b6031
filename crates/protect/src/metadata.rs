//! The metadata of a block, whatever the size of its data and the meaning of its reference tag.

use crate::format::{Format, InvalidFormat, Place, Type};
use crate::guard::Guard;

/// Format of the metadata of a block: its size, and the tuple in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MetadataFormat {
    guard: Guard,
    bytes: usize,
    place: Place,
    storage_bits: u32,
}

impl MetadataFormat {
    /// Only the tuple, with the least storage tag of the guard: none, or 16 bits with 32 bits of
    /// guard.
    #[must_use]
    pub const fn tuple(guard: Guard) -> Self {
        let storage_bits = match guard {
            Guard::Crc32c => 16,
            Guard::Crc16 | Guard::Crc64 => 0,
        };
        Self { guard, bytes: tuple_bytes(guard), place: Place::Last, storage_bits }
    }

    /// The same with so many bytes of metadata, among which the tuple has this place.
    ///
    /// # Errors
    /// If the tuple does not fit, or is first although it is all there is.
    pub fn with_bytes(self, bytes: usize, place: Place) -> Result<Self, InvalidFormat> {
        let problem = "bytes are only the tuple, which is then last";
        if place == Place::First && bytes == tuple_bytes(self.guard) {
            return Err(InvalidFormat { field: "PIL", value: bytes as u64, problem });
        }
        Self { bytes, place, ..self }.checked()
    }

    /// The same with a storage tag of so many bits.
    ///
    /// # Errors
    /// If the guard does not allow so many ([`Format::with_storage_tag`]).
    pub fn with_storage_bits(self, bits: u32) -> Result<Self, InvalidFormat> {
        Self { storage_bits: bits, ..self }.checked()
    }

    fn checked(self) -> Result<Self, InvalidFormat> {
        self.with_data(4096, Type::One, 0).map(|_| self)
    }

    /// The format of blocks with so many bytes of data, and this type and storage tag mask.
    ///
    /// # Errors
    /// If `data` is no power of two from 512 to 65,536.
    pub fn with_data(&self, data: usize, kind: Type, mask: u64) -> Result<Format, InvalidFormat> {
        Format::new(data, self.bytes, self.guard, kind, self.place)?.with_storage_tag(self.storage_bits, mask)
    }

    /// The checksum.
    #[must_use]
    pub const fn guard(&self) -> Guard {
        self.guard
    }

    /// Bytes of metadata.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Place of the tuple.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
    }

    /// Bits of the storage tag.
    #[must_use]
    pub const fn storage_bits(&self) -> u32 {
        self.storage_bits
    }

    /// Returns whether the tuple is all the metadata.
    #[must_use]
    pub const fn is_tuple(&self) -> bool {
        self.bytes == tuple_bytes(self.guard)
    }
}

/// Only the tuple.
impl From<Guard> for MetadataFormat {
    fn from(guard: Guard) -> Self {
        Self::tuple(guard)
    }
}

impl Format {
    /// The metadata.
    #[must_use]
    pub const fn metadata(&self) -> MetadataFormat {
        MetadataFormat {
            guard: self.guard(),
            bytes: self.metadata_bytes(),
            place: self.place(),
            storage_bits: self.storage_bits(),
        }
    }
}

const fn tuple_bytes(guard: Guard) -> usize {
    match guard {
        Guard::Crc16 => 8,
        Guard::Crc32c | Guard::Crc64 => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_a_format_make_the_same_format() {
        for guard in Guard::ALL {
            let tuple = MetadataFormat::tuple(guard);
            let format = tuple.with_data(512, Type::One, 0).unwrap();
            assert_eq!(Ok(format), Format::new(512, tuple.bytes(), guard, Type::One, Place::Last));
            assert_eq!((format.metadata(), tuple.is_tuple()), (tuple, true));
            assert_eq!(tuple.with_bytes(tuple.bytes(), Place::First).unwrap_err().field, "PIL");
            assert_eq!(tuple.with_bytes(4, Place::Last).unwrap_err().field, "MS");
            assert_eq!(tuple.with_storage_bits(65).unwrap_err().field, "STS");
            let large = tuple.with_bytes(64, Place::First).and_then(|all| all.with_storage_bits(24)).unwrap();
            let format = large.with_data(4096, Type::Two, 0xFF).unwrap();
            assert_eq!((format.metadata(), large.is_tuple()), (large, false));
            assert_eq!((format.tuple_range().start, format.storage_mask()), (0, 0xFF));
        }
    }
}
