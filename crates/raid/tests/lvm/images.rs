//! Arrays read from volumes that Linux made, compared with the kernel's own view of them.

use std::collections::BTreeMap;

use pumice_raid::ReadAt;
use pumice_raid::lvm::group::Group;
use pumice_raid::lvm::pieces::{Mapped, Piece, pieces};
use pumice_raid::lvm::volume::{Absence, ImageState, Missing, PvPlace};
use pumice_raid::lvm::{Assembled, RaidVolume, Refusal, Survey};

use crate::array::{Array, hex};
use crate::sets::{look, named, sets};

/// The one group of a survey, which has no problem.
fn only(survey: &Survey) -> &Assembled {
    for device in &survey.devices {
        assert!(device.problems.is_empty(), "{device:?}");
    }
    let [group] = survey.groups.as_slice() else { panic!("{} groups", survey.groups.len()) };
    group.state.as_ref().unwrap()
}

/// A volume's name as device-mapper has it, without the group's.
fn in_dm(group: &Group, volume: &str) -> String {
    format!("{}-{}", group.identity.name.replace('-', "--"), volume.replace('-', "--"))
}

/// Calls `each` for all RAID volumes that are read, and checks that there are as many as expected.
fn volumes(mut each: impl FnMut(&str, &RaidVolume, &Array, &BTreeMap<String, (u64, String)>)) {
    let mut count = 0;
    for set in sets() {
        let devices = set.devices();
        let survey = look(&devices);
        let group = only(&survey);
        let contents: BTreeMap<String, (u64, String)> =
            set.contents().into_iter().map(|(name, bytes, hash)| (name, (bytes, hash))).collect();
        for candidate in &group.volumes {
            let Ok(volume) = &candidate.volume else { continue };
            let array = Array::read(volume, group, &named(&devices));
            each(&set.name, volume, &array, &contents);
            count += 1;
        }
    }
    assert!(sets().is_empty() || count >= 18, "only {count} volumes are read");
}

#[test]
fn every_volume_is_read_or_refused_by_name() {
    for set in sets() {
        let devices = set.devices();
        let survey = look(&devices);
        let group = only(&survey);
        assert!(!group.volumes.is_empty(), "{}", set.name);
        for candidate in &group.volumes {
            match (&candidate.volume, set.name.contains("reshape-crash")) {
                (Err(refusal @ Refusal::Reshape { role: 0, .. }), true) => {
                    let words = "a reshape is under way: flags is 1 in rmeta of image 0";
                    assert_eq!(refusal.to_string(), words, "{}", set.name);
                }
                (Ok(_), false) => {}
                (other, _) => panic!("{}: {other:?}", set.name),
            }
        }
    }
}

/// The kernel's tables: type, images, chunk and size of each RAID volume, and all pieces.
#[test]
fn pieces_and_types_are_those_of_the_kernels_tables() {
    let mut linear = 0;
    for set in sets() {
        let devices = set.devices();
        let survey = look(&devices);
        let group = only(&survey);
        let table = set.about("dm-table.txt").unwrap();
        for (number, lv) in group.group.logical.iter().enumerate() {
            let name = in_dm(&group.group, &lv.name);
            let lines = table.lines().filter_map(|line| line.strip_prefix(&name)?.strip_prefix(": "));
            let lines: Vec<Vec<&str>> = lines.map(|line| line.split(' ').collect()).collect();
            let Some(first) = lines.first() else { panic!("{}: no table of {name}", set.name) };
            if first[2] == "raid" {
                let Some(Ok(volume)) =
                    group.volumes.iter().find(|v| v.id == lv.id).map(|v| v.volume.as_ref())
                else {
                    continue;
                };
                // start, sectors, "raid", type, count of parameters, chunk, …
                let count = volume.images.len().to_string();
                let at = 5 + first[4].parse::<usize>().unwrap();
                assert_eq!(first[at], count, "{}: images of {name}", set.name);
                assert_eq!(volume.arrangement.array_bytes() / 512, first[1].parse().unwrap(), "{}", set.name);
                assert_eq!(volume.kind.layout_number(2), layout_of(first[3]), "{}: {name}", set.name);
                if first[3] != "raid1" {
                    let chunk = volume.arrangement.chunk_bytes() / 512;
                    assert_eq!(first[5], chunk.to_string(), "{}: {name}", set.name);
                }
                let region = first.iter().position(|word| *word == "region_size").unwrap();
                assert_eq!(first[region + 1], volume.region_sectors.to_string(), "{}", set.name);
            } else if first[2] == "linear" {
                let expected: Vec<(u64, Option<(usize, u64)>)> =
                    lines.iter().map(|line| piece(line)).collect();
                let found = pieces(&group.group, number).unwrap();
                let found: Vec<(u64, Option<(usize, u64)>)> = found.iter().map(|p| on(group, p)).collect();
                assert_eq!(found, expected, "{}: {name}", set.name);
                linear += 1;
            }
        }
    }
    assert!(sets().is_empty() || linear > 150, "only {linear} tables");
}

/// The layout number of the kernel's name of a type, from the kernel's documentation of dm-raid.
fn layout_of(kind: &str) -> u32 {
    match kind {
        "raid1" => 0,
        "raid10" => 0x102,
        "raid4" => 4,
        "raid5_la" => 0,
        "raid5_ra" => 1,
        "raid5_ls" => 2,
        "raid5_rs" => 3,
        "raid5_n" => 5,
        "raid6_zr" => 8,
        "raid6_nr" => 9,
        "raid6_nc" => 10,
        "raid6_la_6" => 16,
        "raid6_ra_6" => 17,
        "raid6_ls_6" => 18,
        "raid6_rs_6" => 19,
        "raid6_n_6" => 5,
        other => panic!("{other}"),
    }
}

/// Bytes, device and start of a line of a table, as `0 3072 linear 254:16 1112`; disks have every
/// sixteenth number, and a device of another kind stands for one that is missing.
fn piece(line: &[&str]) -> (u64, Option<(usize, u64)>) {
    let (major, minor) = line[3].split_once(':').unwrap();
    let place = (major == "254")
        .then(|| (minor.parse::<usize>().unwrap() / 16, line[4].parse::<u64>().unwrap() * 512));
    (line[1].parse::<u64>().unwrap() * 512, place)
}

fn on(group: &Assembled, piece: &Piece) -> (u64, Option<(usize, u64)>) {
    let (pv, start) = piece.place.unwrap();
    let device = match group.places[pv] {
        PvPlace::Device(device) => Some((device, start)),
        PvPlace::Absent(_) => None,
    };
    (piece.bytes, device)
}

#[test]
fn content_has_the_hash_that_the_kernel_read() {
    volumes(|set, volume, array, contents| {
        let name = contents.keys().find(|name| name.ends_with(&format!("/{}", volume.name)));
        let name = name.unwrap_or_else(|| panic!("{set}: {} has a hash", volume.name));
        let (bytes, hash) = &contents[name];
        let content = array.content(&[]).unwrap();
        if set.contains("not-finalised") {
            // Read before the volume was made larger.
            assert_eq!(content.len(), 65536 * 512, "{set}");
        } else {
            assert_eq!(content.len() as u64, *bytes, "{set}: {name}");
        }
        assert_eq!(hex(&content[..*bytes as usize]), *hash, "{set}: {name}");
    });
}

#[test]
fn linear_volumes_have_their_hash() {
    let mut count = 0;
    for set in sets() {
        let devices = set.devices();
        let survey = look(&devices);
        let group = only(&survey);
        let at = group.devices(&named(&devices));
        for (name, bytes, hash) in set.contents() {
            let index = group.group.find(name.split_once('/').unwrap().1).unwrap();
            if group.group.logical[index].raid().is_some() {
                continue;
            }
            let pieces = pieces(&group.group, index).unwrap();
            let mapped = Mapped::new(&pieces, &at);
            assert_eq!(mapped.size_bytes(), bytes, "{}: {name}", set.name);
            let mut content = vec![0; bytes as usize];
            mapped.read_exact_at(0, &mut content).unwrap();
            assert_eq!(hex(&content), hash, "{}: {name}", set.name);
            count += 1;
        }
    }
    assert!(sets().is_empty() || count > 0);
}

#[test]
fn content_follows_without_each_image() {
    let mut cases = 0;
    volumes(|set, volume, array, _| {
        if set.contains("damaged") {
            return;
        }
        let whole = array.content(&[]).unwrap();
        let roles = volume.images.len();
        for a in 0..roles {
            let content = array.content(&[a]);
            // Two copies: none is left where the other recovers or is absent.
            assert_eq!(content.as_ref(), Some(&whole), "{set}: {} without {a}", volume.name);
            cases += 1;
            let two = volume.kind.level().parities() == 2 && volume.in_use().count() == roles;
            for b in if two { a + 1..roles } else { 0..0 } {
                assert_eq!(
                    array.content(&[a, b]),
                    Some(whole.clone()),
                    "{set}: {} without {a}, {b}",
                    volume.name
                );
                cases += 1;
            }
        }
    });
    assert!(sets().is_empty() || cases > 100, "only {cases}");
}

#[test]
fn rows_hold_but_for_the_planted_damage() {
    volumes(|set, volume, array, _| {
        let (bad, checked) = array.inconsistent();
        let stripes = volume.arrangement.stripes();
        if set.contains("damaged") {
            // 4 KiB from byte 200704 of role 2 on; chunks of 64 KiB.
            assert_eq!(bad, [200_704 / 65536], "{set}");
        } else {
            assert_eq!(bad, [], "{set}: {}", volume.name);
        }
        assert_eq!(checked, stripes, "{set}: {}", volume.name);
    });
}

#[test]
fn states_are_those_that_were_brought_about() {
    volumes(|set, volume, _, _| {
        let whole = volume.images.iter().all(|image| image.state == ImageState::InSync);
        let integrity = volume.images.iter().filter(|image| image.integrity.is_some()).count();
        assert_eq!(integrity, if set.contains("integrity") { volume.images.len() } else { 0 }, "{set}");
        assert_eq!(volume.resync, None, "{set}");
        assert_eq!(volume.data_offset.get(), 0, "{set}");
        assert!(!volume.has_journal(), "{set}");
        let dirty = volume.dirty();
        if set.contains("degraded") {
            let absent = &volume.images[2].state;
            let ImageState::Absent(Absence::Physical { why: Missing::NotFound, .. }) = absent else {
                panic!("{set}: {absent:?}")
            };
            assert!(volume.images.iter().filter(|image| image.state == ImageState::InSync).count() == 4);
            // While a member is missing, bits stay set.
            assert_eq!(dirty, std::slice::from_ref(&(0..volume.image_sectors.get())), "{set}");
        } else if set.contains("rebuilding") {
            let states: Vec<ImageState> = volume.images.iter().map(|image| image.state.clone()).collect();
            let sectors = pumice_base::units::Sectors(22912);
            assert_eq!(
                states,
                [ImageState::InSync, ImageState::InSync, ImageState::Recovering(sectors)],
                "{set}"
            );
        } else {
            assert!(whole, "{set}: {:?}", volume.images);
            assert_eq!(dirty, [], "{set}: {}", volume.name);
        }
    });
}

/// The physical volumes of a set in any order, and some of them missing: the same array, or less of
/// it; with fewer than it needs, nothing is invented.
#[test]
fn missing_and_reordered_devices() {
    for set in sets().iter().filter(|set| !set.name.contains("crash")) {
        let all = set.devices();
        let survey = look(&all);
        let group = only(&survey);
        let mut reversed = set.devices();
        reversed.reverse();
        let other = look(&reversed);
        for (a, b) in group.volumes.iter().zip(&only(&other).volumes) {
            assert_eq!(a.volume.as_ref().unwrap(), b.volume.as_ref().unwrap(), "{}", set.name);
        }
        for gone in 0..all.len() {
            let mut devices = set.devices();
            devices.remove(gone);
            let survey = look(&devices);
            let less = only(&survey);
            for (a, b) in group.volumes.iter().zip(&less.volumes) {
                let (a, b) = (a.volume.as_ref().unwrap(), b.volume.as_ref().unwrap());
                assert_eq!(a.arrangement, b.arrangement, "{}", set.name);
                let touches = |piece: &Piece| {
                    piece.place.is_some_and(|(pv, _)| group.places[pv] == PvPlace::Device(gone))
                };
                for (a, b) in a.images.iter().zip(&b.images) {
                    assert_eq!((&a.data, &a.meta), (&b.data, &b.meta), "{}", set.name);
                    let lost = a.data.pieces.iter().chain(&a.meta.pieces).any(touches);
                    if lost {
                        assert!(matches!(b.state, ImageState::Absent(_)), "{}: {:?}", set.name, b.state);
                    } else {
                        assert_eq!(a.state, b.state, "{}", set.name);
                    }
                }
            }
        }
    }
}
