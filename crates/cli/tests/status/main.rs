//! `pumice status` and the commands of the history, from outside: real sockets, a real database, a
//! tree like `/sys`.

mod past;
mod world;

use serde_json::{Value, json};
use std::os::unix::net::UnixListener;
use std::time::Duration;
use world::{LONG_AGO, MD0, MD1, Pass, STRIPES, VAULT, World, alert, finding, now, said, vault};

const FAR: [&str; 6] = [
    "nvme://10.0.0.1/1",
    "nvme://10.0.0.1/2",
    "nvme://10.0.0.2/1",
    "nvme://10.0.0.2/2",
    "nvme://10.0.0.3/1",
    "nvme://10.0.0.3/2",
];

fn healthy() -> Value {
    vault(&FAR.map(|device| ("in_sync", Some(device), None)), 2)
}

/// The monitor, which says when three arrays are due.
fn monitor(world: &World, days: [u64; 3]) {
    let due = |(uuid, days): (&str, u64)| json!({ "uuid": uuid, "due": now() + days * 86_400 + 60 });
    let arrays: Vec<Value> = [MD0, MD1, VAULT].into_iter().zip(days).map(due).collect();
    world.answers("monitor.sock", &json!({ "version": 2, "monitor": { "arrays": arrays } }));
}

fn three_arrays() -> World {
    let world = World::new();
    world.md("md0", MD0, "raid6", 96_000_000_000_000, &[true; 6]);
    world.md("md1", MD1, "raid1", 2_000_000_000_000, &[true; 2]);
    world.volume("vault", &healthy());
    drop(world.history(&[
        Pass::clean(VAULT, "vault", LONG_AGO - 2 * 86_400 + 6_180, 17),
        Pass::clean(MD0, "md0", LONG_AGO, 29),
        Pass::clean(MD1, "md1", LONG_AGO + 3 * 86_400 - 12_720, 2),
    ]));
    world
}

#[test]
fn all_is_well() {
    let world = three_arrays();
    monitor(&world, [25, 28, 23]);
    let done = world.run(&["status"]);
    let expected = "\
OK     3 arrays, 1 volume, 14 drives; nothing needs you

array  level   size  state    last complete pass      found  next
md0    raid6  96 TB  healthy  2026-11-21 04:12, 29 h      0  in 25 d
md1    raid1   2 TB  healthy  2026-11-24 00:40, 2 h       0  in 28 d
vault  raid6  64 TB  healthy  2026-11-19 05:55, 17 h      0  in 23 d
";
    assert_eq!((done.text.as_str(), done.code), (expected, 0), "{}", done.errors);
    let short = world.run(&["status", "-x"]);
    assert_eq!((short.text.lines().count(), short.code), (1, 0), "{}", short.text);
    let json = world.run(&["status", "--json"]);
    assert_eq!(json.text.lines().count(), 1, "one line, for loops over machines");
    let json: Value = serde_json::from_str(&json.text).unwrap();
    assert_eq!(
        (&json["state"], &json["host"], &json["drives"]),
        (&"ok".into(), &"machine-a".into(), &14.into())
    );
    assert_eq!(json["arrays"][2]["last_complete"]["ended"], LONG_AGO - 2 * 86_400 + 6_180);
}

#[test]
fn an_array_is_being_scrubbed() {
    let world = World::new();
    world.md("md0", MD0, "raid6", 96_000_000_000_000, &[true; 8]);
    monitor(&world, [25, 28, 23]);
    drop(world.history(&[]));
    let scrub = json!({
        "array": MD0, "name": "md0", "state": "running", "stripes": 6_195_000, "of_stripes": STRIPES,
        "bytes": 0, "findings": 0, "begun_us": LONG_AGO * 1_000_000, "pause_left_s": null, "note": null,
        "rate": 118_000_000, "slowdown_ns": 1_000_000, "pid": 1, "by": "pumice-monitor",
    });
    world.answers("scrubs/a.sock", &json!({ "version": 2, "scrub": scrub }));
    let done = world.run(&["status"]);
    let expected = "\
OK     md0 is being scrubbed

array    md0, raid6, 8 drives, 96 TB, healthy, survives 2 more failures
pass     41.3 % of 15,000,000 stripes, begun 2026-11-21 04:12 by pumice-monitor
         at most 118 MB/s from each drive; slows other users by 1.0 ms at most
         nothing found
control  pumice scrub pause md0 | go-on md0 | stop md0 | pace md0 --rate 50MB
";
    assert_eq!((done.text.as_str(), done.code), (expected, 0), "{}", done.errors);
}

/// 38 strong places of one member, 2 weak ones of another, and one of no member.
fn damaged() -> Vec<Value> {
    let mut all: Vec<Value> =
        (0..38).map(|i| finding(100 + i, Some((4, "/dev/sdf")), "member", "strong")).collect();
    all.extend((0..2).map(|i| finding(500 + i, Some((1, "/dev/sdc")), "member", "weak")));
    all.push(finding(900, None, "ambiguous", "none"));
    all
}

fn found(findings: Vec<Value>) -> Pass {
    Pass { result: "findings", findings, ..Pass::clean(MD0, "md0", LONG_AGO, 29) }
}

#[test]
fn places_are_damaged() {
    let world = World::new();
    world.md("md0", MD0, "raid6", 96_000_000_000_000, &[true; 8]);
    monitor(&world, [25, 28, 23]);
    drop(world.history(&[found(damaged())]));
    let serial = world.path("sys/class/block/sdf/device");
    std::fs::create_dir_all(&serial).unwrap();
    std::fs::write(serial.join("serial"), "ZR50A1B2\n").unwrap();
    // Other machines have such drives; here nobody is asked.
    let done = said(world.pumice(&["status", "md0"]).env("PATH", ""));
    let expected = "\
DAMAGE md0: 41 places are damaged, 38 of them can be repaired

member       device    places  verdict       evidence  serial
role 4       /dev/sdf      38  data damaged  strong    ZR50A1B2
role 1       /dev/sdc       2  data damaged  weak      -
(no member)  -              1  ambiguous     -         -

role 4 has 93 % of the places: a failing drive is likely. Its SMART data:
         smartctl -x /dev/sdf
look     pumice report md0   each place, and what else it could be
next     pumice scrub --dry-run --allow-in-use /dev/md0   writes nothing
";
    assert!(done.text.starts_with(expected), "{}", done.text);
    assert!(done.text.contains("\nsince    2026-11-21 04:12\n") && done.code == 1, "{}", done.text);
    let json: Value = serde_json::from_str(&world.run(&["status", "--json"]).text).unwrap();
    assert_eq!((&json["state"], &json["arrays"][0]["damage"]["places"]), (&"damage".into(), &41.into()));
}

#[test]
fn what_a_later_pass_finds_well_or_repairs_is_no_longer_damage() {
    let later = |range: (u64, u64), result: &'static str, findings: Vec<Value>| Pass {
        result,
        range,
        findings,
        ..Pass::clean(MD0, "md0", LONG_AGO + 1000, 1)
    };
    let mut repaired = damaged();
    repaired[..38].iter_mut().for_each(|finding| finding["repaired"] = true.into());
    for (pass, places) in [
        (later((0, 1000), "clean", vec![]), 0),
        (later((0, 120), "clean", vec![]), 21),
        // It did not judge all of its range.
        (later((0, 120), "incomplete", vec![]), 41),
        (later((0, 1000), "findings", repaired), 3),
    ] {
        let world = World::new();
        world.md("md0", MD0, "raid6", 96_000_000_000_000, &[true; 8]);
        drop(world.history(&[found(damaged()), pass]));
        let json: Value = serde_json::from_str(&world.run(&["status", "--json"]).text).unwrap();
        let damage = &json["arrays"][0]["damage"];
        assert_eq!(damage["places"].as_u64().unwrap_or(0), places, "{damage}");
        // Of damage that is still there, the pass that found it first counts.
        assert!(damage.is_null() || damage["since"] == LONG_AGO, "{damage}");
    }
}

#[test]
fn a_volume_has_lost_a_member() {
    let world = World::new();
    let mut members = FAR.map(|device| ("in_sync", Some(device), None));
    members[2] = ("missing", None, None);
    members[3] = ("rebuilding", Some(FAR[3]), Some(125));
    world.volume("vault", &vault(&members, 0));
    monitor(&world, [25, 28, 23]);
    drop(world.history(&[Pass::clean(VAULT, "vault", LONG_AGO, 17)]));
    let done = world.run(&["status"]);
    let expected = "\
DEGRADED  vault has lost role 2; no further failure is survived

volume   vault, raid6, 6 drives on 3 nodes, 64 TB, in service
role 2   has no drive; give it one:
         pumice volume add vault DEVICE
role 3   rebuilding: 12.5 %
scrubs   last complete pass 2026-11-21 04:12 (";
    assert!(done.text.starts_with(expected) && done.code == 1, "{}", done.text);
    // Another array is well: it is in the table, and the loss comes first.
    world.md("md1", MD1, "raid1", 2_000_000_000_000, &[true; 2]);
    let done = world.run(&["status"]);
    assert!(done.text.starts_with(expected), "{}", done.text);
    assert!(done.text.contains("\nmd1    raid1   2 TB  healthy   -"), "{}", done.text);
    assert!(!world.run(&["status", "-x"]).text.contains("md1"));
    assert_eq!(world.run(&["status", "md1"]).code, 0, "the other array is not asked for");
}

#[test]
fn the_kernel_rebuilds_a_member() {
    let world = World::new();
    world.md("md0", MD0, "raid5", 6_000_000_000_000, &[true, false, true]);
    world.kernel_says("md0", "dev-sdz/slot", "1");
    world.kernel_says("md0", "dev-sdz/state", "spare");
    world.kernel_says("md0", "sync_action", "recover");
    world.kernel_says("md0", "sync_completed", "1000000 / 8000000");
    world.kernel_says("md0", "sync_speed", "200000");
    let done = world.run(&["status", "/dev/md0"]);
    let begin = "DEGRADED  md0 is rebuilding role 1; no further failure is survived\n\n\
                 array    md0, raid5, 3 drives, 6 TB, rebuilding\n\
                 role 1   rebuilding: 12.5 %, 204.8 MB/s, about 17 s left\n";
    assert!(done.text.starts_with(begin) && done.code == 1, "{}", done.text);
}

#[test]
fn a_socket_that_hangs_is_named_and_the_others_are_shown() {
    let world = three_arrays();
    let socket = world.path("run/volumes/hangs.sock");
    let _never_accepts = UnixListener::bind(&socket).unwrap();
    let done = world.run(&["status"]);
    assert_eq!(done.code, 1, "the monitor is down: {}", done.text);
    assert!(done.text.contains("hangs.sock: its process does"), "{}", done.text);
    assert!(done.text.contains("\nmonitor  is not running: no pass begins by itself"), "{}", done.text);
    assert!(done.text.contains("vault  raid6  64 TB  healthy"), "{}", done.text);
    assert!(done.took < Duration::from_millis(1200), "{:?}", done.took);
    // With the monitor it is the only thing that is not known.
    monitor(&world, [25, 28, 23]);
    let done = world.run(&["status"]);
    assert!(done.text.starts_with("UNKNOWN  one of those") && done.code == 2, "{}", done.text);
    let done = world.run(&["status", "nothing"]);
    assert!(done.code == 2 && done.errors.contains("hangs.sock"), "{}", done.errors);
    assert_eq!(world.run(&["status", "vault"]).code, 0, "it is well, whatever hangs");
}

#[test]
fn fifty_volumes_are_asked_at_once() {
    let world = World::new();
    for number in 0..50 {
        let mut volume = healthy();
        volume["uuid"] = format!("00000000:00000000:00000000:0000{number:04x}").into();
        volume["name"] = format!("volume-{number}").into();
        world.volume(&format!("v{number}"), &volume);
    }
    let all: Vec<_> = (0..5).map(|_| world.run(&["status"])).collect();
    for done in &all {
        assert!(done.text.starts_with("OK     50 arrays, 50 volumes, 300 drives;"), "{}", done.text);
        assert_eq!(done.text.matches(" healthy ").count(), 50);
    }
    let fastest = all.iter().map(|done| done.took).min().unwrap();
    assert!(fastest < Duration::from_millis(200), "{fastest:?}");
}

#[test]
fn the_history_may_be_missing_hot_or_damaged() {
    let world = World::new();
    world.md("md0", MD0, "raid1", 2_000_000_000_000, &[true; 2]);
    let done = world.run(&["status"]);
    assert!(done.code == 0 && done.text.contains("monitor  is not used here"), "{}", done.text);
    drop(world.history(&[]));
    monitor(&world, [25, 28, 23]);
    assert_eq!(world.run(&["status"]).code, 0);
    std::fs::write(world.path("history.db"), vec![7; 8192]).unwrap();
    let done = world.run(&["status"]);
    assert!(done.code == 2 && done.text.contains("\nhistory  "), "{}", done.text);
    assert!(done.text.starts_with("UNKNOWN  the history could not be read"), "{}", done.text);
}

#[test]
fn an_alert_is_shown_until_it_closes() {
    let world = World::new();
    world.md("md0", MD0, "raid1", 2_000_000_000_000, &[true; 2]);
    monitor(&world, [25, 28, 23]);
    let mut history = world.history(&[Pass::clean(MD0, "md0", LONG_AGO, 2)]);
    let mut event = alert(MD0, "scrub-late", "md0 was not checked for 50 days", LONG_AGO + 5);
    history.add_events(std::slice::from_ref(&event)).unwrap();
    // That of a loss is not believed: the kernel says that all members are there.
    history.add_events(&[alert(MD0, "degraded", "md0 has lost a member", LONG_AGO + 6)]).unwrap();
    let done = world.run(&["status"]);
    assert!(done.text.starts_with("WARNING  md0: md0 was not checked for 50 days\n"), "{}", done.text);
    assert!(done.code == 1 && done.text.contains("scrub-late"), "{}", done.text);
    event.change = pumice_monitor::history::Change::Closed;
    event.event = format!("{:032x}", 9).as_str().try_into().unwrap();
    history.add_events(&[event]).unwrap();
    drop(history);
    assert_eq!(world.run(&["status"]).code, 0);
}

#[test]
fn names_of_others_bring_no_escapes() {
    let world = World::new();
    let mut volume = healthy();
    volume["name"] = "\u{1b}[31m<script>\u{202e}日本".into();
    world.volume("vault", &volume);
    let done = world.run(&["status"]);
    assert!(done.text.contains("<script>") && !done.text.contains('\u{202e}'), "{}", done.text);
}
