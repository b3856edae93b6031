//! Admin commands: features, log pages by part, events, and what a reset takes back.

use crate::pair::{HostQueue, admin, options};
use crate::replay::{feature, identify, log, property_get};
use crate::world::{PLAIN, SECOND, World};
use pumice_nvme::controller::Limits;
use pumice_nvme::pdu::{H2cData, Kind, Transfer, push};
use pumice_nvme::spec::ana::{AnaLog, AnaState};
use pumice_nvme::spec::connect::DYNAMIC;
use pumice_nvme::spec::feature::{HOST_BEHAVIOR, Timestamp};
use pumice_nvme::spec::{DISCOVERY_NQN, Sgl, Sqe, Status, opcode};

const SET: u8 = opcode::admin::SET_FEATURES;
const GET: u8 = opcode::admin::GET_FEATURES;

fn up(world: &mut World) -> HostQueue {
    admin(world, PLAIN, true, &[1 << 20]).0
}

fn set(queue: &mut HostQueue, world: &mut World, id: u32, value: u32) -> (Status, u64) {
    let done = queue.write(world, feature(SET, id, value), &[]);
    (done.status, done.result)
}

fn get(queue: &mut HostQueue, world: &mut World, id: u32, value: u32) -> (Status, u64) {
    let done = queue.write(world, feature(GET, id, value), &[]);
    (done.status, done.result)
}

/// Dword 10 with a select value.
fn select(id: u32, select: u32) -> u32 {
    id | select << 8
}

fn reset(queue: &mut HostQueue, world: &mut World) {
    for cc in [0x0046_0000, 0x0046_0001] {
        let mut sqe = property_get(0x14, false);
        sqe.0[4] = opcode::fabrics::PROPERTY_SET;
        sqe.set_dword(12, cc);
        assert!(queue.write(world, sqe, &[]).status.is_success());
    }
}

#[test]
fn numbers_are_set_told_and_reset() {
    let mut world = World::new(Limits::default());
    let mut queue = up(&mut world);
    // Feature, default, another value, capabilities.
    for (id, default, other, capabilities) in [
        (0x01, 7, 0x0102_0305, 4),
        (0x04, 343, 400, 4),
        (0x07, 63 | 63 << 16, 3 | 5 << 16, 4),
        (0x0A, 0, 1, 4),
        (0x0B, 0, 0x91F, 4),
        (0x02, 0, 0, 0),
        (0x05, 0, 0, 0),
        (0x06, 1, 1, 0),
    ] {
        assert_eq!(get(&mut queue, &mut world, id, 0), (Status::SUCCESS, default), "{id:#04x}");
        let (status, result) = set(&mut queue, &mut world, id, other as u32);
        assert!(status.is_success(), "{id:#04x}: {status}");
        assert_eq!(result, if id == 7 { other } else { 0 });
        for (which, value) in [(0, other), (1, default), (2, default), (3, capabilities)] {
            let told = get(&mut queue, &mut world, select(id, which), 0);
            assert_eq!(told, (Status::SUCCESS, value), "{id:#04x}, select {which}");
        }
        let refused = get(&mut queue, &mut world, select(id, 4), 0);
        assert_eq!(refused.0, Status::INVALID_FIELD.dnr(), "a reserved select value");
        let saved = set(&mut queue, &mut world, id | 1 << 31, default as u32);
        assert_eq!(saved.0, Status::NOT_SAVEABLE.dnr());
        reset(&mut queue, &mut world);
        assert_eq!(get(&mut queue, &mut world, id, 0), (Status::SUCCESS, default), "{id:#04x} after a reset");
    }
    for (id, value, status) in [
        (0x02, 1, Status::NOT_CHANGEABLE),
        (0x05, 1 << 16, Status::NOT_CHANGEABLE),
        (0x06, 0, Status::NOT_CHANGEABLE),
        (0x04, 2 << 20, Status::INVALID_FIELD),
        (0x04, 1 << 16, Status::INVALID_FIELD),
        (0x07, 0xFFFF, Status::INVALID_FIELD),
        (0x07, 0xFFFF << 16, Status::INVALID_FIELD),
        (0x0A, 2, Status::INVALID_FIELD),
        // An event that is not announced.
        (0x0B, 1 << 9, Status::INVALID_FIELD),
        (0x19, 1, Status::COMMAND_SETS_REJECTED),
        (0x81, 0, Status::SGL_LENGTH),
    ] {
        assert_eq!(set(&mut queue, &mut world, id, value).0, status.dnr(), "{id:#04x}");
    }
    // Keep alive is the host's from Connect on, and a reset leaves it.
    assert_eq!(get(&mut queue, &mut world, 0x0F, 0).1, 5000);
    assert_eq!(set(&mut queue, &mut world, 0x0F, 9000), (Status::SUCCESS, 0));
    reset(&mut queue, &mut world);
    assert_eq!(get(&mut queue, &mut world, 0x0F, 0).1, 9000);
}

#[test]
fn features_that_do_not_exist() {
    let mut world = World::new(Limits::default());
    let mut queue = up(&mut world);
    let known = [1, 2, 4, 5, 6, 7, 0x0A, 0x0B, 0x0E, 0x0F, 0x16, 0x19, 0x81];
    for id in 0..=255 {
        let expected = if known.contains(&id) { Status::SUCCESS } else { Status::INVALID_FIELD.dnr() };
        assert_eq!(get(&mut queue, &mut world, select(id, 3), 0).0, expected, "{id:#04x}");
        if !known.contains(&id) {
            for which in 0..3 {
                assert_eq!(get(&mut queue, &mut world, select(id, which), 0).0, expected, "{id:#04x}");
            }
            assert_eq!(set(&mut queue, &mut world, id, 0).0, expected, "{id:#04x}");
        }
    }
}

#[test]
fn the_number_of_queues_is_settled_before_there_are_any() {
    let mut world = World::new(Limits::default());
    let (mut queue, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    assert_eq!(set(&mut queue, &mut world, 7, 999 | 1 << 16), (Status::SUCCESS, 63 | 1 << 16));
    let _io = HostQueue::connect(&mut world, options(1, cntlid, PLAIN, true), &[1 << 20]);
    assert_eq!(set(&mut queue, &mut world, 7, 1).0, Status::SEQUENCE.dnr());
    assert_eq!(get(&mut queue, &mut world, 7, 0).1, 63 | 1 << 16);
    // Two completion queues were granted: there is no third queue.
    for (qid, status) in [(2, Status::SUCCESS), (3, Status::INVALID_QUEUE.dnr())] {
        let mut io = HostQueue::connect(&mut world, options(qid, cntlid, PLAIN, true), &[1 << 20]);
        assert_eq!(io.completions.pop().unwrap().status, status);
    }
}

#[test]
fn the_time_runs_on_from_what_was_set() {
    let mut world = World::new(Limits::default());
    let mut queue = up(&mut world);
    let read = |queue: &mut HostQueue, world: &mut World, now: u64| {
        let cid = queue.connection.submit_read(feature(GET, 0x0E, 0), 8, &mut queue.out).unwrap();
        queue.run(world, now);
        assert!(queue.completions.pop().unwrap().status.is_success());
        Timestamp::decode(&queue.data.remove(&cid).unwrap())
    };
    let from_reset = Timestamp { ms: 3000, from_host: false, stopped: false };
    assert_eq!(read(&mut queue, &mut world, 3 * SECOND), from_reset);
    let set_at = Timestamp { ms: 1_700_000_000_000, from_host: false, stopped: true };
    let cid = queue.connection.submit(feature(SET, 0x0E, 0), &set_at.encode(), &mut queue.out).unwrap();
    queue.run(&mut world, 4 * SECOND);
    assert_eq!(queue.completions.pop().map(|done| (done.cid, done.status)), Some((cid, Status::SUCCESS)));
    let later = read(&mut queue, &mut world, 6 * SECOND);
    assert_eq!(later, Timestamp { ms: 1_700_000_002_000, from_host: true, stopped: false });
    // Eight bytes, no more and no fewer.
    for len in [1, 7, 9, 4096] {
        let done = queue.write(&mut world, feature(SET, 0x0E, 0), &vec![0; len]);
        assert_eq!(done.status, Status::SGL_LENGTH.dnr(), "{len}");
    }
    // What is read beyond them is zeros.
    let long = queue.read(&mut world, feature(GET, 0x0E, 0), 64).unwrap();
    assert_eq!((long.len(), long[6]), (64, 2));
    assert!(long[8..].iter().all(|b| *b == 0));
    assert_eq!(queue.read(&mut world, feature(GET, select(0x0E, 1), 0), 8).unwrap(), [0; 8]);
}

#[test]
fn host_behavior_is_a_controllers_own() {
    let mut world = World::new(Limits::default());
    let (mut one, mut two) = (up(&mut world), up(&mut world));
    let id = u32::from(HOST_BEHAVIOR);
    let mut data = vec![0; 512];
    data[..3].copy_from_slice(&[1, 0, 1]);
    assert!(one.write(&mut world, feature(SET, id, 0), &data).status.is_success());
    assert_eq!(one.read(&mut world, feature(GET, id, 0), 512).unwrap(), data);
    assert_eq!(two.read(&mut world, feature(GET, id, 0), 512).unwrap(), [0; 512]);
    for (at, value) in [(0, 2), (1, 2), (2, 0xFF), (3, 1), (511, 1)] {
        let mut wrong = vec![0; 512];
        wrong[at] = value;
        let done = one.write(&mut world, feature(SET, id, 0), &wrong);
        assert_eq!(done.status, Status::INVALID_FIELD.dnr(), "byte {at}");
    }
    assert_eq!(one.read(&mut world, feature(GET, id, 0), 512).unwrap(), data, "and nothing was changed");
}

#[test]
fn the_host_id_is_that_of_connect() {
    let mut world = World::new(Limits::default());
    let mut queue = up(&mut world);
    assert_eq!(queue.read(&mut world, feature(GET, 0x81, 1), 16).unwrap(), [9; 16]);
    assert_eq!(queue.read(&mut world, feature(GET, 0x81, 0), 8), Err(Status::INVALID_FIELD.dnr()));
    let mut say = |value, id: &[u8]| queue.write(&mut world, feature(SET, 0x81, value), id).status;
    assert_eq!(say(1, &[9; 16]), Status::SUCCESS);
    assert_eq!(say(1, &[8; 16]), Status::SEQUENCE.dnr());
    assert_eq!(say(0, &[9; 16]), Status::INVALID_FIELD.dnr());
}

/// Data of an admin command may come by R2T as well; hosts are free to.
#[test]
fn a_features_data_on_request() {
    let mut world = World::new(Limits::default());
    let mut queue = up(&mut world);
    queue.socket.out.clear();
    let mut sqe = feature(SET, 0x0E, 0);
    sqe.set_cid(9);
    sqe.set_sgl(Sgl::transport(8));
    let mut bytes = Vec::new();
    push(&mut bytes, Kind::CapsuleCmd, 0, &sqe.0, PLAIN);
    world.receive(&mut queue.socket, 0, &bytes);
    let asked = Transfer::decode(&queue.socket.out);
    assert_eq!((queue.socket.out[0], asked.cccid, asked.offset, asked.len), (9, 9, 0, 8));
    queue.socket.out.clear();
    let mut bytes = Vec::new();
    H2cData::push(&mut bytes, asked, true, &[1, 0, 0, 0, 0, 0, 0, 0], PLAIN);
    world.receive(&mut queue.socket, 0, &bytes);
    assert_eq!((queue.socket.out[0], &queue.socket.out[20..24]), (5, &[9, 0, 0, 0][..]));
    queue.socket.out.clear();
    assert_eq!(queue.read(&mut world, feature(GET, 0x0E, 0), 8).unwrap()[..7], [1, 0, 0, 0, 0, 0, 2]);
}

#[test]
fn log_pages_come_in_any_parts() {
    let mut world = World::new(Limits::default());
    let mut queue = up(&mut world);
    for (id, len) in [(0, 1024), (1, 4096), (2, 512), (3, 512), (4, 4096), (5, 4096), (0x0C, 56_u32)] {
        let whole = queue.read(&mut world, log(id, len, 0), len).unwrap();
        for (offset, part) in [(0, 4), (4, 8), (len - 4, 4), (len / 8 * 4, 64)] {
            let got = queue.read(&mut world, log(id, part, offset), part).unwrap();
            let mut expected = whole[offset as usize..(offset + part).min(len) as usize].to_vec();
            expected.resize(part as usize, 0);
            assert_eq!(got, expected, "page {id:#04x}, {part} bytes at {offset}");
        }
        // Behind the end there is nothing; past it is an error.
        assert_eq!(queue.read(&mut world, log(id, 64, len), 64).unwrap(), [0; 64]);
        for offset in [len + 4, 2, u32::MAX - 3] {
            let refused = queue.read(&mut world, log(id, 64, offset), 64);
            assert_eq!(refused, Err(Status::INVALID_FIELD.dnr()), "page {id:#04x} at {offset}");
        }
        let mut far = log(id, 64, 0);
        far.set_dword(13, 1);
        assert_eq!(queue.read(&mut world, far, 64), Err(Status::INVALID_FIELD.dnr()), "LPOU");
        // NUMDU: 256 KiB and four bytes, and more than one command moves.
        let mut long = log(id, 4, 0);
        long.set_dword(11, 1);
        let read = queue.read(&mut world, long, (256 << 10) + 4).unwrap();
        // The refusals above are errors, and the first page counts them.
        assert!(id == 1 || read[..4] == whole[..4], "page {id:#04x}");
        long.set_dword(11, 4);
        assert_eq!(queue.read(&mut world, long, 64), Err(Status::INVALID_FIELD.dnr()), "NUMDU");
    }
    let mut effects = log(5, 4096, 0);
    effects.set_dword(14, 2 << 24);
    assert_eq!(queue.read(&mut world, effects, 4096), Err(Status::INVALID_FIELD.dnr()), "zoned namespaces");
    let announced = queue.read(&mut world, log(0, 1024, 0), 1024).unwrap();
    for id in 0..=255 {
        let known = announced[usize::from(id) * 4] & 1 != 0;
        let read = queue.read(&mut world, log(id, 4, 0), 4);
        assert_eq!(read.err(), (!known).then_some(Status::INVALID_LOG.dnr()), "page {id:#04x}");
    }
}

#[test]
fn every_controller_tells_the_same_of_access() {
    let mut world = World::new(Limits::default());
    let (mut one, mut two) = (up(&mut world), up(&mut world));
    let read = |queue: &mut HostQueue, world: &mut World| {
        queue.read(world, log(0x0C, 16 + 32 + 8, 0), 16 + 32 + 8).unwrap()
    };
    let page = read(&mut one, &mut world);
    assert_eq!(page, read(&mut two, &mut world));
    let access = AnaLog::decode(&page).unwrap();
    let group = &access.groups[0];
    assert_eq!((access.changes, access.groups.len()), (1, 1));
    assert_eq!((group.group, group.changes, group.state), (1, 1, 1));
    assert_eq!(group.namespaces, [1, 2]);
    // What Linux checks of Identify before it reads the page.
    let controller = one.read(&mut world, identify(1, 0), 4096).unwrap();
    let dword = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| controller[at + i]));
    assert_eq!(
        (controller[76] & 1 << 3, dword(344), dword(348)),
        (1 << 3, 1, 1),
        "CMIC, ANAGRPMAX, NANAGRPID"
    );
    assert!(dword(540) != 0 && dword(540) <= dword(516), "MNAN");
    for (cns, at) in [(0, 92), (8, 4)] {
        let namespace = one.read(&mut world, identify(cns, 2), 4096).unwrap();
        assert_eq!(namespace[at..at + 4], [1, 0, 0, 0], "ANAGRPID of CNS {cns:02}");
    }
    // Groups only.
    let mut groups = log(0x0C, 64, 0);
    groups.0[41] |= 1;
    let page = one.read(&mut world, groups, 64).unwrap();
    let access = AnaLog::decode(&page).unwrap();
    assert!(access.groups.len() == 1 && access.groups[0].namespaces.is_empty());

    // A change: an event for who wants it, once until the page is read.
    assert_eq!(set(&mut one, &mut world, 0x0B, 1 << 11).0, Status::SUCCESS);
    for _ in 0..2 {
        one.connection.submit(Sqe::new(opcode::admin::ASYNC_EVENT, 0), &[], &mut one.out).unwrap();
        two.connection.submit(Sqe::new(opcode::admin::ASYNC_EVENT, 0), &[], &mut two.out).unwrap();
    }
    for (queue, now) in [(&mut one, 0), (&mut two, 0)] {
        queue.run(&mut world, now);
    }
    let mut changed = |world: &mut World, state| {
        world.shared.0.borrow_mut().set_access(state);
        [&mut one, &mut two].map(|queue| {
            queue.socket.connection.tick(SECOND, &world.shared, &mut queue.socket.out);
            queue.run(world, SECOND);
            let results: Vec<u64> = queue.completions.drain(..).map(|done| done.result).collect();
            results
        })
    };
    assert_eq!(changed(&mut world, AnaState::Optimized), [vec![], vec![]], "it was that before");
    assert_eq!(changed(&mut world, AnaState::NonOptimized), [vec![0x000C_0302], vec![]]);
    assert_eq!(changed(&mut world, AnaState::Optimized), [vec![], vec![]], "not before the page is read");
    let page = read(&mut one, &mut world);
    let access = AnaLog::decode(&page).unwrap();
    assert_eq!((access.changes, access.groups[0].changes, access.groups[0].state), (3, 3, 1));
    world.shared.0.borrow_mut().set_access(AnaState::NonOptimized);
    one.socket.connection.tick(SECOND, &world.shared, &mut one.socket.out);
    one.run(&mut world, SECOND);
    assert_eq!(one.completions.pop().unwrap().result, 0x000C_0302);
}

#[test]
fn a_temperature_past_its_threshold_is_a_warning_and_an_event() {
    let mut world = World::new(Limits::default());
    let mut queue = up(&mut world);
    assert_eq!(set(&mut queue, &mut world, 0x0B, 1 << 1).0, Status::SUCCESS);
    queue.connection.submit(Sqe::new(opcode::admin::ASYNC_EVENT, 0), &[], &mut queue.out).unwrap();
    queue.run(&mut world, 0);
    assert!(queue.completions.is_empty());
    let sqe = feature(SET, 4, 298);
    queue.connection.submit(sqe, &[], &mut queue.out).unwrap();
    queue.run(&mut world, 0);
    let event = queue.completions.pop().unwrap();
    assert_eq!((event.status, event.result), (Status::SUCCESS, 0x0002_0101));
    queue.completions.clear();
    let health = queue.read(&mut world, log(2, 512, 0), 512).unwrap();
    assert_eq!(health[..3], [2, 42, 1], "298 K is at the threshold");
    assert_eq!(set(&mut queue, &mut world, 4, 299).0, Status::SUCCESS);
    assert_eq!(set(&mut queue, &mut world, 4, 297 | 1 << 20).0, Status::SUCCESS);
    assert_eq!(queue.read(&mut world, log(2, 512, 0), 512).unwrap()[0], 0);
    assert_eq!(get(&mut queue, &mut world, 4, 1 << 20).1, 297, "the other threshold");
}

#[test]
fn events_and_their_limits() {
    let mut world = World::new(Limits::default());
    let mut queue = up(&mut world);
    let event = Sqe::new(opcode::admin::ASYNC_EVENT, 0);
    let mut cids = Vec::new();
    for _ in 0..4 {
        cids.push(queue.connection.submit(event, &[], &mut queue.out).unwrap());
    }
    queue.run(&mut world, 0);
    assert!(queue.completions.is_empty());
    assert_eq!(queue.write(&mut world, event, &[]).status, Status::AER_LIMIT.dnr());
    // Abort finds one of them, by queue and id; nothing else can be aborted.
    let abort = |sqid: u32, cid: u16| {
        let mut sqe = Sqe::new(opcode::admin::ABORT, 0);
        sqe.set_dword(10, sqid | u32::from(cid) << 16);
        sqe
    };
    for (sqid, cid) in [(1, cids[0]), (0, 0xFFFF)] {
        let done = queue.write(&mut world, abort(sqid, cid), &[]);
        assert_eq!((done.status, done.result), (Status::SUCCESS, 1), "not aborted");
    }
    let cid = queue.connection.submit(abort(0, cids[2]), &[], &mut queue.out).unwrap();
    queue.run(&mut world, 0);
    let done: Vec<_> = queue.completions.drain(..).map(|done| (done.cid, done.status, done.result)).collect();
    assert_eq!(done, [(cids[2], Status::ABORTED, 0), (cid, Status::SUCCESS, 0)]);
    // A reset takes the others without a word.
    reset(&mut queue, &mut world);
    let mut again = up(&mut world);
    again.run(&mut world, 0);
    for _ in 0..4 {
        queue.connection.submit(event, &[], &mut queue.out).unwrap();
    }
    queue.run(&mut world, 0);
    assert!(queue.completions.is_empty(), "four wait again");
}

/// Flow control: the queue's head comes with each completion, and counts to the size of the queue;
/// without it, it is all ones.
#[test]
fn the_head_of_the_queue() {
    for flow_control in [true, false] {
        let mut world = World::new(Limits::default());
        let mut queue = HostQueue::connect(&mut world, options(0, DYNAMIC, PLAIN, flow_control), &[1 << 20]);
        // 32 commands in flight: a queue of 33 entries.
        let mut heads = Vec::new();
        for i in 0..70_u16 {
            queue.socket.out.clear();
            let mut sqe = property_get(8, false);
            sqe.set_cid(i);
            let mut bytes = Vec::new();
            push(&mut bytes, Kind::CapsuleCmd, 0, &sqe.0, PLAIN);
            world.receive(&mut queue.socket, 0, &bytes);
            heads.push(u16::from_le_bytes([queue.socket.out[16], queue.socket.out[17]]));
        }
        // Connect was the first.
        let expected = |i: u16| if flow_control { (i + 2) % 33 } else { u16::MAX };
        assert_eq!(heads, (0..70).map(expected).collect::<Vec<_>>());
    }
}

#[test]
fn a_discovery_controller_does_what_it_must() {
    let mut world = World::new(Limits::default());
    let mut with = options(0, DYNAMIC, PLAIN, true);
    with.data.subnqn = DISCOVERY_NQN.to_owned();
    let mut queue = HostQueue::connect(&mut world, with, &[1 << 20]);
    let cntlid = queue.completions.pop().unwrap().result as u16;
    reset(&mut queue, &mut world);
    let must = [0x02, 0x06, 0x09, 0x0A, 0x0C, 0x18, 0x7F];
    for code in 0..=255 {
        if must.contains(&code) {
            continue;
        }
        let done = queue.write(&mut world, Sqe::new(code, 0), &[]);
        assert_eq!(done.status, Status::INVALID_OPCODE.dnr(), "{code:#04x}");
    }
    for cns in 0..=255 {
        let expected = if cns == 1 { None } else { Some(Status::INVALID_FIELD.dnr()) };
        assert_eq!(queue.read(&mut world, identify(cns, 1), 4096).err(), expected, "CNS {cns:#04x}");
    }
    for id in 0..=255 {
        let expected = if [0, 0x70].contains(&id) { None } else { Some(Status::INVALID_LOG.dnr()) };
        assert_eq!(queue.read(&mut world, log(id, 64, 0), 64).err(), expected, "page {id:#04x}");
    }
    for id in 0..=255 {
        let known = [0x0B, 0x0F].contains(&id);
        let expected = if known { Status::SUCCESS } else { Status::INVALID_FIELD.dnr() };
        assert_eq!(get(&mut queue, &mut world, id, 0).0, expected, "feature {id:#04x}");
    }
    assert_eq!(set(&mut queue, &mut world, 0x0B, 1 << 31).0, Status::SUCCESS);
    assert_eq!(set(&mut queue, &mut world, 0x0B, 1 << 8).0, Status::INVALID_FIELD.dnr());
    let controller = queue.read(&mut world, identify(1, 1), 4096).unwrap();
    assert_eq!(controller[261], 1 << 2, "LPA: no log of effects");
    // No I/O queue.
    let mut with = options(1, cntlid, PLAIN, true);
    with.data.subnqn = DISCOVERY_NQN.to_owned();
    let mut io = HostQueue::connect(&mut world, with, &[1 << 20]);
    let refused = io.completions.pop().unwrap();
    assert_eq!((refused.status, refused.result), (Status::CONNECT_INVALID.dnr(), 256 | 1 << 16));
    let mut io = HostQueue::connect(&mut world, options(1, cntlid, PLAIN, true), &[1 << 20]);
    let refused = io.completions.pop().unwrap();
    assert_eq!((refused.status, refused.result), (Status::CONNECT_INVALID.dnr(), 16 | 1 << 16));
}

/// CAP says that there can be several command sets: then hosts enable all that there are.
#[test]
fn the_nvm_command_set_or_all_of_them_can_be_enabled() {
    for css in 0..8 {
        let mut world = World::new(Limits::default());
        let mut queue = HostQueue::connect(&mut world, options(0, DYNAMIC, PLAIN, true), &[1 << 20]);
        queue.completions.clear();
        let cap = queue.write(&mut world, property_get(0, true), &[]).result;
        assert_eq!((cap >> 37 & 0xFF, cap >> 43 & 1), (0b100_0001, 1));
        let mut enable = property_get(0x14, false);
        enable.0[4] = opcode::fabrics::PROPERTY_SET;
        enable.set_dword(12, 0x0046_0001 | css << 4);
        assert!(queue.write(&mut world, enable, &[]).status.is_success());
        let csts = queue.write(&mut world, property_get(0x1C, false), &[]).result;
        let expected = if css == 0 || css == 6 { 1 } else { 2 };
        assert_eq!(csts & 3, expected, "CC.CSS {css}");
    }
}
