//! Operations in flight on a node of another process, so to speak.

use crate::proxy::{Proxy, Then, data_len};
use crate::{DRIVE, LEN, connect, content, dial, filled, node_of};
use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use pumice_blockdev::{HookedDevice, MemoryDevice};
use pumice_node::serve::Drive;
use pumice_offload::{Completion, DriveId, Drives, ErrorKind, Link, Operation, OperationQueue, Tag};
use pumice_remote::initiator::DigestPolicy;
use pumice_remote::{Dial, RemoteNode};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

pub(crate) fn open(node: &RemoteNode, depth: usize) -> (Box<dyn OperationQueue>, Receiver<Completion>) {
    let (ended, completions) = channel();
    let ended = Mutex::new(ended);
    let ended = Arc::new(move |completion| ended.lock().unwrap().send(completion).unwrap());
    (node.operations(depth, ended).unwrap(), completions)
}

fn read(offset: u64, len: usize) -> Operation {
    Operation::Read { drive: DRIVE, offset, len, buffer: AlignedBuffer::new(len) }
}

fn write(offset: u64, len: usize, byte: u8, durable: bool) -> Operation {
    Operation::Write { drive: DRIVE, offset, data: SharedBuffer::copy_of(&vec![byte; len]), durable }
}

fn bytes(operation: Operation) -> Vec<u8> {
    match operation {
        Operation::Read { buffer, len, .. } => buffer[..len].to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_operations_are_in_flight_on_one_connection() {
    let (server, _) = filled();
    for digests in [DigestPolicy::Off, DigestPolicy::On] {
        let node = connect(server.address(), digests);
        let (queue, completions) = open(&node, 256);
        // More than the queue has entries; writes in the capsule and beyond it.
        for round in 0..2 {
            for i in 0..256 {
                let operation = match round {
                    0 if i % 4 == 3 => write(i * 4096, 512, i as u8, true),
                    0 => write(i * 4096, 4096, i as u8, false),
                    _ => read(i * 4096, 512),
                };
                queue.submit(Tag(i), operation).unwrap();
            }
            let mut seen = BTreeSet::new();
            for _ in 0..256 {
                let Completion { tag, operation, result } = completions.recv().unwrap();
                result.unwrap();
                assert!(seen.insert(tag));
                if round == 1 {
                    assert_eq!(bytes(operation), vec![tag.0 as u8; 512]);
                }
            }
        }
        queue.submit(Tag(0), write(0, 256 << 10, 9, false)).unwrap();
        completions.recv().unwrap().result.unwrap();
        queue.submit(Tag(0), read(0, 256 << 10)).unwrap();
        assert_eq!(bytes(completions.recv().unwrap().operation), vec![9; 256 << 10]);
        queue.submit(Tag(1), Operation::Flush { drive: DRIVE }).unwrap();
        completions.recv().unwrap().result.unwrap();
        queue.submit(Tag(2), Operation::Flush { drive: DriveId(2) }).unwrap();
        let error = completions.recv().unwrap().result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidField("drive"));
        // Calls that wait go on beside it.
        node.write(DRIVE, 0, &content()).unwrap();
        assert_eq!(queue.in_flight(), 0);
    }
}

#[test]
fn a_read_that_waits_for_its_drive_does_not_hold_up_others() {
    let (open_gate, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let slow = HookedDevice::over(Arc::new(MemoryDevice::new("slow", 1 << 20))).at_reads(move |offset, _| {
        if offset == 0 {
            gate.lock().unwrap().recv().unwrap();
        }
    });
    let server = node_of(Drive::with_device(Arc::new(slow), 512, "slow").unwrap());
    let node = connect(server.address(), DigestPolicy::Off);
    let (queue, completions) = open(&node, 8);
    for i in 0..8 {
        queue.submit(Tag(i), read(i * 4096, 4096)).unwrap();
    }
    let others: BTreeSet<u64> = (0..7).map(|_| completions.recv().unwrap().tag.0).collect();
    assert_eq!(others, (1..8).collect(), "the first ends last");
    open_gate.send(()).unwrap();
    assert_eq!(completions.recv().unwrap().tag, Tag(0));
}

/// All that was in flight ends as unreachable, once each, and so does what follows.
fn all_lost(queue: &dyn OperationQueue, completions: &Receiver<Completion>, count: usize) {
    let mut tags = BTreeSet::new();
    for _ in 0..count {
        let Completion { tag, result, .. } = completions.recv().unwrap();
        let kind = result.unwrap_err().kind();
        assert!(tags.insert(tag) && kind == ErrorKind::Unreachable, "{kind:?}");
    }
    queue.submit(Tag(1000), read(0, 512)).unwrap();
    assert_eq!(completions.recv().unwrap().result.unwrap_err().kind(), ErrorKind::Unreachable);
    assert_eq!(queue.in_flight(), 0);
    assert!(completions.try_recv().is_err());
}

#[test]
fn a_connection_that_breaks_ends_everything_with_an_error() {
    let (server, _) = filled();
    let proxy = Proxy::start(server.address(), |pdu| match data_len(pdu) == LEN {
        true => Then::Cut,
        false => Then::Pass,
    });
    let node = connect(proxy.address, DigestPolicy::Off);
    let (queue, completions) = open(&node, 64);
    let (other, others) = open(&node, 64);
    for i in 0..32 {
        queue.submit(Tag(i), read(0, LEN)).unwrap();
    }
    all_lost(&*queue, &completions, 32);
    // One lost queue is the end of the association, and of its other queues.
    other.submit(Tag(0), read(0, 512)).unwrap();
    all_lost(&*other, &others, 1);
    assert!(node.read(DRIVE, 0, &mut [0; 512]).is_err());
    drop((queue, other));
    assert!(node.reconnect().unwrap());
    let (queue, completions) = open(&node, 64);
    queue.submit(Tag(0), read(0, 512)).unwrap();
    assert_eq!(bytes(completions.recv().unwrap().operation), content()[..512]);
}

#[test]
fn a_node_that_falls_silent_ends_everything_with_an_error() {
    let (server, _) = filled();
    let once = OnceLock::new();
    let proxy = Proxy::start(server.address(), move |pdu| match data_len(pdu) == LEN {
        true if once.set(()).is_ok() => Then::Hold,
        _ => Then::Pass,
    });
    let dial = Dial { deadline: Duration::from_millis(500), ..dial(proxy.address, DigestPolicy::Off) };
    let node = RemoteNode::connect(dial).unwrap();
    let (queue, completions) = open(&node, 64);
    for i in 0..32 {
        queue.submit(Tag(i), read(0, LEN)).unwrap();
    }
    all_lost(&*queue, &completions, 32);
}

/// Lines of the log of this process.
static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct ToLines;

impl std::io::Write for ToLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_node_that_does_not_answer_is_named_while_requests_wait() {
    tracing_subscriber::fmt().with_ansi(false).with_writer(|| ToLines).init();
    let (server, _) = filled();
    let once = OnceLock::new();
    let proxy = Proxy::start(server.address(), move |pdu| match data_len(pdu) == LEN {
        true if once.set(()).is_ok() => Then::Hold,
        _ => Then::Pass,
    });
    let dial = Dial { deadline: Duration::from_secs(4), ..dial(proxy.address, DigestPolicy::Off) };
    let node = RemoteNode::connect(dial).unwrap();
    let (queue, completions) = open(&node, 64);
    queue.submit(Tag(0), read(0, LEN)).unwrap();
    let is_named = || {
        let said = String::from_utf8(LINES.lock().unwrap().clone()).unwrap();
        let of_it =
            |line: &str| line.contains("does not answer") && line.contains(&proxy.address.to_string());
        said.lines().any(of_it)
    };
    while !is_named() {
        assert!(completions.try_recv().is_err(), "it was given up without a word");
        std::thread::sleep(Duration::from_millis(20));
    }
    all_lost(&*queue, &completions, 1);
}

#[test]
fn a_queue_that_is_closed_leaves_the_association_as_it_is() {
    let (server, _) = filled();
    let node = connect(server.address(), DigestPolicy::Off);
    // More than there are queues of an association.
    for _ in 0..20 {
        let (queue, completions) = open(&node, 64);
        for i in 0..64 {
            queue.submit(Tag(i), read(0, LEN)).unwrap();
        }
        drop(queue);
        assert_eq!(completions.iter().count(), 64);
    }
    assert_eq!(crate::read(&node).unwrap(), content());
    assert!(!node.reconnect().unwrap());
}
