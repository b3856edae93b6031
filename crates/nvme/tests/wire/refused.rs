//! Commands whose fields or data descriptions do not fit, and what they must leave as it was.

use crate::pair::{HostQueue, admin, options};
use crate::replay::{feature, identify, log, property_get};
use crate::world::{PLAIN, SECOND, World, block_command};
use pumice_nvme::controller::Limits;
use pumice_nvme::pdu::{Kind, push};
use pumice_nvme::spec::connect::DYNAMIC;
use pumice_nvme::spec::{DISCOVERY_NQN, Sgl, Sqe, Status, opcode};

const SET: u8 = opcode::admin::SET_FEATURES;
const GET: u8 = opcode::admin::GET_FEATURES;

fn up(world: &mut World) -> HostQueue {
    admin(world, PLAIN, true, &[1 << 20]).0
}

fn of(nsid: u32, mut sqe: Sqe) -> Sqe {
    sqe.0[4..8].copy_from_slice(&nsid.to_le_bytes());
    sqe
}

pub(crate) fn discovery(world: &mut World, kato_ms: u32) -> HostQueue {
    let mut with = options(0, DYNAMIC, PLAIN, true);
    with.data.subnqn = DISCOVERY_NQN.to_owned();
    with.kato_ms = kato_ms;
    let mut queue = HostQueue::connect(world, with, &[1 << 20]);
    queue.completions.clear();
    let mut enable = property_get(0x14, false);
    enable.0[4] = opcode::fabrics::PROPERTY_SET;
    enable.set_dword(12, 0x0046_0001);
    assert!(queue.write(world, enable, &[]).status.is_success());
    queue
}

/// Linux describes exactly what it asks for. Less room than that ends the command; nothing comes
/// cut short as if it were whole.
#[test]
fn data_that_there_is_no_room_for() {
    let mut world = World::new(Limits::default());
    let mut queue = up(&mut world);
    for (sqe, len) in [
        (identify(0, 1), 4096),
        (identify(1, 0), 4096),
        (identify(2, 0), 4096),
        (identify(3, 1), 4096),
        (log(2, 512, 0), 512),
        (log(1, 64 << 10, 0), 64 << 10),
        (log(0x0C, 56, 0), 56),
        (log(5, 8, 4092), 8),
        (feature(GET, 0x0E, 0), 8),
        (feature(GET, 0x16, 0), 512),
        (feature(GET, 0x81, 1), 16),
    ] {
        for room in [0, 1, 4, len / 2, len - 1, (1 << 20) + 4] {
            let refused = queue.read(&mut world, sqe, room);
            assert_eq!(refused, Err(Status::SGL_LENGTH.dnr()), "{room} bytes for {len} of {sqe:?}");
            assert!(queue.data.is_empty(), "and no data");
        }
        let exact = queue.read(&mut world, sqe, len).unwrap();
        assert_eq!(exact.len(), len as usize);
        // The time runs on, and every refusal is an error in the log.
        for room in [len + 1, 1 << 20] {
            let more = queue.read(&mut world, sqe, room).unwrap();
            assert_eq!((more.len(), &more[..len as usize]), (room as usize, &exact[..]), "{sqe:?}");
            assert!(more[len as usize..].iter().all(|byte| *byte == 0));
        }
        let in_capsule = queue.write(&mut world, sqe, &[0; 4096]);
        assert_eq!(in_capsule.status, Status::SGL_TYPE.dnr());
    }
}

#[test]
fn a_log_page_that_did_not_reach_the_host_was_not_read() {
    let mut world = World::new(Limits::default());
    let mut queue = up(&mut world);
    assert!(queue.write(&mut world, feature(SET, 0x0B, 1 << 8), &[]).status.is_success());
    let event = Sqe::new(opcode::admin::ASYNC_EVENT, 0);
    let change = |world: &World| {
        let mut subsystem = world.shared.0.borrow_mut();
        let namespace = subsystem.namespaces()[1];
        subsystem.change_namespace(2, namespace);
    };
    change(&world);
    queue.connection.submit(event, &[], &mut queue.out).unwrap();
    queue.run(&mut world, 0);
    assert_eq!(queue.completions.pop().map(|done| done.result), Some(0x0004_0002));
    for (sqe, room, status) in [
        (log(4, 4096, 0), 4092, Status::SGL_LENGTH),
        (log(4, 64, 4100), 64, Status::INVALID_FIELD),
        (of(1, log(4, 64, 0)), 64, Status::INVALID_FIELD),
    ] {
        assert_eq!(queue.read(&mut world, sqe, room), Err(status.dnr()));
    }
    // Its event is still masked, and the page still says what has changed.
    change(&world);
    queue.connection.submit(event, &[], &mut queue.out).unwrap();
    queue.run(&mut world, 0);
    assert!(queue.completions.is_empty());
    assert_eq!(queue.read(&mut world, log(4, 8, 0), 8).unwrap(), [2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(queue.read(&mut world, log(4, 8, 0), 8).unwrap(), [0; 8]);
}

#[test]
fn log_pages_are_of_the_controller() {
    let mut world = World::new(Limits::default());
    let mut queue = up(&mut world);
    for id in [0, 1, 2, 3, 4, 5, 0x0C] {
        for (nsid, status) in [
            (0, None),
            (u32::MAX, None),
            (1, Some(Status::INVALID_FIELD)),
            (2, Some(Status::INVALID_FIELD)),
            (3, Some(Status::INVALID_NAMESPACE)),
            (u32::MAX - 1, Some(Status::INVALID_NAMESPACE)),
        ] {
            let read = queue.read(&mut world, of(nsid, log(id, 8, 0)), 8);
            assert_eq!(read.err(), status.map(Status::dnr), "page {id:#04x}, nsid {nsid:#x}");
        }
        let mut by_index = log(id, 8, 0);
        by_index.set_dword(14, 1 << 23);
        assert_eq!(queue.read(&mut world, by_index, 8), Err(Status::INVALID_FIELD.dnr()), "{id:#04x}");
    }
    // The discovery service has no namespaces.
    let mut queue = discovery(&mut world, 5000);
    for (nsid, status) in [(0, None), (u32::MAX, None), (1, Some(Status::INVALID_NAMESPACE.dnr()))] {
        assert_eq!(queue.read(&mut world, of(nsid, log(0x70, 1024, 0)), 1024).err(), status, "{nsid:#x}");
        let get = queue.write(&mut world, of(nsid, feature(GET, 0x0F, 0)), &[]).status;
        assert_eq!(get, status.unwrap_or(Status::SUCCESS), "{nsid:#x}");
    }
}

#[test]
fn features_are_of_the_controller() {
    let mut world = World::new(Limits::default());
    let mut queue = up(&mut world);
    for id in [1, 2, 4, 5, 6, 7, 0x0A, 0x0B, 0x0E, 0x0F, 0x16, 0x81_u32] {
        // Capabilities: bit 1 would say that namespaces have their own.
        let told = queue.write(&mut world, feature(GET, id | 3 << 8, 0), &[]);
        assert_eq!(told.result & 2, 0, "{id:#04x}");
        let mut of =
            |opcode, nsid, value| queue.write(&mut world, of(nsid, feature(opcode, id, value)), &[]).status;
        for nsid in [1, 2] {
            assert_eq!(of(SET, nsid, 0), Status::NOT_OF_NAMESPACE.dnr(), "{id:#04x}");
        }
        for nsid in [3, u32::MAX - 1] {
            assert_eq!(of(SET, nsid, 0), Status::INVALID_NAMESPACE.dnr(), "{id:#04x}");
            assert_eq!(of(GET, nsid, 1), Status::INVALID_NAMESPACE.dnr(), "{id:#04x}");
        }
    }
    // What nvme-cli sends for the device of a namespace.
    for nsid in [0, 1, 2, u32::MAX] {
        let done = queue.write(&mut world, of(nsid, feature(GET, 0x0F, 0)), &[]);
        assert_eq!((done.status, done.result), (Status::SUCCESS, 5000));
    }
    for nsid in [0, u32::MAX] {
        assert!(queue.write(&mut world, of(nsid, feature(SET, 0x0A, 1)), &[]).status.is_success());
    }
}

/// PSDT 00 (PRPs) and 11 (reserved) describe nothing here.
#[test]
fn data_are_described_by_an_sgl() {
    let mut world = World::new(Limits::default());
    let (mut queue, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let mut io = HostQueue::connect(&mut world, options(1, cntlid, PLAIN, true), &[1 << 20]);
    io.completions.clear();
    for (psdt, status) in
        [(0, Some(Status::INVALID_FIELD.dnr())), (1, None), (2, None), (3, Some(Status::INVALID_FIELD.dnr()))]
    {
        let mut sqe = identify(1, 0);
        sqe.0[1] = psdt << 6;
        assert_eq!(queue.read(&mut world, sqe, 4096).err(), status, "PSDT {psdt}");
        let mut sqe = block_command(opcode::io::READ, 1, 0, 1);
        sqe.0[1] = psdt << 6;
        assert_eq!(io.read(&mut world, sqe, 512).err(), status, "PSDT {psdt}");
    }
}

/// A vendor's command towards the controller without data: Linux describes nothing with a transport
/// data block of no length, and breaks off where it is asked for nothing.
#[test]
fn nothing_is_not_asked_for() {
    let mut world = World::new(Limits::default());
    let (_admin, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let mut io = HostQueue::connect(&mut world, options(1, cntlid, PLAIN, true), &[1 << 20]);
    for sgl in [Sgl::transport(0), Sgl::in_capsule(0)] {
        let mut sqe = Sqe::new(0x81, 1);
        sqe.set_sgl(sgl);
        let mut bytes = Vec::new();
        push(&mut bytes, Kind::CapsuleCmd, 0, &sqe.0, PLAIN);
        io.socket.out.clear();
        world.receive(&mut io.socket, SECOND, &bytes);
        assert_eq!((io.socket.out[0], io.socket.out.len()), (5, 24), "a completion: the medium decides");
    }
}

#[test]
fn a_host_has_an_identifier() {
    let mut world = World::new(Limits::default());
    let mut with = options(0, DYNAMIC, PLAIN, true);
    with.data.hostid = [0; 16];
    let mut queue = HostQueue::connect(&mut world, with.clone(), &[1 << 20]);
    let refused = queue.completions.pop().unwrap();
    assert_eq!((refused.status, refused.result), (Status::CONNECT_INVALID.dnr(), 1 << 16));
    // Who reads the discovery log holds nothing that could be another's.
    with.data.subnqn = DISCOVERY_NQN.to_owned();
    let mut queue = HostQueue::connect(&mut world, with, &[1 << 20]);
    assert!(queue.completions.pop().unwrap().status.is_success());
}
