//! The documents, exit codes and manners that others build on. `docs/reference/json.md` is the
//! contract.

use crate::network::Node;
use crate::small_array::{
    CHUNK, DATA_OFFSET, Made, RAID5, RAID6, STRIPES, damage, patch, pumice, refusal, run, scrub,
};
use serde_json::Value;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

const SCRUB: [&str; 29] = [
    "absent",
    "array",
    "begun",
    "bytes_checked",
    "checked",
    "degraded",
    "equations",
    "events",
    "findings",
    "incomplete",
    "ledger",
    "method",
    "miss_bound",
    "pacing",
    "parts",
    "patterns",
    "range",
    "read",
    "reconnections",
    "result",
    "seconds",
    "skipped",
    "stopped",
    "stripes_checked",
    "stripes_read_again",
    "stripes_rechecked",
    "stripes_skipped",
    "tags",
    "wire",
];
const ARRAY: [&str; 8] =
    ["chunk_bytes", "layout", "level", "metadata", "name", "raid_disks", "stripes", "uuid"];
const FINDING: [&str; 25] = [
    "alternatives",
    "array_offset",
    "array_places",
    "assumes_one_hit",
    "certainty",
    "chunk_offset",
    "clause",
    "device",
    "device_offset",
    "doubts",
    "error",
    "left_alone",
    "length",
    "lost",
    "member",
    "members",
    "misdirected",
    "repaired",
    "strength",
    "stripe",
    "unsettled",
    "verdict",
    "witness",
    "would_repair",
    "wrong_blocks",
];
const LEDGER: [&str; 8] =
    ["host_cpu", "host_dram", "media_read", "media_written", "node_cpu", "node_to_node", "pcie", "to_host"];

fn sorted(mut keys: Vec<&str>) -> Vec<&str> {
    keys.sort_unstable();
    keys
}

#[test]
fn a_scrub_says_what_the_contract_says() {
    let array = Made::new(RAID6);
    // A data chunk of stripe 7: left-symmetric with five members has P of stripe 7 on 2 and Q on 3.
    damage(&array, 0, 7, 8192 + 100, 20);
    let state = tempfile::tempdir().unwrap();
    for (options, method) in [
        (&[][..], "stripe"),
        (&["--method", "fingerprint"], "fingerprint"),
        (&["--method", "host"], "host"),
        (&["--method", "aggregate"], "aggregate"),
        (&["--order", "staggered", "--batch", "3", "--seed", "5"], "stripe"),
    ] {
        let (code, report) = run(state.path(), options, &array.members);
        assert_eq!(code, 1, "{options:?}");
        assert_eq!(sorted(keys(&report)), SCRUB);
        assert_eq!(sorted(keys(&report["array"])), ARRAY);
        assert_eq!(sorted(keys(&report["ledger"])), LEDGER);
        assert_eq!(report["array"]["uuid"], "03030303:03030303:03030303:03030303");
        assert_eq!(report["array"]["level"], 6);
        assert_eq!(report["array"]["layout"], "left-symmetric");
        assert_eq!(report["array"]["metadata"], "1.2");
        assert_eq!(report["array"]["stripes"], STRIPES);
        assert_eq!(report["method"], method);
        assert_eq!(report["result"], "findings");
        assert_eq!(report["stripes_checked"], STRIPES);
        assert_eq!(report["stripes_skipped"], 0);
        assert_eq!(report["bytes_checked"], STRIPES * 5 * CHUNK as u64);
        assert_eq!(report["findings"].as_array().unwrap().len(), 1, "{report}");
        let finding = &report["findings"][0];
        assert_eq!(sorted(keys(finding)), FINDING);
        assert_eq!(finding["stripe"], 7);
        assert_eq!(finding["verdict"], "member");
        assert_eq!(finding["member"], 0);
        assert_eq!(finding["device"], array.members[0].display().to_string());
        assert_eq!(finding["device_offset"], DATA_OFFSET + 7 * CHUNK as u64 + 8192 + 100);
        assert_eq!(finding["chunk_offset"], 8192 + 100);
        assert_eq!(finding["length"], 20);
        assert_eq!(finding["certainty"], "likely");
        assert!(finding["array_offset"].is_u64());
        assert_eq!(finding["repaired"], false);
    }
}

#[test]
fn one_equation_finds_and_does_not_locate() {
    let array = Made::new(RAID5);
    damage(&array, 1, 3, 4096, 4096);
    let state = tempfile::tempdir().unwrap();
    let (code, report) = run(state.path(), &["--repair"], &array.members);
    let finding = &report["findings"][0];
    assert_eq!((code, finding["verdict"].as_str()), (1, Some("unlocated")));
    assert_eq!((finding["stripe"].as_u64(), finding["length"].as_u64()), (Some(3), Some(4096)));
    assert_eq!(finding["chunk_offset"], 4096);
    assert!(finding["member"].is_null() && finding["device"].is_null() && finding["array_offset"].is_null());
    // Of all data members of the stripe, in the order of the array.
    let places: Vec<u64> =
        finding["array_places"].as_array().unwrap().iter().map(|at| at.as_u64().unwrap()).collect();
    let chunk = report["array"]["chunk_bytes"].as_u64().unwrap();
    let data = report["array"]["raid_disks"].as_u64().unwrap() - 1;
    let expected: Vec<u64> = (0..data).map(|i| (3 * data + i) * chunk + 4096).collect();
    assert_eq!(places, expected);
    assert_eq!(finding["repaired"], false, "nothing to repair it by");
    let (code, report) = run(state.path(), &["--repair", "--repair-policy", "parity"], &array.members);
    assert_eq!((code, report["findings"][0]["repaired"].as_bool()), (1, Some(true)));
    let (code, _) = run(state.path(), &[], &array.members);
    assert_eq!(code, 0, "parity is what the data says now");
}

#[test]
fn a_repair_is_reported_and_the_next_scrub_is_clean() {
    let array = Made::new(RAID6);
    damage(&array, 4, 0, 0, CHUNK);
    let before = std::fs::read(&array.members[4]).unwrap();
    let state = tempfile::tempdir().unwrap();
    let (code, report) = run(state.path(), &["--range", "1..40"], &array.members);
    assert_eq!((code, report["stripes_checked"].as_u64()), (0, Some(39)), "the damage is outside the range");
    let (code, _) = run(state.path(), &[], &array.members);
    assert_eq!(code, 1);
    assert!(std::fs::read(&array.members[4]).unwrap() == before, "a check writes nothing");
    let (code, report) = run(state.path(), &["--repair"], &array.members);
    assert_eq!((code, report["findings"][0]["repaired"].as_bool()), (1, Some(true)));
    assert_eq!(run(state.path(), &[], &array.members).0, 0);
    let left: Vec<_> = std::fs::read_dir(state.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    let kept = |name: &std::ffi::OsString| {
        [".lock", ".repairs"].iter().any(|end| name.to_string_lossy().ends_with(end))
    };
    assert!(left.iter().all(kept), "only what was replaced is kept: {left:?}");
}

#[test]
fn an_inspection_says_what_the_contract_says() {
    let array = Made::new(RAID6);
    let inspect = |members: &[std::path::PathBuf]| {
        let output = pumice().args(["inspect", "--json"]).args(members).output().unwrap();
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let (code, document) = inspect(&array.members);
    assert_eq!(code, Some(0));
    let found = &document["arrays"][0];
    let mut expected = vec![
        "chunk_bytes",
        "events",
        "layout",
        "level",
        "members",
        "metadata",
        "name",
        "notes",
        "problems",
        "raid_disks",
        "size_bytes",
        "state",
        "stripes",
        "uuid",
    ];
    expected.sort_unstable();
    assert_eq!(sorted(keys(found)), expected);
    assert_eq!(found["state"], "clean");
    assert_eq!(found["size_bytes"], STRIPES * 3 * CHUNK as u64);
    assert_eq!(
        sorted(keys(&found["members"][0])),
        ["data_offset_bytes", "device", "device_uuid", "events", "role", "state"]
    );
    assert_eq!(found["members"][4]["data_offset_bytes"], DATA_OFFSET);

    let nothing = array.folder.path().join("nothing");
    assert_eq!(document["problems"], serde_json::json!([]));
    let (code, document) = inspect(&[array.members.clone(), vec![nothing]].concat());
    assert_eq!(code, Some(2), "a device cannot be read");
    assert_eq!(document["problems"].as_array().unwrap().len(), 1, "{document}");
    let striped = Made::new(RAID6);
    striped.members.iter().for_each(|member| patch(member, |s| s.level = 0));
    let (code, document) = inspect(&striped.members);
    assert_eq!((code, &document["arrays"]), (Some(2), &serde_json::json!([])));
    let problem = document["problems"][0].as_str().unwrap();
    let (name, uuid) = (found["name"].as_str().unwrap(), found["uuid"].as_str().unwrap());
    for words in [name, uuid, "RAID-0", "no redundancy"] {
        assert!(problem.contains(words), "{words}: {problem}");
    }
    let (code, document) = inspect(&array.members[..4]);
    assert_eq!(code, Some(0), "what is left can be checked");
    assert_eq!(document["arrays"][0]["state"], "degraded");
    let (code, document) = inspect(&array.members[..3]);
    assert_eq!(code, Some(1), "it cannot be checked");
    assert_eq!(document["arrays"][0]["state"], "incomplete");
    assert_ne!(document["arrays"][0]["problems"].as_array().unwrap().len(), 0);
}

#[test]
fn an_interrupted_scrub_says_so_and_is_resumed() {
    // Large enough, with a batch of one stripe, to be met in the middle by one of many signals.
    let array = Made::new(RAID6);
    let state = tempfile::tempdir().unwrap();
    let mut met = false;
    for wait in (0..400).map(|i| Duration::from_micros(500 + i % 100 * 700)) {
        let child = scrub(state.path())
            .args(["--json", "--method", "host", "--batch", "1"])
            .args(&array.members)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(wait);
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        // Killed before the handler stood, or after the end: nothing to see.
        if output.status.code() != Some(3) {
            continue;
        }
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["result"], "incomplete");
        assert_eq!(report["stopped"], "interrupted");
        let done = report["stripes_checked"].as_u64().unwrap();
        if done == 0 {
            continue;
        }
        met = true;
        let (code, report) = run(state.path(), &["--resume"], &array.members);
        assert_eq!((code, report["stripes_checked"].as_u64()), (0, Some(STRIPES)));
        break;
    }
    assert!(met, "no scrub was met in its middle");
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure() {
    let array = Made::new(RAID6);
    let state = tempfile::tempdir().unwrap();
    for json in [&[][..], &["--json"]] {
        for command in [&mut scrub(state.path()), pumice().arg("inspect")] {
            let full = File::options().write(true).open("/dev/full").unwrap();
            let message = refusal(command.args(json).args(&array.members).stdout(full));
            assert!(message.contains("could not be written to standard output"), "{message}");
        }
    }
}

#[test]
fn the_help_names_the_limits_of_options() {
    let output = pumice().args(["scrub", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let help: Vec<&str> = help.split_whitespace().collect();
    let help = help.join(" ");
    for words in ["1 to 4194304", "at least 4096", "--digest", "--reconnect", "--degraded"] {
        assert!(help.contains(words), "'{words}' is not in: {help}");
    }
}

#[test]
fn two_scrubs_of_one_array_do_not_meet() {
    let array = Made::new(RAID6);
    let lock = array.folder.path().join("03030303:03030303:03030303:03030303.lock");
    let held = File::create(&lock).unwrap();
    held.lock().unwrap();
    assert!(refusal(scrub(array.folder.path()).args(&array.members)).contains("another scrub"));
}

#[test]
fn the_demo_finds_what_it_planted_and_ends_in_time() {
    let start = Instant::now();
    let output = pumice().arg("demo").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for word in [
        "host",
        "stripe",
        "aggregate",
        "fingerprint",
        "lost write",
        "misdirected",
        "swapped",
        "13 places",
        "0 false findings",
        "12 of 13",
    ] {
        assert!(text.to_lowercase().contains(word), "'{word}' is not in: {text}");
    }
    // A bound on hanging, not a measurement: the unoptimised program takes its time.
    assert!(start.elapsed() < Duration::from_secs(300));
}

/// The example in the help is a file that a node starts with, word for word but for its places.
#[test]
fn the_configuration_in_the_help_of_a_node_works() {
    let output = pumice().args(["node", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (_, rest) = help.split_once("with --config:\n").unwrap();
    let (example, _) = rest.split_once("\nExit codes").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let drive = folder.path().join("drive");
    File::create(&drive).unwrap().set_len(1 << 20).unwrap();
    let mut text = example.to_owned();
    for (place, here) in [
        ("127.0.0.1:4420", "127.0.0.1:0".to_owned()),
        ("\"9420\"", "\"0\"".to_owned()),
        ("/dev/sdb", drive.display().to_string()),
        ("/var/lib/pumice", folder.path().display().to_string()),
    ] {
        assert!(text.contains(place), "{place} is not in: {text}");
        text = text.replace(place, &here);
    }
    let config = folder.path().join("node.toml");
    std::fs::write(&config, text).unwrap();
    let mut node = Node::start(&["--config", config.to_str().unwrap()], &[]);
    assert_eq!(node.stop(), Some(0));
}
