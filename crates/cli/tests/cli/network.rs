//! The program that scrubs across node processes.

pub(crate) use crate::nodes::{Node, PATIENCE, findings, free_ports, two_nodes};

use crate::small_array::{CHUNK, Made, RAID6, STRIPES, damage, pumice, refusal, run, scrub};
use pumice_nvme::spec::{Sqe, opcode};
use pumice_remote::initiator::Controller;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The starter of a node may have closed its standard output, or it may be full: that is no reason
/// not to serve.
#[test]
fn a_node_serves_though_nobody_takes_its_first_words() {
    let [address] = free_ports();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = pumice();
    command.args(["node", "--listen", &address.to_string(), "--drive", "mem:16MiB"]);
    let child = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::null()).spawn().unwrap();
    let mut node = Node { child, address, nqn: String::new() };
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(began.elapsed() < PATIENCE, "it does not serve");
        assert_eq!(node.child.try_wait().unwrap(), None, "it ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(node.stop(), Some(0));
}

/// The place of the node's log may be full: it serves, and ends as it should.
#[test]
fn a_node_serves_though_its_log_cannot_be_written() {
    let [address] = free_ports();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = pumice();
    let nqn = "nqn.2026-11.example:node";
    command.args(["node", "--nqn", nqn, "--listen", &address.to_string(), "--drive", "mem:16MiB"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(full).spawn().unwrap();
    let mut node = Node { child, address, nqn: nqn.to_owned() };
    let mut line = String::new();
    BufReader::new(node.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    // Each of them is a line, and so is its end.
    for _ in 0..3 {
        Controller::connect(address, node.options()).unwrap();
    }
    assert_eq!(node.stop(), Some(0));
}

#[test]
fn findings_are_the_same_over_the_network() {
    let array = Made::new(RAID6);
    for (role, stripe, at, len) in
        [(0, 7, 8192, 20), (3, 12, 0, CHUNK), (4, 12, 0, CHUNK), (1, 39, 65_000, 536)]
    {
        damage(&array, role, stripe, at, len);
    }
    let state = tempfile::tempdir().unwrap();
    let seed = ["--seed", "7", "--batch", "16"];
    let local: Vec<Value> = ["host", "stripe", "aggregate", "fingerprint"]
        .iter()
        .map(|method| {
            // Drives of nodes are always looked at twice.
            let options = [&seed[..], &["--allow-in-use", "--method", method]].concat();
            run(state.path(), &options, &array.members).1
        })
        .collect();
    let nodes = two_nodes(&array);
    for near in &local {
        let method = near["method"].as_str().unwrap();
        let names = [nodes[0].name(), nodes[1].name()];
        let (code, far) = run(state.path(), &[&seed[..], &["--method", method]].concat(), &names);
        assert_eq!(code, 1, "{method}");
        assert_eq!(findings(&far), findings(near), "{method}");
        assert_eq!(far["stripes_checked"], STRIPES);
    }
    // One drive by one, in any order; and drives of this machine mixed with them.
    let one_by_one: Vec<PathBuf> = (1..=3)
        .rev()
        .map(|i| format!("nvme://{}/{i}", nodes[0].address).into())
        .chain((1..=2).map(|i| format!("nvme://{}/{i}", nodes[1].address).into()))
        .collect();
    let (code, far) = run(state.path(), &seed, &one_by_one);
    assert_eq!((code, findings(&far)), (1, findings(&local[3])));
    assert_eq!(far["method"], "fingerprint");
    let [first, mut second] = nodes;
    assert_eq!(second.stop(), Some(0), "SIGTERM is a clean stop");
    let mixed = [vec![first.name()], array.members[3..].to_vec()].concat();
    for method in ["host", "stripe", "aggregate", "fingerprint"] {
        let (code, far) = run(state.path(), &["--method", method], &mixed);
        assert_eq!((code, findings(&far)), (1, findings(&local[0])), "{method}");
    }
}

#[test]
fn a_node_that_dies_leaves_a_scrub_incomplete_and_a_resume_ends_it() {
    let array = Made::new(RAID6);
    let state = tempfile::tempdir().unwrap();
    let mut met = false;
    for wait in (0..60).map(|i| Duration::from_millis(5 + i * 3)) {
        let [first, second] = two_nodes(&array);
        let names = [first.name(), second.name()];
        let child = scrub(state.path())
            .args(["--json", "--batch", "1", "--method", "stripe", "--reconnect", "0s"])
            .args(&names)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(wait);
        // kill -9
        drop(second);
        let output = child.wait_with_output().unwrap();
        let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else { continue };
        let done = report["stripes_checked"].as_u64().unwrap();
        if output.status.code() != Some(3) || done == 0 {
            continue;
        }
        assert_eq!(report["result"], "incomplete");
        assert!(report["stopped"].as_str().unwrap().contains("127.0.0.1"), "{report}");
        drop(first);
        let [first, second] = two_nodes(&array);
        let (code, report) = run(state.path(), &["--resume"], &[first.name(), second.name()]);
        assert_eq!((code, report["stripes_checked"].as_u64()), (0, Some(STRIPES)));
        met = true;
        break;
    }
    assert!(met, "no scrub was met in its middle");
}

#[test]
fn garbage_on_one_connection_is_not_noticed_on_others() {
    let array = Made::new(RAID6);
    let [first, second] = two_nodes(&array);
    let names = [first.name(), second.name()];
    let state = tempfile::tempdir().unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let address = first.address;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0_u8;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                round = round.wrapping_add(1);
                let mut stream = TcpStream::connect(address).unwrap();
                let garbage: Vec<u8> = match round % 4 {
                    0 => vec![round; 300],
                    // An ICReq of four gigabytes; half a PDU; the other end's type.
                    1 => vec![0, 0, 128, 0, 0xFF, 0xFF, 0xFF, 0xFF],
                    2 => vec![0, 0, 128],
                    _ => vec![7; 64],
                };
                let _ = stream.write_all(&garbage);
                if round % 4 != 2 {
                    // The connection ends as the standard says: a C2HTermReq.
                    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                    let mut answer = [0; 24];
                    stream.read_exact(&mut answer).unwrap();
                    assert_eq!(answer[0], 3);
                }
            }
        });
        for _ in 0..6 {
            let (code, report) = run(state.path(), &["--method", "host"], &names);
            assert_eq!((code, report["result"].as_str()), (0, Some("clean")));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn thousands_of_connections_are_bounded_and_harmless() {
    let array = Made::new(RAID6);
    let [first, second] = two_nodes(&array);
    let state = tempfile::tempdir().unwrap();
    let held: Vec<TcpStream> = (0..800).filter_map(|_| TcpStream::connect(first.address).ok()).collect();
    assert!(held.len() > 500);
    let (code, _) = run(state.path(), &[], &[first.name(), second.name()]);
    assert_eq!(code, 0);
}

/// Blocks that a host made unreadable are unreadable to a scrub: through the parity engine too, and
/// after a kill -9.
#[test]
fn blocks_that_a_host_made_unreadable_are_found() {
    let array = Made::new(RAID6);
    let state = tempfile::tempdir().unwrap();
    let kept = state.path().join("node");
    let start = |drives: &[PathBuf]| {
        let folder = kept.to_str().unwrap();
        Node::start(&["--listen", "127.0.0.1:0", "--state-dir", folder], drives)
    };
    let node = start(&array.members);
    let controller = Controller::connect(node.address, node.options()).unwrap();
    let mut queue = controller.queue(1, 4).unwrap();
    let mut sqe = Sqe::new(opcode::io::WRITE_UNCORRECTABLE, 2);
    // In the data of a stripe: past the superblock and its surroundings.
    let middle = std::fs::metadata(&array.members[1]).unwrap().len() / 2 / 512;
    sqe.set_blocks(middle, 4);
    assert!(queue.execute(sqe, &[], &mut []).unwrap().status.is_success());
    let look = |node: &Node| -> Vec<Vec<Value>> {
        ["host", "stripe", "aggregate", "fingerprint"]
            .iter()
            .map(|method| {
                let (_, report) = run(state.path(), &["--method", method], &[node.name()]);
                assert_eq!(report["method"], *method);
                findings(&report)
            })
            .collect()
    };
    let found = look(&node);
    assert_eq!(found[0].len(), 1, "{found:?}");
    assert!(found[0][0].to_string().contains("unreadable"), "{found:?}");
    assert!(found.iter().all(|each| *each == found[0]), "every method: {found:?}");
    drop((queue, controller, node));
    let node = start(&array.members);
    assert_eq!(look(&node), found, "after a kill -9");
}

#[test]
fn what_a_node_serves_is_shown() {
    let array = Made::new(RAID6);
    let [first, _second] = two_nodes(&array);
    let json = |args: &[&str]| {
        let output = pumice().args(args).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let address = first.address.to_string();
    let found = json(&["discover", &address]);
    assert_eq!(found["subsystems"][1]["nqn"], first.nqn);
    assert_eq!(found["subsystems"][1]["port"], first.address.port().to_string());
    let drives = json(&["drives", &address]);
    assert_eq!(drives["drives"].as_array().unwrap().len(), 3);
    assert_eq!(drives["drives"][2]["array"]["uuid"], "03030303:03030303:03030303:03030303");
    let inspected = json(&["inspect", &format!("nvme://{address}"), array.members[3].to_str().unwrap()]);
    assert_eq!(inspected["arrays"][0]["state"], "degraded");
    assert_eq!(inspected["arrays"][0]["members"][0]["device"], format!("nvme://{address}/1"));
}

#[test]
fn identities_outlive_a_restart() {
    let array = Made::new(RAID6);
    let start = || Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    let mut first = start();
    let nqn = first.nqn.clone();
    assert_eq!(first.stop(), Some(0));
    assert_eq!(start().nqn, nqn);
}

#[test]
fn wrong_names_and_absent_nodes_are_refused() {
    let array = Made::new(RAID6);
    let [first, _second] = two_nodes(&array);
    let [nobody] = free_ports::<1>();
    let state = tempfile::tempdir().unwrap();
    let address = first.address;
    let twice = format!("nvme://{address}/1");
    for (members, word) in [
        (vec![format!("nvme://{nobody}")], "refused"),
        (vec![format!("nvme://{address}/9")], "no drive 9"),
        (vec![format!("nvme://{address}/x")], "a number from 1 on"),
        (vec![format!("nvme://{address}/0")], "a number from 1 on"),
        (vec!["nvme://nowhere".to_owned()], "HOST:PORT"),
        (vec![twice.clone(), twice], "named twice"),
        (vec![format!("nvme://{address}")], "missing"),
    ] {
        let message = refusal(scrub(state.path()).args(&members));
        assert!(message.contains(word), "{members:?}: '{word}' is not in: {message}");
    }
}

#[test]
fn a_node_that_cannot_serve_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("odd");
    File::create(&odd).unwrap().set_len(1000).unwrap();
    let config = folder.path().join("node.toml");
    std::fs::write(&config, "listen = '127.0.0.1:0'\nspeed = 1\n").unwrap();
    let odd = odd.to_str().unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["--listen", "127.0.0.1:0", "--drive", odd], "1000 bytes"),
        (&["--listen", "127.0.0.1:0", "--drive", "/nothing"], "/nothing"),
        (&["--listen", "127.0.0.1:0", "--drive", "mem:x"], "mem:x"),
        (&["--listen", "here", "--drive", "mem:1MiB"], "--listen"),
        (&["--listen", "127.0.0.1:0"], "--drive"),
        (&["--config", config.to_str().unwrap()], "speed"),
    ];
    for (args, word) in cases {
        let message = refusal(pumice().arg("node").args(args));
        assert!(message.contains(word), "{args:?}: {message}");
    }
    // A configuration that is whole.
    std::fs::write(&config, "listen = '127.0.0.1:0'\nblock_size = 4096\n[[drive]]\nbackend = 'mem:1MiB'\n")
        .unwrap();
    let began = Instant::now();
    let mut node = Node::start(&["--config", config.to_str().unwrap()], &[]);
    assert_eq!(node.stop(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(20));
}
