//! Worth of a stored tuple: its origin, and its opinion of a block.

/// Origin of a tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// There is no tuple.
    Unknown,
    /// It came with the data.
    Written,
    /// It was made later, from what lay there.
    Adopted,
    /// Adopted, and the parity of its stripe held in the same pass.
    Vouched,
}

impl Origin {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Written, Self::Adopted, Self::Vouched];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unchecked",
            Self::Written => "written",
            Self::Adopted => "adopted",
            Self::Vouched => "vouched",
        }
    }

    /// Returns whether the tuple witnesses what the data were, and not only what they are.
    #[must_use]
    pub const fn is_witness(self) -> bool {
        matches!(self, Self::Written | Self::Vouched)
    }
}

/// The tag of a block to which other bytes are put that no host has just written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RestoredTag {
    /// An adopted one for these bytes: it must not speak for them.
    Adopted,
    /// The tag and the other metadata that it has, whether they match or not.
    Stays,
}

/// Opinion of a stored tuple of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Opinion {
    /// Nothing: there is no tuple, or it asks for no check.
    Unchecked,
    /// Nothing, because its page is lost.
    Lost,
    /// The block is the one that the tuple is of.
    Fits(Origin),
    /// It is not.
    Differs(Origin),
}

/// A block that was read, as its tuple sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// The opinion of the tuple.
    pub opinion: Opinion,
    /// The guard of the tuple, in its low bits; 0 without a tuple.
    pub guard: u64,
}
