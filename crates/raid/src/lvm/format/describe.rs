//! A RAID volume described for people, whether or not it can be checked.

use std::collections::BTreeSet;

use crate::assembly::{Member, State};
use crate::format::Seen;
use crate::inspect::{InspectMember, InspectReport, MemberState};
use pumice_base::units::{Role, SECTOR};

use super::Of;
use super::array::{FORMAT, good, member, notes, pieces, refusal, state};
use crate::lvm::group::Raid;
use crate::lvm::volume::{PvPlace, RaidVolume, Refusal};

/// The devices on which parts of a volume lie.
pub(super) fn devices_of(of: &Of<'_>) -> Vec<usize> {
    let mut out = BTreeSet::new();
    match &of.candidate.volume {
        Ok(volume) => {
            for image in &volume.images {
                out.extend(pieces(of, image).into_iter().flatten().map(|piece| piece.device));
            }
        }
        // Where its parts lie is not known for sure.
        Err(_) => out.extend(of.group.places.iter().filter_map(|place| match place {
            PvPlace::Device(device) => Some(*device),
            PvPlace::Absent(_) => None,
        })),
    }
    out.into_iter().collect()
}

/// The description; `None` if the text has no such volume.
pub(super) fn report(of: &Of<'_>, devices: &[Seen<'_>]) -> Option<InspectReport> {
    match &of.candidate.volume {
        Ok(volume) => Some(read(of, volume, devices)),
        Err(refusal) => {
            let group = &of.group.group;
            let lv = &group.logical[group.find(&of.candidate.name)?];
            Some(refused(of, lv.raid()?, lv.extents() * group.extent_bytes(), refusal))
        }
    }
}

fn read(of: &Of<'_>, volume: &RaidVolume, devices: &[Seen<'_>]) -> InspectReport {
    let members = volume.images.iter().map(|image| {
        let found = member(of, volume, image, devices).map(|(member, _)| member);
        InspectMember {
            role: Some(image.role),
            device: found.as_ref().map(|member| member.device.clone()),
            device_uuid: None,
            events: found.as_ref().map(|member| member.facts.events),
            state: match (&found, good(image)) {
                (None, _) => MemberState::Missing,
                (Some(_), Some(_)) => MemberState::Recovering,
                (Some(_), None) => MemberState::Active,
            },
            data_offset_bytes: found.as_ref().map(Member::data_offset_bytes),
        }
    });
    InspectReport {
        uuid: of.uuid(),
        name: of.name(),
        level: volume.arrangement.level(),
        layout: volume.arrangement.layout(),
        metadata: FORMAT,
        chunk_bytes: match volume.arrangement.parity() {
            None if volume.arrangement.layout().is_none() => 0,
            _ => volume.arrangement.chunk_bytes(),
        },
        raid_disks: volume.arrangement.raid_disks(),
        size_bytes: volume.arrangement.array_bytes(),
        stripes: volume.arrangement.stripes(),
        events: volume.events,
        state: state(volume),
        members: members.collect(),
        problems: refusal(volume).into_iter().collect(),
        notes: notes(of, volume),
    }
}

fn refused(of: &Of<'_>, raid: &Raid, size_bytes: u64, refusal: &Refusal) -> InspectReport {
    let members = (0..raid.images.len() as u16).map(|role| InspectMember {
        role: Some(Role(role)),
        device: None,
        device_uuid: None,
        events: None,
        state: MemberState::Unknown,
        data_offset_bytes: None,
    });
    InspectReport {
        uuid: of.uuid(),
        name: of.name(),
        level: raid.kind.level(),
        layout: None,
        metadata: FORMAT,
        chunk_bytes: raid.chunk_sectors * SECTOR,
        raid_disks: raid.images.len() as u16,
        size_bytes,
        stripes: 0,
        events: 0,
        state: match refusal {
            Refusal::Reshape { .. } => State::Reshaping,
            _ => State::Incomplete,
        },
        members: members.collect(),
        problems: vec![refusal.to_string()],
        notes: vec![format!("LVM type {}", raid.kind)],
    }
}
