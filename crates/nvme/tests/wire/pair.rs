//! A host and a subsystem in virtual time, over a wire that cuts bytes as it likes.

use crate::world::{BLOCKS, HOST, NQN, SECOND, Socket, World, block_command};
use proptest::prelude::*;
use pumice_nvme::controller::Limits;
use pumice_nvme::host::{Completion, Connection, Event, Options};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::connect::{DYNAMIC, Data};
use pumice_nvme::spec::{Sqe, Status, opcode};
use std::collections::HashMap;

/// A queue of a host, with its end of the wire.
pub(crate) struct HostQueue {
    pub(crate) connection: Connection,
    pub(crate) socket: Socket,
    pub(crate) out: Vec<u8>,
    pending: Vec<u8>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) data: HashMap<u16, Vec<u8>>,
    /// Numbers of bytes that go over the wire at a time; used in turn.
    cuts: Vec<usize>,
    cut: usize,
}

pub(crate) fn options(qid: u16, cntlid: u16, digests: Digests, flow_control: bool) -> Options {
    Options {
        qid,
        depth: 32,
        digests,
        flow_control,
        kato_ms: if qid == 0 { 5000 } else { 0 },
        data: Data { hostid: [9; 16], cntlid, subnqn: NQN.to_owned(), hostnqn: HOST.to_owned() },
        capsule_data: 16 << 10,
    }
}

impl HostQueue {
    pub(crate) fn connect(world: &mut World, options: Options, cuts: &[usize]) -> Self {
        let mut out = Vec::new();
        let connection = Connection::new(options, &mut out);
        let mut queue = Self {
            connection,
            socket: world.accept(0),
            out,
            pending: Vec::new(),
            completions: Vec::new(),
            data: HashMap::new(),
            cuts: cuts.to_vec(),
            cut: 0,
        };
        queue.run(world, 0);
        queue
    }

    /// Lets bytes flow until nothing moves.
    pub(crate) fn run(&mut self, world: &mut World, now: u64) {
        loop {
            let mut moved = false;
            while !self.out.is_empty() {
                moved = true;
                self.cut += 1;
                let n = self.cuts[self.cut % self.cuts.len()].clamp(1, self.out.len());
                let part: Vec<u8> = self.out.drain(..n).collect();
                world.receive(&mut self.socket, now, &part);
            }
            world.answer(&mut self.socket);
            while !self.socket.out.is_empty() {
                moved = true;
                self.cut += 1;
                let n = self.cuts[self.cut % self.cuts.len()].clamp(1, self.socket.out.len());
                self.pending.extend(self.socket.out.drain(..n));
                let (completions, data) = (&mut self.completions, &mut self.data);
                let (consumed, _) = self
                    .connection
                    .receive(&self.pending, &mut self.out, |event| match event {
                        Event::Data { cid, offset, data: bytes } => {
                            let all = data.entry(cid).or_default();
                            assert_eq!(all.len(), offset as usize);
                            all.extend_from_slice(bytes);
                        }
                        Event::Completion(completion) => completions.push(completion),
                    })
                    .unwrap_or_else(|violation| panic!("{violation}"));
                self.pending.drain(..consumed);
            }
            if !moved {
                return;
            }
        }
    }

    /// Carries out a command that gives data to the controller, or none.
    pub(crate) fn write(&mut self, world: &mut World, sqe: Sqe, data: &[u8]) -> Completion {
        let cid = self.connection.submit(sqe, data, &mut self.out).unwrap();
        self.run(world, 0);
        let done = self.completions.pop().expect("a completion");
        assert_eq!(done.cid, cid);
        done
    }

    /// Carries out a command that brings data.
    pub(crate) fn read(&mut self, world: &mut World, sqe: Sqe, len: u32) -> Result<Vec<u8>, Status> {
        let cid = self.connection.submit_read(sqe, len, &mut self.out).unwrap();
        self.run(world, 0);
        let done = self.completions.pop().expect("a completion");
        assert_eq!(done.cid, cid);
        if done.status.is_success() {
            Ok(self.data.remove(&cid).unwrap_or_default())
        } else {
            Err(done.status)
        }
    }
}

fn property_set(offset: u32, value: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode::FABRICS, 0);
    sqe.0[4] = opcode::fabrics::PROPERTY_SET;
    sqe.set_dword(11, offset);
    sqe.set_dword(12, value);
    sqe
}

/// An admin queue of an enabled controller, and its id.
pub(crate) fn admin(world: &mut World, digests: Digests, flow: bool, cuts: &[usize]) -> (HostQueue, u16) {
    enabled(world, options(0, DYNAMIC, digests, flow), cuts)
}

/// The same, of the host that the options say.
pub(crate) fn enabled(world: &mut World, options: Options, cuts: &[usize]) -> (HostQueue, u16) {
    let mut admin = HostQueue::connect(world, options, cuts);
    let cntlid = admin.completions.pop().unwrap().result as u16;
    let enabled = admin.write(world, property_set(0x14, 0x46 << 16 | 1), &[]);
    assert_eq!(enabled.status, Status::SUCCESS);
    (admin, cntlid)
}

#[derive(Debug, Clone)]
struct Step {
    nsid: u32,
    slba: u64,
    blocks: u32,
    fill: Option<u8>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (1..=2_u32, 0..BLOCKS, 1..=600_u32, proptest::option::of(any::<u8>())).prop_map(
        |(nsid, slba, blocks, fill)| {
            let blocks = blocks.min((BLOCKS - slba) as u32).max(1);
            Step { nsid, slba, blocks, fill }
        },
    );
    proptest::collection::vec(step, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Reads return the data written: in the capsule and by R2T, at once and later, with every
    /// digest, however the wire cuts.
    #[test]
    fn blocks_come_back(
        steps in steps(),
        header in any::<bool>(),
        data in any::<bool>(),
        flow in any::<bool>(),
        cuts in proptest::collection::vec(prop_oneof![Just(1_usize << 20), 1..40_usize, 1000..9000_usize], 1..5),
    ) {
        let mut world = World::new(Limits { write_window: 64 << 10, ..Limits::default() });
        let digests = Digests { header, data };
        let (_admin, cntlid) = admin(&mut world, digests, flow, &[1 << 20]);
        let mut io = HostQueue::connect(&mut world, options(1, cntlid, digests, flow), &cuts);
        prop_assert!(io.completions.pop().unwrap().status.is_success());
        let mut model = [vec![0_u8; BLOCKS as usize * 512], vec![0; BLOCKS as usize * 512]];
        for Step { nsid, slba, blocks, fill } in steps {
            let at = slba as usize * 512;
            let len = blocks as usize * 512;
            let model = &mut model[nsid as usize - 1];
            match fill {
                Some(fill) => {
                    let bytes: Vec<u8> = (0..len).map(|i| fill.wrapping_add((i / 512) as u8)).collect();
                    let done = io.write(&mut world, block_command(opcode::io::WRITE, nsid, slba, blocks), &bytes);
                    prop_assert_eq!(done.status, Status::SUCCESS);
                    model[at..at + len].copy_from_slice(&bytes);
                }
                None => {
                    let bytes = io.read(&mut world, block_command(opcode::io::READ, nsid, slba, blocks), len as u32);
                    prop_assert!(bytes.unwrap() == model[at..at + len]);
                }
            }
        }
    }

    /// A controller takes any bytes at all without falling over, and holds no more than its limits.
    #[test]
    fn garbage_ends_a_connection_and_nothing_else(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        after_connect in any::<bool>(),
    ) {
        let mut world = World::new(Limits::default());
        if after_connect {
            let (mut admin, _) = admin(&mut world, Digests::default(), true, &[1 << 20]);
            world.receive(&mut admin.socket, SECOND, &bytes);
        } else {
            let mut socket = world.accept(0);
            world.receive(&mut socket, SECOND, &bytes);
        }
        let (_admin, _) = admin(&mut world, Digests::default(), true, &[1 << 20]);
    }
}

#[test]
fn many_commands_in_flight_end_in_any_order() {
    let mut world = World::new(Limits::default());
    let (_admin, cntlid) = admin(&mut world, Digests::default(), true, &[1 << 20]);
    let mut io = HostQueue::connect(&mut world, options(1, cntlid, Digests::default(), true), &[1 << 20]);
    io.completions.clear();
    for i in 0..32 {
        let data = vec![i as u8; 64 << 10];
        let sqe = block_command(opcode::io::WRITE, 2, i * 128, 128);
        io.connection.submit(sqe, &data, &mut io.out).unwrap();
    }
    assert_eq!(io.connection.room(), 0);
    io.run(&mut world, 0);
    assert_eq!(io.completions.len(), 32);
    assert!(io.completions.iter().all(|c| c.status.is_success()));
    for i in 0..32_usize {
        assert!(world.drives.content[1][i * 65_536..][..65_536].iter().all(|b| *b == i as u8));
    }
}

#[test]
fn wrong_commands_end_with_their_status() {
    let mut world = World::new(Limits::default());
    let (_admin, cntlid) = admin(&mut world, Digests::default(), true, &[1 << 20]);
    let mut io = HostQueue::connect(&mut world, options(1, cntlid, Digests::default(), true), &[1 << 20]);
    io.completions.clear();
    let mut fused = block_command(opcode::io::WRITE, 1, 0, 1);
    fused.0[1] |= 1;
    let cases: [(Sqe, usize, Status); 7] = [
        (Sqe::new(0x7E, 1), 0, Status::INVALID_OPCODE),
        (block_command(opcode::io::WRITE, 3, 0, 1), 512, Status::INVALID_NAMESPACE),
        (block_command(opcode::io::WRITE, 0, 0, 1), 512, Status::INVALID_NAMESPACE),
        (block_command(opcode::io::WRITE, 1, BLOCKS, 1), 512, Status::LBA_RANGE),
        (block_command(opcode::io::WRITE, 1, u64::MAX, 1), 512, Status::LBA_RANGE),
        (block_command(opcode::io::WRITE, 1, 0, 2), 512, Status::SGL_LENGTH),
        (fused, 512, Status::INVALID_FIELD),
    ];
    for (sqe, len, status) in cases {
        let done = io.write(&mut world, sqe, &vec![0; len]);
        assert_eq!(done.status, status.dnr(), "{sqe:?}");
    }
    let long = block_command(opcode::io::READ, 1, 0, 4096);
    assert_eq!(
        io.read(&mut world, long, 4096 * 512),
        Err(Status::INVALID_FIELD.dnr()),
        "2 MiB are past MDTS"
    );
    let flush = io.write(&mut world, Sqe::new(opcode::io::FLUSH, u32::MAX), &[]);
    assert_eq!((flush.status, world.drives.flushes), (Status::SUCCESS, 1));
}

#[test]
fn silence_ends_an_association() {
    let mut world = World::new(Limits::default());
    let (mut admin, cntlid) = admin(&mut world, Digests::default(), true, &[1 << 20]);
    let mut io = HostQueue::connect(&mut world, options(1, cntlid, Digests::default(), true), &[1 << 20]);
    assert!(io.completions.pop().unwrap().status.is_success());
    let mut out = Vec::new();
    admin.socket.connection.tick(5 * SECOND, &world.shared, &mut out);
    assert!(!admin.socket.connection.is_closed());
    admin.socket.connection.tick(7 * SECOND, &world.shared, &mut out);
    assert!(admin.socket.connection.is_closed(), "KATO is 5 s");
    admin.socket.connection.closed(&world.shared);
    io.socket.connection.tick(7 * SECOND, &world.shared, &mut out);
    assert!(io.socket.connection.is_closed(), "its queues go with it");
    assert_eq!(world.shared.0.borrow().hosts(), 0);
}

#[test]
fn a_silent_peer_is_cut_off() {
    let mut world = World::new(Limits::default());
    let mut out = Vec::new();
    let mut socket = world.accept(0);
    socket.connection.tick(29 * SECOND, &world.shared, &mut out);
    assert!(!socket.connection.is_closed());
    socket.connection.tick(30 * SECOND, &world.shared, &mut out);
    assert!(socket.connection.is_closed(), "no ICReq");

    let (mut admin, _) = admin(&mut world, Digests::default(), true, &[1 << 20]);
    world.receive(&mut admin.socket, SECOND, &[4, 0, 72]);
    admin.socket.connection.tick(31 * SECOND, &world.shared, &mut out);
    assert!(admin.socket.connection.is_closed(), "half a PDU");
}

#[test]
fn a_changed_namespace_is_reported_once_until_its_log_is_read() {
    let mut world = World::new(Limits::default());
    let (mut admin, _) = admin(&mut world, Digests::default(), true, &[1 << 20]);
    let mut features = Sqe::new(opcode::admin::SET_FEATURES, 0);
    features.set_dword(10, 0x0B);
    features.set_dword(11, 1 << 8);
    assert!(admin.write(&mut world, features, &[]).status.is_success());
    let event =
        admin.connection.submit(Sqe::new(opcode::admin::ASYNC_EVENT, 0), &[], &mut admin.out).unwrap();
    admin.run(&mut world, 0);
    assert!(admin.completions.is_empty());
    let change = |world: &World| {
        let mut subsystem = world.shared.0.borrow_mut();
        let mut namespace = subsystem.namespaces()[1];
        namespace.blocks *= 2;
        subsystem.change_namespace(2, namespace);
    };
    change(&world);
    admin.socket.connection.tick(SECOND, &world.shared, &mut admin.socket.out);
    admin.run(&mut world, SECOND);
    let done = admin.completions.pop().unwrap();
    assert_eq!((done.cid, done.result), (event, 2 | 4 << 16));
    // The next one waits for the log to be read.
    admin.connection.submit(Sqe::new(opcode::admin::ASYNC_EVENT, 0), &[], &mut admin.out).unwrap();
    change(&world);
    admin.run(&mut world, SECOND);
    assert!(admin.completions.is_empty());
    let mut log = Sqe::new(opcode::admin::GET_LOG_PAGE, u32::MAX);
    log.set_dword(10, 4 | 1023 << 16);
    let page = admin.read(&mut world, log, 4096).unwrap();
    assert_eq!(page[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
}
