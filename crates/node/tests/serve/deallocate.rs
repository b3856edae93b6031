//! Dataset Management: only what is to be deallocated is, and an empty range harms nobody.

use crate::world::{command, connect, host, read, run, serve};
use pumice_node::serve::{Backend, Drive};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_remote::initiator::Queue;

fn manage(queue: &mut Queue, attributes: u32, first: u64, blocks: u32) -> Status {
    let mut list = vec![0; 16];
    list[4..8].copy_from_slice(&blocks.to_le_bytes());
    list[8..].copy_from_slice(&first.to_le_bytes());
    let mut sqe = Sqe::new(io::DATASET_MANAGEMENT, 1);
    sqe.set_dword(11, attributes);
    run(queue, sqe, &list)
}

#[test]
fn hints_and_empty_ranges_change_nothing() {
    let server = serve(vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()]);
    let (_controller, mut queue) = connect(&server, host(&server, 3), 8);
    assert_eq!(run(&mut queue, command(io::WRITE, 1, 0, 8), &[7; 4096]), Status::SUCCESS);
    // Will be read, will be written: hints. Deallocate nothing, more often than there are threads.
    for (attributes, blocks) in [(1, 8), (2, 8), (0, 8), (4, 0), (4, 0), (4, 0)] {
        assert_eq!(manage(&mut queue, attributes, 0, blocks), Status::SUCCESS);
        assert!(
            read(&mut queue, 1, 0, 8).1.iter().all(|b| *b == 7),
            "attributes {attributes}, {blocks} blocks"
        );
    }
    assert_eq!(manage(&mut queue, 4, 2, 3), Status::SUCCESS);
    let (_, content) = read(&mut queue, 1, 0, 8);
    assert!(content[1024..2560].iter().all(|b| *b == 0), "these were deallocated");
    assert!(content[..1024].iter().chain(&content[2560..]).all(|b| *b == 7), "and no others");
}

/// Bytes of the file system that a file takes.
fn taken(path: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::File::open(path).unwrap().sync_all().unwrap();
    std::fs::metadata(path).unwrap().blocks() * 512
}

fn zeroes(queue: &mut Queue, first: u64, blocks: u32, deallocate: bool) -> Status {
    let mut sqe = command(io::WRITE_ZEROES, 1, first, blocks);
    if deallocate {
        sqe.0[50..52].copy_from_slice(&Sqe::DEAC.to_le_bytes());
    }
    run(queue, sqe, &[])
}

/// The steps of mkfs: it discards the whole drive, and reads the zeros that it was promised.
#[test]
fn a_discarded_file_takes_no_room_and_reads_as_zeros() {
    const SIZE: u64 = 64 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    let drive = Drive::open(&Backend::Path(path.clone()), 512, "node", 1).unwrap();
    let server = serve(vec![drive]);
    let (_controller, mut queue) = connect(&server, host(&server, 3), 8);
    let before = taken(&path);
    assert_eq!(manage(&mut queue, 4, 0, (SIZE / 512) as u32), Status::SUCCESS);
    assert_eq!(zeroes(&mut queue, 0, 65_536, true), Status::SUCCESS);
    assert!(taken(&path) <= before, "a sparse file stays sparse: {} bytes", taken(&path));
    // Written, and given back but for a block.
    for first in (0..16384_u64).step_by(2048) {
        assert_eq!(run(&mut queue, command(io::WRITE, 1, first, 2048), &vec![7; 1 << 20]), Status::SUCCESS);
    }
    let full = taken(&path);
    assert!(full >= 8 << 20);
    assert_eq!(manage(&mut queue, 4, 0, 16_383), Status::SUCCESS);
    assert!(taken(&path) + (7 << 20) < full, "what is discarded is given back");
    assert!(read(&mut queue, 1, 0, 2048).1.iter().all(|b| *b == 0));
    let (_, tail) = read(&mut queue, 1, 16_382, 2);
    assert!(tail[..512].iter().all(|b| *b == 0) && tail[512..].iter().all(|b| *b == 7));
    // Without leave to deallocate, the room is there for what is written later.
    let sparse = taken(&path);
    assert_eq!(zeroes(&mut queue, 0, 16_384, false), Status::SUCCESS);
    assert!(taken(&path) >= sparse + (4 << 20), "room is kept");
    server.stop().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), SIZE);
}

/// A small file system in a file, by a loop device, filled to its last block.
#[test]
fn deallocation_works_on_a_full_file_system() {
    use std::process::Command;
    let folder = tempfile::tempdir().unwrap();
    let (image, point) = (folder.path().join("image"), folder.path().join("point"));
    std::fs::create_dir(&point).unwrap();
    std::fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let done = |command: &mut Command| command.output().is_ok_and(|out| out.status.success());
    let mounted = done(Command::new("mkfs.ext4").arg("-q").arg(&image))
        && done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&point));
    if !mounted {
        eprintln!("SKIPPED: no loop device can be made and mounted here");
        return;
    }
    let tried = std::panic::catch_unwind(|| {
        let path = point.join("drive");
        std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
        let server = serve(vec![Drive::open(&Backend::Path(path.clone()), 512, "node", 1).unwrap()]);
        let (_controller, mut queue) = connect(&server, host(&server, 3), 8);
        let full = (0..64_u64)
            .map(|i| run(&mut queue, command(io::WRITE, 1, i * 2048, 2048), &vec![7; 1 << 20]))
            .find(|status| !status.is_success());
        assert_eq!(full, Some(Status::CAPACITY.dnr()));
        assert_eq!(manage(&mut queue, 4, 0, 8192), Status::SUCCESS, "it frees");
        assert_eq!(
            run(&mut queue, command(io::WRITE, 1, 60 << 11, 2048), &vec![7; 1 << 20]),
            Status::SUCCESS
        );
        server.stop().unwrap();
    });
    assert!(done(Command::new("umount").arg(&point)));
    tried.unwrap();
}
