//! Namespaces with protection information, and which namespaces a host has.

use crate::pair::{HostQueue, admin, options};
use crate::replay::{identify, log};
use crate::world::{BLOCKS, HOST, PLAIN, World, block_command};
use pumice_nvme::controller::{Attached, Attachments, Limits, Op};
use pumice_nvme::host::Options;
use pumice_nvme::spec::ana::AnaLog;
use pumice_nvme::spec::identify::Controller;
use pumice_nvme::spec::{Status, opcode::io};
use pumice_protect::block_format::BlockFormat;
use pumice_protect::format::{Format, Place, Type};
use pumice_protect::guard::Guard;

/// Gives namespace 2 blocks of 512 or 4096 bytes with metadata.
fn protect(world: &World, format: Format) {
    let mut subsystem = world.shared.0.borrow_mut();
    let mut namespace = subsystem.namespaces()[1];
    namespace.format = BlockFormat::protected(format);
    namespace.blocks = namespace.format.blocks_in(BLOCKS << 9);
    subsystem.change_namespace(2, namespace);
}

fn queues(world: &mut World) -> (HostQueue, HostQueue) {
    let (admin, cntlid) = admin(world, PLAIN, true, &[1 << 20]);
    let mut queue = HostQueue::connect(world, options(1, cntlid, PLAIN, true), &[1 << 20]);
    queue.completions.clear();
    (admin, queue)
}

#[test]
fn identify_says_what_protection_information_there_is() {
    let format = |data, guard, kind| {
        let tuple = if guard == Guard::Crc16 { 8 } else { 16 };
        Format::new(data, tuple, guard, kind, Place::Last).unwrap()
    };
    let large = |guard, place, bits, mask| {
        let format = Format::new(4096, 64, guard, Type::One, place).unwrap();
        format.with_storage_tag(bits, mask).unwrap()
    };
    let small = format(512, Guard::Crc16, Type::One).with_storage_tag(12, u64::MAX).unwrap();
    let none = (0, 0);
    for (format, lbaf, dpc, dps, elbaf, elbas, (lbstm, pic)) in [
        (format(512, Guard::Crc16, Type::One), [8, 0, 9], 1 << 4 | 1, 1, 0, false, none),
        (format(4096, Guard::Crc16, Type::Two), [8, 0, 12], 1 << 4 | 2, 2, 0, false, none),
        (format(4096, Guard::Crc32c, Type::Three), [16, 0, 12], 1 << 4 | 4, 3, 1 << 7 | 16, true, (0, 4)),
        (format(4096, Guard::Crc64, Type::One), [16, 0, 12], 1 << 4 | 1, 1, 2 << 7, true, none),
        // A storage tag needs an extended format even with 16 bits of guard.
        (small, [8, 0, 9], 1 << 4 | 1, 1, 12, true, (0xFFF, 0b101)),
        (large(Guard::Crc16, Place::Last, 0, 0), [64, 0, 12], 1 << 4 | 1, 1, 0, false, none),
        (large(Guard::Crc16, Place::First, 32, 0xF0), [64, 0, 12], 9, 9, 32, true, (0xF0, 0b101)),
        (
            large(Guard::Crc32c, Place::Last, 64, u64::MAX),
            [64, 0, 12],
            17,
            1,
            1 << 7 | 64,
            true,
            (u64::MAX, 4),
        ),
        (large(Guard::Crc64, Place::First, 24, 1), [64, 0, 12], 9, 9, 2 << 7 | 24, true, (1, 4)),
    ] {
        let mut world = World::new(Limits::default());
        protect(&world, format);
        let (mut admin, _queue) = queues(&mut world);
        let page = admin.read(&mut world, identify(0, 2), 4096).unwrap();
        // NLBAF, FLBAS, MC, DPC, DPS; DLFEAT; the only format.
        assert_eq!(page[25..30], [0, 1 << 4, 1, dpc, dps], "{format:?}");
        assert_eq!((page[33], &page[128..131]), (0b1_1001, &lbaf[..]), "{format:?}");
        assert!(page[132..192].iter().all(|byte| *byte == 0), "one format");
        let page = admin.read(&mut world, identify(5, 2), 4096).unwrap();
        assert_eq!(u32::from_le_bytes(page[12..16].try_into().unwrap()), elbaf, "{format:?}");
        assert_eq!(u64::from_le_bytes(page[..8].try_into().unwrap()), lbstm, "{format:?}");
        assert_eq!((page[8], &page[9..12]), (pic, &[0; 3][..]), "{format:?}");
        let page = admin.read(&mut world, identify(1, 0), 4096).unwrap();
        assert_eq!(Controller::decode(&page).extended_formats, elbas, "{format:?}");
        // The other one has blocks without metadata, as before.
        let page = admin.read(&mut world, identify(0, 1), 4096).unwrap();
        assert_eq!((&page[25..30], page[33]), (&[0; 5][..], 0b1001));
        assert_eq!(admin.read(&mut world, identify(5, 1), 4096).unwrap(), vec![0; 4096]);
    }
}

/// Data and metadata are one length; a command whose reference tag cannot be right transfers
/// nothing.
#[test]
fn lengths_and_reference_tags_are_checked_before_anything_is_transferred() {
    const PRACT: u16 = 1 << 13;
    const REFERENCE: u16 = 1 << 10;
    let mut world = World::new(Limits::default());
    protect(&world, Format::new(512, 8, Guard::Crc16, Type::One, Place::Last).unwrap());
    let (_admin, cntlid) = admin(&mut world, PLAIN, true, &[1 << 20]);
    // Data in capsules, and data that are asked for.
    let mut queues = [16 << 10, 0].map(|capsule_data| {
        let qid = 1 + u16::from(capsule_data == 0);
        let options = Options { capsule_data, ..options(qid, cntlid, PLAIN, true) };
        let mut queue = HostQueue::connect(&mut world, options, &[1 << 20]);
        queue.completions.clear();
        queue
    });
    let command = |code, control, reference| {
        let mut sqe = block_command(code, 2, 16, 8);
        sqe.set_control(control);
        sqe.set_dword(14, reference);
        sqe
    };
    let (length, reference) = (Status::SGL_LENGTH.dnr(), Status::INVALID_PROTECTION.dnr());
    for (code, control, ilbrt, bytes, status) in [
        (io::WRITE, 0, 0, 8 * 520, None),
        (io::WRITE, 0, 0, 8 * 512, Some(length)),
        (io::WRITE, PRACT, 16, 8 * 512, None),
        (io::WRITE, PRACT, 16, 8 * 520, Some(length)),
        (io::WRITE, PRACT, 15, 8 * 512, Some(reference)),
        (io::WRITE, REFERENCE, 17, 8 * 520, Some(reference)),
        (io::COMPARE, 0, 0, 8 * 520, None),
        (io::COMPARE, PRACT, 0, 8 * 512, None),
        (io::COMPARE, PRACT | REFERENCE, 0, 8 * 512, Some(reference)),
        (io::VERIFY, PRACT, 0, 0, None),
        (io::VERIFY, REFERENCE, 0, 0, Some(reference)),
        (io::WRITE_ZEROES, PRACT, 16, 0, None),
        (io::WRITE_ZEROES, PRACT, 0, 0, Some(reference)),
        (io::WRITE_ZEROES, REFERENCE, 0, 0, None),
    ] {
        let told = world.drives.requests.len();
        for queue in &mut queues {
            let done = queue.write(&mut world, command(code, control, ilbrt), &vec![0; bytes]);
            let expected = status.unwrap_or(Status::SUCCESS);
            assert_eq!(done.status, expected, "{code:#x} {control:#x} {ilbrt} {bytes}");
        }
        let told = &world.drives.requests[told..];
        assert_eq!(told.len(), if status.is_none() { 2 } else { 0 }, "{code:#x} {control:#x}");
        // The medium hears of its own bytes.
        assert!(told.iter().all(|(_, len, transfer)| (*len, *transfer) == (4096, Some(bytes as u64))));
    }
    let [_, queue] = &mut queues;
    for (control, bytes, status) in [(0, 8 * 512, Some(length)), (PRACT, 8 * 520, Some(length))] {
        let read = queue.read(&mut world, command(io::READ, control, 0), bytes);
        assert_eq!(read.err(), status);
    }
    assert!(!world.drives.requests.iter().any(|(op, ..)| *op == Op::Read));
    // MDTS counts the metadata: a block fewer fits.
    let blocks = (1 << 20) / 520;
    for (blocks, status) in [(blocks, Status::SUCCESS), (blocks + 1, Status::INVALID_FIELD.dnr())] {
        let sqe = block_command(io::WRITE, 2, 0, blocks);
        assert_eq!(queue.write(&mut world, sqe, &vec![0; blocks as usize * 520]).status, status);
    }
}

/// More metadata than the tuple are always transferred.
#[test]
fn pract_takes_only_tuples_off() {
    const PRACT: u16 = 1 << 13;
    let mut world = World::new(Limits::default());
    protect(&world, Format::new(4096, 64, Guard::Crc16, Type::One, Place::First).unwrap());
    let (_admin, mut queue) = queues(&mut world);
    for control in [0, PRACT] {
        for code in [io::WRITE, io::COMPARE] {
            for (bytes, status) in [(4 * 4160, Status::SUCCESS), (4 * 4096, Status::SGL_LENGTH.dnr())] {
                let mut sqe = block_command(code, 2, 16, 4);
                sqe.set_control(control);
                sqe.set_dword(14, 16);
                assert_eq!(queue.write(&mut world, sqe, &vec![0; bytes]).status, status, "{code:#x}");
            }
        }
    }
}

#[test]
fn a_host_has_the_namespaces_that_are_attached_to_it() {
    for (attached, largest) in [([true, false], 1), ([false, true], 2)] {
        let mut world = World::new(Limits::default());
        let nsid = largest;
        let of = move |nqn: &str| Attached::new(if nqn == HOST { attached } else { [true, true] });
        world.shared.0.borrow_mut().set_attachments(Attachments::new(of));
        let (mut admin, mut queue) = queues(&mut world);
        let page = admin.read(&mut world, identify(1, 0), 4096).unwrap();
        assert_eq!(Controller::decode(&page).namespaces, largest);
        let list = admin.read(&mut world, identify(2, 0), 4096).unwrap();
        assert_eq!((list[0], &list[4..]), (nsid as u8, &[0; 4092][..]));
        let page = admin.read(&mut world, log(0x0C, 64, 0), 64).unwrap();
        assert_eq!(AnaLog::decode(&page).unwrap().groups[0].namespaces, [nsid]);
        let other = 3 - nsid;
        // Above the largest number there is nothing; below it, something that the host has not.
        let (none, zeros) = (Err(Status::INVALID_NAMESPACE.dnr()), Ok(vec![0; 4096]));
        let gap = other < largest;
        assert_eq!(admin.read(&mut world, identify(0, other), 4096), if gap { zeros } else { none.clone() });
        for cns in [3, 5, 8] {
            assert_eq!(admin.read(&mut world, identify(cns, other), 4096), none, "CNS {cns}");
            assert!(admin.read(&mut world, identify(cns, nsid), 4096).is_ok(), "CNS {cns}");
        }
        let status = if gap { Status::INVALID_FIELD } else { Status::INVALID_NAMESPACE }.dnr();
        for code in [io::READ, io::VERIFY, io::WRITE_ZEROES, io::FLUSH] {
            let refused = queue.write(&mut world, block_command(code, other, 0, 1), &[]).status;
            assert!(refused == status || code == io::READ, "{code:#x}: {refused}");
            assert!(!refused.is_success());
        }
        assert_eq!(queue.write(&mut world, block_command(io::WRITE, other, 0, 1), &[1; 512]).status, status);
        assert!(queue.write(&mut world, block_command(io::WRITE, nsid, 0, 1), &[1; 512]).status.is_success());
        assert!(world.drives.content[other as usize - 1].iter().all(|byte| *byte == 0));
        // Nor does it hear of it.
        let namespace = world.shared.0.borrow().namespaces()[0];
        for nsid in [1, 2] {
            world.shared.0.borrow_mut().change_namespace(nsid, namespace);
        }
        let page = admin.read(&mut world, log(4, 8, 0), 8).unwrap();
        assert_eq!(page, [nsid as u8, 0, 0, 0, 0, 0, 0, 0]);
    }
    // Another host has both.
    let mut world = World::new(Limits::default());
    let of = |nqn: &str| Attached::new([true, nqn != "nqn.2026-11.example:other"]);
    world.shared.0.borrow_mut().set_attachments(Attachments::new(of));
    let (mut admin, _queue) = queues(&mut world);
    assert!(admin.read(&mut world, identify(3, 2), 4096).is_ok());
}

/// The error log has the block that failed, and not only where the command began.
#[test]
fn a_command_that_fails_because_of_a_block_names_it() {
    let mut world = World::new(Limits::default());
    let (mut admin, mut queue) = queues(&mut world);
    world.drives.bad_block = Some((2, Status::GUARD_CHECK.dnr(), 21));
    let done = queue.write(&mut world, block_command(io::VERIFY, 2, 16, 8), &[]);
    assert_eq!(done.status, Status::GUARD_CHECK.dnr());
    let entry = admin.read(&mut world, log(1, 64, 0), 64).unwrap();
    assert_eq!((&entry[12..14], &entry[16..24]), (&[0x04, 0x85][..], &[21, 0, 0, 0, 0, 0, 0, 0][..]));
}
