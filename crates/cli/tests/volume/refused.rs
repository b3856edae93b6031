//! Refused requests keep nothing: no descriptor, no thread, no lock, no file.

use crate::world::{DRIVE, MIB, Served, World, empty, pattern, pumice};
use pumice_nvme::host::Options;
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::Sqe;
use pumice_nvme::spec::connect::{DYNAMIC, Data};
use pumice_offload::{DriveId, DriveMemory, Drives, Grant, MemoryAddress, Presence, Transfer};
use pumice_remote::initiator::{DigestPolicy, Queue};
use pumice_remote::{Dial, RemoteNode};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Resources of a process: its descriptors by what they are of, its threads, its locks.
#[derive(Debug, PartialEq, Eq)]
struct Has {
    descriptors: BTreeMap<String, usize>,
    threads: usize,
    locks: usize,
}

impl Has {
    fn of(pid: u32) -> Self {
        let mut descriptors = BTreeMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
            // It may be closed just now.
            let Ok(of) = fs::read_link(entry.path()) else { continue };
            let of = of.to_str().unwrap().split(":[").next().unwrap().to_owned();
            *descriptors.entry(of).or_default() += 1;
        }
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let is_its = |line: &&str| line.split_whitespace().any(|word| word == pid.to_string());
        Self { descriptors, threads, locks: locks.lines().filter(is_its).count() }
    }
}

/// Resources of a process once they do not change any more for a while.
fn settled(pid: u32) -> Has {
    let (mut has, mut since) = (Has::of(pid), Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(50));
        let now = Has::of(pid);
        if now != has {
            (has, since) = (now, Instant::now());
        }
    }
    has
}

/// A process has again what it had; threads that have ended may be seen for a moment.
fn has_again(pid: u32, before: &Has, after: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    while Has::of(pid) != *before {
        assert!(Instant::now() < until, "{after}: before {before:?}, then {:?}", Has::of(pid));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A node process; killed when it goes.
struct Node(Child, SocketAddr);

impl Node {
    fn start(folder: &Path, drives: &[&str]) -> Self {
        let mut command = pumice(&["node", "--listen", "127.0.0.1:0", "--state-dir"]);
        command.arg(folder.join("node"));
        for drive in drives {
            command.args(["--drive", drive]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_whitespace().nth(2).expect("it does not begin").parse().unwrap();
        Self(child, address)
    }

    fn connect(&self, host: u8) -> Result<RemoteNode, pumice_offload::NodeError> {
        RemoteNode::connect(Dial {
            address: self.1,
            nqn: None,
            host: format!("nqn.2026-11.example:host{host}").parse().unwrap(),
            hostid: [host; 16],
            digests: DigestPolicy::Off,
            deadline: Duration::from_secs(20),
            silent: pumice_remote::log_silence,
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_served_volume_keeps_nothing_of_what_it_refuses() {
    let (world, other) = (World::made(4, "5"), World::made(4, "5"));
    let folder = world.folder.path();
    let node = Node::start(folder, &["mem:16MiB"]);
    let full = format!("nvme://{}/1", node.1);
    node.connect(1).unwrap().write(DriveId(1), 0, &pattern(MIB, 3)).unwrap();
    let data = empty(folder, "data", DRIVE);
    fs::write(&data, pattern(DRIVE, 5)).unwrap();
    let small = empty(folder, "small", 2 * MIB);
    let served = Served::start(&world, &[], &world.drives);
    let run_dir = world.sockets();
    let refused = |args: &[&str]| {
        let (code, text) = world.run(&[args, &["--run-dir", run_dir.to_str().unwrap()]].concat(), &[]);
        assert_eq!(code, 2, "{args:?}: {text}");
    };
    world.ask(&["fail", "vault", "3"]);
    let pid = served.child.id();
    // Its identity as a host of nodes is made when it is first needed, and stays.
    refused(&["add", "vault", &full]);
    let before = settled(pid);
    let name = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let (data, small, theirs) = (name(&data), name(&small), name(&other.drives[0]));
    let mine = name(&world.drives[0]);
    let devices =
        [&*data, &*small, &*theirs, &*mine, &*full, "/nonexistent", "nvme://127.0.0.1:1/1", "/dev/null"];
    for device in devices {
        refused(&["add", "vault", device]);
        has_again(pid, &before, &format!("add {device}"));
        refused(&["replace", "vault", "0", device]);
        has_again(pid, &before, &format!("replace {device}"));
    }
    for args in [["fail", "vault", "0"], ["fail", "vault", "9"], ["fail", "vault", "nobody"]] {
        refused(&args);
        has_again(pid, &before, &args.join(" "));
    }
    let socket = fs::read_dir(world.sockets()).unwrap().next().unwrap().unwrap().path();
    for line in ["{\"ask\":\"unknown\"}\n", "no json\n", "{\"ask\":\"scrub\",\"order\":{\"a\":1}}\n", "{"] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        drop(stream);
        has_again(pid, &before, line);
    }
    // Others get what was refused.
    assert!(node.connect(2).unwrap().hold().is_ok(), "the node is free");
    drop(fs::File::open(&data).unwrap());
    assert_eq!(served.terminate(), Some(0));
}

/// A connection to a node that asks for what it has not got.
fn asks(node: &Node, change: impl FnOnce(&mut Options)) {
    let mut options = Options {
        qid: 0,
        depth: 16,
        digests: Digests::default(),
        flow_control: true,
        kato_ms: 0,
        data: Data {
            hostid: [9; 16],
            cntlid: DYNAMIC,
            subnqn: "nqn.2014-08.org.nvmexpress.discovery".to_owned(),
            hostnqn: "nqn.2026-11.example:host9".to_owned(),
        },
        capsule_data: 0,
    };
    change(&mut options);
    Queue::connect(node.1, options.clone(), Duration::from_secs(20)).expect_err(&format!("{options:?}"));
}

#[test]
fn a_node_keeps_nothing_of_what_it_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let tagged = empty(folder.path(), "tagged", 16 * MIB);
    let tags = folder.path().join("tags");
    let node = Node::start(
        folder.path(),
        &["mem:16MiB", &format!("{},pi=16,tags={}", tagged.display(), tags.display())],
    );
    let pid = node.0.id();
    let nqn = node.connect(1).unwrap().identity().0;
    let before = settled(pid);
    for round in 0..3 {
        asks(&node, |options| options.data.subnqn = "nqn.2026-11.example:nobody".to_owned());
        asks(&node, |options| options.data.subnqn = "no name".to_owned());
        asks(&node, |options| options.data.hostnqn = "no name".to_owned());
        asks(&node, |options| (options.data.subnqn, options.data.hostid) = (nqn.clone(), [0; 16]));
        asks(&node, |options| options.data.cntlid = 7);
        asks(&node, |options| (options.qid, options.data.cntlid) = (1, 0x1234));
        asks(&node, |options| {
            (options.qid, options.data.cntlid, options.data.subnqn) = (1, 1, nqn.clone());
        });
        has_again(pid, &before, &format!("connects, round {round}"));
        let host = node.connect(1).unwrap();
        let at = MemoryAddress { drive: DriveId(1), offset: 0 };
        let peer = "192.0.2.1:4420".to_owned();
        host.transfer(&Transfer { from: at, len: 512, peer, to: at, grant: Grant([1; 16]) }).unwrap_err();
        host.grant(at, 1 << 40).unwrap_err();
        host.hold().unwrap();
        assert!(node.connect(2).is_err(), "it is held");
        host.memory_write(MemoryAddress { drive: DriveId(1), offset: 1 << 40 }, &[0; 512]).unwrap_err();
        host.operations(64, std::sync::Arc::new(|_| {})).unwrap();
        drop(host);
        has_again(pid, &before, &format!("commands, round {round}"));
    }
    raw(&node, &nqn);
    has_again(pid, &before, "vendor commands");
}

/// Every command of the vendor's, with data that mean nothing.
fn raw(node: &Node, nqn: &str) {
    let options = pumice_remote::initiator::ConnectOptions {
        subsystem: nqn.parse().unwrap(),
        host: "nqn.2026-11.example:host3".parse().unwrap(),
        hostid: [3; 16],
        digests: Digests::default(),
        flow_control: true,
        deadline: Duration::from_secs(20),
    };
    let controller = pumice_remote::initiator::Controller::connect(node.1, options).unwrap();
    let mut queue = controller.queue(1, 16).unwrap();
    for opcode in 0x80..=0xFF {
        for nsid in [1, 2, 9] {
            let mut sqe = Sqe::new(opcode, nsid);
            (10..16).for_each(|dword| sqe.set_dword(dword, u32::MAX));
            // Commands that come without data, or bring some, have bits of their own.
            let send: &[u8] = if opcode & 3 == 1 { &[0xA5; 512] } else { &[] };
            let mut receive = [0; 512];
            let receive: &mut [u8] = if opcode & 3 == 2 { &mut receive } else { &mut [] };
            let done = queue.execute(sqe, send, receive).unwrap();
            assert!(!done.status.is_success(), "{opcode:#x} of {nsid}");
        }
    }
}

/// Names and contents of the files of a folder, all levels.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            out.extend(files(&entry.path()));
        } else {
            out.insert(entry.path(), fs::read(entry.path()).unwrap_or_default());
        }
    }
    out
}

#[test]
fn a_command_that_is_refused_leaves_no_file() {
    let world = World::made(4, "5");
    let folder = world.folder.path();
    let drive = empty(folder, "plain", 16 * MIB);
    let path = |name: &str| folder.join(name).display().to_string();
    let (drive, tags, state) = (drive.display().to_string(), path("tags"), path("state"));
    let tagged = format!("{drive},pi=16,tags={tags}");
    let flash = format!("flash:{},capacity=16MiB", path("flash"));
    let run = world.sockets().display().to_string();
    let members: Vec<&str> = world.drives.iter().map(|drive| drive.to_str().unwrap()).collect();
    let (zero, one) = (members[0], members[1]);
    let node = ["node", "--listen", "127.0.0.1:0", "--state-dir", &*state, "--drive"];
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = busy.local_addr().unwrap().to_string();
    let refusals: Vec<Vec<&str>> = vec![
        [&node[..], &[&*tagged, "--drive", "/nonexistent"]].concat(),
        [&node[..], &[&*flash, "--drive", "/nonexistent"]].concat(),
        [&node[..], &[&*drive, "--drive", &*drive]].concat(),
        vec!["node", "--listen", &*taken, "--state-dir", &*state, "--drive", &*tagged],
        vec!["protect", "/nonexistent,pi=16,tags=/nonexistent/tags"],
        vec!["volume", "serve", "--run-dir", &*run, "--listen", &*taken, zero, one, members[2], members[3]],
        vec!["volume", "serve", "--run-dir", &*run, "--listen", "127.0.0.1:0", zero, one],
        vec!["volume", "create", "--level", "5", zero, one, &*drive],
        vec!["volume", "assemble", zero, one],
        vec!["scrub", "--state-dir", &*state, zero, &*drive],
        vec!["scrub", "--state-dir", &*state, "--repair", zero, one],
    ];
    for args in refusals {
        let before = files(folder);
        let output = pumice(&args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        let after = files(folder);
        let new: Vec<_> = after.keys().filter(|path| !before.contains_key(*path)).collect();
        // The machine's instance is made by the first command that needs it, whatever comes of it.
        let new: Vec<_> = new.into_iter().filter(|path| !path.starts_with(folder.join("state"))).collect();
        assert!(new.is_empty(), "{args:?} leaves {new:?}: {said}");
        let changed = before.iter().find(|(path, bytes)| after.get(*path) != Some(*bytes));
        assert!(changed.is_none(), "{args:?} changes {:?}: {said}", changed.map(|(path, _)| path));
    }
}
