//! `pumice flash`, and a node that serves a flash drive: through kills, what was flushed is there.
//!
//! `PUMICE_KILLS` is how often; `cargo xtask kill-flash --rounds 50` sets it.

use crate::kills::forge;
use crate::network::Node;
use crate::small_array::pumice;
use pumice_nvme::spec::{Sqe, opcode};
use pumice_protect::digest::crc32c;
use pumice_remote::initiator::{Controller, Queue};
use serde_json::Value;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PAGE: u64 = 4096;
const PAGES: u64 = 1024;

fn flash(words: &[&str]) -> (i32, String, String) {
    let done = pumice().arg("flash").args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

fn json(words: &[&str]) -> (i32, Value) {
    let (code, out, error) = flash(&[words, &["--json"]].concat());
    (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{error}")))
}

fn start(drive: &str) -> Node {
    Node::start(&["--listen", "127.0.0.1:0", "--block-size", "4096"], &[drive.into()])
}

fn connect(node: &Node) -> (Controller, Queue) {
    let controller = Controller::connect(node.address, node.options()).unwrap();
    let queue = controller.queue(1, 16).unwrap();
    (controller, queue)
}

fn write(queue: &mut Queue, page: u64, content: &[u8]) -> bool {
    let mut sqe = Sqe::new(opcode::io::WRITE, 1);
    sqe.set_blocks(page, (content.len() as u64 / PAGE) as u32);
    queue.execute(sqe, content, &mut []).is_ok_and(|outcome| outcome.status.is_success())
}

fn flush(queue: &mut Queue) -> bool {
    queue.execute(Sqe::new(opcode::io::FLUSH, 1), &[], &mut []).is_ok_and(|o| o.status.is_success())
}

/// Deallocates some pages.
fn trim(queue: &mut Queue, page: u64, count: u32) -> bool {
    let mut sqe = Sqe::new(opcode::io::DATASET_MANAGEMENT, 1);
    sqe.0[44] = 1 << 2;
    let mut range = [0; 16];
    range[4..8].copy_from_slice(&count.to_le_bytes());
    range[8..].copy_from_slice(&page.to_le_bytes());
    queue.execute(sqe, &range, &mut []).is_ok_and(|outcome| outcome.status.is_success())
}

fn read(queue: &mut Queue, page: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE as usize];
    let mut sqe = Sqe::new(opcode::io::READ, 1);
    sqe.set_blocks(page, 1);
    let outcome = queue.execute(sqe, &[], &mut bytes).unwrap();
    assert!(outcome.status.is_success(), "page {page}: {:?}", outcome.status);
    bytes
}

/// Contents repeat from page to page, so that there is something to merge. 0 is an empty page. All
/// have the CRC-32C of an empty page.
fn content(version: u64) -> Vec<u8> {
    let kind = if version.is_multiple_of(3) { version % 7 + 1 } else { version };
    let empty = vec![0; PAGE as usize];
    if version == 0 {
        return empty;
    }
    let mut out = kind.to_le_bytes().repeat(PAGE as usize / 8);
    forge(&mut out, crc32c(&empty));
    out
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// Versions that a page may hold: its version at the last flush, and all that came after.
type Allowed = Vec<Vec<u64>>;

/// Writes, trims and flushes until the node is gone.
fn load(queue: &mut Queue, allowed: &mut Allowed, random: &mut Random, busy: &AtomicBool) {
    loop {
        let (page, count) = (random.below(PAGES - 4), 1 + random.below(4));
        let range = page..page + count;
        let version = if random.below(12) == 0 { 0 } else { 1 + random.below(1 << 40) };
        range.clone().for_each(|page| allowed[page as usize].push(version));
        let done = match version {
            0 => trim(queue, page, count as u32),
            _ => write(queue, page, &content(version).repeat(count as usize)),
        };
        if !done {
            return;
        }
        busy.store(true, Ordering::Relaxed);
        if random.below(50) == 0 {
            // Idle time, in which the drive works for itself.
            std::thread::sleep(Duration::from_millis(40));
        }
        if random.below(20) == 0 {
            if !flush(queue) {
                return;
            }
            for versions in allowed.iter_mut() {
                versions.drain(..versions.len() - 1);
            }
        }
    }
}

fn verify(queue: &mut Queue, allowed: &mut Allowed, round: u64) {
    for (page, versions) in (0..).zip(allowed.iter_mut()) {
        let bytes = read(queue, page);
        let found = versions.iter().rev().copied().find(|version| content(*version) == bytes);
        let Some(found) = found else {
            panic!("round {round}: page {page} holds none of {versions:?}");
        };
        *versions = vec![found];
    }
}

#[test]
fn what_was_flushed_is_there_after_every_kill() {
    let rounds = std::env::var("PUMICE_KILLS").ok().map_or(3, |text| text.parse().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash");
    let drive = format!("flash:{},capacity=4MiB,op=7%,dedup=separated", path.display());
    let mut allowed: Allowed = vec![vec![0]; PAGES as usize];
    let mut random = Random(0x5EED_1234);
    for round in 0..rounds {
        let mut node = start(&drive);
        let busy = AtomicBool::new(false);
        allowed = std::thread::scope(|scope| {
            let (_controller, mut queue) = connect(&node);
            let (mut allowed, mut own, busy) = (allowed, Random(random.0), &busy);
            let writer = scope.spawn(move || {
                load(&mut queue, &mut allowed, &mut own, busy);
                allowed
            });
            while !busy.load(Ordering::Relaxed) {
                assert!(!writer.is_finished(), "round {round}: the load ended before it had begun");
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(random.below(300)));
            node.child.kill().unwrap();
            node.child.wait().unwrap();
            writer.join().unwrap()
        });
        // What a kill left is sound, before anybody recovers it.
        let (code, found) = json(&["check", path.to_str().unwrap()]);
        assert_eq!((code, &found["check"]["result"]), (0, &"sound".into()), "round {round}: {found}");
        let node = start(&drive);
        let (_controller, mut queue) = connect(&node);
        verify(&mut queue, &mut allowed, round);
        assert!(flush(&mut queue));
    }
}

/// A host that stays does not write again what was acknowledged. So the death of the node, which is
/// no cut of the power, must not lose it.
#[test]
fn what_was_acknowledged_is_there_after_every_kill() {
    let rounds = std::env::var("PUMICE_KILLS").ok().map_or(3, |text| text.parse().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    let drive = format!("flash:{},capacity=4MiB,op=7%,dedup=live", folder.path().join("flash").display());
    let mut random = Random(0xACED_0001);
    let mut versions = vec![0; PAGES as usize];
    for round in 0..rounds {
        let mut node = start(&drive);
        let (last, written) = std::thread::scope(|scope| {
            let (_controller, mut queue) = connect(&node);
            let (mut own, mut written) = (Random(random.below(1 << 40) + 1), versions.clone());
            let writer = scope.spawn(move || {
                loop {
                    let (page, version) = (own.below(PAGES), own.below(1 << 40) / 12 * own.below(12));
                    let done = match version {
                        0 => trim(&mut queue, page, 1),
                        _ => write(&mut queue, page, &content(version)),
                    };
                    if !done {
                        // Perhaps it was carried out, perhaps not.
                        return ((page, version), written);
                    }
                    written[page as usize] = version;
                }
            });
            std::thread::sleep(Duration::from_millis(100 + random.below(400)));
            node.child.kill().unwrap();
            node.child.wait().unwrap();
            writer.join().unwrap()
        });
        versions = written;
        let node = start(&drive);
        let (_controller, mut queue) = connect(&node);
        for page in 0..PAGES {
            let bytes = read(&mut queue, page);
            if last.0 == page && bytes == content(last.1) {
                versions[page as usize] = last.1;
            }
            assert!(bytes == content(versions[page as usize]), "round {round}: page {page} is lost");
        }
    }
}

#[test]
fn a_node_tells_how_much_of_a_flash_drive_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash");
    let mut node = start(&format!("flash:{},capacity=4MiB,dedup=offline", path.display()));
    let (mut controller, mut queue) = connect(&node);
    for page in 0..200 {
        assert!(write(&mut queue, page, &content(1 + page)));
    }
    assert!(flush(&mut queue));
    // It is told to the namespace a few times a second.
    let began = std::time::Instant::now();
    let used = loop {
        let mut sqe = Sqe::new(opcode::admin::IDENTIFY, 1);
        sqe.0[40] = 0;
        let mut page = vec![0; 4096];
        let outcome = controller.admin().execute(sqe, &[], &mut page).unwrap();
        assert!(outcome.status.is_success());
        let field = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| page[at + i]));
        assert_eq!((field(0), field(8)), (PAGES, PAGES));
        if field(16) == 200 || began.elapsed() > crate::network::PATIENCE {
            break field(16);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(used, 200);
    drop(queue);
    drop(controller);
    assert_eq!(node.stop(), Some(0));
    let (_, found) = json(&["status", path.to_str().unwrap()]);
    assert_eq!(found["mapped_pages"], 200);
}

fn file(path: &Path) -> std::fs::File {
    std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_drive_is_made_looked_at_checked_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash");
    let name = path.to_str().unwrap();
    let (code, out, _) = flash(&["format", &format!("{name},capacity=4MiB,op=28%"), "--dry-run"]);
    assert!(code == 0 && out.contains("of memory") && out.contains("nothing was written"), "{out}");
    for (wrong, word) in [("capacity=1000", "capacity"), ("opp=20%,capacity=4MiB", "'opp=20%'")] {
        let (code, _, why) = flash(&["format", &format!("{name},{wrong}")]);
        assert!(code == 2 && why.contains(word), "{why}");
        assert!(why.contains(name) || word.contains("opp"), "{why}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let (code, made) = json(&["format", &format!("{name},capacity=4MiB,op=28%,dedup=live")]);
    assert_eq!(code, 0);
    assert_eq!((&made["capacity_bytes"], &made["op_percent"]), (&(4 << 20).into(), &28.0.into()));
    assert_eq!(made["file_bytes"], std::fs::metadata(&path).unwrap().len());
    let (code, _, why) = flash(&["format", &format!("{name},capacity=4MiB")]);
    assert!(code == 2 && why.contains("--overwrite"), "{why}");
    {
        let node = start(&format!("flash:{name}"));
        let (_controller, mut queue) = connect(&node);
        for page in 0..64 {
            assert!(write(&mut queue, page, &content(page * 3 + 1)));
        }
        assert!(flush(&mut queue));
        // What is written after a flush says that what was before is durable.
        assert!(write(&mut queue, 100, &content(1)));
        assert!(flush(&mut queue));
        let (code, _, why) = flash(&["status", name]);
        assert!(code == 2 && why.contains("another program"), "{why}");
    }
    let (code, found) = json(&["status", name]);
    assert_eq!((code, &found["mapped_pages"], &found["check"]), (0, &65.into(), &Value::Null));
    // Damage: a page, and a slot of the superblock.
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.chunks(PAGE as usize).position(|page| page == content(31)).unwrap() as u64 * PAGE;
    file(&path).write_all_at(&[0xEE], at + 77).unwrap();
    file(&path).write_all_at(&[0; 64], 0).unwrap();
    let (code, found) = json(&["check", name]);
    assert_eq!((code, &found["check"]["damaged_pages"]), (1, &1.into()));
    assert_eq!(found["check"]["damaged"][0]["offset_bytes"], 10 * PAGE);
    assert_eq!(found["damaged_superblocks"], Value::from(vec![true, false, false, false]));
    let (code, found) = json(&["check", name, "--repair"]);
    assert_eq!((code, &found["check"]["repaired_superblocks"]), (1, &1.into()));
    assert_eq!(found["check"]["result"], "damaged", "the page is");
    let (_, found) = json(&["status", name]);
    assert_eq!(found["damaged_superblocks"], Value::from(vec![false; 4]));
    // The host has the data: a write heals the page.
    {
        let node = start(&format!("flash:{name}"));
        let (_controller, mut queue) = connect(&node);
        assert!(write(&mut queue, 10, &content(5)));
        assert!(flush(&mut queue));
        assert_eq!(read(&mut queue, 10), content(5));
    }
    let (code, text, _) = flash(&["check", name]);
    assert!(code == 0 && text.contains(" 0 damaged"), "{text}");
    // A drive line that asks for something else is refused by name.
    let refused = pumice()
        .args(["node", "--listen", "127.0.0.1:0", "--drive", &format!("flash:{name},capacity=8MiB")])
        .output()
        .unwrap();
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && why.contains("capacity"), "{why}");
}

/// A program that runs with a small file system of its own at `folder`; `None` where the system
/// does not allow that.
fn in_small_room(folder: &Path) -> Option<Vec<String>> {
    let mount = format!("mount -t tmpfs -o size=2m none '{}' && exec \"$@\"", folder.display());
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0);
    let rights: &[&str] = if is_root { &[] } else { &["--user", "--map-root-user"] };
    let words = [&["unshare", "--mount"], rights, &["sh", "-c", &mount, "sh"]].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let may = std::process::Command::new(&words[0]).args(&words[1..]).arg("true").output();
    may.is_ok_and(|done| done.status.success()).then_some(words)
}

#[test]
fn a_format_that_runs_out_of_room_leaves_nothing_and_prints_no_document() {
    let folder = tempfile::tempdir().unwrap();
    let Some(room) = in_small_room(folder.path()) else {
        eprintln!("SKIPPED: no file system of its own for a process here");
        return;
    };
    // A name that is free, then an empty file that is there: each has to be as before.
    let script = r#"
        "$0" flash format "$1/a,capacity=64MiB" --json; echo "code $?"; ls -s "$1"
        : > "$1/b"; "$0" flash format "$1/b,capacity=64MiB" --json; echo "code $?"; wc -c < "$1/b"
        "$0" flash format "$1/b,capacity=64MiB"; echo "code $?"
    "#;
    let mut command = std::process::Command::new(&room[0]);
    command.args(&room[1..]).args(["sh", "-c", script, env!("CARGO_BIN_EXE_pumice")]).arg(folder.path());
    let done = command.output().unwrap();
    let (out, error) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..4], ["code 2", "total 0", "code 2", "0"], "{out}{error}");
    assert!(out.ends_with("code 2\n") && !out.contains("made"), "{out}");
    assert_eq!(error.matches("No space left").count(), 3, "{error}");
}

#[test]
fn a_check_that_repairs_says_what_it_found_and_only_the_next_one_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash");
    let name = path.to_str().unwrap();
    assert_eq!(flash(&["format", &format!("{name},capacity=4MiB")]).0, 0);
    let (code, found) = json(&["check", name, "--repair"]);
    assert_eq!((code, &found["check"]["result"]), (0, &"sound".into()), "nothing to repair");
    file(&path).write_all_at(&[0; 64], 4096).unwrap();
    let (code, found) = json(&["check", name, "--repair"]);
    assert_eq!((code, &found["check"]["result"]), (1, &"repaired".into()), "{found}");
    assert_eq!(found["check"]["repaired_superblocks"], 1);
    assert_eq!(found["damaged_superblocks"], Value::from(vec![false, true, false, false]));
    let (code, found) = json(&["check", name, "--repair"]);
    assert_eq!((code, &found["check"]["result"]), (0, &"sound".into()));
    assert_eq!(found["damaged_superblocks"], Value::from(vec![false; 4]));
    // The same in words.
    file(&path).write_all_at(&[0; 64], 0).unwrap();
    let (code, text, _) = flash(&["check", name, "--repair"]);
    assert!(code == 1 && text.contains("the first at the start was damaged"), "{text}");
    assert!(!text.contains("is damaged"), "{text}");
    assert_eq!(flash(&["check", name]).0, 0);
    // Accepting lost tags changes nothing where none is lost.
    let (code, found) = json(&["check", name, "--repair", "--accept-lost-tags"]);
    assert_eq!((code, &found["check"]["accepted_lost_tags"]), (0, &false.into()));
}

/// Places of the tags of a new drive of 4 MiB: of the page whose data begin at `data`.
fn tag_of(path: &Path, data: u64) -> u64 {
    let (_, found) = json(&["status", path.to_str().unwrap()]);
    let per_block = found["pages_per_block"].as_u64().unwrap();
    let block = (data - 65_536) / (per_block * (PAGE + 128));
    let begins = 65_536 + block * per_block * (PAGE + 128);
    begins + per_block * PAGE + (data - begins) / PAGE * 128
}

#[test]
fn lost_tags_that_are_accepted_are_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash");
    let name = path.to_str().unwrap();
    {
        let node = start(&format!("flash:{name},capacity=4MiB"));
        let (_controller, mut queue) = connect(&node);
        for version in 1..4 {
            for page in 0..8 {
                assert!(write(&mut queue, page, &content(version * 100 + page)));
            }
            assert!(flush(&mut queue));
        }
        assert!(write(&mut queue, 20, &content(1)));
        assert!(flush(&mut queue));
    }
    let bytes = std::fs::read(&path).unwrap();
    let data = bytes.chunks(PAGE as usize).position(|page| page == content(304)).unwrap() as u64 * PAGE;
    file(&path).write_all_at(&[0xEE], tag_of(&path, data) + 9).unwrap();
    // They are listed, and what gives them up is named.
    for words in [&["check", name][..], &["check", name, "--repair"]] {
        let (code, out, why) = flash(words);
        assert!(code == 1 && why.is_empty(), "{out}{why}");
        assert!(out.contains("was durable") && out.contains("--accept-lost-tags"), "{out}");
        let (code, found) = json(words);
        assert_eq!((code, &found["check"]["result"]), (1, &"damaged".into()), "{found}");
        assert_eq!(found["check"]["lost_pages"], 1);
        assert!(found["check"]["lost"][0]["flash_page"].is_u64(), "{found}");
        assert_eq!(found["check"]["accepted_lost_tags"], false);
    }
    // Nothing was given up: the drive cannot be served, and the message says what to do.
    let (code, _, why) = flash(&["status", name]);
    assert!(code == 2 && why.contains("pumice flash check"), "{why}");
    let (code, found) = json(&["check", name, "--repair", "--accept-lost-tags"]);
    assert_eq!((code, &found["check"]["result"]), (1, &"repaired".into()), "{found}");
    assert_eq!(found["check"]["accepted_lost_tags"], true);
    assert_eq!(json(&["check", name]).0, 0);
}

#[test]
fn a_dry_run_of_a_format_refuses_what_the_format_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("full"), "a letter").unwrap();
    std::fs::write(path("empty"), "").unwrap();
    assert_eq!(flash(&["format", &format!("{},capacity=4MiB", path("held"))]).0, 0);
    let _node = start(&format!("flash:{}", path("held")));
    let cases = [
        (path("full"), "4MiB", &[][..], "--overwrite"),
        (path("held"), "4MiB", &["--overwrite"], "another program"),
        (path("none/drive"), "4MiB", &[], "No such file"),
        (path(""), "4MiB", &["--overwrite"], "neither a block device nor a file"),
    ];
    for (name, capacity, more, word) in cases {
        let drive = format!("{name},capacity={capacity}");
        let words = [&["format", &drive][..], more].concat();
        let format = flash(&words);
        assert!(format.0 == 2 && format.2.contains(word), "{format:?}");
        let dry = flash(&[&words[..], &["--dry-run"]].concat());
        assert_eq!((dry.0, &dry.2), (2, &format.2), "{words:?}");
    }
    // More than the file system has.
    let drive = format!("{},capacity=7TiB", path("new"));
    let (code, _, why) = flash(&["format", &drive, "--dry-run"]);
    assert!(code == 2 && why.contains("free bytes"), "{why}");
    // What would succeed does, and nothing is written.
    for name in [path("empty"), path("new")] {
        let (code, out, why) = flash(&["format", &format!("{name},capacity=4MiB"), "--dry-run"]);
        assert!(code == 0 && out.contains("nothing was written"), "{out}{why}");
    }
    assert_eq!(std::fs::metadata(path("empty")).unwrap().len(), 0);
    assert_eq!(std::fs::read(path("full")).unwrap(), b"a letter");
    assert!(!Path::new(&path("new")).exists());
}
