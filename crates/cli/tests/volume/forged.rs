//! Superblocks of another version on all members, which a user of the array has written.

use crate::world::{DRIVE, Served, World, pumice};
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::v1::V1;
use pumice_raid::{FormatSpec, Metadata, Uuid, probe};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

/// Writes superblocks of version 1.0 of an array with the same UUID to all drives.
fn forge(world: &World, array_uuid: Uuid) {
    let spec = FormatSpec {
        metadata: Metadata::V1_0,
        level: Level::Raid5,
        layout: Some(Layout::LeftSymmetric),
        chunk_bytes: 65536,
        component_bytes: Some(4 << 20),
        device_bytes: vec![DRIVE as u64; 4],
        array_uuid,
        device_uuids: (1..5).map(|i| Uuid([i; 16])).collect(),
        name: String::new(),
        // Newer than the array's own: they do not count as its data.
        ctime: 4_000_000_000,
        bitmap: false,
        bad_block_log: false,
        data_offset: None,
    };
    let place = Metadata::V1_0.super_offset(DRIVE as u64).unwrap();
    for (member, drive) in spec.format().unwrap().members.iter().zip(&world.drives) {
        let (_, superblock) = member.writes.iter().find(|(at, _)| *at == place).unwrap();
        let mut superblock = V1::decode(superblock, Metadata::V1_0).unwrap();
        // Else it would count: its data area would hold the array's own.
        (superblock.data_offset, superblock.data_size) = (2048, 8192);
        let file = OpenOptions::new().write(true).open(drive).unwrap();
        file.write_all_at(&superblock.encode(), place).unwrap();
    }
}

#[test]
fn an_array_with_forged_superblocks_on_all_members_is_opened_by_the_version_that_counts() {
    let world = World::made(4, "5");
    let all = &world.drives[..];
    let array = probe(&fs::read(&all[0]).unwrap()).unwrap().unwrap().superblock.array_uuid;
    let uuid = array.to_string();
    forge(&world, array);
    let state = world.folder.path().join("state");
    let run = |args: &[&str]| {
        let mut command = pumice(args);
        if args[0] == "scrub" {
            command.arg("--state-dir").arg(&state);
        }
        let output = command.args(all).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let says = |(code, text): (i32, String), expected: i32, word: &str| {
        assert!(code == expected && text.contains(word), "{code}: {text}");
    };
    // Nothing says which of them counts.
    for command in ["scrub", "inspect"] {
        says(run(&[command]), 2, "hold good");
    }
    world.refused(&["assemble"], all, &["hold good"]);
    world.refused(&["release", "--uuid", &uuid], all, &["hold good"]);
    world.refused(&["destroy", "--uuid", &uuid], all, &["hold good"]);
    world.refused(&["assemble", "--metadata", "1.1"], all, &["no md superblock"]);
    world.refused(&["assemble", "--metadata", "1.3"], all, &["0.90, 1.0, 1.1 or 1.2"]);

    let named = ["--metadata", "1.2"];
    says(run(&["inspect", "--metadata", "1.2"]), 0, &uuid);
    says(run(&["scrub", "--quiet", "--metadata", "1.2"]), 0, "CLEAN");
    let folder = state.to_str().unwrap();
    let undo = ["repairs", "--state-dir", folder, "undo", "--all"];
    says(run(&undo), 2, "hold good");
    says(run(&[&undo[..], &named].concat()), 0, "nothing to undo");
    says(world.run(&["assemble", "--metadata", "1.2"], all), 0, &uuid);
    assert_eq!(Served::start(&world, &named, all).terminate(), Some(0));
    says(world.run(&[&["release", "--uuid", &uuid], &named[..]].concat(), all), 0, "nobody had it open");
    let destroy = [&["destroy", "--uuid", &uuid], &named[..]].concat();
    says(world.run(&destroy, &all[..1]), 0, "1 drive (8.39 MB) is free; the array has 4 members");
    says(world.run(&destroy, &all[1..]), 0, "3 drives (25.17 MB) are free");
    // What a user wrote is still there.
    for drive in all {
        let left = probe(&fs::read(drive).unwrap()).unwrap().unwrap();
        assert_eq!(left.metadata(), Metadata::V1_0);
    }
}
