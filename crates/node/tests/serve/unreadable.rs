//! Write Uncorrectable on the real server: what fails until it is written, and what a restart
//! remembers; and that a node announces what it serves.

use crate::world::{self, command, connect, host, run, serve};
use pumice_blockdev::MAX_MARKS;
use pumice_node::serve::{Backend, Drive, Server};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::{admin, io};
use pumice_nvme::spec::{Sqe, Status, effects};
use pumice_remote::initiator::{ConnectOptions, Controller, Queue};
use std::path::Path;

const BLOCKS: u64 = 16_384;

/// A server with a drive in memory and one in a file of `folder`.
fn start(folder: &Path) -> Server {
    let image = folder.join("image");
    if !image.exists() {
        std::fs::write(&image, vec![7; BLOCKS as usize * 512]).unwrap();
    }
    let open = |backend, n| Drive::open(&backend, 512, "node", n).unwrap();
    let drives = [open(Backend::Memory(BLOCKS * 512), 1), open(Backend::Path(image), 2)];
    serve(drives.into_iter().map(|drive| drive.keep_marks(&folder.join("state")).unwrap()).collect())
}

fn connected(server: &Server) -> (Controller, Queue) {
    let digests = Digests { header: true, data: true };
    connect(server, ConnectOptions { digests, ..host(server, 3) }, 8)
}

fn read(queue: &mut Queue, nsid: u32, slba: u64, blocks: u32) -> Status {
    world::read(queue, nsid, slba, blocks).0
}

#[test]
fn blocks_fail_until_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let (_controller, mut queue) = connected(&server);
    for nsid in [1, 2] {
        let mark = |slba, blocks| command(io::WRITE_UNCORRECTABLE, nsid, slba, blocks);
        assert_eq!(run(&mut queue, mark(8, 24), &[]), Status::SUCCESS);
        assert_eq!(run(&mut queue, mark(BLOCKS - 1, 2), &[]), Status::LBA_RANGE.dnr());
        let lost = Status::READ_ERROR;
        assert_eq!(read(&mut queue, nsid, 0, 9), lost, "the first block of it");
        assert_eq!(read(&mut queue, nsid, 31, 4), lost, "the last");
        assert_eq!(read(&mut queue, nsid, 0, 8), Status::SUCCESS);
        assert_eq!(read(&mut queue, nsid, 32, 8), Status::SUCCESS);
        assert_eq!(run(&mut queue, command(io::VERIFY, nsid, 16, 1), &[]), lost);
        assert_eq!(run(&mut queue, command(io::COMPARE, nsid, 16, 1), &[7; 512]), lost);
        // A write of a part makes that part readable, and so do Write Zeroes and deallocation.
        assert_eq!(run(&mut queue, command(io::WRITE, nsid, 10, 2), &[9; 1024]), Status::SUCCESS);
        assert_eq!(read(&mut queue, nsid, 10, 2), Status::SUCCESS);
        assert_eq!((read(&mut queue, nsid, 9, 1), read(&mut queue, nsid, 12, 1)), (lost, lost));
        let mut zeroes = command(io::WRITE_ZEROES, nsid, 16, 8);
        zeroes.set_dword(12, zeroes.dword(12) | u32::from(Sqe::DEAC) << 16);
        assert_eq!(run(&mut queue, zeroes, &[]), Status::SUCCESS);
        assert_eq!(run(&mut queue, command(io::COMPARE, nsid, 16, 8), &[0; 4096]), Status::SUCCESS);
        let mut deallocate = Sqe::new(io::DATASET_MANAGEMENT, nsid);
        deallocate.set_dword(11, 4);
        let mut range = [0; 16];
        range[4] = 2;
        range[8] = 24;
        assert_eq!(run(&mut queue, deallocate, &range), Status::SUCCESS);
        assert_eq!((read(&mut queue, nsid, 24, 2), read(&mut queue, nsid, 26, 1)), (Status::SUCCESS, lost));
    }
}

#[test]
fn a_restart_remembers_and_what_was_written_since_stays_readable() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let (_controller, mut queue) = connected(&server);
    for nsid in [1, 2] {
        assert_eq!(run(&mut queue, command(io::WRITE_UNCORRECTABLE, nsid, 0, 16), &[]), Status::SUCCESS);
        assert_eq!(run(&mut queue, command(io::WRITE, nsid, 4, 4), &[5; 2048]), Status::SUCCESS);
    }
    drop(queue);
    // Dropped, not stopped: nothing is flushed at the end.
    drop(server);
    let server = start(folder.path());
    let (_controller, mut queue) = connected(&server);
    assert_eq!(read(&mut queue, 1, 0, 16), Status::SUCCESS, "memory begins anew");
    assert_eq!(read(&mut queue, 2, 0, 4), Status::READ_ERROR);
    assert_eq!(read(&mut queue, 2, 4, 4), Status::SUCCESS);
    assert_eq!(read(&mut queue, 2, 8, 1), Status::READ_ERROR);
    assert_eq!(run(&mut queue, command(io::COMPARE, 2, 4, 4), &[5; 2048]), Status::SUCCESS);
    drop((queue, server));
    // A damaged file is named, and nothing is served.
    let mut kept = std::fs::read_dir(folder.path().join("state")).unwrap();
    let file = kept.next().unwrap().unwrap().path();
    assert!(kept.next().is_none(), "one file, of the one drive that has a path");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let drive = Drive::open(&Backend::Path(folder.path().join("image")), 512, "node", 2).unwrap();
    let refused = drive.keep_marks(&folder.path().join("state")).err().unwrap().to_string();
    assert!(refused.contains(file.to_str().unwrap()) && refused.contains("damaged"), "{refused}");
}

#[test]
fn ranges_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let (_controller, mut queue) = connected(&server);
    let mark = |slba| command(io::WRITE_UNCORRECTABLE, 1, slba, 1);
    for i in 0..MAX_MARKS as u64 {
        assert_eq!(run(&mut queue, mark(i * 2), &[]), Status::SUCCESS);
    }
    let past = MAX_MARKS as u64 * 2;
    assert_eq!(run(&mut queue, mark(past), &[]), Status::CAPACITY.dnr());
    assert_eq!(read(&mut queue, 1, past, 1), Status::SUCCESS, "and nothing was made unreadable");
    assert_eq!(run(&mut queue, command(io::WRITE, 1, 0, 1), &[1; 512]), Status::SUCCESS);
    assert_eq!(run(&mut queue, mark(past), &[]), Status::SUCCESS);
}

/// Every I/O opcode, the parity command set's among them: announced in the effects log, or Invalid
/// Opcode.
#[test]
fn a_node_serves_what_it_announces() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let (mut controller, mut queue) = connected(&server);
    let mut page = vec![0; effects::LEN];
    let mut sqe = Sqe::new(admin::GET_LOG_PAGE, u32::MAX);
    sqe.set_dword(10, 5 | (page.len() as u32 / 4 - 1) << 16);
    assert!(controller.admin().execute(sqe, &[], &mut page).unwrap().status.is_success());
    let mut served = Vec::new();
    for code in (0..=255).filter(|code| *code != 0x7F) {
        let sqe = command(code, 1, 0, 1);
        let outcome = match code & 0b11 {
            0b10 => queue.execute(sqe, &[], &mut [0; 512]),
            _ => queue.execute(sqe, &[0; 512], &mut []),
        };
        let here = outcome.unwrap().status != Status::INVALID_OPCODE.dnr();
        assert_eq!(here, page[effects::IO + usize::from(code) * 4] & 1 != 0, "{code:#04x}");
        if here {
            served.push(code);
        }
    }
    assert_eq!(served.iter().filter(|code| **code < 0x80).count(), 8);
    assert!(served.iter().any(|code| *code >= 0x80), "the parity command set");
}
