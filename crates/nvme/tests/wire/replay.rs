//! The commands that a Linux host sends, in its order, and what it insists on in the answers.

use crate::pair::{HostQueue, admin, options};
use crate::world::{BLOCKS, NQN, PLAIN, World};
use pumice_nvme::controller::{Limits, SHUTDOWN_SLOT};
use pumice_nvme::spec::connect::DYNAMIC;
use pumice_nvme::spec::identify::{Controller, Namespace};
use pumice_nvme::spec::log::DiscoveryEntry;
use pumice_nvme::spec::{DISCOVERY_NQN, Sqe, Status, opcode};

pub(crate) fn property_get(offset: u32, wide: bool) -> Sqe {
    let mut sqe = Sqe::new(opcode::FABRICS, 0);
    sqe.0[4] = opcode::fabrics::PROPERTY_GET;
    sqe.0[40] = u8::from(wide);
    sqe.set_dword(11, offset);
    sqe
}

pub(crate) fn identify(cns: u8, nsid: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode::admin::IDENTIFY, nsid);
    sqe.0[40] = cns;
    sqe
}

pub(crate) fn log(id: u8, bytes: u32, offset: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode::admin::GET_LOG_PAGE, u32::MAX);
    sqe.set_dword(10, u32::from(id) | (bytes / 4 - 1) << 16);
    sqe.set_dword(12, offset);
    sqe
}

pub(crate) fn feature(opcode: u8, id: u32, value: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode, 0);
    sqe.set_dword(10, id);
    sqe.set_dword(11, value);
    sqe
}

#[test]
fn a_controller_comes_up() {
    let mut world = World::new(Limits::default());
    let mut admin = HostQueue::connect(&mut world, options(0, DYNAMIC, PLAIN, true), &[1 << 20]);
    let cntlid = admin.completions.pop().unwrap().result as u16;
    assert!((1..=0xFFEF).contains(&cntlid));
    // Nothing but Fabrics commands before it is enabled.
    assert_eq!(admin.read(&mut world, identify(1, 0), 4096), Err(Status::SEQUENCE.dnr()));

    let cap = admin.write(&mut world, property_get(0, true), &[]).result;
    assert_eq!((cap & 0xFFFF, cap >> 16 & 1, cap >> 37 & 1), (127, 1, 1));
    assert_eq!(admin.write(&mut world, property_get(0x1C, false), &[]).result, 0);
    let mut enable = property_get(0x14, false);
    enable.0[4] = opcode::fabrics::PROPERTY_SET;
    enable.set_dword(12, 0x0046_0001);
    assert!(admin.write(&mut world, enable, &[]).status.is_success());
    assert_eq!(admin.write(&mut world, property_get(0x1C, false), &[]).result, 1, "ready");
    assert_eq!(admin.write(&mut world, property_get(8, false), &[]).result, 0x0001_0400);

    let page = admin.read(&mut world, identify(1, 0), 4096).unwrap();
    let controller = Controller::decode(&page);
    assert_eq!((controller.cntlid, controller.discovery), (cntlid, false));
    assert_eq!((controller.subnqn.as_str(), controller.serial.as_str()), (NQN, "SN1"));
    assert_eq!(controller.capsule_data, 68 << 10);
    let word = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
    let dword = |at: usize| u32::from(word(at)) | u32::from(word(at + 2)) << 16;
    // kas, maxcmd, sgls, ioccsz, iorcsz must not be zero, icdoff must.
    assert!(word(320) != 0 && word(514) != 0 && dword(536) & 3 != 0);
    assert!(dword(1792) >= 4 && dword(1796) >= 1);
    assert_eq!((word(1800), page[111], page[77]), (0, 1, 8));

    for cns in [6, 2] {
        assert_eq!(admin.read(&mut world, identify(cns, 0), 4096).unwrap().len(), 4096);
    }
    let list = admin.read(&mut world, identify(2, 0), 4096).unwrap();
    assert_eq!(list[..12], [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    let namespace = Namespace::decode(&admin.read(&mut world, identify(0, 1), 4096).unwrap()).unwrap();
    assert_eq!((namespace.blocks, namespace.format.shift()), (BLOCKS, 9));
    let ids = admin.read(&mut world, identify(3, 1), 4096).unwrap();
    assert_eq!((ids[0], ids[1], ids[20], ids[21], ids[40], ids[44]), (2, 16, 3, 16, 4, 0));
    assert_eq!(admin.read(&mut world, identify(0, 9), 4096), Err(Status::INVALID_NAMESPACE.dnr()));
    assert_eq!(admin.read(&mut world, identify(0x55, 0), 4096), Err(Status::INVALID_FIELD.dnr()));

    let effects = admin.read(&mut world, log(5, 4096, 0), 4096).unwrap();
    assert_eq!((effects[6 * 4], effects[1024 + 4], effects[1024 + 0x19 * 4]), (1, 3, 0));
    // What Identify offers and what the log lists are the same commands.
    for (bit, opcode) in [(0, 5), (1, 4), (2, 9), (3, 8), (7, 0x0C), (8, 0x19)] {
        assert_eq!(word(520) >> bit & 1 != 0, effects[1024 + opcode * 4] & 1 != 0, "opcode {opcode:#04x}");
    }
    assert_eq!(admin.read(&mut world, log(0x7F, 512, 0), 512), Err(Status::INVALID_LOG.dnr()));
    let granted = admin.write(&mut world, feature(opcode::admin::SET_FEATURES, 7, 3 | 3 << 16), &[]);
    assert_eq!(granted.result, 3 | 3 << 16);
    assert!(admin.write(&mut world, Sqe::new(opcode::admin::KEEP_ALIVE, 0), &[]).status.is_success());

    // The errors above stand in the log, the newest first.
    let errors = admin.read(&mut world, log(1, 128, 0), 128).unwrap();
    assert_eq!(errors[0], 4);
    assert_eq!(u16::from_le_bytes([errors[12], errors[13]]) >> 1, Status::INVALID_LOG.dnr().0);
}

#[test]
fn queues_are_refused_by_name() {
    let mut world = World::new(Limits { queues: 2, controllers: 2, ..Limits::default() });
    let (_admin, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let mut refused = |change: fn(&mut pumice_nvme::host::Options), status: Status, dw0: u64| {
        let mut options = options(1, cntlid, PLAIN, true);
        change(&mut options);
        let mut queue = HostQueue::connect(&mut world, options, &[1 << 20]);
        let done = queue.completions.pop().unwrap();
        assert_eq!((done.status.code(), done.result), (status.code(), dw0));
        queue.socket.connection.closed(&world.shared);
    };
    refused(|o| o.data.cntlid = 77, Status::CONNECT_INVALID, 16 | 1 << 16);
    refused(
        |o| o.data.subnqn = "nqn.2026-11.example:other".to_owned(),
        Status::CONNECT_INVALID,
        256 | 1 << 16,
    );
    refused(
        |o| o.data.hostnqn = "nqn.2026-11.example:other".to_owned(),
        Status::CONNECT_INVALID,
        512 | 1 << 16,
    );
    refused(|o| o.data.hostid = [1; 16], Status::CONNECT_INVALID, 1 << 16);
    refused(|o| o.qid = 3, Status::INVALID_QUEUE, 0);
    refused(|o| o.depth = 200, Status::CONNECT_INVALID, 44);
    // One more association, and no more.
    let (_second, _) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let mut third = HostQueue::connect(&mut world, options(0, DYNAMIC, PLAIN, true), &[1 << 20]);
    assert_eq!(third.completions.pop().unwrap().status, Status::CONNECT_BUSY);
}

/// Neither kind of association keeps the other out.
#[test]
fn the_discovery_service_has_a_bound_of_its_own() {
    let limits = Limits { controllers: 2, controllers_of_address: 64, ..Limits::default() };
    let mut world = World::new(limits);
    let mut discovery = options(0, DYNAMIC, PLAIN, true);
    discovery.data.subnqn = DISCOVERY_NQN.to_owned();
    let mut join = |options: &pumice_nvme::host::Options| {
        let mut queue = HostQueue::connect(&mut world, options.clone(), &[1 << 20]);
        queue.completions.pop().unwrap().status
    };
    let hosts = options(0, DYNAMIC, PLAIN, true);
    for _ in 0..64 {
        assert_eq!(join(&discovery), Status::SUCCESS);
    }
    assert_eq!(join(&discovery), Status::CONNECT_BUSY);
    assert_eq!(
        (join(&hosts), join(&hosts), join(&hosts)),
        (Status::SUCCESS, Status::SUCCESS, Status::CONNECT_BUSY)
    );
}

#[test]
fn a_queue_is_connected_once_and_again_after_a_reset() {
    let mut world = World::new(Limits::default());
    let (mut admin, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let connect = |world: &mut World| {
        let mut queue = HostQueue::connect(world, options(1, cntlid, PLAIN, true), &[1 << 20]);
        (queue.completions.pop().unwrap().status, queue)
    };
    let (status, first) = connect(&mut world);
    assert!(status.is_success());
    assert_eq!(connect(&mut world).0, Status::SEQUENCE.dnr());
    let mut configure = property_get(0x14, false);
    configure.0[4] = opcode::fabrics::PROPERTY_SET;
    for value in [0x0046_0000, 0x0046_0001] {
        configure.set_dword(12, value);
        assert!(admin.write(&mut world, configure, &[]).status.is_success());
    }
    // Not while the old connection stands: another core may be at work for it.
    assert_eq!(admin.write(&mut world, property_get(0x1C, false), &[]).result, 0, "not ready");
    assert_eq!(connect(&mut world).0, Status::SEQUENCE.dnr());
    assert_eq!(admin.read(&mut world, identify(1, 0), 4096), Err(Status::SEQUENCE.dnr()));
    let mut old = first.socket;
    old.connection.tick(1, &world.shared, &mut Vec::new());
    assert!(old.connection.is_closed());
    old.connection.closed(&world.shared);
    assert_eq!(admin.write(&mut world, property_get(0x1C, false), &[]).result, 1, "ready");
    let (status, _second) = connect(&mut world);
    assert!(status.is_success());
    assert_eq!(connect(&mut world).0, Status::SEQUENCE.dnr());
}

#[test]
fn a_queue_that_was_disconnected_is_connected_again() {
    let mut world = World::new(Limits::default());
    let (_admin, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let connect = |world: &mut World| {
        let mut queue = HostQueue::connect(world, options(1, cntlid, PLAIN, true), &[1 << 20]);
        (queue.completions.pop().unwrap().status, queue)
    };
    let (_, mut old) = connect(&mut world);
    let mut disconnect = Sqe::new(opcode::FABRICS, 0);
    disconnect.0[4] = opcode::fabrics::DISCONNECT;
    disconnect.0[40] = 1;
    assert_eq!(old.write(&mut world, disconnect, &[]).status, Status::CONNECT_FORMAT.dnr());
    disconnect.0[40] = 0;
    assert!(old.write(&mut world, disconnect, &[]).status.is_success());
    let (status, mut new) = connect(&mut world);
    assert!(status.is_success());
    // The old connection carries out nothing more, and its end is not that of the new queue.
    let mut write = Sqe::new(opcode::io::WRITE, 1);
    write.set_blocks(0, 1);
    old.connection.submit(write, &[1; 512], &mut old.out).unwrap();
    old.run(&mut world, 0);
    assert!(old.socket.connection.is_closed() && old.completions.is_empty());
    assert!(world.drives.content[0].iter().all(|byte| *byte == 0));
    old.socket.connection.closed(&world.shared);
    assert_eq!(connect(&mut world).0, Status::SEQUENCE.dnr());
    assert!(new.write(&mut world, write, &[1; 512]).status.is_success());
    // Nor what came together with the Disconnect.
    new.connection.submit(disconnect, &[], &mut new.out).unwrap();
    new.connection.submit(write, &[2; 512], &mut new.out).unwrap();
    new.run(&mut world, 0);
    assert_eq!(new.completions.len(), 1);
    assert_eq!(world.drives.content[0][..512], [1; 512]);
}

/// A host that has lost its association comes back while another core still has a connection of the
/// old one: nothing of that may come after what the host does now, so the new controller is not
/// ready before the connection is closed and its writes have ended.
#[test]
fn a_host_that_comes_back_waits_for_the_end_of_its_old_queues() {
    let mut world = World::new(Limits::default());
    let (mut lost, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let connect = |world: &mut World, cntlid| {
        let mut queue = HostQueue::connect(world, options(1, cntlid, PLAIN, true), &[1 << 20]);
        (queue.completions.pop().unwrap().status, queue.socket)
    };
    let (_, mut old) = connect(&mut world, cntlid);
    let (mut other, of_other) = {
        let mut with = options(0, DYNAMIC, PLAIN, true);
        with.data.hostid = [1; 16];
        let mut queue = HostQueue::connect(&mut world, with, &[1 << 20]);
        let cntlid = queue.completions.pop().unwrap().result as u16;
        (queue, cntlid)
    };
    lost.socket.connection.closed(&world.shared);
    let (mut back, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let ready = |queue: &mut HostQueue, world: &mut World| {
        queue.write(world, property_get(0x1C, false), &[]).result == 1
    };
    assert!(!ready(&mut back, &mut world));
    assert_eq!(connect(&mut world, cntlid).0, Status::SEQUENCE.dnr());
    // Another host has nothing to wait for.
    let mut enable = property_get(0x14, false);
    enable.0[4] = opcode::fabrics::PROPERTY_SET;
    enable.set_dword(12, 0x0046_0001);
    assert!(other.write(&mut world, enable, &[]).status.is_success());
    assert!(ready(&mut other, &mut world), "controller {of_other}");
    // The connection is closed, and writes of it are with the medium.
    old.connection.tick(1, &world.shared, &mut Vec::new());
    assert!(old.connection.is_closed());
    world.shared.0.borrow_mut().orphan([9; 16]);
    old.connection.closed(&world.shared);
    assert!(!ready(&mut back, &mut world));
    world.shared.0.borrow_mut().orphan_ended([9; 16]);
    assert!(ready(&mut back, &mut world));
    let (status, mut queue) = connect(&mut world, cntlid);
    assert!(status.is_success());
    // One queue is lost, with writes: it may not come again before they have ended.
    world.shared.0.borrow_mut().orphan([9; 16]);
    queue.connection.closed(&world.shared);
    assert_eq!(connect(&mut world, cntlid).0, Status::CONNECT_BUSY);
    world.shared.0.borrow_mut().orphan_ended([9; 16]);
    assert!(connect(&mut world, cntlid).0.is_success());
    assert!(ready(&mut back, &mut world), "it stays so");
}

#[test]
fn a_shutdown_flushes_everything() {
    let mut world = World::new(Limits::default());
    let (mut admin, _) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let mut shutdown = property_get(0x14, false);
    shutdown.0[4] = opcode::fabrics::PROPERTY_SET;
    shutdown.set_dword(12, 0x0046_0001 | 1 << 14);
    assert!(admin.write(&mut world, shutdown, &[]).status.is_success());
    assert_eq!(world.drives.flushes, 1);
    assert_eq!(admin.write(&mut world, property_get(0x1C, false), &[]).result & 0xC, 2 << 2, "complete");
    // A second one begins anew.
    let mut configure = |value| {
        shutdown.set_dword(12, value);
        admin.write(&mut world, shutdown, &[]).status.is_success()
    };
    assert!(configure(0x0046_0001) && configure(0x0046_0001 | 1 << 14));
    assert_eq!(world.drives.flushes, 2);
    assert_eq!(admin.write(&mut world, property_get(0x1C, false), &[]).result & 0xC, 2 << 2, "complete");
}

#[test]
fn a_shutdown_ends_with_a_reset() {
    let mut world = World::new(Limits::default());
    let (mut admin, _) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let mut configure = property_get(0x14, false);
    configure.0[4] = opcode::fabrics::PROPERTY_SET;
    world.drives.slow_flush = true;
    for value in [0x0046_0001 | 1 << 14, 0x0046_0000, 0x0046_0001] {
        configure.set_dword(12, value);
        assert!(admin.write(&mut world, configure, &[]).status.is_success());
    }
    assert_eq!(world.drives.flushes, 1);
    // The flush that the shutdown asked for ends now.
    admin.socket.connection.complete(SHUTDOWN_SLOT, Status::SUCCESS, 0, &world.shared, &mut admin.socket.out);
    assert_eq!(admin.write(&mut world, property_get(0x1C, false), &[]).result, 1, "ready, not shut down");
}

#[test]
fn a_shutdown_that_could_not_make_writes_durable_says_so() {
    let mut world = World::new(Limits::default());
    let (mut admin, _) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let mut configure = property_get(0x14, false);
    configure.0[4] = opcode::fabrics::PROPERTY_SET;
    configure.set_dword(12, 0x0046_0001 | 1 << 14);
    world.drives.slow_flush = true;
    assert!(admin.write(&mut world, configure, &[]).status.is_success());
    admin.socket.connection.complete(
        SHUTDOWN_SLOT,
        Status::WRITE_FAULT,
        0,
        &world.shared,
        &mut admin.socket.out,
    );
    let csts = admin.write(&mut world, property_get(0x1C, false), &[]).result;
    assert_eq!((csts >> 2 & 0b11, csts >> 1 & 1), (0b10, 1), "complete, and failed");
}

/// A listener for both families sees the IPv4 addresses of its hosts and its own as IPv6 ones; who
/// reads the log may have IPv4 alone.
#[test]
fn discovery_tells_the_address_of_the_family_that_it_is() {
    for (local, family, address) in [
        ("192.0.2.1:4420", 1, "192.0.2.1"),
        ("[::ffff:192.0.2.1]:4420", 1, "192.0.2.1"),
        ("[2001:db8::1]:4420", 2, "2001:db8::1"),
    ] {
        let mut world = World::new(Limits::default());
        world.local = local.parse().unwrap();
        let mut queue = crate::refused::discovery(&mut world, 0);
        let record = queue.read(&mut world, log(0x70, 1024, 2048), 1024).unwrap();
        assert_eq!(record[1], family, "{local}");
        assert_eq!(DiscoveryEntry::decode(&record).unwrap().traddr, address);
    }
}

#[test]
fn discovery_lists_what_is_reached_there() {
    let mut world = World::new(Limits::default());
    let mut with = options(0, DYNAMIC, PLAIN, true);
    with.data.subnqn = DISCOVERY_NQN.to_owned();
    let mut queue = HostQueue::connect(&mut world, with, &[1 << 20]);
    assert!(queue.completions.pop().unwrap().status.is_success());
    let mut enable = property_get(0x14, false);
    enable.0[4] = opcode::fabrics::PROPERTY_SET;
    enable.set_dword(12, 0x0046_0001);
    assert!(queue.write(&mut world, enable, &[]).status.is_success());
    assert!(Controller::decode(&queue.read(&mut world, identify(1, 0), 4096).unwrap()).discovery);
    assert_eq!(queue.read(&mut world, identify(2, 0), 4096), Err(Status::INVALID_FIELD.dnr()));
    let header = queue.read(&mut world, log(0x70, 1024, 0), 1024).unwrap();
    assert_eq!((header[0], header[8]), (1, 2));
    // In parts, as hosts read it.
    let parts: Vec<u8> = [1024, 2048]
        .iter()
        .flat_map(|at| queue.read(&mut world, log(0x70, 1024, *at), 1024).unwrap())
        .collect();
    let entries: Vec<DiscoveryEntry> =
        parts.chunks(1024).map(|e| DiscoveryEntry::decode(e).unwrap()).collect();
    assert_eq!((entries[0].subtype, entries[0].subnqn.as_str()), (3, DISCOVERY_NQN));
    assert_eq!((entries[1].subtype, entries[1].subnqn.as_str()), (2, NQN));
    assert_eq!((entries[1].traddr.as_str(), entries[1].trsvcid.as_str()), ("192.0.2.1", "4420"));
}
