//! The control socket of a served volume, by its bytes: `docs/reference/control.md`.

use crate::world::{DRIVE, MIB, Served, World, empty, pattern};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

fn socket(world: &World) -> PathBuf {
    let mut found = fs::read_dir(world.sockets()).unwrap();
    found.next().unwrap().unwrap().path()
}

/// The lines of an answer.
fn said(world: &World, line: &str) -> Vec<Value> {
    let mut stream = UnixStream::connect(socket(world)).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The only line of an answer.
fn answer(world: &World, line: &str) -> Value {
    let mut lines = said(world, line);
    assert_eq!(lines.len(), 1, "{line}: {lines:?}");
    lines.remove(0)
}

/// The code and the text of an error of version 2.
fn error(world: &World, request: Value) -> (String, String) {
    let mut request = request;
    request["version"] = json!(2);
    let answer = answer(world, &request.to_string());
    assert_eq!(answer["version"], 2, "{answer}");
    let word = |field: &str| answer["error"][field].as_str().unwrap_or_default().to_owned();
    (word("code"), word("text"))
}

#[test]
fn errors_have_codes_in_version_2_and_are_texts_in_version_1() {
    let world = World::made(4, "5");
    let _served = Served::start(&world, &[], &world.drives);
    let folder = world.folder.path();
    let (small, data) = (empty(folder, "small", 2 * MIB), empty(folder, "data", DRIVE));
    fs::write(&data, pattern(DRIVE, 5)).unwrap();
    let add = |device: &PathBuf| json!({ "ask": "add", "device": device, "force": false });
    let replace = |member: &str, device: &PathBuf| json!({ "ask": "replace", "member": member, "device": device, "force": false });
    let fail = |member: &str| json!({ "ask": "fail", "member": member });
    let code = |request: Value| error(&world, request).0;
    let spare = empty(folder, "spare", DRIVE);
    assert_eq!(code(add(&spare)), "none_missing");
    assert_eq!(code(fail("9")), "no_member");
    assert_eq!(code(fail("/no/such/device")), "no_member");
    assert_eq!(code(add(&folder.join("nothing"))), "device");
    assert_eq!(code(add(&small)), "device");
    assert_eq!(code(add(&data)), "device");
    assert_eq!(code(replace("1", &world.drives[0])), "is_member");
    assert_eq!(code(json!({ "ask": "polish" })), "unknown_request");
    assert_eq!(code(json!({ "ask": "fail" })), "invalid_request");
    let order = json!({ "ask": "scrub", "order": { "json": true } });
    assert_eq!(code(order), "invalid_request");
    let ok = answer(&world, &fail("2").to_string());
    assert!(ok["version"].is_null() && ok["volume"]["members"][2]["state"] == "missing", "{ok}");
    assert_eq!(code(fail("2")), "missing");
    assert_eq!(code(fail("1")), "too_few");
    assert_eq!(code(replace("1", &spare)), "others_missing");
    // As a program of version 1 reads them.
    let text = "role 2: it is missing or being rebuilt already";
    assert_eq!(answer(&world, &fail("2").to_string()), json!({ "error": text }));
    assert_eq!(error(&world, fail("2")), ("missing".to_owned(), text.to_owned()));
    let later = answer(&world, r#"{"version":4,"ask":"status"}"#);
    assert_eq!((&later["version"], &later["error"]["code"]), (&json!(3), &json!("unknown_version")));
}

#[test]
fn a_scrub_and_a_stop_are_answered_in_the_version_of_the_request() {
    let world = World::made(4, "6");
    let served = Served::start(&world, &[], &world.drives);
    let order = json!({
        "dry_run": false, "vouch": false, "resume": false, "accept_degraded": false, "keep_repairs": 1,
        "windows": [], "state_named": false, "json": true,
    });
    for version in [None, Some(2)] {
        let mut request = json!({ "ask": "scrub", "order": order });
        if let Some(version) = version {
            request["version"] = json!(version);
        }
        let lines = said(&world, &request.to_string());
        assert!(lines.iter().all(|line| line["version"] == json!(version)), "{lines:?}");
        let (done, before) = lines.split_last().unwrap();
        assert!(!before.is_empty() && before.iter().all(|line| line.get("done").is_none()), "{lines:?}");
        assert_eq!(done["done"]["exit"], 0, "{done}");
        let report: Value = serde_json::from_str(done["done"]["output"].as_str().unwrap()).unwrap();
        assert_eq!(report["result"], "clean");
    }
    // One whose hours are over waits until its client goes.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut waiting = order;
    waiting["windows"] = json!([[(now + 7200) % 86_400, (now + 7260) % 86_400]]);
    let request = json!({ "ask": "scrub", "order": waiting });
    let mut client = UnixStream::connect(socket(&world)).unwrap();
    client.write_all(format!("{request}\n").as_bytes()).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 1, "it is under way");
    assert_eq!(error(&world, request).0, "scrub_running");
    drop(client);
    let stopped = answer(&world, r#"{"version":2,"ask":"stop"}"#);
    assert_eq!((&stopped["version"], &stopped["volume"]["state"]), (&json!(2), &json!("clean")));
    assert_eq!(served.ended(), Some(0));
}
