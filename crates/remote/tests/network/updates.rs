//! Writes of parity that are made by the nodes of the drives.

use crate::operations::open;
use crate::{DRIVE, NAME, connect, node_with};
use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use pumice_base::units::Role;
use pumice_node::serve::{Backend, Drive, Peer, Server};
use pumice_offload::{
    DataNode, DriveMemory, Drives, ErrorKind, Grant, MemoryAddress, Mode, NodeError, Operation,
    ParityCommand, ParityEngine, PathId, PeerRange, Presence, Rule, Source, SumTo, Tag, Update, UpdateRecord,
    UpdateSource, UpdateSum, Updates, Window,
};
use pumice_parity::gf;
use pumice_remote::RemoteNode;
use pumice_remote::initiator::DigestPolicy;
use pumice_volume::log::{Kind, Record};
use pumice_volume::rows::{Rows, Window as RowWindow};
use std::collections::VecDeque;

const LEN: usize = 4096;
const DATA: u64 = 256 << 10;
const LOG: u64 = 64 << 10;
/// The secret that the sums of interims depend on.
const SECRET: u64 = 0x0123_4567_89AB_CDEF;
const PATH: PathId = PathId(3);

/// Drives in memory are written by the cores of their nodes, files by threads.
#[derive(Debug, Clone, Copy)]
enum Backing {
    Memory,
    Files,
}

struct Pair {
    _folder: tempfile::TempDir,
    _servers: [Server; 2],
    data: RemoteNode,
    parity: RemoteNode,
    /// Offset at which this host's part of each local memory begins.
    memory: [u64; 2],
}

fn at(offset: u64) -> MemoryAddress {
    MemoryAddress { drive: DRIVE, offset }
}

/// A node with a data member, and the node of a parity, which takes interims from 8192 of this
/// host's part of its memory on.
fn pair(drives: Backing) -> Pair {
    let folder = tempfile::tempdir().unwrap();
    let drive = |name: &str| {
        let path = folder.path().join(name);
        let backend = match drives {
            Backing::Memory => Backend::Memory(1 << 20),
            Backing::Files => {
                std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
                Backend::Path(path)
            }
        };
        Drive::open(&backend, 512, NAME, 1).unwrap()
    };
    let second = node_with(drive("parity"), Vec::new());
    let peer = Peer { address: second.address(), nqn: None, digests: DigestPolicy::Off };
    let first = node_with(drive("data"), vec![peer]);
    let data = connect(first.address(), DigestPolicy::Off);
    let parity = connect(second.address(), DigestPolicy::Off);
    let memory = [&data, &parity].map(|node| node.absolute(at(0)).unwrap().offset);
    let to = at(memory[1] + 8192);
    let grant = parity.grant(to, 8192).unwrap();
    let range = PeerRange { peer: second.address().to_string(), to, len: 8192, grant };
    assert!(data.updates().is_some());
    data.set_path(PATH, &range).unwrap();
    Pair { _folder: folder, _servers: [first, second], data, parity, memory }
}

fn both() -> impl Iterator<Item = Pair> {
    [Backing::Memory, Backing::Files].into_iter().map(pair)
}

fn run(node: &RemoteNode, operation: Operation) -> Result<[u32; 2], NodeError> {
    let (queue, completions) = open(node, 1);
    queue.submit(Tag(1), operation).unwrap();
    let done = completions.recv().unwrap();
    done.result?;
    match done.operation {
        Operation::Update { sent, .. } => Ok(sent),
        _ => Ok([0; 2]),
    }
}

fn step(update: Update, data: &[u8]) -> Operation {
    let data = (!data.is_empty()).then(|| SharedBuffer::copy_of(data));
    Operation::Update { update: Box::new(update), data, sent: [0; 2] }
}

fn record(role: u16) -> UpdateRecord {
    UpdateRecord {
        at: LOG + 8192,
        position: 8192,
        nonce: 99,
        generation: 2,
        sequence: 50,
        committed: 49,
        released: 40,
        window: 6,
        role,
        rows: 0b10,
        members: vec![1, 4],
        blocks: true,
    }
}

fn bytes(node: &RemoteNode, offset: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    node.read(DRIVE, offset, &mut out).unwrap();
    out
}

/// The steps of a write of 4096 bytes: fill and send, make, and the sum of the interim.
fn filled(pair: &Pair, new: &[u8]) -> u32 {
    let fill = Update {
        drive: DRIVE,
        slot: pair.memory[0],
        len: LEN as u32,
        segment: None,
        fills: true,
        secret: SECRET,
        sources: vec![
            UpdateSource::Media { drive: DRIVE, offset: DATA },
            UpdateSource::Memory { address: at(pair.memory[0]), sum: None },
        ],
        sums: vec![UpdateSum { to: SumTo::Peer { path: PATH, offset: 4096 }, factors: vec![7, 7] }],
        record: Some(record(1)),
    };
    run(&pair.data, step(fill, new)).unwrap()[0]
}

fn make(pair: &Pair, sum: u32) -> Update {
    Update {
        drive: DRIVE,
        slot: pair.memory[1],
        len: LEN as u32,
        segment: None,
        fills: false,
        secret: SECRET,
        sources: vec![
            UpdateSource::Media { drive: DRIVE, offset: DATA },
            UpdateSource::Memory { address: at(pair.memory[1] + 8192 + 4096), sum: Some(sum) },
        ],
        sums: vec![UpdateSum { to: SumTo::Slot, factors: vec![1, 1] }],
        record: Some(record(4)),
    }
}

fn store(from: u64) -> Operation {
    Operation::Store { drive: DRIVE, from, offset: DATA, len: LEN, durable: true }
}

/// Fetches [`LEN`] bytes of local memory.
fn fetched(node: &RemoteNode, from: u64) -> Result<Vec<u8>, NodeError> {
    let operation = Operation::Fetch { drive: DRIVE, from, len: LEN, buffer: AlignedBuffer::new(LEN) };
    let (queue, completions) = open(node, 1);
    queue.submit(Tag(1), operation).unwrap();
    let done = completions.recv().unwrap();
    done.result?;
    match done.operation {
        Operation::Fetch { buffer, .. } => Ok(buffer[..LEN].to_vec()),
        other => panic!("{other:?}"),
    }
}

/// Writes that the node has counted in the region of the data.
fn counted(node: &RemoteNode) -> u64 {
    let command = ParityCommand {
        unpaced: false,
        sources: vec![Source::Media { drive: DRIVE, base: 0 }],
        chunk: 1 << 20,
        window: Window { start: 0, len: 4096 },
        stripes: 0..1,
        rule: Rule::sum(1),
        mode: Mode::Check,
    };
    node.parity(&command).unwrap().activity.unwrap().after.completed
}

#[test]
fn a_small_write_is_folded_logged_and_stored_by_the_nodes_of_its_members() {
    for pair in both() {
        let pattern = |seed: usize| (0..LEN).map(|i| (i * seed % 253) as u8).collect::<Vec<_>>();
        let (old, new, old_parity) = (pattern(3), pattern(5), pattern(11));
        pair.data.write(DRIVE, DATA, &old).unwrap();
        pair.parity.write(DRIVE, DATA, &old_parity).unwrap();
        let before = [counted(&pair.data), counted(&pair.parity)];
        let sum = filled(&pair, &new);
        run(&pair.parity, step(make(&pair, sum), &[])).unwrap();
        let mut parity = old_parity.clone();
        gf::add_scaled(&mut parity, &old, 7);
        gf::add_scaled(&mut parity, &new, 7);
        // Logged, and nothing is in place.
        let logged = |role: u16, block: &[u8]| {
            let record = Record {
                kind: Kind::Blocks,
                role: Role(role),
                generation: 2,
                sequence: 50,
                committed: 49,
                released: 40,
                window: RowWindow(6),
                rows: Rows(2),
                members: vec![Role(1), Role(4)],
            };
            record.encode(99, 8192, &[block])
        };
        assert!(bytes(&pair.data, LOG + 8192, 8192) == logged(1, &new));
        assert!(bytes(&pair.parity, LOG + 8192, 8192) == logged(4, &parity));
        assert!(bytes(&pair.data, DATA, LEN) == old && bytes(&pair.parity, DATA, LEN) == old_parity);
        assert!(fetched(&pair.parity, pair.memory[1]).unwrap() == parity);
        run(&pair.data, store(pair.memory[0])).unwrap();
        run(&pair.parity, store(pair.memory[1])).unwrap();
        assert!(bytes(&pair.data, DATA, LEN) == new && bytes(&pair.parity, DATA, LEN) == parity);
        // A scrub of another host sees that somebody writes.
        let after = [counted(&pair.data), counted(&pair.parity)];
        assert_eq!([after[0] - before[0], after[1] - before[1]], [2, 2], "a record and a store each");
    }
}

#[test]
fn an_interim_with_other_bytes_is_not_folded_and_nothing_is_logged() {
    for pair in both() {
        let sum = filled(&pair, &[5; LEN]);
        let wrong = run(&pair.parity, step(make(&pair, sum ^ 1), &[])).unwrap_err();
        assert!(wrong.to_string().contains("other bytes"), "{wrong}");
        // It came too late: the place is another operation's.
        let late = filled(&pair, &[6; LEN]);
        run(&pair.parity, step(make(&pair, sum), &[])).unwrap_err();
        assert!(bytes(&pair.parity, LOG, 32768).iter().all(|byte| *byte == 0));
        run(&pair.parity, step(make(&pair, late), &[])).unwrap();
        assert_eq!(bytes(&pair.parity, LOG + 8192, 8), b"PUMSTLOG");
    }
}

#[test]
fn what_is_not_the_hosts_is_refused_before_anything_is_done() {
    for pair in both() {
        let kind = |operation| run(&pair.data, operation).unwrap_err().kind();
        // A quarter of the memory is this host's.
        assert_eq!(kind(store(pair.memory[0] + (256 << 10))), ErrorKind::Busy);
        let others = fetched(&pair.data, pair.memory[0] + (256 << 10)).unwrap_err();
        assert_eq!(others.kind(), ErrorKind::Busy);
        let too_short = Operation::Fetch {
            drive: DRIVE,
            from: pair.memory[0],
            len: 2 * LEN,
            buffer: AlignedBuffer::new(LEN),
        };
        assert!(matches!(kind(too_short), ErrorKind::InvalidField(_)));
        let outside = Operation::Store {
            drive: DRIVE,
            from: pair.memory[0],
            offset: 1 << 20,
            len: LEN,
            durable: false,
        };
        assert!(matches!(kind(outside), ErrorKind::InvalidField(_)));
        let plain = Update {
            drive: DRIVE,
            slot: pair.memory[0],
            len: LEN as u32,
            segment: None,
            fills: false,
            secret: SECRET,
            sources: Vec::new(),
            sums: Vec::new(),
            record: Some(record(1)),
        };
        let other_slot = Update { slot: pair.memory[0] + (256 << 10), ..plain.clone() };
        assert_eq!(kind(step(other_slot, &[])), ErrorKind::Busy);
        let past_the_end = UpdateRecord { at: (1 << 20) - 4096, ..record(1) };
        let past_the_end = Update { record: Some(past_the_end), ..plain.clone() };
        assert!(matches!(kind(step(past_the_end, &[])), ErrorKind::InvalidField(_)));
        let many = UpdateRecord { members: (0..3000).collect(), ..record(1) };
        let many = Update { record: Some(many), ..plain.clone() };
        assert!(matches!(kind(step(many, &[])), ErrorKind::InvalidField(_)), "more than a record lists");
        let sums = vec![UpdateSum { to: SumTo::Peer { path: PathId(9), offset: 0 }, factors: vec![1] }];
        let sources = vec![UpdateSource::Media { drive: DRIVE, offset: 0 }];
        let no_path = Update { sources, sums, record: None, ..plain.clone() };
        assert!(matches!(kind(step(no_path, &[])), ErrorKind::InvalidField(_)));
        assert!(bytes(&pair.data, 0, 1 << 20).iter().all(|byte| *byte == 0));
        // Sums go to peers on the list, along so many paths.
        let range =
            |peer: &str| PeerRange { peer: peer.to_owned(), to: at(0), len: 4096, grant: Grant([1; 16]) };
        let stranger = pair.data.set_path(PathId(0), &range("192.0.2.1:4420")).unwrap_err();
        assert_eq!(stranger.kind(), ErrorKind::Unreachable);
        let peer = pair.parity.name().to_owned();
        for path in (0..64).filter(|path| *path != PATH.0) {
            pair.data.set_path(PathId(path), &range(&peer)).unwrap();
        }
        pair.data.set_path(PATH, &range(&peer)).unwrap();
        assert_eq!(pair.data.set_path(PathId(64), &range(&peer)).unwrap_err().kind(), ErrorKind::Busy);
        // Who has promised to write nothing does not.
        pair.data.observe().unwrap();
        assert_eq!(kind(step(plain, &[])), ErrorKind::ReadOnly);
        assert_eq!(kind(store(pair.memory[0])), ErrorKind::ReadOnly);
    }
}

/// Two segments with coefficients of their own. The interim lies where the sum is made.
#[test]
fn a_stretch_is_summed_by_both_nodes_segment_by_segment() {
    for pair in both() {
        let block = |value: u8| vec![value; 4096];
        for (node, value) in [(&pair.data, 3), (&pair.parity, 5)] {
            node.write(DRIVE, DATA, &[block(value), block(value + 1)].concat()).unwrap();
        }
        let stretch = |sums, sources| Update {
            drive: DRIVE,
            slot: pair.memory[1] + 8192,
            len: 8192,
            segment: Some(4096),
            fills: false,
            secret: SECRET,
            sources,
            sums,
            record: None,
        };
        let media = UpdateSource::Media { drive: DRIVE, offset: DATA };
        let to = SumTo::Peer { path: PATH, offset: 0 };
        let send = stretch(vec![UpdateSum { to, factors: vec![1, 2] }], vec![media]);
        let [sum, _] = run(&pair.data, step(send.clone(), &[])).unwrap();
        let make = |sum| {
            let interim = UpdateSource::Memory { address: at(pair.memory[1] + 8192), sum: Some(sum) };
            stretch(vec![UpdateSum { to: SumTo::Slot, factors: vec![4, 1, 1, 1] }], vec![media, interim])
        };
        run(&pair.parity, step(make(sum), &[])).unwrap();
        let store = Operation::Store {
            drive: DRIVE,
            from: pair.memory[1] + 8192,
            offset: DATA,
            len: 8192,
            durable: false,
        };
        run(&pair.parity, store).unwrap();
        // 4 times 5, and 3; 6, and twice 4.
        assert_eq!(bytes(&pair.parity, DATA, 8192), [block(20 ^ 3), block(6 ^ 8)].concat());
        // It is made anew from the interim, which is gone.
        let refused = run(&pair.parity, step(make(sum), &[])).unwrap_err();
        assert!(refused.to_string().contains("other bytes"), "{refused}");
        // Past the medium, and past the path.
        let past = UpdateSource::Media { drive: DRIVE, offset: (1 << 20) - 4096 };
        let past = Update { sources: vec![past], ..send.clone() };
        assert!(matches!(run(&pair.data, step(past, &[])).unwrap_err().kind(), ErrorKind::InvalidField(_)));
        let to = SumTo::Peer { path: PATH, offset: 4096 };
        let past = Update { sums: vec![UpdateSum { to, factors: vec![1, 2] }], ..send };
        assert!(matches!(run(&pair.data, step(past, &[])).unwrap_err().kind(), ErrorKind::InvalidField(_)));
    }
}

/// Many sums are on their way to one peer at once: each arrives at its place, and one that the path
/// does not allow is refused alone.
#[test]
fn sums_that_go_together_arrive_each_at_its_place() {
    const SMALL: usize = 512;
    for pair in both() {
        let content: Vec<u8> = (0..16 * SMALL).map(|i| (i / SMALL * 13 + i % 251) as u8).collect();
        pair.data.write(DRIVE, DATA, &content).unwrap();
        let (queue, completions) = open(&pair.data, 32);
        let mut all = VecDeque::new();
        for i in 0..17_u64 {
            // The last one ends past the 8192 bytes of the path.
            let (offset, media) = (i * SMALL as u64, i % 16 * SMALL as u64);
            let update = Update {
                drive: DRIVE,
                slot: pair.memory[0],
                len: SMALL as u32,
                segment: None,
                fills: false,
                secret: SECRET,
                sources: vec![UpdateSource::Media { drive: DRIVE, offset: DATA + media }],
                sums: vec![UpdateSum { to: SumTo::Peer { path: PATH, offset }, factors: vec![i as u8 + 1] }],
                record: None,
            };
            all.push_back((Tag(i), step(update, &[])));
        }
        for _ in 0..4 {
            let mut waiting = all.iter().map(|(tag, operation)| (*tag, again(operation))).collect();
            queue.submit_all(&mut waiting);
            for _ in 0..17 {
                let done = completions.recv().unwrap();
                let i = done.tag.0 as usize;
                if i == 16 {
                    assert!(matches!(done.result.unwrap_err().kind(), ErrorKind::InvalidField(_)));
                    continue;
                }
                done.result.unwrap();
                let sum: Vec<u8> =
                    content[i * SMALL..][..SMALL].iter().map(|byte| gf::mul(*byte, i as u8 + 1)).collect();
                let mut arrived = vec![0; SMALL];
                pair.parity.memory_read(at(8192 + (i * SMALL) as u64), &mut arrived).unwrap();
                assert_eq!(arrived, sum, "{i}");
            }
        }
    }
}

fn again(operation: &Operation) -> Operation {
    let Operation::Update { update, .. } = operation else { panic!("an update") };
    step((**update).clone(), &[])
}
