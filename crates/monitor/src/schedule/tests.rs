use super::*;
use crate::time::{HOUR, Running};

const START: i64 = 1_800_000_000;

fn at(seconds: i64) -> Now {
    Now { wall: Wall(START + seconds), running: Running(seconds.unsigned_abs() + 1000), synchronised: true }
}

fn seen(name: &str, disk: &str, hours: i64) -> Seen {
    Seen {
        array: ArrayId(name.to_owned()),
        name: name.to_owned(),
        members: vec![(Member(format!("{name}-0")), Disk(disk.to_owned()))],
        stripes: 10_000,
        member_bytes: (hours * HOUR) as u64 * 100_000_000,
        work: None,
    }
}

fn scheduler(config: &str) -> Scheduler {
    let config = Config::parse(config).expect("a configuration");
    Scheduler::new(MachineId("m".to_owned()), TimeZone::UTC, config)
}

#[test]
fn the_grid_has_its_phase_from_machine_and_array() {
    let phase = |machine: &str, array: &str| {
        grid::phase(&MachineId(machine.to_owned()), &ArrayId(array.to_owned())) % (30 * DAY as u64)
    };
    // 100 arrays of one machine, and one array on 100 machines, lie in every tenth of the period.
    for list in [
        (0..100).map(|i| phase("m", &format!("a{i}"))).collect::<Vec<_>>(),
        (0..100).map(|i| phase(&format!("m{i}"), "a")).collect(),
    ] {
        let tenths: std::collections::BTreeSet<u64> =
            list.iter().map(|phase| phase / (3 * DAY as u64)).collect();
        assert_eq!(tenths.len(), 10);
    }
    for seconds in [0, 1, 5 * DAY, 77 * DAY + 3] {
        let next = grid::next_point(30 * DAY, 12_345, Wall(seconds));
        assert!(next.0 > seconds && next.0 <= seconds + 30 * DAY);
        assert_eq!((next.0 - 12_345).rem_euclid(30 * DAY), 0);
        assert_eq!(grid::last_point(30 * DAY, 12_345, next), next);
    }
}

#[test]
fn a_plan_keeps_to_windows_disks_and_dates() {
    let mut machine = scheduler("");
    let arrays = vec![seen("a", "one", 20), seen("b", "one", 3), seen("c", "two", 1)];
    machine.step(at(0), Event::Look(arrays));
    let plan = machine.plan(at(0), 60);
    for (name, hours) in [("a", 20), ("b", 3), ("c", 1)] {
        let runs: Vec<&Planned> = plan.iter().filter(|run| run.array.0 == name).collect();
        let passes = runs.iter().filter(|run| run.ends).count();
        assert!((1..=3).contains(&passes), "{name}: {passes}");
        let first: f64 = runs.iter().take_while(|run| !run.ends).map(|run| run.share).sum();
        let seconds: i64 = runs.iter().take_while(|run| !run.ends).map(|run| run.to.since(run.from)).sum();
        assert!(seconds <= hours * HOUR && first < 1.0);
        for run in runs {
            let hour = run.from.0.rem_euclid(DAY) / HOUR;
            assert!(!(6..22).contains(&hour), "{run:?}");
            assert!(run.to.since(run.from) <= 8 * HOUR);
        }
    }
    let on_one: Vec<&Planned> = plan.iter().filter(|run| run.array.0 != "c").collect();
    assert!(on_one.windows(2).all(|pair| pair[1].from >= pair[0].to), "one disk, one run");
}

#[test]
fn never_is_not_read_and_not_late() {
    let mut machine = scheduler("[defaults]\nevery = \"never\"");
    machine.step(at(0), Event::Look(vec![seen("a", "one", 1)]));
    assert_eq!(machine.plan(at(0), 400), []);
    assert_eq!(machine.faults(at(4000 * DAY)), []);
}

#[test]
fn late_waits_for_a_clock_that_is_right() {
    let mut machine = scheduler("");
    machine.step(at(0), Event::Look(vec![seen("a", "one", 1)]));
    let after =
        |running, synchronised| Now { wall: Wall(START + 50 * DAY), running: Running(running), synchronised };
    assert_eq!(machine.faults(after(599, false)), []);
    let late = vec![(ArrayId("a".to_owned()), Fault::Late(Wall(START)))];
    assert_eq!(machine.faults(after(600, false)), late);
    assert_eq!(machine.faults(after(10, true)), late);
}

#[test]
fn a_state_of_another_version_is_refused() {
    let mut machine = scheduler("");
    machine.step(at(0), Event::Look(vec![seen("a", "one", 1)]));
    let text = serde_json::to_string(&machine.store()).expect("text");
    let restore = |text: &str| {
        let stored = serde_json::from_str(text).expect("a state");
        Scheduler::restore(machine.machine.clone(), TimeZone::UTC, machine.config.clone(), stored)
    };
    assert_eq!(restore(&text).map(|m| m.store()).ok(), Some(machine.store()));
    let newer = text.replace("\"version\":1", "\"version\":2");
    assert_eq!(restore(&newer).err(), Some(StateError::Version(2)));
}

#[test]
fn a_short_run_goes_between_and_a_long_one_does_not() {
    // "wide" needs both disks; "busy" reads one of them; "short" and "long" want the other.
    for (hours, begins) in [(0, true), (9, false)] {
        let mut machine =
            scheduler("[defaults]\nwindow = [\"00:00-24:00\"]\nnightly = \"24h\"\nparallel = 9");
        let mut wide = seen("wide", "one", 5);
        wide.members.push((Member("wide-1".to_owned()), Disk("two".to_owned())));
        let mut other = seen("other", "two", 1);
        other.member_bytes = other.member_bytes * hours + 1;
        machine.step(at(0), Event::Look(vec![seen("reads", "one", 4), wide, other]));
        // All are due; the first is made the most overdue, then "wide".
        let later = at(31 * DAY);
        let mut orders = Vec::new();
        for (name, due) in [("reads", 1), ("wide", 2), ("other", 3)] {
            let array = machine.arrays.get_mut(&ArrayId(name.to_owned())).expect("an array");
            array.refresh(later, machine.calendar.night(later.wall), &machine.calendar);
            array.want.as_mut().expect("due").due = Wall(due);
        }
        let night = machine.night_of(later);
        machine.choose(later, night, &mut orders);
        let began = |name: &str| {
            orders.iter().any(|order| matches!(order, Order::Start { array, .. } if array.0 == name))
        };
        assert!(began("reads") && !began("wide"));
        assert_eq!(began("other"), begins, "{hours} h");
    }
}

#[test]
fn a_check_in_the_future_makes_due_and_not_late() {
    let mut machine = scheduler("");
    machine.step(at(0), Event::Look(vec![seen("a", "one", 1)]));
    let end = |begun: i64| End {
        array: ArrayId("a".to_owned()),
        own: false,
        reading: Reading {
            begun: Wall(START + begun),
            members: vec![Member("a-0".to_owned())],
            stripes: Ranges::one(Range { from: 0, to: 10_000 }),
        },
        busy: Ranges::default(),
        seconds: 1,
        how: How::Done,
    };
    let array = ArrayId("a".to_owned());
    machine.step(at(10), Event::Ended(end(DAY - HOUR)));
    assert!(machine.due(&array).is_some_and(|due| due > at(10).wall), "less than a day ahead");
    machine.step(at(20), Event::Ended(end(300 * DAY)));
    assert!(machine.due(&array).is_some_and(|due| due <= at(20).wall));
    assert_eq!(machine.faults(at(20)), [(array.clone(), Fault::Clock)]);
    // When the clock is right again, the check counts.
    let right = at(310 * DAY);
    machine.step(right, Event::Tick);
    assert_eq!(machine.faults(right), []);
    assert!(machine.due(&array).is_some_and(|due| due > Wall(START + 300 * DAY)));
}
