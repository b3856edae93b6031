use super::*;

/// One byte a nanosecond everywhere, no latency, threads that cost nothing.
fn plain() -> Platform {
    Platform {
        drive_bytes: 100,
        segment: 100,
        parity: 1,
        batch: 1,
        medium: 1_000_000_000,
        medium_latency_ns: 0,
        pcie: 1_000_000_000,
        engine: 1_000_000_000,
        requests: 1,
        cmb: 1 << 20,
        drives_per_node: None,
        network: 1_000_000_000,
        host_network: 1_000_000_000,
        network_latency_ns: 0,
        memory: 1_000_000_000,
        memory_per_byte: 0.0,
        memory_per_segment_offloaded: 0.0,
        threads: 1,
        thread_per_stripe_ns: 0.0,
        thread_per_segment_ns: 0.0,
    }
}

/// Nanoseconds of a pass of whole units, all of them simulated.
fn takes(platform: &Platform, method: Method, drives: u64) -> u64 {
    let outcome = run(platform, method, drives).expect("a machine that can check");
    (outcome.seconds * 1e9).round() as u64
}

#[test]
fn two_stripes_by_the_host_by_hand() {
    let p = Platform {
        drive_bytes: 200,
        medium_latency_ns: 7,
        thread_per_stripe_ns: 10.0,
        thread_per_segment_ns: 20.0,
        ..plain()
    };
    // Stripe 1 is in memory at 107, folded at 107 + 10 + 2 x 20. Stripe 2 is there at 207.
    assert_eq!(takes(&p, Method::Host, 2), 207 + 50);
    // A thread that is slower than the drives: the second fold waits for the first.
    let slow = Platform { thread_per_segment_ns: 70.0, ..p };
    assert_eq!(takes(&slow, Method::Host, 2), 107 + 2 * 150);
}

#[test]
fn host_memory_bounds_the_thread() {
    let p = Platform { drive_bytes: 200, memory_per_byte: 2.0, ..plain() };
    // Two stripes of 200 bytes, 400 bytes of memory each; the first is there at 100.
    let outcome = run(&p, Method::Host, 2).expect("a machine");
    assert_eq!((outcome.seconds * 1e9).round() as u64, 100 + 2 * 400);
    assert!((outcome.threads_busy - 800.0 / 900.0).abs() < 1e-9, "{outcome:?}");
    assert_eq!(outcome.limit, "memory");
}

#[test]
fn the_host_network_is_shared_by_nodes() {
    let p = Platform { drives_per_node: Some(1), network_latency_ns: 5, ..plain() };
    // Two segments of 100 through one port of the host: 200, and the latency.
    assert_eq!(takes(&p, Method::Host, 2), 205);
}

#[test]
fn a_drive_fetches_then_folds_one_stripe_at_a_time() {
    // Three drives, stripes 0 to 5: each drive is the home of two.
    let p = Platform { drive_bytes: 600, medium_latency_ns: 7, ..plain() };
    let outcome = run(&p, Method::Stripe, 3).expect("a machine");
    // Two segments come over the home's port one after the other, and three are folded. In the
    // first
    // round all three homes read each medium; in the second they need not do it at the same time.
    assert_eq!(outcome.pcie_bytes.round() as u64, 6 * 2 * 100);
    let seconds = outcome.seconds * 1e9;
    assert!((2.0 * (7.0 + 200.0 + 300.0)..=2.0 * (7.0 + 300.0 + 300.0)).contains(&seconds), "{seconds}");
}

#[test]
fn two_stripes_of_two_drives_by_hand() {
    // Drive 0 and then drive 1 are home; 3 ns to issue each.
    // Stripe 0: media 3 to 103 and its reads there at 110, fold of 200 bytes. Stripe 1: issued at
    // 6,
    // media 103 to 203, there at 210, fold to 410.
    let p = Platform { drive_bytes: 200, medium_latency_ns: 7, thread_per_stripe_ns: 3.0, ..plain() };
    assert_eq!(takes(&p, Method::Stripe, 2), 410);
}

#[test]
fn more_requests_overlap_reading_and_folding() {
    let p = Platform { drive_bytes: 60_000, medium_latency_ns: 500, ..plain() };
    let alone = takes(&p, Method::Stripe, 3);
    let overlapped = takes(&Platform { requests: 4, ..p.clone() }, Method::Stripe, 3);
    // 200 stripes at each home: 500 + about 200 + 300 one by one, 300 when they overlap.
    assert!((195_000..=215_000).contains(&alone), "{alone}");
    assert!((58_000..=70_000).contains(&overlapped), "{overlapped}");
    // The CMB has room for two requests of three segments only.
    let small = Platform { requests: 4, cmb: 700, ..p };
    let bounded = takes(&small, Method::Stripe, 3);
    assert!(overlapped < bounded && bounded < alone, "{overlapped} {bounded} {alone}");
}

#[test]
fn interims_go_to_one_node_and_are_folded() {
    // Two nodes of one drive: each folds its own segment, one sends it, and both interims are
    // folded.
    let p = Platform { drive_bytes: 200, drives_per_node: Some(1), network_latency_ns: 5, ..plain() };
    let outcome = run(&p, Method::Stripe, 2).expect("a machine");
    assert_eq!((outcome.pcie_bytes.round() as u64, outcome.network_bytes.round() as u64), (200, 200));
    // Stripe 0 is read until 100 and folded until 200, stripe 1 from then until 400: one request at
    // a time.
    // Its interim is at the other drive at 400 + 100 + 2 x 5, and both are folded there in 200.
    assert_eq!(takes(&p, Method::Stripe, 2), 400 + 110 + 200);
}

#[test]
fn a_batch_moves_one_interim_a_drive() {
    let p = Platform { drive_bytes: 4_000, batch: 10, ..plain() };
    let outcome = run(&p, Method::Aggregate, 4).expect("a machine");
    // Four batches, from each of which three drives send 100 bytes.
    assert_eq!(outcome.pcie_bytes.round() as u64, 4 * 3 * 100);
    // Each drive reads and folds 40 segments one by one, and interims between.
    let takes = outcome.seconds * 1e9;
    assert!((8_000.0..=9_600.0).contains(&takes), "{takes}");
}

#[test]
fn a_long_pass_goes_on_at_the_rate_of_its_steady_part() {
    let p = Platform { medium_latency_ns: 3_000, ..plain() };
    let at =
        |stripes: u64| takes(&Platform { drive_bytes: 100 * stripes, ..p.clone() }, Method::Stripe, 3) as f64;
    // 288 stripes are simulated at most with three drives.
    let (short, long) = (at(288), at(28_800));
    assert!((long / short / 100.0 - 1.0).abs() < 0.02, "{short} {long}");
}

/// Three nodes of eight: of each stripe 24 segments are folded, and then two interims of each node.
#[test]
fn no_pass_is_faster_than_its_engines() {
    let p = Platform { engine: 5_000_000_000, ..Platform::modern() };
    let outcome = run(&p, Method::Stripe, 24).expect("a machine");
    let most = 24.0 * 5e9 * 24.0 / 30.0;
    assert!((0.95..=1.01).contains(&(outcome.checked_per_s / most)), "{outcome:?} {most}");
}

#[test]
fn machines_that_cannot_check_are_refused_by_name() {
    let said = |p: Platform, method, drives| run(&p, method, drives).expect_err("refused").to_string();
    assert_eq!(said(Platform { engine: 0, ..plain() }, Method::Stripe, 3), "engine is 0");
    assert_eq!(said(plain(), Method::Host, 1), "drives: 1 are no array");
    let small = Platform { cmb: 250, ..plain() };
    assert!(said(small.clone(), Method::Stripe, 3).starts_with("cmb: 250 bytes hold no request of 3"));
    assert!(run(&small, Method::Host, 3).is_ok() && run(&small, Method::Aggregate, 3).is_ok());
    assert!(said(Platform { segment: 101, ..plain() }, Method::Host, 3).starts_with("segment: 101"));
}

/// A whole pass has many times the tasks that are in progress at a time.
#[test]
fn memory_is_bounded_by_what_is_in_progress() {
    let p = Platform { threads: 1, ..Platform::modern() };
    for method in Method::ALL {
        let mut first = Pass::new(&p, method, 128);
        first.unit(0, 2);
        let one = first.machine.most_tasks();
        let ahead = if method == Method::Aggregate { AHEAD } else { AHEAD * 129 };
        let mut pass = Pass::new(&p, method, 128);
        let played = pass.play(2 * ahead, true, 2);
        assert_eq!((played.begun, played.ends.len() as u64), (3 * ahead - 1, 3 * ahead - 1), "{method:?}");
        let most = one * ahead as usize;
        let tasks = pass.machine.most_tasks();
        assert!(tasks <= most, "{method:?}: {tasks} tasks, {most} of {ahead} units");
    }
}
