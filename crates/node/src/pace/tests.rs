//! Drives that are read in the background beside a foreground.

use super::*;
use pumice_pacer::Decision;

const ALWAYS: &(dyn Fn() -> bool + Sync) = &|| true;

/// One drive, and nothing beside it.
fn alone() -> Pacing {
    Pacing::new([(1 << 30, BTreeSet::new())])
}

fn on(disks: &[&str]) -> BTreeSet<String> {
    disks.iter().map(|disk| (*disk).to_owned()).collect()
}

#[test]
fn drives_on_one_disk_are_read_in_turn_and_one_foreground_is_seen_by_all() {
    let pacing = Pacing::new([(1 << 30, on(&["a"])), (1 << 30, on(&["a"])), (1 << 30, on(&["b"]))]);
    let goal = PaceRequest { slowdown_ns: Some(1_000_000), ..PaceRequest::default() };
    pacing.ask(1, goal).unwrap();
    let (one, other, apart) = (pacing.reader(0, 1), pacing.reader(1, 1), pacing.reader(2, 1));
    let granted = one.start(4096, ALWAYS).unwrap();
    assert!(apart.start(4096, ALWAYS).is_some(), "another disk");
    let next = pacing.lanes[0].lock().pacer.as_mut().map(|pacer| pacer.next(pacing.now()));
    assert_eq!(next, Some(Decision::WaitForEvent), "the disk is read");
    one.done(granted);
    let granted = other.start(4096, ALWAYS).unwrap();
    other.done(granted);
    let request = pacing.arrived(1, Duration::ZERO);
    pacing.completed(1, request, 4096);
    let figures = pacing.figures(0);
    let of = |i: usize| (figures[i].paced_with.0, figures[i].requests, figures[i].foreground);
    assert_eq!([of(0), of(1), of(2)], [(1, 1, 1), (1, 1, 1), (3, 0, 0)]);
}

#[test]
fn who_waits_for_a_turn_can_be_let_go() {
    let pacing = Pacing::new([(1 << 30, on(&["a"])), (1 << 30, on(&["a"]))]);
    let goal = PaceRequest { slowdown_ns: Some(1_000_000), ..PaceRequest::default() };
    pacing.ask(1, goal).unwrap();
    // Somebody is served all the time: the first to ask keeps its turn.
    let request = pacing.arrived(0, Duration::ZERO);
    let wanted = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| pacing.reader(0, 1).start(4096, ALWAYS));
        while pacing.lanes[0].waiting.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let second = scope.spawn(|| pacing.reader(1, 1).start(4096, &|| wanted.load(Ordering::Relaxed)));
        // Longer than a nap.
        std::thread::sleep(Duration::from_millis(250));
        assert_eq!(pacing.lanes[0].waiting.load(Ordering::Relaxed), 1, "one asks at a time");
        wanted.store(false, Ordering::Relaxed);
        assert_eq!(second.join().unwrap(), None);
        assert!(!first.is_finished());
        pacing.completed(0, request, 4096);
        while !first.is_finished() {
            pacing.wake();
            std::thread::yield_now();
        }
        assert!(first.join().unwrap().is_some());
    });
}

fn rate(rate: u64) -> PaceRequest {
    PaceRequest { rate: Some(rate), ..PaceRequest::default() }
}

#[test]
fn a_rate_is_held() {
    let pacing = alone();
    pacing.ask(1, rate(20 << 20)).unwrap();
    let reader = pacing.reader(0, 1);
    let began = Instant::now();
    let mut bytes = 0;
    while began.elapsed() < Duration::from_millis(300) {
        let granted = reader.start(100_000, ALWAYS).unwrap();
        assert!(granted <= 100_000);
        bytes += granted;
        reader.done(granted);
    }
    let most = f64::from(20 << 20) * began.elapsed().as_secs_f64() + f64::from(2 << 20) + 100_000.0;
    assert!((bytes as f64) <= most, "{bytes} of {most}");
    assert_eq!(pacing.figures(0)[0].bytes, bytes);
}

#[test]
fn a_core_waits_for_nobody_and_nothing_it_tells_is_lost() {
    let pacing = alone();
    pacing.ask(1, rate(1 << 20)).unwrap();
    let held = locked(&pacing.lanes[0].state);
    for _ in 0..10 {
        let request = pacing.arrived(0, Duration::ZERO);
        pacing.completed(0, request, 4096);
        pacing.wake();
    }
    drop(held);
    assert_eq!(pacing.figures(0)[0].foreground, 10);
    assert_eq!(pacing.figures(0)[0].clear, 10);
    assert!(locked(&pacing.lanes[0].left).is_empty());
}

#[test]
fn who_waits_for_a_request_is_woken_when_it_is_answered() {
    let pacing = alone();
    let goal = PaceRequest { slowdown_ns: Some(1_000_000), ..PaceRequest::default() };
    pacing.ask(1, goal).unwrap();
    let request = pacing.arrived(0, Duration::ZERO);
    std::thread::scope(|scope| {
        let read = scope.spawn(|| pacing.reader(0, 1).start(4096, ALWAYS));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!read.is_finished(), "somebody is served");
        pacing.completed(0, request, 4096);
        while !read.is_finished() {
            pacing.wake();
            std::thread::yield_now();
        }
        assert!(read.join().unwrap().is_some());
    });
}

#[test]
fn what_several_ask_for_is_all_heeded_until_they_are_gone() {
    let pacing = alone();
    assert!(!pacing.is_active() && pacing.figures(0).is_empty());
    pacing.ask(1, rate(1 << 20)).unwrap();
    pacing.ask(2, rate(8 << 20)).unwrap();
    assert_eq!(locked(&pacing.requests).effective.rate, Some(1 << 20));
    pacing.sweep(|asker| asker == 2);
    assert_eq!(locked(&pacing.requests).effective.rate, Some(8 << 20));
    pacing.sweep(|_| false);
    assert!(!pacing.is_active() && pacing.figures(0).is_empty());
    let wrong = PaceRequest { policy: Some(PacePolicy::Priced), ..PaceRequest::default() };
    assert!(pacing.ask(3, wrong).is_err());
}

#[test]
fn buffers_are_kept_while_there_is_a_pace() {
    let pacing = alone();
    let kept = |pacing: &Pacing| locked(&pacing.buffers).len();
    pacing.keep(pacing.buffer(8192));
    assert_eq!(kept(&pacing), 0);
    pacing.ask(1, rate(1 << 20)).unwrap();
    pacing.keep(pacing.buffer(8192));
    pacing.keep(pacing.buffer(KEPT));
    assert_eq!(kept(&pacing), 1, "more than is kept");
    assert_eq!((pacing.buffer(4096).len(), kept(&pacing)), (4096, 1));
    assert_eq!((pacing.buffer(8000).len(), kept(&pacing)), (8192, 0));
    pacing.keep(pacing.buffer(8192));
    pacing.sweep(|_| false);
    assert_eq!(kept(&pacing), 0);
}

#[test]
fn a_read_that_nobody_wants_any_more_does_not_wait_for_its_window() {
    let pacing = alone();
    let now = pacing.second_of_day;
    let later = ((now + 7200) % 86_400, (now + 7260) % 86_400);
    pacing.ask(1, PaceRequest { windows: vec![later], ..PaceRequest::default() }).unwrap();
    let wanted = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let read = scope.spawn(|| pacing.reader(0, 1).start(4096, &|| wanted.load(Ordering::Relaxed)));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!read.is_finished());
        wanted.store(false, Ordering::Relaxed);
        assert_eq!(read.join().unwrap(), None);
        let read = scope.spawn(|| pacing.reader(0, 1).start(4096, ALWAYS));
        pacing.stop();
        assert_eq!(read.join().unwrap(), None);
    });
}

/// One host wants its scrubs at one time of day, the other one later: neither is read outside the
/// time that it has asked for itself, whoever asked first.
#[test]
fn the_times_of_day_of_two_hosts_are_both_heeded() {
    let pacing = alone();
    let now = pacing.second_of_day;
    let at = |from: u32, to: u32| PaceRequest {
        windows: vec![((now + from) % 86_400, (now + to) % 86_400)],
        ..PaceRequest::default()
    };
    let open_now = |pacing: &Pacing| {
        let mut state = pacing.lanes[0].lock();
        matches!(state.pacer.as_mut().unwrap().next(pacing.now()), Decision::StartRequest { .. })
    };
    // A part of the day that is open now, for a minute at least; and one that is not.
    let (open, closed) = (at(86_400 - 3600, 3600), at(7200, 7260));
    let _reader = pacing.reader(0, 1);
    for (first, second) in [(open.clone(), closed.clone()), (closed, open.clone())] {
        pacing.ask(1, first).unwrap();
        pacing.ask(2, second).unwrap();
        assert_eq!(locked(&pacing.requests).effective.windows, [NEVER]);
        assert!(!open_now(&pacing));
    }
    pacing.ask(1, at(86_400 - 60, 1800)).unwrap();
    pacing.ask(2, open).unwrap();
    assert!(open_now(&pacing));
}

/// A reader that has its lane asks the floor, which looks at the requests, while somebody changes
/// the pace and waits for that lane. Both end.
#[test]
fn a_reader_looks_for_the_floor_while_a_pace_changes() {
    // Threads that wait for each other cannot be joined.
    let pacing: &'static Pacing = Box::leak(Box::new(alone()));
    pacing.ask(1, rate(4096)).unwrap();
    let lane = pacing.lanes[0].lock();
    pacing.drives[0].bytes.store(1, Ordering::Relaxed);
    let change = std::thread::spawn(|| pacing.ask(3, rate(8192)));
    while pacing.drives[0].bytes.load(Ordering::Relaxed) != 0 {
        // It has begun, and is about to wait for the lane.
        std::thread::yield_now();
    }
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let reader = Reader { pacing, index: 0, asker: 2, past_pacer: Cell::new(false) };
        let _ = ended.send(reader.by_floor(4096));
        // A reader that ends takes the lane.
        std::mem::forget(reader);
    });
    let granted = end.recv_timeout(Duration::from_secs(20)).expect("it waits for nobody");
    assert_eq!(granted, Some(4096));
    drop(lane);
    change.join().unwrap().unwrap();
}
