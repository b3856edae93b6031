//! Scrubs over a network that is not good: what was lost is made up for, and never taken for
//! damage.

#[path = "../../../remote/tests/network/proxy.rs"]
#[expect(dead_code, reason = "shared with the tests of remote nodes, which use all of it")]
mod proxy;

use crate::network::{Node, findings, two_nodes};
use crate::signals::{begun, signal};
use crate::small_array::{Made, RAID6, STRIPES, damage, refusal, run, scrub};
use proxy::{Proxy, Then, data_len};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn name(proxy: &Proxy) -> PathBuf {
    format!("nvme://{}", proxy.address).into()
}

/// Cuts every connection once so many bytes have come from the node; the count of them is kept.
fn cutting(node: &Node, after: usize) -> (Proxy, Arc<AtomicUsize>) {
    let bytes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&bytes);
    let proxy = Proxy::start(node.address, move |pdu| {
        let before = counted.fetch_add(pdu.len(), Ordering::SeqCst);
        if before < after && before + pdu.len() >= after { Then::Cut } else { Then::Pass }
    });
    (proxy, bytes)
}

#[test]
fn a_connection_that_is_cut_is_made_anew_and_the_scrub_goes_on() {
    let array = Made::new(RAID6);
    for (role, stripe, at, len) in [(0, 7, 8192, 20), (3, 12, 0, 65_536), (1, 39, 65_000, 536)] {
        damage(&array, role, stripe, at, len);
    }
    let nodes = two_nodes(&array);
    let state = tempfile::tempdir().unwrap();
    for method in ["host", "stripe", "aggregate", "fingerprint"] {
        let options = ["--method", method, "--batch", "1", "--seed", "7"];
        let (whole, bytes) = cutting(&nodes[1], usize::MAX);
        let (code, expected) = run(state.path(), &options, &[nodes[0].name(), name(&whole)]);
        assert_eq!((code, &expected["reconnections"]), (1, &json!(0)), "{method}");
        // Well behind the reading of superblocks, in the midst of the scrub.
        let after = bytes.load(Ordering::SeqCst) * 9 / 10;
        let (cut, _) = cutting(&nodes[1], after);
        let (code, report) = run(state.path(), &options, &[nodes[0].name(), name(&cut)]);
        assert_eq!((code, &report["result"]), (1, &json!("findings")), "{method} {report}");
        assert_eq!(report["reconnections"], 1, "{method}");
        assert_eq!(findings(&report), findings(&expected), "{method}");
        assert_eq!(report["stripes_checked"], STRIPES);
        let (cut, _) = cutting(&nodes[1], after);
        let never = [&options[..], &["--reconnect", "0s"]].concat();
        let (code, report) = run(state.path(), &never, &[nodes[0].name(), name(&cut)]);
        assert_eq!((code, &report["incomplete"]), (3, &json!(["stopped"])), "{method}: it was told not to");
    }
}

#[test]
fn a_repair_ends_with_its_connection() {
    let array = Made::new(RAID6);
    (0..STRIPES).for_each(|stripe| damage(&array, 0, stripe, 4096, 4096));
    let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    // Damage at the same place of every stripe is a pattern, which is left alone by default.
    let options = ["--repair", "--repair-policy", "likely", "--batch", "1"];
    // As it goes without a cut, on a copy.
    let copy = Made::new(RAID6);
    (0..STRIPES).for_each(|stripe| damage(&copy, 0, stripe, 4096, 4096));
    let other = Node::start(&["--listen", "127.0.0.1:0"], &copy.members);
    let state = tempfile::tempdir().unwrap();
    let (whole, bytes) = cutting(&other, usize::MAX);
    assert_eq!(run(state.path(), &options, &[name(&whole)]).0, 1);
    let (cut, _) = cutting(&node, bytes.load(Ordering::SeqCst) * 2 / 3);
    let never = [&options[..], &["--reconnect", "0s"]].concat();
    let (code, report) = run(state.path(), &never, &[name(&cut)]);
    assert_eq!((code, &report["incomplete"]), (3, &json!(["stopped"])), "{report}");
    assert_eq!(report["reconnections"], 0, "others may have written since");
    let repaired = report["findings"].as_array().unwrap().iter().filter(|f| f["repaired"] == true).count();
    assert!(repaired > 0 && repaired < STRIPES as usize, "{repaired}");
    // The next repair settles what the cut one left.
    assert_eq!(run(state.path(), &options, &[node.name()]).0, 1);
    let (code, report) = run(state.path(), &[], &[node.name()]);
    assert_eq!((code, report["findings"].as_array().unwrap().len()), (0, 0));
}

/// Cut in the scan and in the middle of the repairs: it is opened, held and judged anew.
#[test]
fn a_repair_goes_on_when_its_node_is_there_again() {
    let damaged = || {
        let array = Made::new(RAID6);
        (0..STRIPES).for_each(|stripe| damage(&array, 0, stripe, 4096, 4096));
        array
    };
    let options = ["--repair", "--repair-policy", "likely", "--batch", "1"];
    let copy = damaged();
    let node = Node::start(&["--listen", "127.0.0.1:0"], &copy.members);
    let (whole, bytes) = cutting(&node, usize::MAX);
    let state = tempfile::tempdir().unwrap();
    assert_eq!(run(state.path(), &options, &[name(&whole)]).0, 1);
    for third in [1, 2] {
        let array = damaged();
        let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
        let (cut, _) = cutting(&node, bytes.load(Ordering::SeqCst) * third / 3);
        let (code, report) = run(state.path(), &options, &[name(&cut)]);
        assert_eq!((code, &report["result"]), (1, &json!("findings")), "{report}");
        let findings = report["findings"].as_array().unwrap();
        assert_eq!(findings.len(), STRIPES as usize);
        assert!(findings.iter().all(|finding| finding["repaired"] == true), "{report}");
        let (code, report) = run(state.path(), &[], &[node.name()]);
        assert_eq!((code, report["findings"].as_array().unwrap().len()), (0, 0));
        drop(node);
        for (repaired, expected) in array.members.iter().zip(&copy.members) {
            assert!(std::fs::read(repaired).unwrap() == std::fs::read(expected).unwrap());
        }
    }
}

#[test]
fn a_node_that_stands_still_is_noticed_in_the_time_that_is_documented() {
    let array = Made::new(RAID6);
    let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    let state = tempfile::tempdir().unwrap();
    let child = scrub(state.path())
        .args(["--json", "--rate", "4096", "--reconnect", "0s"])
        .arg(node.name())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    begun(state.path());
    std::thread::sleep(Duration::from_secs(1));
    signal(node.child.id(), "-STOP");
    let began = Instant::now();
    let output = child.wait_with_output().unwrap();
    let waited = began.elapsed();
    signal(node.child.id(), "-CONT");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["result"]), (Some(3), &json!("incomplete")));
    assert!(report["stopped"].as_str().unwrap().contains("no answer within 10 s"), "{report}");
    // 20 s by the documentation.
    assert!(waited < Duration::from_secs(60), "{waited:?}");
}

#[test]
fn a_flipped_bit_is_never_taken_for_damage() {
    let array = Made::new(RAID6);
    let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    let state = tempfile::tempdir().unwrap();
    for (digest, reconnections, rechecked) in [("on", 1, 0), ("off", 0, 1)] {
        let flipped = AtomicBool::new(false);
        let proxy = Proxy::start(node.address, move |pdu| {
            // Reads of whole chunks.
            if data_len(pdu) == 65_536 && !flipped.swap(true, Ordering::SeqCst) {
                let at = usize::from(pdu[3]) + 5000;
                pdu[at] ^= 1;
            }
            Then::Pass
        });
        let options = ["--method", "host", "--digest", digest];
        let (code, report) = run(state.path(), &options, &[name(&proxy)]);
        assert_eq!((code, &report["result"]), (0, &json!("clean")), "{digest}");
        assert_eq!(report["reconnections"], reconnections, "{digest}: it was noticed by its digest");
        assert_eq!(report["stripes_rechecked"], rechecked, "{digest}: it was noticed by parity");
        assert_eq!(report["wire"]["digests"], digest == "on");
        assert_eq!(report["wire"]["loopback"], true);
        let messages = report["wire"]["messages"].as_f64().unwrap();
        let bound = if digest == "on" { messages / f64::from(u32::MAX) } else { 0.0 };
        let stated = report["wire"]["miss_bound"].as_f64().unwrap();
        assert!((stated - bound).abs() <= bound * 1e-6, "{stated} {bound}");
    }
    // The node has the files.
    let (_, report) = run(state.path(), &["--allow-in-use"], &array.members);
    assert!(report["wire"].is_null(), "there is no network");
}

#[test]
fn who_holds_a_node_is_told_to_others() {
    let array = Made::new(RAID6);
    damage(&array, 0, 7, 8192, 20);
    let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    let state = tempfile::tempdir().unwrap();
    let mut child = scrub(state.path())
        .args(["--repair", "--rate", "4096"])
        .arg(node.name())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    begun(state.path());
    let other = tempfile::tempdir().unwrap();
    let address = node.address.to_string();
    for message in [
        refusal(scrub(other.path()).arg(node.name())),
        refusal(crate::small_array::pumice().args(["drives", &address])),
    ] {
        assert!(message.contains("another host holds the node"), "{message}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
