//! Bytes that a repair replaced can be listed, shown, put back and deleted.

use crate::small_array::{Made, RAID6, damage, pumice, refusal, run, scrub};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn repairs(state: &Path, args: &[&str], devices: &[PathBuf]) -> (i32, Value) {
    let mut command = pumice();
    command.arg("repairs").args(["--json", "--state-dir"]).arg(state).args(args).args(devices);
    let output = command.output().unwrap();
    let value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{args:?} {e}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), value)
}

fn contents(array: &Made) -> Vec<Vec<u8>> {
    array.members.iter().map(|member| std::fs::read(member).unwrap()).collect()
}

#[test]
fn a_repair_is_undone_byte_for_byte() {
    let array = Made::new(RAID6);
    damage(&array, 0, 7, 8192, 300);
    damage(&array, 3, 12, 0, 5000);
    let damaged = contents(&array);
    let state = tempfile::tempdir().unwrap();
    assert_eq!(repairs(state.path(), &["list"], &[]).1["repairs"].as_array().unwrap().len(), 0);
    assert_eq!(run(state.path(), &["--repair"], &array.members).0, 1);
    assert_eq!(run(state.path(), &[], &array.members).0, 0);
    assert!(contents(&array) != damaged);
    let (code, listed) = repairs(state.path(), &["list"], &[]);
    let entries = listed["repairs"].as_array().unwrap();
    assert_eq!((code, entries.len()), (0, 2), "{listed}");
    assert!(
        entries.iter().all(|entry| entry["status"] == "written" && entry["strength"] == "strong evidence"),
        "{listed}"
    );
    let (_, one) = repairs(state.path(), &["show", "1"], &[]);
    assert_eq!((&one["id"], &one["stripe"], &one["kind"]), (&1.into(), &7.into(), &"repair".into()));
    // One, then all that is left.
    let (code, done) = repairs(state.path(), &["undo", "2"], &array.members);
    assert_eq!((code, &done["undone"][0]["id"]), (0, &2.into()), "{done}");
    let (code, done) = repairs(state.path(), &["undo", "--all"], &array.members);
    assert_eq!((code, done["undone"].as_array().unwrap().len()), (0, 1), "{done}");
    assert!(contents(&array) == damaged, "every byte is as it was before the repair");
    let (code, done) = repairs(state.path(), &["undo", "--all"], &array.members);
    assert_eq!((code, done["undone"].as_array().unwrap().len()), (0, 0));
    // An undo is kept like a repair, and can be undone.
    let (code, done) = repairs(state.path(), &["undo", "4"], &array.members);
    assert_eq!((code, done["undone"].as_array().unwrap().len()), (0, 1), "{done}");
    assert_eq!(run(state.path(), &[], &array.members).1["findings"].as_array().unwrap().len(), 1);
}

#[test]
fn an_undo_is_refused_where_somebody_has_written_since() {
    for member in [0, 2] {
        let array = Made::new(RAID6);
        damage(&array, 0, 7, 8192, 300);
        let state = tempfile::tempdir().unwrap();
        assert_eq!(run(state.path(), &["--repair"], &array.members).0, 1);
        // In the range that was rewritten, or in the same rows of another member.
        damage(&array, member, 7, 8200, 20);
        let before = contents(&array);
        let (code, done) = repairs(state.path(), &["undo", "1"], &array.members);
        assert_eq!(code, 1, "{done}");
        assert!(done["refused"].as_str().unwrap().contains("member"), "{done}");
        assert!(contents(&array) == before, "nothing is written");
    }
}

#[test]
fn a_dry_run_says_what_a_repair_would_do() {
    let array = Made::new(RAID6);
    damage(&array, 0, 7, 8192, 300);
    let state = tempfile::tempdir().unwrap();
    let text = |words: &[&str]| {
        let mut command = pumice();
        command.args(["scrub", "--quiet", "--state-dir"]).arg(state.path()).args(words).args(&array.members);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        first(&text(&["--repair", "--dry-run"])),
        "FINDINGS: 1 finding; dry run: 1 of them would be rewritten, 0 left alone; this run wrote nothing"
    );
    let left = first(&text(&["--repair", "--repair-policy", "none"]));
    assert_eq!(left, "FINDINGS: 1 finding, 0 repaired, 1 left alone");
    assert_eq!(first(&text(&["--repair"])), "FINDINGS: 1 finding, 1 repaired");
}

#[test]
fn what_was_replaced_is_deleted_by_the_operator_alone() {
    let array = Made::new(RAID6);
    damage(&array, 0, 7, 8192, 300);
    let state = tempfile::tempdir().unwrap();
    assert_eq!(run(state.path(), &["--repair"], &array.members).0, 1);
    assert_eq!(repairs(state.path(), &["forget", "--older-than", "24h"], &[]).1["forgotten"], 0);
    assert_eq!(repairs(state.path(), &["forget", "1"], &[]).1["forgotten"], 1);
    let mut again = pumice();
    again.args(["repairs", "forget", "1", "--state-dir"]).arg(state.path());
    assert!(refusal(&mut again).contains("no repair 1"));
    let mut undo = pumice();
    undo.args(["repairs", "undo", "--state-dir"]).arg(state.path()).args(&array.members);
    assert!(refusal(&mut undo).contains("which repair"));
    let mut dry = scrub(state.path());
    dry.args(["--repair", "--dry-run"]).args(&array.members);
    assert_eq!(dry.status().unwrap().code(), Some(0));
}
