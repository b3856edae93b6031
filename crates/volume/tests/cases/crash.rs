//! Crashes from a seed, for every case of `docs/design/volumes.md`, *Case by case*.
//!
//! A short form runs with the tests; `cargo xtask volume-cases --seeds N` is the long one.

use crate::harness::disk::Random;
use crate::harness::{Fault, Put, Setup, World, first_wrong};
use pumice_base::units::{Role, StripeIndex};
use pumice_raid::layout::{Layout, Level};
use pumice_volume::assemble::Rule;
use pumice_volume::{Command, Outcome, Refusal};

/// The event besides a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// The power goes.
    Crash,
    /// It goes again while the log is replayed.
    DuringReplay,
    /// It goes, and a member is lost with it.
    MemberLost,
    /// A member is missing for some time already.
    Degraded,
    /// A member fails while writes are under way, and the power goes soon after.
    FailedMidWrite,
    /// A new member is being rebuilt.
    Rebuilding,
    /// Linux runs the array before we come back.
    LinuxRan,
    /// A member cannot be reached when the log is replayed, or its log cannot be read; the power
    /// goes again, and it is back.
    AwayAtReplay,
    /// Members fail, come back and are replaced all the time.
    Members,
}

const CASES: [Case; 9] = [
    Case::Crash,
    Case::DuringReplay,
    Case::MemberLost,
    Case::Degraded,
    Case::FailedMidWrite,
    Case::Rebuilding,
    Case::LinuxRan,
    Case::AwayAtReplay,
    Case::Members,
];

pub(crate) fn setup(seed: u64, log: bool) -> Setup {
    let (level, layout, disks) = match seed / 7 % 5 {
        0 => (Level::Raid5, Some(Layout::LeftSymmetric), 4),
        1 => (Level::Raid6, Some(Layout::LeftSymmetric), 5),
        2 => (Level::Raid6, Some(Layout::DdfNContinue), 6),
        3 => (Level::Raid4, None, 3),
        _ => (Level::Raid5, Some(Layout::RightAsymmetric), 5),
    };
    let chunk = [4096, 16384, 131_072][(seed / 35 % 3) as usize];
    let near = seed % 2 == 1;
    // Enough for several stretches of a rebuild.
    let least = if near { 5 } else { 2 };
    Setup { level, layout, disks, chunk, stripes: (40_000 / chunk).max(least), log, near }
}

/// The number of members that may be lost yet, and one that is.
fn may_lose(world: &mut World) -> (usize, usize) {
    let role = world.random.next(world.disks.len() as u64) as usize;
    (world.may_lose(), role)
}

fn lose_one(world: &mut World) {
    let (left, role) = may_lose(world);
    world.disks[role].lost |= left > 0;
}

/// Loses a member, or its node with all that is on it, if the code survives that.
fn lose(world: &mut World) {
    let (left, role) = may_lose(world);
    let of_node = (0..world.disks.len()).filter(|other| world.same_node(role, *other));
    let of_node: Vec<usize> = of_node.collect();
    if world.nodes.is_some() && of_node.len() <= left && world.random.chance(50) {
        of_node.iter().for_each(|role| world.disks[*role].lost = true);
    } else {
        world.disks[role].lost |= left > 0;
    }
}

/// A member cannot be reached, or its log cannot be read; the power goes before the end of the
/// recovery, and the member is back.
fn away_at_replay(world: &mut World) {
    let (left, role) = may_lose(world);
    if left == 0 {
        return;
    }
    match world.random.chance(50) {
        true => world.disks[role].up = false,
        false => world.spoil_heads(Role(role as u16)),
    }
    world.begin().unwrap();
    let steps = world.random.next(60);
    world.run_recovery(steps);
    world.crash();
}

/// Says which history went wrong.
struct Named(u64, Case);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}, {:?}", self.0, self.1);
        }
    }
}

/// One history. What is wrong panics.
pub(crate) fn history(seed: u64, case: Case, fault: Fault, omit: Option<Rule>) -> World {
    history_of(seed, case, fault, omit, (case == Case::DuringReplay, false))
}

/// The same; the power goes in the middle of recovery as well, if `again`; `together`: the volume
/// is told of several events at once.
fn history_of(
    seed: u64,
    case: Case,
    fault: Fault,
    omit: Option<Rule>,
    (again, together): (bool, bool),
) -> World {
    let mut world = World::new(seed, &setup(seed, true));
    world.together = together;
    world.omit = omit;
    history_in(world, seed, case, fault, again)
}

/// The same, of a world that has not begun.
fn history_in(mut world: World, seed: u64, case: Case, fault: Fault, again: bool) -> World {
    let _name = Named(seed, case);
    world.start().unwrap();
    world.run(100);
    world.fault = fault;
    if matches!(case, Case::Degraded | Case::Rebuilding) {
        lose(&mut world);
        world.run(60);
        // By now it is known, and what was in place before is flushed on the others.
        world.submit(pumice_volume::Request::Flush);
        world.settle();
    }
    if case == Case::Rebuilding {
        let missing = world.volume.as_ref().unwrap().missing();
        if let Some(role) = missing.iter().find(|role| world.disks[role.index()].lost) {
            world.join(*role);
        }
    }
    for round in 0..2 {
        let steps = 20 + world.random.next(400);
        world.run(steps);
        for _ in 0..if case == Case::Members { 3 + world.random.next(6) } else { 0 } {
            world.change_member();
            let steps = world.random.next(60);
            world.run(steps);
        }
        if case == Case::FailedMidWrite {
            match world.random.chance(50) {
                true => lose(&mut world),
                // It is back after the crash, and has missed writes.
                false if world.missing().is_empty() => world.disks[0].up = false,
                false => {}
            }
            let steps = world.random.next(60);
            world.run(steps);
        }
        world.crash();
        if world.is_complete() && case != Case::FailedMidWrite {
            world.check_for_linux();
        }
        if case == Case::MemberLost {
            lose(&mut world);
            world.may_be_unreadable = true;
        }
        // A member that is lost and not recorded yet is lost with the power.
        world.may_be_unreadable |= matches!(case, Case::FailedMidWrite | Case::AwayAtReplay | Case::Members);
        if case == Case::LinuxRan && world.random.chance(70) {
            world.linux_runs();
        }
        if case == Case::AwayAtReplay || case == Case::Members && world.random.chance(30) {
            away_at_replay(&mut world);
        }
        if again {
            for _ in 0..world.random.next(3) {
                world.begin().unwrap();
                let steps = world.random.next(60);
                world.run_recovery(steps);
                world.crash();
                if world.is_complete() {
                    world.check_for_linux();
                }
            }
            if case == Case::DuringReplay && world.random.chance(30) {
                lose(&mut world);
                world.may_be_unreadable = true;
            }
        }
        world.start().unwrap_or_else(|refusal| panic!("seed {seed} {case:?} round {round}: {refusal}"));
        world.verify();
        let missing = world.missing();
        if let (Some(role), true) = (missing.first(), world.random.chance(50)) {
            // Rebuilt, also over bad blocks, while the next round goes on.
            world.bring_back(*role);
        } else if missing.is_empty() && world.model.unreadable == 0 {
            assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed} {case:?}: not clean after recovery");
        }
    }
    world
}

/// `PUMICE_VOLUME_SEEDS` of them from `PUMICE_VOLUME_SEED` on, or the short form.
pub(crate) fn seeds(short: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let first = number("PUMICE_VOLUME_SEED").unwrap_or(0);
    first..first + number("PUMICE_VOLUME_SEEDS").unwrap_or(short)
}

#[test]
fn after_any_crash_flushed_is_kept_and_the_rest_is_old_or_new() {
    let (mut applied, mut dropped, mut resynced, mut discarded, mut unreadable) = (0, 0, 0, 0, 0);
    let (mut near, mut far, mut late, mut refused, mut stretches) = (0, 0, 0, 0, 0);
    for seed in seeds(280) {
        let case = CASES[seed as usize % CASES.len()];
        let world = history(seed, case, Fault::None, None);
        applied += world.report.applied;
        dropped += world.report.dropped;
        resynced += world.report.resynced;
        discarded += u64::from(world.report.discarded);
        unreadable += world.model.unreadable;
        if let Some(nodes) = &world.nodes {
            (near, far) = (near + world.ways.0, far + world.ways.1);
            (late, refused) = (late + nodes.late, refused + nodes.refused);
            stretches += nodes.stretches;
        }
    }
    println!(
        "{applied} blocks applied, {dropped} writes dropped, {resynced} windows resynced, {discarded} logs discarded, {unreadable} blocks unreadable"
    );
    println!("over nodes: {near} writes near, {far} far; {refused} updates refused, {late} interims late");
    println!("{stretches} stretches stored");
    if seeds(280).count() < 280 {
        // Too few to have met everything.
        return;
    }
    assert!(near > 500 && far > 100 && refused > 50 && late > 0 && stretches > 20);
    assert!(applied > 100 && dropped > 10 && resynced > 10 && discarded > 10 && unreadable > 0);
}

/// Nodes make parity, or the host, for each operation anew: both kinds of records lie in one log,
/// and neighbours in a row were written on different ways.
#[test]
fn with_a_way_of_its_own_for_each_operation_flushed_is_kept_and_the_rest_is_old_or_new() {
    let (mut near, mut far, mut applied) = (0, 0, 0);
    for seed in seeds(140) {
        let case = CASES[seed as usize % CASES.len()];
        let setup = setup(seed, true);
        let mut world = World::new(seed, &Setup { near: true, stripes: setup.stripes.max(5), ..setup });
        world.ways_of_any = Some(Random(!seed));
        let world = history_in(world, seed, case, Fault::None, case == Case::DuringReplay);
        (near, far) = (near + world.ways.0, far + world.ways.1);
        applied += world.report.applied;
    }
    println!("{near} writes near, {far} far, {applied} blocks applied");
    assert!(seeds(140).count() < 140 || near > 500 && far > 500 && applied > 100);
}

/// A write of two blocks, one of which is unreadable and written in part, fails. The other one is
/// old then, or new, and what is written to it later lies over that.
#[test]
fn a_write_that_fails_leaves_each_of_its_blocks_old_or_new() {
    let mut met = 0;
    for seed in 0..60 {
        let (level, layout) = (Level::Raid5, Some(Layout::LeftSymmetric));
        let near = seed % 2 == 1;
        let setup = Setup { level, layout, disks: 4, chunk: 4096, stripes: 4, log: true, near };
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        let stripe = world.geometry.stripe_bytes();
        world.submit(pumice_volume::Request::Write { offset: 0, len: stripe, fua: false });
        while !world.stores_wait() {
            world.execute();
        }
        world.crash();
        // Its full stripe was being written: the first block is lost.
        let first = world.geometry.stripe(StripeIndex(0)).data[0];
        world.disks[first.index()].lost = true;
        world.may_be_unreadable = true;
        world.start().unwrap();
        world.verify();
        met += world.model.unreadable;
        let failures = world.model.failures;
        world.submit(pumice_volume::Request::Write { offset: 3584, len: 2048, fua: false });
        world.settle();
        assert_eq!(world.model.failures, failures + 1, "seed {seed}");
        world.submit(pumice_volume::Request::Write { offset: 6144, len: 2048, fua: false });
        world.settle();
        world.crash();
        world.start().unwrap();
        world.verify();
    }
    assert!(met > 20, "{met} blocks unreadable");
}

/// In every case the power goes again, up to twice, while the log is replayed.
#[test]
fn after_crashes_in_the_middle_of_any_recovery_flushed_is_kept_too() {
    for seed in seeds(140) {
        history_of(seed, CASES[seed as usize % CASES.len()], Fault::None, None, (true, false));
    }
}

/// An executor tells of what has ended meanwhile at once: requests and actions, in any order.
#[test]
fn what_is_told_together_breaks_no_promise() {
    for seed in seeds(140) {
        history_of(seed, CASES[seed as usize % CASES.len()], Fault::None, None, (seed % 3 == 0, true));
    }
}

/// Returns whether a history goes wrong, for any of some seeds.
fn goes_wrong(cases: &[Case], fault: Fault, omit: Option<Rule>, seeds: u64) -> bool {
    let of_all = |seed| cases.iter().for_each(|case| drop(history(seed * 7, *case, fault, omit)));
    let wrong = first_wrong(0..seeds, of_all);
    println!("{omit:?} {fault:?}: wrong at {wrong:?}");
    wrong.is_some()
}

#[test]
fn each_rule_that_is_left_out_loses_data() {
    use Case::{AwayAtReplay, Crash, Degraded, FailedMidWrite, LinuxRan, MemberLost};
    for (rule, cases) in [
        (Rule::OneWrite, &[Crash, Degraded][..]),
        (Rule::RecordsFirst, &[Crash, Degraded]),
        (Rule::HorizonEverywhere, &[MemberLost]),
        (Rule::FlushWaits, &[MemberLost]),
        (Rule::FailureFirst, &[FailedMidWrite]),
        (Rule::FailureBeforeHorizon, &[FailedMidWrite]),
        (Rule::LogAgain, &[FailedMidWrite]),
        (Rule::NewGeneration, &[LinuxRan]),
        (Rule::BlocksWhileDegraded, &[Degraded]),
        (Rule::HeadsFirst, &[Crash, Degraded]),
        (Rule::ParityOfTorn, &[Crash, MemberLost]),
        (Rule::BitsFirst, &[Crash]),
        (Rule::DirtyFirst, &[Crash, LinuxRan]),
        (Rule::AwayFirst, &[AwayAtReplay]),
    ] {
        assert!(goes_wrong(cases, Fault::None, Some(rule), 200), "{rule:?} is not needed?");
    }
}

#[test]
fn an_executor_that_breaks_its_word_loses_data() {
    use Case::{Crash, Degraded, FailedMidWrite, MemberLost};
    for (fault, cases) in [
        (Fault::LazyLog, &[Crash, Degraded][..]),
        (Fault::NoFlush, &[Crash]),
        (Fault::NoSuperblocks, &[FailedMidWrite, Crash]),
        (Fault::NoBits, &[Crash]),
        (Fault::NoBadBlocks, &[MemberLost]),
    ] {
        assert!(goes_wrong(cases, fault, None, 200), "{fault:?}");
    }
}

/// Without the log, a crash of a degraded array is refused; made to start all the same, it loses
/// blocks that nobody wrote.
#[test]
fn without_the_log_a_degraded_crash_is_refused_and_forced_it_shows_losses() {
    let (mut refused, mut losses) = (0, 0);
    for seed in 0..60 {
        let mut world = World::new(seed, &setup(seed, false));
        world.start().unwrap();
        world.run(100);
        lose(&mut world);
        let steps = 200 + world.random.next(400);
        world.run(steps);
        if !world.stores_wait() {
            continue;
        }
        world.crash();
        assert_eq!(world.begin(), Err(Refusal::DirtyDegraded), "seed {seed}");
        refused += 1;
        world.force_clean();
        world.start().unwrap();
        let world = std::cell::RefCell::new(world);
        losses += u32::from(first_wrong(seed..seed + 1, |_| world.borrow_mut().verify()).is_some());
    }
    assert!(refused > 20 && losses > 5, "{refused} refused, {losses} with losses");
}

/// Two hosts that cannot see each other. The second takes the token of all members that it reaches;
/// whatever the first still sends to them is refused, and it answers nothing any more.
#[test]
fn a_writer_that_was_cut_off_changes_nothing_and_answers_nothing() {
    let mut refused = 0;
    for seed in 0..100 {
        let mut world = World::new(seed, &setup(seed, true));
        world.start().unwrap();
        let steps = 50 + world.random.next(200);
        world.run(steps);
        // The first host's actions are on their way when the second comes.
        let late = world.late_actions();
        let answered = world.model.answers;
        let first = world.volume.take();
        let old = world.token;
        world.token = pumice_volume::token::Token { number: 2, host: 2 };
        world.take_tokens();
        world.release();
        world.model.crashed();
        world.start().unwrap();
        let new = world.token;
        world.token = old;
        let before: Vec<Vec<u8>> = world.disks.iter().map(|disk| disk.now.clone()).collect();
        let mut first = first.unwrap();
        for action in &late {
            let outcome = world.late(action);
            if action.command.writes() {
                assert_eq!(outcome, Outcome::Fenced);
                refused += 1;
            }
            first.handle(pumice_volume::Event::Done(action.id, outcome));
            for effect in first.effects() {
                if let (true, pumice_volume::Effect::Answer(_, result)) = (outcome == Outcome::Fenced, effect)
                {
                    assert!(result.is_err(), "seed {seed}");
                }
            }
        }
        assert!(world.disks.iter().zip(&before).all(|(disk, before)| disk.now == *before));
        world.token = new;
        assert_eq!(world.model.answers, answered);
        world.verify();
    }
    assert!(refused > 50, "{refused}");
}

/// Two members cannot be reached when the nodes have made the new blocks and some are in place, and
/// come back: differences would be of blocks some of which are new already.
fn members_return_while_blocks_are_stored(seed: u64, omit: Option<Rule>) {
    let (level, layout) = (Level::Raid5, Some(Layout::LeftSymmetric));
    let setup = Setup { level, layout, disks: 4, chunk: 16384, stripes: 4, log: true, near: true };
    let mut world = World::new(seed, &setup);
    world.omit = omit;
    world.start().unwrap();
    world.run(100);
    world.settle();
    for _ in 0..8 {
        let offset = world.random.next(world.geometry.array_bytes() / 4096) * 4096;
        world.submit(pumice_volume::Request::Write { offset, len: 4096, fua: false });
    }
    while !world.stores_wait() && world.model.under_way() > 0 {
        world.execute();
    }
    let first = world.random.next(4) as usize;
    let away = [first, (first + 1) % 4];
    away.iter().for_each(|role| world.disks[*role].up = false);
    world.submit(pumice_volume::Request::Flush);
    world.settle();
    assert!(world.held, "seed {seed}");
    for role in away {
        world.disks[role].up = true;
        world.event(pumice_volume::Event::Returned(Role(role as u16)));
    }
    world.verify();
    // Whoever came back second was failed meanwhile.
    if world.missing().is_empty() {
        assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
    }
}

#[test]
fn a_write_that_is_in_place_in_part_is_not_planned_again() {
    (0..60).for_each(|seed| members_return_while_blocks_are_stored(seed, None));
    let found = first_wrong(0..60, |seed| members_return_while_blocks_are_stored(seed, Some(Rule::KeepMade)));
    assert!(found.is_some(), "the rule is not needed?");
}

/// A write logs on some of its members, one node does nothing for it, and then its row cannot be
/// read: it fails. Another block of the row is written, and the members that did not log the first
/// write are lost.
pub(crate) fn a_write_fails_after_it_has_logged(seed: u64, omit: Option<Rule>) -> Option<()> {
    let (level, layout) = (Level::Raid6, Some(Layout::LeftSymmetric));
    let setup = Setup { level, layout, disks: 5, chunk: 4096, stripes: 4, log: true, near: true };
    let mut world = World::new(seed, &setup);
    world.omit = omit;
    world.start().unwrap();
    let stripe = world.geometry.stripe_bytes();
    world.submit(pumice_volume::Request::Write { offset: 0, len: stripe, fua: true });
    world.settle();
    let map = world.geometry.stripe(StripeIndex(0));
    let q = map.q?;
    world.refuses = Some(q);
    world.submit(pumice_volume::Request::Write { offset: 0, len: 4096, fua: false });
    let is_last = |command: &Command| match command {
        Command::Update { role, step, .. } => *role == q && step.record.is_some(),
        _ => false,
    };
    while world.execute_one(|command| !is_last(command)) {}
    if !world.execute_one(is_last) {
        // Something else went wrong before, and it was written on the far way.
        return None;
    }
    map.data.iter().for_each(|role| world.decay(*role, 0));
    world.settle();
    assert_eq!(world.model.failures, 1, "seed {seed}");
    world.disks.iter_mut().for_each(super::harness::disk::Disk::heal);
    world.submit(pumice_volume::Request::Write { offset: 4096, len: 4096, fua: false });
    world.settle();
    world.crash();
    world.disks[q.index()].lost = true;
    world.disks[map.data[2].index()].lost = true;
    world.start().unwrap_or_else(|refusal| panic!("seed {seed}: {refusal}"));
    world.verify();
    Some(())
}

#[test]
fn a_write_that_failed_after_it_had_logged_is_never_replayed_over_later_ones() {
    let met = (0..60).filter_map(|seed| a_write_fails_after_it_has_logged(seed, None)).count();
    assert!(met > 30, "{met}");
    let found =
        first_wrong(0..60, |seed| _ = a_write_fails_after_it_has_logged(seed, Some(Rule::FailedIsVoid)));
    assert!(found.is_some(), "the rule is not needed?");
}

/// Blocks of the media cannot be read any more, at most one of each row, and a member may be lost:
/// RAID-6 keeps everything.
#[test]
fn after_any_crash_on_media_that_decay_flushed_is_kept_and_the_rest_is_old_or_new() {
    for seed in seeds(140) {
        let _name = Named(seed, Case::Crash);
        let (layout, disks) = [(Layout::LeftSymmetric, 5), (Layout::DdfNContinue, 6)][seed as usize / 2 % 2];
        let chunk = [4096, 16384, 131_072][seed as usize / 4 % 3];
        let (level, layout, near) = (Level::Raid6, Some(layout), seed % 2 == 1);
        let stripes = (40_000 / chunk).max(2);
        let mut world = World::new(seed, &Setup { level, layout, disks, chunk, stripes, log: true, near });
        // A full stripe that was being written has no parity after a crash, if one of its data
        // blocks cannot be read.
        world.may_be_unreadable = true;
        world.start().unwrap();
        world.run(100);
        for round in 0..3 {
            world.decay_some(8);
            let steps = 20 + world.random.next(300);
            world.run(steps);
            if round == 1 && seed % 3 == 0 {
                lose_one(&mut world);
                world.run(60);
            }
            world.crash();
            world.start().unwrap_or_else(|refusal| panic!("seed {seed} round {round}: {refusal}"));
            world.verify();
        }
    }
}

/// A device that was failed takes its role again: the heads of its former life do not count.
#[test]
fn a_device_that_was_a_member_before_joins_as_a_new_one() {
    let layout = Some(Layout::LeftSymmetric);
    for seed in 0..30 {
        let setup =
            Setup { level: Level::Raid5, layout, disks: 4, chunk: 16384, stripes: 4, log: true, near: false };
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        world.run(300);
        world.settle();
        let content = world.disks[2].now.clone();
        world.disks[2].lost = true;
        world.submit(pumice_volume::Request::Flush);
        world.settle();
        world.join_with(Role(2), &content);
        // Old heads are written over one by one.
        let steps = 20 + world.random.next(100);
        world.run(steps);
        world.crash();
        world.start().unwrap_or_else(|refusal| panic!("seed {seed}: {refusal}"));
        assert!(!world.report.discarded, "seed {seed}: {:?}", world.report);
        world.verify();
    }
}

/// An array that one machine has open, no other one opens: while it runs, and after it crashed. It
/// takes up its own again, and what was stopped or released is anybody's.
#[test]
fn an_array_that_another_machine_has_open_is_refused_until_it_is_released() {
    let layout = Some(Layout::LeftSymmetric);
    let setup =
        Setup { level: Level::Raid5, layout, disks: 4, chunk: 16384, stripes: 4, log: true, near: true };
    for seed in 0..20 {
        let mut world = World::new(seed, &setup);
        world.token.host = 7;
        world.take_tokens();
        world.start().unwrap();
        world.run(200);
        world.crash();
        world.token = pumice_volume::token::Token { number: 2, host: 8 };
        world.take_tokens();
        let before: Vec<Vec<u8>> = world.disks.iter().map(|disk| disk.now.clone()).collect();
        let refused = world.begin();
        assert!(matches!(refused, Err(Refusal::Held { writer: 7, .. })), "seed {seed}: {refused:?}");
        assert!(world.disks.iter().zip(&before).all(|(disk, before)| disk.now == *before));
        // The machine itself comes back, and stops.
        world.token = pumice_volume::token::Token { number: 3, host: 7 };
        world.take_tokens();
        world.start().unwrap();
        world.verify();
        world.event(pumice_volume::Event::Stop);
        world.settle();
        assert!(world.stopped, "seed {seed}");
        world.token = pumice_volume::token::Token { number: 4, host: 8 };
        world.take_tokens();
        world.start().unwrap();
        world.verify();
        // Linux runs it: the mark of whoever had it before says nothing any more.
        world.crash();
        world.linux_runs();
        world.token = pumice_volume::token::Token { number: 5, host: 9 };
        world.take_tokens();
        world.start().unwrap();
        world.verify();
    }
}

/// An update of superblocks is given up before it writes one, because a member fails; the power
/// goes when the next one has written some. Nobody is two counts behind.
#[test]
fn an_update_that_is_given_up_early_leaves_no_gap_in_the_event_counts() {
    let layout = Some(Layout::LeftSymmetric);
    let setup =
        Setup { level: Level::Raid5, layout, disks: 4, chunk: 16384, stripes: 4, log: true, near: false };
    let mut met = 0;
    for seed in 0..60 {
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        world.submit(pumice_volume::Request::Write { offset: 0, len: 4096, fua: false });
        // Heads, bitmap headers, superblocks: the bitmap's comes from the first update to dirty.
        let Some(role) = world.run_to_bitmap_header() else { continue };
        world.disks[role.index()].lost = true;
        let before = world.events();
        let changed = |world: &World| {
            let now = world.events();
            now.iter().zip(&before).filter(|(now, before)| now != before).count()
        };
        while changed(&world) == 0 && world.step() {}
        met += u32::from(changed(&world) == 1);
        world.crash();
        world.start().unwrap_or_else(|refusal| panic!("seed {seed}: {refusal}"));
        world.verify();
    }
    assert!(met > 20, "{met}");
}

/// A role whose device fails while a superblock is being written, and works again after: what it
/// says is old.
#[test]
fn a_superblock_write_that_fails_once_costs_the_member() {
    for seed in 0..40 {
        let mut world = World::new(seed, &setup(seed, true));
        world.start().unwrap();
        let role = world.random.next(world.disks.len() as u64) as usize;
        world.fail_next(Role(role as u16), Put::Superblock, false);
        world.run(300);
        world.settle();
        let missing = world.volume.as_ref().unwrap().missing();
        assert_eq!(missing, [Role(role as u16)], "seed {seed}");
        // It is here again after the crash, and is not believed.
        world.crash();
        world.start().unwrap();
        assert_eq!(world.volume.as_ref().unwrap().missing(), [Role(role as u16)], "seed {seed}");
        world.verify();
    }
}

#[test]
fn a_log_that_is_full_makes_writes_wait_for_a_flush() {
    let layout = Some(Layout::LeftSymmetric);
    let setup =
        Setup { level: Level::Raid5, layout, disks: 4, chunk: 131_072, stripes: 6, log: true, near: false };
    let mut world = World::new(5, &setup);
    world.start().unwrap();
    // Half a stripe at a time: all of it goes through the log, and no request asks for a flush.
    for i in 0..60_u64 {
        let offset = i % 6 * 393_216 + 4096;
        world.submit(pumice_volume::Request::Write { offset, len: 196_608, fua: false });
        if i % 12 == 11 {
            world.settle();
        }
    }
    world.settle();
    assert!(world.flushes > 3, "{} flushes", world.flushes);
    world.crash();
    world.start().unwrap();
    world.verify();
}

/// Members of RAID-6 fail one after the other while many full stripes are in the log as intents:
/// they are logged again with all their blocks, twice.
fn members_fail_amid_full_stripes(seed: u64, omit: Option<Rule>) {
    let (level, layout) = (Level::Raid6, Some(Layout::LeftSymmetric));
    let (chunk, near) = (1 << 20, seed % 2 == 1);
    let mut world = World::new(seed, &Setup { level, layout, disks: 5, chunk, stripes: 4, log: true, near });
    world.omit = omit;
    world.start().unwrap();
    let stripe = world.geometry.stripe_bytes();
    for i in 0..4 {
        world.submit(pumice_volume::Request::Write { offset: i * stripe, len: stripe, fua: false });
    }
    for role in [1, 3] {
        let steps = 100 + world.random.next(400);
        world.run_some(steps);
        world.disks[role].lost = true;
    }
    world.submit(pumice_volume::Request::Flush);
    world.settle();
    assert_eq!(world.model.under_way(), 0, "seed {seed}: writes wait for ever");
    assert_eq!(world.missing(), [Role(1), Role(3)], "seed {seed}");
    world.verify();
}

#[test]
fn writes_that_are_logged_again_after_failures_always_find_room() {
    (0..10).for_each(|seed| members_fail_amid_full_stripes(seed, None));
    let found = first_wrong(0..10, |seed| members_fail_amid_full_stripes(seed, Some(Rule::RoomForAgain)));
    assert!(found.is_some(), "the rule is not needed?");
}

/// A write has logged on some members, and a node refuses the rest, when a device is to join: the
/// write is logged again before, or others that have begun would wait for it for ever.
#[test]
fn a_write_that_is_logged_again_does_not_wait_for_a_device_that_joins() {
    let (level, layout) = (Level::Raid6, Some(Layout::LeftSymmetric));
    let mut met = 0;
    for seed in 0..40 {
        let setup = Setup { level, layout, disks: 5, chunk: 4096, stripes: 4, log: true, near: true };
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        let stripe = world.geometry.stripe_bytes();
        world.submit(pumice_volume::Request::Write { offset: 0, len: 4 * stripe, fua: true });
        world.settle();
        let map = world.geometry.stripe(StripeIndex(0));
        let (q, lost) = (map.q.unwrap(), map.data[2]);
        world.disks[lost.index()].lost = true;
        world.submit(pumice_volume::Request::Flush);
        world.settle();
        world.refuses = Some(q);
        world.submit(pumice_volume::Request::Write { offset: 0, len: 4096, fua: false });
        let is_last = |command: &Command| match command {
            Command::Update { role, step, .. } => *role == q && step.record.is_some(),
            _ => false,
        };
        while world.execute_one(|command| !is_last(command)) {}
        // Another write has begun, and reads.
        world.submit(pumice_volume::Request::Write { offset: stripe, len: 2048, fua: false });
        world.join(lost);
        met += u32::from(world.execute_one(is_last));
        world.settle();
        assert_eq!((world.model.under_way(), world.missing()), (0, vec![]), "seed {seed}");
        assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
        world.verify();
    }
    assert!(met > 20, "{met}");
}
