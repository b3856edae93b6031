//! Rights of a name that anybody can claim, and their limits.

use crate::pair::{HostQueue, admin, enabled, options};
use crate::world::{PLAIN, World, block_command};
use pumice_nvme::controller::{Access, Limits, VendorSet};
use pumice_nvme::host::Options;
use pumice_nvme::spec::connect::DYNAMIC;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};

/// The identifier of other nodes.
const NODE: [u8; 16] = *b"another data nod";

fn world() -> World {
    let world = World::new(Limits::default());
    let vendor = VendorSet { helper: Some(NODE), ..VendorSet::default() };
    world.shared.0.borrow_mut().set_vendor(vendor);
    world
}

fn from(world: &mut World, peer: &str) {
    world.peer = peer.parse().unwrap();
}

fn associate(world: &mut World, hostid: [u8; 16]) -> (HostQueue, Status, u16) {
    let mut with = options(0, DYNAMIC, PLAIN, true);
    with.data.hostid = hostid;
    let mut queue = HostQueue::connect(world, with, &[1 << 20]);
    let done = queue.completions.pop().unwrap();
    (queue, done.status, done.result as u16)
}

fn join(world: &mut World, with: Options) -> (HostQueue, Status) {
    let mut queue = HostQueue::connect(world, with, &[1 << 20]);
    let status = queue.completions.pop().unwrap().status;
    (queue, status)
}

/// It knows the names, and the controller's number. It comes from somewhere else.
#[test]
fn a_stranger_does_not_join_anothers_controller() {
    let mut world = world();
    let (_admin, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    from(&mut world, "192.0.2.99");
    let (mut stranger, status) = join(&mut world, options(1, cntlid, PLAIN, true));
    assert_eq!(status, Status::CONNECT_HOST.dnr());
    stranger.socket.connection.closed(&world.shared);
    // The queue is still there for its host, also where that address is written as one of IPv6.
    from(&mut world, "::ffff:192.0.2.2");
    assert_eq!(join(&mut world, options(1, cntlid, PLAIN, true)).1, Status::SUCCESS);
}

/// A peer that claims to be a node has fewer rights than any host.
#[test]
fn another_node_touches_no_namespace() {
    let mut world = world();
    let mut with = options(0, DYNAMIC, PLAIN, true);
    with.data.hostid = NODE;
    let (mut node, cntlid) = enabled(&mut world, with, &[1 << 20]);
    let mut with = options(1, cntlid, PLAIN, true);
    with.data.hostid = NODE;
    let (mut queue, status) = join(&mut world, with);
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(world.shared.0.borrow().hosts(), 0, "nor is it one of the hosts");
    let denied = Status::ACCESS_DENIED.dnr();
    for nsid in [1, 2] {
        let write = block_command(io::WRITE, nsid, 0, 1);
        assert_eq!(queue.write(&mut world, write, &[1; 512]).status, denied);
        for opcode in [io::WRITE_ZEROES, io::WRITE_UNCORRECTABLE, io::VERIFY, io::FLUSH] {
            let command = block_command(opcode, nsid, 0, 1);
            assert_eq!(queue.write(&mut world, command, &[]).status, denied, "{opcode:#x}");
        }
        let read = queue.read(&mut world, block_command(io::READ, nsid, 0, 1), 512);
        assert_eq!(read, Err(denied));
    }
    let mut trim = Sqe::new(io::DATASET_MANAGEMENT, 1);
    trim.set_dword(11, 4);
    assert_eq!(queue.write(&mut world, trim, &[0; 16]).status, denied);
    assert!(world.drives.content.iter().flatten().all(|byte| *byte == 0));
    node.socket.connection.closed(&world.shared);
}

/// An observer is held to its promise on all of its queues.
#[test]
fn an_observer_writes_nothing() {
    let mut world = world();
    let (_admin, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let (mut queue, _) = join(&mut world, options(1, cntlid, PLAIN, true));
    let write = || block_command(io::WRITE, 1, 0, 1);
    assert_eq!(queue.write(&mut world, write(), &[1; 512]).status, Status::SUCCESS);
    world.shared.with(|s| s.observe(cntlid));
    assert_eq!(queue.write(&mut world, write(), &[2; 512]).status, Status::WRITE_PROTECTED.dnr());
    let (mut later, _) = join(&mut world, options(2, cntlid, PLAIN, true));
    assert_eq!(later.write(&mut world, write(), &[2; 512]).status, Status::WRITE_PROTECTED.dnr());
    assert_eq!(later.read(&mut world, block_command(io::READ, 1, 0, 1), 512).unwrap(), [1; 512]);
    let (_other, _, other) = associate(&mut world, [3; 16]);
    assert!(world.shared.with(|s| s.other_hosts(other).iter().all(|host| host.observer)));
}

/// One address, and one identifier at it, leave places for others.
#[test]
fn no_host_takes_all_places() {
    let mut world = world();
    let mut all = Vec::new();
    let mut last = Status::SUCCESS;
    while last.is_success() {
        let (queue, status, _) = associate(&mut world, [5; 16]);
        last = status;
        all.push(queue);
    }
    assert_eq!((all.len(), last), (16 + 1, Status::CONNECT_BUSY), "of one identifier");
    for i in 0..32 {
        let (queue, status, _) = associate(&mut world, [100 + i; 16]);
        assert_eq!(status, Status::SUCCESS, "{i}");
        all.push(queue);
    }
    assert_eq!(associate(&mut world, [200; 16]).1, Status::CONNECT_BUSY, "48 of one address");
    from(&mut world, "192.0.2.77");
    assert_eq!(associate(&mut world, [200; 16]).1, Status::SUCCESS, "another address has its places");
    assert_eq!(associate(&mut world, [5; 16]).1, Status::SUCCESS, "whoever else has claimed its identifier");
    let places = world.shared.with(|s| s.places());
    assert_eq!((places.hosts, places.of_address, places.of_host), (50, 48, 16));
    assert_eq!(associate(&mut world, NODE).1, Status::SUCCESS, "other nodes have places of their own");
}

/// Other nodes come in under a hold for what the holder waits for, and not for anything else.
#[test]
fn a_hold_binds_other_nodes() {
    let mut world = world();
    let (_holder, _, cntlid) = associate(&mut world, [5; 16]);
    assert!(world.shared.with(|s| s.hold(cntlid)));
    assert_eq!(associate(&mut world, NODE).1, Status::CONNECT_BUSY);
    assert_eq!(associate(&mut world, [6; 16]).1, Status::CONNECT_BUSY);
    world.shared.with(|s| s.set_inviting(cntlid, true));
    let (node, status, id) = associate(&mut world, NODE);
    assert_eq!(status, Status::SUCCESS);
    assert!(!world.shared.with(|s| s.hold(id)), "it holds nothing itself");
    assert_eq!(associate(&mut world, [6; 16]).1, Status::CONNECT_BUSY, "a host is no node");
    world.shared.with(|s| s.set_inviting(cntlid, false));
    assert_eq!(associate(&mut world, NODE).1, Status::CONNECT_BUSY);
    drop(node);
}

/// Commands that a host sent before it went may still be carried out: until then nobody has the
/// drives alone.
#[test]
fn a_hold_waits_for_what_was_sent_before() {
    let mut world = world();
    let (mut gone, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let (mut queue, _) = join(&mut world, options(1, cntlid, PLAIN, true));
    let (_holder, _, holder) = associate(&mut world, [5; 16]);
    let holds = |world: &World| world.shared.with(|s| s.hold(holder));
    assert!(!holds(&world));
    gone.socket.connection.closed(&world.shared);
    assert!(!holds(&world), "a connection of the association is still open");
    queue.socket.connection.closed(&world.shared);
    world.shared.with(|s| s.orphan([9; 16]));
    assert!(!holds(&world), "a write of it is with a medium");
    world.shared.with(|s| s.orphan_ended([9; 16]));
    assert!(holds(&world));
}
