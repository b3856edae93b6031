//! Result of a check.

use std::fmt;

/// A field of a tuple that failed its check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// The guard: block and tuple do not belong together, or one is damaged.
    Guard,
    /// The application tag.
    Application,
    /// The storage tag.
    Storage,
    /// The reference tag: the block belongs to another place.
    Reference,
}

impl Field {
    /// The NVMe status: code type in bits 8-10, code in bits 0-7.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Guard => 0x282,
            Self::Application => 0x283,
            Self::Reference => 0x284,
            Self::Storage => 0x288,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Guard => "guard",
            Self::Application => "application tag",
            Self::Storage => "storage tag",
            Self::Reference => "reference tag",
        })
    }
}

/// The first bad block of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Index of the block, from the first of the command: the LBA is the starting LBA plus this.
    pub block: u64,
    /// The field that failed.
    pub field: Field,
    /// The value that the field should have.
    pub expected: u64,
    /// The value in the tuple.
    pub found: u64,
}

impl Fault {
    /// The status that hosts get who do not see protection information: Unrecovered Read Error.
    pub const HIDDEN_STATUS: u16 = 0x281;

    /// The status that hosts get who see it: 282h, 283h, 284h or 288h.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.field.status()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block, field, expected, found } = self;
        write!(f, "block {block}: {field} is {found:#x}, not {expected:#x}")
    }
}
