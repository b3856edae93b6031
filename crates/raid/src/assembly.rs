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

use pumice_parity::array_layout::ArrayLayout;
use pumice_units::{Role, Sectors, StripeIndex};

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

/// The state of an array as a whole. Where several hold, the one that comes last here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Stopped, or idle.
    Clean,
    /// Running, or not stopped cleanly, with a bitmap or partial parity log that says where writes
    /// may be under way. On disk the two look the same.
    Active,
    /// Running, or not stopped cleanly, or never synced, and nothing says where.
    Unclean,
    /// Members are missing; what is left can be checked.
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

/// Where an array records writes under way, beside its superblocks.
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
    /// The name that the device was given with.
    pub device: String,
    /// Its role.
    pub role: Role,
    /// What md wrote on it.
    pub record: MemberRecord,
}

impl Member {
    /// Bytes from the start of the device to its data area.
    #[must_use]
    pub const fn data_offset_bytes(&self) -> u64 {
        self.record.superblock.data_offset_bytes()
    }

    /// Up to where the data area holds what it should: all of it, but for a member that is being
    /// rebuilt.
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
    /// The name that the device was given with.
    pub device: String,
    /// What it is.
    pub standing: Standing,
    /// What md wrote on it.
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
    /// It runs, under a kernel that says that nothing but writes is under way.
    pub(crate) running: bool,
    /// The members' bitmaps, each that differs once.
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

/// Makes one array of `set`, pairs of a device's name and what [`crate::probe()`] found on it.
///
/// One missing member is accepted at RAID-6, none at RAID-4 and RAID-5: without it no parity would
/// be left to check. Members of mirrors may be missing as long as some chunk has two copies. A
/// member that is being rebuilt counts as missing above its `recovery_offset`. Spares,
/// replacements and the journal are recognised and not read.
///
/// # Errors
/// The first thing that does not fit, see [`AssemblyError`]; [`crate::InspectReport`] lists all.
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

    /// When it was made, in seconds since 1970.
    #[must_use]
    pub const fn ctime(&self) -> u64 {
        self.ctime
    }

    /// How its chunks lie.
    #[must_use]
    pub const fn geometry(&self) -> &Arrangement {
        &self.geometry
    }

    /// How its stripes lie on its members, without what is md's alone.
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

    /// The roles without a member whose device was only not named: the newest superblock gives the
    /// role to a device that was not in the set. A role that is missing and not in this list is one
    /// that md itself holds to be missing.
    #[must_use]
    pub fn not_named(&self) -> &[Role] {
        &self.not_named
    }

    /// Spares, replacements and the journal.
    #[must_use]
    pub fn others(&self) -> &[Other] {
        &self.others
    }

    /// What a reader of the results should know.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Whether writes may be under way, or have been when the array stopped.
    #[must_use]
    pub fn unclean(&self) -> bool {
        self.resync == Resync::Unclean
    }

    /// Whether nothing can be checked unless the operator says that the array is settled: it is not
    /// clean and nothing says where writes may be under way.
    #[must_use]
    pub const fn needs_assume_settled(&self) -> bool {
        self.untracked && !self.settled
    }

    /// Takes the operator's word that parity agrees with the data although the superblocks do not
    /// say so.
    pub const fn assume_settled(&mut self) {
        self.settled = true;
    }

    /// Takes the kernel's word that the array runs and that no resync, recovery or reshape does:
    /// what superblocks, bitmap and partial parity log say of writes under way is then about writes
    /// that will end, not about writes that were cut off. Whoever checks such an array must look
    /// twice before it calls a stripe inconsistent.
    pub const fn assume_running(&mut self) {
        self.settled = true;
        self.running = true;
    }

    /// Whether it was taken as running.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.running
    }

    /// Whether the operator's word was taken that parity agrees with the data.
    #[must_use]
    pub const fn is_assumed_settled(&self) -> bool {
        self.settled && !self.running
    }

    /// Where writes under way are recorded beside the superblocks.
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
