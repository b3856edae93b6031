//! Local memory that hosts share: nobody writes into another one's part; and what is wrong with a command is told by its own status.

use crate::world::{PATIENCE, connect, host, run, serve};
use pumice_initiator::ConnectOptions;
use pumice_node::serve::{Backend, Drive};
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::wire::{self, opcode};
use pumice_offload::{DriveId, MemoryAddress, Mode, ParityCommand, Rule, Source, Window};
use std::time::Instant;

/// Bytes of local memory of the server's drive.
const MEMORY: u32 = 4096;

fn sqe(opcode: u8, drive: u32, offset: u32, len: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode, drive);
    sqe.set_dword(10, offset);
    sqe.set_dword(12, len);
    sqe
}

#[test]
fn nobody_writes_into_what_another_host_has_leased() {
    let server = serve(vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()]);
    let (first, mut owner) = connect(&server, host(&server, 1), 8);
    let (_second, mut other) = connect(&server, host(&server, 2), 8);
    let node = ConnectOptions { hostid: wire::NODE_HOST_ID, ..host(&server, 0) };
    let (_node, mut node) = connect(&server, node, 8);
    let write = sqe(opcode::MEMORY_WRITE, 1, 4095, 1);
    let fill = sqe(opcode::MEMORY_FILL, 1, 0, MEMORY);
    assert_eq!(run(&mut other, write, &[1]), Status::SUCCESS, "nobody has it yet");
    assert_eq!(run(&mut owner, sqe(opcode::MEMORY_LEASE, 1, 0, MEMORY), &[]), Status::SUCCESS);
    let in_use = Status(wire::STATUS_IN_USE);
    assert_eq!((run(&mut other, write, &[2]), run(&mut other, fill, &[])), (in_use, in_use));
    assert_eq!(
        (run(&mut owner, write, &[3]), run(&mut node, write, &[4])),
        (Status::SUCCESS, Status::SUCCESS)
    );
    let mut there = [0];
    let read = sqe(opcode::MEMORY_READ, 1, 4095, 1);
    assert!(other.execute(read, &[], &mut there).unwrap().status.is_success());
    assert_eq!(there, [4]);
    let lease = sqe(opcode::MEMORY_LEASE, 1, 0, MEMORY);
    assert_eq!(run(&mut other, lease, &[]), Status(wire::STATUS_NO_MEMORY));
    // By the engine, which reads what anybody may.
    let zero = MemoryAddress { drive: DriveId(1), offset: 0 };
    let parity = wire::encode_command(&ParityCommand {
        sources: vec![Source::Memory { address: zero }],
        chunk: 64,
        window: Window { start: 0, len: 64 },
        stripes: 0..1,
        rule: Rule::sum(1),
        mode: Mode::Generate { into: zero },
    });
    let execute = sqe(opcode::PARITY_EXECUTE, 0, 1, parity.len() as u32);
    assert_eq!(
        (run(&mut other, execute, &parity), run(&mut owner, execute, &parity)),
        (in_use, Status::SUCCESS)
    );
    drop((owner, first));
    let until = Instant::now() + PATIENCE;
    while run(&mut other, write, &[5]) == in_use {
        assert!(Instant::now() < until);
    }
    assert_eq!(run(&mut other, lease, &[]), Status::SUCCESS);
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
        (sqe(opcode::HOLD, 0, 2, 0), &[], field),
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
