//! A RAID volume as an array that can be checked.

use crate::assembly::{Member, MemberFacts, State, Stated};
use crate::bitmap::Bitmap;
use crate::format::{MemberPlace, Piece, Placed, Seen, Unfit};
use pumice_base::units::{Role, SECTOR, Sectors};

use super::{Of, uuid_of};
use crate::lvm::volume::{Absence, Image, ImageState, Missing, PvPlace, RaidVolume, Regions};

/// The words for the format.
pub(super) const FORMAT: &str = "lvm2";

/// The pieces of an image on the devices; `None` if one has no place.
pub(super) fn pieces(of: &Of<'_>, image: &Image) -> Option<Vec<Piece>> {
    let piece = |piece: &crate::lvm::pieces::Piece| {
        let (pv, start) = piece.place?;
        match of.group.places[pv] {
            PvPlace::Device(device) => Some(Piece { device, start, bytes: piece.bytes }),
            PvPlace::Absent(_) => None,
        }
    };
    image.data.pieces.iter().map(piece).collect()
}

/// The member that an image is, with its place; `None` if it is absent.
pub(super) fn member(
    of: &Of<'_>,
    volume: &RaidVolume,
    image: &Image,
    devices: &[Seen<'_>],
) -> Option<(Member, MemberPlace)> {
    let valid = match image.state {
        ImageState::InSync => volume.image_sectors,
        ImageState::Recovering(sectors) => sectors,
        ImageState::Absent(_) => return None,
    };
    let pieces = pieces(of, image)?;
    let inside = volume.data_offset.get() * SECTOR;
    let (device, data_offset, place) = match pieces.as_slice() {
        // One piece is a place on its device, so that a node of that device can check it there.
        [one] => {
            let name = devices[one.device].name.to_owned();
            (name, one.start + inside, MemberPlace::Device(one.device))
        }
        _ => {
            let mut names: Vec<&str> = Vec::new();
            for piece in &pieces {
                if !names.contains(&devices[piece.device].name) {
                    names.push(devices[piece.device].name);
                }
            }
            let group = &of.group.group.identity.name;
            let name = format!("{group}/{} on {}", image.data.name, names.join(" and "));
            (name, inside, MemberPlace::Pieces(pieces))
        }
    };
    let facts = MemberFacts {
        identity: Some(uuid_of(of.group.group.identity.id, image.data.id)),
        number: image.role.0,
        events: volume.events,
        data_offset,
        size: volume.image_sectors,
        valid,
    };
    Some((Member { device, role: image.role, facts, record: None }, place))
}

/// The reasons why a volume is not checked, although it is read.
pub(super) fn refusal(volume: &RaidVolume) -> Option<String> {
    let missing = absent(volume);
    if let Some(at) = volume.resync {
        return Some(format!(
            "a resync is at array_resync_offset {at}: activate the volume, and let it finish"
        ));
    }
    if volume.has_journal() {
        return Some(
            "its images stand on dm-integrity with a journal, in which blocks may wait: check it through integrity mode bitmap, or without".to_owned(),
        );
    }
    if !volume.arrangement.is_checkable_without(&missing) {
        let roles: Vec<String> = missing.iter().map(ToString::to_string).collect();
        return Some(format!(
            "images {} are missing: with the others, nothing of {} can be checked",
            roles.join(", "),
            volume.kind
        ));
    }
    None
}

/// The images that are not used, by role.
pub(super) fn absent(volume: &RaidVolume) -> Vec<usize> {
    let absent = volume.images.iter().filter(|image| matches!(image.state, ImageState::Absent(_)));
    absent.map(|image| image.role.index()).collect()
}

/// The images whose devices were merely not named: the other images do not say that they are out,
/// nor does the text.
fn not_named(volume: &RaidVolume) -> Vec<Role> {
    let is_elsewhere = |image: &&Image| {
        let Some(bit) = 1u64.checked_shl(u32::from(image.role.0)) else { return false };
        volume.failed & bit == 0
            && matches!(&image.state, ImageState::Absent(Absence::Physical { why: Missing::NotFound, .. }))
    };
    volume.images.iter().filter(is_elsewhere).map(|image| image.role).collect()
}

/// The state of a volume.
pub(super) fn state(volume: &RaidVolume) -> State {
    let recovering = volume.images.iter().any(|image| matches!(image.state, ImageState::Recovering(_)));
    let dirty = !volume.dirty().is_empty();
    let states = [
        (dirty && is_tracked(volume), State::Active),
        (dirty && !is_tracked(volume), State::Unclean),
        (!absent(volume).is_empty(), State::Degraded),
        (recovering, State::Recovering),
        (volume.resync.is_some(), State::Resyncing),
        (!volume.arrangement.is_checkable_without(&absent(volume)), State::Incomplete),
    ];
    states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state).max().unwrap_or(State::Clean)
}

/// Returns whether every image in use has a bitmap that can be believed.
fn is_tracked(volume: &RaidVolume) -> bool {
    volume.in_use().all(|image| matches!(image.regions, Some(Regions::Known(_))))
}

/// The notes for readers of the results.
pub(super) fn notes(of: &Of<'_>, volume: &RaidVolume) -> Vec<String> {
    let mut out = vec![format!("LVM type {}", volume.kind)];
    for image in &volume.images {
        let name = &image.data.name;
        match &image.state {
            ImageState::InSync => {}
            ImageState::Recovering(at) => out.push(format!(
                "{name} is being rebuilt: disk_recovery_offset is {at} of {} sectors",
                volume.image_sectors
            )),
            ImageState::Absent(why) => out.push(absence(name, why)),
        }
        if let Some(Regions::Unknown(why)) = &image.regions {
            out.push(format!("{name}: {why}: any region may be half written"));
        }
    }
    if !volume.above.is_empty() {
        out.push(format!("{} stand on it", volume.above.join(", ")));
    }
    let dirty: u64 = volume.dirty().iter().map(|run| run.end - run.start).sum();
    if dirty > 0 {
        out.push(format!(
            "the bitmap names {dirty} sectors: writes may have been cut off there, or were made while an image was missing"
        ));
    }
    if fixed(of, volume).is_some() {
        out.push("its images stand on dm-integrity, which is not looked at".to_owned());
    }
    out
}

fn absence(name: &str, why: &Absence) -> String {
    format!("{name} is not used: {why}")
}

/// The reason why nothing of a volume is repaired.
fn fixed(of: &Of<'_>, volume: &RaidVolume) -> Option<String> {
    let integrity = volume.images.iter().any(|image| image.integrity.is_some());
    integrity.then(|| {
        format!(
            "{}: its images stand on dm-integrity: a repair below it would leave checksums that do not fit; activate the volume, and read it",
            of.name()
        )
    })
}

/// The array.
pub(super) fn placed(of: &Of<'_>, devices: &[Seen<'_>]) -> Result<Placed, Unfit> {
    let unfit = |why: String| Unfit::new(format!("{}: {why}", of.name()));
    let volume = of.candidate.volume.as_ref().map_err(|refusal| unfit(refusal.to_string()))?;
    if let Some(why) = refusal(volume) {
        return Err(unfit(why));
    }
    let mut members = Vec::with_capacity(volume.images.len());
    let mut places = Vec::with_capacity(volume.images.len());
    for image in &volume.images {
        let (member, place) = member(of, volume, image, devices).unzip();
        members.push(member);
        places.push(place);
    }
    let mut bitmaps: Vec<Bitmap> = Vec::new();
    for image in volume.in_use() {
        if let Some(Regions::Known(bitmap)) = &image.regions
            && !bitmaps.contains(bitmap)
        {
            bitmaps.push(bitmap.clone());
        }
    }
    let unclean = !volume.dirty().is_empty();
    let stated = Stated {
        uuid: of.uuid(),
        name: of.name(),
        format: FORMAT,
        events: volume.events,
        arrangement: volume.arrangement.clone(),
        state: state(volume),
        members,
        not_named: not_named(volume),
        notes: notes(of, volume),
        unclean,
        untracked: unclean && !is_tracked(volume),
        bitmaps,
        keeps_torn_rows: true,
    };
    Ok(Placed { array: stated.into(), places, fixed: fixed(of, volume) })
}

/// The good part of an image.
pub(super) const fn good(image: &Image) -> Option<Sectors> {
    match image.state {
        ImageState::Recovering(sectors) => Some(sectors),
        ImageState::InSync | ImageState::Absent(_) => None,
    }
}
