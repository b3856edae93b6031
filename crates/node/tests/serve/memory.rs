//! Local memory that hosts share: nobody writes into another one's part; and what is wrong with a
//! command is told by its own status.

use crate::world::{self, PATIENCE, command, connect, host, run, serve};
use pumice_node::serve::{Backend, Drive};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::wire::{self, opcode};
use pumice_offload::{
    DriveId, Grant, Hosts, MemoryAddress, Mode, PaceRequest, ParityCommand, Rule, Source, Window,
};
use pumice_remote::initiator::{ConnectOptions, Queue};
use sha2::{Digest, Sha256};
use std::time::Instant;

/// Bytes of local memory of the server's drive.
const MEMORY: u32 = 4096;

fn sqe(opcode: u8, drive: u32, offset: u32, len: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode, drive);
    sqe.set_dword(10, offset);
    sqe.set_dword(12, len);
    sqe
}

/// A Memory Write under a grant.
fn granted(offset: u32, len: u32, grant: &Grant) -> Sqe {
    let mut sqe = sqe(opcode::MEMORY_WRITE, 1, offset, len);
    for (dword, bytes) in [2, 3, 14, 15].into_iter().zip(grant.0.chunks_exact(4)) {
        sqe.set_dword(dword, u32::from_le_bytes(bytes.try_into().unwrap()));
    }
    sqe
}

#[test]
fn nobody_touches_what_another_host_has_leased() {
    let server = serve(vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()]);
    let (first, mut owner) = connect(&server, host(&server, 1), 8);
    let (_second, mut other) = connect(&server, host(&server, 2), 8);
    let write = sqe(opcode::MEMORY_WRITE, 1, 4095, 1);
    let fill = sqe(opcode::MEMORY_FILL, 1, 0, MEMORY);
    let in_use = Status(wire::STATUS_IN_USE);
    assert_eq!(run(&mut other, write, &[1]), in_use, "what nobody has leased is nobody's");
    assert_eq!(run(&mut owner, sqe(opcode::MEMORY_LEASE, 1, 0, MEMORY), &[]), Status::SUCCESS);
    assert_eq!((run(&mut other, write, &[2]), run(&mut other, fill, &[])), (in_use, in_use));
    assert_eq!(run(&mut owner, write, &[3]), Status::SUCCESS);
    let mut there = [0];
    let read = sqe(opcode::MEMORY_READ, 1, 4095, 1);
    assert_eq!(other.execute(read, &[], &mut there).unwrap().status, in_use, "nor does it read it");
    assert!(owner.execute(read, &[], &mut there).unwrap().status.is_success());
    assert_eq!(there, [3]);
    let lease = sqe(opcode::MEMORY_LEASE, 1, 0, MEMORY);
    assert_eq!(run(&mut other, lease, &[]), Status(wire::STATUS_NO_MEMORY));
    // By the engine, whether it is to read or to write there.
    let zero = MemoryAddress { drive: DriveId(1), offset: 0 };
    let command = |mode| {
        wire::encode_command(&ParityCommand {
            unpaced: false,
            sources: vec![Source::Memory { address: zero }],
            chunk: 64,
            window: Window { start: 0, len: 64 },
            stripes: 0..1,
            rule: Rule::sum(1),
            mode,
        })
    };
    for parity in [command(Mode::Check), command(Mode::Generate { into: zero })] {
        let execute = sqe(opcode::PARITY_EXECUTE, 0, 1, parity.len() as u32);
        assert_eq!(
            (run(&mut other, execute, &parity), run(&mut owner, execute, &parity)),
            (in_use, Status::SUCCESS)
        );
    }
    drop((owner, first));
    let until = Instant::now() + PATIENCE;
    while run(&mut other, lease, &[]) == Status(wire::STATUS_NO_MEMORY) {
        assert!(Instant::now() < until);
    }
    assert!(other.execute(read, &[], &mut there).unwrap().status.is_success());
    assert_eq!(there, [0], "nothing of the last owner is left");
}

/// Another node has the right to what was granted and to nothing else: no medium, no lease, no word
/// about anybody.
#[test]
fn another_node_writes_what_was_granted_and_nothing_else() {
    let server = serve(vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()]);
    let (_first, mut owner) = connect(&server, host(&server, 1), 8);
    let node = ConnectOptions { hostid: wire::NODE_HOST_ID, ..host(&server, 0) };
    let (_node, mut node) = connect(&server, node, 8);
    assert_eq!(run(&mut owner, sqe(opcode::MEMORY_LEASE, 1, 0, MEMORY), &[]), Status::SUCCESS);
    let grant = Grant([7; 16]);
    let give = |offset| sqe(opcode::MEMORY_GRANT, 1, offset, 32);
    let in_use = Status(wire::STATUS_IN_USE);
    assert_eq!(run(&mut node, granted(100, 4, &grant), b"none"), in_use);
    assert_eq!(run(&mut owner, give(100), &wire::encode_grant(&grant, 4)), Status::SUCCESS);
    assert_eq!(run(&mut node, granted(100, 4, &grant), b"this"), Status::SUCCESS);
    assert_eq!(run(&mut node, granted(101, 4, &grant), b"more"), in_use);
    assert_eq!(run(&mut node, granted(100, 4, &Grant([8; 16])), b"more"), in_use);
    assert_eq!(run(&mut node, granted(100, 4, &Grant::NONE), b"more"), in_use);
    let mut there = [0; 4];
    let read = sqe(opcode::MEMORY_READ, 1, 100, 4);
    assert!(owner.execute(read, &[], &mut there).unwrap().status.is_success());
    assert_eq!(&there, b"this");
    assert_eq!(run(&mut owner, give(100), &wire::encode_grant(&grant, 0)), Status::SUCCESS);
    assert_eq!(run(&mut node, granted(100, 4, &grant), b"late"), in_use, "it was taken back");
    let denied = Status::ACCESS_DENIED.dnr();
    for refused in opcode::ALL.into_iter().filter(|code| *code != opcode::MEMORY_WRITE) {
        let data: &[u8] = if refused & 3 == 1 { &[0; 32] } else { &[] };
        let mut back = [0; 32];
        let back: &mut [u8] = if refused & 3 == 2 { &mut back } else { &mut [] };
        let status = node.execute(sqe(refused, 1, 0, 32), data, back).unwrap().status;
        assert_eq!(status, denied, "{refused:#x}");
    }
    assert_eq!(run(&mut node, command(io::WRITE, 1, 0, 1), &[1; 512]), denied);
    assert_eq!(world::read(&mut node, 1, 0, 1).0, denied);
}

fn hosts(queue: &mut Queue, nonce: u8) -> Hosts {
    let mut bytes = vec![0; wire::HOSTS_HEADER + wire::MAX_HOSTS * wire::HOST_BYTES];
    let mut sqe = sqe(opcode::HOSTS_READ, 0, u32::from(nonce), bytes.len() as u32);
    sqe.set_dword(14, 3);
    let received = queue.execute(sqe, &[], &mut bytes).unwrap().received;
    wire::decode_hosts(&bytes[..received as usize]).unwrap()
}

/// A host is told from others, and found again on another node, by whoever asks with the same
/// number; nobody learns who it is.
#[test]
fn hosts_are_told_by_marks() {
    let serve = || serve(vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()]);
    let servers = [serve(), serve()];
    let mut queues = Vec::new();
    let asked: Vec<[Hosts; 2]> = servers
        .iter()
        .map(|server| {
            let (controller, queue) = connect(server, host(server, 0xA7), 8);
            let (_asks, mut asks) = connect(server, host(server, 9), 8);
            queues.push((controller, queue));
            [hosts(&mut asks, 1), hosts(&mut asks, 2)]
        })
        .collect();
    for [one, two] in &asked {
        assert_eq!((one.hosts.len(), two.hosts.len()), (1, 1));
        assert_ne!(one.hosts[0].mark, two.hosts[0].mark, "another number, another mark");
        assert!(!one.hosts[0].observer);
        let bytes = wire::encode_hosts(one);
        assert!(!bytes.windows(4).any(|part| part == [0xA7; 4]), "no identifier");
        assert!(!bytes.windows(4).any(|part| part == b"nqn."), "no name");
    }
    assert!(asked[0][0].same_hosts(&asked[1][0]) && !asked[0][0].same_hosts(&asked[1][1]));
    // What `docs/reference/wire-format/offload.md` says: SHA-256 of the number and the identifier.
    let mut number = [0; 16];
    (number[0], number[12]) = (1, 3);
    let expected: [u8; 32] = Sha256::new().chain_update(number).chain_update([0xA7; 16]).finalize().into();
    assert_eq!(asked[0][0].hosts[0].mark, expected);
    let observe = sqe(opcode::HOLD, 0, wire::HOLD_OBSERVE, 0);
    assert_eq!(run(&mut queues[0].1, observe, &[]), Status::SUCCESS);
    let (_asks, mut asks) = connect(&servers[0], host(&servers[0], 9), 8);
    assert!(hosts(&mut asks, 1).hosts[0].observer);
    assert_eq!(run(&mut queues[0].1, command(io::WRITE, 1, 0, 1), &[1; 512]), Status::WRITE_PROTECTED.dnr());
}

#[test]
fn every_error_has_its_status() {
    let server = serve(vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()]);
    let (_controller, mut queue) = connect(&server, host(&server, 1), 8);
    let field = Status::INVALID_FIELD.dnr();
    for (sqe, data, status) in [
        (sqe(opcode::MEMORY_LEASE, 2, 0, MEMORY), &[][..], field),
        (sqe(opcode::MEMORY_LEASE, 1, 0, 2 * MEMORY), &[], field),
        (sqe(opcode::MEMORY_LEASE, 1, 0, 100), &[], field),
        (sqe(opcode::MEMORY_WRITE, 2, 0, 1), &[0], field),
        (sqe(opcode::MEMORY_WRITE, 1, MEMORY, 1), &[0], field),
        (sqe(opcode::MEMORY_WRITE, 1, 0, 2), &[0], Status::SGL_LENGTH.dnr()),
        (sqe(opcode::HOLD, 0, 3, 0), &[], field),
        (sqe(opcode::MEMORY_GRANT, 1, 0, 32), &[0; 32], field),
        (sqe(opcode::MEMORY_GRANT, 1, 0, 31), &[0; 31], field),
        (sqe(opcode::PARITY_EXECUTE, 0, 1, 4), &[0; 4], field),
    ] {
        assert_eq!(run(&mut queue, sqe, data), status, "{:#x}", sqe.opcode());
    }
    // The explanation of the last: a length that is not its own does not take it away.
    let mut why = [0; 4096];
    let read = |len| sqe(opcode::RESULT_READ, 0, 1, len);
    assert_eq!(queue.execute(read(1), &[], &mut why).unwrap().status, field);
    let len = (1..4096).find(|len| queue.execute(read(*len), &[], &mut why).unwrap().status.is_success());
    let why = std::str::from_utf8(&why[..len.unwrap() as usize]).unwrap();
    assert!(why.contains("'descriptor'"), "{why}");
    assert_eq!(queue.execute(read(1), &[], &mut [0]).unwrap().status, Status::SEQUENCE.dnr());
}

/// An answer for which the host has no room is refused, and stays where it is.
#[test]
fn no_answer_is_longer_than_the_room_for_it() {
    let server = serve(vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()]);
    let (_controller, mut queue) = connect(&server, host(&server, 1), 8);
    let refused = Status::SGL_LENGTH.dnr();
    assert_eq!(run(&mut queue, sqe(opcode::MEMORY_LEASE, 1, 0, MEMORY), &[]), Status::SUCCESS);
    let read = sqe(opcode::MEMORY_READ, 1, 0, MEMORY);
    assert_eq!(queue.execute(read, &[], &mut [0; 512]).unwrap().status, refused);
    let done = queue.execute(sqe(opcode::PARITY_EXECUTE, 0, 7, 4), &[0; 4], &mut []).unwrap();
    let (field, len) = (Status::INVALID_FIELD.dnr(), done.result as usize);
    assert_eq!(done.status, field);
    let take = sqe(opcode::RESULT_READ, 0, 7, len as u32);
    assert_eq!(queue.execute(take, &[], &mut vec![0; len - 1]).unwrap().status, refused);
    let mut why = vec![0; len];
    let taken = queue.execute(take, &[], &mut why).unwrap().status;
    assert!(taken.is_success(), "it was not taken away: {taken}");
    assert!(std::str::from_utf8(&why).unwrap().contains("'descriptor'"));
}

/// A host asks for a pace at which nothing moves: another one's check is done all the same.
#[test]
fn another_hosts_pace_leaves_a_floor() {
    let server = serve(vec![Drive::open(&Backend::Memory(8 << 20), 512, "node", 1).unwrap()]);
    let (_first, mut first) = connect(&server, host(&server, 1), 8);
    let (_second, mut second) = connect(&server, host(&server, 2), 8);
    let slowest = PaceRequest { rate: Some(4096), ..PaceRequest::default() };
    let bytes = wire::encode_pace(&slowest);
    assert_eq!(run(&mut first, sqe(opcode::PACE, 0, 0, bytes.len() as u32), &bytes), Status::SUCCESS);
    let check = wire::encode_command(&ParityCommand {
        unpaced: false,
        sources: vec![Source::Media { drive: DriveId(1), base: 0 }],
        chunk: 65_536,
        window: Window { start: 0, len: 65_536 },
        stripes: 0..128,
        rule: Rule::sum(1),
        mode: Mode::Check,
    });
    let execute = sqe(opcode::PARITY_EXECUTE, 0, 1, check.len() as u32);
    assert_eq!(run(&mut second, execute, &check), Status::SUCCESS);
}
