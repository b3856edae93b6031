//! The visible face over a real connection: `docs/design/visible-face.md`.

mod cut;
mod hosts;
mod stored;

#[path = "../../../protect/tests/common/mod.rs"]
mod common;

use crate::world::{connect, host, serve_faces};
use common::{Checks, Plain, noise};
use pumice_node::serve::{Drive, DriveSource, Faces, HostFaces, Server};
use pumice_nvme::spec::opcode::{admin, io};
use pumice_nvme::spec::{Sqe, Status};
use pumice_protect::format::Type;
use pumice_protect::guard::Guard;
use pumice_remote::initiator::{ConnectOptions, Controller, Queue};
use std::collections::BTreeSet;

/// Blocks of a command, and the one of them that is damaged.
const BLOCKS: u64 = 4;
const BAD: u64 = 2;
/// Number of the first of these blocks.
const FIRST: u64 = 16;
/// The status that a host gets over the hidden face for a block that does not fit its tag.
const REFUSED: Status = Status::READ_ERROR.dnr();

/// Data, metadata, guard, whether the tuple is first, and bits of the storage tag.
type Format = (usize, usize, Guard, bool, u32);

const FORMATS: [Format; 14] = [
    (512, 8, Guard::Crc16, false, 0),
    (4096, 8, Guard::Crc16, false, 0),
    (4096, 16, Guard::Crc32c, false, 16),
    (4096, 16, Guard::Crc64, false, 0),
    // Storage tags: with a reference tag beside them, and with none.
    (512, 8, Guard::Crc16, false, 12),
    (4096, 8, Guard::Crc16, false, 32),
    (4096, 16, Guard::Crc32c, false, 64),
    (4096, 16, Guard::Crc64, false, 48),
    // More metadata than the tuple.
    (4096, 16, Guard::Crc16, false, 0),
    (4096, 16, Guard::Crc16, true, 8),
    (4096, 64, Guard::Crc16, false, 0),
    (4096, 64, Guard::Crc16, true, 16),
    (4096, 64, Guard::Crc32c, false, 40),
    (4096, 64, Guard::Crc64, true, 0),
];

/// A format with the tags of a command for blocks from [`FIRST`] on.
fn plain(data: usize, metadata: usize, guard: Guard, kind: u8) -> Plain {
    let sts = if guard == Guard::Crc32c { 16 } else { 0 };
    plain_of((data, metadata, guard, false, sts), kind)
}

fn plain_of((data, metadata, guard, first, sts): Format, kind: u8) -> Plain {
    // That of the first block, or one that begins again with 0 within the command.
    let reference = if kind == 1 { FIRST } else { 0xFFFF_FFFE };
    let (application, application_mask) = (0x1234, 0xFF0F);
    let ones = if sts == 0 { 0 } else { u64::MAX >> (64 - sts) };
    // The highest bit is compared, the lowest is not.
    let (storage_mask, storage) = (ones & !1, 0xA5A5_5A5A_C3C3_3C3D & ones);
    Plain {
        data,
        metadata,
        guard,
        kind,
        first,
        sts,
        storage_mask,
        application,
        application_mask,
        storage,
        reference,
    }
}

/// The options of a drive with these metadata.
fn options(plain: &Plain) -> String {
    let place = if plain.first { ",pi-place=first" } else { "" };
    let (bits, metadata, sts) = (plain.guard.bits(), plain.metadata, plain.sts);
    format!("pi={bits},metadata={metadata}{place},storage-tag={sts}")
}

/// A drive in memory with tags.
fn drive(plain: &Plain, size: &str) -> Drive {
    let source: DriveSource = format!("mem:{size},{}", options(plain)).parse().unwrap();
    let kind = [Type::One, Type::Two, Type::Three][usize::from(plain.kind) - 1];
    let tagging = source.tagging.as_ref();
    let drive = Drive::open_tagged(&source.backend, tagging, plain.data as u32, "node", 1, None).unwrap();
    drive.with_type(kind).with_storage_mask(plain.storage_mask)
}

/// Returns whether the metadata is only the tuple, which PRACT leaves out of transfers.
fn is_tuple_only(plain: &Plain) -> bool {
    plain.metadata == plain.tuple_bytes()
}

/// Options of the host with this name.
fn named(server: &Server, name: &str) -> ConnectOptions {
    let number = name.bytes().next().unwrap_or(0);
    ConnectOptions { host: format!("nqn.2026-11.example:{name}").parse().unwrap(), ..host(server, number) }
}

/// Hosts by name, with their faces.
fn faces(hosts: &[(&str, &[&str])]) -> HostFaces {
    let one = |(name, words): &(&str, &[&str])| {
        (format!("nqn.2026-11.example:{name}").parse().unwrap(), Faces::parse(words).unwrap())
    };
    HostFaces::new(hosts.iter().map(one)).unwrap()
}

/// A server whose host `both` has both faces of one drive: namespaces 1 and 2.
fn serve_both(drive: Drive) -> (Server, Controller, Queue) {
    let server = serve_faces(vec![drive], faces(&[("both", &["hidden", "visible"])]));
    let (controller, queue) = connect(&server, named(&server, "both"), 32);
    (server, controller, queue)
}

/// A command for blocks of the visible face, number 2.
fn command(plain: &Plain, code: u8, first: u64, blocks: u64, checks: Checks, act: bool) -> Sqe {
    let mut sqe = Sqe::new(code, 2);
    sqe.set_blocks(first, blocks as u32);
    let [guard, application, storage, reference] = checks.map(u16::from);
    let control = u16::from(act) << 13 | guard << 12 | application << 11 | reference << 10 | storage << 8;
    sqe.set_control(control);
    let space = plain.space();
    sqe.set_dword(14, space as u32);
    sqe.set_dword(3, (space >> 32) as u32);
    sqe.set_dword(2, (space >> 64) as u32);
    sqe.set_dword(15, u32::from(plain.application_mask) << 16 | u32::from(plain.application));
    sqe
}

fn checks() -> impl Iterator<Item = Checks> {
    (0..16).map(|bits: u8| std::array::from_fn(|i| bits >> i & 1 == 1))
}

const NO_CHECK: Checks = [false; 4];

/// Extended blocks with good tuples.
fn made(plain: &Plain, blocks: u64, seed: u64) -> Vec<u8> {
    let mut bytes = noise(seed, blocks as usize * plain.block_bytes());
    for (i, block) in (0..).zip(bytes.chunks_exact_mut(plain.block_bytes())) {
        plain.make(i, block);
    }
    bytes
}

/// Their data.
fn data_of(plain: &Plain, extended: &[u8]) -> Vec<u8> {
    extended.chunks_exact(plain.block_bytes()).flat_map(|block| &block[..plain.data]).copied().collect()
}

/// Carries out a command that sends data, or none.
fn send(queue: &mut Queue, sqe: Sqe, bytes: &[u8]) -> Status {
    queue.execute(sqe, bytes, &mut []).unwrap().status
}

/// Carries out a command that brings so many bytes.
fn receive(queue: &mut Queue, sqe: Sqe, len: usize) -> Result<Vec<u8>, Status> {
    let mut out = vec![0; len];
    let outcome = queue.execute(sqe, &[], &mut out).unwrap();
    if outcome.status.is_success() { Ok(out) } else { Err(outcome.status) }
}

/// Reads blocks over the visible face as they are stored.
fn as_stored(queue: &mut Queue, plain: &Plain, first: u64, blocks: u64) -> Vec<u8> {
    let sqe = command(plain, io::READ, first, blocks, NO_CHECK, false);
    receive(queue, sqe, blocks as usize * plain.block_bytes()).unwrap()
}

/// Reads blocks over the hidden face, number 1.
fn hidden(queue: &mut Queue, plain: &Plain, first: u64, blocks: u64) -> Result<Vec<u8>, Status> {
    let mut sqe = Sqe::new(io::READ, 1);
    sqe.set_blocks(first, blocks as u32);
    receive(queue, sqe, blocks as usize * plain.data)
}

/// The newest entry of the error log: status and block.
fn last_error(controller: &mut Controller) -> (Status, u64) {
    let mut sqe = Sqe::new(admin::GET_LOG_PAGE, u32::MAX);
    sqe.set_dword(10, 1 | 15 << 16);
    let page = receive(controller.admin(), sqe, 64).unwrap();
    let status = Status::of_word(u16::from_le_bytes([page[12], page[13]]));
    (status, u64::from_le_bytes(page[16..24].try_into().unwrap()))
}

/// Part of a block that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    Data,
    Guard,
    Application,
    Storage,
    Reference,
    /// A byte beside the tuple.
    Other,
    /// Everything, and an escape.
    Escaped,
}

const WRONGS: [Wrong; 8] = [
    Wrong::Nothing,
    Wrong::Data,
    Wrong::Guard,
    Wrong::Application,
    Wrong::Storage,
    Wrong::Reference,
    Wrong::Other,
    Wrong::Escaped,
];

fn spoil(plain: &Plain, extended: &[u8], bad: u64, wrong: Wrong) -> Vec<u8> {
    let mut extended = extended.to_vec();
    let block = &mut extended[bad as usize * plain.block_bytes()..][..plain.block_bytes()];
    let tuple = plain.tuple_at();
    let end = tuple + plain.tuple_bytes();
    let tags = tuple + plain.guard.bits() as usize / 8;
    match wrong {
        Wrong::Nothing => {}
        Wrong::Data => block[77] ^= 0x20,
        Wrong::Guard => block[tuple] ^= 1,
        // A bit that LBATM has.
        Wrong::Application => block[tags + 1] ^= 8,
        // Its highest bit.
        Wrong::Storage if plain.sts > 0 => block[tags + 2] ^= 0x80,
        Wrong::Storage => {}
        Wrong::Reference => block[end - 1] ^= 1,
        Wrong::Other if is_tuple_only(plain) => {}
        Wrong::Other => block[if plain.first { end + 3 } else { tuple - 3 }] ^= 4,
        Wrong::Escaped => {
            block[77] ^= 0x20;
            block[tags..end].fill(0xFF);
        }
    }
    extended
}

#[test]
fn every_check_action_type_and_format_gives_the_status_of_the_right_block() {
    let mut faults = 0;
    let mut statuses = BTreeSet::new();
    for format in FORMATS {
        for kind in 1..=3 {
            let plain = plain_of(format, kind);
            let strips = is_tuple_only(&plain);
            let (_server, mut controller, mut queue) = serve_both(drive(&plain, "1MiB"));
            let good = made(&plain, BLOCKS, u64::from(kind));
            let good_data = data_of(&plain, &good);
            let len = good.len();
            for wrong in WRONGS {
                let bad = spoil(&plain, &good, BAD, wrong);
                let bad_data = data_of(&plain, &bad);
                let differs = match wrong {
                    Wrong::Data | Wrong::Escaped => true,
                    Wrong::Other => !strips,
                    _ => false,
                };
                for checks in checks() {
                    let expected = plain.judge_all(checks, &bad);
                    faults += u64::from(expected.is_some());
                    statuses.extend(expected.map(|(_, status)| status));
                    let expected = expected.map(|(block, status)| (Status(status).dnr(), FIRST + block));
                    let context = format!("{plain:?} {wrong:?} {checks:?}");
                    let of = |code: u8, act: bool| command(&plain, code, FIRST, BLOCKS, checks, act);
                    let ends =
                        |controller: &mut Controller, status: Status, expected: Option<(Status, u64)>| {
                            assert_eq!(
                                status,
                                expected.map_or(Status::SUCCESS, |(status, _)| status),
                                "{context}"
                            );
                            if let Some(expected) = expected {
                                assert_eq!(last_error(controller), expected, "{context}");
                            }
                        };
                    // What is there before is good.
                    let plainly = command(&plain, io::WRITE, FIRST, BLOCKS, NO_CHECK, false);
                    assert_eq!(send(&mut queue, plainly, &good), Status::SUCCESS);

                    // The host's tuples are stored as they came, or nothing is.
                    let status = send(&mut queue, of(io::WRITE, false), &bad);
                    ends(&mut controller, status, expected);
                    let there = if expected.is_some() { &good } else { &bad };
                    assert!(as_stored(&mut queue, &plain, FIRST, BLOCKS) == *there, "{context}");

                    // Bad blocks are there, good ones are brought.
                    assert_eq!(send(&mut queue, plainly, &bad), Status::SUCCESS);
                    for act in [false, true] {
                        let stripped = act && strips;
                        let get = if stripped { good_data.len() } else { len };
                        match receive(&mut queue, of(io::READ, act), get) {
                            Ok(read) => {
                                assert!(expected.is_none(), "{context}");
                                assert!(read == *if stripped { &bad_data } else { &bad }, "{context}");
                            }
                            Err(status) => ends(&mut controller, status, Some(expected.expect(&context))),
                        }
                        let status = send(&mut queue, of(io::VERIFY, act), &[]);
                        ends(&mut controller, status, expected);
                        let brought = if stripped { &good_data } else { &good };
                        let status = send(&mut queue, of(io::COMPARE, act), brought);
                        let unequal = Some((Status::COMPARE_FAILURE.dnr(), FIRST + BAD));
                        ends(&mut controller, status, expected.or(unequal.filter(|_| differs)));
                    }

                    // The other face: the same data, unless they do not fit the guard that the host
                    // gave them.
                    let unfit = match wrong {
                        Wrong::Data | Wrong::Guard => true,
                        // Before the tuple, and so under its guard.
                        Wrong::Other => !strips && !plain.first,
                        _ => false,
                    };
                    let expected = if unfit { Err(REFUSED) } else { Ok(bad_data.clone()) };
                    assert_eq!(hidden(&mut queue, &plain, FIRST, BLOCKS), expected, "{context}");

                    // The node makes the tuples.
                    let sent = if strips { &bad_data } else { &bad };
                    assert_eq!(send(&mut queue, of(io::WRITE, true), sent), Status::SUCCESS);
                    let mut fresh = bad.clone();
                    for (i, block) in (0..).zip(fresh.chunks_exact_mut(plain.block_bytes())) {
                        if i == BAD {
                            plain.make(i, block);
                        }
                    }
                    assert!(as_stored(&mut queue, &plain, FIRST, BLOCKS) == fresh, "{context}");
                    assert_eq!(hidden(&mut queue, &plain, FIRST, BLOCKS), Ok(bad_data.clone()), "{context}");
                }
            }
        }
    }
    assert!(faults > 1200, "{faults}");
    assert_eq!(statuses, BTreeSet::from([0x282, 0x283, 0x284, 0x288]));
}

/// Blocks that came over the hidden face have tuples that pass every check over the visible one.
#[test]
fn blocks_of_the_hidden_face_have_the_tags_that_it_gives() {
    for format in FORMATS {
        for kind in 1..=3 {
            // With types 1 and 2 the number of the block, whatever the type wants to see.
            let tags = plain_of(format, kind);
            let plain =
                Plain { application: 0, application_mask: 0xFFFF, storage: 0, reference: FIRST, ..tags };
            let (_server, _controller, mut queue) = serve_both(drive(&plain, "1MiB"));
            let data = plain.data;
            // Metadata of a host that are there before do not stay.
            let before = made(&plain, BLOCKS, 5);
            let write = command(&plain, io::WRITE, FIRST, BLOCKS, NO_CHECK, false);
            assert_eq!(send(&mut queue, write, &before), Status::SUCCESS);
            let bytes = noise(3, data * BLOCKS as usize);
            let mut sqe = Sqe::new(io::WRITE, 1);
            sqe.set_blocks(FIRST, BLOCKS as u32);
            assert_eq!(send(&mut queue, sqe, &bytes), Status::SUCCESS);
            let all = command(&plain, io::READ, FIRST, BLOCKS, [true; 4], false);
            let read = receive(&mut queue, all, plain.block_bytes() * BLOCKS as usize).unwrap();
            assert!(data_of(&plain, &read) == bytes);
            for (i, block) in (0..).zip(read.chunks_exact(plain.block_bytes())) {
                let mut expected = block.to_vec();
                expected[data..].fill(0);
                Plain { kind: 1, ..plain.clone() }.make(i, &mut expected);
                assert!(block == expected, "{plain:?}: block {i}");
            }
            let verify = command(&plain, io::VERIFY, FIRST, BLOCKS, [true; 4], false);
            assert_eq!(send(&mut queue, verify, &[]), Status::SUCCESS);
            // What nobody has written has no tag: an escape, and no check is made.
            let unknown = as_stored(&mut queue, &plain, 100, 1);
            assert!(unknown[..data].iter().all(|byte| *byte == 0));
            assert!(unknown[data..].iter().all(|byte| *byte == 0xFF));
            let at = Plain { reference: 100, ..plain.clone() };
            let verify = command(&at, io::VERIFY, 100, 1, [true; 4], false);
            assert_eq!(send(&mut queue, verify, &[]), Status::SUCCESS);
        }
    }
}
