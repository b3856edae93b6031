//! Assertions of rules fail when a rule is left out: each names the rule that is broken.

use crate::crash::{Case, history};
use crate::harness::{Fault, first_assertion};
use crate::rules;
use pumice_volume::assemble::Rule;

/// A history of a seed that leaves a rule out.
type History = fn(u64, Option<Rule>);

/// Runs histories without a rule until an assertion fails, and compares its name.
fn fails(rule: Rule, name: &str, seeds: u64, history: impl Fn(u64)) {
    let message = first_assertion(0..seeds, history);
    println!("{rule:?}: {message:?}");
    let begins = message.as_ref().is_some_and(|message| message.starts_with(&format!("{name}: ")));
    assert!(begins, "{rule:?} left out, {name} expected: {message:?}");
}

#[test]
fn assertions_name_the_rule_that_crashes_break() {
    use Case::{Crash, Degraded, FailedMidWrite, MemberLost};
    for (rule, name, case) in [
        (Rule::OneWrite, "L2", Crash),
        (Rule::RecordsFirst, "L1", Crash),
        (Rule::HorizonEverywhere, "L4", MemberLost),
        (Rule::FlushWaits, "L7", MemberLost),
        (Rule::FailureBeforeHorizon, "L8", FailedMidWrite),
        (Rule::LogAgain, "L6", FailedMidWrite),
        (Rule::BlocksWhileDegraded, "L5", Degraded),
        (Rule::HeadsFirst, "L9", Crash),
        (Rule::BitsFirst, "V8", Crash),
        (Rule::DirtyFirst, "V7", Crash),
    ] {
        fails(rule, name, 100, |seed| drop(history(seed * 7, case, Fault::None, Some(rule))));
    }
}

#[test]
fn assertions_name_the_rule_that_histories_break() {
    let failed: History = |seed, rule| _ = crate::crash::a_write_fails_after_it_has_logged(seed, rule);
    for (rule, name, history) in [
        (Rule::RoomAfterHorizon, "L3", rules::power_goes_before_the_heads_of_a_full_log as History),
        (Rule::RestoredIsFlushed, "V17", rules::power_goes_after_a_rebuilding_array_becomes_dirty),
        (Rule::HorizonBeforeJoin, "L11", rules::a_member_fails_when_a_device_joins),
        (Rule::FailedIsVoid, "L10", failed),
    ] {
        fails(rule, name, 60, |seed| history(seed, Some(rule)));
    }
}
