//! New arrays: read back, and shown to mdadm.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use crate::devices::{make, records, spec};
use pumice_raid::assembly::State;
use pumice_raid::geometry::GeometryError;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::writer::FormatError;
use pumice_raid::{FormatSpec, Metadata, assemble, probe};

const METADATA: [Metadata; 4] = [Metadata::V0_90, Metadata::V1_0, Metadata::V1_1, Metadata::V1_2];

/// One of each kind that matters.
fn specs() -> Vec<FormatSpec> {
    let mut all = Vec::new();
    for metadata in METADATA {
        for (level, disks) in [(Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5)] {
            for bitmap in [false, true] {
                all.push(FormatSpec { bitmap, ..spec(metadata, level, disks) });
            }
        }
        all.push(FormatSpec { bad_block_log: false, bitmap: true, ..spec(metadata, Level::Raid5, 3) });
        let many = if metadata == Metadata::V0_90 { 27 } else { 200 };
        all.push(spec(metadata, Level::Raid6, many));
    }
    all.push(FormatSpec { layout: Some(Layout::DdfNContinue), ..spec(Metadata::V1_2, Level::Raid6, 6) });
    all
}

#[test]
fn what_is_made_is_a_clean_array() {
    for spec in specs() {
        let array = assemble(records(&make(&spec))).unwrap();
        let geometry = spec.format().unwrap().geometry;
        assert_eq!(array.geometry().parity(), Some(&geometry));
        assert_eq!((array.state(), array.notes()), (State::Clean, [].as_slice()), "{spec:?}");
        assert_eq!((array.uuid(), array.metadata()), (spec.array_uuid, Some(spec.metadata)));
        assert_eq!(array.plan(0..u64::MAX).count(), 1);
        for member in array.members().iter().flatten() {
            let record = member.record.as_ref().unwrap();
            assert_eq!(record.bitmap.is_some(), spec.bitmap);
            assert_eq!(record.bad_blocks, []);
            let log = spec.bad_block_log && spec.metadata != Metadata::V0_90;
            assert_eq!(record.superblock.bad_block_log.is_some(), log);
        }
    }
}

#[test]
fn writes_stay_apart_from_the_data() {
    for spec in specs() {
        let format = spec.format().unwrap();
        let bytes = format.geometry.stripes() * format.geometry.chunk_bytes();
        for (member, size) in format.members.iter().zip(&spec.device_bytes) {
            let data = member.data_offset..member.data_offset + bytes;
            assert!(data.end <= *size);
            let mut ends: Vec<_> =
                member.writes.iter().map(|(at, bytes)| (*at, at + bytes.len() as u64)).collect();
            ends.push((data.start, data.end));
            ends.sort_unstable();
            assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spec:?}: {ends:?}");
            assert!(ends.last().unwrap().1 <= *size);
        }
    }
}

#[test]
fn mdadm_accepts_what_is_made() {
    if Command::new("mdadm").arg("--version").output().is_err() {
        eprintln!("SKIPPED: mdadm is not installed, nobody else looks at our superblocks");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for spec in specs() {
        let format = spec.format().unwrap();
        for (role, member) in format.members.iter().enumerate().take(5) {
            let path = folder.path().join("member");
            let file = File::create(&path).unwrap();
            file.set_len(spec.device_bytes[role]).unwrap();
            for (offset, bytes) in &member.writes {
                file.write_all_at(bytes, *offset).unwrap();
            }
            let output = Command::new("mdadm").arg("--examine").arg(&path).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{spec:?}: {text} {}", String::from_utf8_lossy(&output.stderr));
            let line = |key: &str, value: &str| {
                let found = text.lines().any(|l| {
                    l.trim()
                        .strip_prefix(key)
                        .is_some_and(|rest| rest.trim_start_matches([' ', ':']).contains(value))
                });
                assert!(found, "no '{key} : {value}' in\n{text}");
            };
            line("Magic", "a92b4efc");
            line("Version", &spec.metadata.to_string());
            line("State", "clean");
            line("Checksum", "correct");
            line("Raid Level", &spec.level.to_string());
            if let Some(layout) = spec.layout {
                line("Layout", &layout.to_string());
            }
            if spec.metadata == Metadata::V0_90 {
                line("UUID", &spec.array_uuid.to_string());
                line("this", &format!("{role}      active sync"));
            } else {
                line("Array UUID", &spec.array_uuid.to_string());
                line("Name", "host:vol");
                line("Device Role", &format!("Active device {role}"));
                line("Array State", &"A".repeat(spec.device_bytes.len()));
            }
            if spec.bad_block_log && spec.metadata != Metadata::V0_90 {
                line("Bad Block Log", "512 entries");
            }
            if spec.bitmap {
                line("Internal Bitmap", "");
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused_by_field() {
    let field = |spec: FormatSpec| match spec.format().unwrap_err() {
        FormatError::Field { field, .. } => field,
        FormatError::Geometry(GeometryError::Chunk { .. }) => "chunk",
        FormatError::Geometry(GeometryError::RaidDisks { .. }) => "disks",
        FormatError::Geometry(GeometryError::Copies { .. }) => "copies",
        FormatError::Geometry(GeometryError::Component { .. }) => "component",
        FormatError::Geometry(GeometryError::Layout { .. }) => "layout",
    };
    let base = || spec(Metadata::V1_2, Level::Raid5, 4);
    assert_eq!(field(FormatSpec { chunk_bytes: 3000, ..base() }), "chunk");
    assert_eq!(field(FormatSpec { chunk_bytes: 0, ..base() }), "chunk");
    assert_eq!(field(FormatSpec { chunk_bytes: 128 << 20, ..base() }), "component");
    assert_eq!(field(FormatSpec { layout: None, ..base() }), "layout");
    assert_eq!(field(FormatSpec { device_bytes: vec![], device_uuids: vec![], ..base() }), "disks");
    assert_eq!(field(FormatSpec { device_uuids: vec![], ..base() }), "device uuids");
    assert_eq!(field(FormatSpec { name: "n".repeat(33), ..base() }), "name");
    assert_eq!(field(FormatSpec { name: "a\n\u{1b}[31m".to_owned(), ..base() }), "name");
    assert_eq!(field(FormatSpec { ctime: 1 << 40, ..base() }), "ctime");
    assert_eq!(field(FormatSpec { component_bytes: Some(64 << 20), ..base() }), "component size");
    assert_eq!(field(FormatSpec { device_bytes: vec![1 << 20; 4], ..base() }), "device size");
    assert_eq!(field(FormatSpec { device_bytes: vec![0; 4], ..base() }), "device size");
    assert_eq!(field(FormatSpec { data_offset: Some(4096), ..base() }), "data_offset");
    assert_eq!(field(FormatSpec { data_offset: Some((1 << 20) + 512), ..base() }), "data_offset");
    assert_eq!(field(spec(Metadata::V0_90, Level::Raid6, 28)), "raid_disks");
    assert_eq!(field(spec(Metadata::V1_2, Level::Raid5, 1921)), "raid_disks");
    let large = FormatSpec { device_bytes: vec![5 << 40; 4], ..spec(Metadata::V0_90, Level::Raid5, 4) };
    assert_eq!(field(large), "component size");
}

#[test]
fn sizes_of_real_drives_fit() {
    for metadata in METADATA {
        for size in [9 << 30, 300 << 30, 3_u64 << 40, 20 << 40] {
            if metadata == Metadata::V0_90 && size > 4 << 40 {
                continue;
            }
            let spec =
                FormatSpec { device_bytes: vec![size; 6], bitmap: true, ..spec(metadata, Level::Raid6, 6) };
            let format = spec.format().unwrap();
            let used = format.geometry.stripes() * format.geometry.chunk_bytes();
            assert!(used > size - (4 << 20), "{metadata} {size} {used}");
            let device = make(&spec).remove(5);
            let record = probe(&device).unwrap().unwrap();
            assert!(record.bitmap.unwrap().header().regions() > 0);
        }
    }
}
