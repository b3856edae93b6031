//! Stored blocks and their tuples: zeros, marks, restarts, damage; and the bytes that are counted.

use super::*;
use crate::world::{read, used};
use pumice_blockdev::{BlockDevice, HookedDevice, MemoryDevice};
use pumice_node::serve::DriveSource;
use pumice_nvme::pdu::Digests;
use pumice_remote::initiator::Command;
use pumice_tags::{TaggedDevice, make_in_memory};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

/// Zeros with the tuples of the command, with tuples of zeros, and of deallocated blocks.
#[test]
fn zeros_have_the_tuples_that_the_page_says() {
    for format in FORMATS {
        for kind in 1..=3 {
            let plain = plain_of(format, kind);
            let (_server, _controller, mut queue) = serve_both(drive(&plain, "1MiB"));
            let good = made(&plain, BLOCKS, 9);
            let write = command(&plain, io::WRITE, FIRST, BLOCKS, NO_CHECK, false);
            assert_eq!(send(&mut queue, write, &good), Status::SUCCESS);
            let zeros = |act: bool| {
                let mut blocks = vec![0; good.len()];
                for (i, block) in (0..).zip(blocks.chunks_exact_mut(plain.block_bytes())) {
                    if act {
                        plain.make(i, block);
                    }
                }
                blocks
            };
            for act in [true, false] {
                let sqe = command(&plain, io::WRITE_ZEROES, FIRST, BLOCKS, NO_CHECK, act);
                assert_eq!(send(&mut queue, sqe, &[]), Status::SUCCESS);
                assert!(as_stored(&mut queue, &plain, FIRST, BLOCKS) == zeros(act), "{plain:?} {act}");
                // A guard of zero is that of zeros only if it has 16 bits.
                let fits = act || plain.guard == Guard::Crc16;
                let over_hidden = hidden(&mut queue, &plain, FIRST, BLOCKS);
                assert_eq!(over_hidden.is_ok(), fits, "{plain:?} {act}");
            }
            // From block 0 on the first tuple of zeros is the one that the hidden face would make.
            let at_0 = command(&plain, io::WRITE_ZEROES, 0, BLOCKS, NO_CHECK, false);
            assert_eq!(send(&mut queue, at_0, &[]), Status::SUCCESS);
            assert!(as_stored(&mut queue, &plain, 0, BLOCKS) == zeros(false), "{plain:?}");
            // The tuples that the hidden face would give, if the type counts.
            let usual = Plain { application: 0, storage: 0, reference: FIRST, ..plain.clone() };
            let sqe = command(&usual, io::WRITE_ZEROES, FIRST, BLOCKS, NO_CHECK, true);
            assert_eq!(send(&mut queue, sqe, &[]), Status::SUCCESS);
            let mut expected = vec![0; good.len()];
            for (i, block) in (0..).zip(expected.chunks_exact_mut(plain.block_bytes())) {
                usual.make(i, block);
            }
            assert!(as_stored(&mut queue, &plain, FIRST, BLOCKS) == expected, "{plain:?}");
            // Deallocate: LBAT 0, and each block's own number.
            assert_eq!(send(&mut queue, write, &good), Status::SUCCESS);
            let mut ranges = [0; 16];
            ranges[4..8].copy_from_slice(&(BLOCKS as u32).to_le_bytes());
            ranges[8..].copy_from_slice(&FIRST.to_le_bytes());
            let mut sqe = Sqe::new(io::DATASET_MANAGEMENT, 2);
            sqe.set_dword(11, 1 << 2);
            assert_eq!(send(&mut queue, sqe, &ranges), Status::SUCCESS);
            let mut expected = vec![0; good.len()];
            let own = Plain { kind: 1, application: 0, storage: 0, reference: FIRST, ..plain.clone() };
            for (i, block) in (0..).zip(expected.chunks_exact_mut(plain.block_bytes())) {
                own.make(i, block);
            }
            assert!(as_stored(&mut queue, &plain, FIRST, BLOCKS) == expected, "{plain:?}");
        }
    }
}

/// More than one slice, and a block that fails in the last of them.
#[test]
fn long_commands_go_on_where_they_were() {
    const LONG: u64 = 40_000;
    let plain = plain(512, 8, Guard::Crc16, 1);
    let (_server, mut controller, mut queue) = serve_both(drive(&plain, "24MiB"));
    let long = |code: u8, checks| command(&plain, code, FIRST, LONG, checks, true);
    assert_eq!(send(&mut queue, long(io::WRITE_ZEROES, NO_CHECK), &[]), Status::SUCCESS);
    assert_eq!(send(&mut queue, long(io::VERIFY, [true; 4]), &[]), Status::SUCCESS);
    // Before and behind it nothing is written.
    for block in [FIRST - 1, FIRST + LONG] {
        let there = as_stored(&mut queue, &plain, block, 1);
        assert!(there[512..].iter().all(|byte| *byte == 0xFF), "block {block}");
    }
    let last = FIRST + LONG - 1;
    let at = Plain { reference: last + 5, ..plain.clone() };
    let wrong = made(&at, 1, 8);
    let write = command(&plain, io::WRITE, last, 1, NO_CHECK, false);
    assert_eq!(send(&mut queue, write, &wrong), Status::SUCCESS);
    let status = Status::REFERENCE_TAG_CHECK.dnr();
    assert_eq!(send(&mut queue, long(io::VERIFY, [true; 4]), &[]), status);
    assert_eq!(last_error(&mut controller), (status, last));
    assert_eq!(send(&mut queue, long(io::VERIFY, [true, true, true, false]), &[]), Status::SUCCESS);
}

fn open(folder: &Path, plain: &Plain) -> Drive {
    let source = format!("{0}/image,{1},tags={0}/tags", folder.display(), options(plain));
    let DriveSource { backend, tagging } = source.parse().unwrap();
    let drive = Drive::open_tagged(&backend, tagging.as_ref(), plain.data as u32, "node", 1, None).unwrap();
    drive.keep_marks(&folder.join("state")).unwrap()
}

fn rot(folder: &Path, at: u64) {
    let image = File::options().read(true).write(true).open(folder.join("image")).unwrap();
    let mut byte = [0];
    image.read_exact_at(&mut byte, at).unwrap();
    image.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    image.sync_all().unwrap();
}

#[test]
fn the_metadata_of_a_host_are_there_after_a_restart_and_marks_come_before_them() {
    for format in FORMATS {
        restart(&plain_of(format, 1));
    }
}

fn restart(plain: &Plain) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("image"), vec![7; 256 << 10]).unwrap();
    let good = made(plain, BLOCKS, 4);
    let all = |code| command(plain, code, FIRST, BLOCKS, [true; 4], false);
    {
        let (_server, _controller, mut queue) = serve_both(open(folder.path(), plain));
        let mut write = all(io::WRITE);
        write.set_control(write.control() | Sqe::FUA);
        assert_eq!(send(&mut queue, write, &good), Status::SUCCESS);
    }
    let (_server, mut controller, mut queue) = serve_both(open(folder.path(), plain));
    assert!(receive(&mut queue, all(io::READ), good.len()).unwrap() == good);
    // A mark is looked at before a tuple, over both faces; a good write takes it away, a bad one
    // does not.
    let mut mark = Sqe::new(io::WRITE_UNCORRECTABLE, 2);
    mark.set_blocks(FIRST + 1, 1);
    assert_eq!(send(&mut queue, mark, &[]), Status::SUCCESS);
    for _ in 0..2 {
        assert_eq!(receive(&mut queue, all(io::READ), good.len()), Err(Status::READ_ERROR));
        assert_eq!(send(&mut queue, all(io::VERIFY), &[]), Status::READ_ERROR);
        assert_eq!(hidden(&mut queue, plain, FIRST, BLOCKS), Err(Status::READ_ERROR));
        let spoiled = spoil(plain, &good, BAD, Wrong::Data);
        assert_eq!(send(&mut queue, all(io::WRITE), &spoiled), Status::GUARD_CHECK.dnr());
    }
    assert_eq!(send(&mut queue, all(io::WRITE), &good), Status::SUCCESS);
    assert!(receive(&mut queue, all(io::READ), good.len()).unwrap() == good);
    // The same for zeros with tuples.
    for (act, control) in [(true, 0), (true, Sqe::DEAC), (false, 0)] {
        assert_eq!(send(&mut queue, mark, &[]), Status::SUCCESS);
        let mut zeros = command(plain, io::WRITE_ZEROES, FIRST, BLOCKS, NO_CHECK, act);
        zeros.set_control(zeros.control() | control);
        assert_eq!(send(&mut queue, zeros, &[]), Status::SUCCESS);
        // A tuple of zeros fits them only with 16 bits of guard.
        let fits = act || plain.guard == Guard::Crc16;
        let expected = if fits { Ok(vec![0; 4 * plain.data]) } else { Err(REFUSED) };
        assert_eq!(hidden(&mut queue, plain, FIRST, BLOCKS), expected);
    }
    assert_eq!(send(&mut queue, all(io::WRITE), &good), Status::SUCCESS);
    // Damage under the node: with a check it has the name of the check, without one it is given as
    // it is.
    rot(folder.path(), (FIRST + BAD) * plain.data as u64 + 77);
    let status = Status::GUARD_CHECK.dnr();
    assert_eq!(receive(&mut queue, all(io::READ), good.len()), Err(status));
    assert_eq!(last_error(&mut controller), (status, FIRST + BAD));
    let there = as_stored(&mut queue, plain, FIRST, BLOCKS);
    let damaged = there.iter().zip(&good).filter(|(there, good)| there != good).count();
    assert_eq!(damaged, 1, "the tuple says what the block was");
    assert_eq!(hidden(&mut queue, plain, FIRST, BLOCKS), Err(REFUSED));
}

/// A host that wants no checks gets what lies there; what it writes has tags all the same.
#[test]
fn the_unchecked_face_refuses_nothing_and_writes_tags() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("image"), vec![7; 1 << 20]).unwrap();
    let server = serve_faces(
        vec![open(folder.path(), &plain(512, 8, Guard::Crc16, 1))],
        faces(&[("unchecked", &["unchecked"])]),
    );
    let (_one, mut unchecked) = connect(&server, named(&server, "unchecked"), 8);
    let (_two, mut checked) = connect(&server, named(&server, "stranger"), 8);
    let command = |code: u8, blocks: u32| crate::world::command(code, 1, 5, blocks);
    assert_eq!(send(&mut unchecked, command(io::WRITE, 2), &[3; 1024]), Status::SUCCESS);
    assert_eq!(read(&mut checked, 1, 5, 2), (Status::SUCCESS, vec![3; 1024]));
    rot(folder.path(), 5 * 512);
    assert_eq!(read(&mut checked, 1, 5, 2).0, REFUSED);
    let (status, bytes) = read(&mut unchecked, 1, 5, 2);
    assert_eq!((status, bytes[0], bytes[1]), (Status::SUCCESS, 3 ^ 0x10, 3));
    assert_eq!(send(&mut unchecked, command(io::VERIFY, 2), &[]), Status::SUCCESS);
    assert_eq!(send(&mut checked, command(io::VERIFY, 2), &[]), REFUSED);
    assert_eq!(send(&mut unchecked, command(io::COMPARE, 2), &bytes), Status::SUCCESS);
    assert_eq!(send(&mut checked, command(io::COMPARE, 2), &bytes), REFUSED);
    // A mark holds for everybody.
    assert_eq!(send(&mut unchecked, command(io::WRITE_UNCORRECTABLE, 1), &[]), Status::SUCCESS);
    assert_eq!(read(&mut unchecked, 1, 5, 2).0, Status::READ_ERROR);
}

/// A drive in memory answers within the turn: from its own memory, or with digests from a copy.
#[test]
fn each_face_of_a_drive_in_memory_checks_what_it_should() {
    let plain = plain(512, 8, Guard::Crc16, 1);
    let hosts = faces(&[("both", &["hidden", "visible"]), ("unchecked", &["unchecked"])]);
    let server = serve_faces(vec![drive(&plain, "1MiB")], hosts);
    for data_digest in [false, true] {
        let digests = Digests { header: false, data: data_digest };
        let with = |name: &str| ConnectOptions { digests, ..named(&server, name) };
        let (_one, mut both) = connect(&server, with("both"), 8);
        let (_two, mut unchecked) = connect(&server, with("unchecked"), 8);
        let good = made(&plain, BLOCKS, 6);
        let bad = spoil(&plain, &good, BAD, Wrong::Guard);
        let write = command(&plain, io::WRITE, FIRST, BLOCKS, NO_CHECK, false);
        assert_eq!(send(&mut both, write, &bad), Status::SUCCESS);
        let data = data_of(&plain, &bad);
        assert_eq!(hidden(&mut both, &plain, FIRST, BLOCKS), Err(REFUSED));
        assert_eq!(hidden(&mut both, &plain, FIRST, BAD).unwrap(), data[..BAD as usize * 512]);
        assert_eq!(hidden(&mut unchecked, &plain, FIRST, BLOCKS), Ok(data.clone()));
        // A write over the hidden face makes the guard that the block should have.
        let mut mend = Sqe::new(io::WRITE, 1);
        mend.set_blocks(FIRST + BAD, 1);
        let place = BAD as usize * 512;
        assert_eq!(send(&mut unchecked, mend, &data[place..place + 512]), Status::SUCCESS);
        assert_eq!(hidden(&mut both, &plain, FIRST, BLOCKS), Ok(data));
        // A mark holds for every host.
        let mut mark = Sqe::new(io::WRITE_UNCORRECTABLE, 1);
        mark.set_blocks(FIRST, 1);
        assert_eq!(send(&mut both, mark, &[]), Status::SUCCESS);
        for queue in [&mut both, &mut unchecked] {
            assert_eq!(hidden(queue, &plain, FIRST, BLOCKS), Err(Status::READ_ERROR));
        }
    }
}

/// A drive whose reads wait until they are let through.
fn gated(gate: &Arc<(Mutex<bool>, Condvar)>) -> Drive {
    let waits = Arc::clone(gate);
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", 4 << 20));
    let hooked = HookedDevice::over(device).at_reads(move |_, _| {
        let mut open = waits.0.lock().unwrap();
        while !*open {
            open = waits.1.wait(open).unwrap();
        }
    });
    let hooked: Arc<dyn BlockDevice> = Arc::new(hooked);
    let tags = make_in_memory(&*hooked, 512, Guard::Crc16).unwrap();
    let tagged = TaggedDevice::open(hooked, tags, "").unwrap();
    Drive::with_device(Arc::new(tagged), 512, "gated").unwrap()
}

/// Bytes of a command count both as they are transferred and as they are stored, with metadata.
#[test]
fn metadata_count_as_data_do() {
    const LARGE: u64 = 2000;
    let plain = plain(512, 8, Guard::Crc16, 1);
    let gate = Arc::new((Mutex::new(true), Condvar::new()));
    let (server, _controller, mut queue) = serve_both(gated(&gate));
    let mut held = |sqe: Sqe, send: &[u8], receive: &mut [u8]| {
        *gate.0.lock().unwrap() = false;
        std::thread::scope(|scope| {
            let queue = &mut queue;
            let done = scope.spawn(move || {
                let mut commands = [Command { sqe, send, receive }];
                queue.run(&mut commands).unwrap()[0].status
            });
            let until = std::time::Instant::now() + crate::world::PATIENCE;
            let mut most = 0.0_f64;
            // It is counted when it is taken, and the reads stand still.
            while most < 2.0 * 520.0 * LARGE as f64 && std::time::Instant::now() < until {
                most = most.max(used(&server, "flight_of_connection"));
                std::thread::yield_now();
            }
            *gate.0.lock().unwrap() = true;
            gate.1.notify_all();
            (most, done.join().unwrap())
        })
    };
    let all = LARGE as usize * 520;
    let bytes = made(&plain, LARGE, 1);
    // Twice: as it is transferred, and as it is stored.
    let mut out = vec![0; all];
    for (code, sent, receive) in [(io::READ, &[][..], &mut out[..]), (io::COMPARE, &bytes[..], &mut [][..])] {
        let sqe = command(&plain, code, FIRST, LARGE, NO_CHECK, false);
        let (most, status) = held(sqe, sent, receive);
        assert!(most >= 2.0 * all as f64, "{code:#x}: {most} bytes are counted");
        assert_eq!(status.is_success(), code == io::READ);
    }
}
