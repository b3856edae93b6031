//! Devices with several good superblocks: users of an array write what they like into its data
//! area, also superblocks where another format has its own.

use crate::devices::{Sparse, make, spec};
use pumice_raid::layout::Level;
use pumice_raid::superblock::v1::V1;
use pumice_raid::{FormatSpec, Known, Metadata, ProbeError, ReadAt, Uuid, probe, probe_for, probe_together};

const USERS: Uuid = Uuid([0x0D; 16]);

/// Four members, and what a user of the array writes over the places of another format.
fn ours() -> (FormatSpec, Vec<Sparse>) {
    let spec = spec(Metadata::V1_2, Level::Raid5, 4);
    let devices = make(&spec);
    (spec, devices)
}

fn forge(device: &mut Sparse, array: Uuid) {
    let mut forged = spec(Metadata::V0_90, Level::Raid5, 4);
    forged.array_uuid = array;
    forged.ctime -= 1;
    let (at, bytes) = forged.format().unwrap().members[1].writes[0].clone();
    device.write(at, &bytes);
}

fn version(found: Result<Option<pumice_raid::MemberRecord>, ProbeError>) -> Option<Metadata> {
    match found {
        Ok(found) => Some(found.unwrap().metadata()),
        Err(ProbeError::Ambiguous(..)) => None,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn what_is_known_of_the_device_decides() {
    let (spec, mut devices) = ours();
    forge(&mut devices[0], USERS);
    assert_eq!(version(probe(&devices[0])), None);
    let known = |array, metadata| version(probe_for(&devices[0], Known { array, metadata }));
    assert_eq!(known(Some(spec.array_uuid), None), Some(Metadata::V1_2));
    assert_eq!(known(Some(USERS), None), Some(Metadata::V0_90));
    assert_eq!(known(None, Some(Metadata::V1_2)), Some(Metadata::V1_2));
    assert_eq!(known(Some(Uuid([7; 16])), None), None);
    // A user of the array knows its UUID.
    forge(&mut devices[0], spec.array_uuid);
    let known = |metadata| version(probe_for(&devices[0], Known { array: Some(spec.array_uuid), metadata }));
    assert_eq!(known(None), None);
    assert_eq!(known(Some(Metadata::V1_2)), Some(Metadata::V1_2));
    // Where there is only one, it is told, whatever was expected.
    let other = Known { array: Some(USERS), metadata: Some(Metadata::V0_90) };
    assert_eq!(version(probe_for(&devices[1], other)), Some(Metadata::V1_2));
}

#[test]
fn a_newer_superblock_is_not_outvoted() {
    let (_, mut devices) = ours();
    let mut later = spec(Metadata::V0_90, Level::Raid5, 4);
    (later.array_uuid, later.ctime) = (USERS, later.ctime + 1);
    let (at, bytes) = later.format().unwrap().members[1].writes[0].clone();
    devices[0].write(at, &bytes);
    let all: Vec<&dyn ReadAt> = devices.iter().map(|device| device as &dyn ReadAt).collect();
    let found: Vec<_> = probe_together(&all, Known::default()).into_iter().map(version).collect();
    assert_eq!(found[0], None, "the disk may have left the array");
    assert_eq!(found[1], Some(Metadata::V1_2));
}

/// The choice among several superblocks does not make one the device's own.
#[test]
fn a_superblock_that_the_others_decide_for_is_still_another_ones() {
    let ours = spec(Metadata::V1_0, Level::Raid5, 4);
    let mut devices = make(&ours);
    forge(&mut devices[0], USERS);
    let look = |devices: &[Sparse]| {
        let devices: Vec<&dyn ReadAt> = devices.iter().map(|device| device as &dyn ReadAt).collect();
        probe_together(&devices, Known::default()).remove(0)
    };
    assert_eq!(version(look(&devices)), Some(Metadata::V1_0));
    // A swap area of the whole device.
    let mut page = vec![0; 4096];
    page[1024] = 1;
    page[1028..1032].copy_from_slice(&((devices[0].size / 4096 - 1) as u32).to_le_bytes());
    page[4086..].copy_from_slice(b"SWAPSPACE2");
    devices[0].write(0, &page);
    assert!(matches!(look(&devices), Err(ProbeError::Foreign(_))));
}

#[test]
fn the_devices_that_have_only_one_superblock_decide() {
    let (spec, mut devices) = ours();
    let look = |devices: &[Sparse]| -> Vec<_> {
        let devices: Vec<&dyn ReadAt> = devices.iter().map(|device| device as &dyn ReadAt).collect();
        probe_together(&devices, Known::default()).into_iter().map(version).collect()
    };
    let own = Some(Metadata::V1_2);
    for i in 0..3 {
        forge(&mut devices[i], spec.array_uuid);
        assert_eq!(look(&devices), [own; 4]);
    }
    // Those of another array, named beside them, decide nothing.
    let mut foreign = make(&FormatSpec { array_uuid: USERS, ..spec.clone() }).remove(0);
    let mixed = [devices[0].clone(), devices[3].clone(), foreign.clone()];
    assert_eq!(look(&mixed), [own; 3]);
    forge(&mut foreign, USERS);
    forge(&mut devices[3], spec.array_uuid);
    assert_eq!(look(&devices), [None; 4], "nobody is left to decide");
}

/// A superblock of 1.0 names its data area: if that does not reach the other superblock, the two
/// are not alike.
#[test]
fn a_superblock_in_the_data_of_another_does_not_count() {
    // If the other is newer, this one may be what an older use has left.
    for (component, newer, counts) in
        [(None, 0, Some(Metadata::V1_2)), (None, 1, None), (Some(32 << 20), 0, None)]
    {
        let own = FormatSpec { component_bytes: component, ..spec(Metadata::V1_2, Level::Raid5, 4) };
        let mut device = make(&own).remove(0);
        let other = FormatSpec { array_uuid: USERS, ..spec(Metadata::V1_0, Level::Raid5, 4) };
        let (at, bytes) = other.format().unwrap().members[0].writes[0].clone();
        let mut forged = V1::decode(&bytes, Metadata::V1_0).unwrap();
        forged.data_offset = 4096;
        forged.data_size -= 4096;
        forged.size = 8192;
        forged.utime += newer;
        device.write(at, &forged.encode());
        assert_eq!(version(probe(&device)), counts, "{component:?}, {newer}");
    }
}
