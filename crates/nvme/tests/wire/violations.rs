//! Violations that end a connection, and the words that name them.

use crate::pair::{HostQueue, admin, options};
use crate::world::{BOTH, PLAIN, SECOND, Socket, World, block_command, framed, write_by_r2t};
use pumice_nvme::controller::Limits;
use pumice_nvme::pdu::{Digests, Fatal, H2cData, IcReq, Kind, LAST, Transfer, Violation, push};
use pumice_nvme::spec::{Sgl, Sqe, opcode};

/// Asserts that bytes end the connection with FES and FEI, a copy of the header, and then silence.
fn breaks(world: &mut World, mut socket: Socket, bytes: &[u8], expected: (u16, u32)) {
    socket.out.clear();
    world.receive(&mut socket, SECOND, bytes);
    assert_eq!(socket.out.first(), Some(&3), "a C2HTermReq answers {:02x?}", &bytes[..bytes.len().min(8)]);
    assert_eq!(Violation::decode(&socket.out), expected);
    let copied = &socket.out[24..];
    assert!((1..=128).contains(&copied.len()));
    assert_eq!(copied[0], bytes[0], "the header of the PDU that broke it");
    let len = socket.out.len();
    world.receive(&mut socket, SECOND, &IcReq { hpda: 0, digests: PLAIN, maxr2t: 0 }.encode());
    assert_eq!(socket.out.len(), len, "and silence");
    assert!(!socket.connection.is_closed());
    socket.connection.tick(32 * SECOND, &world.shared, &mut Vec::new());
    assert!(socket.connection.is_closed(), "until the host has had its time to close");
}

fn changed(at: usize, value: u8) -> Vec<u8> {
    let mut bytes = IcReq { hpda: 0, digests: PLAIN, maxr2t: 0 }.encode().to_vec();
    bytes[at] = value;
    bytes
}

#[test]
fn before_the_connection_stands() {
    let mut world = World::new(Limits::default());
    let cases: [(Vec<u8>, (u16, u32)); 11] = [
        (changed(0, 8), (1, 0)),
        (changed(0, 0xFF), (1, 0)),
        // Types of the other direction.
        (changed(0, 1), (1, 0)),
        (changed(0, 9), (1, 0)),
        (changed(1, 1), (1, 1)),
        (changed(2, 24), (1, 2)),
        (changed(4, 129), (1, 4)),
        // Four gigabytes that nobody waits for.
        (changed(7, 0xFF), (1, 4)),
        (changed(8, 1), (1, 8)),
        (changed(10, 32), (1, 10)),
        (changed(10, 1), (6, 10)),
    ];
    for (bytes, expected) in cases {
        let socket = world.accept(0);
        breaks(&mut world, socket, &bytes, expected);
    }
    let mut capsule = Vec::new();
    push(&mut capsule, Kind::CapsuleCmd, 0, &Sqe::new(2, 1).0, PLAIN);
    let socket = world.accept(0);
    breaks(&mut world, socket, &capsule, (2, 0));
}

fn io_queue(world: &mut World, digests: Digests) -> HostQueue {
    let (admin, cntlid) = admin(world, digests, true, &[1 << 20]);
    // Closing it would end the association.
    std::mem::forget(admin);
    HostQueue::connect(world, options(1, cntlid, digests, true), &[1 << 20])
}

fn capsule(change: impl FnOnce(&mut Sqe), data: usize, digests: Digests) -> Vec<u8> {
    let mut sqe = block_command(opcode::io::WRITE, 1, 0, 1);
    sqe.set_sgl(Sgl::in_capsule(data as u32));
    change(&mut sqe);
    framed(Kind::CapsuleCmd, 0, &sqe.0, digests, &vec![0x5A; data])
}

#[test]
fn on_a_live_queue() {
    let mut world = World::new(Limits { controllers_of_host: 64, ..Limits::default() });
    let plain = |change: fn(&mut Vec<u8>)| {
        let mut bytes = capsule(|_| {}, 512, PLAIN);
        change(&mut bytes);
        bytes
    };
    let h2c = |ttag, flags| {
        let transfer = Transfer { cccid: 0, ttag, offset: 0, len: 512 };
        framed(Kind::H2cData, flags, &transfer.body(), PLAIN, &[0; 512])
    };
    let without = |opcode| {
        let mut out = Vec::new();
        let mut sqe = Sqe::new(opcode, 1);
        sqe.set_blocks(0, 1);
        sqe.set_sgl(Sgl::in_capsule(512));
        push(&mut out, Kind::CapsuleCmd, 0, &sqe.0, PLAIN);
        out
    };
    let cases: [(Vec<u8>, (u16, u32)); 17] = [
        (IcReq { hpda: 0, digests: PLAIN, maxr2t: 0 }.encode().to_vec(), (2, 0)),
        // Digests that were not agreed on.
        (plain(|b| b[1] |= 1), (1, 1)),
        (plain(|b| b[1] |= 2), (1, 1)),
        (plain(|b| b[1] |= 4), (1, 1)),
        (plain(|b| b[2] = 24), (1, 2)),
        (plain(|b| b[3] = 8), (1, 3)),
        (plain(|b| b[3] = 73), (1, 3)),
        // More in a capsule than IOCCSZ allows.
        (capsule(|s| s.set_sgl(Sgl::in_capsule((68 << 10) + 512)), (68 << 10) + 512, PLAIN), (1, 4)),
        (capsule(|s| s.set_sgl(Sgl::in_capsule(1024)), 512, PLAIN), (1, 4)),
        (capsule(|s| s.set_sgl(Sgl { offset: 4, len: 512, kind: 1 }), 512, PLAIN), (6, 32)),
        (capsule(|s| s.set_sgl(Sgl::transport(512)), 512, PLAIN), (6, 47)),
        // The SGL says that data are in the capsule, and there are none.
        (without(opcode::io::WRITE), (1, 4)),
        (without(opcode::io::COMPARE), (1, 4)),
        (without(opcode::io::DATASET_MANAGEMENT), (1, 4)),
        (without(0x81), (1, 4)),
        (h2c(0, 4), (2, 0)),
        (h2c(5, 4), (1, 10)),
    ];
    for (bytes, expected) in cases {
        let queue = io_queue(&mut world, PLAIN);
        breaks(&mut world, queue.socket, &bytes, expected);
    }
}

#[test]
fn digests_that_do_not_fit() {
    let mut world = World::new(Limits::default());
    let mut bytes = capsule(|_| {}, 512, BOTH);
    let digest = u32::from_le_bytes(bytes[72..76].try_into().unwrap());
    bytes[72] ^= 1;
    let queue = io_queue(&mut world, BOTH);
    breaks(&mut world, queue.socket, &bytes, (3, digest ^ 1));

    // Of data: the command fails and may be tried again; the connection stays.
    let mut bytes = capsule(|_| {}, 512, BOTH);
    *bytes.last_mut().unwrap() ^= 1;
    let mut queue = io_queue(&mut world, BOTH);
    queue.completions.clear();
    queue.socket.out.clear();
    world.receive(&mut queue.socket, SECOND, &bytes);
    assert_eq!(queue.socket.out[0], 5);
    assert_eq!(queue.socket.out[22..24], (0x22_u16 << 1).to_le_bytes());
    assert!(world.drives.content[0].iter().all(|b| *b == 0), "nothing was written");
}

/// A write by R2T whose data come wrong.
fn transfer_breaks(change: impl FnOnce(&mut Transfer, &mut u8), expected: (u16, u32)) {
    let mut world = World::new(Limits::default());
    let mut queue = io_queue(&mut world, PLAIN);
    queue.socket.out.clear();
    world.receive(&mut queue.socket, SECOND, &write_by_r2t(3, 64, PLAIN));
    let asked = Transfer::decode(&queue.socket.out);
    assert_eq!((queue.socket.out[0], asked.cccid, asked.len), (9, 3, 64 * 512));
    let (mut transfer, mut flags) = (Transfer { len: 512, ..asked }, 0);
    change(&mut transfer, &mut flags);
    let bytes = framed(Kind::H2cData, flags, &transfer.body(), PLAIN, &[0; 512]);
    breaks(&mut world, queue.socket, &bytes, expected);
}

#[test]
fn data_that_were_not_asked_for() {
    transfer_breaks(|t, _| t.cccid = 4, (2, 0));
    transfer_breaks(|t, _| t.offset = 512, (4, 0));
    transfer_breaks(|t, _| t.len = 1024, (1, 16));
    transfer_breaks(|_, flags| *flags = 4, (1, 1));
    transfer_breaks(|t, _| t.ttag = 2000, (2, 0));
    transfer_breaks(|t, _| t.ttag += 1, (1, 10));
}

#[test]
fn every_truncation_waits_and_does_nothing() {
    let mut world = World::new(Limits::default());
    let bytes = capsule(|_| {}, 512, BOTH);
    for len in 0..bytes.len() {
        let mut queue = io_queue(&mut world, BOTH);
        queue.socket.out.clear();
        world.receive(&mut queue.socket, SECOND, &bytes[..len]);
        assert!(queue.socket.out.is_empty(), "{len} bytes of {}", bytes.len());
        // What follows completes it.
        world.receive(&mut queue.socket, SECOND, &bytes[len..]);
        assert_eq!(queue.socket.out[0], 5, "{len}");
        queue.socket.connection.closed(&world.shared);
        world = World::new(Limits::default());
    }
}

/// Every PDU that a host sends, cut anywhere: nothing happens until the rest is here.
#[test]
fn every_pdu_may_come_in_two_parts() {
    let icreq = IcReq { hpda: 0, digests: BOTH, maxr2t: 0 }.encode();
    for len in 0..icreq.len() {
        let mut world = World::new(Limits::default());
        let mut socket = world.accept(0);
        world.receive(&mut socket, SECOND, &icreq[..len]);
        assert!(socket.out.is_empty(), "ICReq, {len}");
        world.receive(&mut socket, SECOND, &icreq[len..]);
        assert_eq!((socket.out[0], socket.out.len()), (1, 128));
    }
    // Data of a write, in two PDUs, each cut.
    let mut world = World::new(Limits::default());
    for len in (0..2 * (28 + 8192 + 4)).step_by(211) {
        let mut queue = io_queue(&mut world, BOTH);
        queue.socket.out.clear();
        world.receive(&mut queue.socket, SECOND, &write_by_r2t(3, 32, BOTH));
        let asked = Transfer::decode(&queue.socket.out);
        queue.socket.out.clear();
        let mut bytes = Vec::new();
        for (offset, last) in [(0, false), (8192, true)] {
            let part = Transfer { offset, len: 8192, ..asked };
            H2cData::push(&mut bytes, part, last, &[len as u8; 8192], BOTH);
        }
        world.receive(&mut queue.socket, SECOND, &bytes[..len]);
        assert!(queue.socket.out.is_empty(), "H2CData, {len}");
        world.receive(&mut queue.socket, SECOND, &bytes[len..]);
        assert_eq!((queue.socket.out[0], queue.socket.out.len()), (5, 28));
        assert!(world.drives.content[0][..16384].iter().all(|b| *b == len as u8));
        world = World::new(Limits::default());
    }
    // A term request: the connection ends when it is whole, without an answer.
    let mut term = Vec::new();
    Violation::new(Fatal::Sequence, 0, &[4; 72], "").encode(true, &mut term);
    for len in 0..=term.len() {
        let mut world = World::new(Limits::default());
        let mut socket = world.accept(0);
        world.receive(&mut socket, SECOND, &term[..len]);
        assert_eq!((socket.connection.is_closed(), socket.out.len()), (len == term.len(), 0));
    }
}

#[test]
fn lengths_that_no_pdu_has() {
    let mut world = World::new(Limits::default());
    let mut term = Vec::new();
    Violation::new(Fatal::Sequence, 0, &[4; 72], "").encode(true, &mut term);
    let with = |bytes: &[u8], at: usize, value: u32| {
        let mut bytes = bytes.to_vec();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let data = |len: usize, digests| {
        let mut out = Vec::new();
        let transfer = Transfer { cccid: 0, ttag: 1, offset: 0, len: len as u32 };
        H2cData::push(&mut out, transfer, true, &vec![0; len], digests);
        out
    };
    let plain = capsule(|_| {}, 512, PLAIN);
    let cases: [(Vec<u8>, (u16, u32)); 10] = [
        (with(&term, 4, 23), (1, 4)),
        (with(&term, 4, 24 + 129), (1, 4)),
        (with(&term, 4, u32::MAX), (1, 4)),
        (with(&plain, 4, 71), (1, 4)),
        (with(&plain, 4, u32::MAX), (1, 4)),
        // Data must be there.
        (with(&data(512, PLAIN), 4, 24), (1, 4)),
        (with(&data(512, PLAIN), 4, 23), (1, 4)),
        (data((128 << 10) + 4, PLAIN), (5, 0)),
        (with(&data(512, PLAIN), 4, u32::MAX), (5, 0)),
        (with(&data(512, PLAIN), 0, 0x1418_0006), (1, 3)),
    ];
    for (bytes, expected) in cases {
        let queue = io_queue(&mut world, PLAIN);
        breaks(&mut world, queue.socket, &bytes, expected);
    }
    // With digests: no room for them.
    for (bytes, expected) in [
        (signed(with(&capsule(|_| {}, 512, BOTH), 4, 76 + 4)), (1, 4)),
        (with(&capsule(|_| {}, 512, BOTH), 4, 72), (1, 4)),
        (signed(with(&data(512, BOTH), 4, 28 + 4)), (1, 4)),
    ] {
        let queue = io_queue(&mut world, BOTH);
        breaks(&mut world, queue.socket, &bytes, expected);
    }
}

/// A PDU with the digest that fits its header.
fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
    let hlen = usize::from(bytes[2]);
    let digest = pumice_protect::digest::crc32c(&bytes[..hlen]);
    bytes[hlen..hlen + 4].copy_from_slice(&digest.to_le_bytes());
    bytes
}

/// A host that is told of a field that makes no sense looks for a fault of its own; a header that
/// was changed on its way makes none. What says where the digest is (type, hlen, the flag of the
/// digest) is believed, and so is a length without room for one.
#[test]
fn a_header_that_was_changed_on_its_way_is_told_by_its_digest() {
    let bytes = capsule(|_| {}, 512, BOTH);
    let digest = u32::from_le_bytes(bytes[72..76].try_into().unwrap());
    for bit in (8..76 * 8).filter(|bit| !(16..24).contains(bit) && *bit != 8) {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let length = u32::from_le_bytes(changed[4..8].try_into().unwrap());
        if length < 76 {
            continue;
        }
        let found = if bit < 72 * 8 { digest } else { digest ^ 1 << (bit - 72 * 8) };
        let mut world = World::new(Limits::default());
        let queue = io_queue(&mut world, BOTH);
        breaks(&mut world, queue.socket, &changed, (3, found));
    }
}

/// Data are with the medium as long as the command is: the window is for those, too.
#[test]
fn the_window_is_held_until_the_medium_is_done() {
    let mut world = World::new(Limits { write_window: 4096, ..Limits::default() });
    let mut socket = io_queue(&mut world, PLAIN).socket;
    socket.out.clear();
    let write = |world: &mut World, socket: &mut Socket, cid: u16| {
        let mut bytes = write_by_r2t(cid, 8, PLAIN);
        // The second drive, which answers when it is told to.
        bytes[8 + 4] = 2;
        world.receive(socket, SECOND, &bytes);
    };
    write(&mut world, &mut socket, 1);
    write(&mut world, &mut socket, 2);
    let ttag = |socket: &Socket| u16::from_le_bytes([socket.out[10], socket.out[11]]);
    assert_eq!(socket.out.len(), 24, "one is asked for");
    let body = Transfer { cccid: 1, ttag: ttag(&socket), offset: 0, len: 4096 }.body();
    socket.out.clear();
    world.receive(&mut socket, SECOND, &framed(Kind::H2cData, LAST, &body, PLAIN, &[7; 4096]));
    assert_eq!((world.drives.waiting.len(), socket.out.len()), (1, 0), "the medium has it");
    world.answer(&mut socket);
    // Its completion, and the other is asked for.
    assert_eq!((socket.out[0], socket.out.len(), socket.out[24]), (5, 24 + 24, 9));
}

#[test]
fn more_commands_than_the_queue_has_entries() {
    let mut world = World::new(Limits { write_window: 4096, ..Limits::default() });
    let mut socket = io_queue(&mut world, PLAIN).socket;
    socket.out.clear();
    // Writes whose data never come, on a queue of 33 entries.
    for cid in 0..33 {
        world.receive(&mut socket, SECOND, &write_by_r2t(cid, 8, PLAIN));
    }
    // One of them is asked for: the window is no larger.
    assert_eq!((socket.out[0], socket.out.len()), (9, 24));
    breaks(&mut world, socket, &write_by_r2t(999, 8, PLAIN), (2, 0));
}

/// C2HTermReq is the last that a host gets: commands that end after it are not answered, and the
/// room that they give back is asked to nobody.
#[test]
fn after_a_term_request_nothing_follows() {
    for digests in [PLAIN, BOTH] {
        let mut world = World::new(Limits { write_window: 4096, ..Limits::default() });
        let mut socket = io_queue(&mut world, digests).socket;
        // A read and a write with the second drive; one write is asked for, and one waits.
        let mut read = block_command(opcode::io::READ, 2, 0, 8);
        read.set_sgl(Sgl::transport(4096));
        let mut bytes = Vec::new();
        push(&mut bytes, Kind::CapsuleCmd, 0, &read.0, digests);
        let mut zeroes = block_command(opcode::io::WRITE_ZEROES, 2, 0, 8);
        zeroes.set_cid(1);
        push(&mut bytes, Kind::CapsuleCmd, 0, &zeroes.0, digests);
        world.receive(&mut socket, SECOND, &bytes);
        for cid in 2..4 {
            world.receive(&mut socket, SECOND, &write_by_r2t(cid, 8, digests));
        }
        assert_eq!(world.drives.waiting.len(), 2);
        // A PDU that only a controller sends.
        socket.out.clear();
        world.receive(&mut socket, SECOND, &[8, 0, 24, 0, 24, 0, 0, 0]);
        assert_eq!(socket.out.first(), Some(&3));
        socket.out.clear();
        let slot = world.drives.waiting[0].0;
        assert_eq!(socket.connection.complete_around(slot, 4096, &mut socket.out), None);
        world.answer(&mut socket);
        assert_eq!(socket.out, [0; 0], "nothing follows");
        assert!(!socket.connection.is_closed());
    }
}
