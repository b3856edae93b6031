//! Hosts that have to prove their names: `docs/design/authentication.md`.

use crate::pair::{HostQueue, options};
use crate::world::{HOST, NQN, PLAIN, SECOND, World, block_command};
use pumice_nvme::auth::credentials::Credentials;
use pumice_nvme::auth::failure::Failure;
use pumice_nvme::auth::group::{Ffdhe, Group};
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::host::{Action, Host};
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::policy::Policy;
use pumice_nvme::auth::secret::Seed;
use pumice_nvme::controller::{Access, HostKeys, Limits, Notice};
use pumice_nvme::host::Options;
use pumice_nvme::spec::connect::{AUTHENTICATE, CONCATENATE, DYNAMIC};
use pumice_nvme::spec::opcode::{FABRICS, admin, fabrics, io};
use pumice_nvme::spec::{Sqe, Status, authentication};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const F2048: Group = Group::Ffdhe(Ffdhe::F2048);

fn keys(key: u8, group: Group) -> HostKeys {
    let chap = |byte| ChapKey::new(Some(Hash::Sha256), &[byte; 32]).unwrap();
    let credentials =
        Credentials::new(HOST.parse().unwrap(), NQN.parse().unwrap(), &[chap(key)], &[chap(99)]).unwrap();
    let policy = Policy::new(&[Hash::Sha256], &[group]).unwrap();
    HostKeys { credentials: Arc::new(credentials), policy: Arc::new(policy) }
}

/// A subsystem whose hosts have this key.
fn world(key: u8, group: Group) -> World {
    let mut world = World::new(Limits::default());
    world.drives.keys = Some(keys(key, group));
    world
}

fn host(key: u8, group: Group) -> Host {
    let HostKeys { credentials, policy } = keys(key, group);
    Host::new(credentials, policy, 60 * SECOND)
}

/// Another one each time: sequence numbers do not come twice.
fn seed() -> Seed {
    static COUNT: AtomicU8 = AtomicU8::new(100);
    Seed::new(&[COUNT.fetch_add(1, Ordering::Relaxed); Seed::BYTES])
}

/// Sends a message of the host, and fetches the answer.
fn exchange(queue: &mut HostQueue, world: &mut World, message: &[u8]) -> Result<Vec<u8>, Status> {
    let sent = queue.write(world, authentication::send(message.len() as u32), message).status;
    if !sent.is_success() {
        return Err(sent);
    }
    queue.read(world, authentication::receive(4096), 4096)
}

/// One authentication, to its end. `before` may do something before each message that is sent.
fn prove(
    queue: &mut HostQueue,
    world: &mut World,
    host: &mut Host,
    before: &mut dyn FnMut(usize, &mut HostQueue, &mut World),
) -> Result<(), String> {
    let mut action = host.start(seed(), 0);
    for step in 0.. {
        action = match action {
            Action::Send(message) => {
                before(step, queue, world);
                let answer =
                    exchange(queue, world, &message).map_err(|status| format!("{:x}", status.code()))?;
                host.received(&answer, seed(), 0)
            }
            Action::Compute(job) => host.computed(job.run(), 0),
            Action::Finish(message) => {
                let status = queue.write(world, authentication::send(message.len() as u32), &message).status;
                return if status.is_success() { Ok(()) } else { Err(format!("{:x}", status.code())) };
            }
            Action::Done => return Ok(()),
            _ => return Err(host.failure().unwrap().to_string()),
        };
    }
    unreachable!()
}

fn nothing(_: usize, _: &mut HostQueue, _: &mut World) {}

/// Connects a queue; the controller's id. It is not proven.
fn connect(world: &mut World, qid: u16, cntlid: u16) -> (HostQueue, u64) {
    let mut queue = HostQueue::connect(world, options(qid, cntlid, PLAIN, true), &[1 << 20]);
    let done = queue.completions.pop().unwrap();
    assert!(done.status.is_success(), "{}", done.status);
    (queue, done.result)
}

/// An admin queue that is proven, and enabled.
fn proven(world: &mut World, host: &mut Host) -> (HostQueue, u16) {
    let (mut queue, result) = connect(world, 0, DYNAMIC);
    prove(&mut queue, world, host, &mut nothing).unwrap();
    let mut enable = Sqe::new(FABRICS, 0);
    enable.0[4] = fabrics::PROPERTY_SET;
    enable.set_dword(11, 0x14);
    enable.set_dword(12, 0x0046_0001);
    assert!(queue.write(world, enable, &[]).status.is_success());
    (queue, result as u16)
}

fn unproven(queue: &mut HostQueue) -> Option<Failure> {
    let notices = queue.socket.connection.take_notices();
    notices.into_iter().find_map(|notice| match notice {
        Notice::Unproven { failure, .. } => Some(failure),
        _ => None,
    })
}

#[test]
fn a_host_is_nobody_until_it_has_proven_its_name() {
    for group in [Group::Null, F2048] {
        let mut world = world(1, group);
        let (mut queue, result) = connect(&mut world, 0, DYNAMIC);
        assert_eq!(result & (AUTHENTICATE | CONCATENATE), AUTHENTICATE);
        let count = |world: &World| world.shared.with(|s| (s.hosts(), s.changes(), s.places().hosts));
        for sqe in [Sqe::new(admin::IDENTIFY, 0), Sqe::new(admin::KEEP_ALIVE, 0), Sqe::new(FABRICS, 0)] {
            let status = queue.write(&mut world, sqe, &[]).status;
            assert_eq!(status, Status::AUTHENTICATION_REQUIRED.dnr());
        }
        assert_eq!(count(&world), (0, 0, 0));
        assert_eq!((queue.socket.connection.host(), queue.socket.connection.host_name()), (None, None));
        assert!(queue.socket.connection.take_notices().is_empty());
        let mut before = |_: usize, queue: &mut HostQueue, world: &mut World| {
            assert_eq!(count(world), (0, 0, 0));
            assert_eq!(queue.socket.connection.host(), None);
        };
        prove(&mut queue, &mut world, &mut host(1, group), &mut before).unwrap();
        assert_eq!(count(&world), (1, 1, 1));
        assert_eq!(queue.socket.connection.host_name(), Some(HOST));
        let notices = queue.socket.connection.take_notices();
        assert!(matches!(notices[..], [Notice::Associated { .. }]), "{notices:?}");
        let status = queue.write(&mut world, Sqe::new(admin::KEEP_ALIVE, 0), &[]).status;
        assert_ne!(status.code(), Status::AUTHENTICATION_REQUIRED.code());
    }
}

/// It keeps nobody from holding the drives.
#[test]
fn a_host_without_proof_is_in_nobodys_way() {
    let mut world = world(1, Group::Null);
    let (_first, cntlid) = proven(&mut world, &mut host(1, Group::Null));
    let (_stranger, _) = connect(&mut world, 0, DYNAMIC);
    assert!(world.shared.with(|s| s.hold(cntlid)));
    // And it cannot come in while they are held.
    let (mut other, _) = connect(&mut world, 0, DYNAMIC);
    let refused = prove(&mut other, &mut world, &mut host(1, Group::Null), &mut nothing);
    assert_eq!(refused.unwrap_err(), format!("{:x}", Status::CONNECT_BUSY.code()));
    assert!(other.socket.connection.is_closed());
}

#[test]
fn an_io_queue_proves_the_same_name_and_takes_its_number_then() {
    let mut world = world(1, F2048);
    let (_admin, cntlid) = proven(&mut world, &mut host(1, F2048));
    let (mut first, _) = connect(&mut world, 1, cntlid);
    let (mut second, _) = connect(&mut world, 1, cntlid);
    let read = block_command(io::READ, 1, 0, 1);
    assert_eq!(first.read(&mut world, read, 512), Err(Status::AUTHENTICATION_REQUIRED.dnr()));
    prove(&mut second, &mut world, &mut host(1, F2048), &mut nothing).unwrap();
    assert_eq!(second.read(&mut world, read, 512).unwrap().len(), 512);
    let late = prove(&mut first, &mut world, &mut host(1, F2048), &mut nothing).unwrap_err();
    assert_eq!(late, format!("{:x}", Status::SEQUENCE.code()), "the number is taken");
    // The end of one that never was proven is not the end of the queue that has the number.
    first.socket.connection.closed(&world.shared);
    assert_eq!(second.read(&mut world, read, 512).unwrap().len(), 512);
    let again = HostQueue::connect(&mut world, options(1, cntlid, PLAIN, true), &[1 << 20]);
    assert_eq!(again.completions[0].status, Status::SEQUENCE.dnr());
}

#[test]
fn a_wrong_key_is_told_in_one_message_and_the_connection_is_closed() {
    let mut world = world(1, F2048);
    let (mut queue, _) = connect(&mut world, 0, DYNAMIC);
    let told = prove(&mut queue, &mut world, &mut host(2, F2048), &mut nothing).unwrap_err();
    assert!(told.contains("explanation 1"), "{told}");
    assert!(queue.socket.connection.is_closed());
    assert_eq!(unproven(&mut queue), Some(Failure::Response));
    queue.socket.connection.closed(&world.shared);
    assert!(!world.shared.with(|s| s.stands(1)));
}

#[test]
fn ten_seconds_from_accept_to_proof() {
    for (at, closed) in [(9, false), (10, true)] {
        let mut world = world(1, F2048);
        let options = Options { kato_ms: 60_000, ..options(0, DYNAMIC, PLAIN, true) };
        let mut queue = HostQueue::connect(&mut world, options, &[1 << 20]);
        queue.completions.clear();
        let negotiate = match host(1, F2048).start(seed(), 0) {
            Action::Send(message) => message,
            action => panic!("{action:?}"),
        };
        exchange(&mut queue, &mut world, &negotiate).unwrap();
        queue.socket.connection.tick(at * SECOND, &world.shared, &mut queue.socket.out);
        assert_eq!(queue.socket.connection.is_closed(), closed, "{at} s");
    }
}

/// The step limit of the exchange, KATO, is 5 s here, and counts too.
#[test]
fn a_step_has_the_time_of_the_keep_alive() {
    let mut world = world(1, Group::Null);
    let (mut queue, _) = connect(&mut world, 0, DYNAMIC);
    queue.socket.connection.tick(5 * SECOND, &world.shared, &mut queue.socket.out);
    assert_eq!(unproven(&mut queue), Some(Failure::Deadline));
    assert!(queue.socket.connection.is_closed());
}

/// The table changes between Challenge and Reply.
#[test]
fn a_host_that_was_removed_meanwhile_stays_out() {
    type Change = fn(&mut World);
    let removed: Change = |world| world.drives.closed = true;
    let other_key: Change = |world| world.drives.keys = Some(keys(3, F2048));
    let next_key: Change = |world| world.drives.keys = None;
    for (change, outcome) in [
        (removed, Some(Status::CONNECT_HOST)),
        (other_key, Some(Status::AUTHENTICATION_REQUIRED)),
        (next_key, None),
    ] {
        let mut world = world(1, F2048);
        let (mut queue, _) = connect(&mut world, 0, DYNAMIC);
        let mut before = |step: usize, _: &mut HostQueue, world: &mut World| {
            if step == 2 {
                change(world);
            }
        };
        let proven = prove(&mut queue, &mut world, &mut host(1, F2048), &mut before);
        // The host has sent its proof, and then the one message more that the controller's needs.
        let live = queue.socket.connection.host().is_some();
        assert_eq!(live, outcome.is_none(), "{outcome:?} {proven:?}");
        if outcome.is_some() {
            assert!(queue.socket.connection.is_closed());
        }
    }
}

#[test]
fn commands_go_on_while_a_host_proves_itself_again() {
    let mut world = world(1, F2048);
    let mut ends = [host(1, F2048), host(1, F2048)];
    let (mut admin, cntlid) = proven(&mut world, &mut ends[0]);
    let (mut queue, _) = connect(&mut world, 1, cntlid);
    prove(&mut queue, &mut world, &mut ends[1], &mut nothing).unwrap();
    let reads = std::cell::Cell::new(0);
    let mut before = |_: usize, queue: &mut HostQueue, world: &mut World| {
        assert_eq!(queue.read(world, block_command(io::READ, 1, 0, 1), 512).unwrap().len(), 512);
        reads.set(reads.get() + 1);
    };
    prove(&mut queue, &mut world, &mut ends[1], &mut before).unwrap();
    assert!(reads.get() >= 2);
    // The next key counts at once, and the old one no more.
    world.drives.keys = Some(keys(4, F2048));
    prove(&mut admin, &mut world, &mut host(4, F2048), &mut nothing).unwrap();
    let mut old = host(1, F2048);
    let failed = prove(&mut queue, &mut world, &mut old, &mut before).unwrap_err();
    assert!(failed.contains("explanation 1"), "{failed}");
    assert!(queue.socket.connection.is_closed());
    // The association ends with it, whichever queue it was.
    assert!(admin.socket.connection.has_ended());
    assert!(!world.shared.with(|s| s.stands(cntlid)));
}

/// Nothing is carried out after a failed authentication, even before its message is fetched.
#[test]
fn a_failed_authentication_ends_the_work_of_a_queue() {
    let mut world = world(1, Group::Null);
    let (_admin, cntlid) = proven(&mut world, &mut host(1, Group::Null));
    let (mut queue, _) = connect(&mut world, 1, cntlid);
    prove(&mut queue, &mut world, &mut host(1, Group::Null), &mut nothing).unwrap();
    let junk = [9_u8; 16];
    assert!(queue.write(&mut world, authentication::send(16), &junk).status.is_success());
    let write = block_command(io::WRITE, 1, 0, 1);
    let status = queue.write(&mut world, write, &[7; 512]).status;
    assert_eq!(status, Status::AUTHENTICATION_REQUIRED.dnr());
    assert_eq!(world.drives.content[0][..512], [0; 512]);
    assert!(queue.socket.connection.host().is_some(), "its writes under way are still its host's");
    queue.socket.connection.tick(10 * SECOND, &world.shared, &mut queue.socket.out);
    assert!(queue.socket.connection.is_closed());
}

#[test]
fn sixteen_strangers_of_an_address_and_256_of_all() {
    let mut world = world(1, Group::Null);
    let mut all: Vec<HostQueue> = (0..16).map(|_| connect(&mut world, 0, DYNAMIC).0).collect();
    let ended = |all: &[HostQueue]| {
        let ended = all.iter().enumerate().filter(|(_, queue)| queue.socket.connection.has_ended());
        let ended: Vec<usize> = ended.map(|(i, _)| i).collect();
        ended
    };
    assert!(ended(&all).is_empty());
    all.push(connect(&mut world, 0, DYNAMIC).0);
    assert_eq!(ended(&all), [0], "the oldest of the address");
    // Networks of IPv6: each is one address.
    for network in 0..30_u16 {
        for host in 0..8 {
            world.peer = [0x2001, 0xDB8, 0, network, 0, 0, 0, host].into();
            all.push(connect(&mut world, 0, DYNAMIC).0);
        }
    }
    assert_eq!((ended(&all).len(), all.len()), (1, 1 + 256));
    world.peer = "198.51.100.1".parse().unwrap();
    all.push(connect(&mut world, 0, DYNAMIC).0);
    assert_eq!(ended(&all), [0, 1], "the oldest of the address that has most");
    world.peer = [0x2001, 0xDB8, 0, 5, 9, 9, 9, 9].into();
    for _ in 0..9 {
        all.push(connect(&mut world, 0, DYNAMIC).0);
    }
    // One that has proven itself has another place.
    let last = all.len() - 1;
    prove(&mut all[last], &mut world, &mut host(1, Group::Null), &mut nothing).unwrap();
    assert!(!ended(&all).contains(&last));
}

#[test]
fn commands_of_another_protocol_or_length_change_nothing() {
    let mut world = world(1, Group::Null);
    let (mut queue, _) = connect(&mut world, 0, DYNAMIC);
    let mut other = authentication::send(16);
    other.0[43] = 0xE8;
    for (sqe, data) in [(other, 16), (authentication::send(15), 16), (authentication::send(17), 16)] {
        let status = queue.write(&mut world, sqe, &vec![0; data]).status;
        assert_eq!(status, Status::INVALID_FIELD.dnr());
    }
    // More than there is room for.
    assert_eq!(queue.read(&mut world, authentication::receive(4097), 4096), Err(Status::INVALID_FIELD.dnr()));
    assert_eq!(queue.write(&mut world, authentication::receive(1), &[]).status, Status::INVALID_FIELD.dnr());
    prove(&mut queue, &mut world, &mut host(1, Group::Null), &mut nothing).unwrap();
}

#[test]
fn without_a_key_there_is_no_authentication() {
    let mut world = World::new(Limits::default());
    let (mut queue, result) = connect(&mut world, 0, DYNAMIC);
    assert_eq!(result >> 16, 0);
    let sent = queue.write(&mut world, authentication::send(16), &[0; 16]).status;
    assert_eq!(sent, Status::INVALID_OPCODE.dnr());
    assert!(queue.socket.connection.host().is_some());
}

#[test]
fn without_a_place_for_its_computation_a_host_is_sent_away() {
    let mut world = world(1, F2048);
    world.drives.computed = None;
    let (mut queue, _) = connect(&mut world, 0, DYNAMIC);
    let refused = prove(&mut queue, &mut world, &mut host(1, F2048), &mut nothing).unwrap_err();
    assert_eq!(refused, format!("{:x}", Status::CONNECT_BUSY.code()));
    assert!(queue.socket.connection.is_closed());
    assert_eq!(unproven(&mut queue), Some(Failure::Busy));
}
