//! A survey of a set of devices: their roles, the newest superblock, and contradictions.
//!
//! Assembly uses the first contradiction, inspection all of them.

use std::ops::Range;

use pumice_base::units::{Role, Sectors};

use super::error::{AssemblyError, Note};
use crate::bad_blocks::Oddity;
use crate::foreign::strangers;
use crate::journal::Journal;
use crate::ppl::Ppl;
use crate::probe::MemberRecord;
use crate::superblock::features::Features;
use crate::superblock::{Position, Resync, Superblock};
use crate::uuid::Uuid;

/// The part of a device in the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// In this role.
    Member(Role),
    /// Being filled to replace the member in this role.
    Replacement(Role),
    /// A spare.
    Spare,
    /// The journal.
    Journal,
    /// Known to have failed.
    Faulty,
    /// Contradicts the array; an error gives the reason.
    Refused,
    /// Of another array.
    Foreign,
}

/// A device of the set.
#[derive(Debug)]
pub(crate) struct Surveyed {
    pub(crate) device: String,
    pub(crate) record: MemberRecord,
    pub(crate) standing: Standing,
}

/// The survey of a set of devices.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) devices: Vec<Surveyed>,
    /// The device with the authoritative superblock.
    pub(crate) newest: usize,
    /// The device in each role.
    pub(crate) roles: Vec<Option<usize>>,
    pub(crate) errors: Vec<AssemblyError>,
    pub(crate) notes: Vec<Note>,
    /// Devices that have failed or were removed according to newer superblocks: errors only if
    /// nothing can be checked without them.
    left_out: Vec<AssemblyError>,
}

impl Survey {
    /// Surveys a set; `None` if it is empty.
    pub(crate) fn new(set: Vec<(String, MemberRecord)>) -> Option<Self> {
        let uuid = most_frequent(&set)?;
        let standing = |record: &MemberRecord| match record.superblock.array_uuid == uuid {
            true => Standing::Refused,
            false => Standing::Foreign,
        };
        let devices: Vec<_> = set
            .into_iter()
            .map(|(device, record)| Surveyed { device, standing: standing(&record), record })
            .collect();
        // Of several with the highest count the first.
        let ours = devices.iter().enumerate().filter(|(_, d)| d.standing != Standing::Foreign);
        let newest = ours.rev().max_by_key(|(_, d)| d.record.superblock.events)?.0;
        let roles = vec![None; usize::from(devices[newest].record.superblock.raid_disks)];
        let mut survey =
            Self { devices, newest, roles, errors: Vec::new(), notes: Vec::new(), left_out: Vec::new() };
        survey.foreigners();
        survey.duplicates();
        for index in 0..survey.devices.len() {
            if survey.devices[index].standing != Standing::Foreign {
                survey.devices[index].standing = survey.place(index);
            }
        }
        survey.arrangement();
        survey.strangers();
        survey.movements();
        survey.missing();
        survey.take_notes();
        Some(survey)
    }

    /// The authoritative superblock.
    pub(crate) fn newest(&self) -> &Superblock {
        &self.devices[self.newest].record.superblock
    }

    fn newest_device(&self) -> String {
        self.devices[self.newest].device.clone()
    }

    /// The members, by role.
    pub(crate) fn members(&self) -> impl Iterator<Item = (Role, &Surveyed)> {
        let members = self.roles.iter().enumerate();
        // The number of roles came from a u16.
        members.filter_map(|(role, index)| Some((Role(role as u16), &self.devices[(*index)?])))
    }

    /// Roles without a member.
    pub(crate) fn missing_roles(&self) -> Vec<Role> {
        let empty = self.roles.iter().enumerate().filter(|(_, index)| index.is_none());
        empty.map(|(role, _)| Role(role as u16)).collect()
    }

    /// Returns whether some stripe can be checked with the present members. A member of a mirror
    /// that is being rebuilt does not count as present.
    pub(crate) fn is_checkable(&self) -> bool {
        let missing_roles = self.missing_roles();
        let mut missing: Vec<usize> = missing_roles.iter().map(|role| role.index()).collect();
        let newest = self.newest();
        if newest.level.is_mirror() {
            let partly = self.members().filter(|(_, m)| valid_sectors(&m.record.superblock) < newest.size);
            missing.extend(partly.map(|(role, _)| role.index()));
        }
        // Numbers that no arrangement has are said by another error.
        newest.arrangement().map_or(true, |arrangement| arrangement.is_checkable_without(&missing))
    }

    /// Roles without a member that the newest superblock gives to a device outside the set: md does
    /// not report that member as missing; it was merely not named.
    pub(crate) fn roles_not_named(&self) -> Vec<Role> {
        let ours = self.devices.iter().filter(|d| d.standing != Standing::Foreign);
        let given: Vec<usize> = ours.map(|d| usize::from(d.record.superblock.dev_number)).collect();
        let table = &self.newest().dev_roles;
        let elsewhere = |role: &Role| {
            let holders = table.iter().enumerate().filter(|(_, p)| **p == Position::Active(*role));
            holders.into_iter().any(|(number, _)| !given.contains(&number))
        };
        self.missing_roles().into_iter().filter(elsewhere).collect()
    }

    /// The event counts may differ by one while md writes one superblock after another, by two
    /// where bits of a bitmap cover the difference.
    fn tolerance(&self) -> u64 {
        if self.newest().features.has(Features::BITMAP) { 2 } else { 1 }
    }

    fn foreigners(&mut self) {
        let expected = self.newest().array_uuid;
        let other = self.newest_device();
        let foreign = self.devices.iter().filter(|d| d.standing == Standing::Foreign);
        self.errors.extend(foreign.map(|d| AssemblyError::Foreign {
            device: d.device.clone(),
            found: d.record.superblock.array_uuid,
            other: other.clone(),
            expected,
        }));
    }

    fn duplicates(&mut self) {
        for (i, second) in self.devices.iter().enumerate() {
            let Some(uuid) = second.record.superblock.device_uuid else { continue };
            let earlier = self.devices[..i].iter().filter(|d| d.standing != Standing::Foreign);
            let twin = earlier.into_iter().find(|d| d.record.superblock.device_uuid == Some(uuid));
            if let Some(first) = twin.filter(|_| second.standing != Standing::Foreign) {
                self.errors.push(AssemblyError::DuplicateDevice {
                    first: first.device.clone(),
                    second: second.device.clone(),
                    uuid,
                });
            }
        }
    }

    /// Members with the marks of another use.
    fn strangers(&mut self) {
        let geometry = self.newest().geometry().ok();
        let members = self.members().map(|(role, m)| {
            let record = &m.record;
            (role, m.device.as_str(), &record.superblock, record.foreign.as_slice())
        });
        let found = strangers(members, geometry.as_ref()).map(Box::new);
        self.errors.extend(found.map(AssemblyError::Strangers));
    }

    /// The part of the device with this index, by the newest superblock.
    fn place(&mut self, index: usize) -> Standing {
        if let Some(other) = self.successor(index) {
            let device = self.devices[index].device.clone();
            self.notes.push(Note::Superseded { device, other });
            return Standing::Spare;
        }
        let own = &self.devices[index].record.superblock;
        let position = self.newest().position_of(own.dev_number);
        let outvoted = own.events < self.newest().events;
        let is_out = outvoted && matches!(position, Position::Spare | Position::Faulty);
        // A device that is out may describe the array as it was when it left.
        if let Some(error) = self.disagreement(index).filter(|_| !is_out) {
            self.errors.push(error);
            return Standing::Refused;
        }
        let dropped = |newer| AssemblyError::Dropped {
            device: self.devices[index].device.clone(),
            own: own.position(),
            other: self.newest_device(),
            newer,
        };
        match position {
            Position::Active(role) if own.features.has(Features::REPLACEMENT) => Standing::Replacement(role),
            Position::Active(role) => self.take_role(index, role),
            Position::Journal => Standing::Journal,
            Position::Spare | Position::Faulty => {
                let differs = own.position() != position && own.position() != Position::Spare;
                let error = differs.then(|| dropped(position));
                if outvoted {
                    self.left_out.extend(error);
                } else {
                    self.errors.extend(error);
                }
                if position == Position::Faulty { Standing::Faulty } else { Standing::Spare }
            }
        }
    }

    /// The device that has the number of this one now, in superblocks that this one has missed.
    fn successor(&self, index: usize) -> Option<String> {
        let own = &self.devices[index].record.superblock;
        let newer = |other: &&Surveyed| {
            let of = &other.record.superblock;
            other.standing != Standing::Foreign
                && of.dev_number == own.dev_number
                && of.events > own.events + self.tolerance()
                && own.device_uuid.is_some()
                && of.device_uuid.is_some()
                && of.device_uuid != own.device_uuid
        };
        self.devices.iter().find(newer).map(|other| other.device.clone())
    }

    fn take_role(&mut self, index: usize, role: Role) -> Standing {
        let device = self.devices[index].device.clone();
        let (events, newest) = (self.devices[index].record.superblock.events, self.newest().events);
        if newest - events > self.tolerance() {
            let other = self.newest_device();
            let level = self.newest().level;
            self.errors.push(AssemblyError::OutOfDate { device, events, other, newest, level, spare: false });
            return Standing::Refused;
        }
        match self.roles.get_mut(role.index()) {
            Some(Some(first)) => {
                let first = self.devices[*first].device.clone();
                self.errors.push(AssemblyError::DuplicateRole { first, second: device, role });
                Standing::Refused
            }
            Some(empty) => {
                *empty = Some(index);
                Standing::Member(role)
            }
            // A role past the end: the member is on its way out of a shrinking array, which is
            // refused as a reshape.
            None => Standing::Refused,
        }
    }

    /// The first field in which the device's superblock contradicts the newest one.
    fn disagreement(&self, index: usize) -> Option<AssemblyError> {
        let own = &self.devices[index].record.superblock;
        let (field, found, expected) = own.disagreement(self.newest())?;
        let (device, other) = (self.devices[index].device.clone(), self.newest_device());
        Some(AssemblyError::Disagree { device, field, found, other, expected })
    }

    /// Reports a layout of copies or chunks that is not supported.
    fn arrangement(&mut self) {
        let newest = self.newest_device();
        let error = self.newest().arrangement().err();
        self.errors.extend(error.map(|why| AssemblyError::Geometry { device: newest, why: why.to_string() }));
    }

    /// Reshape and resync.
    fn movements(&mut self) {
        let reshaping = self.devices.iter().filter(|d| d.standing != Standing::Foreign);
        let found = reshaping.into_iter().find_map(|d| Some((d, d.record.superblock.reshape?)));
        let error = found.map(|(d, reshape)| AssemblyError::Reshaping {
            device: d.device.clone(),
            position: reshape.position,
        });
        self.errors.extend(error);
        if let Resync::At(at) = self.newest().resync {
            let error = AssemblyError::Resyncing {
                device: self.newest_device(),
                at,
                size: self.newest().resync_sectors(),
            };
            self.errors.push(error);
        }
    }

    fn missing(&mut self) {
        let mut missing = self.missing_roles();
        let level = self.newest().level;
        let left_out = std::mem::take(&mut self.left_out);
        if !self.is_checkable() {
            self.errors.extend(left_out);
            self.errors.push(AssemblyError::Incomplete { missing, level });
            return;
        }
        self.notes.extend(left_out.into_iter().filter_map(|error| match error {
            AssemblyError::Dropped { device, other, newer, .. } => {
                Some(Note::LeftOut { device, other, newer })
            }
            _ => None,
        }));
        // The role of a member that is out of date is among the missing.
        for error in &mut self.errors {
            if let AssemblyError::OutOfDate { spare, .. } = error {
                *spare = true;
            }
        }
        let not_named = self.roles_not_named();
        missing.retain(|role| !not_named.contains(role));
        if !missing.is_empty() {
            self.notes.push(Note::Degraded { missing });
        }
        if !not_named.is_empty() {
            self.notes.push(Note::NotNamed { not_named });
        }
    }

    fn take_notes(&mut self) {
        let mut notes: Vec<Note> = self.bad_block_notes().collect();
        let size = self.newest().size;
        let clean = self.newest().resync == Resync::Done;
        for (_, member) in self.members() {
            let device = member.device.clone();
            let valid = valid_sectors(&member.record.superblock);
            if valid < size {
                notes.push(Note::Recovering { device: device.clone(), valid, size });
            }
            let stale = member.record.bitmap.as_ref().is_some_and(|b| {
                b.overridden() == Some(crate::bitmap::Override::Stale) && (b.is_lockless() || !clean)
            });
            if stale {
                notes.push(Note::BitmapStale { device: device.clone() });
            }
            if let (false, Some(Ppl::Unreadable(why))) = (clean, &member.record.ppl) {
                notes.push(Note::PplUnreadable { device, why: why.to_string() });
            }
        }
        if self.newest().features.has(Features::JOURNAL) {
            notes.extend(self.journal_note());
        }
        if self.unclean() && !self.tracked() {
            notes.push(Note::Unclean);
        }
        self.notes.extend(notes);
    }

    /// Notes about odd bad-block logs.
    fn bad_block_notes(&self) -> impl Iterator<Item = Note> {
        let ours = self.devices.iter().filter(|d| d.standing != Standing::Foreign);
        ours.filter_map(|d| {
            let device = d.device.clone();
            Some(match d.record.bad_block_oddity.as_ref()? {
                Oddity::Zeros => Note::BadBlockLogOfZeros { device },
                Oddity::Unread(why) => Note::BadBlockLogUnread { device, why: why.clone() },
            })
        })
    }

    /// The journal device.
    fn journal(&self) -> Option<&Surveyed> {
        self.devices.iter().find(|d| d.standing == Standing::Journal)
    }

    fn journal_note(&self) -> Option<Note> {
        let Some(journal) = self.journal() else { return Some(Note::JournalMissing) };
        let device = journal.device.clone();
        match &journal.record.journal {
            Some(Journal::Pending(stripes)) => {
                let stripes: u64 = stripes.iter().map(|range| range.end - range.start).sum();
                (stripes > 0).then_some(Note::JournalPending { device, stripes })
            }
            Some(Journal::Unknown(why)) => Some(Note::JournalUnknown { device, why }),
            None => Some(Note::JournalUnknown { device, why: "its superblock does not describe a journal" }),
        }
    }

    /// The stripes with writes waiting in a journal; `None` if it may be any.
    pub(crate) fn journal_stripes(&self) -> Option<Vec<Range<u64>>> {
        if !self.newest().features.has(Features::JOURNAL) {
            return Some(Vec::new());
        }
        match &self.journal()?.record.journal {
            Some(Journal::Pending(stripes)) => Some(stripes.clone()),
            _ => None,
        }
    }

    /// Returns whether writes may be, or have been, under way.
    pub(crate) fn unclean(&self) -> bool {
        self.newest().resync == Resync::Unclean
    }

    /// Returns whether the members record where writes may be under way.
    pub(crate) fn tracked(&self) -> bool {
        let mut members = self.members();
        members.any(|(_, m)| m.record.bitmap.is_some() || m.record.ppl.is_some())
    }
}

/// Valid length of a member's data area.
pub(crate) fn valid_sectors(superblock: &Superblock) -> Sectors {
    superblock.recovery_offset.map_or(superblock.size, |offset| offset.min(superblock.size))
}

/// The array that most devices belong to; of several the one that comes first.
fn most_frequent(set: &[(String, MemberRecord)]) -> Option<Uuid> {
    let count = |uuid: Uuid| set.iter().filter(|(_, r)| r.superblock.array_uuid == uuid).count();
    let uuids = set.iter().map(|(_, record)| record.superblock.array_uuid);
    // `max_by_key` takes the last of several.
    uuids.rev().max_by_key(|uuid| count(*uuid))
}
