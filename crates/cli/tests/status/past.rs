//! The commands of the history.

use crate::world::{LONG_AGO, MD0, MD1, Pass, World, finding, sampled};
use pumice_monitor::history::DriveState;
use serde_json::Value;

fn two_passes() -> World {
    let world = World::new();
    let found = Pass {
        result: "findings",
        findings: vec![finding(7, Some((4, "/dev/sdf")), "member", "strong")],
        ..Pass::clean(MD1, "logs", LONG_AGO + 86_400, 2)
    };
    drop(world.history(&[Pass::clean(MD0, "vault", LONG_AGO, 29), found]));
    world
}

#[test]
fn passes_are_listed_the_last_one_first() {
    let world = two_passes();
    let done = world.run(&["history"]);
    let begin = "pass      ended             array  result    found  repaired  read  by\n";
    assert!(done.text.starts_with(begin) && done.code == 0, "{}{}", done.text, done.errors);
    let lines: Vec<&str> = done.text.lines().collect();
    assert!(lines[1].contains("2026-11-22 04:12  logs   findings      1         0   2 h  monitor"));
    assert!(lines[2].contains("vault  clean         0         0  29 h"), "{}", done.text);
    assert_eq!(world.run(&["history", "vault"]).text.lines().count(), 2);
    assert_eq!(world.run(&["history", MD1, "-n", "1"]).text.lines().count(), 2);
    let json: Value = serde_json::from_str(&world.run(&["history", "--json"]).text).unwrap();
    assert_eq!((&json["passes"][0]["name"], &json["passes"][0]["findings"]), (&"logs".into(), &1.into()));
    let done = world.run(&["history", "nothing"]);
    assert!(done.code == 2 && done.errors.contains("nothing"), "{}", done.errors);
}

#[test]
fn a_report_has_each_place_and_what_else_it_could_be() {
    let world = two_passes();
    let json: Value = serde_json::from_str(&world.run(&["history", "--json"]).text).unwrap();
    let number = json["passes"][0]["pass"].as_str().unwrap();
    for subject in [&["report"][..], &["report", "logs"], &["report", &number[..20]]] {
        let done = world.run(subject);
        assert!(done.text.starts_with("FINDINGS  logs: 1 finding\n"), "{}{}", done.text, done.errors);
        for words in
            ["stripe 7: data damaged on member 4 (/dev/sdf), likely", "or members 1 and 2: two members"]
        {
            assert!(done.text.contains(words), "{words}: {}", done.text);
        }
    }
    assert!(world.run(&["report", "vault"]).text.starts_with("CLEAN  vault: nothing inconsistent found\n"));
    let document: Value = serde_json::from_str(&world.run(&["report", "--json"]).text).unwrap();
    assert_eq!(document["findings"][0]["alternatives"][0]["verdict"], "several");
    assert_eq!(world.run(&["report", "0123456789"]).code, 2);
}

#[test]
fn drives_are_shown_as_they_were_last() {
    let world = World::new();
    let mut history = world.history(&[]);
    assert_eq!(world.run(&["health"]).text, "no drive is known\n");
    sampled(&mut history, "sda", DriveState::Well, LONG_AGO - 10);
    sampled(&mut history, "sda", DriveState::Failing, LONG_AGO);
    let done = world.run(&["health"]);
    assert!(
        done.text.contains("ZR50A1B2  failing  34       7     -  12345  2026-11-21 04:12"),
        "{}",
        done.text
    );
    let json: Value = serde_json::from_str(&world.run(&["health", "--json"]).text).unwrap();
    assert_eq!((&json["drives"][0]["state"], &json["drives"][0]["celsius"]), (&"failing".into(), &34.into()));
}

#[test]
fn a_backup_can_be_read_like_the_history() {
    let world = two_passes();
    let folder = world.path("backups");
    std::fs::create_dir(&folder).unwrap();
    let done = world.run(&["backup", folder.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{}", done.errors);
    let copy = done.text.trim_end().to_owned();
    std::fs::rename(copy, world.path("history.db")).unwrap();
    assert_eq!(world.run(&["history"]).text.lines().count(), 3);
}

#[test]
fn without_a_history_the_monitor_is_named() {
    let world = World::new();
    for command in [&["history"][..], &["report"], &["health"], &["backup", "/tmp"]] {
        let done = world.run(command);
        assert!(
            done.code == 2 && done.errors.contains("no history yet; start the monitor"),
            "{}",
            done.errors
        );
    }
    // A transaction that was cut.
    let history = world.history(&[]);
    drop(history);
    let pages = std::fs::read(world.path("history.db")).unwrap();
    let mut hot = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7".to_vec();
    hot.extend([0, 0, 0, 1, 1, 2, 3, 4]);
    hot.extend((pages.len() as u32 / 4096).to_be_bytes());
    hot.extend(512_u32.to_be_bytes());
    hot.extend(4096_u32.to_be_bytes());
    hot.resize(512, 0);
    hot.extend([0; 4104]);
    std::fs::write(world.path("history.db-journal"), hot).unwrap();
    let done = world.run(&["history"]);
    assert!(
        done.code == 2 && done.errors.contains("the monitor did not end well; start it"),
        "{}",
        done.errors
    );
}
