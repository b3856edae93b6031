//! Limits at which a pass stops by itself, and the reach of the pass that goes on.

use crate::progress::raised;
use crate::world::{Notes, RAID6, UUID, World, options};
use pumice_base::units::Role;
use pumice_host::members::StripeRange;
use pumice_host::pass::StopReason;
use pumice_host::report::{ArrayResult, Report};
use pumice_host::scrub::{Options, run};
use pumice_host::state::StateFiles;
use pumice_host::stop::Stop;

#[test]
fn a_pass_that_stops_at_too_many_findings_is_gone_on_with_to_its_end() {
    let world = World::new(RAID6, 8);
    (0..20).for_each(|stripe| world.damage(Role(1), stripe, 0, 1, 1));
    let target = world.target(1, &[]);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let mut found = Vec::new();
    for resume in [false, true, true, true] {
        let batch = if resume { None } else { Some(1) };
        let options = Options { max_findings: 6, batch, resume, ..options(4) };
        let outcome = run(&target, Some(&state), &options, &mut Notes(Vec::new()), &Stop::new()).unwrap();
        found.push(outcome.findings.len());
        let more = outcome.findings.len() < 20;
        assert_eq!(outcome.stopped, more.then_some(StopReason::TooManyFindings));
        let report = Report::new(&target, &outcome);
        assert_eq!(report.result, if more { ArrayResult::Incomplete } else { ArrayResult::Findings });
        assert_eq!(report.range, StripeRange { start: 0, end: 20 });
        assert!(!more || report.stopped.unwrap().contains("--resume continues"));
    }
    assert_eq!(found, [6, 12, 18, 20]);
}

#[test]
fn a_pass_that_ends_with_its_last_batch_is_not_stopped_by_what_that_found() {
    let world = World::new(RAID6, 8);
    world.damage(Role(1), 19, 0, 1, 1);
    let options = Options { max_findings: 1, ..options(4) };
    let outcome = run(&world.target(1, &[]), None, &options, &mut Notes(Vec::new()), &Stop::new()).unwrap();
    assert_eq!((outcome.stopped, outcome.stripes_checked), (None, 20));
}

#[test]
fn a_pass_that_was_stopped_before_its_first_batch_is_not_spoken_of() {
    let target = World::new(RAID6, 8).target(1, &[]);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let stopped = run(&target, Some(&state), &options(1), &mut Notes(Vec::new()), &raised()).unwrap();
    assert_eq!((stopped.stopped, stopped.stripes_checked), (Some(StopReason::Interrupted), 0));
    let mut notes = Notes(Vec::new());
    let outcome = run(&target, Some(&state), &options(1), &mut notes, &Stop::new()).unwrap();
    assert_eq!((outcome.stopped, outcome.stripes_checked), (None, 20));
    assert!(notes.0.is_empty(), "{:?}", notes.0);
}
