//! Members of nodes that come and go take their roles back by themselves, where a rule allows it.

use crate::world::{Random, served, spec, stop, wait_for};
use pumice_base::units::Role;
use pumice_blockdev::BlockDevice;
use pumice_executor::{Cause, ControlError, MemberDrive, OpenOptions, ServedVolume, create, open};
use pumice_node::serve::{Backend, Drive, Server};
use pumice_offload::{DataNode, DriveId};
use pumice_raid::layout::{Layout, Level};
use pumice_remote::initiator::DigestPolicy;
use pumice_remote::{Dial, RemoteNode};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const NODES: usize = 3;

/// Nodes with two drives each, in files, and a RAID-6 of them: one node may be away.
struct World {
    folder: tempfile::TempDir,
    servers: Vec<Option<Server>>,
    addresses: Vec<SocketAddr>,
    volume: ServedVolume,
    model: Vec<u8>,
    /// The drives over the first connections.
    drives: Vec<MemberDrive>,
}

fn path(folder: &Path, node: usize, drive: u32) -> PathBuf {
    folder.join(format!("drive{node}-{drive}"))
}

fn serve(folder: &Path, node: usize, listen: SocketAddr) -> Server {
    let name = format!("nqn.2026-11.example:node{node}");
    let drive =
        |id: u32| Drive::open(&Backend::Path(path(folder, node, id)), 512, &name, id as usize).unwrap();
    served(&name, vec![drive(1), drive(2)], listen)
}

/// A new connection to a node, which is held.
fn connect(address: SocketAddr) -> Arc<dyn DataNode> {
    let dial = Dial {
        address,
        keys: None,
        nqn: None,
        host: "nqn.2026-11.example:host".parse().unwrap(),
        hostid: [7; 16],
        digests: DigestPolicy::Off,
        deadline: Duration::from_secs(20),
        silent: pumice_remote::log_silence,
    };
    let mut node = None;
    // What the connection before had sent has to end first.
    wait_for("the connection", || {
        node = RemoteNode::connect(dial.clone()).ok();
        node.is_some()
    });
    let node: Arc<dyn DataNode> = Arc::new(node.unwrap());
    wait_for("the hold", || node.presence().unwrap().hold().is_ok());
    node
}

fn drives_of(node: usize, connection: &Arc<dyn DataNode>) -> [MemberDrive; 2] {
    let name = |id: u32| format!("node{node}/{id}");
    [1, 2].map(|id| MemberDrive::new(name(id), Arc::clone(connection), DriveId(id)).unwrap())
}

impl World {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for node in 0..NODES {
            for drive in 1..=2 {
                File::create(path(folder.path(), node, drive)).unwrap().set_len(8 << 20).unwrap();
            }
        }
        let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let servers: Vec<_> = (0..NODES).map(|node| Some(serve(folder.path(), node, free))).collect();
        let addresses: Vec<_> = servers.iter().flatten().map(Server::address).collect();
        let drives = addresses.iter().enumerate().flat_map(|(node, at)| drives_of(node, &connect(*at)));
        let drives: Vec<MemberDrive> = drives.collect();
        create(&drives, &spec(Level::Raid6, Some(Layout::LeftSymmetric), 65536), |_, _| {}).unwrap();
        let options = OpenOptions { tick: Duration::from_millis(50), ..OpenOptions::default() };
        let volume = open(&drives, &options).unwrap();
        let mut model = vec![0; volume.facts().bytes as usize];
        Random(seed).fill(&mut model);
        volume.device().write_at(0, &model).unwrap();
        volume.device().flush().unwrap();
        Self { folder, servers, addresses, volume, model, drives }
    }

    fn write(&mut self, random: &mut Random) {
        let at = random.next(self.model.len() as u64 / 512) as usize * 512;
        let len = (512 * (1 + random.next(200) as usize)).min(self.model.len() - at);
        random.fill(&mut self.model[at..at + len]);
        self.volume.device().write_at(at as u64, &self.model[at..at + len]).unwrap();
    }

    fn verify(&self, what: &str) {
        let mut read = vec![0; self.model.len()];
        self.volume.device().read_at(0, &mut read).unwrap();
        assert!(read == self.model, "{what}");
    }

    fn lose(&mut self, node: usize) {
        drop(self.servers[node].take().map(Server::stop));
    }

    fn start(&mut self, node: usize) {
        self.servers[node] = Some(serve(self.folder.path(), node, self.addresses[node]));
    }

    /// The members that are gone and that no drive has replaced, with the cause.
    fn gone(&self) -> BTreeMap<Role, Cause> {
        let status = self.volume.status().unwrap();
        let gone = status.absences.iter().filter(|absence| !absence.joined);
        gone.map(|absence| (absence.role, absence.cause)).collect()
    }

    fn is_gone(&self, node: usize) -> bool {
        let gone = self.gone();
        (0..2).all(|drive| gone.contains_key(&Role((2 * node + drive) as u16)))
    }

    /// All members of a node take their roles back.
    fn take_back(&self, node: usize) -> [Result<Role, ControlError>; 2] {
        let drives = drives_of(node, &connect(self.addresses[node]));
        let role = |drive: usize| Role((2 * node + drive) as u16);
        let [first, second] = drives;
        [(0, first), (1, second)].map(|(i, drive)| self.volume.control().take_back(drive, role(i)))
    }

    fn is_whole(&self) -> bool {
        let status = self.volume.status().unwrap();
        status.missing.is_empty() && status.lost.is_empty()
    }
}

/// Members that came back hold all that was written while nodes came and went: in the end each node
/// is away once, and all is read without it.
#[test]
fn nodes_come_and_go_and_nothing_is_lost() {
    for seed in 1..=3 {
        let (mut world, mut random) = (World::new(seed), Random(seed));
        for round in 0..4 {
            let node = random.next(NODES as u64) as usize;
            world.write(&mut random);
            if random.chance(50) {
                world.volume.device().flush().unwrap();
            }
            world.lose(node);
            for _ in 0..1 + random.next(12) {
                world.write(&mut random);
            }
            // Which of the drives is touched, the writes say; a flush asks them all.
            world.volume.device().flush().unwrap();
            wait_for("the loss", || world.is_gone(node));
            assert!(world.gone().values().all(|cause| *cause == Cause::Unreachable), "{:?}", world.gone());
            world.start(node);
            let roles = world.take_back(node).map(|done| done.unwrap().get());
            assert_eq!(roles, [2 * node as u16, 2 * node as u16 + 1]);
            // Also while they are being rebuilt.
            world.write(&mut random);
            wait_for("the rebuild", || world.is_whole());
            let status = world.volume.status().unwrap();
            assert!(status.absences.is_empty() && status.errors.is_empty(), "{status:?}");
            world.verify(&format!("seed {seed}, round {round}"));
        }
        for node in 0..NODES {
            world.lose(node);
            world.verify(&format!("seed {seed}, without node {node}"));
            wait_for("the loss", || {
                world.volume.device().flush().unwrap();
                world.is_gone(node)
            });
            world.start(node);
            world.take_back(node).into_iter().for_each(|done| assert!(done.is_ok(), "{done:?}"));
            wait_for("the rebuild", || world.is_whole());
        }
        world.verify("at the end");
        stop(world.volume);
    }
}

/// A member that was failed by order stays away, and so does a drive that is another one now.
#[test]
fn what_must_stay_away_is_refused_and_nothing_is_written() {
    let mut world = World::new(7);
    world.volume.control().fail(Role(0)).unwrap();
    assert_eq!(world.gone(), BTreeMap::from([(Role(0), Cause::ByHand)]));
    world.volume.device().write_at(0, &world.model[..4096]).unwrap();
    // Their node has been there all along, and its connection holds it.
    let drive = |node: usize, id: usize| world.drives[2 * node + id].clone();
    let refused = |done: Result<Role, ControlError>, words: &str| match done {
        Err(ControlError::NotBack { why, .. }) => assert!(why.contains(words), "{why}"),
        other => panic!("{words}: {other:?}"),
    };
    refused(world.volume.control().take_back(drive(0, 0), Role(0)), "by order");
    // It is a member, and none that is gone.
    let done = world.volume.control().take_back(drive(1, 0), Role(2));
    assert!(matches!(done, Err(ControlError::IsMember { .. })), "{done:?}");
    // An order brings it back.
    world.volume.control().add(drive(0, 0), false).unwrap();
    wait_for("the rebuild", || world.is_whole());
    // The drives of a node are exchanged while it is away.
    world.lose(2);
    // Whole stripes: no drive is left out.
    world.volume.device().write_at(0, &world.model[..1 << 20]).unwrap();
    wait_for("the loss", || world.is_gone(2));
    let [one, two] = [1, 2].map(|id| path(world.folder.path(), 2, id));
    let between = world.folder.path().join("between");
    fs::rename(&one, &between).unwrap();
    fs::rename(&two, &one).unwrap();
    fs::rename(&between, &two).unwrap();
    world.start(2);
    let before = [&one, &two].map(|path| fs::read(path).unwrap());
    for done in world.take_back(2) {
        refused(done, "another drive");
    }
    // One of them was emptied.
    world.lose(2);
    fs::write(&one, vec![0; 8 << 20]).unwrap();
    world.start(2);
    let [first, second] = world.take_back(2);
    refused(first, "no superblock of this array");
    refused(second, "another drive");
    assert!(fs::read(&one).unwrap().iter().all(|byte| *byte == 0), "it was not written");
    assert!(fs::read(&two).unwrap() == before[1], "nor was this one");
    world.verify("without node 2");
    stop(world.volume);
}
