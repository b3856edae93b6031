//! A subsystem with drives in memory, and the way to it byte by byte.

use pumice_nvme::auth::secret::Seed;
use pumice_nvme::auth::{Computed, Job};
use pumice_nvme::controller::{
    Access, Connection, HostKeys, Identity, Limits, Media, Op, Request, Submitted, Subsystem,
};
use pumice_nvme::pdu::{Digests, Kind, push, push_with_data};
use pumice_nvme::spec::connect::Data;
use pumice_nvme::spec::identify::Namespace;
use pumice_nvme::spec::{Sgl, Sqe, Status, opcode};
use pumice_protect::block_format::BlockFormat;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

pub(crate) const NQN: &str = "nqn.2026-11.example:subsystem";
pub(crate) const HOST: &str = "nqn.2026-11.example:host";
pub(crate) const BLOCKS: u64 = 4096;
pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const PLAIN: Digests = Digests { header: false, data: false };
pub(crate) const BOTH: Digests = Digests { header: true, data: true };

/// A PDU with data, whatever its header says of them.
pub(crate) fn framed(kind: Kind, flags: u8, body: &[u8], digests: Digests, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let Ok(()) = push_with_data(&mut out, kind, flags, body, digests, data.len(), |to| {
        to.copy_from_slice(data);
        Ok::<(), Infallible>(())
    });
    out
}

/// A capsule with a write to namespace 1, whose data are to be asked for.
pub(crate) fn write_by_r2t(cid: u16, blocks: u32, digests: Digests) -> Vec<u8> {
    let mut sqe = block_command(opcode::io::WRITE, 1, 0, blocks);
    sqe.set_cid(cid);
    sqe.set_sgl(Sgl::transport(blocks * 512));
    let mut bytes = Vec::new();
    push(&mut bytes, Kind::CapsuleCmd, 0, &sqe.0, digests);
    bytes
}

pub(crate) fn block_command(opcode: u8, nsid: u32, slba: u64, blocks: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode, nsid);
    sqe.set_blocks(slba, blocks);
    sqe
}

/// The subsystem, for one thread.
pub(crate) struct Shared(pub(crate) RefCell<Subsystem>);

impl Access for Shared {
    fn with<R>(&self, f: impl FnOnce(&mut Subsystem) -> R) -> R {
        f(&mut self.0.borrow_mut())
    }
}

/// Two drives of 512-byte blocks: the first answers at once, the second when it is told to.
pub(crate) struct Drives {
    pub(crate) content: [Vec<u8>; 2],
    /// Requests of the second drive that were not answered: slot, and what is to be read.
    pub(crate) waiting: Vec<(u16, Option<std::ops::Range<usize>>)>,
    /// Commands that failed: slot, status and block.
    failed: Vec<(u16, Status, u64)>,
    pub(crate) flushes: usize,
    /// A flush of everything is not answered.
    pub(crate) slow_flush: bool,
    /// Bytes of the last request.
    pub(crate) last_len: u64,
    /// Requests to the medium: the command, bytes of the medium, and of the transfer if the host
    /// sees protection information.
    pub(crate) requests: Vec<(Op, u64, Option<u64>)>,
    /// The next command of this drive fails with this status because of this block.
    pub(crate) bad_block: Option<(u32, Status, u64)>,
    /// There is no room for more commands.
    pub(crate) full: bool,
    /// The keys of every host, if it has to prove itself.
    pub(crate) keys: Option<HostKeys>,
    /// Hosts are not let in.
    pub(crate) closed: bool,
    /// Results of computations; `None` for no place.
    pub(crate) computed: Option<Vec<Computed>>,
    /// Number of seeds that were given.
    seeds: u8,
    /// Blocks that were made unreadable, by drive.
    pub(crate) unreadable: [BTreeSet<u64>; 2],
}

impl Drives {
    fn apply(&mut self, request: &Request<'_>) -> Status {
        if request.op == Op::Flush {
            self.flushes += 1;
            return Status::SUCCESS;
        }
        let blocks = request.offset / 512..(request.offset + request.len) / 512;
        let unreadable = &mut self.unreadable[request.nsid as usize - 1];
        match request.op {
            Op::WriteUncorrectable => unreadable.extend(blocks),
            Op::Write | Op::WriteZeroes => unreadable.retain(|block| !blocks.contains(block)),
            Op::Read | Op::Compare | Op::Verify if unreadable.range(blocks.clone()).next().is_some() => {
                return Status::READ_ERROR;
            }
            Op::Read | Op::Compare | Op::Verify | Op::Flush | Op::Deallocate | Op::Vendor => {}
        }
        let content = &mut self.content[request.nsid as usize - 1];
        let range = request.offset as usize..(request.offset + request.len) as usize;
        match request.op {
            // What is stored of extended blocks is not the affair of these tests.
            Op::Write if request.face.is_some() => {}
            Op::Write => content[range].copy_from_slice(request.data),
            Op::Compare if request.face.is_some() => {}
            Op::WriteZeroes => content[range].fill(0),
            Op::Compare if content[range.clone()] != *request.data => {
                return Status::COMPARE_FAILURE.dnr();
            }
            Op::Read
            | Op::Compare
            | Op::Verify
            | Op::Flush
            | Op::WriteUncorrectable
            | Op::Deallocate
            | Op::Vendor => {}
        }
        Status::SUCCESS
    }
}

impl Media for Drives {
    fn read_now(&mut self, nsid: u32, offset: u64, into: &mut [u8]) -> Status {
        let blocks = offset / 512..(offset + into.len() as u64) / 512;
        if self.unreadable[nsid as usize - 1].range(blocks).next().is_some() {
            return Status::READ_ERROR;
        }
        into.copy_from_slice(&self.content[nsid as usize - 1][offset as usize..][..into.len()]);
        Status::SUCCESS
    }

    fn admit(&self, _host: &Data) -> Result<(), Status> {
        if self.closed { Err(Status::CONNECT_HOST.dnr()) } else { Ok(()) }
    }

    fn keys(&self, _host: &str, _subsystem: &str) -> Option<HostKeys> {
        self.keys.clone()
    }

    fn seed(&mut self) -> Option<Seed> {
        self.seeds += 1;
        Some(Seed::new(&[self.seeds; Seed::BYTES]))
    }

    fn compute(&mut self, _host: &str, job: Job) -> bool {
        self.computed.as_mut().is_some_and(|computed| {
            computed.push(job.run());
            true
        })
    }

    fn is_immediate(&self, nsid: u32) -> bool {
        nsid == 1
    }

    fn has_room(&self) -> bool {
        !self.full
    }

    fn submit(&mut self, request: &Request<'_>) -> Submitted {
        self.last_len = request.len;
        let transfer = request.face.map(|face| face.transfer_bytes());
        self.requests.push((request.op, request.len, transfer));
        if request.nsid == 1 || request.nsid == u32::MAX {
            let status = self.apply(request);
            let now = request.nsid == 1 || !self.slow_flush;
            return if now { Submitted::Done(status) } else { Submitted::Later };
        }
        let status = self.apply(request);
        assert!(status.is_success());
        if let Some((_, status, lba)) = self.bad_block.filter(|(nsid, ..)| *nsid == request.nsid) {
            self.failed.push((request.slot, status, lba));
            return Submitted::Later;
        }
        let range = request.offset as usize..(request.offset + request.len) as usize;
        self.waiting.push((request.slot, (request.op == Op::Read).then_some(range)));
        Submitted::Later
    }
}

/// A subsystem and its drives.
pub(crate) struct World {
    pub(crate) shared: Shared,
    pub(crate) drives: Drives,
    pub(crate) limits: Limits,
    /// Address at which hosts come in.
    pub(crate) local: SocketAddr,
    /// Address from which the next host comes.
    pub(crate) peer: IpAddr,
}

/// One of its connections, with what it has not consumed.
pub(crate) struct Socket {
    pub(crate) connection: Connection,
    pending: Vec<u8>,
    pub(crate) out: Vec<u8>,
}

impl World {
    pub(crate) fn new(limits: Limits) -> Self {
        let namespace = |n: u8| Namespace {
            blocks: BLOCKS,
            format: BlockFormat::SMALLEST,
            nguid: [n; 16],
            uuid: [n + 16; 16],
            read_only: false,
            write_grain: 1,
            deallocate_grain: 1,
        };
        let identity = Identity {
            nqn: NQN.parse().unwrap(),
            serial: "SN1".to_owned(),
            model: "Pumice".to_owned(),
            firmware: "1".to_owned(),
        };
        let subsystem = Subsystem::new(identity, limits, vec![namespace(1), namespace(2)]);
        let content = || vec![0; BLOCKS as usize * 512];
        Self {
            shared: Shared(RefCell::new(subsystem)),
            drives: Drives {
                content: [content(), content()],
                waiting: Vec::new(),
                failed: Vec::new(),
                flushes: 0,
                slow_flush: false,
                last_len: 0,
                requests: Vec::new(),
                bad_block: None,
                full: false,
                keys: None,
                closed: false,
                computed: Some(Vec::new()),
                seeds: 0,
                unreadable: Default::default(),
            },
            limits,
            local: "192.0.2.1:4420".parse().unwrap(),
            peer: "192.0.2.2".parse().unwrap(),
        }
    }

    pub(crate) fn accept(&self, now: u64) -> Socket {
        Socket {
            connection: Connection::new(self.limits, self.local, now).with_peer(self.peer),
            pending: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Hands bytes to a connection.
    pub(crate) fn receive(&mut self, socket: &mut Socket, now: u64, bytes: &[u8]) {
        socket.pending.extend_from_slice(bytes);
        loop {
            let Socket { connection, pending, out } = socket;
            let received = connection.receive(now, pending, &self.shared, &mut self.drives, out);
            pending.drain(..received.consumed);
            if !received.more {
                break;
            }
        }
    }

    /// The second drive answers everything, the newest first.
    pub(crate) fn answer(&mut self, socket: &mut Socket) {
        for computed in self.drives.computed.iter_mut().flat_map(std::mem::take) {
            socket.connection.computed(computed, 0, &self.shared, &mut socket.out);
        }
        while let Some((slot, status, lba)) = self.drives.failed.pop() {
            socket.connection.complete_failed(slot, status, lba, &self.shared, &mut socket.out);
        }
        while let Some((slot, read)) = self.drives.waiting.pop() {
            match read {
                Some(range) => {
                    let data = self.drives.content[1][range].to_vec();
                    socket.connection.complete_with(slot, Ok(&data), &self.shared, &mut socket.out);
                }
                None => socket.connection.complete(slot, Status::SUCCESS, 0, &self.shared, &mut socket.out),
            }
        }
    }
}
