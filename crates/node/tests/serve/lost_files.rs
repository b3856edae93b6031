//! A file behind a drive that another program removes or truncates.

use crate::world::{command, connect, host, read, run, serve};
use pumice_node::serve::{Backend, Drive, Server};
use pumice_nvme::spec::opcode::{admin, io};
use pumice_nvme::spec::{Sqe, Status};
use pumice_remote::initiator::{Controller, Queue};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SIZE: u64 = 1 << 20;

struct Served {
    folder: tempfile::TempDir,
    _server: Server,
    controller: Controller,
    queue: Queue,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive");
        std::fs::write(&path, vec![7; SIZE as usize]).unwrap();
        let server = serve(vec![Drive::open(&Backend::Path(path), 512, "node", 1).unwrap()]);
        let (controller, queue) = connect(&server, host(&server, 3), 8);
        Self { folder, _server: server, controller, queue }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("drive")
    }

    /// A write with FUA, or without.
    fn write(&mut self, first: u64, blocks: u32, fua: bool) -> Status {
        let mut sqe = command(io::WRITE, 1, first, blocks);
        if fua {
            sqe.0[50..52].copy_from_slice(&Sqe::FUA.to_le_bytes());
        }
        run(&mut self.queue, sqe, &vec![9; blocks as usize * 512])
    }

    /// Waits until the health page warns: of lost reliability, and that nothing can be written.
    fn warned(&mut self) {
        let until = Instant::now() + crate::world::PATIENCE;
        loop {
            let mut sqe = Sqe::new(admin::GET_LOG_PAGE, u32::MAX);
            sqe.set_dword(10, 2 | 127 << 16);
            let mut page = [0; 512];
            assert!(self.controller.admin().execute(sqe, &[], &mut page).unwrap().status.is_success());
            if page[0] == 0b1100 {
                return;
            }
            assert!(page[0] == 0 && Instant::now() < until, "warnings {:#b}", page[0]);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn len(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

#[test]
fn writes_to_a_removed_file_do_not_vanish_in_silence() {
    let mut served = Served::new();
    assert_eq!(served.write(0, 8, true), Status::SUCCESS);
    std::fs::remove_file(served.path()).unwrap();
    for (first, blocks, fua) in [(0, 8, true), (0, 8, false), (3, 1, false), (2040, 8, false)] {
        // A direct write of less than a millisecond after the last look may still be taken.
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(
            served.write(first, blocks, fua).code(),
            Status::WRITE_FAULT.code(),
            "{first} {blocks} {fua}"
        );
    }
    assert_eq!(run(&mut served.queue, Sqe::new(io::FLUSH, 1), &[]).code(), Status::WRITE_FAULT.code());
    assert_eq!(
        run(&mut served.queue, command(io::WRITE_ZEROES, 1, 0, 64), &[]).code(),
        Status::WRITE_FAULT.0
    );
    let (status, content) = read(&mut served.queue, 1, 0, 16);
    assert!(
        status.is_success() && content[..4096] == [9; 4096] && content[4096..] == [7; 4096],
        "what it has is read"
    );
    served.warned();
}

#[test]
fn a_truncated_file_is_not_made_long_again() {
    let mut served = Served::new();
    let path = served.path();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(SIZE / 2).unwrap();
    // The last blocks: a write there would make it as long as before, with zeros for what was lost.
    assert_eq!(served.write(2040, 8, false).code(), Status::WRITE_FAULT.code());
    assert_eq!(served.write(2047, 1, true).code(), Status::WRITE_FAULT.code());
    assert_eq!(
        run(&mut served.queue, command(io::WRITE_ZEROES, 1, 2040, 8), &[]).code(),
        Status::WRITE_FAULT.0
    );
    assert_eq!(len(&path), SIZE / 2);
    assert_eq!(read(&mut served.queue, 1, 1024, 8).0.code(), Status::INTERNAL.code());
    let (status, content) = read(&mut served.queue, 1, 1016, 8);
    assert!(status.is_success() && content.iter().all(|b| *b == 7));
    served.warned();
}
