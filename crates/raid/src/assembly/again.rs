//! Reads the state of the same array again, with as few reads as possible.

use pumice_base::units::{Role, SECTOR};
use std::ops::Range;

use super::{Array, AssemblyError, Standing, assemble};
use crate::bitmap::Bitmap;
use crate::probe::{Logs, MemberRecord, ProbeError, read_journal_device, read_rest, span, superblock_at};
use crate::read_at::ReadAt;
use crate::superblock::Resync;

/// The reason why the members of an array make no array any more, perhaps only for a moment.
#[derive(Debug, thiserror::Error)]
pub enum AgainError {
    /// A member has no superblock in its place.
    #[error("{0}: its md superblock is gone")]
    Gone(String),
    /// The superblock of a member, or a record beside it, is invalid or cannot be read.
    #[error("{device}: {source}")]
    Member {
        /// The member's device.
        device: String,
        /// Its error.
        source: ProbeError,
    },
    /// The superblocks contradict each other.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
}

impl Array {
    /// Reads the members again and assembles an array from them. It is as good as one from
    /// [`probe`](crate::probe()) for comparing members and [`plan`](Self::plan)s, but not for its
    /// state and notes. It is not assumed to be running, even if this one is: its plan has the
    /// present contents of bitmap and logs. The assumption that it is settled is kept.
    ///
    /// Usually one read per member is enough: superblocks are not searched in other places, bitmaps
    /// and partial parity logs are read only where the plan needs them, and bad-block logs only if
    /// they have entries. A role without a member here is left out. `journal` is the result of
    /// [`read_journal_again`](Self::read_journal_again); without it, an array that has a journal
    /// has no stripe to check.
    ///
    /// # Errors
    /// If a superblock is no longer in its place or invalid, or the members cannot be assembled:
    /// temporarily, while somebody writes superblocks one after another, or permanently.
    pub fn read_again(
        &self,
        devices: &[(Role, &dyn ReadAt)],
        journal: Option<MemberRecord>,
    ) -> Result<Self, AgainError> {
        let of = |device: &str| {
            let device = device.to_owned();
            move |source| AgainError::Member { device, source }
        };
        let mut seen = Vec::with_capacity(devices.len());
        for (role, device) in devices {
            let Some(member) = self.member(*role) else { continue };
            let superblock = superblock_at(device, self.metadata).map_err(of(&member.device))?;
            let superblock = superblock.ok_or_else(|| AgainError::Gone(member.device.clone()))?;
            seen.push((member, device, superblock));
        }
        // Whose superblock counts is settled by all of them; until then, one that is not clean is
        // enough.
        let unclean = seen.iter().any(|(.., new)| new.resync == Resync::Unclean);
        let mut set = Vec::with_capacity(seen.len() + 1);
        for (member, device, superblock) in seen {
            let known = member.record.bitmap.as_ref();
            let moved = superblock.bitmap != member.record.superblock.bitmap;
            let logs =
                Logs { bitmap: unclean || moved || known.is_some_and(Bitmap::is_lockless), ppl: unclean };
            let record = read_rest(device, superblock, logs).map_err(of(&member.device))?;
            set.push((member.device.clone(), record));
        }
        if let (Some(device), Some(record)) = (self.journal_device(), journal) {
            set.push((device.to_owned(), record));
        }
        let mut now = assemble(set)?;
        now.settled = self.settled;
        Ok(now)
    }

    /// The bytes of a member's device of `device_bytes` that [`read_again`](Self::read_again)
    /// always reads: its superblock's.
    #[must_use]
    pub fn superblock_span(&self, device_bytes: u64) -> Option<Range<u64>> {
        let sectors = device_bytes / SECTOR;
        Some(span(self.metadata.super_sector(sectors)?, sectors))
    }

    /// The name under which the journal device was given; `None` if the array has none, or it was
    /// not given.
    #[must_use]
    pub fn journal_device(&self) -> Option<&str> {
        let journal = self.others().iter().find(|other| other.standing == Standing::Journal)?;
        Some(&journal.device)
    }

    /// Reads the journal device again. `None` if it is invalid.
    #[must_use]
    pub fn read_journal_again(&self, device: &dyn ReadAt) -> Option<MemberRecord> {
        let superblock = superblock_at(device, self.metadata).ok()??;
        read_journal_device(device, superblock).ok()
    }
}
