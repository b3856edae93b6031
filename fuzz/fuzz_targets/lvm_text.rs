//! Any text: what is accepted can be followed, and stays inside its physical volumes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_raid::lvm::group::Group;
use pumice_raid::lvm::pieces::pieces;
use pumice_raid::lvm::text;

fuzz_target!(|data: &[u8]| {
    let Ok(file) = text::parse(data) else { return };
    let Ok(group) = Group::of(&file) else { return };
    for (index, lv) in group.logical.iter().enumerate() {
        assert!(!group.above(index).contains(&index));
        let Ok(pieces) = pieces(&group, index) else { continue };
        let sum: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        assert_eq!(sum, lv.extents() * group.extent_bytes());
        for piece in pieces {
            let Some((pv, start)) = piece.place else { continue };
            let pv = &group.physical[pv];
            let first = pv.start_sector * 512;
            assert!(start >= first && start + piece.bytes <= first + pv.extents * group.extent_bytes());
        }
    }
});
