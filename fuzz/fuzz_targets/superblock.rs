//! Members of a new array, their superblocks changed anywhere and given a fitting checksum: probed,
//! inspected, assembled and planned.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_fuzz::{Device, seal_superblock, spec, take};
use pumice_raid::{InspectReport, Metadata, assemble, probe};
use pumice_base::units::StripeIndex;

fuzz_target!(|data: &[u8]| {
    let _ = probe(&data);
    let mut rest = data;
    let choice = take(&mut rest);
    let spec = spec(choice);
    let mut pieces = spec.format().expect("a good specification").members.swap_remove(0).writes;
    let changes = (rest.len() / 2).min(3 * (choice >> 24) as usize % 256);
    let (changes, filling) = rest.split_at(changes / 3 * 3);
    let superblock = &mut pieces[0].1;
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % superblock.len();
        superblock[at] = change[2];
    }
    seal_superblock(superblock, if spec.metadata == Metadata::V0_90 { 152 } else { 216 });
    // What stands beside the superblock is the fuzzer's, or as it was made.
    if choice >> 32 & 1 == 1 {
        pieces.truncate(1);
    }
    let device = Device { size: spec.device_bytes[0], pieces, filling };
    let Ok(Some(record)) = probe(&device) else { return };
    let _ = record.superblock.arrangement();
    // The same superblock as each number in turn, as if the members had been found.
    let set: Vec<_> = (0..u16::min(record.superblock.raid_disks, 8))
        .map(|number| {
            let mut record = record.clone();
            record.superblock.dev_number = number;
            record.superblock.device_uuid = None;
            (format!("m{number}"), record)
        })
        .collect();
    let probed = set.iter().map(|(device, record)| (device.clone(), Ok(Some(record.clone())))).collect();
    let _ = InspectReport::new(probed);
    if let Ok(mut array) = assemble(set) {
        array.assume_settled();
        let mut at = 0;
        for extent in array.plan(0..u64::MAX).take(100) {
            assert_eq!(extent.stripes.start, at);
            assert!(extent.stripes.end > at);
            at = extent.stripes.end;
            let stripe = StripeIndex(extent.stripes.start);
            let Some(geometry) = array.geometry().parity() else { continue };
            for role in geometry.stripe(stripe).data {
                let offset = geometry.array_offset(stripe, role, 0).expect("inside the array");
                assert_eq!(geometry.locate(offset).map(|l| (l.stripe, l.role)), Some((stripe, role)));
            }
        }
    }
});
