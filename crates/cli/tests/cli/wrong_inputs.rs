//! Arrays that must not be scrubbed: exit 2, a message that names the device and the field, nothing
//! written.

use crate::small_array::{Made, RAID5, RAID6, SUPERBLOCK, patch, pumice, refusal, scrub};
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::v1::V1;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every byte of a file that holds any, and its length.
fn content(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

/// Scrubs, checking and repairing, and asserts exit 2, every word in the message, and devices as
/// they were.
fn refused(devices: &[PathBuf], words: &[&str]) {
    refused_with(&[], devices, words);
}

fn refused_with(options: &[&str], devices: &[PathBuf], words: &[&str]) {
    let files: Vec<&PathBuf> =
        devices.iter().filter(|d| d.metadata().is_ok_and(|m| m.is_file() && m.len() < 1 << 30)).collect();
    let before: Vec<Vec<u8>> = files.iter().map(|d| content(d)).collect();
    for repair in [&[][..], &["--repair"]] {
        let state = tempfile::tempdir().unwrap();
        let output = scrub(state.path()).args(options).args(repair).args(devices).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?} {message}");
        assert!(output.stdout.is_empty(), "no document of a scrub that did not run");
        for word in words {
            assert!(message.contains(word), "'{word}' is not in: {message}");
        }
        assert!(message.lines().count() < 12, "{message}");
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0, "no state of a scrub that did not run");
    }
    for (file, before) in files.iter().zip(before) {
        assert!(content(file) == before, "{} was written", file.display());
    }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn the_array_by_itself_is_clean() {
    for spec in [RAID5, RAID6] {
        let array = Made::new(spec);
        let state = tempfile::tempdir().unwrap();
        let output = scrub(state.path()).args(&array.members).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn truncated_members() {
    let array = Made::new(RAID6);
    let file = File::options().write(true).open(&array.members[2]).unwrap();
    file.set_len(2 << 20).unwrap();
    let shorter = ["data_size", "to the end of the device", "bytes shorter than when", "--degraded"];
    refused(&array.members, &[&[name(&array.members[2])][..], &shorter[..]].concat());
    // As it says.
    let mut others = array.members.clone();
    others.remove(2);
    let state = tempfile::tempdir().unwrap();
    let output = scrub(state.path()).arg("--degraded").args(&others).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    file.set_len(5000).unwrap();
    refused(&array.members, &[name(&array.members[2]), "superblock"]);
    file.set_len(0).unwrap();
    refused(&array.members, &[name(&array.members[2]), "empty"]);
}

#[test]
fn a_wrong_checksum() {
    let array = Made::new(RAID6);
    let file = File::options().write(true).open(&array.members[3]).unwrap();
    file.write_all_at(b"other name", SUPERBLOCK + 32).unwrap();
    refused(&array.members, &[name(&array.members[3]), "sb_csum"]);
}

#[test]
fn too_many_members_missing() {
    let array = Made::new(RAID6);
    let degraded = &array.members[..array.members.len() - 1];
    let state = tempfile::tempdir().unwrap();
    let output = scrub(state.path()).args(degraded).output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(3),
        "one equation of each stripe remains, and a member was not named"
    );
    refused(&array.members[..array.members.len() - 2], &["roles 3, 4 are missing", "raid6"]);

    let array = Made::new(RAID5);
    refused(&array.members[1..], &["role 0 is missing", "raid5"]);
}

#[test]
fn a_member_twice() {
    let array = Made::new(RAID6);
    let mut twice = array.members.clone();
    twice.push(array.members[0].clone());
    refused(&twice, &[name(&array.members[0]), "named twice"]);
    let link = array.folder.path().join("link");
    std::os::unix::fs::symlink(&array.members[0], &link).unwrap();
    *twice.last_mut().unwrap() = link;
    refused(&twice, &["link", name(&array.members[0]), "named twice"]);
    let copy = array.folder.path().join("copy");
    fs::copy(&array.members[0], &copy).unwrap();
    *twice.last_mut().unwrap() = copy;
    refused(&twice, &[name(&array.members[0]), "copy", "device uuid"]);
}

#[test]
fn members_of_two_arrays() {
    let (one, other) = (Made::new(RAID6), Made::new(RAID5));
    let mut mixed = one.members.clone();
    mixed[4] = other.members[4].clone();
    refused(&mixed, &["belongs to another array", "uuid"]);
    refused(&[one.members.clone(), other.members.clone()].concat(), &["belongs to another array"]);
}

#[test]
fn events_too_far_apart() {
    let array = Made::new(RAID6);
    let events = |n| move |s: &mut V1| s.events += n;
    patch(&array.members[1], events(1));
    let state = tempfile::tempdir().unwrap();
    let output = scrub(state.path()).args(&array.members).output().unwrap();
    assert_ne!(output.status.code(), Some(2), "counts that differ by one are those of an array in use");
    patch(&array.members[1], events(7));
    refused(&array.members, &["out of date", "events"]);
}

#[test]
fn a_resync_that_never_ended() {
    let array = Made::new(RAID6);
    for member in &array.members {
        patch(member, |s| s.resync_offset = 128);
    }
    refused(&array.members, &["member0", "resync_offset 128"]);
}

#[test]
fn an_unclean_array_without_a_bitmap() {
    let array = Made::new(RAID6);
    for member in &array.members {
        patch(member, |s| s.resync_offset = 0);
    }
    refused(&array.members, &["--assume-settled"]);
    let state = tempfile::tempdir().unwrap();
    let output = scrub(state.path()).arg("--assume-settled").args(&array.members).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_reshape() {
    let array = Made::new(RAID6);
    for member in &array.members {
        patch(member, |s| {
            s.feature_map |= Features::RESHAPE;
            s.reshape_position = 1024;
            s.new_level = 6;
            s.new_layout = 2;
            s.new_chunk = 128;
            s.delta_disks = 1;
        });
    }
    refused(&array.members, &["member", "reshape"]);
}

#[test]
fn an_unknown_feature() {
    let array = Made::new(RAID6);
    patch(&array.members[0], |s| s.feature_map |= 1 << 20);
    refused(&array.members, &["member0", "feature_map"]);
}

#[test]
fn what_is_no_member_at_all() {
    let array = Made::new(RAID6);
    let folder = array.folder.path();
    let with = |path: PathBuf| [array.members[..4].to_vec(), vec![path]].concat();
    refused(&with(folder.to_owned()), &["is a directory"]);
    refused(&with(folder.join("nothing")), &["nothing", "No such file"]);
    refused(&with(PathBuf::from("/dev/null")), &["/dev/null", "neither a block device nor a file"]);

    let empty = folder.join("empty");
    File::create(&empty).unwrap();
    refused(&with(empty), &["empty"]);

    // A file of zeros as large as a drive; looked at only where superblocks lie.
    let zeros = folder.join("zeros");
    File::create(&zeros).unwrap().set_len(1 << 40).unwrap();
    refused(&with(zeros.clone()), &["zeros", "no md superblock", "--degraded"]);
    refused(&[zeros], &["no md superblock"]);

    // A disk with a DOS partition table, whose only partition holds nothing.
    let disk = folder.join("disk");
    let mut sector = [0_u8; 512];
    sector[446 + 4] = 0x83;
    sector[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    sector[446 + 12..446 + 16].copy_from_slice(&4096_u32.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xAA]);
    fs::write(&disk, sector).unwrap();
    File::options().write(true).open(&disk).unwrap().set_len(8 << 20).unwrap();
    refused(&[disk], &["no md superblock; it holds a DOS partition table", "name a partition"]);

    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refused(&with(pipe), &["pipe", "neither a block device nor a file"]);
}

#[test]
fn options_that_make_no_sense() {
    let array = Made::new(RAID6);
    let cases: [(&[&str], &[&str]); 6] = [
        (&["--range", "5..2"], &["--range", "5..2"]),
        (&["--range", "0..99999"], &["range", "99999"]),
        (&["--batch", "0"], &["--batch"]),
        (&["--seed", "zz"], &["--seed"]),
        (&["--method", "magic"], &["--method"]),
        (&["--order", "random"], &["--order"]),
    ];
    for (options, words) in cases {
        refused_with(options, &array.members, words);
    }
}

#[test]
fn a_plan_of_nothing_real() {
    let base = ["--members", "24", "--parity", "2", "--nodes", "3", "--drive", "4TB", "--chunk", "64KiB"];
    for (option, value) in [
        ("--members", "1"),
        ("--parity", "24"),
        ("--nodes", "99"),
        ("--drive", "4XB"),
        ("--chunk", "3"),
        ("--chunk", "8TiB"),
        ("--batch", "0"),
    ] {
        let mut args: Vec<OsString> = base.iter().map(OsString::from).collect();
        match base.iter().position(|a| *a == option) {
            Some(at) => args[at + 1] = value.into(),
            None => args.extend([option.into(), value.into()]),
        }
        let message = refusal(pumice().arg("plan").args(&args));
        assert!(message.contains(option) || message.contains("--drive"), "{message}");
    }
}

/// A command whose input is too large ends with 2 and names the field: no panic, no allocation that
/// ends the process.
#[test]
fn sizes_that_no_machine_has_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("node.toml");
    let text = "listen = \"127.0.0.1:0\"\n[[drive]]\nbackend = \"mem:1MiB\"\n[[drive]]\nbackend = \"mem:99999TiB\"\n";
    fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let state = folder.path().to_str().unwrap();
    let node = ["node", "--listen", "127.0.0.1:0", "--state-dir", state, "--drive"];
    let cases: [(&[&str], &str, &str); 5] = [
        (&["node", "--config"], config, "node.toml: drive 2: backend: 'mem:109950063265972224'"),
        (&node, "mem:99999TiB", "--drive 'mem:"),
        (&node, "mem:16383PiB", "--drive 'mem:"),
        (&node, "mem:99999TiB,pi=16", "--drive 'mem:"),
        (&node, "mem:99999999TiB", "--drive <DRIVE>"),
    ];
    for (words, value, field) in cases {
        let message = refusal(pumice().args(words).arg(value));
        assert!(message.contains(field), "{words:?} {value}: {message}");
        assert!(!message.contains("panicked"), "{message}");
    }
}

/// The machine has the memory, and the process may not have it.
#[test]
fn drives_in_memory_that_a_process_has_no_room_for_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("node.toml");
    let text = "listen = \"127.0.0.1:0\"\n[[drive]]\nbackend = \"mem:1GiB\"\npi = 16\n";
    fs::write(&config, text).unwrap();
    let state = folder.path().to_str().unwrap();
    let node = ["node", "--listen", "127.0.0.1:0", "--state-dir", state, "--drive"];
    let cases: [(&[&str], &str, &str); 4] = [
        (&node, "mem:1GiB", "--drive 'mem:1073741824'"),
        (&node, "mem:1GiB,pi=16", "--drive 'mem:1073741824'"),
        (&node, "mem:1GiB,pi=64", "--drive 'mem:1073741824'"),
        (&["node", "--config"], config.to_str().unwrap(), "node.toml: drive 1: backend: 'mem:1073741824'"),
    ];
    for (words, value, field) in cases {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 600000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pumice")]);
        let message = refusal(command.args(words).arg(value));
        assert!(message.contains(field) && message.contains("of memory"), "{words:?} {value}: {message}");
    }
}

/// A file where a folder is meant is a mistake in the command, whichever it is; nothing is done.
#[test]
fn a_file_is_no_folder_for_any_command() {
    let folder = tempfile::tempdir().unwrap();
    let (file, image) = (folder.path().join("file"), folder.path().join("image"));
    fs::write(&file, "mine").unwrap();
    fs::write(&image, vec![0; 1 << 20]).unwrap();
    let config = folder.path().join("node.toml");
    let backend = "listen = \"127.0.0.1:0\"\n[[drive]]\nbackend = \"mem:1MiB\"\n";
    fs::write(&config, format!("state_dir = {:?}\n{backend}", file.display().to_string())).unwrap();
    let (config, image) = (config.to_str().unwrap(), image.to_str().unwrap());
    let file = file.to_str().unwrap();
    let state: [&[&str]; 9] = [
        &["scrub", image, "--state-dir"],
        &["scrub", "--repair", image, "--state-dir"],
        &["scrub", "--resume", image, "--state-dir"],
        &["scrub", "--drives", image, "--state-dir"],
        &["repairs", "--state-dir"],
        &["repairs", "undo", "--all", image, "--state-dir"],
        &["repairs", "forget", "1", "--state-dir"],
        &["node", "--listen", "127.0.0.1:0", "--drive", "mem:1MiB", "--state-dir"],
        &["scrub", image, "--run-dir"],
    ];
    let run: [&[&str]; 4] = [
        &["volume", "list", "--run-dir"],
        &["volume", "status", "vault", "--run-dir"],
        &["volume", "stop", "vault", "--run-dir"],
        &["volume", "serve", "--listen", "127.0.0.1:0", image, "--run-dir"],
    ];
    for words in state.iter().chain(&run) {
        let message = refusal(pumice().args(*words).arg(file));
        let option = words.last().unwrap();
        let is_told = message.contains(option) && message.contains(file) && message.contains("no folder");
        assert!(is_told, "{words:?}: {message}");
    }
    let message = refusal(pumice().args(["node", "--config", config]));
    assert!(message.contains("node.toml: state_dir: ") && message.contains("no folder"), "{message}");
    assert_eq!(fs::read(file).unwrap(), b"mine");
}
