//! Reports of errors by a controller: its log of them, and the warnings of the health page.

use crate::pair::{HostQueue, admin, options};
use crate::replay::{feature, log};
use crate::world::{BLOCKS, HOST, PLAIN, World};
use pumice_nvme::controller::{EndReason, Limits, Notice};
use pumice_nvme::spec::{Sqe, Status, opcode};

#[test]
fn errors_of_commands_without_a_block_name_none() {
    let mut world = World::new(Limits::default());
    let (mut admin, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let mut io = HostQueue::connect(&mut world, options(1, cntlid, PLAIN, true), &[1 << 20]);
    // opcodes that are not known, ranges of no namespace, and a read past the end: that alone has a
    // block.
    for (code, nsid) in
        [(0x7D, 1), (0x0E, 1), (opcode::io::DATASET_MANAGEMENT, 9), (opcode::io::WRITE_ZEROES, 1)]
    {
        let mut sqe = Sqe::new(code, nsid);
        sqe.set_blocks(BLOCKS + 5 + (1 << 32), 1);
        assert!(!io.write(&mut world, sqe, &[]).status.is_success(), "{code:#04x}");
    }
    let page = admin.read(&mut world, log(1, 256, 0), 256).unwrap();
    let lba = |entry: usize| u64::from_le_bytes(page[entry * 64 + 16..entry * 64 + 24].try_into().unwrap());
    assert_eq!((0..4).map(lba).collect::<Vec<_>>(), [BLOCKS + 5 + (1 << 32), 0, 0, 0]);
}

#[test]
fn a_failing_drive_is_a_critical_warning_and_an_event() {
    let mut world = World::new(Limits::default());
    let (mut admin, _) = admin(&mut world, PLAIN, true, &[1 << 20]);
    assert!(
        admin.write(&mut world, feature(opcode::admin::SET_FEATURES, 0x0B, 1 << 2), &[]).status.is_success()
    );
    let health =
        |world: &mut World, queue: &mut HostQueue| queue.read(world, log(2, 512, 0), 512).unwrap()[0];
    assert_eq!(health(&mut world, &mut admin), 0);
    world.shared.0.borrow_mut().set_media_warnings(0b1100);
    // Said again, it is no news.
    world.shared.0.borrow_mut().set_media_warnings(0b1100);
    admin.connection.submit(Sqe::new(opcode::admin::ASYNC_EVENT, 0), &[], &mut admin.out).unwrap();
    admin.run(&mut world, 0);
    let events: Vec<u64> = admin
        .completions
        .drain(..)
        .map(|done| {
            assert_eq!(done.status, Status::SUCCESS);
            done.result
        })
        .collect();
    assert_eq!(events, [1 | 2 << 16], "health, the reliability of the subsystem");
    assert_eq!(health(&mut world, &mut admin), 0b1100);
}

/// Notices to an operator: hosts that came, hosts that were refused, breaches of the protocol, and
/// the sums of an association when the last of its connections is gone.
#[test]
fn what_happens_is_told_once() {
    let mut world = World::new(Limits::default());
    let (mut admin, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let [Notice::Associated { association, kato_ms: 5000 }] = &admin.socket.connection.take_notices()[..]
    else {
        panic!("an association")
    };
    assert_eq!((association.host.as_str(), association.host_id, association.cntlid), (HOST, [9; 16], cntlid));
    assert!(admin.socket.connection.take_notices().is_empty(), "told once");
    let mut io = HostQueue::connect(&mut world, options(1, cntlid, PLAIN, true), &[1 << 20]);
    let mut write = Sqe::new(opcode::io::WRITE, 1);
    write.set_blocks(0, 2);
    assert!(io.write(&mut world, write, &[1; 1024]).status.is_success());
    let mut read = Sqe::new(opcode::io::READ, 1);
    read.set_blocks(0, 1);
    assert_eq!(io.read(&mut world, read, 512).unwrap(), [1; 512]);
    let mut other = options(1, cntlid, PLAIN, true);
    other.data.hostnqn = "nqn.2026-11.example:\u{202E}other".to_owned();
    let mut refused = HostQueue::connect(&mut world, other, &[1 << 20]);
    let status = Status::CONNECT_INVALID.dnr();
    let host = "nqn.2026-11.example:\u{202E}other".to_owned();
    assert_eq!(refused.socket.connection.take_notices(), [Notice::Refused { host, qid: 1, status }]);
    assert_eq!(refused.socket.connection.closed(&world.shared), None, "it was nobody's");
    let mut broken = world.accept(0);
    world.receive(&mut broken, 0, &[7; 8]);
    assert!(matches!(broken.connection.take_notices()[..], [Notice::Violation(_)]));
    // The admin queue goes first; the sums are there when all are gone.
    admin.socket.connection.end(EndReason::Lost);
    assert_eq!(admin.socket.connection.closed(&world.shared), None);
    let ended = io.socket.connection.closed(&world.shared).unwrap();
    assert_eq!((ended.association.cntlid, ended.reason), (cntlid, EndReason::Lost));
    assert_eq!((ended.bytes_read, ended.bytes_written), (512, 1024));
    assert!(ended.commands >= 5, "{}", ended.commands);
}

/// Bytes count if they were moved, commands when they have ended.
#[test]
fn bytes_of_commands_that_fail_do_not_count() {
    let mut world = World::new(Limits::default());
    let (mut admin, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let mut io = HostQueue::connect(&mut world, options(1, cntlid, PLAIN, true), &[1 << 20]);
    let blocks = |code, nsid, slba, count| {
        let mut sqe = Sqe::new(code, nsid);
        sqe.set_blocks(slba, count);
        sqe
    };
    world.drives.bad_block = Some((2, Status::WRITE_FAULT, 0));
    let failed = io.write(&mut world, blocks(opcode::io::WRITE, 2, 0, 4), &[1; 2048]).status;
    assert_eq!(Status(failed.code()), Status::WRITE_FAULT);
    assert!(io.write(&mut world, blocks(opcode::io::WRITE, 1, 0, 2), &[1; 1024]).status.is_success());
    world.drives.unreadable[0].insert(9);
    assert_eq!(io.read(&mut world, blocks(opcode::io::READ, 1, 9, 1), 512), Err(Status::READ_ERROR));
    assert_eq!(io.read(&mut world, blocks(opcode::io::READ, 1, 0, 1), 512).unwrap(), [1; 512]);
    let health = admin.read(&mut world, log(2, 512, 0), 512).unwrap();
    assert_eq!((health[64], health[80]), (2, 2), "reads and writes");
    admin.socket.connection.end(EndReason::Lost);
    assert_eq!(admin.socket.connection.closed(&world.shared), None);
    let ended = io.socket.connection.closed(&world.shared).unwrap();
    assert_eq!((ended.bytes_read, ended.bytes_written), (512, 1024));
}
