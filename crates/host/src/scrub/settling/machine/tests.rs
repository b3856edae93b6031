use super::super::messages::Look;
use super::super::{HeldBy, Records, Word};
use super::*;
use pumice_offload::{Activity, AssociatedHost, Hosts, Writes};

const fn ms(n: u64) -> Moment {
    Duration::from_millis(n)
}

const SETTLE: u64 = 1000;

fn standing() -> Standing {
    Standing {
        in_use: true,
        settle: ms(SETTLE),
        run_by_hosts: false,
        running: false,
        counted: true,
        word: None,
        clauses: pumice_base::units::Rules::all(),
    }
}

/// One host on one node.
fn host(asked: u64, silent_ms: u32) -> HostsSeen {
    let host = AssociatedHost { mark: [1; 32], silent_ms, observer: false };
    let node = Hosts { epoch: 1, changes: 1, hosts: vec![host] };
    HostsSeen { asked: ms(asked), nodes: vec![Some(node)], saw_clean: false }
}

fn nobody(asked: u64) -> HostsSeen {
    let node = Hosts { epoch: 1, changes: 4, hosts: Vec::new() };
    HostsSeen { asked: ms(asked), nodes: vec![Some(node)], saw_clean: false }
}

fn look(ended: u64, seen: Option<u64>) -> Event<u64> {
    let still = Writes { started: 3, completed: 3 };
    let activity = vec![Some(Activity { epoch: 1, before: still, after: still })];
    Event::Looked(Look { ended: ms(ended), activity, seen })
}

fn array(clean: bool, records: Records) -> ArrayNow {
    ArrayNow { same: true, clean, events: 10, records, held: std::collections::BTreeMap::new() }
}

/// From a first look at stripe 7 that ended at `ended` to the decision about the second, `hosts`
/// being heard of in time.
fn decide(
    standing: &mut Standing,
    ended: u64,
    hosts: impl Fn(u64) -> HostsSeen,
    now: &ArrayNow,
) -> Action<u64> {
    let mut settling = Settling::new(standing, Patience::Batch, [7]);
    let mut time = 0;
    for _ in 0..1000 {
        let event = match settling.next() {
            Action::AskHosts => Event::Hosts(hosts(time)),
            Action::Look(7) => {
                time = time.max(ended);
                look(time, Some(99))
            }
            Action::ReadArray(_) => Event::Array(now.clone()),
            Action::WaitUntil(until) => {
                time = u64::try_from(until.as_millis()).unwrap();
                Event::Time(until)
            }
            decided => return decided,
        };
        settling.take(event);
    }
    panic!("it does not end");
}

/// Answers every question for hosts by what they are at the time, until something else is asked
/// for. When that is, and what.
fn wait(
    settling: &mut Settling<'_, u64>,
    mut time: u64,
    hosts: impl Fn(u64) -> HostsSeen,
) -> (u64, Action<u64>) {
    for _ in 0..10_000 {
        let event = match settling.next() {
            Action::AskHosts => Event::Hosts(hosts(time)),
            Action::WaitUntil(until) => {
                time = time.max(u64::try_from(until.as_millis()).unwrap());
                Event::Time(ms(time))
            }
            action => return (time, action),
        };
        settling.take(event);
    }
    panic!("it does not end");
}

#[test]
fn two_looks_are_apart_from_the_end_of_the_first() {
    let mut standing = standing();
    let mut settling = Settling::new(&mut standing, Patience::Batch, [0, 1]);
    settling.take(Event::Hosts(host(0, 0)));
    assert_eq!(settling.next(), Action::Look(0));
    // Longer than the settle time, and the one after it too.
    settling.take(look(1200, Some(5)));
    settling.take(look(2500, Some(6)));
    let (time, action) = wait(&mut settling, 2500, |asked| host(asked, 0));
    assert_eq!(action, Action::ReadArray(vec![0, 1]));
    assert!(time >= 2500 + SETTLE, "{time}");
    settling.take(Event::Array(array(true, Records::None)));
    assert_eq!(settling.next(), Action::Look(0));
}

/// A host of which something came at these times.
fn heard(at: &'static [u64]) -> impl Fn(u64) -> HostsSeen {
    move |asked| {
        let last = at.iter().copied().filter(|at| *at <= asked).max().unwrap_or(0);
        host(asked, u32::try_from(asked - last).unwrap())
    }
}

/// Time of the second look, if the first ended at 2000 and the host was heard at these times.
fn second_look(at: &'static [u64]) -> Option<u64> {
    let mut standing = standing();
    let mut settling = Settling::new(&mut standing, Patience::Batch, [0]);
    let hosts = heard(at);
    settling.take(Event::Hosts(hosts(1990)));
    settling.take(look(2000, Some(5)));
    match wait(&mut settling, 2000, hosts) {
        (time, Action::ReadArray(_)) => Some(time),
        (_, Action::Decide(0, Decision::Busy(5, Clause::Heard))) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_host_must_be_heard_of_after_the_wait() {
    // The last that came, came after the first look: the rest of it may be on its way still.
    assert_eq!(second_look(&[1900, 2100, 2900]), None);
    let time = second_look(&[1900, 2100, 2900, 3300]).unwrap();
    assert!((3300..3600).contains(&time), "{time}");
}

#[test]
fn a_silence_within_the_wait_makes_it_begin_anew() {
    // Silent for 1200 ms, across the end of the first look, and heard again before it was due.
    let time = second_look(&[1500, 2700, 3100, 3500, 3900, 4300, 4700]).unwrap();
    assert!(time >= 2700 + 1200, "{time}");
    // It was heard often enough.
    let time = second_look(&[1500, 2300, 3100, 3500, 3900, 4300, 4700]).unwrap();
    assert!(time < 3300, "{time}");
    // A silence that begins when the second look is due already is too late to hold anything back.
    let time = second_look(&[1900, 2500, 3050, 5000, 7000]).unwrap();
    assert!(time < 3300, "{time}");
}

#[test]
fn a_host_that_is_silent_at_regular_intervals_is_waited_for_once() {
    // A keep alive every three settle times.
    let time = second_look(&[500, 3500, 6500, 9500, 12_500]).unwrap();
    assert!((6500..10_000).contains(&time), "{time}");
}

#[test]
fn other_scrubs_are_neither_owners_nor_waited_for() {
    let observer = AssociatedHost { mark: [9; 32], silent_ms: 9000, observer: true };
    let with_observer = |mut seen: HostsSeen| {
        seen.nodes.iter_mut().flatten().for_each(|node| node.hosts.push(observer.clone()));
        seen
    };
    let now = array(false, Records::Bitmap);
    // It is silent for long; the host that may write is not.
    let action = decide(&mut standing(), 10, |asked| with_observer(host(asked, 0)), &now);
    assert_eq!(action, Action::Decide(7, Decision::Finding(99)));
    // The owner is gone, and the other scrub is still there.
    let mut run = Standing { run_by_hosts: true, running: true, ..standing() };
    let action = decide(&mut run, 10, |asked| with_observer(nobody(asked)), &now);
    assert_eq!(action, Action::Decide(7, Decision::Busy(99, Clause::Stay)));
}

#[test]
fn a_host_that_stays_silent_leaves_the_stripe_busy() {
    let now = array(true, Records::None);
    let action = decide(&mut standing(), 10, |asked| host(asked, 60_000), &now);
    assert_eq!(action, Action::Decide(7, Decision::Busy(99, Clause::Heard)));
}

#[test]
fn an_owner_that_is_gone_is_not_nobody() {
    let now = array(false, Records::Bitmap);
    let mut run = Standing { run_by_hosts: true, running: true, ..standing() };
    let action = decide(&mut run, 10, nobody, &now);
    assert_eq!(action, Action::Decide(7, Decision::Busy(99, Clause::Stay)));
    // Where no owner was, nobody is nobody.
    let action = decide(&mut standing(), 10, nobody, &now);
    assert_eq!(action, Action::Decide(7, Decision::Finding(99)));
}

#[test]
fn what_an_unclean_array_needs_depends_on_its_records() {
    let busy = |clause| Action::Decide(7, Decision::Busy(99, clause));
    let finding = Action::Decide(7, Decision::Finding(99));
    let mut named = array(false, Records::Bitmap);
    named.held.insert(7, HeldBy::Bitmap);
    let here = |asked| host(asked, 0);
    for (now, expected) in [
        (array(true, Records::None), finding.clone()),
        (array(false, Records::None), busy(Clause::Whole)),
        (array(false, Records::Ppl), busy(Clause::Whole)),
        (array(false, Records::Journal), busy(Clause::Whole)),
        (array(false, Records::Bitmap), finding.clone()),
        (named.clone(), busy(Clause::Bitmap)),
        (ArrayNow { clean: true, ..named }, finding.clone()),
    ] {
        assert_eq!(decide(&mut standing(), 10, here, &now), expected, "{now:?}");
    }
    let remembered = |asked| HostsSeen { saw_clean: true, ..host(asked, 0) };
    assert_eq!(decide(&mut standing(), 10, remembered, &array(false, Records::None)), finding);
    // A journal's array says "clean" while it is written: that it said so once proves nothing.
    assert_eq!(decide(&mut standing(), 10, remembered, &array(false, Records::Journal)), busy(Clause::Whole));
}

#[test]
fn a_clean_superblock_earlier_counts_while_its_hosts_stay_and_nothing_but_active_came_after() {
    let word = |hosts: HostsSeen, events| Standing {
        word: Some(Word { events: Some(events), hosts }),
        ..standing()
    };
    let now = array(false, Records::None);
    let here = |asked| host(asked, 0);
    assert!(matches!(
        decide(&mut word(host(0, 0), 9), 10, here, &now),
        Action::Decide(7, Decision::Finding(_))
    ));
    let busy = Action::Decide(7, Decision::Busy(99, Clause::Whole));
    assert_eq!(decide(&mut word(nobody(0), 9), 10, here, &now), busy, "others were there then");
    assert_eq!(decide(&mut word(host(0, 0), 8), 10, here, &now), busy, "something else has changed since");
}
