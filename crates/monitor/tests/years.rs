//! Random years of a machine in virtual time: outages, steps of the clock, daylight saving,
//! replaced members, rebuilds, shared disks, arrays that need many nights.
//! `docs/design/monitor.md` has the rules; the oracle does its own arithmetic.

#[path = "years/oracle.rs"]
mod oracle;
#[path = "years/random.rs"]
mod random;
#[path = "years/world.rs"]
mod world;
#[path = "years/year.rs"]
mod year;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of years: 200, 10,000 with `PUMICE_LONG=1`, or `PUMICE_MONITOR_YEARS`.
fn years() -> u64 {
    let long = std::env::var("PUMICE_LONG").is_ok_and(|value| value == "1");
    let usual = if long { 10_000 } else { 200 };
    std::env::var("PUMICE_MONITOR_YEARS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn no_year_breaks_a_rule() {
    let years = years();
    let first: u64 = std::env::var("PUMICE_MONITOR_FIRST").ok().and_then(|t| t.parse().ok()).unwrap_or(0);
    let next = AtomicU64::new(first);
    let sums = Mutex::new(year::Sums::default());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + years || wrong.lock().expect("lock").len() >= 20 {
                        break;
                    }
                    match year::live(seed) {
                        Ok(sum) => sums.lock().expect("lock").add(&sum),
                        Err(why) => wrong.lock().expect("lock").push(format!("year {seed}: {why}")),
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("lock");
    let sums = sums.into_inner().expect("lock");
    println!("{sums:?}");
    assert!(wrong.is_empty(), "{} years are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(sums.is_worth_it(), "the years did not show what they are for: {sums:?}");
}
