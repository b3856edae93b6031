//! Bounds of a connection: data that were asked for and do not come, and commands for which there
//! is no room.

use crate::pair::{admin, options};
use crate::world::{PLAIN, SECOND, Shared, World, block_command, framed, write_by_r2t};
use pumice_nvme::controller::{Access, Limits, Subsystem, Windows};
use pumice_nvme::host::Options;
use pumice_nvme::pdu::{Kind, LAST, Transfer, push};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sgl, Sqe};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn queue(world: &mut World) -> (crate::pair::HostQueue, crate::pair::HostQueue) {
    let (admin, cntlid) = admin(world, PLAIN, true, &[1 << 20]);
    let options: Options = options(1, cntlid, PLAIN, true);
    let mut queue = crate::pair::HostQueue::connect(world, options, &[1 << 20]);
    assert!(queue.completions.pop().unwrap().status.is_success());
    (admin, queue)
}

/// Number of PDUs of a kind, by their lengths.
fn count(mut bytes: &[u8], kind: Kind) -> usize {
    let mut found = 0;
    while let Some(len) = bytes.get(4..8) {
        found += usize::from(bytes[0] == kind as u8);
        bytes = &bytes[u32::from_le_bytes(len.try_into().unwrap()) as usize..];
    }
    found
}

/// One that never sends what it was asked for, and one that sends a little of it from time to time.
#[test]
fn promised_data_that_do_not_come_end_the_connection() {
    for (trickles, closed) in [(false, 31), (true, 121)] {
        let mut world = World::new(Limits::default());
        let (_admin, mut queue) = queue(&mut world);
        let socket = &mut queue.socket;
        world.receive(socket, 0, &write_by_r2t(3, 64, PLAIN));
        assert_eq!(count(&socket.out, Kind::R2t), 1);
        let ttag = u16::from_le_bytes([socket.out[10], socket.out[11]]);
        let mut sent = 0;
        let at = (1..200).find(|second| {
            if trickles && second % 20 == 0 {
                let body = Transfer { cccid: 3, ttag, offset: sent, len: 4 }.body();
                let pdu = framed(Kind::H2cData, 0, &body, PLAIN, &[1; 4]);
                world.receive(socket, second * SECOND, &pdu);
                sent += 4;
            }
            socket.connection.tick(second * SECOND, &world.shared, &mut Vec::new());
            socket.connection.is_closed()
        });
        assert_eq!(at, Some(closed), "trickles: {trickles}");
    }
}

#[derive(Debug)]
struct Room(AtomicU32);

impl Windows for Room {
    fn take(&self, bytes: u32) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: u32) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Data are asked for while there is room beyond the connection's own; the others wait until there
/// is, and all of it is given back in the end.
#[test]
fn data_are_asked_for_within_the_room_that_there_is() {
    const ALL: u32 = 100 << 10;
    let mut world = World::new(Limits::default());
    let (_admin, mut queue) = queue(&mut world);
    let room = Arc::new(Room(AtomicU32::new(ALL)));
    queue.socket.connection.set_windows(Arc::clone(&room) as Arc<dyn Windows>);
    let socket = &mut queue.socket;
    // 32 KiB each: three of them have room.
    for cid in 0..5 {
        world.receive(socket, 0, &write_by_r2t(cid, 64, PLAIN));
    }
    assert_eq!(count(&socket.out, Kind::R2t), 3);
    socket.connection.tick(SECOND, &world.shared, &mut socket.out);
    assert_eq!(count(&socket.out, Kind::R2t), 3);
    // Another connection gives room back.
    room.give_back(32 << 10);
    socket.connection.tick(SECOND, &world.shared, &mut socket.out);
    assert_eq!(count(&socket.out, Kind::R2t), 4);
    // The first one ends.
    let ttag = u16::from_le_bytes([socket.out[10], socket.out[11]]);
    let body = Transfer { cccid: 0, ttag, offset: 0, len: 32 << 10 }.body();
    let pdu = framed(Kind::H2cData, LAST, &body, PLAIN, &[1; 32 << 10]);
    world.receive(socket, SECOND, &pdu);
    assert_eq!(count(&socket.out, Kind::R2t), 5);
    drop(queue);
    assert_eq!(room.0.load(Ordering::Relaxed), ALL + (32 << 10));
}

/// A connection that has done nothing for a second keeps none of the memory that its writes had.
#[test]
fn an_idle_connection_keeps_no_memory() {
    let mut world = World::new(Limits::default());
    let (_admin, mut queue) = queue(&mut world);
    let room = Arc::new(Room(AtomicU32::new(1 << 20)));
    queue.socket.connection.set_windows(Arc::clone(&room) as Arc<dyn Windows>);
    queue.write(&mut world, block_command(io::WRITE, 1, 0, 64), &[1; 64 * 512]);
    assert!(room.0.load(Ordering::Relaxed) < 1 << 20, "it is kept for the next");
    queue.socket.connection.tick(2 * SECOND, &world.shared, &mut Vec::new());
    assert_eq!(room.0.load(Ordering::Relaxed), 1 << 20);
}

/// Commands for which the medium has no room stay with the caller; data for those that have begun
/// are taken.
#[test]
fn a_command_without_room_is_left_and_data_are_not() {
    let mut world = World::new(Limits::default());
    let (_admin, mut queue) = queue(&mut world);
    let mut read = block_command(io::READ, 2, 0, 8);
    read.set_sgl(Sgl::transport(4096));
    let mut bytes = write_by_r2t(1, 8, PLAIN);
    world.receive(&mut queue.socket, 0, &bytes);
    let ttag = u16::from_le_bytes([queue.socket.out[10], queue.socket.out[11]]);
    bytes.clear();
    push(&mut bytes, Kind::CapsuleCmd, 0, &read.0, PLAIN);
    world.drives.full = true;
    let out = &mut queue.socket.out;
    out.clear();
    let connection = &mut queue.socket.connection;
    let received = connection.receive(0, &bytes, &world.shared, &mut world.drives, out);
    assert_eq!((received.consumed, received.full, received.more), (0, true, false));
    let body = Transfer { cccid: 1, ttag, offset: 0, len: 4096 }.body();
    let data = framed(Kind::H2cData, LAST, &body, PLAIN, &[1; 4096]);
    let received = connection.receive(0, &data, &world.shared, &mut world.drives, out);
    assert_eq!((received.consumed, received.full), (data.len(), false));
    // However long that takes: it is not the host's fault.
    connection.tick(1000 * SECOND, &world.shared, out);
    assert!(!connection.is_closed());
    world.drives.full = false;
    let received = connection.receive(0, &bytes, &world.shared, &mut world.drives, out);
    assert_eq!((received.consumed, received.full), (bytes.len(), false));
}

/// A node that has no room does not read: what it left in the host's memory is not late.
#[test]
fn what_a_node_does_not_take_is_not_late() {
    let mut world = World::new(Limits::default());
    let (_admin, mut queue) = queue(&mut world);
    let socket = &mut queue.socket;
    world.receive(socket, 0, &write_by_r2t(3, 8, PLAIN));
    // The beginning of a PDU.
    world.receive(socket, 0, &write_by_r2t(4, 8, PLAIN)[..20]);
    for second in 1..1000 {
        socket.connection.put_off(second * SECOND);
        socket.connection.tick(second * SECOND, &world.shared, &mut Vec::new());
        assert!(!socket.connection.is_closed(), "after {second} s");
    }
    // Then it reads again, and the host has as long as it ever has.
    let closed = (1000..2000).find(|second| {
        socket.connection.tick(second * SECOND, &world.shared, &mut Vec::new());
        socket.connection.is_closed()
    });
    assert_eq!(closed, Some(1029));
}

/// The SGL of a command without data means nothing: no memory is held for what it says.
#[test]
fn a_command_without_data_has_no_length() {
    let mut world = World::new(Limits::default());
    let (_admin, mut queue) = queue(&mut world);
    let mut sqe = Sqe::new(0x80, 1);
    sqe.set_sgl(Sgl::transport(u32::MAX));
    let mut bytes = Vec::new();
    push(&mut bytes, Kind::CapsuleCmd, 0, &sqe.0, PLAIN);
    world.drives.last_len = 1;
    world.receive(&mut queue.socket, 0, &bytes);
    assert_eq!(world.drives.last_len, 0);
}

/// Commands that are answered with next to nothing end a batch too: the caller serves others
/// between two of them.
#[test]
fn a_batch_is_bounded_however_little_is_answered() {
    const CAPSULE: usize = 72;
    let mut world = World::new(Limits::default());
    let (_admin, mut queue) = queue(&mut world);
    let mut flushes = Vec::new();
    let flush = block_command(io::FLUSH, 1, 0, 1);
    (0..2000).for_each(|_| push(&mut flushes, Kind::CapsuleCmd, 0, &flush.0, PLAIN));
    // Each has as many ranges as there may be.
    let mut deallocate = Sqe::new(io::DATASET_MANAGEMENT, 1);
    deallocate.set_dword(10, 255);
    deallocate.set_dword(11, 4);
    deallocate.set_sgl(Sgl::in_capsule(4096));
    let one = framed(Kind::CapsuleCmd, 0, &deallocate.0, PLAIN, &[0; 4096]);
    for (bytes, consumed, work) in [(&flushes, 512 * CAPSULE, 512), (&one.repeat(8), 2 * one.len(), 514)] {
        let (connection, mut out) = (&mut queue.socket.connection, Vec::new());
        let received = connection.receive(0, bytes, &world.shared, &mut world.drives, &mut out);
        assert_eq!((received.consumed, received.more, received.work), (consumed, true, work));
    }
}

/// The way to a subsystem, and how often it was taken.
struct Counted<'s>(&'s Shared, Cell<usize>);

impl Access for Counted<'_> {
    fn with<R>(&self, f: impl FnOnce(&mut Subsystem) -> R) -> R {
        self.1.set(self.1.get() + 1);
        self.0.with(f)
    }
}

/// Thousands of queues are told the time at once: they do not all lock the subsystem for that.
#[test]
fn a_queue_asks_for_namespaces_only_when_they_have_changed() {
    let mut world = World::new(Limits::default());
    let (_admin, mut queue) = queue(&mut world);
    let connection = &mut queue.socket.connection;
    let mut asked_at = |second: u64| {
        let counted = Counted(&world.shared, Cell::new(0));
        connection.tick(second * SECOND, &counted, &mut Vec::new());
        counted.1.get()
    };
    assert_eq!([asked_at(1), asked_at(2)], [0, 0]);
    let mut smaller = world.shared.with(|subsystem| subsystem.namespaces()[1]);
    smaller.blocks /= 2;
    world.shared.with(|subsystem| subsystem.change_namespace(2, smaller));
    assert_eq!([asked_at(3), asked_at(4)], [1, 0]);
}
