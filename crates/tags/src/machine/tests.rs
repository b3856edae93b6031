//! The machine, step by step.

use super::*;
use crate::geometry::GROUP_PAGES;
use crate::page::{Origin, Page};
use pumice_protect::guard::Guard;

/// Commands that were on their way to the queue when the tag file failed are told so too.
#[test]
fn a_write_whose_pages_come_after_the_tag_file_has_failed_ends() {
    let geometry = Geometry::new(1 << 20, 512, 512, Guard::Crc16, 64 << 10).expect("a drive");
    let mut machine = Machine::new(geometry, 0, 100);
    machine.begin(1, 0..1, Request::Write(Change::Zeros(1).into()));
    // It waits for the first one's blocks.
    machine.begin(2, 0..1, Request::Write(Change::Zeros(1).into()));
    let [Action::Load { id: 1, groups }] = &machine.take_actions()[..] else { panic!("one is loaded") };
    let groups = groups.iter().map(|group| Group::fresh(*group)).collect();
    machine.tags_failed();
    machine.loaded(1, groups);
    let ended: Vec<u64> = machine
        .take_actions()
        .into_iter()
        .filter_map(|action| match action {
            Action::Done { id, outcome: Outcome::TagsFailed } => Some(id),
            _ => None,
        })
        .collect();
    assert_eq!(ended, [1, 2]);
}

/// One flush of the drive serves every command that waits when it begins, and no other.
#[test]
fn flushes_that_wait_for_one_another_are_one() {
    let geometry = Geometry::new(1 << 20, 512, 512, Guard::Crc16, 64 << 10).expect("a drive");
    let mut machine = Machine::new(geometry, 0, 100);
    let told = |machine: &mut Machine| {
        let text = |action| match action {
            Action::Flush(Some(id)) => format!("flush for {id}"),
            Action::Done { id, outcome } => format!("{id}: {outcome:?}"),
            other => panic!("{other:?}"),
        };
        machine.take_actions().into_iter().map(text).collect::<Vec<_>>()
    };
    machine.begin_flush(1);
    assert_eq!(told(&mut machine), ["flush for 1"]);
    machine.begin_flush(2);
    machine.begin_flush(3);
    assert_eq!(told(&mut machine), [""; 0], "what they wait for may be written after the flush began");
    machine.flushed(Some(1), true);
    assert_eq!(told(&mut machine), ["1: Done", "flush for 2"]);
    machine.begin_flush(4);
    assert!(!machine.is_idle());
    machine.flushed(Some(2), false);
    assert_eq!(told(&mut machine), ["2: DriveFailed", "3: DriveFailed", "flush for 4"]);
    machine.flushed(Some(4), true);
    assert_eq!(told(&mut machine), ["4: Done"]);
    assert!(machine.is_idle());
}

/// Carries out everything but the loads, and returns those and the outcomes.
fn carry_out(machine: &mut Machine, guard: u64) -> (Vec<(u64, Vec<u64>)>, Vec<Outcome>) {
    let (mut loads, mut outcomes) = (Vec::new(), Vec::new());
    loop {
        let actions = machine.take_actions();
        if actions.is_empty() {
            return (loads, outcomes);
        }
        for action in actions {
            match action {
                Action::Load { id, groups } => loads.push((id, groups)),
                Action::Commit(records) => {
                    let numbers: Vec<u64> = (1..=records.len() as u64).map(|n| machine.last + n).collect();
                    machine.committed(&numbers, false, false);
                }
                Action::Write(id) => machine.data_written(id, true),
                Action::Read(id) => machine.data_read(id, Some(&[guard])),
                Action::Flush(id) => machine.flushed(id, true),
                Action::Store(_) => machine.stored(),
                Action::Release(_) => machine.released(true),
                Action::SeeAgain(_) => unreachable!("no write fails"),
                Action::Done { outcome, .. } => outcomes.push(outcome),
            }
        }
    }
}

/// A sweep's pages are on their way, while one of them is written, stored, and forgotten if nobody
/// keeps it.
#[test]
fn a_page_that_is_read_ahead_is_not_older_than_what_was_written_meanwhile() {
    let geometry = Geometry::new(4 << 20, 512, 512, Guard::Crc16, 64 << 10).expect("a drive");
    let group = geometry.blocks_of_page() * GROUP_PAGES;
    let mut machine = Machine::new(geometry, 0, 100_000);
    let fresh = |groups: &[u64]| groups.iter().map(|group| Group::fresh(*group)).collect::<Vec<_>>();
    machine.begin(1, 0..1, Request::Sweep);
    let (loads, _) = carry_out(&mut machine, 0);
    let [(1, ahead)] = &loads[..] else { panic!("it reads ahead") };
    assert_eq!(ahead, &[0, 1, 2, 3, 4, 5, 6, 7]);
    machine.begin(2, group..group + 1, Request::Write(Change::Zeros(1).into()));
    let (loads, _) = carry_out(&mut machine, 0);
    machine.loaded(2, fresh(&loads[0].1));
    carry_out(&mut machine, 0);
    machine.begin_checkpoint();
    carry_out(&mut machine, 0);
    assert!(!machine.cache.has_dirty());
    // The next step of a sweep forgets the pages of the last one that nobody holds.
    machine.begin(4, 10 * group..10 * group + 1, Request::Sweep);
    for (id, groups) in carry_out(&mut machine, 0).0 {
        machine.loaded(id, fresh(&groups));
    }
    carry_out(&mut machine, 0);
    machine.loaded(1, fresh(ahead));
    carry_out(&mut machine, 0);
    machine.begin(3, group..group + 1, Request::Read);
    let (loads, mut outcomes) = carry_out(&mut machine, geometry.zero_guard());
    if let [(3, groups)] = &loads[..] {
        // It is read again, as it was stored.
        let mut page = Page::unknown();
        page.set(&geometry, 0, &Tag::written(geometry.tuple(group, geometry.zero_guard())));
        let mut stored = fresh(groups);
        Arc::make_mut(&mut stored[0].pages)[0] = page;
        machine.loaded(3, stored);
        outcomes = carry_out(&mut machine, geometry.zero_guard()).1;
    }
    let [Outcome::Checked(judgement)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(judgement.fit[Origin::Written as usize], 1, "{judgement:?}");
}

/// A sweep needs no more memory than two of its steps.
#[test]
fn pages_that_a_sweep_has_left_are_forgotten() {
    let geometry = Geometry::new(64 << 20, 512, 512, Guard::Crc16, 64 << 10).expect("a drive");
    let mut machine = Machine::new(geometry, 0, 100_000);
    let (mut most, mut reads) = (0, 0);
    for (id, block) in (0..geometry.blocks()).step_by(100).enumerate() {
        machine.begin(id as u64, block..block + 1, Request::Sweep);
        let (loads, _) = carry_out(&mut machine, 0);
        for (id, groups) in loads {
            machine.loaded(id, groups.into_iter().map(Group::fresh).collect());
            reads += 1;
        }
        carry_out(&mut machine, 0);
        most = most.max(machine.cache.groups());
    }
    assert!(most as u64 <= 2 * SWEPT, "{most}");
    assert!(reads * SWEPT <= geometry.groups() + SWEPT, "{reads}");
}

/// Begins a write of zeros, loads its pages (`lost` among them), and returns its record.
fn commit(machine: &mut Machine, id: u64, block: u64, lost: &[u64]) -> Record {
    machine.begin(id, block..block + 1, Request::Write(Change::Zeros(1).into()));
    loop {
        let actions = machine.take_actions();
        assert!(!actions.is_empty(), "it waits for something else");
        for action in actions {
            match action {
                Action::Load { id, groups } => {
                    let group = |number: &u64| Group { lost: lost.to_vec(), ..Group::fresh(*number) };
                    machine.loaded(id, groups.iter().map(group).collect());
                }
                Action::Commit(mut records) => return records.remove(0),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// The pages of a checkpoint, up to which everything is done.
fn stored(machine: &mut Machine) -> Vec<u64> {
    machine.begin_checkpoint();
    loop {
        for action in machine.take_actions() {
            match action {
                Action::Flush(None) => machine.flushed(None, true),
                Action::Store(groups) => {
                    return groups.iter().flat_map(StoredGroup::pages).map(|(number, _)| number).collect();
                }
                // Told already.
                Action::Done { .. } | Action::Write(_) | Action::SeeAgain(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// The others of its group are written with a changed page, but then nobody would know any more
/// that one of them was lost.
#[test]
fn a_lost_page_stays_lost_when_another_page_of_its_group_comes_home() {
    let geometry = Geometry::new(1 << 20, 512, 512, Guard::Crc16, 64 << 10).expect("a drive");
    for (lost, pages) in [(&[][..], (0..GROUP_PAGES).collect()), (&[3], vec![1])] {
        let mut machine = Machine::new(geometry, 0, 100);
        commit(&mut machine, 1, geometry.blocks_of_page(), lost);
        machine.committed(&[1], false, false);
        machine.data_written(1, true);
        assert_eq!(stored(&mut machine), pages);
    }
}

/// The block of a write that the drive refused may be old. No later record may call it settled as
/// long as its own record is in the log, even if a checkpoint meant to release that.
#[test]
fn a_refused_write_is_not_settled_before_its_record_is_released() {
    let geometry = Geometry::new(1 << 20, 512, 512, Guard::Crc16, 64 << 10).expect("a drive");
    for (done, settled) in [(false, 6), (true, 7)] {
        let mut machine = Machine::new(geometry, 6, 100);
        commit(&mut machine, 1, 0, &[]);
        machine.committed(&[7], false, false);
        machine.data_written(1, false);
        machine.seen_again(1, &[None]);
        stored(&mut machine);
        machine.stored();
        let [Action::Release(7)] = &machine.take_actions()[..] else { panic!("the log is released") };
        machine.released(done);
        assert_eq!(commit(&mut machine, 2, 9, &[]).settled, settled, "{done}");
    }
}
