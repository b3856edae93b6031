//! Records that a node keeps of the superblocks that its hosts write.

use crate::world::{PATIENCE, command, connect, host, run, serve};
use pumice_node::serve::{Backend, Drive};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::SuperblockSeen;
use pumice_offload::wire::{self, opcode};
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::v1::V1;
use pumice_raid::{FormatSpec, Metadata, Uuid};
use pumice_remote::initiator::Queue;
use std::time::Instant;

const SIZE: u64 = 8 << 20;
const ARRAY: Uuid = Uuid([7; 16]);

/// A superblock of version 1.2 of a member, with this event count.
fn superblock(events: u64, clean: bool) -> Vec<u8> {
    let format = FormatSpec {
        metadata: Metadata::V1_2,
        level: Level::Raid6,
        layout: Some(Layout::LeftSymmetric),
        chunk_bytes: 65536,
        component_bytes: None,
        device_bytes: vec![SIZE; 4],
        array_uuid: ARRAY,
        device_uuids: (1..5).map(|i| Uuid([i; 16])).collect(),
        name: "test:array".to_owned(),
        ctime: 1_700_000_000,
        bitmap: false,
        bad_block_log: true,
        data_offset: None,
    }
    .format()
    .unwrap();
    let (_, bytes) = format.members[0].writes.iter().find(|(offset, _)| *offset == 4096).unwrap();
    let mut made = V1::decode(bytes, Metadata::V1_2).unwrap();
    (made.events, made.resync_offset) = (events, if clean { u64::MAX } else { 0 });
    let mut bytes = made.encode();
    bytes.resize(4096, 0);
    bytes
}

fn write(queue: &mut Queue, bytes: &[u8]) {
    let sqe = command(io::WRITE, 1, 8, (bytes.len() / 512) as u32);
    assert_eq!(run(queue, sqe, bytes), Status::SUCCESS);
}

fn seen(queue: &mut Queue) -> Vec<SuperblockSeen> {
    let mut bytes = vec![0; 4096];
    let mut sqe = Sqe::new(opcode::SUPERBLOCKS_READ, 0);
    sqe.set_dword(12, bytes.len() as u32);
    let done = queue.execute(sqe, &[], &mut bytes).unwrap();
    assert!(done.status.is_success());
    let (seen, drives) = wire::decode_superblocks(&bytes[..done.received as usize]).unwrap();
    assert_eq!(drives, 1);
    seen
}

#[test]
fn a_clean_superblock_counts_while_the_association_that_wrote_it_stands() {
    let server = serve(vec![Drive::open(&Backend::Memory(SIZE), 512, "node", 1).unwrap()]);
    let (_scrub, mut scrub) = connect(&server, host(&server, 9), 8);
    let owner = connect(&server, host(&server, 1), 8);
    let (controller, mut queue) = owner;
    assert_eq!(seen(&mut scrub), []);
    let said = |clean, events| {
        let (drive, offset) = (pumice_offload::DriveId(1), Some(4096));
        SuperblockSeen { drive, offset, array: ARRAY.0, clean, events }
    };
    write(&mut queue, &superblock(10, false));
    assert_eq!(seen(&mut scrub), [said(false, 0)], "active from the first");
    write(&mut queue, &superblock(11, true));
    write(&mut queue, &superblock(12, false));
    assert_eq!(seen(&mut scrub), [said(true, 11)], "clean, then active");
    // Data beside it change nothing.
    assert_eq!(run(&mut queue, command(io::WRITE, 1, 4000, 1), &[3; 512]), Status::SUCCESS);
    assert_eq!(seen(&mut scrub), [said(true, 11)]);
    drop((queue, controller));
    // The host is back, as after a crash: what it wrote before counts no more.
    let (_controller, mut queue) = connect(&server, host(&server, 1), 8);
    let until = Instant::now() + PATIENCE;
    while seen(&mut scrub)[0].clean {
        assert!(Instant::now() < until, "the association has ended");
    }
    write(&mut queue, &superblock(13, false));
    assert_eq!(seen(&mut scrub), [said(false, 0)]);
    write(&mut queue, &superblock(14, true));
    assert_eq!(seen(&mut scrub), [said(true, 14)]);
    assert_eq!(run(&mut queue, command(io::WRITE_ZEROES, 1, 8, 1), &[]), Status::SUCCESS);
    assert_eq!(seen(&mut scrub), [], "it is overwritten");
}
