//! Types for numbers that must not be mixed up: byte offsets and counts, sectors, stripes, roles.
//!
//! A stripe index added to a byte offset, or a count of sectors taken for a count of bytes, is the
//! classic bug of storage code. Here each of these has its own type, and a conversion needs a named
//! method.

mod date;
mod duration;
mod rules;
mod size;
mod text;

pub use date::format_date;
pub use duration::{ParseDurationError, parse_duration};
pub use rules::Rules;
pub use size::{ParseSizeError, format_binary, format_decimal, parse_size};
pub use text::{is_shown, printable, printable_lines};

use std::fmt;

/// Bytes in a sector, the unit of every count in md's superblocks (always 512, whatever the drive's
/// own block size).
pub const SECTOR: u64 = 512;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl $name {
            /// The bare number, for arithmetic that the type does not offer.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A place on a device or in an array, in bytes from its start.
    ByteOffset(u64)
}
number! {
    /// A length in bytes.
    ByteCount(u64)
}
number! {
    /// A length or place in 512-byte sectors, as md's superblocks count.
    Sectors(u64)
}
number! {
    /// A stripe of an array: the chunks at the same place on every member. Counted from 0 at the
    /// start of the data area.
    StripeIndex(u64)
}
number! {
    /// The number of a member within its array (md's *role* or *raid disk*), from 0.
    Role(u16)
}

impl Sectors {
    /// The same length in bytes.
    ///
    /// Returns `None` if it does not fit 64 bits.
    #[must_use]
    pub const fn bytes(self) -> Option<u64> {
        self.0.checked_mul(SECTOR)
    }
}

impl Role {
    /// The role as an index into a list of members.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_know_their_bytes_and_their_limit() {
        assert_eq!(Sectors(2048).bytes(), Some(1 << 20));
        assert_eq!(Sectors(u64::MAX / 2).bytes(), None);
    }
}
