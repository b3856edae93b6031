//! Operations in flight on drives of this machine.

use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use pumice_blockdev::{BlockDevice, FaultyDevice, FileDevice, HookedDevice, MemoryDevice, OpenMode, Options};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{Completion, DriveId, Drives, ErrorKind, MAX_OPERATION, Operation, OperationQueue, Tag};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

const DRIVE: DriveId = DriveId(1);
const SIZE: u64 = 1 << 20;

fn open(
    drives: Vec<Arc<dyn BlockDevice>>,
    depth: usize,
) -> (LocalNode, Box<dyn OperationQueue>, Receiver<Completion>) {
    let node = LocalNode::new("n", drives, &Peers::new(), NodeOptions::default());
    let (ended, completions) = channel();
    let ended = Mutex::new(ended);
    let queue = node
        .operations(depth, Arc::new(move |completion| ended.lock().unwrap().send(completion).unwrap()))
        .unwrap();
    (node, queue, completions)
}

fn read(drive: DriveId, offset: u64, len: usize) -> Operation {
    Operation::Read { drive, offset, len, buffer: AlignedBuffer::new(len) }
}

fn write(offset: u64, byte: u8, durable: bool) -> Operation {
    Operation::Write { drive: DRIVE, offset, data: SharedBuffer::copy_of(&[byte; 4096]), durable }
}

fn content(operation: Operation) -> Vec<u8> {
    match operation {
        Operation::Read { buffer, len, .. } => buffer[..len].to_vec(),
        other => panic!("{other:?}"),
    }
}

/// A file past the page cache, if the file system of the build can, and one in memory.
fn kinds() -> (tempfile::TempDir, Vec<Arc<dyn BlockDevice>>) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("drive");
    std::fs::write(&path, vec![0; SIZE as usize]).unwrap();
    let file = FileDevice::open(&path, OpenMode::ReadWrite, Options::default()).unwrap();
    // Reads of this one go through threads.
    let hooked = HookedDevice::over(Arc::new(MemoryDevice::new("hooked", SIZE)));
    let devices: Vec<Arc<dyn BlockDevice>> =
        vec![Arc::new(file), Arc::new(MemoryDevice::new("memory", SIZE)), Arc::new(hooked)];
    (folder, devices)
}

#[test]
fn many_are_in_flight_and_each_ends_once_with_its_own_bytes() {
    let (_folder, kinds) = kinds();
    for device in kinds {
        let name = device.name().to_owned();
        let (_node, queue, completions) = open(vec![device], 64);
        for i in 0..64 {
            queue.submit(Tag(i), write(i * 4096, i as u8 + 1, i % 8 == 0)).unwrap();
        }
        let ended: BTreeSet<u64> = (0..64)
            .map(|_| {
                let completion = completions.recv().unwrap();
                completion.result.unwrap();
                completion.tag.0
            })
            .collect();
        assert_eq!((ended.len(), queue.in_flight()), (64, 0), "{name}");
        queue.submit(Tag(99), Operation::Flush { drive: DRIVE }).unwrap();
        completions.recv().unwrap().result.unwrap();
        for i in 0..64 {
            queue.submit(Tag(i), read(DRIVE, i * 4096, 4096)).unwrap();
        }
        for _ in 0..64 {
            let Completion { tag, operation, result } = completions.recv().unwrap();
            result.unwrap();
            assert_eq!(content(operation), vec![tag.0 as u8 + 1; 4096], "{name}");
        }
        assert!(completions.try_recv().is_err());
    }
}

#[test]
fn one_that_waits_for_its_drive_does_not_hold_up_others() {
    let (open_gate, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let slow = HookedDevice::over(Arc::new(MemoryDevice::new("slow", SIZE))).at_reads(move |offset, _| {
        if offset == 0 {
            gate.lock().unwrap().recv().unwrap();
        }
    });
    let (_node, queue, completions) = open(vec![Arc::new(slow)], 8);
    for i in 0..8 {
        queue.submit(Tag(i), read(DRIVE, i * 4096, 4096)).unwrap();
    }
    let others: BTreeSet<u64> = (0..7).map(|_| completions.recv().unwrap().tag.0).collect();
    assert_eq!(others, (1..8).collect(), "the first ends last");
    assert_eq!(queue.in_flight(), 1);
    open_gate.send(()).unwrap();
    assert_eq!(completions.recv().unwrap().tag, Tag(0));
}

#[test]
fn beyond_the_depth_an_operation_is_handed_back() {
    let (open_gate, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let slow = HookedDevice::over(Arc::new(MemoryDevice::new("slow", SIZE)))
        .at_reads(move |_, _| gate.lock().unwrap().recv().unwrap());
    let (_node, queue, completions) = open(vec![Arc::new(slow)], 2);
    queue.submit(Tag(1), read(DRIVE, 0, 512)).unwrap();
    queue.submit(Tag(2), read(DRIVE, 0, 512)).unwrap();
    let back = queue.submit(Tag(3), read(DRIVE, 8192, 512)).unwrap_err();
    assert_eq!((back.range(), queue.in_flight()), ((8192, 512), 2));
    open_gate.send(()).unwrap();
    completions.recv().unwrap().result.unwrap();
    queue.submit(Tag(3), back).unwrap();
    open_gate.send(()).unwrap();
    open_gate.send(()).unwrap();
    let left: BTreeSet<u64> = (0..2).map(|_| completions.recv().unwrap().tag.0).collect();
    assert!(left.contains(&3), "{left:?}");
}

#[test]
fn what_makes_no_sense_and_what_the_medium_refuses_ends_alone() {
    let faulty = FaultyDevice::new("faulty", vec![7; SIZE as usize], 1);
    faulty.lose(8192..12288);
    let (_node, queue, completions) = open(vec![Arc::new(faulty)], 16);
    let wrong = [
        (read(DriveId(2), 0, 512), ErrorKind::InvalidField("drive")),
        (read(DRIVE, SIZE - 512, 1024), ErrorKind::InvalidField("offset")),
        (read(DRIVE, u64::MAX - 511, 1024), ErrorKind::InvalidField("offset")),
        (read(DRIVE, 100, 512), ErrorKind::InvalidField("offset")),
        (read(DRIVE, 0, MAX_OPERATION + 512), ErrorKind::InvalidField("len")),
        (read(DRIVE, 8192, 512), ErrorKind::Media),
    ];
    let expected: Vec<ErrorKind> = wrong.iter().map(|(_, kind)| *kind).collect();
    for (i, (operation, _)) in wrong.into_iter().enumerate() {
        queue.submit(Tag(i as u64), operation).unwrap();
    }
    queue.submit(Tag(6), read(DRIVE, 4096, 4096)).unwrap();
    for _ in 0..7 {
        let Completion { tag, operation, result } = completions.recv().unwrap();
        match expected.get(tag.0 as usize) {
            Some(kind) => assert_eq!(result.unwrap_err().kind(), *kind, "{}", tag.0),
            None => {
                result.unwrap();
                assert_eq!(content(operation), vec![7; 4096]);
            }
        }
    }
}

#[test]
fn a_durable_write_is_flushed_before_it_ends() {
    let flushes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&flushes);
    let device = HookedDevice::over(Arc::new(MemoryDevice::new("m", SIZE))).at_flushes(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let (_node, queue, completions) = open(vec![Arc::new(device)], 4);
    for (durable, expected) in [(false, 0), (true, 1)] {
        queue.submit(Tag(0), write(0, 1, durable)).unwrap();
        completions.recv().unwrap().result.unwrap();
        assert_eq!(flushes.load(Ordering::SeqCst), expected);
    }
}

#[test]
fn closing_ends_everything_that_no_drive_has_begun() {
    let (open_gate, gate) = channel::<()>();
    let (begun, beginning) = channel();
    let gate = Mutex::new((gate, begun));
    let slow = HookedDevice::over(Arc::new(MemoryDevice::new("slow", SIZE))).at_reads(move |_, _| {
        let gate = gate.lock().unwrap();
        gate.1.send(()).unwrap();
        // When the other end has gone, everybody may pass.
        let _ = gate.0.recv();
    });
    let (_node, queue, completions) = open(vec![Arc::new(slow)], 65);
    for i in 0..64 {
        queue.submit(Tag(i), read(DRIVE, 0, 512)).unwrap();
    }
    beginning.recv().unwrap();
    queue.close();
    drop(open_gate);
    queue.submit(Tag(64), read(DRIVE, 0, 512)).unwrap();
    drop(queue);
    let ended: Vec<Completion> = completions.iter().collect();
    assert_eq!(ended.iter().map(|c| c.tag.0).collect::<BTreeSet<_>>().len(), 65);
    let closed = |c: &&Completion| c.result.as_ref().is_err_and(|e| e.kind() == ErrorKind::Unreachable);
    let given_up = ended.iter().filter(closed).count();
    // As many as there are threads had begun, at most.
    assert!((61..=64).contains(&given_up), "{given_up}");
}
