//! Damaged metadata of volumes that Linux made: refused, or the same array.
//!
//! `PUMICE_LVM_CASES` sets the number of random cases.

use std::collections::BTreeMap;

use pumice_raid::ReadAt;
use pumice_raid::lvm::group::Group;
use pumice_raid::lvm::volume::ImageState;
use pumice_raid::lvm::{RaidVolume, Survey, text};

use crate::sets::{Image, Set, look, sets};

/// Numbers from a seed: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)) % bound
    }
}

/// The RAID volumes that are read, by group and name.
fn arrays(survey: &Survey) -> BTreeMap<(String, String), RaidVolume> {
    let groups = survey.groups.iter().filter_map(|group| Some((&group.identity, group.state.as_ref().ok()?)));
    groups
        .flat_map(|(identity, group)| {
            let read = group.volumes.iter().filter_map(|v| Some((v.name.clone(), v.volume.as_ref().ok()?)));
            read.map(|(name, volume)| ((identity.id.to_string(), name), volume.clone()))
        })
        .collect()
}

/// Returns whether `found` is the array `good`, of which less may be good. A superblock has no
/// checksum, so how far an image was rebuilt is as it says.
fn same_array(good: &RaidVolume, found: &RaidVolume) -> bool {
    let images = good.images.iter().zip(&found.images).all(|(good, found)| {
        let taken_in =
            matches!(good.state, ImageState::Absent(_)) && !matches!(found.state, ImageState::Absent(_));
        (&good.data, &good.meta) == (&found.data, &found.meta) && !taken_in
    });
    images
        && good.images.len() == found.images.len()
        && good.arrangement == found.arrangement
        && good.kind == found.kind
        && (good.image_sectors, good.data_offset) == (found.image_sectors, found.data_offset)
        && good.region_sectors == found.region_sectors
        && (good.id, &good.above) == (found.id, &found.above)
}

/// The places with metadata of a device: label, headers of areas, text, superblocks and headers of
/// bitmaps.
fn places(set: &Set, device: usize) -> Vec<(u64, u64)> {
    let devices = set.devices();
    let survey = look(&devices);
    let mut out = vec![(0, 2048)];
    for area in &survey.devices[device].header.as_ref().unwrap().areas {
        out.push((area.offset, 512));
        let mut header = [0; 512];
        devices[device].read_exact_at(area.offset, &mut header).unwrap();
        let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
        let (offset, bytes) = (word(40), word(48));
        let first = bytes.min(area.bytes - offset);
        out.push((area.offset + offset, first));
        if first < bytes {
            out.push((area.offset + 512, bytes - first));
        }
    }
    let group = survey.groups[0].state.as_ref().unwrap();
    for lv in group.group.logical.iter().filter(|lv| lv.name.contains("_rmeta_")) {
        let index = group.group.find(&lv.name).unwrap();
        let piece = pumice_raid::lvm::pieces::pieces(&group.group, index).unwrap()[0];
        let (pv, start) = piece.place.unwrap();
        if group.places[pv] == pumice_raid::lvm::volume::PvPlace::Device(device) {
            out.push((start, 160));
            out.push((start + 4096, 256));
        }
    }
    out
}

/// One piece of damage.
fn spoil(random: &mut Random, image: &mut Image, places: &[(u64, u64)]) -> String {
    let (start, bytes) = places[random.below(places.len() as u64) as usize];
    let at = start + random.below(bytes);
    let mut old = [0];
    // Behind an earlier cut it stays 0.
    let _ = image.read_exact_at(at, &mut old);
    match random.below(8) {
        0 => {
            let sector = at / 512 * 512;
            image.changes.push((sector, vec![0; 512]));
            format!("{}: sector of {at} zeroed", image.name)
        }
        1 => {
            image.changes.push((at, (0..4).map(|_| random.below(256) as u8).collect()));
            format!("{}: 4 bytes at {at}", image.name)
        }
        2 => {
            image.cut(at);
            format!("{}: cut at {at}", image.name)
        }
        _ => {
            let bit = random.below(8);
            image.changes.push((at, vec![old[0] ^ 1 << bit]));
            format!("{}: bit {bit} of {at}", image.name)
        }
    }
}

#[test]
fn damaged_metadata_never_gives_another_array() {
    let cases: u64 =
        std::env::var("PUMICE_LVM_CASES").map_or(3000, |cases| cases.parse().expect("a number of cases"));
    let good: Vec<_> = sets().iter().map(|set| arrays(&look(&set.devices()))).collect();
    let places: Vec<Vec<_>> = sets()
        .iter()
        .map(|set| (0..set.devices().len()).map(|device| places(set, device)).collect())
        .collect();
    let (mut read, mut refused) = (0_u64, 0_u64);
    for seed in 0..if sets().is_empty() { 0 } else { cases } {
        let mut random = Random(seed);
        let number = random.below(sets().len() as u64) as usize;
        let set = &sets()[number];
        let mut devices = set.devices();
        // Mostly one device; sometimes the same of all, which leaves no good copy.
        let spoilt = match random.below(4) {
            0 => devices.len(),
            _ => 1,
        };
        let mut what = Vec::new();
        for _ in 0..spoilt {
            let device = random.below(devices.len() as u64) as usize;
            what.push(spoil(&mut random, &mut devices[device], &places[number][device]));
        }
        let found = arrays(&look(&devices));
        for (name, volume) in &found {
            let expected = good[number].get(name);
            let same = expected.is_some_and(|expected| same_array(expected, volume));
            assert!(same, "seed {seed}, {}: {what:?}: {volume:#?}\n instead of {expected:#?}", set.name);
        }
        read += found.len() as u64;
        refused += (good[number].len() - found.len()) as u64;
    }
    println!("{cases} cases: {read} volumes read, {refused} refused or not found");
    assert!(sets().is_empty() || refused > cases / 20 && read > cases / 2, "{read} read, {refused} refused");
}

/// The texts, cut at every byte.
#[test]
fn a_text_that_is_cut_is_an_error_or_whole() {
    for set in sets() {
        let devices = set.devices();
        let survey = look(&devices);
        let area = survey.devices[0].header.as_ref().unwrap().areas[0];
        let bytes = pumice_raid::lvm::area::read(&devices[0], area).unwrap().unwrap();
        let whole = Group::of(&text::parse(&bytes).unwrap()).unwrap();
        let mut complete = 0;
        for end in 0..bytes.len() {
            let Ok(file) = text::parse(&bytes[..end]) else { continue };
            let Ok(group) = Group::of(&file) else { continue };
            assert_eq!(group, whole, "{}: {end}", set.name);
            complete += 1;
        }
        // `version = 1` stands near the end.
        assert!(complete > 0 && complete < 1000, "{}: {complete}", set.name);
    }
}
