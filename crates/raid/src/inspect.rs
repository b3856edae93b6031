//! A description of a set of devices for people: whole, degraded, or broken.
//!
//! Assembly stops at the first contradiction. Inspection reports everything that it can, and lists
//! all contradictions.

use std::fmt;

use pumice_base::units::Role;

use crate::assembly::{Standing, State, Survey, valid_sectors};
use crate::layout::{Layout, Level};
use crate::metadata::Metadata;
use crate::probe::{MemberRecord, ProbeError};
use crate::superblock::Superblock;
use crate::uuid::Uuid;

/// The result of probing a named device.
pub type Probed = (String, Result<Option<MemberRecord>, ProbeError>);

/// The part of a device, or of its absence, in the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// In its role and valid.
    Active,
    /// In its role and being rebuilt.
    Recovering,
    /// Nobody has the role.
    Missing,
    /// Known to have failed.
    Faulty,
    /// A spare.
    Spare,
    /// The journal.
    Journal,
    /// Being filled to replace a member.
    Replacement,
    /// Contradicts the array; a problem gives the reason.
    Refused,
    /// Of another array.
    Foreign,
    /// Has no valid superblock.
    Unknown,
}

impl fmt::Display for MemberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Recovering => "recovering",
            Self::Missing => "missing",
            Self::Faulty => "faulty",
            Self::Spare => "spare",
            Self::Journal => "journal",
            Self::Replacement => "replacement",
            Self::Refused => "refused",
            Self::Foreign => "foreign",
            Self::Unknown => "unknown",
        })
    }
}

/// A line of the list of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectMember {
    /// The role, where it has one.
    pub role: Option<Role>,
    /// The device; `None` if the role is empty.
    pub device: Option<String>,
    /// Its event count.
    pub events: Option<u64>,
    /// Its state.
    pub state: MemberState,
    /// Bytes from the start of the device to its data area.
    pub data_offset_bytes: Option<u64>,
}

/// The description of a set of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectReport {
    /// The array that most devices belong to.
    pub uuid: Uuid,
    /// Its name; empty in 0.90.
    pub name: String,
    /// The level.
    pub level: Level,
    /// The layout; `None` for RAID-4.
    pub layout: Option<Layout>,
    /// The format of the superblocks.
    pub metadata: Metadata,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Members, parity included.
    pub raid_disks: u16,
    /// Bytes of the array.
    pub size_bytes: u64,
    /// The highest event count.
    pub events: u64,
    /// The state.
    pub state: State,
    /// First the roles in order, then the other devices in the order given.
    pub members: Vec<InspectMember>,
    /// The reasons why the array cannot be checked.
    pub problems: Vec<String>,
    /// Notes for readers of the results of a check.
    pub notes: Vec<String>,
}

/// No device of a set has a valid superblock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", if .problems.is_empty() { "no device was given".to_owned() } else { .problems.join("\n") })]
pub struct NoArray {
    /// The result for each device.
    pub problems: Vec<String>,
}

impl InspectReport {
    /// Describes a set of devices by the superblock with the highest event count.
    ///
    /// # Errors
    /// If no device has a valid superblock, with the result for each device.
    pub fn new(set: Vec<Probed>) -> Result<Self, NoArray> {
        let mut records = Vec::new();
        let mut unknown = Vec::new();
        let mut problems = Vec::new();
        for (device, found) in set {
            let problem = match found {
                Ok(Some(record)) => {
                    records.push((device, record));
                    continue;
                }
                Ok(None) => format!("{device}: no md superblock"),
                Err(error) => format!("{device}: {error}"),
            };
            problems.push(problem);
            unknown.push(device);
        }
        let Some(survey) = Survey::new(records) else { return Err(NoArray { problems }) };
        problems.extend(survey.errors.iter().map(ToString::to_string));
        let mut members = members(&survey);
        members.extend(unknown.into_iter().map(|device| InspectMember {
            role: None,
            device: Some(device),
            events: None,
            state: MemberState::Unknown,
            data_offset_bytes: None,
        }));
        let newest = survey.newest();
        Ok(Self {
            uuid: newest.array_uuid,
            name: newest.name.clone(),
            level: newest.level,
            layout: newest.layout,
            metadata: newest.metadata,
            chunk_bytes: newest.chunk_bytes(),
            raid_disks: newest.raid_disks,
            size_bytes: array_bytes(newest),
            events: newest.events,
            state: State::of(&survey),
            members,
            problems,
            notes: survey.notes.iter().map(ToString::to_string).collect(),
        })
    }

    /// Returns whether nothing keeps the array from being checked.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Whole stripes of data.
fn array_bytes(superblock: &Superblock) -> u64 {
    superblock.arrangement().map_or(0, |arrangement| arrangement.array_bytes())
}

fn members(survey: &Survey) -> Vec<InspectMember> {
    let line = |index: usize, role, state| {
        let surveyed = &survey.devices[index];
        InspectMember {
            role,
            device: Some(surveyed.device.clone()),
            events: Some(surveyed.record.superblock.events),
            state,
            data_offset_bytes: Some(surveyed.record.superblock.data_offset_bytes()),
        }
    };
    let size = survey.newest().size;
    let in_role = (0..).map(Role).zip(&survey.roles).map(|(role, index)| match index {
        Some(index) if valid_sectors(&survey.devices[*index].record.superblock) < size => {
            line(*index, Some(role), MemberState::Recovering)
        }
        Some(index) => line(*index, Some(role), MemberState::Active),
        None => InspectMember {
            role: Some(role),
            device: None,
            events: None,
            state: MemberState::Missing,
            data_offset_bytes: None,
        },
    });
    let others = survey.devices.iter().enumerate().filter_map(|(index, surveyed)| {
        let (role, state) = match surveyed.standing {
            Standing::Member(_) => return None,
            Standing::Replacement(role) => (Some(role), MemberState::Replacement),
            Standing::Spare => (None, MemberState::Spare),
            Standing::Journal => (None, MemberState::Journal),
            Standing::Faulty => (None, MemberState::Faulty),
            Standing::Refused => (None, MemberState::Refused),
            Standing::Foreign => (None, MemberState::Foreign),
        };
        Some(line(index, role, state))
    });
    in_role.chain(others).collect()
}
