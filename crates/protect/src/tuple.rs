//! The tuple beside a block.

use crate::format::{Format, MAX_TUPLE, Type, low_bits};
use crate::guard::Guard;

/// The fields of a tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tuple {
    /// The guard, in the low bits.
    pub guard: u64,
    /// The application tag.
    pub application: u16,
    /// The storage tag, in the low [`Format::storage_bits`].
    pub storage: u64,
    /// The reference tag, in the low [`Format::reference_bits`].
    pub reference: u64,
}

/// A tuple as it is on the wire and on media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TupleBytes {
    bytes: [u8; MAX_TUPLE],
    len: usize,
}

impl TupleBytes {
    /// The bytes: 8 or 16.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Tuple {
    /// The tuple in bytes. Bits of a field that the format has no room for are left out.
    #[must_use]
    pub fn encode(&self, format: &Format) -> TupleBytes {
        let space = self.space(format).to_be_bytes();
        let mut bytes = [0; MAX_TUPLE];
        match format.guard() {
            Guard::Crc16 => {
                bytes[..2].copy_from_slice(&(self.guard as u16).to_be_bytes());
                bytes[2..4].copy_from_slice(&self.application.to_be_bytes());
                bytes[4..8].copy_from_slice(&space[12..]);
            }
            Guard::Crc32c => {
                bytes[..4].copy_from_slice(&(self.guard as u32).to_be_bytes());
                bytes[4..6].copy_from_slice(&self.application.to_be_bytes());
                bytes[6..].copy_from_slice(&space[6..]);
            }
            Guard::Crc64 => {
                bytes[..8].copy_from_slice(&self.guard.to_be_bytes());
                bytes[8..10].copy_from_slice(&self.application.to_be_bytes());
                bytes[10..].copy_from_slice(&space[10..]);
            }
        }
        TupleBytes { bytes, len: format.tuple_bytes() }
    }

    /// Puts tuples into the metadata of blocks side by side, each at its place; other metadata
    /// stay. As many as there are of both.
    pub fn encode_all<'t>(format: &Format, tuples: impl Iterator<Item = &'t Self>, metadata: &mut [u8]) {
        let pitch = format.metadata_bytes();
        if format.guard() == Guard::Crc16 && pitch == format.tuple_bytes() {
            // Eight bytes are one number.
            let (storage_mask, shift) = (low_bits(format.storage_bits()), format.reference_bits());
            for (tuple, into) in tuples.zip(metadata.as_chunks_mut::<8>().0) {
                let tags = u64::from(tuple.application) << 32
                    | (tuple.storage & storage_mask) << shift
                    | tuple.reference & format.reference_mask();
                *into = (tuple.guard << 48 | tags).to_be_bytes();
            }
            return;
        }
        for (tuple, into) in tuples.zip(metadata.chunks_exact_mut(pitch)) {
            into[format.tuple_range()].copy_from_slice(tuple.encode(format).as_slice());
        }
    }

    /// The tuple in `bytes`.
    ///
    /// # Panics
    /// If `bytes` are not [`Format::tuple_bytes`].
    #[must_use]
    pub fn decode(format: &Format, bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), format.tuple_bytes(), "bytes of a tuple");
        // Tuples of 8 bytes have a 16-bit guard.
        let number = bytes.first_chunk().map_or_else(
            || u128::from(u64::from_be_bytes(bytes.first_chunk().copied().unwrap_or_default())),
            |bytes| u128::from_be_bytes(*bytes),
        );
        let space_bits = match format.guard() {
            Guard::Crc16 => 32,
            Guard::Crc32c => 80,
            Guard::Crc64 => 48,
        };
        let (storage, reference) = split_space(format, number & ((1 << space_bits) - 1));
        let application = (number >> space_bits) as u16;
        Self { guard: (number >> (space_bits + 16)) as u64, application, storage, reference }
    }

    /// Storage and reference tag as one number.
    fn space(&self, format: &Format) -> u128 {
        let storage = u128::from(self.storage & low_bits(format.storage_bits()));
        storage << format.reference_bits() | u128::from(self.reference & format.reference_mask())
    }

    /// Returns whether the tags say that nothing of this block is to be checked.
    #[must_use]
    pub fn is_escape(&self, format: &Format) -> bool {
        let all_ones = self.reference & format.reference_mask() == format.reference_mask();
        self.application == 0xFFFF && (format.kind() != Type::Three || all_ones)
    }
}

/// The storage tag and the reference tag of a storage and reference space.
pub(crate) fn split_space(format: &Format, space: u128) -> (u64, u64) {
    let reference = space as u64 & format.reference_mask();
    ((space >> format.reference_bits()) as u64 & low_bits(format.storage_bits()), reference)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Place;

    fn format(guard: Guard, sts: u32) -> Format {
        Format::new(4096, 16, guard, Type::One, Place::Last)
            .and_then(|format| format.with_storage_tag(sts, u64::MAX))
            .expect("a format")
    }

    #[test]
    fn bytes_of_each_format() {
        let tuple = Tuple { guard: 0x4F10, application: 0x1234, storage: 0, reference: 16 };
        let bytes = tuple.encode(&format(Guard::Crc16, 0));
        assert_eq!(bytes.as_slice(), [0x4F, 0x10, 0x12, 0x34, 0, 0, 0, 0x10]);
        let tuple = Tuple { guard: 0x4F10, application: 0x1234, storage: 0xABC, reference: 0x5_6789 };
        let bytes = tuple.encode(&format(Guard::Crc16, 12));
        assert_eq!(bytes.as_slice(), [0x4F, 0x10, 0x12, 0x34, 0xAB, 0xC5, 0x67, 0x89]);
        let bytes = tuple.encode(&format(Guard::Crc32c, 20));
        assert_eq!(
            bytes.as_slice(),
            [0, 0, 0x4F, 0x10, 0x12, 0x34, 0x00, 0xAB, 0xC0, 0, 0, 0, 0, 0x05, 0x67, 0x89]
        );
        let bytes = tuple.encode(&format(Guard::Crc64, 48));
        assert_eq!(bytes.as_slice(), [0, 0, 0, 0, 0, 0, 0x4F, 0x10, 0x12, 0x34, 0, 0, 0, 0, 0x0A, 0xBC]);
    }

    #[test]
    fn tuples_that_are_put_side_by_side_have_the_bytes_of_each() {
        let seeds = [0, u64::MAX, 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210];
        let tuples = seeds.map(|seed| Tuple {
            guard: seed.rotate_left(8),
            application: seed as u16,
            storage: seed >> 3,
            reference: !seed,
        });
        for (guard, sizes) in [(Guard::Crc16, 0..=32), (Guard::Crc32c, 16..=64), (Guard::Crc64, 0..=48)] {
            for (bytes, place) in
                [(8, Place::Last), (16, Place::First), (64, Place::First), (64, Place::Last)]
            {
                for sts in sizes.clone() {
                    let format = Format::new(4096, bytes, guard, Type::One, place)
                        .and_then(|format| format.with_storage_tag(sts, u64::MAX));
                    let Ok(format) = format else { continue };
                    let (mut all, mut each) = (vec![0xA5; 4 * bytes], vec![0xA5; 4 * bytes]);
                    Tuple::encode_all(&format, tuples.iter(), &mut all);
                    for (tuple, into) in tuples.iter().zip(each.chunks_exact_mut(bytes)) {
                        into[format.tuple_range()].copy_from_slice(tuple.encode(&format).as_slice());
                    }
                    assert_eq!(all, each, "{guard}, {bytes} bytes, {sts}");
                }
            }
        }
    }

    #[test]
    fn every_size_of_storage_tag_comes_back() {
        for (guard, sizes) in [(Guard::Crc16, 0..=32), (Guard::Crc32c, 16..=64), (Guard::Crc64, 0..=48)] {
            for sts in sizes {
                let format = format(guard, sts);
                for seed in [0, u64::MAX, 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210] {
                    let tuple = Tuple {
                        guard: seed & low_bits(guard.bits()),
                        application: seed as u16,
                        storage: seed & low_bits(sts),
                        reference: !seed & format.reference_mask(),
                    };
                    let bytes = tuple.encode(&format);
                    assert_eq!(Tuple::decode(&format, bytes.as_slice()), tuple, "{guard} {sts}");
                }
            }
        }
    }
}
