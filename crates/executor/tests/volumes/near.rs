//! Volumes over three nodes that make parity: what goes over the host's links, and what is stored.

use crate::world::{Random, spec, stop, wait_for};
use pumice_base::buffer::SharedBuffer;
use pumice_base::units::{Role, StripeIndex};
use pumice_blockdev::BlockDevice;
use pumice_executor::{
    Consistency, CreateSpec, Links, MemberDrive, Offload, OpenOptions, PlanSpec, ServedVolume, Way, Work,
    create, open, plan,
};
use pumice_node::NodeOptions;
use pumice_node::serve::{Backend, Drive, HostFaces, Peer, Server, Service};
use pumice_nvme::controller::Limits;
use pumice_offload::{DataNode, DriveId, PaceRequest, Presence};
use pumice_parity::gf;
use pumice_raid::layout::{Layout, Level};
use pumice_remote::initiator::DigestPolicy;
use pumice_remote::{Dial, RemoteNode};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

const NODES: usize = 3;
const CHUNK: u64 = 64 << 10;
const MIB: u64 = 1 << 20;

/// Nodes with drives in memory, each of which may send to the others.
struct Nodes {
    servers: Vec<Option<Server>>,
    addresses: Vec<SocketAddr>,
    /// Drives of each.
    drives: Vec<usize>,
    /// Hosts keep others away from them.
    held: bool,
}

impl Nodes {
    /// `members` drives of `bytes`, dealt out to the nodes.
    fn start(members: usize, bytes: u64, memory_bytes: u64) -> Self {
        let held: Vec<TcpListener> = (0..NODES).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses: Vec<SocketAddr> = held.iter().map(|listener| listener.local_addr().unwrap()).collect();
        drop(held);
        let drives: Vec<usize> = (0..NODES).map(|i| (members + NODES - 1 - i) / NODES).collect();
        let server = |i: usize| {
            let name = format!("nqn.2026-11.example:near{i}");
            let drive = |number| Drive::open(&Backend::Memory(bytes), 512, &name, number).unwrap();
            let peer =
                |address: &SocketAddr| Peer { address: *address, nqn: None, digests: DigestPolicy::Off };
            Server::start(Service {
                listen: vec![addresses[i]],
                metrics: None,
                nqn: name.parse().unwrap(),
                instance: None,
                drives: (1..=drives[i]).map(drive).collect(),
                faces: HostFaces::default(),
                limits: Limits::default(),
                cores: 1,
                busy_poll: Duration::ZERO,
                node: NodeOptions { memory_bytes, ..NodeOptions::default() },
                peers: addresses.iter().filter(|other| **other != addresses[i]).map(peer).collect(),
                pacing: PaceRequest::default(),
            })
        };
        let servers = (0..NODES).map(|i| Some(server(i).unwrap())).collect();
        Self { servers, addresses, drives, held: false }
    }

    /// The members, as a new association sees them. Neighbouring roles are on different nodes.
    fn members(&self) -> Vec<MemberDrive> {
        let connect = |address: &SocketAddr| -> Arc<dyn DataNode> {
            let dial = Dial {
                address: *address,
                nqn: None,
                host: "nqn.2026-11.example:host".parse().unwrap(),
                hostid: [7; 16],
                digests: DigestPolicy::Off,
                deadline: Duration::from_secs(20),
                silent: pumice_remote::log_silence,
            };
            let node = RemoteNode::connect(dial).unwrap();
            if self.held {
                node.hold().unwrap();
            }
            Arc::new(node)
        };
        let nodes: Vec<_> = self.addresses.iter().map(connect).collect();
        let drive = |role: usize| {
            let (node, number) = (role % NODES, role / NODES + 1);
            let id = DriveId(number as u32);
            MemberDrive::new(format!("node{node}/{number}"), Arc::clone(&nodes[node]), id).unwrap()
        };
        (0..self.drives.iter().sum()).map(drive).collect()
    }
}

fn options(consistency: Consistency) -> OpenOptions {
    // No tick comes while bytes are counted.
    let tick = Duration::from_secs(3600);
    OpenOptions { consistency, tick, offload: Offload::On, ..OpenOptions::default() }
}

const fn switch(offload: bool) -> Offload {
    if offload { Offload::On } else { Offload::Off }
}

fn made(nodes: &Nodes, level: Level) -> ServedVolume {
    let members = nodes.members();
    create(&members, &spec(level, Some(Layout::LeftSymmetric), CHUNK), |_, _| {}).unwrap();
    let volume = open(&members, &options(Consistency::Log)).unwrap();
    assert_eq!(volume.status().unwrap().near, Ok(()));
    volume
}

/// Stripes of which some equation does not hold.
fn torn(members: &[MemberDrive], volume: &ServedVolume) -> Vec<u64> {
    let geometry = volume.facts().geometry;
    let found = pumice_executor::find(&members[0]).unwrap();
    let start = found.superblock().data_offset_bytes();
    let read = |member: &MemberDrive| {
        let mut bytes = vec![0; (geometry.stripes() * CHUNK) as usize];
        pumice_raid::ReadAt::read_exact_at(member, start, &mut bytes).unwrap();
        bytes
    };
    let contents: Vec<Vec<u8>> = members.iter().map(read).collect();
    let holds = |stripe: &u64| {
        geometry.check_rows(StripeIndex(*stripe)).iter().all(|row| {
            let mut sum = vec![0; CHUNK as usize];
            for (content, factor) in contents.iter().zip(row) {
                gf::add_scaled(&mut sum, &content[(stripe * CHUNK) as usize..][..CHUNK as usize], *factor);
            }
            sum.iter().all(|byte| *byte == 0)
        })
    };
    (0..geometry.stripes()).filter(|stripe| !holds(stripe)).collect()
}

/// The bytes that went over the host's links while something was done: sent and received.
fn counted(volume: &ServedVolume, work: impl FnOnce()) -> (u64, u64) {
    let before = volume.status().unwrap();
    work();
    let after = volume.status().unwrap();
    assert_eq!(after.far_writes, before.far_writes, "all of them are near");
    (after.link_sent - before.link_sent, after.link_received - before.link_received)
}

#[test]
fn a_full_stripe_goes_over_the_hosts_links_once() {
    for (level, members) in [(Level::Raid5, 5), (Level::Raid6, 24)] {
        let nodes = Nodes::start(members, 4 * MIB, 4 * MIB);
        let volume = made(&nodes, level);
        let device = volume.device();
        let stripe = volume.facts().geometry.stripe_bytes();
        let mut model = vec![0; device.size_bytes() as usize];
        Random(members as u64).fill(&mut model);
        // The first makes the volume dirty, and sets the bit.
        device.write_at(0, &model[..stripe as usize]).unwrap();
        let user = device.size_bytes() - stripe;
        let (sent, received) =
            counted(&volume, || device.write_at(stripe, &model[stripe as usize..]).unwrap());
        println!("{level} {members}: {user} bytes, {sent} sent, {received} received");
        assert!(sent as f64 <= 1.01 * user as f64, "{sent} of {user}");
        assert!(received as f64 <= 0.01 * user as f64, "{received} of {user}");
        let mut read = vec![0; model.len()];
        device.read_at(0, &mut read).unwrap();
        assert!(read == model);
        assert_eq!(torn(&nodes.members(), &volume), [] as [u64; 0]);
        stop(volume);
    }
}

#[test]
fn a_small_write_goes_over_the_hosts_links_once() {
    // Of six members, read-modify-write and reconstruct-write move as many blocks.
    for members in [24, 6] {
        let nodes = Nodes::start(members, 4 * MIB, 4 * MIB);
        let volume = made(&nodes, Level::Raid6);
        let device = volume.device();
        let mut model = vec![0; device.size_bytes() as usize];
        Random(9).fill(&mut model);
        device.write_at(0, &model).unwrap();
        device.flush().unwrap();
        let (blocks, writes) = (device.size_bytes() / 4096, 100);
        let (sent, received) = counted(&volume, || {
            for i in 0..writes {
                let at = (i * 37 % blocks * 4096) as usize;
                model[at..at + 4096].fill(i as u8 + 1);
                device.write_at(at as u64, &model[at..at + 4096]).unwrap();
            }
        });
        let user = writes * 4096;
        println!("{members}: {user} bytes, {sent} sent, {received} received");
        assert!(sent as f64 <= 1.2 * user as f64, "{members}: {sent} of {user}");
        assert!(received as f64 <= 0.1 * user as f64, "{members}: {received} of {user}");
        let mut read = vec![0; model.len()];
        device.read_at(0, &mut read).unwrap();
        assert!(read == model);
        assert_eq!(torn(&nodes.members(), &volume), [] as [u64; 0]);
        stop(volume);
    }
}

#[test]
fn a_degraded_read_goes_over_the_hosts_links_once() {
    for (level, members) in [(Level::Raid6, 24), (Level::Raid5, 5)] {
        let nodes = Nodes::start(members, 4 * MIB, 4 * MIB);
        let volume = made(&nodes, level);
        let device = volume.device();
        let mut model = vec![0; device.size_bytes() as usize];
        Random(members as u64).fill(&mut model);
        device.write_at(0, &model).unwrap();
        device.flush().unwrap();
        let lost = Role(1);
        volume.control().fail(lost).unwrap();
        wait_for("the failure", || volume.status().unwrap().missing == [lost]);
        // The superblocks say so too: nothing else is written while bytes are counted.
        device.flush().unwrap();
        let geometry = volume.facts().geometry;
        let of_it = (0..model.len() as u64).step_by(4096);
        let of_it: Vec<u64> = of_it.filter(|at| geometry.locate(*at).unwrap().role == lost).collect();
        let mut read = vec![0; 4096];
        let (sent, received) = counted(&volume, || {
            for at in &of_it {
                device.read_at(*at, &mut read).unwrap();
                assert!(read == model[*at as usize..][..4096], "{at}");
            }
        });
        let user = of_it.len() * 4096;
        println!("{level} {members}: {user} bytes, {sent} sent, {received} received");
        assert!(user > 500_000);
        assert!(sent as f64 <= 0.3 * user as f64, "{sent} of {user}");
        assert!(received as f64 <= 1.05 * user as f64, "{received} of {user}");
        assert_eq!(volume.status().unwrap().errors, [] as [String; 0]);
        stop(volume);
    }
}

/// The contents that a new member of an array gets: bytes over the host's links, sent and received,
/// and bytes that were rebuilt.
fn rebuilt(level: Level, members: usize, bytes: u64) -> (u64, u64, u64) {
    let nodes = Nodes::start(members + NODES, bytes, NodeOptions::default().memory_bytes);
    let mut drives = nodes.members();
    let spares = drives.split_off(members);
    create(&drives, &spec(level, Some(Layout::LeftSymmetric), CHUNK), |_, _| {}).unwrap();
    let volume = open(&drives, &options(Consistency::Log)).unwrap();
    let device = volume.device();
    let mut model = vec![0; device.size_bytes() as usize];
    Random(members as u64).fill(&mut model);
    device.write_at(0, &model).unwrap();
    device.flush().unwrap();
    let before = volume.status().unwrap();
    // The new drive is on another node than the old one.
    let role = volume.control().replace(Role(1), spares[0].clone(), false).unwrap();
    wait_for("the rebuild", || volume.status().unwrap().missing.is_empty());
    // Behind the superblocks that say so.
    device.flush().unwrap();
    let after = volume.status().unwrap();
    assert_eq!((role, after.errors.len()), (Role(1), 0), "{:?}", after.errors);
    let mut read = vec![0; model.len()];
    device.read_at(0, &mut read).unwrap();
    assert!(read == model);
    drives[1] = spares[0].clone();
    assert_eq!(torn(&drives, &volume), [] as [u64; 0]);
    // And it is near for writes.
    counted(&volume, || device.write_at(0, &model[..model.len() / 2]).unwrap());
    let rebuilt = volume.facts().geometry.stripes() * CHUNK;
    stop(volume);
    (after.link_sent - before.link_sent, after.link_received - before.link_received, rebuilt)
}

/// A bigger member costs the host commands for stretches, and no blocks.
#[test]
fn a_member_is_rebuilt_by_the_nodes() {
    for (level, members) in [(Level::Raid6, 24), (Level::Raid5, 5)] {
        let (small, big) = (rebuilt(level, members, 4 * MIB), rebuilt(level, members, 12 * MIB));
        let bytes = big.2 - small.2;
        let (sent, received) = (big.0.saturating_sub(small.0), big.1.saturating_sub(small.1));
        println!("{level} {members}: {bytes} more bytes, {sent} more sent, {received} more received");
        assert!((sent + received) as f64 <= 0.001 * bytes as f64, "{sent} and {received} of {bytes}");
    }
}

/// Bytes over the sockets of all connections to the members' nodes.
fn of_sockets(members: &[MemberDrive]) -> u64 {
    let node = |member: &MemberDrive| member.node().link().unwrap().link_figures().bytes;
    members.iter().take(NODES).map(node).sum()
}

/// The cost of a new array of zeros: bytes over the host's links, and bytes of members.
fn initialised(level: Level, members: usize, bytes: u64) -> (u64, u64) {
    let nodes = Nodes::start(members, bytes, 4 * MIB);
    let drives = nodes.members();
    // What they hold is to be gone, and nobody has to look at it.
    drives.iter().for_each(|drive| drive.node().write(drive.id(), bytes - MIB, &[7; 4096]).unwrap());
    let spec = CreateSpec { force: true, ..spec(level, Some(Layout::LeftSymmetric), CHUNK) };
    let before = of_sockets(&drives);
    let mut zeroed = 0;
    create(&drives, &spec, |done, _| zeroed = done).unwrap();
    let moved = of_sockets(&drives) - before;
    let volume = open(&drives, &options(Consistency::Log)).unwrap();
    let mut read = vec![7; volume.device().size_bytes() as usize];
    volume.device().read_at(0, &mut read).unwrap();
    assert!(read.iter().all(|byte| *byte == 0));
    assert_eq!(torn(&drives, &volume), [] as [u64; 0]);
    stop(volume);
    (moved, zeroed)
}

/// A bigger member costs the host commands, and no zeros.
#[test]
fn a_new_array_is_made_zeros_by_the_nodes() {
    for (level, members) in [(Level::Raid6, 24), (Level::Raid5, 5)] {
        let (small, big) = (initialised(level, members, 4 * MIB), initialised(level, members, 28 * MIB));
        let (moved, bytes) = (big.0.saturating_sub(small.0), big.1 - small.1);
        println!("{level} {members}: {bytes} more bytes, {moved} more over the links");
        assert!(bytes == 24 * MIB * members as u64 && moved as f64 <= 0.001 * bytes as f64, "{moved}");
    }
}

/// The cost of making parity of an array from its data, where every bit is set: bytes over the
/// host's links, those between the nodes, and bytes of all members.
fn resynced(level: Level, members: usize, bytes: u64) -> (u64, u64, u64) {
    let nodes = Nodes::start(members, bytes, NodeOptions::default().memory_bytes);
    let drives = nodes.members();
    create(&drives, &spec(level, Some(Layout::LeftSymmetric), CHUNK), |_, _| {}).unwrap();
    let volume = open(&drives, &options(Consistency::Bitmap)).unwrap();
    let mut model = vec![0; volume.device().size_bytes() as usize];
    Random(members as u64).fill(&mut model);
    volume.device().write_at(0, &model).unwrap();
    let geometry = volume.facts().geometry;
    let start = pumice_executor::find(&drives[0]).unwrap().superblock().data_offset_bytes();
    volume.abandon();
    for stripe in 0..geometry.stripes() {
        let map = geometry.stripe(StripeIndex(stripe));
        for role in std::iter::once(map.p).chain(map.q) {
            let drive = &drives[role.index()];
            drive.node().write(drive.id(), start + stripe * CHUNK, &[0xA5; CHUNK as usize]).unwrap();
        }
    }
    let volume = open(&drives, &options(Consistency::Bitmap)).unwrap();
    let status = volume.status().unwrap();
    assert_eq!(volume.facts().report.resynced, geometry.stripes());
    assert_eq!(torn(&drives, &volume), [] as [u64; 0]);
    let mut read = vec![0; model.len()];
    volume.device().read_at(0, &mut read).unwrap();
    assert!(read == model);
    let all = geometry.stripes() * CHUNK * members as u64;
    stop(volume);
    (status.link_sent + status.link_received, status.between_nodes, all)
}

/// Window by window: a bigger array costs the host commands, and no blocks.
#[test]
fn parity_is_made_from_data_by_the_nodes() {
    for (level, members, most) in [(Level::Raid6, 24, 0.001), (Level::Raid5, 5, 0.002)] {
        let (small, big) = (resynced(level, members, 4 * MIB), resynced(level, members, 12 * MIB));
        let (moved, between, bytes) = (big.0.saturating_sub(small.0), big.1 - small.1, big.2 - small.2);
        println!("{level} {members}: {bytes} more bytes, {moved} more over the links, {between} between");
        assert!(moved as f64 <= most * bytes as f64, "{moved} of {bytes}");
    }
}

/// Writes of any length and place, by several threads, each in a part of its own.
fn churn(device: &Arc<impl BlockDevice + ?Sized>, model: &mut [u8], seed: u64, rounds: u64) {
    let part = model.len() / 4;
    std::thread::scope(|scope| {
        for (i, part_of) in model.chunks_mut(part).take(4).enumerate() {
            let (device, start) = (Arc::clone(device), i * part);
            scope.spawn(move || {
                let mut random = Random(seed + i as u64);
                for _ in 0..rounds {
                    let (unit, most) =
                        [(512, 40), (4096, 1), (4096, 60), (65536, 8)][random.next(4) as usize];
                    let at = random.next(part_of.len() as u64 / unit) * unit;
                    let len = ((1 + random.next(most)) * unit).min(part_of.len() as u64 - at);
                    let bytes = &mut part_of[at as usize..(at + len) as usize];
                    random.fill(bytes);
                    device.write_at(start as u64 + at, bytes).unwrap();
                    if random.chance(5) {
                        device.flush().unwrap();
                    }
                }
            });
        }
    });
}

/// Few places, so that writes wait for them; then the process ends without a stop. What the nodes
/// logged is replayed.
#[test]
fn writes_that_nodes_make_are_what_was_written_also_after_a_crash() {
    for (level, members, consistency) in
        [(Level::Raid6, 7, Consistency::Log), (Level::Raid5, 4, Consistency::Bitmap)]
    {
        let nodes = Nodes::start(members, 4 * MIB, 3 * MIB);
        let drives = nodes.members();
        let made = spec(level, Some(Layout::LeftSymmetric), CHUNK);
        create(&drives, &CreateSpec { component_bytes: Some(MIB), ..made }, |_, _| {}).unwrap();
        let volume = open(&drives, &options(consistency)).unwrap();
        let device = volume.device();
        let mut model = vec![0; device.size_bytes() as usize];
        churn(&device, &mut model, 1, 40);
        let mut read = vec![0; model.len()];
        device.read_at(0, &mut read).unwrap();
        assert!(read == model);
        let status = volume.status().unwrap();
        println!("{} near, {} far", status.near_writes, status.far_writes);
        assert!(status.near_writes > 100 && status.far_writes > 10 && status.errors.is_empty());
        assert_eq!(torn(&nodes.members(), &volume), [] as [u64; 0]);
        volume.abandon();
        drop(drives);
        let volume = open(&nodes.members(), &options(consistency)).unwrap();
        let report = &volume.facts().report;
        let log = consistency == Consistency::Log;
        assert_eq!((report.applied > 0, report.discarded), (log, false), "{report:?}");
        volume.device().read_at(0, &mut read).unwrap();
        assert!(read == model);
        assert_eq!(torn(&nodes.members(), &volume), [] as [u64; 0]);
        stop(volume);
    }
}

/// Trials take writes from one way to the other while neighbours in the same rows are under way.
#[test]
fn a_volume_that_measures_its_ways_holds_what_was_written() {
    let nodes = Nodes::start(5, 4 * MIB, 3 * MIB);
    let drives = nodes.members();
    let made = spec(Level::Raid5, Some(Layout::LeftSymmetric), CHUNK);
    create(&drives, &CreateSpec { component_bytes: Some(MIB), ..made }, |_, _| {}).unwrap();
    let measured = OpenOptions { offload: Offload::Auto, ..OpenOptions::default() };
    let volume = open(&drives, &measured).unwrap();
    let ways = volume.status().unwrap().ways.unwrap();
    assert!(ways.iter().all(|standing| standing.way == Way::Near && standing.verdicts == 0));
    let device = volume.device();
    let mut model = vec![0; device.size_bytes() as usize];
    for round in 0..4 {
        churn(&device, &mut model, round, 60);
        let mut read = vec![0; model.len()];
        device.read_at(0, &mut read).unwrap();
        assert!(read == model, "round {round}");
    }
    let status = volume.status().unwrap();
    println!("{} near, {} far, {:?}", status.near_writes, status.far_writes, status.ways);
    assert!(status.near_writes + status.far_writes > 400 && status.errors.is_empty());
    assert_eq!(torn(&nodes.members(), &volume), [] as [u64; 0]);
    stop(volume);
    // What is forced is not measured.
    let volume = open(&drives, &options(Consistency::Log)).unwrap();
    assert_eq!(volume.status().unwrap().ways, None);
    stop(volume);
}

#[test]
fn a_node_that_dies_under_near_writes_costs_its_members_and_nothing_else() {
    let mut nodes = Nodes::start(6, 4 * MIB, 4 * MIB);
    let volume = made(&nodes, Level::Raid6);
    let device = volume.device();
    let mut model = vec![0; device.size_bytes() as usize];
    let dying = nodes.servers[1].take().unwrap();
    std::thread::scope(|scope| {
        let killer = scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            dying.stop().unwrap();
        });
        let mut round = 0;
        // Until it is gone, and some more.
        while !killer.is_finished() || volume.status().unwrap().missing.is_empty() {
            round += 1;
            churn(&device, &mut model, round * 10, 10);
        }
    });
    churn(&device, &mut model, 5, 20);
    wait_for("the failure", || volume.status().unwrap().missing == [Role(1), Role(4)]);
    let mut read = vec![0; model.len()];
    device.read_at(0, &mut read).unwrap();
    assert!(read == model);
    let status = volume.status().unwrap();
    assert!(status.near_writes > 0 && status.far_writes > 0);
    stop(volume);
}

/// As `pumice volume serve` does it: other hosts are kept away, and nodes send to each other.
#[test]
fn nodes_that_are_held_take_interims() {
    let mut nodes = Nodes::start(4, 4 * MIB, 4 * MIB);
    nodes.held = true;
    let volume = made(&nodes, Level::Raid6);
    volume.device().write_at(4096, &[7; 4096]).unwrap();
    let status = volume.status().unwrap();
    assert_eq!((status.near_writes, status.far_writes), (1, 0), "{:?}", status.errors);
    stop(volume);
}

/// Nodes that may not send to each other make no parity, and everything else goes on.
#[test]
fn without_paths_between_the_nodes_the_host_makes_parity() {
    let nodes = Nodes::start(3, 4 * MIB, 4 * MIB);
    let members = nodes.members();
    create(&members, &spec(Level::Raid5, Some(Layout::LeftSymmetric), CHUNK), |_, _| {}).unwrap();
    let off = OpenOptions { offload: Offload::Off, ..options(Consistency::Log) };
    let volume = open(&members, &off).unwrap();
    assert_eq!(volume.status().unwrap().near, Err("not asked for".to_owned()));
    volume.device().write_at(0, &[7; 4096]).unwrap();
    assert_eq!(volume.status().unwrap().near_writes, 0);
    stop(volume);
    // Too little memory for a place.
    let small = Nodes::start(3, 4 * MIB, MIB / 4);
    let members = small.members();
    create(&members, &spec(Level::Raid5, Some(Layout::LeftSymmetric), CHUNK), |_, _| {}).unwrap();
    let volume = open(&members, &options(Consistency::Log)).unwrap();
    let why = volume.status().unwrap().near.unwrap_err();
    assert!(why.contains("local memory"), "{why}");
    volume.device().write_at(0, &[7; 4096]).unwrap();
    stop(volume);
}

/// The plan of `work` is what the volume counts, and what its sockets count.
fn holds(planned: &Links, before: &pumice_executor::Status, volume: &ServedVolume, user: u64, what: &str) {
    let after = volume.status().unwrap();
    let scaled = |bytes: u64| bytes as f64 * user as f64 / planned.user as f64;
    let payload = [
        (planned.sent.payload, after.member_written - before.member_written),
        (planned.received.payload, after.member_read - before.member_read),
        (planned.between, after.between_nodes - before.between_nodes),
    ];
    for (i, (plan, moved)) in payload.into_iter().enumerate() {
        assert_eq!(scaled(plan), moved as f64, "{what}: payload {i}");
    }
    let protocol = [
        (planned.sent.protocol, after.link_sent - before.link_sent - payload[0].1),
        (planned.received.protocol, after.link_received - before.link_received - payload[1].1),
    ];
    for (i, (plan, moved)) in protocol.into_iter().enumerate() {
        let off = (scaled(plan) - moved as f64).abs() / moved as f64;
        assert!(off <= 0.02, "{what}: protocol {i}: planned {}, moved {moved}", scaled(plan));
    }
}

#[test]
fn what_is_planned_is_what_the_links_carry() {
    use pumice_volume::Request;
    for (level, members, offload) in
        [(Level::Raid5, 5, true), (Level::Raid6, 6, false), (Level::Raid6, 24, true), (Level::Raid6, 6, true)]
    {
        let nodes = Nodes::start(members + NODES, 8 * MIB, 4 * MIB);
        let mut all = nodes.members();
        let spare =
            all.split_off(members).into_iter().find(|spare| spare.name().starts_with("node0/")).unwrap();
        create(&all, &spec(level, Some(Layout::LeftSymmetric), CHUNK), |_, _| {}).unwrap();
        let options = OpenOptions { offload: switch(offload), ..options(Consistency::Log) };
        let volume = open(&all, &options).unwrap();
        let (device, geometry) = (volume.device(), volume.facts().geometry);
        // Dirty, and with its bits.
        device.write_at(0, &vec![1; geometry.stripe_bytes() as usize]).unwrap();
        let spec = PlanSpec {
            level,
            layout: Some(Layout::LeftSymmetric),
            members: members as u16,
            nodes: NODES as u16,
            chunk_bytes: CHUNK,
            log: true,
            offload,
        };
        for work in Work::ALL {
            let what = format!("{level} {members} offload {offload} {work:?}");
            if work == Work::DegradedReads {
                volume.control().fail(Role(0)).unwrap();
                wait_for("the failure", || volume.status().unwrap().missing == [Role(0)]);
                device.flush().unwrap();
            }
            let planned = plan(&spec, work).unwrap();
            let before = volume.status().unwrap();
            for request in work.requests(&geometry) {
                match request {
                    Request::Read { offset, len } => {
                        device.read_at(offset, &mut vec![0; len as usize]).unwrap();
                    }
                    Request::Write { offset, len, .. } => {
                        device.write_at(offset, &vec![7; len as usize]).unwrap();
                    }
                    Request::Flush => {}
                }
            }
            if work == Work::Rebuild {
                continue;
            }
            holds(&planned, &before, &volume, planned.user, &what);
        }
        let (planned, before) = (plan(&spec, Work::Rebuild).unwrap(), volume.status().unwrap());
        volume.control().add(spare, true).unwrap();
        wait_for("the rebuild", || volume.status().unwrap().missing.is_empty());
        let after = volume.status().unwrap();
        let scaled = |bytes: u64| bytes * geometry.stripes() * CHUNK / planned.user;
        assert_eq!(scaled(planned.between), after.between_nodes - before.between_nodes);
        assert_eq!(scaled(planned.received.payload), after.member_read - before.member_read);
        // Superblocks, bits and heads are written as well.
        let written = after.member_written - before.member_written;
        assert!(scaled(planned.sent.payload) <= written && (planned.sent.payload == 0) == offload);
        stop(volume);
    }
}

/// Bytes that the host's buffers were read or written beyond the user's own, for each byte of the
/// user or restored, by the nodes and by the host. The user is the server of the volume, which
/// gives its buffers away and sends those that it gets.
fn memory(work: Work, level: Level, members: usize, offload: bool) -> f64 {
    let nodes = Nodes::start(members + NODES, 8 * MIB, 64 * MIB);
    let mut all = nodes.members();
    let spare = all.split_off(members).swap_remove(0);
    create(&all, &spec(level, Some(Layout::LeftSymmetric), CHUNK), |_, _| {}).unwrap();
    let volume = open(&all, &OpenOptions { offload: switch(offload), ..options(Consistency::Log) }).unwrap();
    let (device, geometry) = (volume.device(), volume.facts().geometry);
    device.write_at(0, &vec![1; geometry.stripe_bytes() as usize]).unwrap();
    if matches!(work, Work::DegradedReads | Work::Rebuild) {
        volume.control().fail(Role(0)).unwrap();
        wait_for("the failure", || volume.status().unwrap().missing == [Role(0)]);
        device.flush().unwrap();
    }
    let before = volume.status().unwrap();
    let mut user = 0;
    for request in work.requests(&geometry) {
        match request {
            pumice_volume::Request::Read { offset, len } => {
                device.read_shared(offset, len as usize).unwrap();
                user += len;
            }
            pumice_volume::Request::Write { offset, len, .. } => {
                device.write_shared(offset, &SharedBuffer::copy_of(&vec![7; len as usize])).unwrap();
                user += len;
            }
            pumice_volume::Request::Flush => {}
        }
    }
    if work == Work::Rebuild {
        volume.control().add(spare, true).unwrap();
        wait_for("the rebuild", || volume.status().unwrap().missing.is_empty());
    }
    let after = volume.status().unwrap();
    stop(volume);
    let own = if work == Work::Rebuild { 0 } else { user };
    let restored = geometry.stripes() * CHUNK;
    (after.host_memory - before.host_memory - own) as f64 / user.max(restored * u64::from(user == 0)) as f64
}

/// `docs/design/accounting.md`, *Memory of the host*, has the figures.
#[test]
fn nodes_spare_the_hosts_memory() {
    let of = |level, members, most: [f64; 4]| {
        for (work, most) in Work::ALL.into_iter().zip(most) {
            let [near, far] = [true, false].map(|offload| memory(work, level, members, offload));
            println!(
                "{level} {members} {work:?}: {near:.3} by nodes, {far:.3} by the host, {:.3}",
                near / far
            );
            assert!(near <= most * far, "{level} {members} {work:?}: {near} of {far}");
        }
    };
    of(Level::Raid6, 24, [0.01; 4]);
    of(Level::Raid5, 5, [0.01; 4]);
}
