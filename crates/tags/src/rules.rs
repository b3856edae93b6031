//! Rules of tags that a test can leave out, to see that data are lost or faults hidden.

/// A rule of the machine, of recovery, or of what carries the machine's actions out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "tests carry out actions, too, and leave rules out"))]
pub(crate) enum Rule {
    /// Commands that overlap wait for each other.
    Locks,
    /// Data are written when their record is durable.
    LogFirst,
    /// The pages of a checkpoint are copied before the flush.
    CopyFirst,
    /// Recovery asks the tags in the log, and not the home tags only.
    AsksLog,
    /// The sums of blocks depend on a secret, and CRC-32C alone tells nothing.
    KeyedSums,
    /// The log is synced before the data are written.
    LogSync,
    /// Pages are synced before the log is released.
    PageSync,
    /// The drive is flushed before pages go home.
    FlushFirst,
    /// The drive is flushed at the end of a recovery.
    RecoveryFlush,
    /// After a failed write its blocks are read again.
    SecondLook,
    /// A write that the drive refused is not settled by a flush.
    RefusedIsOpen,
    /// Recovery writes torn blocks again, and no others.
    OnlyTorn,
    /// Recovery keeps what blocks held before it writes over them.
    Kept,
    /// The copies that recovery keeps are synced before it writes over the blocks.
    KeptSync,
    /// Findings of a look without a lock are looked at again.
    LookUnderLock,
    /// Opening writes both slots of the header.
    BothSlots,
    /// A view of the tag file counts while no tag has changed since.
    CurrentViews,
    /// A view is made of pages that are home.
    ViewsOfHome,
    /// Bytes that come back get the tags that their blocks have when the command has its turn.
    TagsInTurn,
    /// A file that changes over to records without data keeps blocks that it holds.
    KeptStays,
    /// A file that changes over to records with data clears the heads of kept blocks.
    HeadsCleared,
}

#[cfg(test)]
impl Rule {
    /// Returns whether it matters only if records carry the data.
    pub(crate) const fn is_of_torn_blocks(self) -> bool {
        matches!(self, Self::OnlyTorn | Self::Kept | Self::KeptSync | Self::KeptStays | Self::HeadsCleared)
    }
}

/// The rules that the simulation of power cuts needs.
#[cfg(test)]
pub(crate) const ALL: [Rule; 19] = [
    Rule::Locks,
    Rule::LogFirst,
    Rule::CopyFirst,
    Rule::AsksLog,
    Rule::KeyedSums,
    Rule::LogSync,
    Rule::PageSync,
    Rule::FlushFirst,
    Rule::RecoveryFlush,
    Rule::SecondLook,
    Rule::RefusedIsOpen,
    Rule::OnlyTorn,
    Rule::Kept,
    Rule::KeptSync,
    Rule::LookUnderLock,
    Rule::BothSlots,
    Rule::TagsInTurn,
    Rule::KeptStays,
    Rule::HeadsCleared,
];
