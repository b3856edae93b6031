//! RAID volumes that LVM and Linux made, where somebody has put them: `PUMICE_LVM_IMAGES` names the
//! folder.

use super::unpacked::members;
use super::{METHODS, pumice};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A set unpacked into a folder of its own; `None` (said aloud) where there is none.
fn set(name: &str) -> Option<(tempfile::TempDir, Vec<PathBuf>)> {
    let Some(folder) = std::env::var_os("PUMICE_LVM_IMAGES").map(PathBuf::from) else {
        eprintln!("SKIPPED: PUMICE_LVM_IMAGES is not set, so no volume of LVM is tested");
        return None;
    };
    let target = tempfile::tempdir().unwrap();
    let archive = folder.join(format!("{name}.tar.zst"));
    let mut tar = Command::new("tar");
    let done = tar.args(["-I", "zstd", "-xSf"]).arg(&archive).arg("-C").arg(target.path()).status();
    assert!(done.unwrap().success(), "{name} unpacks");
    let devices = members(target.path());
    assert!(!devices.is_empty(), "{name} has devices");
    Some((target, devices))
}

/// The sets, the RAID volumes of each, and the level in md's terms.
const CLEAN: [(&str, &[(&str, i64)]); 11] = [
    ("v01-r5ls-4d", &[("vg0/r5", 5)]),
    ("v02-r6zr-6d", &[("vg0/r6", 6)]),
    ("v03-r1-and-r5la", &[("vg-two/mir", 1), ("vg-two/r5-la", 5)]),
    ("v04-r10-4d", &[("vg0/r10", 10)]),
    // LVM's raid4 has parity on image 0, which is a layout of md's RAID-5.
    ("v05-r4-and-r5n", &[("vg0/r4", 5), ("vg0/r5n", 5)]),
    (
        "v06-r6-six-kinds",
        &[
            ("vg0/raid5_rs", 5),
            ("vg0/raid6_la_6", 6),
            ("vg0/raid6_ls_6", 6),
            ("vg0/raid6_n_6", 6),
            ("vg0/raid6_ra_6", 6),
            ("vg0/raid6_rs_6", 6),
        ],
    ),
    ("v07-r5ls-pieces", &[("vg0/r5", 5)]),
    ("v09-r6ls6-degraded", &[("vg0/r6", 6)]),
    ("v10-r1-integrity", &[("vg0/r1", 1)]),
    ("v12-r1-rebuilding", &[("vg0/r1", 1)]),
    ("v13-r5-reshaped-not-finalised", &[("vg0/r5", 5)]),
];

/// A node over the devices, which dies with this.
struct Node(Child, PathBuf);

impl Node {
    fn start(devices: &[PathBuf]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
        command.args(["node", "--listen", "127.0.0.1:0"]);
        for device in devices {
            command.arg("--drive").arg(device);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_whitespace().nth(2).unwrap_or_else(|| panic!("{line}"));
        let name = format!("nvme://{address}").into();
        Self(child, name)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_volume_scrubs_clean_by_every_method_here_and_on_a_node() {
    let state = tempfile::tempdir().unwrap();
    for (name, volumes) in CLEAN {
        let Some((_folder, devices)) = set(name) else { return };
        let (code, json) = pumice(state.path(), &["inspect"], &devices);
        assert_eq!(code, 0, "{name}");
        let arrays = json["arrays"].as_array().unwrap();
        let found: Vec<(&str, i64)> =
            arrays.iter().map(|a| (a["name"].as_str().unwrap(), a["level"].as_i64().unwrap())).collect();
        assert_eq!(found, volumes, "{name}");
        let before: Vec<Vec<u8>> = devices.iter().map(|device| fs::read(device).unwrap()).collect();
        let scrub = |volume: &str, method: &str, devices: &[PathBuf]| {
            let (code, json) =
                pumice(state.path(), &["scrub", "--array", volume, "--method", method], devices);
            assert_eq!((code, json["result"].as_str()), (0, Some("clean")), "{name} {volume} {method}");
            assert_eq!(json["stripes_checked"], json["array"]["stripes"], "{name} {volume} {method}");
            assert_eq!(json["array"]["metadata"], "lvm2");
        };
        for (volume, _) in volumes {
            METHODS.iter().for_each(|method| scrub(volume, method, &devices));
        }
        let node = Node::start(&devices);
        for (volume, _) in volumes {
            METHODS.iter().for_each(|method| scrub(volume, method, std::slice::from_ref(&node.1)));
        }
        drop(node);
        for (device, before) in devices.iter().zip(&before) {
            assert!(fs::read(device).unwrap() == *before, "{name}: {} is as it was", device.display());
        }
    }
}

fn refused(args: &[&str], devices: &[PathBuf]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pumice")).args(args).args(devices).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_cannot_be_checked_is_refused_by_name() {
    let Some((_folder, devices)) = set("v11-r5-reshape-crash") else { return };
    let words = refused(&["scrub"], &devices);
    assert!(words.contains("vg0/r5: a reshape is under way"), "{words}");
    let (_folder, devices) = set("v06-r6-six-kinds").unwrap();
    let words = refused(&["scrub"], &devices);
    assert!(words.contains("--array") && words.contains("vg0/raid6_n_6"), "{words}");
    let words = refused(&["scrub", "--array", "vg0/other"], &devices);
    assert!(words.contains("no array is named 'vg0/other'"), "{words}");
    // A repair below dm-integrity would leave checksums that do not fit.
    let (_folder, devices) = set("v10-r1-integrity").unwrap();
    let words = refused(&["scrub", "--repair"], &devices);
    assert!(words.contains("dm-integrity"), "{words}");
    // One image less leaves RAID-5 nothing to check.
    let (_folder, devices) = set("v01-r5ls-4d").unwrap();
    let words = refused(&["scrub"], &devices[1..]);
    assert!(words.contains("vg0/r5: images 0 are missing"), "{words}");
}

/// A physical volume that is not named is no member that is gone: the check is incomplete unless
/// the operator says so.
#[test]
fn a_volume_that_is_not_named_makes_the_check_incomplete() {
    let Some((_folder, devices)) = set("v02-r6zr-6d") else { return };
    let state = tempfile::tempdir().unwrap();
    let (code, json) = pumice(state.path(), &["scrub"], &devices[1..]);
    assert_eq!((code, json["result"].as_str()), (3, Some("incomplete")));
    let (code, json) = pumice(state.path(), &["scrub", "--degraded"], &devices[1..]);
    assert_eq!((code, json["result"].as_str()), (0, Some("clean")));
}

fn spoil(path: &Path, at: u64, len: usize) {
    let mut bytes = fs::read(path).unwrap();
    for (i, byte) in bytes[at as usize..][..len].iter_mut().enumerate() {
        *byte ^= (i as u8).wrapping_mul(37) | 1;
    }
    fs::write(path, bytes).unwrap();
}

/// The first finding of a report.
fn finding(json: &Value) -> &Value {
    assert_eq!(json["findings"].as_array().unwrap().len(), 1, "{json:#}");
    &json["findings"][0]
}

#[test]
fn damage_that_was_planted_is_found_by_every_method() {
    let Some((_folder, devices)) = set("v08-r5la-damaged") else { return };
    let state = tempfile::tempdir().unwrap();
    for method in METHODS {
        let (code, json) = pumice(state.path(), &["scrub", "--method", method], &devices);
        assert_eq!(code, 1, "{method}");
        // 4 KiB from byte 200704 of role 2 on, in chunks of 64 KiB.
        let found = finding(&json);
        assert_eq!((&found["stripe"], &found["verdict"]), (&3.into(), &"unlocated".into()), "{method}");
        assert_eq!((&found["chunk_offset"], &found["length"]), (&4096.into(), &4096.into()), "{method}");
    }
}

/// Of a located block, every byte comes back, and an undo brings the damage back. The default
/// policy writes nothing: a write that a crash cut off would look the same.
#[test]
fn located_damage_is_repaired_where_the_operator_takes_it_for_damage() {
    let Some((_folder, devices)) = set("v02-r6zr-6d") else { return };
    let state = tempfile::tempdir().unwrap();
    let (_, json) = pumice(state.path(), &["inspect"], &devices);
    let place = json["arrays"][0]["members"][1]["data_offset_bytes"].as_u64().unwrap();
    let path: PathBuf = json["arrays"][0]["members"][1]["device"].as_str().unwrap().into();
    let whole = fs::read(&path).unwrap();
    spoil(&path, place + 7 * 16384 + 512, 700);
    let spoilt = fs::read(&path).unwrap();
    for on_node in [false, true] {
        let node = on_node.then(|| Node::start(&devices));
        let names = node.as_ref().map_or_else(|| devices.clone(), |node| vec![node.1.clone()]);
        let (code, json) = pumice(state.path(), &["scrub", "--repair"], &names);
        assert_eq!(code, 1);
        let found = finding(&json);
        assert_eq!((&found["member"], &found["repaired"]), (&1.into(), &false.into()), "{found:#}");
        assert!(found["doubts"].as_array().unwrap().contains(&"torn".into()), "{found:#}");
        assert_eq!(found["device_offset"], place + 7 * 16384 + 512);
        let (code, json) = pumice(state.path(), &["scrub", "--repair", "--repair-policy", "likely"], &names);
        assert_eq!((code, &finding(&json)["repaired"]), (1, &true.into()));
        drop(node);
        assert!(fs::read(&path).unwrap() == whole, "every byte is back");
        let undo = ["repairs", "undo", "--all", "--state-dir", state.path().to_str().unwrap()];
        let (code, _) = pumice(state.path(), &undo, &devices);
        assert_eq!(code, 0);
        assert!(fs::read(&path).unwrap() == spoilt, "the undo brings it back");
    }
}

/// Members in several pieces on several physical volumes: damage in a piece is found there, here
/// and through a node.
#[test]
fn damage_in_a_member_of_pieces_is_found() {
    let Some((_folder, devices)) = set("v07-r5ls-pieces") else { return };
    let state = tempfile::tempdir().unwrap();
    // Image 2 is in one piece from 44 KiB on; that its rows cover images 0 and 1 as well is enough.
    let (_, json) = pumice(state.path(), &["inspect"], &devices);
    let member = &json["arrays"][0]["members"][2];
    let place = member["data_offset_bytes"].as_u64().unwrap();
    spoil(Path::new(member["device"].as_str().unwrap()), place + 70 * 65536, 100);
    for method in METHODS {
        let (code, json) = pumice(state.path(), &["scrub", "--method", method], &devices);
        assert_eq!((code, &finding(&json)["stripe"]), (1, &70.into()), "{method}");
    }
}

/// Sets a bit of the bitmaps of all images: the volume was not shut down while it was written.
fn set_bits(devices: &[PathBuf]) {
    for path in devices {
        let mut bytes = fs::read(path).unwrap();
        let at = (0..bytes.len() - 4).step_by(512).filter(|at| bytes[*at..].starts_with(b"bitm"));
        let places: Vec<usize> = at.collect();
        for at in places {
            bytes[at + 256] |= 1;
        }
        fs::write(path, bytes).unwrap();
    }
}

/// A stripe that a set bit names is good if it is consistent; if it is not, it is no finding, and
/// no repair touches it.
#[test]
fn a_set_bit_keeps_a_stripe_from_being_a_finding() {
    let Some((_folder, devices)) = set("v02-r6zr-6d") else { return };
    let state = tempfile::tempdir().unwrap();
    set_bits(&devices);
    let (code, json) = pumice(state.path(), &["scrub"], &devices);
    assert_eq!((code, json["result"].as_str()), (0, Some("clean")), "a consistent look is conclusive");
    let (_, json) = pumice(state.path(), &["inspect"], &devices);
    assert_eq!(json["arrays"][0]["state"], "active");
    let place = json["arrays"][0]["members"][1]["data_offset_bytes"].as_u64().unwrap();
    let path: PathBuf = json["arrays"][0]["members"][1]["device"].as_str().unwrap().into();
    // Regions of 512 KiB: 32 stripes of 16 KiB.
    spoil(&path, place + 5 * 16384, 600);
    let spoilt = fs::read(&path).unwrap();
    let (code, json) = pumice(state.path(), &["scrub", "--settle", "200ms"], &devices);
    assert_eq!(code, 3, "{json:#}");
    let found = finding(&json);
    assert_eq!((&found["verdict"], &found["unsettled"]), (&"busy".into(), &"bitmap".into()), "{found:#}");
    let (code, _) = pumice(state.path(), &["scrub", "--repair", "--repair-policy", "likely"], &devices);
    assert_eq!(code, 3);
    assert!(fs::read(&path).unwrap() == spoilt, "nothing was written");
    // Beyond the region, damage is damage.
    spoil(&path, place + 5 * 16384, 600);
    spoil(&path, place + 100 * 16384, 600);
    let (code, json) = pumice(state.path(), &["scrub", "--settle", "200ms"], &devices);
    assert_eq!((code, &finding(&json)["member"]), (1, &1.into()));
}

/// A pass that was stopped goes on, as one of md's does.
#[test]
fn a_pass_over_a_volume_is_resumed() {
    let Some((_folder, devices)) = set("v03-r1-and-r5la") else { return };
    let state = tempfile::tempdir().unwrap();
    let args = ["scrub", "--array", "vg-two/r5-la"];
    let (code, first) = pumice(state.path(), &args, &devices);
    assert_eq!(code, 0);
    let resumed = [&args[..], &["--resume"]].concat();
    let (code, again) = pumice(state.path(), &resumed, &devices);
    assert_eq!((code, &again["stripes_checked"]), (0, &first["stripes_checked"]));
    // The other volume of the group has a state of its own.
    let (code, other) = pumice(state.path(), &["scrub", "--array", "vg-two/mir", "--resume"], &devices);
    assert_eq!(code, 0);
    assert_ne!(other["array"]["uuid"], first["array"]["uuid"]);
}

/// An md array on the last partitions of disks with DOS tables: the disks are refused, and the
/// partitions are the array.
#[test]
fn partitions_of_disk_images_are_members() {
    let Some((_folder, disks)) = set("o02-090-last-partition-mbr") else { return };
    let state = tempfile::tempdir().unwrap();
    let part = |number: u32| -> Vec<PathBuf> {
        disks.iter().map(|disk| format!("{},partition={number}", disk.display()).into()).collect()
    };
    for method in METHODS {
        let (code, json) = pumice(state.path(), &["scrub", "--method", method], &part(1));
        assert_eq!((code, json["result"].as_str()), (0, Some("clean")), "{method}");
    }
    let words = refused(&["scrub"], &part(2));
    assert!(words.contains("partition=2: there is no partition 2"), "{words}");
    let (_, json) = pumice(state.path(), &["inspect"], &part(1));
    let member = &json["arrays"][0]["members"][1]["device"];
    assert_eq!(member.as_str().unwrap(), part(1)[1].to_str().unwrap());
    // The same bytes by offset: parity of stripe 1, which member 1 has. A repair writes it there.
    let whole = fs::read(&disks[1]).unwrap();
    spoil(&disks[1], 2048 * 512 + 65536, 300);
    let by_offset: Vec<PathBuf> =
        disks.iter().map(|disk| format!("{},offset={}", disk.display(), 2048 * 512).into()).collect();
    let (code, json) = pumice(state.path(), &["scrub", "--repair", "--repair-policy", "parity"], &by_offset);
    assert_eq!((code, &finding(&json)["repaired"]), (1, &true.into()), "{json:#}");
    assert!(fs::read(&disks[1]).unwrap() == whole, "every byte is back");
}
