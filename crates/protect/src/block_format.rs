//! The format of a namespace's blocks: the one place for sizes and lengths.

use crate::format::{Format, InvalidFormat};

/// The least and the largest data size of a block, as powers of two (LBADS).
const SHIFTS: std::ops::RangeInclusive<u32> = 9..=16;

/// Data of a block, and metadata if blocks have some.
///
/// A drive is addressed by its data: byte offsets and [`data_len`](Self::data_len) never count
/// metadata. Hosts that see metadata transfer [`extended_len`](Self::extended_len).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockFormat {
    shift: u8,
    protection: Option<Format>,
}

impl BlockFormat {
    /// Blocks of 512 bytes without metadata.
    pub const SMALLEST: Self = Self { shift: 9, protection: None };

    /// Blocks without metadata, of so many bytes.
    ///
    /// # Errors
    /// If `data` is no power of two from 512 to 65,536.
    pub const fn plain(data: u32) -> Result<Self, InvalidFormat> {
        let shift = data.trailing_zeros();
        if !data.is_power_of_two() || shift < *SHIFTS.start() || shift > *SHIFTS.end() {
            let problem = "bytes of data are no power of two from 512 to 65536";
            return Err(InvalidFormat { field: "LBADS", value: data as u64, problem });
        }
        Ok(Self { shift: shift as u8, protection: None })
    }

    /// Blocks whose metadata have protection information.
    #[must_use]
    pub const fn protected(format: Format) -> Self {
        Self { shift: format.data_bytes().trailing_zeros() as u8, protection: Some(format) }
    }

    /// The data size as a power of two: 9 to 16 (LBADS).
    #[must_use]
    pub const fn shift(&self) -> u8 {
        self.shift
    }

    /// Data bytes of a block: 512 to 65,536.
    #[must_use]
    pub const fn data_bytes(&self) -> u32 {
        1 << self.shift
    }

    /// Metadata bytes of a block; 0 if blocks have none (MS).
    #[must_use]
    pub const fn metadata_bytes(&self) -> u32 {
        match &self.protection {
            // At most 4096.
            Some(format) => format.metadata_bytes() as u32,
            None => 0,
        }
    }

    /// The protection information of the metadata.
    #[must_use]
    pub const fn protection(&self) -> Option<&Format> {
        self.protection.as_ref()
    }

    /// Data bytes of so many blocks. The first byte of block `n` is at `data_len(n)`.
    ///
    /// # Panics
    /// If they are more than 2^64 - 1 bytes.
    #[must_use]
    pub const fn data_len(&self, blocks: u64) -> u64 {
        assert!(blocks.leading_zeros() >= self.shift as u32, "less than 2^64 bytes");
        blocks << self.shift
    }

    /// Data and metadata bytes of so many blocks.
    ///
    /// # Panics
    /// If they are more than 2^64 - 1 bytes.
    #[must_use]
    pub const fn extended_len(&self, blocks: u64) -> u64 {
        let block = self.data_bytes() as u64 + self.metadata_bytes() as u64;
        blocks.checked_mul(block).expect("less than 2^64 bytes")
    }

    /// Whole blocks in so many bytes of data.
    #[must_use]
    pub const fn blocks_in(&self, bytes: u64) -> u64 {
        bytes >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Place, Type};
    use crate::guard::Guard;

    #[test]
    fn lengths_are_blocks_by_their_bytes() {
        let plain = BlockFormat::plain(4096).expect("a size");
        assert_eq!((plain.data_len(3), plain.extended_len(3), plain.blocks_in(12_287)), (12_288, 12_288, 2));
        let format = Format::new(4096, 64, Guard::Crc64, Type::One, Place::Last).expect("a format");
        let protected = BlockFormat::protected(format);
        assert_eq!((protected.shift(), protected.metadata_bytes()), (12, 64));
        assert_eq!((protected.data_len(3), protected.extended_len(3)), (12_288, 12_480));
        assert_eq!(BlockFormat::plain(512), Ok(BlockFormat::SMALLEST));
        for data in [0, 256, 513, 131_072, u32::MAX] {
            assert_eq!(BlockFormat::plain(data).expect_err("no size").field, "LBADS");
        }
        let all = BlockFormat::SMALLEST;
        assert_eq!(all.data_len(u64::MAX >> 9), u64::MAX >> 9 << 9);
        assert!(std::panic::catch_unwind(|| all.data_len(1 << 55)).is_err());
    }
}
