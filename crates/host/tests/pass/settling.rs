//! Findings on an array that hosts of a node may be running: what the node counts, who is there,
//! what it remembers, and what is on the drives.

use crate::altered::{Altered, Seen, Served};
use crate::world::{Kind, RAID6, World, options, pass, patch};
use pumice_base::units::Role;
use pumice_blockdev::BlockDevice;
use pumice_host::finding::{Clause, Unsettled, Verdict};
use pumice_host::scrub::{Options, Outcome};
use pumice_offload::AssociatedHost;
use pumice_raid::Metadata;
use std::sync::Arc;
use std::time::Duration;

/// The place of the arrays' superblocks, which are of version 1.2.
const OWN: Option<Seen> = Some(Seen::At(4096));

fn linux() -> Vec<AssociatedHost> {
    vec![AssociatedHost { mark: [1; 32], silent_ms: 0, observer: false }]
}

/// An array that is active, with a stripe of which only the data was written, and another that is
/// fine.
fn torn(bitmap: bool) -> World {
    let world = World::new(Kind { bitmap, ..RAID6 }, 3);
    world.damage(Role(1), 5, 4096, 4096, 0x5A);
    world.devices.iter().for_each(|device| {
        patch(device, |s| s.resync_offset = 0);
    });
    world
}

/// Sets or clears all bits of the bitmap of every member.
fn mark(world: &World, bits: u8) {
    for device in &world.devices {
        let record = pumice_raid::probe(&device.content()).unwrap().unwrap();
        let area = record.superblock.bitmap.unwrap();
        let states = record.bitmap.unwrap().header().state_bytes();
        let bytes = vec![bits; (states.end - states.start) as usize];
        device.write_at(area.start_bytes() + states.start, &bytes).unwrap();
    }
}

/// A scrub over one node, of an array that the hosts of the node are taken to run.
fn scrub(world: &World, hosts: Vec<AssociatedHost>, saw_clean: Option<Seen>) -> Outcome {
    let mut array = world.array(&[]);
    array.assume_running();
    let devices = world.devices.iter().map(|d| Arc::clone(d) as Arc<dyn BlockDevice>).collect();
    let node = Altered { served: Some(Served { hosts, saw_clean }), ..Altered::over(devices) };
    let target = world.on(node, array);
    let settle = Duration::from_millis(20);
    pass(&target, None, &Options { in_use: true, running_elsewhere: true, settle, ..options(1) })
}

fn said(outcome: &Outcome) -> Vec<(u64, Verdict, Option<Unsettled>, Option<Clause>)> {
    outcome.findings.iter().map(|f| (f.stripe, f.verdict, f.unsettled, f.clause)).collect()
}

#[test]
fn what_an_owner_that_is_gone_left_half_done_is_no_finding() {
    let world = torn(true);
    mark(&world, 0);
    let outcome = scrub(&world, Vec::new(), None);
    assert_eq!(said(&outcome), [(5, Verdict::Busy, Some(Unsettled::Host), Some(Clause::Stay))]);
    assert!(!outcome.is_complete());
}

#[test]
fn a_stripe_whose_bit_is_set_waits_for_a_resync_and_is_no_finding() {
    let world = torn(true);
    mark(&world, 0xFF);
    let outcome = scrub(&world, linux(), OWN);
    assert_eq!(said(&outcome), [(5, Verdict::Busy, Some(Unsettled::Bitmap), Some(Clause::Bitmap))]);
    assert_eq!(outcome.stripes_checked, 20, "a set bit stops no check");
    mark(&world, 0);
    let outcome = scrub(&world, linux(), None);
    assert!(outcome.is_complete());
    assert_eq!(outcome.findings.len(), 1);
    assert_eq!((outcome.findings[0].stripe, outcome.findings[0].verdict), (5, Verdict::Q));
}

#[test]
fn without_a_bitmap_a_resync_looks_like_any_active_array_and_nothing_is_a_finding() {
    let world = torn(false);
    let outcome = scrub(&world, linux(), None);
    assert_eq!(said(&outcome), [(5, Verdict::Busy, Some(Unsettled::Unproven), Some(Clause::Whole))]);
    let outcome = scrub(&world, linux(), OWN);
    assert!(outcome.is_complete(), "the node has seen it clean since its host is there");
    assert_eq!(outcome.findings[0].verdict, Verdict::Q);
}

#[test]
fn a_clean_superblock_at_another_place_than_the_arrays_own_says_nothing() {
    let world = torn(false);
    let unproven = [(5, Verdict::Busy, Some(Unsettled::Unproven), Some(Clause::Whole))];
    let size = world.devices[0].size_bytes();
    for metadata in [Metadata::V1_1, Metadata::V1_0, Metadata::V0_90] {
        // A user's data, where that version would have its superblock.
        let forged = Seen::At(metadata.super_offset(size).unwrap());
        assert_eq!(said(&scrub(&world, linux(), Some(forged))), unproven, "{metadata}");
    }
    let outcome = scrub(&world, linux(), Some(Seen::Somewhere));
    assert_eq!(said(&outcome), unproven, "an older node does not say which place it was");
    assert!(scrub(&world, linux(), OWN).is_complete());
}

#[test]
fn superblocks_in_the_middle_of_an_update_leave_the_stripe_busy() {
    let world = torn(true);
    mark(&world, 0);
    patch(&world.devices[2], |s| s.events += 1);
    let outcome = scrub(&world, linux(), OWN);
    assert_eq!(said(&outcome), [(5, Verdict::Busy, Some(Unsettled::ArrayChanged), Some(Clause::Same))]);
}
