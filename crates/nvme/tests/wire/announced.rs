//! Identify and the effects log announce exactly the commands that are served.

use crate::pair::{HostQueue, admin, options};
use crate::replay::{identify, log};
use crate::world::{PLAIN, World, block_command};
use pumice_nvme::controller::Limits;
use pumice_nvme::spec::{Sqe, Status, effects, opcode};

#[test]
fn every_opcode_is_announced_or_invalid() {
    let mut world = World::new(Limits::default());
    let (mut queue, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let page = queue.read(&mut world, log(5, 4096, 0), 4096).unwrap();
    let announced = |at: usize, code: u8| page[at + usize::from(code) * 4] & 1 != 0;
    assert!(page[2048..].iter().all(|b| *b == 0), "reserved");
    let mut io = HostQueue::connect(&mut world, options(1, cntlid, PLAIN, true), &[1 << 20]);
    io.completions.clear();
    let mut served = [0; 2];
    for code in 0..=255 {
        let served_here = |status: Option<Status>| status != Some(Status::INVALID_OPCODE.dnr());
        // AER ends when there is an event.
        if code != opcode::admin::ASYNC_EVENT {
            let done = queue.write(&mut world, Sqe::new(code, 0), &[]);
            assert_eq!(served_here(Some(done.status)), announced(0, code), "admin {code:#04x}");
            served[0] += usize::from(served_here(Some(done.status)));
        }
        // The vendor's commands are the medium's: those of a node are walked there.
        if code < 0x80 {
            let mut sqe = block_command(code, 1, 0, 1);
            // Of Fabrics commands, Disconnect belongs to I/O queues.
            sqe.0[4] = if code == opcode::FABRICS { opcode::fabrics::DISCONNECT } else { 1 };
            let (len, data) = match code & 0b11 {
                0b10 => (512, &[][..]),
                _ => (0, &[0; 512][..]),
            };
            let status = if len == 0 {
                Some(io.write(&mut world, sqe, data).status)
            } else {
                io.read(&mut world, sqe, len).err()
            };
            assert_eq!(served_here(status), announced(effects::IO, code), "I/O {code:#04x}: {status:?}");
            served[1] += usize::from(served_here(status));
        }
    }
    assert_eq!(served, [7, 9]);
    // And Identify offers the same optional commands.
    let controller = queue.read(&mut world, identify(1, 0), 4096).unwrap();
    let oncs = u16::from_le_bytes([controller[520], controller[521]]);
    for (bit, code) in [(0, 0x05), (1, 0x04), (2, 0x09), (3, 0x08), (5, 0x0D), (7, 0x0C), (8, 0x19)] {
        assert_eq!(oncs >> bit & 1 != 0, announced(effects::IO, code), "I/O {code:#04x}");
    }
    let oacs = u16::from_le_bytes([controller[256], controller[257]]);
    for (bit, code) in
        [(0, 0x81), (1, 0x80), (2, 0x10), (3, 0x0D), (4, 0x14), (5, 0x19), (8, 0x7C), (9, 0x86)]
    {
        assert_eq!(oacs >> bit & 1 != 0, announced(0, code), "admin {code:#04x}");
    }
    // Timestamp, and Select of Get Features.
    assert_eq!((oncs >> 6 & 1, oncs >> 4 & 1), (1, 1));
}

#[test]
fn blocks_made_unreadable_until_they_are_written() {
    for nsid in [1, 2] {
        let mut world = World::new(Limits::default());
        let (mut queue, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
        let mut io = HostQueue::connect(&mut world, options(1, cntlid, PLAIN, true), &[1 << 20]);
        io.completions.clear();
        // 65536 blocks move no data: no limit but the namespace's end.
        let whole = block_command(opcode::io::WRITE_UNCORRECTABLE, nsid, 0, 4096);
        assert_eq!(io.write(&mut world, whole, &[]).status, Status::SUCCESS);
        for (slba, blocks) in [(0, 4097), (4096, 1), (u64::MAX, 1)] {
            let past = block_command(opcode::io::WRITE_UNCORRECTABLE, nsid, slba, blocks);
            assert_eq!(io.write(&mut world, past, &[]).status, Status::LBA_RANGE.dnr());
        }
        if nsid == 1 {
            // The second drive of this world answers no errors later.
            assert_eq!(
                io.read(&mut world, block_command(opcode::io::READ, 1, 7, 1), 512),
                Err(Status::READ_ERROR)
            );
            let verify = io.write(&mut world, block_command(opcode::io::VERIFY, 1, 7, 1), &[]);
            assert_eq!(verify.status, Status::READ_ERROR);
            let compare = io.write(&mut world, block_command(opcode::io::COMPARE, 1, 7, 1), &[0; 512]);
            assert_eq!(compare.status, Status::READ_ERROR);
            let health = queue.read(&mut world, log(2, 512, 0), 512).unwrap();
            assert_eq!(health[160], 3, "media errors");
        }
        let zeroes = io.write(&mut world, block_command(opcode::io::WRITE_ZEROES, nsid, 7, 1), &[]);
        assert_eq!(zeroes.status, Status::SUCCESS);
        assert_eq!(io.read(&mut world, block_command(opcode::io::READ, nsid, 7, 1), 512).unwrap(), [0; 512]);
    }
}
