//! Histories that need one rule of the writer each: without it they go wrong.

use crate::harness::{Fault, Put, Setup, World, first_wrong};
use pumice_base::units::{Role, StripeIndex};
use pumice_raid::layout::{Layout, Level};
use pumice_volume::assemble::Rule;
use pumice_volume::{Command, Event, Request};

const SYMMETRIC: Option<Layout> = Some(Layout::LeftSymmetric);

/// A history that is right with all rules, and goes wrong for one of the seeds without this one.
fn needs(rule: Rule, seeds: u64, history: fn(u64, Option<Rule>)) {
    (0..seeds).for_each(|seed| history(seed, None));
    let found = first_wrong(0..seeds, |seed| history(seed, Some(rule)));
    println!("{rule:?}: wrong at {found:?}");
    assert!(found.is_some(), "{rule:?} is not needed?");
}

fn started(seed: u64, setup: &Setup, omit: Option<Rule>) -> World {
    let mut world = World::new(seed, setup);
    world.omit = omit;
    world.start().unwrap();
    world
}

fn starts(world: &mut World, seed: u64) {
    world.start().unwrap_or_else(|refusal| panic!("seed {seed}: {refusal}"));
}

fn write(world: &mut World, block: u64) {
    world.submit(Request::Write { offset: block * 4096, len: 4096, fua: false });
}

/// Everything is written, durably.
fn fill(world: &mut World) {
    let len = world.geometry.array_bytes();
    world.submit(Request::Write { offset: 0, len, fua: true });
    world.settle();
}

/// Members are gone, and the superblocks say so.
fn lose(world: &mut World, roles: &[Role]) {
    roles.iter().for_each(|role| world.disks[role.index()].lost = true);
    world.submit(Request::Flush);
    world.settle();
    assert_eq!(world.missing(), roles);
}

/// Nothing is missing, the rows fit, and so they do without a member.
fn is_whole(world: &mut World, seed: u64, without: Role) {
    world.verify();
    assert_eq!(world.missing(), [], "seed {seed}");
    assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
    world.disks[without.index()].lost = true;
    world.verify();
}

/// A row of two blocks was written, and then so much else on the members that hold them, but not
/// on the one with its parity, that their logs are full. The power goes after the flush: what they
/// hold counts until the heads say that it does not.
pub(crate) fn power_goes_before_the_heads_of_a_full_log(seed: u64, omit: Option<Rule>) {
    let (level, chunk) = (Level::Raid5, 65536);
    let setup = Setup { level, layout: SYMMETRIC, disks: 3, chunk, stripes: 3, log: true, near: false };
    let mut world = started(seed, &setup, omit);
    let geometry = world.geometry;
    let offset_of = |parity: u16, role: u16| {
        let stripe = (0..3).map(StripeIndex).find(|stripe| geometry.stripe(*stripe).p == Role(parity));
        geometry.array_offset(stripe.unwrap(), Role(role), 0).unwrap()
    };
    for role in [0, 1] {
        write(&mut world, offset_of(2, role) / 4096);
        world.settle();
    }
    let more = |world: &mut World| {
        if world.model.under_way() == 0 {
            world.submit(Request::Write { offset: offset_of(0, 1), len: chunk, fua: false });
        }
    };
    let flush = |command: &Command| matches!(command, Command::Flush { .. });
    while !world.waits_for(flush) {
        more(&mut world);
        assert!(world.step(), "seed {seed}: it stands still");
    }
    while world.execute_one(flush) {}
    for _ in 0..50 + world.random.next(150) {
        more(&mut world);
        world.execute_one(|command| Put::of(command) != Some(Put::Head));
    }
    world.crash();
    starts(&mut world, seed);
    is_whole(&mut world, seed, Role(2));
}

#[test]
fn room_of_records_is_used_again_only_when_the_horizon_is_durable() {
    needs(Rule::RoomAfterHorizon, 12, power_goes_before_the_heads_of_a_full_log);
}

/// A full stripe is lost with a member, and nodes rebuild another device from what is left.
fn a_member_is_rebuilt_over_bad_blocks(seed: u64, omit: Option<Rule>) {
    let level = if seed % 4 < 2 { Level::Raid5 } else { Level::Raid6 };
    let setup = Setup { level, layout: SYMMETRIC, disks: 5, chunk: 4096, stripes: 8, log: true, near: true };
    let mut world = started(seed, &setup, omit);
    fill(&mut world);
    let stripe = world.geometry.stripe_bytes();
    let torn = seed % 8;
    world.submit(Request::Write { offset: torn * stripe, len: stripe, fua: false });
    while !world.stores_wait() {
        assert!(world.step(), "seed {seed}: it stands still");
    }
    world.crash();
    let lost = world.geometry.stripe(StripeIndex(torn)).data[seed as usize % 3];
    world.disks[lost.index()].lost = true;
    world.may_be_unreadable = true;
    starts(&mut world, seed);
    world.verify();
    assert_eq!(world.model.unreadable, 1, "seed {seed}");
    world.join(lost);
    world.verify();
    assert_eq!((world.missing(), world.model.unreadable), (vec![], 2), "seed {seed}");
}

#[test]
fn a_stretch_reads_no_bad_blocks() {
    needs(Rule::StretchAvoidsBad, 24, a_member_is_rebuilt_over_bad_blocks);
}

/// A full stripe over blocks that are listed as bad is answered, and then the process that serves
/// the volume dies, before the lists without them are durable. The drives keep what they have.
fn a_full_stripe_over_bad_blocks_is_answered(seed: u64, omit: Option<Rule>) {
    let level = if seed % 4 < 2 { Level::Raid5 } else { Level::Raid6 };
    let setup = Setup { level, layout: SYMMETRIC, disks: 5, chunk: 4096, stripes: 8, log: true, near: true };
    let mut world = started(seed, &setup, omit);
    fill(&mut world);
    let stripe = world.geometry.stripe_bytes();
    let torn = seed % 8;
    let whole = Request::Write { offset: torn * stripe, len: stripe, fua: false };
    world.submit(whole);
    while !world.stores_wait() {
        assert!(world.step(), "seed {seed}: it stands still");
    }
    world.crash();
    let lost = world.geometry.stripe(StripeIndex(torn)).data[seed as usize % 3];
    world.disks[lost.index()].lost = true;
    world.may_be_unreadable = true;
    starts(&mut world, seed);
    world.verify();
    world.join(lost);
    world.verify();
    world.submit(whole);
    while world.model.under_way() > 0 {
        assert!(world.step(), "seed {seed}: it stands still");
    }
    let unreadable = world.model.unreadable;
    world.disks.iter_mut().for_each(crate::harness::disk::Disk::flush);
    world.crash();
    starts(&mut world, seed);
    world.verify();
    assert_eq!(world.model.unreadable, unreadable, "seed {seed}");
}

#[test]
fn a_full_stripe_over_bad_blocks_is_logged_with_its_blocks() {
    needs(Rule::MendedHasBlocks, 24, a_full_stripe_over_bad_blocks_is_answered);
}

/// Two members are rebuilt, and the second comes when the first is restored in part.
fn a_second_member_is_rebuilt_beside_the_first(seed: u64, omit: Option<Rule>) {
    let (level, near) = (Level::Raid6, true);
    let setup = Setup { level, layout: SYMMETRIC, disks: 5, chunk: 4096, stripes: 12, log: true, near };
    let mut world = started(seed, &setup, omit);
    fill(&mut world);
    lose(&mut world, &[Role(1), Role(3)]);
    world.volume.as_mut().unwrap().pace_rebuilds(1 + seed % 3);
    world.join(Role(3));
    world.settle();
    world.event(Event::Restore(1 + seed % 7));
    world.settle();
    world.volume.as_mut().unwrap().pace_rebuilds(u64::MAX);
    world.join(Role(1));
    world.settle();
    world.event(Event::Restore(u64::MAX));
    is_whole(&mut world, seed, Role(0));
}

#[test]
fn a_stretch_reads_no_member_that_lacks_some_of_its_windows() {
    needs(Rule::StretchAllOrNone, 24, a_second_member_is_rebuilt_beside_the_first);
}

/// A drive forgets what it had not flushed, and a stretch reads it before it fails.
fn a_member_fails_that_a_stretch_has_read(seed: u64, omit: Option<Rule>) {
    let (level, near) = (Level::Raid6, true);
    let setup = Setup { level, layout: SYMMETRIC, disks: 5, chunk: 4096, stripes: 8, log: true, near };
    let mut world = started(seed, &setup, omit);
    fill(&mut world);
    lose(&mut world, &[Role(2)]);
    world.volume.as_mut().unwrap().pace_rebuilds(4);
    world.join(Role(2));
    world.settle();
    let place = world.geometry.locate(seed % 9 * 4096).unwrap();
    if place.role == Role(2) {
        return;
    }
    write(&mut world, seed % 9);
    world.settle();
    world.event(Event::Restore(4));
    world.forget_unflushed(place.role);
    while world.execute_one(|command| matches!(command, Command::Gather { .. })) {}
    world.disks[place.role.index()].up = false;
    world.submit(Request::Flush);
    let fails = |command: &Command| *command == Command::Flush { role: place.role };
    while !world.execute_one(fails) {
        assert!(world.execute_one(|command| !matches!(command, Command::StoreStretch { .. })));
    }
    world.settle();
    world.event(Event::Restore(100));
    world.settle();
    assert_eq!(world.missing(), [place.role], "seed {seed}");
    world.verify();
}

#[test]
fn a_stretch_that_has_read_a_member_that_fails_does_not_count() {
    needs(Rule::StretchEnds, 36, a_member_fails_that_a_stretch_has_read);
}

/// A rebuild goes on in a clean array, a write makes it dirty, and the power goes: superblocks have
/// been written that no flush came before.
pub(crate) fn power_goes_after_a_rebuilding_array_becomes_dirty(seed: u64, omit: Option<Rule>) {
    let (level, near) = (Level::Raid5, seed % 2 == 1);
    let setup = Setup { level, layout: SYMMETRIC, disks: 4, chunk: 4096, stripes: 40, log: true, near };
    let mut world = started(seed, &setup, omit);
    fill(&mut world);
    lose(&mut world, &[Role(2)]);
    world.volume.as_mut().unwrap().pace_rebuilds(4);
    world.join(Role(2));
    world.settle();
    world.event(Event::Stop);
    world.settle();
    assert!(world.stopped, "seed {seed}");
    world.crash();
    world.begin().unwrap();
    world.volume.as_mut().unwrap().pace_rebuilds(4);
    world.settle();
    world.event(Event::Restore(20));
    world.settle();
    assert!(world.volume.as_ref().unwrap().is_clean(), "seed {seed}");
    write(&mut world, seed);
    world.run_superblocks(4);
    world.crash();
    starts(&mut world, seed);
    is_whole(&mut world, seed, Role(0));
}

#[test]
fn recovery_offset_is_never_ahead_of_what_is_flushed() {
    needs(Rule::RestoredIsFlushed, 24, power_goes_after_a_rebuilding_array_becomes_dirty);
}

/// A member fails when the end of another one's rebuild is put on record, and the power goes amid
/// the superblocks that say both. The one that failed is lost, or is back and called faulty.
fn a_member_fails_when_a_rebuild_ends(seed: u64, omit: Option<Rule>) {
    let (level, near) = (Level::Raid5, seed % 2 == 1);
    let setup = Setup { level, layout: SYMMETRIC, disks: 4, chunk: 4096, stripes: 6, log: true, near };
    let mut world = started(seed, &setup, omit);
    fill(&mut world);
    lose(&mut world, &[Role(2)]);
    world.join(Role(2));
    let windows = world.windows.count;
    let has_ended = |world: &World| {
        let rebuilds = world.volume.as_ref().unwrap().rebuilding();
        rebuilds == [(Role(2), windows, windows)]
            && world.waits_for(|command| matches!(command, Command::Flush { .. }))
    };
    while !has_ended(&world) {
        assert!(world.step(), "seed {seed}: the rebuild does not end");
    }
    let fails = [0, 1, 3][seed as usize / 2 % 3];
    world.disks[fails].up = false;
    assert!(world.run_superblocks(1 + seed / 6 % 2) > 0, "seed {seed}");
    world.late_actions();
    world.crash();
    world.disks[fails].lost = (seed / 12).is_multiple_of(2);
    starts(&mut world, seed);
    world.verify();
    assert_eq!(world.missing(), [Role(fails as u16)], "seed {seed}");
    world.bring_back(Role(fails as u16));
    is_whole(&mut world, seed, Role(2));
}

#[test]
fn a_rebuild_that_has_ended_is_on_record_before_a_failure() {
    needs(Rule::RebuiltFirst, 24, a_member_fails_when_a_rebuild_ends);
}

/// A write of bits that is no header's: every update writes the first sector.
fn is_bits(command: &Command) -> bool {
    matches!(command, Command::Put { at: 0x2200..0x3000, .. })
}

/// An array with more bits than fit beside the header, which is dirty; a block under the last bits
/// is to be written, and they are on their way.
fn with_bits_on_their_way(seed: u64, omit: Option<Rule>) -> World {
    let (level, near) = (Level::Raid5, seed % 2 == 1);
    let setup = Setup { level, layout: SYMMETRIC, disks: 4, chunk: 4096, stripes: 264, log: true, near };
    let mut world = World::with_regions(seed, &setup, 512);
    world.omit = omit;
    world.start().unwrap();
    write(&mut world, 0);
    world.settle();
    write(&mut world, LAST);
    while !world.waits_for(is_bits) {
        assert!(world.step(), "seed {seed}: no bits are written");
    }
    world
}

/// The last block of that array.
const LAST: u64 = 264 * 3 - 1;

/// Until the blocks of a write are on their way, and then some of them are in place.
fn store_some(world: &mut World, seed: u64) {
    while !world.stores_wait() {
        assert!(world.step(), "seed {seed}: it stands still");
    }
    world.execute_one(|command| matches!(command, Command::Write { .. } | Command::Store { .. }));
}

/// The power goes while a write is put in place: Linux could resync the array, and we recover it.
fn power_goes_amid_a_write(world: &mut World, seed: u64) {
    store_some(world, seed);
    world.crash();
    world.check_for_linux();
    starts(world, seed);
    is_whole(world, seed, Role(0));
}

/// The power goes when some members have a bit; then the region is written, and the power goes
/// again.
fn power_goes_amid_the_bits(seed: u64, omit: Option<Rule>) {
    let mut world = with_bits_on_their_way(seed, omit);
    for _ in 0..=seed % 3 {
        world.execute_one(is_bits);
    }
    world.late_actions();
    world.crash();
    starts(&mut world, seed);
    write(&mut world, LAST);
    power_goes_amid_a_write(&mut world, seed);
}

#[test]
fn after_recovery_every_member_has_the_bits_of_all() {
    needs(Rule::BitsOfAll, 8, power_goes_amid_the_bits);
}

/// A member cannot be reached when a bit is written, and is back before it is recorded; then the
/// power goes.
fn a_member_misses_a_bit(seed: u64, omit: Option<Rule>) {
    let mut world = with_bits_on_their_way(seed, omit);
    let away = Role(seed as u16 / 2 % 4);
    world.disks[away.index()].up = false;
    let its = |command: &Command| is_bits(command) && command.role() == Some(away);
    assert!(world.execute_one(its), "seed {seed}");
    world.disks[away.index()].up = true;
    world.event(Event::Returned(away));
    power_goes_amid_a_write(&mut world, seed);
}

#[test]
fn a_member_that_is_back_gets_the_bits_that_it_has_missed() {
    needs(Rule::BitsOfReturned, 8, a_member_misses_a_bit);
}

/// A device is to join when another member fails, and the power goes before the superblocks say so:
/// that member is believed, and what it had not flushed is in the logs.
pub(crate) fn a_member_fails_when_a_device_joins(seed: u64, omit: Option<Rule>) {
    let (level, near) = (Level::Raid6, seed % 2 == 1);
    let setup = Setup { level, layout: SYMMETRIC, disks: 5, chunk: 4096, stripes: 6, log: true, near };
    let mut world = started(seed, &setup, omit);
    fill(&mut world);
    lose(&mut world, &[Role(1)]);
    for _ in 0..6 {
        let block = world.random.next(18);
        write(&mut world, block);
    }
    world.settle();
    let fails = [0, 2, 3, 4][seed as usize / 2 % 4];
    world.join(Role(1));
    world.disks[fails].up = false;
    let heads = world.random.next(6);
    let is_head = |command: &Command| Put::of(command) == Some(Put::Head);
    for _ in 0..heads {
        while !world.waits_for(is_head) && world.step() {}
        world.execute_one(is_head);
    }
    world.crash();
    starts(&mut world, seed);
    world.verify();
    if world.missing().contains(&Role(1)) {
        world.bring_back(Role(1));
        world.verify();
    }
    for role in world.missing() {
        world.bring_back(role);
        world.verify();
    }
    is_whole(&mut world, seed, Role(0));
}

#[test]
fn a_device_joins_when_no_record_counts_any_more() {
    needs(Rule::HorizonBeforeJoin, 48, a_member_fails_when_a_device_joins);
}

/// Nodes cannot read what they need for a write, which turns to this host; a device joins
/// meanwhile. The write begins again after it, so the device must not wait for the write.
#[test]
fn a_device_joins_while_a_write_begins_again() {
    let mut asked = 0;
    for (seed, log) in (0..16).flat_map(|seed| [(seed, true), (seed, false)]) {
        let (level, near) = (Level::Raid6, true);
        let setup = Setup { level, layout: SYMMETRIC, disks: 5, chunk: 4096, stripes: 6, log, near };
        let mut world = started(seed, &setup, None);
        fill(&mut world);
        lose(&mut world, &[Role(1)]);
        let is_update = |command: &Command| matches!(command, Command::Update { .. });
        let block = seed % 18;
        write(&mut world, block);
        while !world.waits_for(is_update) && world.step() {}
        asked += u64::from(world.waits_for(is_update));
        (0..5).filter(|role| *role != 1).for_each(|role| world.decay(Role(role), block / 3));
        world.join(Role(1));
        world.may_be_unreadable = true;
        while world.execute_one(is_update) {}
        world.settle();
        assert_eq!(world.missing(), [], "seed {seed}, log {log}");
    }
    assert!(asked > 16, "{asked} writes of nodes");
}

/// A write of two blocks of a row is logged and not in place, a later one says that it was logged,
/// and its records on both data members are damaged.
fn two_records_of_a_row_are_damaged(seed: u64, omit: Option<Rule>) {
    let (level, disks) = if seed.is_multiple_of(2) { (Level::Raid6, 5) } else { (Level::Raid5, 4) };
    let setup = Setup { level, layout: SYMMETRIC, disks, chunk: 4096, stripes: 6, log: true, near: false };
    let mut world = started(seed, &setup, omit);
    fill(&mut world);
    world.crash();
    starts(&mut world, seed);
    world.verify();
    world.submit(Request::Write { offset: 0, len: 8192, fua: false });
    let is_log = |command: &Command| matches!(command, Command::Log { .. });
    let is_store = |command: &Command| matches!(command, Command::Write { .. });
    while world.execute_one(|command| !is_store(command)) {}
    write(&mut world, 12);
    while !world.waits_for(is_log) {
        assert!(world.execute_one(|command| !is_store(command)), "seed {seed}: it stands still");
    }
    while world.execute_one(is_log) {}
    world.late_actions();
    world.crash();
    let data = world.geometry.stripe(StripeIndex(0)).data;
    data[..2].iter().for_each(|role| world.spoil_first_record(*role));
    starts(&mut world, seed);
    let failures = world.model.failures;
    match level {
        // Its parities determine both.
        Level::Raid6 => is_whole(&mut world, seed, Role(0)),
        _ => {
            for block in [0, 1] {
                world.submit(Request::Read { offset: block * 4096, len: 4096 });
                world.settle();
            }
            assert_eq!(world.model.failures, failures + 2, "seed {seed}");
        }
    }
}

#[test]
fn blocks_whose_records_are_damaged_are_computed_from_others_or_unreadable() {
    needs(Rule::ErasedIsUnknown, 8, two_records_of_a_row_are_damaged);
}

/// A write is in place in part when the power goes, and one of its members has no log that can be
/// read any more.
fn a_log_cannot_be_read(seed: u64, fault: Fault) {
    let (level, near) = (Level::Raid5, seed % 2 == 1);
    let setup = Setup { level, layout: SYMMETRIC, disks: 4, chunk: 4096, stripes: 6, log: true, near };
    let mut world = started(seed, &setup, None);
    world.fault = fault;
    fill(&mut world);
    write(&mut world, 0);
    store_some(&mut world, seed);
    world.late_actions();
    world.crash();
    let stripe = world.geometry.stripe(StripeIndex(0));
    let unread = if seed % 4 < 2 { stripe.p } else { stripe.data[0] };
    world.spoil_heads(unread);
    starts(&mut world, seed);
    world.verify();
    if fault == Fault::None {
        assert_eq!(world.missing(), [unread], "seed {seed}");
    } else {
        assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
    }
}

#[test]
fn a_member_whose_log_cannot_be_read_is_not_believed() {
    (0..24).for_each(|seed| a_log_cannot_be_read(seed, Fault::None));
    let found = first_wrong(0..24, |seed| a_log_cannot_be_read(seed, Fault::UnreadableLogs));
    println!("{:?}: wrong at {found:?}", Fault::UnreadableLogs);
    assert!(found.is_some(), "the rule is not needed?");
}
