//! Scrubs of an array that another host is writing, and repair over the network.

use crate::network::{Node, free_ports, two_nodes};
use crate::small_array::{
    CHUNK, DATA_OFFSET, DISKS, Made, RAID6, STRIPES, SUPERBLOCK, damage, patch, pumice, refusal, run, scrub,
};
use pumice_base::units::StripeIndex;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Nqn, Sqe};
use pumice_offload::wire::{HOLD_OBSERVE, opcode};
use pumice_parity::gf;
use pumice_raid::geometry::Geometry;
use pumice_raid::{assemble, probe};
use pumice_remote::initiator::{Command, ConnectOptions, Controller, Queue, discover};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Stripes that the writer leaves alone: their regions of 1 MiB hold no other stripe.
const QUIET: std::ops::Range<u64> = 32..STRIPES;
const BLOCK: usize = 4096;

/// Another host, associated with a node.
pub(crate) struct Host {
    _controller: Controller,
    queue: Queue,
}

impl Host {
    pub(crate) fn connect(node: &Node) -> Self {
        let asking = ConnectOptions { subsystem: Nqn::discovery(), ..node.options() };
        assert_eq!(discover(node.address, &asking).unwrap().len(), 2);
        let controller = Controller::connect(node.address, node.options()).unwrap();
        let queue = controller.queue(1, 16).unwrap();
        Self { _controller: controller, queue }
    }

    pub(crate) fn read(&mut self, nsid: u32, offset: u64, len: usize) -> Vec<u8> {
        let mut sqe = Sqe::new(io::READ, nsid);
        sqe.set_blocks(offset / 512, (len / 512) as u32);
        let mut data = vec![0; len];
        assert!(self.queue.execute(sqe, &[], &mut data).unwrap().status.is_success());
        data
    }

    fn write(&mut self, nsid: u32, offset: u64, data: &[u8]) {
        let mut sqe = Sqe::new(io::WRITE, nsid);
        sqe.set_blocks(offset / 512, (data.len() / 512) as u32);
        let mut command = [Command { sqe, send: data, receive: &mut [] }];
        assert!(self.queue.run(&mut command).unwrap()[0].status.is_success());
    }
}

fn geometry(array: &Made) -> Geometry {
    let record = |path: &PathBuf| {
        let file = std::fs::read(path).unwrap();
        (path.display().to_string(), probe(&file).unwrap().unwrap())
    };
    *assemble(array.members.iter().map(record).collect()).unwrap().geometry().parity().unwrap()
}

/// Writes blocks of the stripes before [`QUIET`] the way a RAID-6 host does, data and parity one
/// after another with a pause in between: for most of the time some stripe is torn. Every stripe is
/// whole again at the end.
fn write_until(stop: &AtomicBool, hosts: &mut [Host], place: &[(usize, u32)], geometry: &Geometry) -> u64 {
    let mut x = 88_172_645_463_325_252_u64;
    let mut next = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let mut writes = 0;
    while !stop.load(Ordering::Relaxed) {
        let stripe = StripeIndex(next() % QUIET.start);
        let at = (next() as usize % (CHUNK / BLOCK)) * BLOCK;
        let (p, q) = geometry.parity_roles(stripe);
        let parity = [p.index(), q.unwrap().index()];
        // A whole row of new data: no old content is needed to make its parity.
        let mut blocks = vec![vec![0_u8; BLOCK]; DISKS];
        for role in (0..DISKS).filter(|role| !parity.contains(role)) {
            let seed = next();
            blocks[role].iter_mut().enumerate().for_each(|(i, b)| *b = (seed >> (i % 57)) as u8 ^ i as u8);
        }
        for (row, role) in geometry.check_rows(stripe).iter().zip(parity) {
            let mut sum = vec![0; BLOCK];
            for (block, c) in blocks.iter().zip(row) {
                sum.iter_mut().zip(block).for_each(|(s, b)| *s ^= gf::mul(*c, *b));
            }
            blocks[role] = sum;
        }
        let offset = DATA_OFFSET + geometry.chunk_offset(stripe) + at as u64;
        for (role, block) in blocks.iter().enumerate() {
            let (host, nsid) = place[role];
            hosts[host].write(nsid, offset, block);
            std::thread::sleep(Duration::from_micros(next() % 3000));
        }
        writes += 1;
    }
    writes
}

fn findings(report: &Value) -> &[Value] {
    report["findings"].as_array().unwrap()
}

/// Scrubs while a host writes: no false finding, and damage where nobody writes is found.
fn scrub_under_writes(array: &Made, nodes: &[Node], place: &[(usize, u32)]) {
    let geometry = geometry(array);
    let names: Vec<PathBuf> = nodes.iter().map(Node::name).collect();
    let mut hosts: Vec<Host> = nodes.iter().map(Host::connect).collect();
    let state = tempfile::tempdir().unwrap();
    let (stop, rechecked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_until(&stop, &mut hosts, place, &geometry));
        let passes = || {
            for round in 0..4 {
                for method in ["host", "stripe", "aggregate", "fingerprint"] {
                    let (code, report) = run(state.path(), &["--method", method, "--batch", "8"], &names);
                    let seen = findings(&report);
                    let real: Vec<&Value> = seen.iter().filter(|f| f["verdict"] != "busy").collect();
                    rechecked.fetch_add(report["stripes_rechecked"].as_u64().unwrap(), Ordering::Relaxed);
                    if round < 2 {
                        assert!(real.is_empty(), "{method}: a false finding: {real:?}");
                        continue;
                    }
                    assert_eq!(real.len(), 1, "{method}: {seen:?}");
                    assert_eq!((&real[0]["stripe"], &real[0]["verdict"]), (&35.into(), &"member".into()));
                    assert_ne!(real[0]["certainty"], "proven");
                    assert!(code == 1 || code == 3 && seen.len() > 1, "{code}");
                }
                if round == 1 {
                    // In one byte range of a data member of stripe 35, behind the node's back.
                    let data = (0..DISKS).find(|role| {
                        geometry.data_index(StripeIndex(35), pumice_base::units::Role(*role as u16)).is_some()
                    });
                    damage(array, data.unwrap(), 35, 8192, 300);
                }
            }
        };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(passes));
        stop.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 100);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert!(rechecked.load(Ordering::Relaxed) > 0, "no scrub met a torn stripe: the test shows nothing");
    // The host is gone: now the array is ours, over the network, and nothing but the damage is
    // repaired.
    drop(hosts);
    let (code, report) = run(state.path(), &["--repair"], &names);
    assert_eq!(
        (code, findings(&report).len(), &findings(&report)[0]["repaired"]),
        (1, 1, &Value::Bool(true))
    );
    assert_eq!(run(state.path(), &[], &names).0, 0);
}

#[test]
fn writes_of_another_host_are_no_findings_on_one_node() {
    let array = Made::new(RAID6);
    let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    let place: Vec<(usize, u32)> = (1..=DISKS as u32).map(|nsid| (0, nsid)).collect();
    scrub_under_writes(&array, &[node], &place);
}

#[test]
fn writes_of_another_host_are_no_findings_on_two_nodes() {
    let array = Made::new(RAID6);
    let nodes = two_nodes(&array);
    scrub_under_writes(&array, &nodes, &[(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)]);
}

/// A stripe that is half written for longer than any settle time, because the writer has lost its
/// way to one of the nodes: nobody may call it damaged.
#[test]
fn a_parity_write_that_waits_for_its_path_is_no_damage() {
    let array = Made::new(RAID6);
    let nodes = two_nodes(&array);
    let names = [nodes[0].name(), nodes[1].name()];
    let state = tempfile::tempdir().unwrap();
    // The host has both nodes; then its data block is written, and the way to the parities is gone.
    let (mut first, second) = (Host::connect(&nodes[0]), Host::connect(&nodes[1]));
    let offset = DATA_OFFSET + 35 * CHUNK as u64;
    first.write(1, offset, &[0x5A; BLOCK]);
    drop(second);
    let (code, report) = run(state.path(), &[], &names);
    assert_eq!(code, 3);
    assert_eq!(findings(&report).len(), 1, "{report}");
    assert_eq!(findings(&report)[0]["verdict"], "busy");
    // The host is gone altogether: what it left behind is a finding.
    drop(first);
    let (code, report) = run(state.path(), &[], &names);
    assert_eq!((code, findings(&report).len()), (1, 1));
    assert_ne!(findings(&report)[0]["verdict"], "busy");
}

/// A stripe whose data are written again and again, always the same, while its parity lags behind:
/// it looks the same at each look, and is no damage all the same.
#[test]
fn a_stripe_that_is_being_written_is_busy_though_it_looks_the_same() {
    let array = Made::new(RAID6);
    let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    let state = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut host = Host::connect(&node);
        host.write(1, DATA_OFFSET + 35 * CHUNK as u64, &[0x5A; BLOCK]);
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                host.write(1, DATA_OFFSET + 35 * CHUNK as u64, &[0x5A; BLOCK]);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let (code, report) = run(state.path(), &[], &[node.name()]);
        stop.store(true, Ordering::Relaxed);
        assert_eq!((code, findings(&report).len(), &findings(&report)[0]["verdict"]), (3, 1, &"busy".into()));
    });
}

/// A host that runs the array is there and only reads; its journal holds one stripe. Damage
/// elsewhere is found all the same, with the journal behind a node of its own and on this machine.
#[test]
fn damage_is_found_where_the_journal_of_a_running_array_holds_nothing() {
    let array = Made::new(RAID6);
    let stripe_bytes = geometry(&array).stripe_bytes();
    let journal = array.add_journal(stripe_bytes, &[7]);
    damage(&array, 1, 7, 0, 100);
    damage(&array, 1, 35, 8192, 300);
    let members = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    let beside = Node::start(&["--listen", "127.0.0.1:0"], std::slice::from_ref(&journal));
    let mut hosts = [Host::connect(&members), Host::connect(&beside)];
    let stop = AtomicBool::new(false);
    let scrubs = || {
        for journal in [beside.name(), journal] {
            let state = tempfile::tempdir().unwrap();
            let (code, report) = run(state.path(), &[], &[members.name(), journal]);
            assert_eq!((code, &report["skipped"]["journal-pending"]), (3, &1.into()), "{report}");
            let seen: Vec<_> = findings(&report).iter().map(|f| (&f["stripe"], &f["unsettled"])).collect();
            assert_eq!(seen, [(&35.into(), &Value::Null)], "{report}");
            assert_ne!(findings(&report)[0]["verdict"], "busy");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                hosts.iter_mut().for_each(|host| drop(host.read(1, 0, 512)));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(scrubs));
        stop.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// The words for a person where the journal stands in the way: the reason, and what to do.
#[test]
fn a_journal_that_is_in_the_way_is_named_with_what_to_do() {
    let array = Made::new(RAID6);
    let journal = array.add_journal(geometry(&array).stripe_bytes(), &[7]);
    let state = tempfile::tempdir().unwrap();
    let said = |devices: &[PathBuf], code: i32| {
        let output = scrub(state.path()).args(devices).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        String::from_utf8(output.stdout).unwrap()
    };
    let without = said(&array.members, 3);
    assert!(without.contains("40 stripes") && without.contains("name it with the members"), "{without}");
    let all = [array.members.clone(), vec![journal]].concat();
    assert!(said(&all, 0).starts_with("CLEAN: every stripe"), "the stripe that it names is consistent");
    damage(&array, 1, 7, 0, 100);
    let with = said(&all, 3);
    assert!(
        with.contains("1 stripe:") && with.contains("md removes them when other writes follow"),
        "{with}"
    );
}

#[test]
fn a_repair_has_the_drives_for_itself_or_does_not_begin() {
    let array = Made::new(RAID6);
    damage(&array, 1, 3, 0, 100);
    let before: Vec<Vec<u8>> = array.members.iter().map(|m| std::fs::read(m).unwrap()).collect();
    let nodes = two_nodes(&array);
    let names = [nodes[0].name(), nodes[1].name()];
    let state = tempfile::tempdir().unwrap();
    let host = Host::connect(&nodes[1]);
    let message = refusal(scrub(state.path()).arg("--repair").args(&names));
    assert!(message.contains("--repair") && message.contains("another host is connected"), "{message}");
    for (member, before) in array.members.iter().zip(&before) {
        assert!(std::fs::read(member).unwrap() == *before, "nothing is written");
    }
    drop(host);
    let (code, report) = run(state.path(), &["--repair"], &names);
    assert_eq!((code, &findings(&report)[0]["repaired"]), (1, &Value::Bool(true)));
    // The hold has ended with the program: other hosts come in again.
    drop(Host::connect(&nodes[0]));
    assert_eq!(run(state.path(), &[], &names).0, 0);
}

/// Two scrubs of the same nodes at a time, with the methods that use local memory: each has a part
/// of its own.
#[test]
fn two_scrubs_of_one_node_do_not_disturb_each_other() {
    let array = Made::new(RAID6);
    let nodes = two_nodes(&array);
    let names = [nodes[0].name(), nodes[1].name()];
    std::thread::scope(|scope| {
        for method in ["stripe", "aggregate", "stripe"] {
            let names = &names;
            scope.spawn(move || {
                for _ in 0..8 {
                    let state = tempfile::tempdir().unwrap();
                    let (code, report) = run(state.path(), &["--method", method, "--batch", "5"], names);
                    assert_eq!((code, findings(&report).len()), (0, 0), "{method}");
                    // Other scrubs are associated, and write nothing; a sum that was disturbed
                    // would show as a stripe that had to be looked at again.
                    assert_eq!(report["stripes_rechecked"], 0, "{method}");
                }
            });
        }
    });
}

/// Inspects the whole of two nodes; returns the exit code, and its only array.
fn inspected(names: &[PathBuf]) -> (Option<i32>, Value, String) {
    let output = pumice().args(["inspect", "--json"]).args(names).output().unwrap();
    let mut document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["arrays"].as_array().unwrap().len(), 1, "{document}");
    let message = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), document["arrays"][0].take(), message)
}

#[test]
fn an_array_that_another_host_runs_is_shown_as_in_use() {
    let array = Made::new(RAID6);
    // What the first write of a host leaves in every superblock.
    array.members.iter().for_each(|member| patch(member, |s| s.resync_offset = 0));
    let nodes = two_nodes(&array);
    let names = [nodes[0].name(), nodes[1].name()];
    let notes = |array: &Value| array["notes"].to_string();
    let (code, alone, _) = inspected(&names);
    assert_eq!((code, &alone["state"]), (Some(0), &"unclean".into()));
    let first = Host::connect(&nodes[0]);
    let (_, half, _) = inspected(&names);
    assert_eq!(half["state"], "unclean", "it has half of the drives: {half}");
    assert_eq!(notes(&half), notes(&alone));
    let second = Host::connect(&nodes[1]);
    let (_, seen, _) = inspected(&names);
    assert_eq!(seen["state"], "active");
    assert!(notes(&seen).contains("in use by another host: another host is connected"), "{seen}");
    assert_eq!(seen["notes"].as_array().unwrap().len(), 1, "and nothing of its not being clean: {seen}");
    let (_, mixed, _) = inspected(&[vec![names[0].clone()], array.members[3..].to_vec()].concat());
    assert_eq!(mixed["state"], "unclean", "of this machine's drives the nodes know nothing");
    drop((first, second));
    assert_eq!(inspected(&names).1["state"], "unclean", "it has gone");
}

/// A program of this kind is connected to every drive too, and runs no array.
#[test]
fn another_scrub_is_no_host_that_runs_the_array() {
    let array = Made::new(RAID6);
    array.members.iter().for_each(|member| patch(member, |s| s.resync_offset = 0));
    let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    let other = Controller::connect(node.address, node.options()).unwrap();
    let mut queue = other.queue(1, 8).unwrap();
    let mut observe = Sqe::new(opcode::HOLD, 0);
    observe.set_dword(10, HOLD_OBSERVE);
    assert!(queue.execute(observe, &[], &mut []).unwrap().status.is_success());
    assert_eq!(inspected(&[node.name()]).1["state"], "unclean");
    let state = tempfile::tempdir().unwrap();
    assert!(refusal(scrub(state.path()).arg(node.name())).contains("--assume-settled"));
}

/// One superblock that is damaged, and one node that does not answer, hide nothing else: on nodes
/// as on this machine.
#[test]
fn each_drive_is_inspected_by_itself() {
    let array = Made::new(RAID6);
    File::options()
        .write(true)
        .open(&array.members[1])
        .unwrap()
        .write_all_at(b"half", SUPERBLOCK + 32)
        .unwrap();
    let nodes = two_nodes(&array);
    let [nobody] = free_ports::<1>();
    let nowhere = PathBuf::from(format!("nvme://{nobody}"));
    let there = [nodes[0].name(), nowhere.join("1"), nowhere.join("2"), nodes[1].name()];
    let here = [array.members.clone(), vec![array.folder.path().join("nothing")]].concat();
    let cases: [(&[PathBuf], String, &str); 2] = [
        (&there, format!("nvme://{}/2", nodes[0].address), "refused"),
        (&here, array.members[1].display().to_string(), "nothing"),
    ];
    for (names, damaged, absent) in cases {
        let (code, seen, message) = inspected(names);
        assert_eq!((code, &seen["state"]), (Some(2), &"degraded".into()), "{message}");
        let states: Vec<&Value> =
            seen["members"].as_array().unwrap().iter().map(|member| &member["state"]).collect();
        assert_eq!(states, ["active", "missing", "active", "active", "active"]);
        let problems: Vec<&str> = message.lines().collect();
        assert_eq!(problems.len(), 2, "{message}");
        assert!(problems[0].contains(&damaged) && problems[0].contains("sb_csum"), "{message}");
        assert!(problems[1].contains(absent), "{message}");
    }
}
