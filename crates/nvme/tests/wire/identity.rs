//! What a name that anybody can claim is good for, and what it is not.

use crate::pair::{HostQueue, admin, enabled, options};
use crate::world::{PLAIN, Target, block_command};
use pumice_nvme::host::Options;
use pumice_nvme::spec::connect::DYNAMIC;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_nvme::target::{Access, Limits, VendorSet};

/// The identifier of other nodes.
const NODE: [u8; 16] = *b"another data nod";

fn target() -> Target {
    let target = Target::new(Limits::default());
    let vendor = VendorSet { helper: Some(NODE), ..VendorSet::default() };
    target.shared.0.borrow_mut().set_vendor(vendor);
    target
}

fn from(target: &mut Target, peer: &str) {
    target.peer = peer.parse().unwrap();
}

fn associate(target: &mut Target, hostid: [u8; 16]) -> (HostQueue, Status, u16) {
    let mut with = options(0, DYNAMIC, PLAIN, true);
    with.data.hostid = hostid;
    let mut queue = HostQueue::connect(target, with, &[1 << 20]);
    let done = queue.completions.pop().unwrap();
    (queue, done.status, done.result as u16)
}

fn join(target: &mut Target, with: Options) -> (HostQueue, Status) {
    let mut queue = HostQueue::connect(target, with, &[1 << 20]);
    let status = queue.completions.pop().unwrap().status;
    (queue, status)
}

/// It knows the names, and the controller's number. It comes from somewhere else.
#[test]
fn a_stranger_does_not_join_anothers_controller() {
    let mut target = target();
    let (_admin, cntlid) = admin(&mut target, PLAIN, true, &[1 << 20]);
    from(&mut target, "192.0.2.99");
    let (mut stranger, status) = join(&mut target, options(1, cntlid, PLAIN, true));
    assert_eq!(status, Status::CONNECT_HOST.dnr());
    stranger.socket.connection.closed(&target.shared);
    // The queue is still there for its host, also where that address is written as one of IPv6.
    from(&mut target, "::ffff:192.0.2.2");
    assert_eq!(join(&mut target, options(1, cntlid, PLAIN, true)).1, Status::SUCCESS);
}

/// Whoever claims to be a node has fewer rights than any host.
#[test]
fn another_node_touches_no_namespace() {
    let mut target = target();
    let mut with = options(0, DYNAMIC, PLAIN, true);
    with.data.hostid = NODE;
    let (mut node, cntlid) = enabled(&mut target, with, &[1 << 20]);
    let mut with = options(1, cntlid, PLAIN, true);
    with.data.hostid = NODE;
    let (mut queue, status) = join(&mut target, with);
    assert_eq!(status, Status::SUCCESS);
    let denied = Status::ACCESS_DENIED.dnr();
    for nsid in [1, 2] {
        let write = block_command(io::WRITE, nsid, 0, 1);
        assert_eq!(queue.write(&mut target, write, &[1; 512]).status, denied);
        for opcode in [io::WRITE_ZEROES, io::WRITE_UNCORRECTABLE, io::VERIFY, io::FLUSH] {
            let command = block_command(opcode, nsid, 0, 1);
            assert_eq!(queue.write(&mut target, command, &[]).status, denied, "{opcode:#x}");
        }
        let read = queue.read(&mut target, block_command(io::READ, nsid, 0, 1), 512);
        assert_eq!(read, Err(denied));
    }
    let mut trim = Sqe::new(io::DATASET_MANAGEMENT, 1);
    trim.set_dword(11, 4);
    assert_eq!(queue.write(&mut target, trim, &[0; 16]).status, denied);
    assert!(target.drives.content.iter().flatten().all(|byte| *byte == 0));
    node.socket.connection.closed(&target.shared);
}

/// What it has promised it is held to, on all of its queues.
#[test]
fn an_observer_writes_nothing() {
    let mut target = target();
    let (_admin, cntlid) = admin(&mut target, PLAIN, true, &[1 << 20]);
    let (mut queue, _) = join(&mut target, options(1, cntlid, PLAIN, true));
    let write = || block_command(io::WRITE, 1, 0, 1);
    assert_eq!(queue.write(&mut target, write(), &[1; 512]).status, Status::SUCCESS);
    target.shared.with(|s| s.observe(cntlid));
    assert_eq!(queue.write(&mut target, write(), &[2; 512]).status, Status::WRITE_PROTECTED.dnr());
    let (mut later, _) = join(&mut target, options(2, cntlid, PLAIN, true));
    assert_eq!(later.write(&mut target, write(), &[2; 512]).status, Status::WRITE_PROTECTED.dnr());
    assert_eq!(later.read(&mut target, block_command(io::READ, 1, 0, 1), 512).unwrap(), [1; 512]);
    let (_other, _, other) = associate(&mut target, [3; 16]);
    assert!(target.shared.with(|s| s.other_hosts(other).iter().all(|host| host.observer)));
}

/// One address, and one identifier, leave places for others.
#[test]
fn no_host_takes_all_places() {
    let mut target = target();
    let mut all = Vec::new();
    let mut last = Status::SUCCESS;
    while last.is_success() {
        let (queue, status, _) = associate(&mut target, [5; 16]);
        last = status;
        all.push(queue);
    }
    assert_eq!((all.len(), last), (16 + 1, Status::CONNECT_BUSY), "of one identifier");
    for i in 0..32 {
        let (queue, status, _) = associate(&mut target, [100 + i; 16]);
        assert_eq!(status, Status::SUCCESS, "{i}");
        all.push(queue);
    }
    assert_eq!(associate(&mut target, [200; 16]).1, Status::CONNECT_BUSY, "48 of one address");
    from(&mut target, "192.0.2.77");
    assert_eq!(associate(&mut target, [200; 16]).1, Status::SUCCESS, "another address has its places");
    assert_eq!(associate(&mut target, NODE).1, Status::SUCCESS, "other nodes have places of their own");
}

/// Other nodes come in under a hold for what the holder waits for, and not for anything else.
#[test]
fn a_hold_binds_other_nodes() {
    let mut target = target();
    let (_holder, _, cntlid) = associate(&mut target, [5; 16]);
    assert!(target.shared.with(|s| s.hold(cntlid)));
    assert_eq!(associate(&mut target, NODE).1, Status::CONNECT_BUSY);
    assert_eq!(associate(&mut target, [6; 16]).1, Status::CONNECT_BUSY);
    target.shared.with(|s| s.set_inviting(cntlid, true));
    let (node, status, id) = associate(&mut target, NODE);
    assert_eq!(status, Status::SUCCESS);
    assert!(!target.shared.with(|s| s.hold(id)), "it holds nothing itself");
    assert_eq!(associate(&mut target, [6; 16]).1, Status::CONNECT_BUSY, "a host is no node");
    target.shared.with(|s| s.set_inviting(cntlid, false));
    assert_eq!(associate(&mut target, NODE).1, Status::CONNECT_BUSY);
    drop(node);
}

/// What a host sent before it went may still be carried out: until then nobody has the drives alone.
#[test]
fn a_hold_waits_for_what_was_sent_before() {
    let mut target = target();
    let (mut gone, cntlid) = admin(&mut target, PLAIN, true, &[1 << 20]);
    let (mut queue, _) = join(&mut target, options(1, cntlid, PLAIN, true));
    let (_holder, _, holder) = associate(&mut target, [5; 16]);
    let holds = |target: &Target| target.shared.with(|s| s.hold(holder));
    assert!(!holds(&target));
    gone.socket.connection.closed(&target.shared);
    assert!(!holds(&target), "a connection of the association is still open");
    queue.socket.connection.closed(&target.shared);
    target.shared.with(|s| s.orphan([9; 16]));
    assert!(!holds(&target), "a write of it is with a medium");
    target.shared.with(|s| s.orphan_ended([9; 16]));
    assert!(holds(&target));
}
