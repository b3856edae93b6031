//! Arrays that are checked without a member, and parts of arrays: what a program reads is what a
//! person reads.

use crate::small_array::{Made, RAID5, RAID6, STRIPES, damage, patch, run, scrub};
use pumice_raid::superblock::v1::{ROLE_FAULTY, ROLE_SPARE};
use serde_json::json;
use std::path::PathBuf;

/// The report for a person.
fn text(options: &[&str], members: &[PathBuf]) -> (Option<i32>, String) {
    let state = tempfile::tempdir().unwrap();
    let output = scrub(state.path()).args(options).args(members).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[test]
fn a_member_that_was_only_not_named_makes_the_result_incomplete() {
    let array = Made::new(RAID6);
    let state = tempfile::tempdir().unwrap();
    let without = [&array.members[..2], &array.members[3..]].concat();
    let (code, report) = run(state.path(), &[], &without);
    assert_eq!((code, &report["result"]), (3, &json!("incomplete")));
    assert_eq!(report["incomplete"], json!(["not_named"]));
    assert_eq!(report["degraded"], true);
    let absent =
        json!([{"role": 2, "reason": "not_named", "device": null, "stripes": {"start": 0, "end": STRIPES}}]);
    assert_eq!(report["absent"], absent);
    assert_eq!(report["equations"], json!({"full": 2, "left": 1, "reduced_stripes": STRIPES}));
    assert!(report["stopped"].is_null());
    let (code, words) = text(&[], &without);
    assert_eq!(code, Some(3));
    for word in ["INCOMPLETE: member 2 not named", "--degraded"] {
        assert!(first_line(&words).contains(word), "{words}");
    }
    assert!(!words.contains("every equation"), "{words}");

    let (code, report) = run(state.path(), &["--degraded"], &without);
    assert_eq!((code, &report["result"], &report["incomplete"]), (0, &json!("clean"), &json!([])));
    assert_eq!((&report["degraded"], &report["absent"]), (&json!(true), &absent));
    let (code, words) = text(&["--degraded"], &without);
    assert_eq!(code, Some(0));
    assert!(first_line(&words).starts_with("CLEAN, DEGRADED:"), "{words}");
    damage(&array, 0, 7, 0, 10);
    assert_eq!(run(state.path(), &["--degraded"], &without).0, 1, "it is still found");
}

#[test]
fn what_one_parity_does_not_show_is_said() {
    let array = Made::new(RAID5);
    let (code, words) = text(&[], &array.members);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("wrong order of members"), "{words}");
    let (_, words) = text(&[], &Made::new(RAID6).members);
    assert!(!words.contains("wrong order of members"), "Q shows it: {words}");
    // Old contents in place of parity.
    for stripe in 0..STRIPES {
        damage(&array, 1, stripe, 0, 4096);
    }
    let (code, words) = text(&[], &array.members);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("pattern  40 of the 40 stripes checked are inconsistent"), "{words}");
    assert!(!words.contains("wrong order of members"), "it is for those who rely on a clean result: {words}");
}

#[test]
fn a_member_that_md_misses_leaves_a_clean_result_that_says_so() {
    for recorded in [ROLE_FAULTY, ROLE_SPARE] {
        let array = Made::new(RAID6);
        let left = &array.members[..4];
        left.iter().for_each(|member| patch(member, |s| s.dev_roles[4] = recorded));
        let state = tempfile::tempdir().unwrap();
        let (code, report) = run(state.path(), &[], left);
        assert_eq!((code, &report["result"], &report["degraded"]), (0, &json!("clean"), &json!(true)));
        assert_eq!(
            (&report["absent"][0]["role"], &report["absent"][0]["reason"]),
            (&json!(4), &json!("missing"))
        );
        let (code, words) = text(&[], left);
        assert_eq!(code, Some(0));
        assert!(first_line(&words).starts_with("CLEAN, DEGRADED:"), "{words}");
        assert!(words.contains("member 4 is missing") && !words.contains("every equation"), "{words}");
    }
}

#[test]
fn a_member_that_is_being_rebuilt_is_named_with_its_stripes() {
    let array = Made::new(RAID6);
    patch(&array.members[1], |s| {
        s.feature_map |= pumice_raid::superblock::features::Features::RECOVERY_OFFSET;
        s.recovery_offset = 10 * 128;
    });
    let state = tempfile::tempdir().unwrap();
    let (code, report) = run(state.path(), &[], &array.members);
    assert_eq!((code, &report["result"], &report["degraded"]), (0, &json!("clean"), &json!(true)));
    let device = array.members[1].display().to_string();
    let stripes = json!({"start": 10, "end": STRIPES});
    let absent = json!([{"role": 1, "reason": "recovering", "device": device, "stripes": stripes}]);
    assert_eq!(report["absent"], absent);
    assert_eq!(report["equations"], json!({"full": 2, "left": 1, "reduced_stripes": STRIPES - 10}));
    let (_, report) = run(state.path(), &["--range", "0..10"], &array.members);
    assert_eq!((&report["degraded"], &report["equations"]["left"]), (&json!(false), &json!(2)));
}

#[test]
fn nothing_is_repaired_while_a_member_is_only_not_named() {
    let array = Made::new(RAID6);
    damage(&array, 1, 5, 4096, 100);
    let others = &array.members[1..];
    let before: Vec<Vec<u8>> = others.iter().map(|member| std::fs::read(member).unwrap()).collect();
    for options in [&["strong"][..], &["likely"], &["parity"], &["parity", "--degraded"]] {
        let state = tempfile::tempdir().unwrap();
        let options = [&["--repair", "--repair-policy"], options].concat();
        let (code, report) = run(state.path(), &options, others);
        assert_eq!(code, if options.contains(&"--degraded") { 1 } else { 3 }, "{options:?}");
        assert_eq!(report["findings"][0]["repaired"], false);
        if options.contains(&"parity") {
            let why = report["findings"][0]["left_alone"].as_str().unwrap();
            assert!(why.contains("was not named"), "{why}");
        }
    }
    let after: Vec<Vec<u8>> = others.iter().map(|member| std::fs::read(member).unwrap()).collect();
    assert!(before == after, "nothing was written");
}

#[test]
fn a_part_of_an_array_is_never_said_to_be_all_of_it() {
    let array = Made::new(RAID6);
    damage(&array, 0, 30, 0, 10);
    let state = tempfile::tempdir().unwrap();
    let (code, report) = run(state.path(), &["--range", "0..1"], &array.members);
    assert_eq!((code, &report["range"]), (0, &json!({"start": 0, "end": 1})));
    let (_, words) = text(&["--range", "0..1"], &array.members);
    assert_eq!(first_line(&words), "CLEAN: every stripe of 0..1 is consistent");
    assert!(words.contains("checked  1 of 40 stripes, of which 0..1 were asked for"), "{words}");
    let (_, report) = run(state.path(), &[], &array.members);
    assert_eq!(report["range"], json!({"start": 0, "end": STRIPES}));
}
