//! A device of LVM's with the fuzzer's bytes in label, area and text, with fitting checksums: read,
//! and every volume followed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_fuzz::{Device, seal_lvm, take};
use pumice_raid::lvm::{Device as Named, label, survey};

fuzz_target!(|data: &[u8]| {
    let _ = label::read(data);
    let mut rest = data;
    let choice = take(&mut rest);
    let (sector, rest) = rest.split_at(rest.len().min(480 * usize::from(choice & 1 == 1)));
    let (header, text) = rest.split_at(rest.len().min(64 * usize::from(choice & 2 == 2)));
    let pieces = seal_lvm(sector, header, text, choice >> 8);
    let device = Device { size: 1 << 20, pieces, filling: &[] };
    let found = survey(&[Named { name: "a", bytes: &device }]);
    // Twice the same device is never read as two.
    let twice = survey(&[Named { name: "a", bytes: &device }, Named { name: "b", bytes: &device }]);
    assert_eq!(found.groups.len(), twice.groups.len());
    for group in &twice.groups {
        let Ok(group) = &group.state else { continue };
        let devices = group.devices(&[Named { name: "a", bytes: &device }; 2]);
        assert!(devices.iter().all(Option::is_none), "a device that is there twice is used");
    }
});
