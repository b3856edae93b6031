//! `pumice scrub` of a volume in service: under a load that verifies what it reads.

use crate::world::{DRIVE, MIB, Served, VOLUME, World, clean, empty, pumice};
use pumice_offload::{DataNode, Drives};
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
const CHUNK: usize = 64 << 10;
/// Rows of each chunk that are damaged: no load writes there.
const QUIET: [usize; 2] = [5, 9];
/// Scrubs of a stripe that is always written: without the locks one of far fewer finds it torn.
const ROUNDS: usize = 400;
/// Runs of the other rows.
const RUNS: [(usize, usize); 3] = [(0, 5), (6, 9), (10, 16)];

fn scrub(world: &World, options: &[&str]) -> Command {
    let mut command = pumice(&["scrub", "--state-dir"]);
    command.arg(world.folder.path().join("state")).arg("--run-dir").arg(world.sockets()).args(options);
    command
}

/// Exit code, report and notes.
fn scrubbed(world: &World, names: &[PathBuf], options: &[&str]) -> (i32, Value, String) {
    let output = scrub(world, options).arg("--json").args(names).output().unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code().unwrap(), report, notes)
}

/// A block that looks like no other, and has no structure.
fn content(tag: u64) -> Vec<u8> {
    let word = |i: u64| {
        let mut z = (tag << 16 | i).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)).to_le_bytes()
    };
    (0..BLOCK as u64 / 8).flat_map(word).collect()
}

/// Writes blocks of every `of`-th chunk, in all rows but the quiet ones, and reads them back, until
/// `stop`. Every read must be what was written last.
fn load(served: &Served, chunks: usize, (thread, of): (usize, usize), stop: &AtomicBool, done: &AtomicU64) {
    let node = served.connect();
    let mut random = thread as u64 + 1;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let mine: Vec<usize> = (0..chunks).filter(|chunk| chunk % of == thread).collect();
    let mut known = vec![vec![0; BLOCK]; chunks * 16];
    // Loads before this one have left other content.
    for (chunk, (first, end)) in mine.iter().flat_map(|chunk| RUNS.map(|run| (*chunk, run))) {
        let blocks = chunk * 16 + first..chunk * 16 + end;
        let bytes: Vec<u8> = blocks.clone().flat_map(|block| content(block as u64)).collect();
        node.write(VOLUME, (blocks.start * BLOCK) as u64, &bytes).unwrap();
        known[blocks].clone_from_slice(&bytes.chunks(BLOCK).map(<[u8]>::to_vec).collect::<Vec<_>>());
    }
    while !stop.load(Ordering::Relaxed) {
        let chunk = mine[next(mine.len())];
        let (first, end) = RUNS[next(RUNS.len())];
        let start = first + next(end - first);
        let rows = 1 + next(end - start);
        let at = (chunk * 16 + start) as u64 * BLOCK as u64;
        if next(3) > 0 {
            let tag = done.load(Ordering::Relaxed) << 20 | at;
            let bytes: Vec<u8> = (0..rows as u64).flat_map(|row| content(tag + row)).collect();
            node.write(VOLUME, at, &bytes).unwrap();
            for (row, block) in bytes.chunks(BLOCK).enumerate() {
                known[chunk * 16 + start + row] = block.to_vec();
            }
        } else {
            let mut bytes = vec![0; rows * BLOCK];
            node.read(VOLUME, at, &mut bytes).unwrap();
            for (row, block) in bytes.chunks(BLOCK).enumerate() {
                assert!(block == known[chunk * 16 + start + row], "chunk {chunk}, row {}", start + row);
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until a load has done more.
fn goes_on(done: &AtomicU64) {
    let before = done.load(Ordering::Relaxed);
    let until = Instant::now() + Duration::from_secs(120);
    while done.load(Ordering::Relaxed) < before + 10 {
        assert!(Instant::now() < until, "the load stands still");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A volume that is served, full of blocks of different content, and its chunks.
fn filled(world: &World, options: &[&str], names: &[PathBuf]) -> (Served, usize) {
    let served = Served::start(world, options, names);
    let node = served.connect();
    let bytes = node.describe().unwrap().drives[0].size_bytes as usize;
    let chunks = bytes / CHUNK;
    for chunk in 0..chunks {
        let bytes: Vec<u8> = (0..16).flat_map(|row| content((chunk * 16 + row) as u64)).collect();
        node.write(VOLUME, (chunk * CHUNK) as u64, &bytes).unwrap();
    }
    node.flush(VOLUME).unwrap();
    (served, chunks)
}

/// The drive and the place of a block.
fn find(drives: &[PathBuf], block: &[u8]) -> (usize, u64) {
    let found = |(drive, path): (usize, &PathBuf)| {
        let bytes = fs::read(path).unwrap();
        // What lies before is the stripe log.
        let at = (3 * MIB..DRIVE).step_by(BLOCK).find(|at| &bytes[*at..at + BLOCK] == block)?;
        Some((drive, at as u64))
    };
    drives.iter().enumerate().find_map(found).expect("the block is on a drive")
}

fn damage(path: &Path, at: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&content(u64::MAX >> 16)[..1000], at + 100).unwrap();
    file.sync_all().unwrap();
}

/// Scrubs the first stripe again and again while writers never leave it. Under the locks it is
/// whole at the first look already, so it is never looked at again.
fn always_whole(world: &World, names: &[PathBuf], served: &Served, rounds: usize) {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (stop, done) = (&stop, &done);
            scope.spawn(move || load(served, 3, (thread, 3), stop, done));
        }
        // Whatever goes wrong here ends the load.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            goes_on(&done);
            for round in 0..rounds {
                let (code, report, notes) = scrubbed(world, names, &["--range", "0..1"]);
                assert_eq!((code, &report["result"]), (0, &"clean".into()), "{round}: {notes} {report}");
                assert_eq!(report["stripes_rechecked"], 0, "{round}: {report}");
            }
            goes_on(&done);
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(why) = result {
            std::panic::resume_unwind(why);
        }
    });
}

/// Scrubs a volume that is full and served, damages it, and repairs it, while a load verifies what
/// it reads. `names` are the drives as the volume knows them.
fn repaired_under_load(world: &World, names: &[PathBuf], served: &Served, chunks: usize) {
    always_whole(world, names, served, ROUNDS);
    let scrubbed = |options: &[&str]| scrubbed(world, names, options);
    let members = world.drives.len();
    let stop = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (stop, done) = (&stop, &done);
            scope.spawn(move || load(served, chunks, (thread, 2), stop, done));
        }
        // Whatever goes wrong here ends the load.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..3 {
                goes_on(&done);
                let (code, report, notes) = scrubbed(&["--rate", "20MB"]);
                assert_eq!((code, &report["result"]), (0, &"clean".into()), "{notes} {report}");
                assert_eq!(report["stripes_rechecked"], 0, "{report}");
            }
            let mut places = Vec::new();
            for (i, chunk) in [0, 5, 10, chunks / 2, chunks - 2].into_iter().enumerate() {
                let row = QUIET[i % 2];
                let (drive, at) = find(&world.drives, &content((chunk * 16 + row) as u64));
                // Any member of the same row, so that parity is damaged as well.
                let drive = (drive + i) % members;
                damage(&world.drives[drive], at);
                places.push((drive as u64, at));
            }
            let (code, report, notes) = scrubbed(&[]);
            assert_eq!(code, 1, "{notes}");
            let located = |report: &Value, repaired: bool| {
                let findings = report["findings"].as_array().unwrap();
                assert!(findings.iter().all(|f| f["repaired"] == repaired), "{findings:#?}");
                let mut found: Vec<(u64, u64)> = findings
                    .iter()
                    .map(|f| {
                        (f["member"].as_u64().unwrap(), f["device_offset"].as_u64().unwrap() / 4096 * 4096)
                    })
                    .collect();
                found.sort_unstable();
                found
            };
            places.sort_unstable();
            assert_eq!(located(&report, false), places);
            let (code, report, notes) = scrubbed(&["--repair"]);
            assert_eq!(code, 1, "{notes}");
            assert_eq!(located(&report, true), places, "{notes}");
            let (code, report, notes) = scrubbed(&[]);
            assert_eq!((code, &report["result"]), (0, &"clean".into()), "{notes} {report}");
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(why) = result {
            std::panic::resume_unwind(why);
        }
    });
    let node = served.connect();
    for chunk in 0..chunks {
        for row in QUIET {
            let mut block = vec![0; BLOCK];
            node.read(VOLUME, ((chunk * 16 + row) * BLOCK) as u64, &mut block).unwrap();
            assert!(block == content((chunk * 16 + row) as u64), "chunk {chunk}, row {row}");
        }
    }
}

#[test]
fn damage_under_a_verifying_load_is_located_and_repaired() {
    let world = World::made(5, "6");
    let (served, chunks) = filled(&world, &[], &world.drives);
    repaired_under_load(&world, &world.drives, &served, chunks);
    assert_eq!(served.terminate(), Some(0));
    clean(&world.drives);
    let archive =
        pumice(&["repairs", "--state-dir"]).arg(world.folder.path().join("state")).output().unwrap();
    assert!(archive.status.success() && !archive.stdout.is_empty(), "the replaced bytes are kept");
}

/// Node processes; killed when they go.
struct Nodes(Vec<Child>);

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Two drives on each of three nodes, which may send to each other, and their names.
fn nodes(world: &World) -> (Nodes, Vec<PathBuf>) {
    let held: Vec<_> = (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<String> =
        held.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    drop(held);
    let (mut children, mut names) = (Nodes(Vec::new()), Vec::new());
    for (address, drives) in addresses.iter().zip(world.drives.chunks(2)) {
        let mut command = pumice(&["node", "--listen", address, "--state-dir"]);
        command.arg(world.folder.path().join("nodes"));
        for drive in drives {
            command.arg("--drive").arg(drive);
        }
        for peer in addresses.iter().filter(|peer| *peer != address) {
            command.args(["--peer", peer]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        children.0.push(child);
        assert!(line.starts_with("listening"), "{line}");
        names.extend((1..=2).map(|drive| PathBuf::from(format!("nvme://{address}/{drive}"))));
    }
    (children, names)
}

/// The nodes make parity in the same local memory that scrubs of other arrays use.
#[test]
fn a_volume_whose_parity_the_nodes_make_is_scrubbed_and_repaired_under_load() {
    let world = World::new(6);
    let (nodes, names) = nodes(&world);
    let (code, text) = world.run(&["create", "--level", "6", "--name", "vault"], &names);
    assert_eq!(code, 0, "{text}");
    let (served, chunks) = filled(&world, &["--offload", "on"], &names);
    repaired_under_load(&world, &names, &served, chunks);
    let status = world.ask(&["status", "vault"]);
    assert!(status["parity"]["near_writes"].as_u64().unwrap() > 100, "{status}");
    assert!(status["parity"]["ways"].is_null(), "{status}");
    assert_eq!(served.terminate(), Some(0));
    drop(nodes);
    clean(&world.drives);
}

#[test]
fn a_stripe_that_is_always_written_is_whole_whenever_it_is_checked() {
    let world = World::made(5, "6");
    // Without records to wait for, writes in place take most of their time.
    let (served, _) = filled(&world, &["--consistency", "bitmap"], &world.drives);
    always_whole(&world, &world.drives, &served, ROUNDS);
    assert_eq!(served.terminate(), Some(0));
    clean(&world.drives);
}

/// Begins a scrub that takes long, and waits until it is under way.
fn slow(world: &World) -> Child {
    // The first batch passes at once.
    let begin = || {
        let mut command = scrub(world, &["--rate", "100kB"]);
        command.args(&world.drives).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut child = begin();
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        std::thread::sleep(Duration::from_millis(200));
        if child.try_wait().unwrap().is_some() {
            // A look at it from here came before it.
            let (code, said) = ended(child);
            assert!(code == Some(2) && said.contains("under way"), "{code:?} {said}");
            child = begin();
            continue;
        }
        let output = scrub(world, &[]).args(&world.drives).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        if said.contains("under way") {
            assert_eq!(output.status.code(), Some(2));
            return child;
        }
        assert!(Instant::now() < until, "it never begins: {said}");
    }
}

fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn a_scrub_ends_with_its_client_with_a_member_and_with_the_volume() {
    let mut world = World::made(5, "6");
    let (served, _) = filled(&world, &[], &world.drives);
    let mut first = slow(&world);
    first.kill().unwrap();
    first.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    while scrubbed(&world, &world.drives, &[]).0 != 0 {
        assert!(Instant::now() < until, "the scrub of a client that is gone goes on");
    }
    let second = slow(&world);
    world.ask(&["fail", "vault", "3"]);
    let (code, said) = ended(second);
    assert!(code == Some(3) && said.contains("member 3 "), "{code:?} {said}");
    let lost = world.drives.remove(3);
    let (code, report, notes) = scrubbed(&world, &world.drives, &[]);
    assert_eq!((code, &report["degraded"]), (0, &true.into()), "{notes} {report}");
    let new = empty(world.folder.path(), "new", DRIVE);
    world.ask(&["add", "vault", new.to_str().unwrap()]);
    crate::world::wait_for(&world, "the rebuild", |status| status["members"][3]["state"] == "in_sync");
    world.drives.insert(3, new);
    let (_, _, notes) = scrubbed(&world, &world.drives, &["--dry-run", lost.to_str().unwrap()]);
    assert!(notes.contains("no member of vault"), "{notes}");
    let (code, report, notes) = scrubbed(&world, &world.drives, &[]);
    assert_eq!((code, &report["degraded"]), (0, &false.into()), "{notes} {report}");
    let third = slow(&world);
    assert_eq!(world.ask(&["stop", "vault"])["state"], "clean");
    let (code, said) = ended(third);
    assert!(code == Some(3) && said.contains("INCOMPLETE"), "{code:?} {said}");
    assert_eq!(served.ended(), Some(0));
    clean(&world.drives);
}

#[test]
fn what_makes_no_sense_for_a_volume_in_service_is_refused_by_name() {
    let world = World::made(5, "6");
    let served = Served::start(&world, &[], &world.drives);
    let refused = |options: &[&str], devices: &[PathBuf], words: &[&str]| {
        let output = scrub(&world, options).args(devices).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{options:?}: {said}");
    };
    let all = &world.drives[..];
    let stray = empty(world.folder.path(), "stray", DRIVE);
    refused(&[], &[all, &[stray]].concat(), &["stray", "no member of vault"]);
    refused(&["--slowdown", "1ms"], all, &["--slowdown"]);
    refused(&["--settle", "1s"], all, &["--settle"]);
    refused(&["--method", "aggregate"], all, &["--method", "aggregate", "in service"]);
    refused(&["--range", "0..9999"], all, &["range"]);
    // One of its members stands for all.
    let output = scrub(&world, &[]).arg(&all[0]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    // Without the folder of its socket it is a device that is in use.
    let output = pumice(&["scrub", "--run-dir", "/nonexistent"]).args(all).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("locked"), "{said}");
    assert_eq!(served.terminate(), Some(0));
}

/// A line of the socket's protocol that is not one.
#[test]
fn an_order_with_unknown_fields_is_refused() {
    use std::io::Write;
    let world = World::made(5, "6");
    let served = Served::start(&world, &[], &world.drives);
    let socket = fs::read_dir(world.sockets()).unwrap().next().unwrap().unwrap().path();
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.write_all(b"{\"ask\":\"scrub\",\"order\":{\"colour\":\"red\"}}\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert!(line.contains("error") && line.contains("colour"), "{line}");
    assert_eq!(served.terminate(), Some(0));
}
