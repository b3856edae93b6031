//! Assembles an array from the superblocks of its members, or gives the reasons why that is
//! impossible.
//!
//! The superblock with the highest event count is authoritative. A device's role is the entry for
//! its device number in the role table of that superblock, not the role in the device's own
//! superblock: a member that dropped out still records its old role.

mod again;
mod error;
mod survey;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pumice_base::units::{Role, Sectors, StripeIndex};
use pumice_parity::array_layout::ArrayLayout;

pub use again::AgainError;
pub use error::{AssemblyError, Note};
pub use survey::Standing;
pub(crate) use survey::{Survey, valid_sectors};

use crate::arrangement::Arrangement;
use crate::bitmap::Bitmap;
use crate::metadata::Metadata;
use crate::probe::MemberRecord;
use crate::superblock::Resync;
use crate::superblock::features::Features;
use crate::uuid::Uuid;

/// The state of an array as a whole. If several apply, the last of them in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Stopped, or idle.
    Clean,
    /// Running, or not stopped cleanly, with a bitmap or partial parity log that shows where writes
    /// may be under way. On disk the two look the same.
    Active,
    /// Running, or not stopped cleanly, or never synced, and nothing shows where writes may be
    /// under way.
    Unclean,
    /// Members are missing; the rest can be checked.
    Degraded,
    /// A member is being rebuilt.
    Recovering,
    /// Parity is being built.
    Resyncing,
    /// The array is changing its shape.
    Reshaping,
    /// Too many members are missing for any check.
    Incomplete,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clean => "clean",
            Self::Active => "active",
            Self::Unclean => "unclean",
            Self::Degraded => "degraded",
            Self::Recovering => "recovering",
            Self::Resyncing => "resyncing",
            Self::Reshaping => "reshaping",
            Self::Incomplete => "incomplete",
        })
    }
}

impl State {
    pub(crate) fn of(survey: &Survey) -> Self {
        let newest = survey.newest();
        let recovering = survey.members().any(|(_, m)| valid_sectors(&m.record.superblock) < newest.size);
        let missing = survey.missing_roles().len();
        let states = [
            (survey.unclean() && survey.tracked(), Self::Active),
            (survey.unclean() && !survey.tracked(), Self::Unclean),
            (missing > 0, Self::Degraded),
            (recovering, Self::Recovering),
            (matches!(newest.resync, Resync::At(_)), Self::Resyncing),
            (
                survey
                    .devices
                    .iter()
                    .any(|d| d.standing != Standing::Foreign && d.record.superblock.reshape.is_some()),
                Self::Reshaping,
            ),
            (!survey.is_checkable(), Self::Incomplete),
        ];
        states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state).max().unwrap_or(Self::Clean)
    }
}

/// An array's record of writes under way, beside its superblocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRecords {
    /// Nowhere.
    None,
    /// In a bitmap.
    Bitmap,
    /// In partial parity logs.
    Ppl,
    /// In a journal.
    Journal,
}

/// A member of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The name under which the device was given.
    pub device: String,
    /// Its role.
    pub role: Role,
    /// md's records on it.
    pub record: MemberRecord,
}

impl Member {
    /// Bytes from the start of the device to its data area.
    #[must_use]
    pub const fn data_offset_bytes(&self) -> u64 {
        self.record.superblock.data_offset_bytes()
    }

    /// Valid length of the data area: all of it, unless the member is being rebuilt.
    #[must_use]
    pub fn valid_sectors(&self) -> Sectors {
        valid_sectors(&self.record.superblock)
    }

    /// The same in whole stripes of `geometry`.
    #[must_use]
    pub fn valid_stripes(&self, geometry: &Arrangement) -> u64 {
        geometry.valid_stripes(self.valid_sectors().get(), self.record.superblock.size.get())
    }
}

/// A device that belongs to the array and holds no data that a check reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// The name under which the device was given.
    pub device: String,
    /// Its kind.
    pub standing: Standing,
    /// md's records on it.
    pub record: MemberRecord,
}

/// An array whose stripes can be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    uuid: Uuid,
    name: String,
    metadata: Metadata,
    events: u64,
    ctime: u64,
    geometry: Arrangement,
    state: State,
    members: Vec<Option<Member>>,
    others: Vec<Other>,
    not_named: Vec<Role>,
    notes: Vec<Note>,
    resync: Resync,
    /// Stripes with writes waiting in the journal; `None` if it may be any.
    pub(crate) journal_stripes: Option<Vec<Range<u64>>>,
    untracked: bool,
    settled: bool,
    /// It is running, and its kernel reports that no resync, recovery or reshape is under way.
    pub(crate) running: bool,
    /// The members' bitmaps, without duplicates.
    pub(crate) bitmaps: Vec<Arc<Bitmap>>,
}

/// Sorts devices by the array they belong to.
#[must_use]
pub fn group(records: Vec<(String, MemberRecord)>) -> BTreeMap<Uuid, Vec<(String, MemberRecord)>> {
    let mut arrays: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (device, record) in records {
        arrays.entry(record.superblock.array_uuid).or_default().push((device, record));
    }
    arrays
}

/// Assembles one array from `set`: pairs of a device's name and its record from [`crate::probe()`].
///
/// One missing member is accepted at RAID-6, none at RAID-4 and RAID-5: because then no parity
/// would be left to check. Members of mirrors may be missing as long as some chunk has two copies.
/// A member that is being rebuilt counts as missing above its `recovery_offset`. Spares,
/// replacements and the journal are recognised but not read.
///
/// # Errors
/// The first contradiction, see [`AssemblyError`]; [`crate::InspectReport`] lists all.
pub fn assemble(set: Vec<(String, MemberRecord)>) -> Result<Array, AssemblyError> {
    let mut survey = Survey::new(set).ok_or(AssemblyError::Empty)?;
    if !survey.errors.is_empty() {
        return Err(survey.errors.swap_remove(0));
    }
    Array::new(survey)
}

impl Array {
    fn new(survey: Survey) -> Result<Self, AssemblyError> {
        let state = State::of(&survey);
        let journal_stripes = survey.journal_stripes();
        let untracked = survey.unclean() && !survey.tracked();
        let not_named = survey.roles_not_named();
        let newest = survey.newest().clone();
        let geometry = newest.arrangement().map_err(|why| AssemblyError::Geometry {
            device: survey.devices[survey.newest].device.clone(),
            why: why.to_string(),
        })?;
        let mut members: Vec<Option<Member>> = vec![None; usize::from(newest.raid_disks)];
        let mut others = Vec::new();
        let mut bitmaps: Vec<Arc<Bitmap>> = Vec::new();
        for surveyed in survey.devices {
            let (device, record, standing) = (surveyed.device, surveyed.record, surveyed.standing);
            let Standing::Member(role) = standing else {
                others.push(Other { device, standing, record });
                continue;
            };
            if let Some(bitmap) =
                record.bitmap.as_ref().filter(|b| !bitmaps.iter().any(|known| **b == **known))
            {
                bitmaps.push(Arc::new(bitmap.clone()));
            }
            if let Some(slot) = members.get_mut(role.index()) {
                *slot = Some(Member { device, role, record });
            }
        }
        Ok(Self {
            uuid: newest.array_uuid,
            name: newest.name,
            metadata: newest.metadata,
            events: newest.events,
            ctime: newest.ctime,
            geometry,
            state,
            members,
            others,
            not_named,
            notes: survey.notes,
            resync: newest.resync,
            journal_stripes,
            untracked,
            settled: false,
            running: false,
            bitmaps,
        })
    }

    /// Its UUID.
    #[must_use]
    pub const fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Its name, often `host:name`; empty in 0.90.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The format of its superblocks.
    #[must_use]
    pub const fn metadata(&self) -> Metadata {
        self.metadata
    }

    /// The highest event count.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Time of creation, in seconds since 1970.
    #[must_use]
    pub const fn ctime(&self) -> u64 {
        self.ctime
    }

    /// The arrangement of its chunks.
    #[must_use]
    pub const fn geometry(&self) -> &Arrangement {
        &self.geometry
    }

    /// The layout of its stripes on its members, without parts that are specific to md.
    #[must_use]
    pub fn layout(&self) -> ArrayLayout {
        self.geometry.array_layout()
    }

    /// Its state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// The members by role, `None` if one is missing.
    #[must_use]
    pub fn members(&self) -> &[Option<Member>] {
        &self.members
    }

    /// The member in `role`.
    #[must_use]
    pub fn member(&self, role: Role) -> Option<&Member> {
        self.members.get(role.index())?.as_ref()
    }

    /// Roles whose device was merely not named: the newest superblock gives the role to a device
    /// that is not in the set. By md's own superblocks, any other missing role has no member.
    #[must_use]
    pub fn not_named(&self) -> &[Role] {
        &self.not_named
    }

    /// Spares, replacements and the journal.
    #[must_use]
    pub fn others(&self) -> &[Other] {
        &self.others
    }

    /// Notes for readers of the results.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns whether writes may be under way, or have been when the array stopped.
    #[must_use]
    pub fn unclean(&self) -> bool {
        self.resync == Resync::Unclean
    }

    /// Returns whether it is known which stripes have writes waiting in a journal: always where
    /// there is none.
    #[must_use]
    pub const fn is_journal_known(&self) -> bool {
        self.journal_stripes.is_some()
    }

    /// Returns whether nothing can be checked unless the operator declares the array settled: it is
    /// not clean, and nothing shows where writes may be under way.
    #[must_use]
    pub const fn needs_assume_settled(&self) -> bool {
        self.untracked && !self.settled
    }

    /// Assumes, on the operator's declaration, that parity agrees with the data although the
    /// superblocks do not show it.
    pub const fn assume_settled(&mut self) {
        self.settled = true;
    }

    /// Assumes, on the kernel's report, that the array is running and that no resync, recovery or
    /// reshape is under way. Writes under way according to superblocks, bitmap and partial parity
    /// log will then end; they were not cut off. A caller must settle inconsistencies of such an
    /// array before they count.
    pub const fn assume_running(&mut self) {
        self.settled = true;
        self.running = true;
    }

    /// Returns whether it was assumed to be running.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.running
    }

    /// Returns whether parity was assumed, on the operator's declaration, to agree with the data.
    #[must_use]
    pub const fn is_assumed_settled(&self) -> bool {
        self.settled && !self.running
    }

    /// The record of writes under way beside the superblocks.
    #[must_use]
    pub fn write_records(&self) -> WriteRecords {
        let members = || self.members.iter().flatten();
        let journal = self.journal_device().is_some() || self.journal_stripes.is_none();
        if journal || members().any(|m| m.record.superblock.features.has(Features::JOURNAL)) {
            WriteRecords::Journal
        } else if members().any(|m| m.record.superblock.bitmap.is_some()) {
            WriteRecords::Bitmap
        } else if members().any(|m| m.record.superblock.ppl.is_some()) {
            WriteRecords::Ppl
        } else {
            WriteRecords::None
        }
    }

    /// The roles whose chunk of `stripe` cannot be used: no member, or one that has not been
    /// rebuilt that far.
    #[must_use]
    pub fn absent(&self, stripe: StripeIndex) -> Vec<Role> {
        // The number of roles came from a u16.
        let roles = (0..).map(Role).zip(&self.members);
        let absent = |member: &Option<Member>| {
            member.as_ref().is_none_or(|m| m.valid_stripes(&self.geometry) <= stripe.get())
        };
        roles.filter(|(_, member)| absent(member)).map(|(role, _)| role).collect()
    }
}
