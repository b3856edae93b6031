//! The groups and RAID volumes of a set of devices, and which text counts.

use std::collections::BTreeMap;
use std::fmt;

use crate::ReadAt;
use crate::invalid::Invalid;
use pumice_base::units::SECTOR;
use thiserror::Error;

use crate::lvm::area::{self, AreaError};
use crate::lvm::group::{FieldError, Group, Identity, Physical};
use crate::lvm::id::Id;
use crate::lvm::label::{self, Header, Label};
use crate::lvm::text::{self, TextError};
use crate::lvm::volume::{Located, Missing, PvPlace, RaidVolume, Refusal};

/// A device to look at.
#[derive(Clone, Copy)]
pub struct Device<'d> {
    /// The name by which messages call it.
    pub name: &'d str,
    /// Its bytes.
    pub bytes: &'d dyn ReadAt,
}

/// Something on a device that is damaged or not understood.
#[derive(Debug, Error)]
pub enum DeviceProblem {
    /// Its first sectors cannot be read.
    #[error("label: {0}")]
    Unreadable(std::io::Error),
    /// No good label, and a damaged one, or a header with an invalid field.
    #[error(transparent)]
    Label(Invalid),
    /// It is smaller than its header says.
    #[error("the device has {has} bytes; its header says {says}")]
    Short {
        /// Bytes of the device.
        has: u64,
        /// Bytes of the header.
        says: u64,
    },
    /// A metadata area gives no text.
    #[error(transparent)]
    Area(AreaError),
    /// A text whose checksum is right, but which is not understood.
    #[error(transparent)]
    Text(UnknownText),
}

/// A text whose checksum is right, but whose group and age cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownText {
    /// Its grammar.
    #[error(transparent)]
    Grammar(#[from] TextError),
    /// Its id or age.
    #[error(transparent)]
    Identity(#[from] FieldError),
}

/// Content of a device.
#[derive(Debug)]
pub struct FoundDevice {
    /// Its name.
    pub name: String,
    /// The header of its physical volume, if it is one.
    pub header: Option<Header>,
    /// The groups and ages of its texts, without repetitions.
    pub texts: Vec<Identity>,
    /// Damage found on it.
    pub problems: Vec<DeviceProblem>,
}

/// The reason why a group is not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GroupProblem {
    /// Its newest text has an invalid field.
    #[error(transparent)]
    Text(#[from] FieldError),
    /// A device of it has a text that is not understood, and may be newer.
    #[error("{device} has a text that may be newer: {error}")]
    Unknown {
        /// The device.
        device: String,
        /// The part that is not understood.
        error: UnknownText,
    },
    /// Two texts of the same age say different things.
    #[error("{} and {} have different texts with seqno {seqno}", .devices.0, .devices.1)]
    Contradiction {
        /// Their age.
        seqno: u64,
        /// Two devices.
        devices: (String, String),
    },
    /// A physical volume is on two devices: copies of each other, or two ways to one.
    #[error("physical volume {id} is on {} and {}: name one of them", .devices.0, .devices.1)]
    Twice {
        /// The volume.
        id: Id,
        /// Two devices.
        devices: (String, String),
    },
}

/// A RAID volume of a group, or why it is not read.
#[derive(Debug)]
pub struct Candidate {
    /// Its name, without the group's.
    pub name: String,
    /// Its id.
    pub id: Id,
    /// The volume.
    pub volume: Result<RaidVolume, Refusal>,
}

/// A group that was read.
#[derive(Debug)]
pub struct Assembled {
    /// The newest text.
    pub group: Group,
    /// By physical volume of the text: where it is.
    pub places: Vec<PvPlace>,
    /// Its RAID volumes, in the order of their names.
    pub volumes: Vec<Candidate>,
}

impl Assembled {
    /// By physical volume: its device, of those that the group was read from, for
    /// [`Mapped::new`](crate::lvm::pieces::Mapped::new).
    ///
    /// # Panics
    /// If there are fewer devices than were read.
    #[must_use]
    pub fn devices<'d>(&self, devices: &[Device<'d>]) -> Vec<Option<&'d dyn ReadAt>> {
        at_places(&self.places, devices)
    }
}

fn at_places<'d>(places: &[PvPlace], devices: &[Device<'d>]) -> Vec<Option<&'d dyn ReadAt>> {
    let device = |place: &PvPlace| match place {
        PvPlace::Device(device) => Some(devices[*device].bytes),
        PvPlace::Absent(_) => None,
    };
    places.iter().map(device).collect()
}

/// A group of which a text was found.
#[derive(Debug)]
pub struct FoundGroup {
    /// Id, name and age of the newest text.
    pub identity: Identity,
    /// The group, or why it is not read.
    pub state: Result<Assembled, GroupProblem>,
}

/// Content of a set of devices.
#[derive(Debug)]
pub struct Survey {
    /// The devices, as they were given.
    pub devices: Vec<FoundDevice>,
    /// The groups, in the order of their ids.
    pub groups: Vec<FoundGroup>,
}

/// Result of reading a text.
type Read = Result<(Identity, Result<Group, FieldError>), UnknownText>;

/// The texts that were found; most devices of a group have the same one.
#[derive(Default)]
struct Texts {
    /// Each text once.
    distinct: Vec<(Vec<u8>, Read)>,
    /// The device and the text of each metadata area.
    areas: Vec<(usize, usize)>,
}

impl Texts {
    /// Adds what a metadata area of a device holds.
    fn add(&mut self, device: usize, bytes: Vec<u8>) -> &Read {
        let known = self.distinct.iter().position(|(other, _)| *other == bytes);
        let text = known.unwrap_or(self.distinct.len());
        if known.is_none() {
            let read = read(&bytes);
            self.distinct.push((bytes, read));
        }
        self.areas.push((device, text));
        &self.distinct[text].1
    }

    /// The texts of all areas, with the devices.
    fn read(&self) -> impl Iterator<Item = (usize, &Read)> {
        self.areas.iter().map(|(device, text)| (*device, &self.distinct[*text].1))
    }
}

fn read(bytes: &[u8]) -> Read {
    let file = text::parse(bytes)?;
    Ok((Identity::of(&file)?, Group::of(&file)))
}

/// A group's text: its device, what it is of, what it says.
type Version<'t> = (usize, &'t Identity, &'t Result<Group, FieldError>);

/// Reads all devices: their labels, the texts of their metadata areas, and the superblocks of the
/// RAID volumes.
#[must_use]
pub fn survey(devices: &[Device<'_>]) -> Survey {
    let mut texts = Texts::default();
    let found: Vec<FoundDevice> =
        devices.iter().enumerate().map(|(index, device)| look(index, *device, &mut texts)).collect();
    let mut groups: BTreeMap<Id, Vec<Version<'_>>> = BTreeMap::new();
    let mut unknown = Vec::new();
    for (device, read) in texts.read() {
        match read {
            Ok((identity, group)) => groups.entry(identity.id).or_default().push((device, identity, group)),
            Err(error) => unknown.push((device, error)),
        }
    }
    let chosen: Vec<_> = groups.values().filter_map(|versions| newest(versions, &found)).collect();
    // By physical volume, the groups whose text has it.
    let mut claims: BTreeMap<Id, Vec<&Identity>> = BTreeMap::new();
    for (identity, group) in &chosen {
        for pv in group.iter().flat_map(|group| &group.physical) {
            claims.entry(pv.id).or_default().push(identity);
        }
    }
    let scene = Scene { devices, found: &found, unknown, claims };
    let groups = chosen.iter().map(|(identity, group)| FoundGroup {
        identity: (*identity).clone(),
        state: group.clone().and_then(|group| scene.assemble(group)),
    });
    let groups = groups.collect();
    Survey { devices: found, groups }
}

/// Reads label and texts of a device.
fn look(index: usize, device: Device<'_>, texts: &mut Texts) -> FoundDevice {
    let mut out = FoundDevice { name: device.name.to_owned(), header: None, texts: vec![], problems: vec![] };
    let header = match label::read(device.bytes) {
        Ok(Label::None) => return out,
        Ok(Label::Found(Ok(header))) => header,
        Ok(Label::Found(Err(error)) | Label::Damaged(error)) => {
            out.problems.push(DeviceProblem::Label(error));
            return out;
        }
        Err(error) => {
            out.problems.push(DeviceProblem::Unreadable(error));
            return out;
        }
    };
    let (has, says) = (device.bytes.size_bytes(), header.device_bytes);
    if has < says {
        out.problems.push(DeviceProblem::Short { has, says });
    }
    for range in &header.areas {
        let bytes = match area::read(device.bytes, *range) {
            Ok(None) => continue,
            Ok(Some(bytes)) => bytes,
            Err(error) => {
                out.problems.push(DeviceProblem::Area(error));
                continue;
            }
        };
        match texts.add(index, bytes) {
            Ok((identity, _)) if out.texts.contains(identity) => {}
            Ok((identity, _)) => out.texts.push(identity.clone()),
            Err(error) => out.problems.push(DeviceProblem::Text(error.clone())),
        }
    }
    out.header = Some(header);
    out
}

/// The newest version of a group.
fn newest<'t>(
    versions: &[Version<'t>],
    found: &[FoundDevice],
) -> Option<(&'t Identity, Result<&'t Group, GroupProblem>)> {
    let (device, identity, group) = versions.iter().max_by_key(|(_, identity, _)| identity.seqno).copied()?;
    let same_age = versions.iter().filter(|(_, other, _)| other.seqno == identity.seqno);
    for (other_device, other, other_group) in same_age {
        if (*other, *other_group) != (identity, group) {
            let devices = (found[*other_device].name.clone(), found[device].name.clone());
            let problem = GroupProblem::Contradiction { seqno: identity.seqno, devices };
            return Some((identity, Err(problem)));
        }
    }
    Some((identity, group.as_ref().map_err(|error| GroupProblem::Text(error.clone()))))
}

/// All that a group is put together from.
struct Scene<'s, 'd> {
    devices: &'s [Device<'d>],
    found: &'s [FoundDevice],
    unknown: Vec<(usize, &'s UnknownText)>,
    claims: BTreeMap<Id, Vec<&'s Identity>>,
}

impl Scene<'_, '_> {
    fn assemble(&self, group: &Group) -> Result<Assembled, GroupProblem> {
        let places = group.physical.iter().map(|pv| self.place(group, pv)).collect::<Result<Vec<_>, _>>()?;
        let devices = at_places(&places, self.devices);
        let located = Located { group, places: &places, devices: &devices };
        let volumes = group.logical.iter().enumerate().filter_map(|(index, lv)| {
            let volume = RaidVolume::describe(&located, index)?;
            Some(Candidate { name: lv.name.clone(), id: lv.id, volume })
        });
        let volumes = volumes.collect();
        Ok(Assembled { group: group.clone(), places, volumes })
    }

    /// Place of a physical volume of a group.
    fn place(&self, group: &Group, pv: &Physical) -> Result<PvPlace, GroupProblem> {
        let is_it = |device: &FoundDevice| device.header.as_ref().is_some_and(|header| header.id == pv.id);
        let mut having = self.found.iter().enumerate().filter(|(_, device)| is_it(device));
        let Some((index, device)) = having.next() else { return Ok(PvPlace::Absent(Missing::NotFound)) };
        if let Some((_, other)) = having.next() {
            return Err(GroupProblem::Twice {
                id: pv.id,
                devices: (device.name.clone(), other.name.clone()),
            });
        }
        if let Some((_, error)) = self.unknown.iter().find(|(unknown, _)| *unknown == index) {
            return Err(GroupProblem::Unknown { device: device.name.clone(), error: (*error).clone() });
        }
        Ok(match self.missing(group, pv, index) {
            Some(why) => PvPlace::Absent(why),
            None => PvPlace::Device(index),
        })
    }

    /// The reason why a physical volume is not used although its device is there.
    fn missing(&self, group: &Group, pv: &Physical, index: usize) -> Option<Missing> {
        let device = &self.found[index];
        let header = device.header.as_ref()?;
        let own = &group.identity;
        if pv.missing {
            return Some(Missing::Stale);
        }
        if let Some(other) = device.texts.iter().find(|text| text.id != own.id) {
            return Some(Missing::Elsewhere(other.name.clone()));
        }
        if device.texts.is_empty() {
            if header.in_use == Some(false) {
                return Some(Missing::Unused);
            }
            if let Some(other) = self.claims.get(&pv.id)?.iter().find(|other| other.id != own.id) {
                return Some(Missing::Elsewhere(other.name.clone()));
            }
        }
        // Its bytes fit 64 bits, see `Group::of`.
        let needs = (pv.start_sector + pv.extents * group.extent_sectors) * SECTOR;
        let needs = needs.max(header.device_bytes);
        let has = self.devices[index].bytes.size_bytes();
        (has < needs).then_some(Missing::Short { has, needs })
    }
}

impl fmt::Display for FoundGroup {
    /// As LVM names it, with its age.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { id, name, seqno } = &self.identity;
        write!(f, "{name} ({id}, seqno {seqno})")
    }
}
