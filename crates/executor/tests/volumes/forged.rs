//! Superblocks that a user of a volume writes into it, where another version has its own.

use crate::world::{World, member, spec, stop, wait_for};
use pumice_base::units::Role;
use pumice_blockdev::{BlockDevice, FaultyDevice};
use pumice_executor::{Consistency, CreateSpec, MemberDrive, OpenError, create, erase, open};
use pumice_raid::layout::{Layout, Level};
use pumice_raid::{FormatSpec, Metadata, ProbeError, Uuid, probe};
use std::sync::Arc;
use std::time::Duration;

const CHUNK: u64 = 16384;

fn array_of(world: &World) -> Uuid {
    probe(&world.disks[0].content()).unwrap().unwrap().superblock.array_uuid
}

/// A superblock of an array with the same UUID, on devices of `bytes`, and its place on them.
fn forged(metadata: Metadata, bytes: u64, array_uuid: Uuid) -> (u64, Vec<u8>) {
    let spec = FormatSpec {
        metadata,
        level: Level::Raid5,
        layout: Some(Layout::LeftSymmetric),
        chunk_bytes: 65536,
        component_bytes: None,
        device_bytes: vec![bytes; 3],
        array_uuid,
        device_uuids: (1..4).map(|i| Uuid([i; 16])).collect(),
        name: String::new(),
        ctime: 1,
        bitmap: false,
        bad_block_log: false,
        data_offset: None,
    };
    let (at, mut superblock) = spec.format().unwrap().members[1].writes[0].clone();
    superblock.resize(4096, 0);
    (at, superblock)
}

/// A volume whose data area reaches the end of its drives; what a user writes lies in the first
/// chunk of one stripe.
fn world(members: u16) -> (World, u64, Vec<u8>) {
    let shape = (Level::Raid5, Some(Layout::LeftSymmetric), members);
    let world = World::new(1, shape, CHUNK, 16, Consistency::Log);
    let (at, superblock) = forged(Metadata::V0_90, world.disks[0].size_bytes(), array_of(&world));
    let stripe = (at - world.data_offset) / CHUNK;
    assert_eq!((at - world.data_offset) % CHUNK, 0);
    (world, stripe, superblock)
}

fn is_ambiguous(disk: &Arc<FaultyDevice>) -> bool {
    matches!(probe(&disk.content()), Err(ProbeError::Ambiguous(..)))
}

#[test]
fn a_superblock_among_the_data_of_some_members_does_not_keep_the_volume_from_opening() {
    let (mut world, stripe, superblock) = world(4);
    let volume = world.open();
    let at = stripe * world.geometry.stripe_bytes();
    volume.device().write_at(at, &superblock).unwrap();
    stop(volume);
    // Parity of a block and zeros is the block.
    assert_eq!(world.disks.iter().filter(|disk| is_ambiguous(disk)).count(), 2);
    // No bit is cleared meanwhile: a member that misses that cannot come back.
    world.options.tick = Duration::from_secs(60);
    let volume = world.open();
    let mut read = vec![0; 4096];
    volume.device().read_at(at, &mut read).unwrap();
    assert!(read == superblock);
    // Nor a member from coming back.
    let role = (0..4).find(|role| is_ambiguous(&world.disks[usize::from(*role)])).map(Role).unwrap();
    let control = volume.control();
    control.fail(role).unwrap();
    wait_for("the failure", || volume.status().unwrap().missing == [role]);
    control.add(member(&world.disks[role.index()]), false).unwrap();
    wait_for("the rebuild", || volume.status().unwrap().missing.is_empty());
    stop(volume);
    assert_eq!(world.torn(), [] as [u64; 0]);
    let drives: Vec<MemberDrive> = world.disks.iter().map(member).collect();
    erase(&drives, array_of_any(&world), None).unwrap();
}

fn array_of_any(world: &World) -> Uuid {
    let plain = world.disks.iter().find(|disk| !is_ambiguous(disk)).unwrap();
    probe(&plain.content()).unwrap().unwrap().superblock.array_uuid
}

/// Nothing is guessed when no member is left that tells them apart.
#[test]
fn superblocks_among_the_data_of_all_members_are_refused() {
    let (world, stripe, superblock) = world(4);
    let volume = world.open();
    for chunk in 0..3 {
        let at = stripe * world.geometry.stripe_bytes() + chunk * CHUNK;
        volume.device().write_at(at, &superblock).unwrap();
    }
    stop(volume);
    assert!(world.disks.iter().all(is_ambiguous));
    let before: Vec<Vec<u8>> = world.disks.iter().map(|disk| disk.content()).collect();
    match world.try_open(&[0, 1, 2, 3]).map(drop) {
        Err(OpenError::Probe { device, source: ProbeError::Ambiguous(..) }) => assert_eq!(device, "disk0"),
        other => panic!("{other:?}"),
    }
    assert!(world.disks.iter().zip(before).all(|(disk, before)| disk.content() == before));
}

/// The data area of a new volume ends before those places.
#[test]
fn no_user_of_a_new_volume_reaches_the_places_of_superblocks() {
    let sizes = [5 << 20, (5 << 20) + 8192, (5 << 20) + 65536 - 512];
    let disks: Vec<_> = (0..3)
        .map(|i| Arc::new(FaultyDevice::new(&format!("disk{i}"), vec![0; sizes[i as usize]], i)))
        .collect();
    let drives: Vec<MemberDrive> = disks.iter().map(member).collect();
    let spec = CreateSpec { chunk_bytes: 4096, ..spec(Level::Raid5, Some(Layout::LeftSymmetric), 4096) };
    let array = create(&drives, &spec, |_, _| {}).unwrap();
    let options =
        World::new(1, (Level::Raid5, Some(Layout::LeftSymmetric), 3), CHUNK, 4, Consistency::Log).options;
    for metadata in [Metadata::V0_90, Metadata::V1_0] {
        let volume = open(&drives, &options).unwrap();
        let device = volume.device();
        let superblocks = sizes.map(|size| forged(metadata, size as u64, array).1);
        for (at, which) in (0..device.size_bytes()).step_by(4096).zip([0, 1, 2].iter().cycle()) {
            device.write_at(at, &superblocks[*which]).unwrap();
        }
        stop(volume);
        for disk in &disks {
            let found = probe(&disk.content()).unwrap().unwrap();
            assert_eq!(found.metadata(), Metadata::V1_2, "{}", disk.name());
        }
    }
}
