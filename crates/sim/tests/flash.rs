//! The study of flash on a trace that the environment names (`PUMICE_CONTENT_TRACE`); without it the test says so.

use pumice_ftl::{HashTimes, Scheme, VictimPolicy};
use pumice_sim::flash::{Study, study};

#[test]
fn separation_saves_copies_on_a_trace_of_contents() {
    let Some(trace) = std::env::var_os("PUMICE_CONTENT_TRACE") else {
        eprintln!("skipped: PUMICE_CONTENT_TRACE names no trace");
        return;
    };
    let report = study(&Study {
        trace: trace.into(),
        schemes: Scheme::ALL.to_vec(),
        op: 0.07,
        trim: false,
        gap_every: 1,
        victim: VictimPolicy::Greedy,
        drive_pages: None,
        hash: [HashTimes { weak: 6_000, strong: 75_000 }, HashTimes::default()],
    })
    .unwrap();
    for row in &report.schemes {
        eprintln!(
            "{} {} {:?} {:?} {:.3} {:.1}",
            row.scheme, row.page_copies, row.vs_none, row.vs_offline, row.waf, row.mean_write_us
        );
    }
    let copies =
        |name| report.schemes.iter().find(|row| row.scheme == name).map(|row| row.page_copies).unwrap();
    assert!(copies("offline") < copies("none") && copies("separated") < copies("none"));
}
