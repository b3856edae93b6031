//! Protective steps that tests leave out, to see that something breaks.

/// A protective step that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Commands do not wait for each other.
    NoLocks,
    /// Data are written without a record.
    DataBeforeLog,
    /// The pages of a checkpoint are copied after the flush.
    CopyAfterFlush,
    /// Recovery asks the home tags only.
    HomeOnly,
    /// The sums of blocks are their CRC-32C, and recovery knows blocks by them alone.
    CrcAlone,
    /// The log is not synced before the data are written.
    NoLogSync,
    /// Pages are not synced before the log is released.
    NoPageSync,
    /// The drive is not flushed before pages go home.
    NoFlush,
    /// The drive is not flushed at the end of a recovery.
    NoRecoveryFlush,
    /// After a failed write the new tags are taken for granted.
    NoSecondLook,
    /// A write that the drive refused is settled by the next flush.
    RefusedIsSettled,
    /// Recovery writes every block again that fits nothing, torn or not.
    EverythingIsTorn,
    /// Recovery writes over blocks without keeping what they held.
    NotKept,
    /// The copies that recovery keeps are not synced before it writes over the blocks.
    NoKeptSync,
    /// What a look finds without a lock is taken for granted.
    LookIsFinal,
    /// Opening leaves the other slot of the header as it was.
    OneSlot,
    /// A view of the tag file counts although tags have changed since.
    OldViews,
    /// A view is made of pages that are not home.
    ViewsAnywhere,
    /// Bytes that come back get the tags that their blocks have when the command begins, and not
    /// when it has its turn.
    EarlyTags,
    /// A file that changes over to records without data gives kept blocks up.
    ChangesOverKept,
    /// One that changes over to records with data takes what lies there for heads of kept blocks.
    HeadsAsFound,
}

impl Mutation {
    /// Whether it matters only if records carry the data.
    pub(crate) const fn is_of_torn_blocks(self) -> bool {
        matches!(
            self,
            Self::EverythingIsTorn
                | Self::NotKept
                | Self::NoKeptSync
                | Self::ChangesOverKept
                | Self::HeadsAsFound
        )
    }
}

pub(crate) const ALL: [Mutation; 19] = [
    Mutation::NoLocks,
    Mutation::DataBeforeLog,
    Mutation::CopyAfterFlush,
    Mutation::HomeOnly,
    Mutation::CrcAlone,
    Mutation::NoLogSync,
    Mutation::NoPageSync,
    Mutation::NoFlush,
    Mutation::NoRecoveryFlush,
    Mutation::NoSecondLook,
    Mutation::RefusedIsSettled,
    Mutation::EverythingIsTorn,
    Mutation::NotKept,
    Mutation::NoKeptSync,
    Mutation::LookIsFinal,
    Mutation::OneSlot,
    Mutation::EarlyTags,
    Mutation::ChangesOverKept,
    Mutation::HeadsAsFound,
];
