//! Members that were put to another use since they were members.

use crate::world::member;
use pumice_blockdev::FaultyDevice;
use pumice_executor::{Consistency, MemberDrive, OpenError, OpenOptions, open};
use pumice_raid::layout::{Layout, Level};
use pumice_raid::writer::MemberFormat;
use pumice_raid::{FormatSpec, Metadata, Uuid};
use std::sync::Arc;

const BYTES: u64 = 8 << 20;

/// An array of three with its data from sector 0 on, as mdadm makes it.
fn made() -> Vec<Arc<FaultyDevice>> {
    let spec = FormatSpec {
        metadata: Metadata::V1_0,
        level: Level::Raid5,
        layout: Some(Layout::LeftSymmetric),
        chunk_bytes: 65536,
        component_bytes: Some(4 << 20),
        device_bytes: vec![BYTES; 3],
        array_uuid: Uuid([7; 16]),
        device_uuids: (1..4).map(|i| Uuid([i; 16])).collect(),
        name: "old".to_owned(),
        ctime: 1,
        bitmap: true,
        bad_block_log: true,
        data_offset: None,
    };
    let members = spec.format().unwrap().members;
    let disk = |(i, member): (u64, &MemberFormat)| {
        let mut content = vec![0; BYTES as usize];
        for (at, bytes) in &member.writes {
            content[*at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        Arc::new(FaultyDevice::new(&format!("disk{i}"), content, i))
    };
    (0..).zip(&members).map(disk).collect()
}

/// A LUKS header does not say how large its container is: only two different ones tell.
fn luks(disk: &FaultyDevice, id: &[u8]) -> Arc<FaultyDevice> {
    let mut content = disk.content();
    content[..6].copy_from_slice(b"LUKS\xBA\xBE");
    content[168..][..id.len()].copy_from_slice(id);
    Arc::new(FaultyDevice::new("disk", content, 9))
}

#[test]
fn members_that_hold_different_containers_are_not_opened() {
    let mut disks = made();
    let open = |disks: &[Arc<FaultyDevice>]| {
        let drives: Vec<MemberDrive> = disks.iter().map(member).collect();
        open(&drives, &OpenOptions { consistency: Consistency::Bitmap, ..OpenOptions::default() })
    };
    // The first and the second member begin with data, the third with parity.
    disks[0] = luks(&disks[0], b"11111111");
    disks[2] = luks(&disks[2], b"22222222");
    let volume = open(&disks).unwrap();
    assert!(volume.stop(std::time::Duration::from_secs(60)), "the array may hold a container");
    disks[1] = luks(&disks[1], b"33333333");
    let before: Vec<Vec<u8>> = disks.iter().map(|disk| disk.content()).collect();
    match open(&disks).map(drop) {
        Err(OpenError::Strangers(found)) => assert!(found.to_string().contains("33333333"), "{found}"),
        other => panic!("{other:?}"),
    }
    assert!(disks.iter().zip(before).all(|(disk, before)| disk.content() == before));
}
