//! Protection information that hosts do not see: damage under a drive is refused, and a host that
//! writes the block again heals it.

use crate::world::{self, command, connect, host, run, serve};
use pumice_blockdev::{FileDevice, OpenMode, Options};
use pumice_node::serve::{Backend, Drive, DriveSource, Server};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::wire;
use pumice_remote::initiator::Queue;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOCKS: u64 = 4096;
/// The status that a host gets for a block that does not fit its tag.
const REFUSED: Status = Status::READ_ERROR.dnr();

fn start(folder: &Path, block: u32) -> Server {
    let source = format!("{0}/image,pi=16,tags={0}/tags", folder.display());
    let DriveSource { backend, tagging } = source.parse().unwrap();
    let drive = Drive::open_tagged(&backend, tagging.as_ref(), block, "node", 1, None).unwrap();
    serve(vec![drive.keep_marks(&folder.join("state")).unwrap()])
}

fn write(queue: &mut Queue, slba: u64, data: &[u8]) -> Status {
    run(queue, command(io::WRITE, 1, slba, (data.len() / 512) as u32), data)
}

/// Changes the image under the node.
fn rot(folder: &Path, at: u64) {
    let image = File::options().read(true).write(true).open(folder.join("image")).unwrap();
    let mut byte = [0];
    image.read_exact_at(&mut byte, at).unwrap();
    image.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    image.sync_all().unwrap();
}

/// Bytes that a host puts back: the tags stay, or are adopted ones.
#[test]
fn bytes_are_put_back_beside_tags_that_stay_or_are_adopted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("image"), vec![7; BLOCKS as usize * 512]).unwrap();
    let server = start(folder.path(), 512);
    let (_controller, mut queue) = connect(&server, host(&server, 1), 8);
    let (good, bad) = (vec![1; 1024], vec![2; 1024]);
    let put = |queue: &mut Queue, drive: u32, at: u32, tags: u32, data: &[u8]| {
        let mut sqe = Sqe::new(wire::opcode::TAGGED_WRITE, drive);
        [(10, at), (12, data.len() as u32), (13, tags)]
            .iter()
            .for_each(|(i, dword)| sqe.set_dword(*i, *dword));
        run(queue, sqe, data)
    };
    assert_eq!(write(&mut queue, 100, &good), Status::SUCCESS);
    assert_eq!(put(&mut queue, 1, 51_200, wire::TAGS_STAY, &bad), Status::SUCCESS);
    assert_eq!(world::read(&mut queue, 1, 101, 1).0, REFUSED, "the tag is that of other bytes");
    assert_eq!(put(&mut queue, 1, 51_200, wire::TAGS_STAY, &good), Status::SUCCESS);
    assert_eq!(world::read(&mut queue, 1, 100, 2), (Status::SUCCESS, good.clone()));
    assert_eq!(put(&mut queue, 1, 51_200, wire::TAGS_ADOPTED, &bad), Status::SUCCESS);
    assert_eq!(world::read(&mut queue, 1, 100, 2), (Status::SUCCESS, bad));
    // No such tags, no whole blocks, past the end, no such drive.
    let past = (BLOCKS * 512) as u32;
    for (drive, at, tags, len) in
        [(1, 51_200, 2, 1024), (1, 51_300, 0, 512), (1, 51_200, 0, 700), (1, past, 0, 512), (2, 0, 0, 512)]
    {
        let status = put(&mut queue, drive, at, tags, &good[..len]);
        assert!(!status.is_success(), "{drive} {at} {tags} {len}: {status:?}");
    }
}

#[test]
fn a_block_that_does_not_fit_its_tag_is_refused_until_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("image"), vec![7; BLOCKS as usize * 512]).unwrap();
    let data: Vec<u8> = (0..64 * 512_u32).map(|i| (i / 3) as u8).collect();
    for restart in [false, true] {
        let mut server = start(folder.path(), 512);
        let (mut controller, mut queue) = connect(&server, host(&server, 1), 8);
        assert_eq!(write(&mut queue, 100, &data), Status::SUCCESS);
        assert_eq!(run(&mut queue, Sqe::new(io::FLUSH, 1), &[]), Status::SUCCESS);
        if restart {
            drop((queue, controller));
            drop(server);
            server = start(folder.path(), 512);
            (controller, queue) = connect(&server, host(&server, 1), 8);
        }
        assert_eq!(world::read(&mut queue, 1, 100, 64), (Status::SUCCESS, data.clone()));
        rot(folder.path(), 110 * 512 + 17);
        // The host sees an ordinary namespace: the same data, or a read error that is final.
        let (status, read) = world::read(&mut queue, 1, 100, 64);
        assert_eq!(status, REFUSED);
        assert!(read.iter().all(|byte| *byte == 0), "nothing of it is given out");
        assert_eq!(world::read(&mut queue, 1, 110, 1).0, REFUSED);
        assert_eq!(run(&mut queue, command(io::VERIFY, 1, 105, 10), &[]), REFUSED);
        assert_eq!(run(&mut queue, command(io::COMPARE, 1, 110, 1), &data[10 * 512..11 * 512]), REFUSED);
        assert_eq!(world::read(&mut queue, 1, 100, 10).0, Status::SUCCESS);
        // What md does with a read error: it writes the block again, from the other members.
        assert_eq!(write(&mut queue, 110, &data[10 * 512..11 * 512]), Status::SUCCESS);
        assert_eq!(world::read(&mut queue, 1, 100, 64), (Status::SUCCESS, data.clone()));
        // Zeros have tags too.
        assert_eq!(run(&mut queue, command(io::WRITE_ZEROES, 1, 300, 8), &[]), Status::SUCCESS);
        rot(folder.path(), 304 * 512);
        assert_eq!(world::read(&mut queue, 1, 304, 1).0, REFUSED);
        assert_eq!(world::read(&mut queue, 1, 300, 4), (Status::SUCCESS, vec![0; 2048]));
        assert_eq!(run(&mut queue, command(io::WRITE_ZEROES, 1, 304, 1), &[]), Status::SUCCESS);
        // A mark comes before the tag: it is an error of its own, and a write clears it.
        assert_eq!(run(&mut queue, command(io::WRITE_UNCORRECTABLE, 1, 200, 1), &[]), Status::SUCCESS);
        assert_eq!(world::read(&mut queue, 1, 200, 1).0, Status::READ_ERROR);
        assert_eq!(write(&mut queue, 200, &[1; 512]), Status::SUCCESS);
        assert_eq!(world::read(&mut queue, 1, 200, 1), (Status::SUCCESS, vec![1; 512]));
        // What was never written since it has tags is served as it is.
        rot(folder.path(), 1000 * 512);
        assert_eq!(world::read(&mut queue, 1, 1000, 1).0, Status::SUCCESS);
        let metrics = server.metrics();
        for line in ["tags_refused_total{drive=\"1\"} 4", "tags_served_total{drive=\"1\"} 0"] {
            assert!(metrics.contains(line), "{line}: {metrics}");
        }
        drop((queue, controller));
    }
}

/// A drive of which much is damaged, and a host that verifies all of it: the damage is found, and
/// the tags still count, however many blocks are read and refused.
#[test]
fn no_number_of_refusals_makes_tags_stale() {
    const BAD: u64 = 70;
    for block in [512, 4096] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("image"), vec![7; BLOCKS as usize * 512]).unwrap();
        let server = start(folder.path(), block);
        let (_controller, mut queue) = connect(&server, host(&server, 1), 8);
        let data = vec![9; block as usize];
        let write = |queue: &mut Queue, slba| run(queue, command(io::WRITE, 1, slba, 1), &data);
        for slba in 0..BAD {
            assert_eq!(write(&mut queue, 3 * slba), Status::SUCCESS);
            rot(folder.path(), 3 * slba * u64::from(block) + 5);
        }
        for slba in 0..BAD {
            let verify =
                |queue: &mut Queue, slba, count| run(queue, command(io::VERIFY, 1, slba, count), &[]);
            assert_eq!(verify(&mut queue, 3 * slba, 1), REFUSED, "{slba}");
            assert_eq!(verify(&mut queue, 3 * slba + 1, 2), Status::SUCCESS);
        }
        assert!(server.metrics().contains("tags_stale{drive=\"1\"} 0"));
        for slba in 0..BAD {
            let read = run(&mut queue, command(io::COMPARE, 1, 3 * slba, 1), &data);
            assert_eq!(read, REFUSED, "{slba}");
        }
        assert!(server.metrics().contains("tags_stale{drive=\"1\"} 0"));
        assert_eq!(run(&mut queue, command(io::VERIFY, 1, 0, 1), &[]), REFUSED);
    }
}

/// The same image without tags gives the damage out: the test above can fail.
#[test]
fn without_tags_the_damage_is_given_out() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    std::fs::write(&image, vec![7; BLOCKS as usize * 512]).unwrap();
    let server = serve(vec![Drive::open(&Backend::Path(image), 512, "node", 1).unwrap()]);
    let (_controller, mut queue) = connect(&server, host(&server, 1), 8);
    assert_eq!(write(&mut queue, 110, &[9; 512]), Status::SUCCESS);
    rot(folder.path(), 110 * 512);
    let (status, read) = world::read(&mut queue, 1, 110, 1);
    assert_eq!((status, read[0]), (Status::SUCCESS, 9 ^ 0x10));
    assert!(!server.metrics().contains("pumice_tags"));
}

#[test]
fn a_drive_in_memory_has_tags_in_memory_and_tags_of_other_drives_are_refused() {
    let source: DriveSource = "mem:1MiB,pi=64".parse().unwrap();
    let open =
        |block| Drive::open_tagged(&source.backend, source.tagging.as_ref(), block, "node", 1, None).unwrap();
    let server = serve(vec![open(512)]);
    let (_controller, mut queue) = connect(&server, host(&server, 1), 8);
    assert_eq!(write(&mut queue, 5, &[3; 1024]), Status::SUCCESS);
    assert_eq!(world::read(&mut queue, 1, 5, 2), (Status::SUCCESS, vec![3; 1024]));
    drop(open(4096));

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("image"), vec![7; 1 << 20]).unwrap();
    drop(start(folder.path(), 512));
    let reopen = |pi: u32, block| {
        let text = format!("{0}/image,pi={pi},tags={0}/tags", folder.path().display());
        let source: DriveSource = text.parse().unwrap();
        let tagging = source.tagging.as_ref();
        Drive::open_tagged(&source.backend, tagging, block, "node", 1, None).map(drop)
    };
    assert!(reopen(32, 512).unwrap_err().to_string().contains("pi: "));
    assert!(reopen(16, 4096).unwrap_err().to_string().contains("block size: "));
    std::fs::write(folder.path().join("image"), vec![7; 2 << 20]).unwrap();
    assert!(reopen(16, 512).unwrap_err().to_string().contains("size: "));
    // Two nodes cannot use the same tags.
    std::fs::write(folder.path().join("image"), vec![7; 1 << 20]).unwrap();
    let held = FileDevice::open(&folder.path().join("tags"), OpenMode::ReadWrite, Options::default());
    assert!(reopen(16, 512).is_err());
    drop(held);
    reopen(16, 512).unwrap();
}
