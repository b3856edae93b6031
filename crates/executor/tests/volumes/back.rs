//! Volumes that are held until their nodes are back.

use crate::proxy::{Proxy, Then};
use crate::world::{Random, served, spec, stop, wait_for};
use pumice_base::units::Role;
use pumice_blockdev::{Asker, BlockDevice, FileDevice, OpenMode, Options};
use pumice_executor::{ControlError, MemberDrive, OpenOptions, ServedVolume, create, open};
use pumice_node::serve::{Backend, Drive, Server};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{DataNode, DriveId};
use pumice_raid::Metadata;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::v1::V1;
use pumice_remote::initiator::DigestPolicy;
use pumice_remote::{Dial, RemoteNode};
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CHUNK: u64 = 65536;
const STRIPE: usize = 5 * CHUNK as usize;

/// Three nodes with two drives each, in files; hosts reach the third one over a link that can be
/// cut.
struct Nodes {
    folder: tempfile::TempDir,
    servers: Vec<Option<Server>>,
    link: Proxy,
    is_cut: Arc<AtomicBool>,
}

fn serve(folder: &Path, number: usize, listen: SocketAddr) -> Server {
    let name = format!("nqn.2026-11.example:node{number}");
    let drive = |i: usize| {
        let path = folder.join(format!("drive{number}-{i}"));
        Drive::open(&Backend::Path(path), 512, &name, i).unwrap()
    };
    served(&name, vec![drive(1), drive(2)], listen)
}

impl Nodes {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for node in 0..3 {
            for drive in 1..=2 {
                let file = File::create(folder.path().join(format!("drive{node}-{drive}"))).unwrap();
                file.set_len(8 << 20).unwrap();
            }
        }
        let free = "127.0.0.1:0".parse().unwrap();
        let servers: Vec<_> = (0..3).map(|node| Some(serve(folder.path(), node, free))).collect();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        let address = servers[2].as_ref().unwrap().address();
        let link = Proxy::start(address, move |_| match cut.load(Ordering::SeqCst) {
            true => Then::Cut,
            false => Then::Pass,
        });
        Self { folder, servers, link, is_cut }
    }

    fn members(&self) -> Vec<MemberDrive> {
        let addresses = self.servers.iter().flatten().map(Server::address).take(2);
        let nodes = addresses.chain([self.link.address]).enumerate();
        let drives = nodes.flat_map(|(i, address)| {
            let dial = Dial {
                address,
                nqn: None,
                host: "nqn.2026-11.example:host".parse().unwrap(),
                hostid: [7; 16],
                digests: DigestPolicy::Off,
                deadline: Duration::from_secs(20),
                silent: pumice_remote::log_silence,
            };
            let node: Arc<dyn DataNode> = Arc::new(RemoteNode::connect(dial).unwrap());
            // Commands of the connection before may be under way yet.
            wait_for("the hold", || node.presence().unwrap().hold().is_ok());
            [1, 2]
                .map(|id| MemberDrive::new(format!("node{i}/{id}"), Arc::clone(&node), DriveId(id)).unwrap())
        });
        drives.collect()
    }

    /// The third node's process ends, and another one begins.
    fn restart(&mut self) {
        let server = self.servers[2].take().unwrap();
        let address = server.address();
        server.stop().unwrap();
        self.servers[2] = Some(serve(self.folder.path(), 2, address));
    }
}

/// RAID-5 of six drives: without a node nothing can be written.
fn volume(nodes: &Nodes) -> ServedVolume {
    // It does not become idle, and flush of its own.
    let tick = Duration::from_secs(60);
    volume_with(nodes, &OpenOptions { tick, hold_timeout: 60 * tick, ..OpenOptions::default() })
}

fn volume_with(nodes: &Nodes, options: &OpenOptions) -> ServedVolume {
    let members = nodes.members();
    create(&members, &spec(Level::Raid5, Some(Layout::LeftSymmetric), CHUNK), |_, _| {}).unwrap();
    open(&members, options).unwrap()
}

fn is_held(volume: &ServedVolume) -> bool {
    volume.status().unwrap().held
}

fn content(device: &dyn BlockDevice) -> Vec<u8> {
    let mut read = vec![0; device.size_bytes() as usize];
    device.read_at(0, &mut read).unwrap();
    read
}

/// A connection is cut while requests are under way. No request fails.
#[test]
fn requests_go_on_when_a_lost_connection_is_back() {
    let nodes = Nodes::new();
    let volume = volume(&nodes);
    let device = volume.device();
    let mut model = vec![0; device.size_bytes() as usize];
    Random(1).fill(&mut model);
    device.write_at(0, &model).unwrap();
    // Each thread has its own fifth of the volume.
    let (part, ended) = (model.len() / 5 / 4096 * 4096, Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (0..5)
        .map(|n| {
            let (device, ended) = (volume.device(), Arc::clone(&ended));
            let mut own = model[n * part..(n + 1) * part].to_vec();
            std::thread::spawn(move || {
                let mut random = Random(n as u64 + 10);
                while !ended.load(Ordering::SeqCst) {
                    let at = random.next(part as u64 / 512 - 16) as usize * 512;
                    let len = (1 + random.next(16) as usize) * 512;
                    random.fill(&mut own[at..at + len]);
                    device.write_at((n * part + at) as u64, &own[at..at + len]).unwrap();
                    if random.chance(10) {
                        device.flush().unwrap();
                    }
                    let mut read = vec![0; 8192];
                    device.read_at((n * part + at) as u64, &mut read).unwrap();
                    assert!(read == own[at..at + 8192]);
                }
                own
            })
        })
        .collect();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(200));
        nodes.is_cut.store(true, Ordering::SeqCst);
        wait_for("the hold", || is_held(&volume));
        let none = foreign(&nodes);
        assert!(matches!(volume.control().add(none, true), Err(ControlError::Held)));
        assert!(matches!(volume.control().fail(Role(0)), Err(ControlError::TooFew)));
        nodes.is_cut.store(false, Ordering::SeqCst);
        wait_for("the end of the hold", || !is_held(&volume));
        assert_eq!(volume.status().unwrap().missing, []);
    }
    ended.store(true, Ordering::SeqCst);
    for (n, writer) in writers.into_iter().enumerate() {
        model[n * part..(n + 1) * part].copy_from_slice(&writer.join().unwrap());
    }
    device.flush().unwrap();
    assert!(content(&*device) == model);
    stop(volume);
    let volume = open(&nodes.members(), &OpenOptions::default()).unwrap();
    assert!(content(&*volume.device()) == model);
    assert_eq!(volume.status().unwrap().facts.report.applied, 0, "it was left clean");
    stop(volume);
}

/// A drive that is of no node of the volume.
fn foreign(nodes: &Nodes) -> MemberDrive {
    let path = nodes.folder.path().join("other");
    File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let device = Arc::new(FileDevice::open(&path, OpenMode::ReadWrite, Options::default()).unwrap());
    let node = LocalNode::new("other", vec![device], &Peers::new(), NodeOptions::default());
    MemberDrive::new("other", Arc::new(node), DriveId(1)).unwrap()
}

/// A node is started again. Full stripes that were answered and not flushed may have been in the
/// caches of its drives: the next flush says so, once. What has been flushed or logged is there.
#[test]
fn a_flush_fails_once_if_a_node_may_have_lost_what_was_answered() {
    let mut nodes = Nodes::new();
    let volume = volume(&nodes);
    let device = volume.device();
    let mut model = vec![0; device.size_bytes() as usize];
    Random(2).fill(&mut model);
    device.write_at(0, &model).unwrap();
    device.flush().unwrap();
    for (stripes, waits) in [(false, false), (true, false), (false, true), (true, true)] {
        let len = if stripes { STRIPE } else { 4096 };
        Random(3 + len as u64).fill(&mut model[..len]);
        device.write_at(0, &model[..len]).unwrap();
        nodes.restart();
        if !waits {
            device.write_at(2 * STRIPE as u64, &[7; 4096]).unwrap();
            model[2 * STRIPE..2 * STRIPE + 4096].fill(7);
            wait_for("the end of the hold", || !is_held(&volume));
            assert!(content(&*device) == model, "its files lose nothing when a process ends");
        }
        // Or it is the one that finds the node gone.
        assert_eq!(device.flush().is_err(), stripes);
        device.flush().unwrap();
    }
    stop(volume);
}

/// Blocks that were written in part lie in the log, and the full stripe that was written over them
/// does not: when the connection is back, and the log is replayed, the stripe is there.
#[test]
fn what_was_answered_is_not_older_when_a_lost_connection_is_back() {
    let nodes = Nodes::new();
    let volume = volume(&nodes);
    let device = volume.device();
    device.flush().unwrap();
    for stripe in 0..4 {
        device.write_at((stripe * STRIPE) as u64 + 8192, &[1; 4096]).unwrap();
        device.write_at((stripe * STRIPE) as u64, &[2; STRIPE]).unwrap();
    }
    nodes.is_cut.store(true, Ordering::SeqCst);
    let other = (8 * STRIPE) as u64;
    let waiting = {
        let device = volume.device();
        std::thread::spawn(move || device.write_at(other, &[3; 4096]))
    };
    wait_for("the hold", || is_held(&volume));
    nodes.is_cut.store(false, Ordering::SeqCst);
    waiting.join().unwrap().unwrap();
    device.flush().unwrap();
    let mut read = vec![0; 4 * STRIPE];
    device.read_at(0, &mut read).unwrap();
    let older = read.chunks(4096).filter(|block| *block != [2; 4096]).count();
    assert_eq!(older, 0, "blocks are older than what was answered");
    stop(volume);
}

fn host(n: u8) -> Asker {
    Asker { host: [n; 32], gone: Arc::default() }
}

/// A node may have lost full stripes. What is flushed for a write of somebody does not use up that
/// this is to be told, and neither does the Flush of another host.
#[test]
fn each_host_is_told_of_lost_writes_by_its_own_flush() {
    let mut nodes = Nodes::new();
    let volume = volume(&nodes);
    let device = volume.device();
    let lossy = device.lossy().unwrap();
    let (a, b) = (host(1), host(2));
    [&a, &b].into_iter().for_each(|asker| lossy.writes(asker));
    device.write_at(0, &[1; STRIPE]).unwrap();
    nodes.restart();
    device.write_at(2 * STRIPE as u64, &[7; 4096]).unwrap();
    wait_for("the end of the hold", || !is_held(&volume));
    assert_eq!(lossy.losses(), 1);
    lossy.settle().unwrap();
    volume.control().flush().unwrap();
    for asker in [&a, &b, &Asker::own()] {
        assert!(lossy.flush_of(asker).unwrap_err().is_lost_writes());
        lossy.flush_of(asker).unwrap();
    }
    stop(volume);
}

/// A node is lost for good, and another one for a while.
#[test]
fn a_node_that_is_lost_for_good_is_not_waited_for() {
    let mut nodes = Nodes::new();
    let members = nodes.members();
    create(&members, &spec(Level::Raid6, Some(Layout::LeftSymmetric), CHUNK), |_, _| {}).unwrap();
    let volume = open(&members, &OpenOptions::default()).unwrap();
    let device = volume.device();
    drop(nodes.servers[0].take());
    device.write_at(0, &[1; STRIPE]).unwrap();
    device.flush().unwrap();
    assert_eq!(volume.status().unwrap().missing, [Role(0), Role(1)]);
    nodes.is_cut.store(true, Ordering::SeqCst);
    let writing = std::thread::spawn(move || device.write_at(0, &[2; STRIPE]));
    wait_for("the hold", || is_held(&volume));
    nodes.is_cut.store(false, Ordering::SeqCst);
    wait_for("the end of the hold", || !is_held(&volume));
    writing.join().unwrap().unwrap();
    let mut read = vec![0; STRIPE];
    volume.device().read_at(0, &mut read).unwrap();
    assert!(read == [2; STRIPE]);
    assert_eq!(volume.status().unwrap().missing, [Role(0), Role(1)]);
    stop(volume);
}

/// A write that failed because the hold lasted too long is not carried out when it ends.
#[test]
fn a_write_that_was_given_up_is_not_carried_out_later() {
    let nodes = Nodes::new();
    let (tick, hold_timeout) = (Duration::from_millis(50), Duration::from_millis(300));
    let volume = volume_with(&nodes, &OpenOptions { tick, hold_timeout, ..OpenOptions::default() });
    let device = volume.device();
    device.write_at(0, &[1; STRIPE]).unwrap();
    device.flush().unwrap();
    nodes.is_cut.store(true, Ordering::SeqCst);
    let error = device.write_at(0, &[2; STRIPE]).unwrap_err().to_string();
    assert!(error.contains("held"), "{error}");
    nodes.is_cut.store(false, Ordering::SeqCst);
    wait_for("the end of the hold", || !is_held(&volume));
    let mut read = vec![0; STRIPE];
    device.read_at(0, &mut read).unwrap();
    assert!(read.chunks(4096).all(|block| block == [1; 4096] || block == [2; 4096]));
    device.write_at(0, &[3; STRIPE]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    device.read_at(0, &mut read).unwrap();
    assert!(read == [3; STRIPE]);
    stop(volume);
}

/// A claimer of stripes relies on it that nobody writes there: the volume waits for it.
#[test]
fn a_held_volume_waits_for_claims() {
    let nodes = Nodes::new();
    let volume = volume(&nodes);
    let claim = volume.control().claim(0..1, false).unwrap().wait().unwrap().unwrap();
    let writing = {
        let device = volume.device();
        std::thread::spawn(move || device.write_at(0, &[5; 4096]))
    };
    nodes.is_cut.store(true, Ordering::SeqCst);
    let device = volume.device();
    let elsewhere = std::thread::spawn(move || device.write_at(2 * STRIPE as u64, &[6; 4096]));
    wait_for("the hold", || is_held(&volume));
    nodes.is_cut.store(false, Ordering::SeqCst);
    std::thread::sleep(Duration::from_secs(3));
    assert!(is_held(&volume));
    drop(claim);
    wait_for("the end of the hold", || !is_held(&volume));
    writing.join().unwrap().unwrap();
    elsewhere.join().unwrap().unwrap();
    stop(volume);
}

/// Nobody knows whether its members ever come back: a scrub must not wait for ever.
#[test]
fn claims_wait_for_a_held_volume_no_longer_than_requests() {
    let nodes = Nodes::new();
    let (tick, hold_timeout) = (Duration::from_secs(60), Duration::from_secs(1));
    let volume = volume_with(&nodes, &OpenOptions { tick, hold_timeout, ..OpenOptions::default() });
    nodes.is_cut.store(true, Ordering::SeqCst);
    volume.device().write_at(0, &[5; 4096]).unwrap_err();
    wait_for("the hold", || is_held(&volume));
    // One that waits, and one that comes later.
    for _ in 0..2 {
        let refused = volume.control().claim(0..1, false).unwrap().wait().err();
        assert_eq!(refused, Some(ControlError::Held));
    }
    assert_eq!(volume.control().flush().err(), Some(ControlError::Held));
    let status = volume.status().unwrap();
    let lost: Vec<Role> = status.lost.iter().copied().filter(|role| !status.missing.contains(role)).collect();
    assert_eq!(lost, [Role(4), Role(5)], "the drives of the node");
    // The claim that was refused is not had when they are back.
    nodes.is_cut.store(false, Ordering::SeqCst);
    wait_for("the end of the hold", || !is_held(&volume));
    volume.device().write_at(0, &[6; 4096]).unwrap();
    drop(volume.control().claim(0..1, true).unwrap().wait().unwrap().unwrap());
    stop(volume);
}

/// Somebody else has written the superblocks while the volume was held: it is not taken back.
#[test]
fn a_volume_that_others_ran_while_it_was_held_stays_held() {
    let mut nodes = Nodes::new();
    let volume = volume(&nodes);
    volume.device().write_at(0, &[1; 4096]).unwrap();
    let server = nodes.servers[2].take().unwrap();
    let address = server.address();
    server.stop().unwrap();
    let waiting = {
        let device = volume.device();
        std::thread::spawn(move || device.write_at(0, &[2; 4096]))
    };
    wait_for("the hold", || is_held(&volume));
    for drive in 1..=2 {
        let path = nodes.folder.path().join(format!("drive2-{drive}"));
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut sector = vec![0; 4096];
        file.read_exact_at(&mut sector, 4096).unwrap();
        let mut superblock = V1::decode(&sector, Metadata::V1_2).unwrap();
        superblock.events += 4;
        file.write_all_at(&superblock.encode(), 4096).unwrap();
    }
    nodes.servers[2] = Some(serve(nodes.folder.path(), 2, address));
    let says = |words: &str| volume.status().unwrap().errors.iter().any(|error| error.contains(words));
    wait_for("the refusal", || says("something else ran the array"));
    assert!(is_held(&volume));
    volume.abandon();
    assert!(waiting.join().unwrap().is_err());
}
