//! Several hosts on several connections of one subsystem: whatever they do in whatever order, none
//! gets further than it may, and all that was held is given back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_fuzz::Bytes;
use pumice_nvme::pdu::{Digests, Kind, push, push_with_data};
use pumice_nvme::spec::connect::{DYNAMIC, Data, Fields};
use pumice_nvme::spec::identify::Namespace;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sgl, Sqe, Status, opcode};
use pumice_nvme::controller::{
    Access, Connection, Identity, Limits, Media, Op, Request, Submitted, Subsystem, VendorSet, Windows,
};
use pumice_protect::block_format::BlockFormat;
use std::cell::RefCell;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const NQN: &str = "nqn.2026-11.example:subsystem";
const NODE: u8 = 3;
const SECOND: u64 = 1_000_000_000;
const ROOM: u32 = 24 << 10;

struct Shared(RefCell<Subsystem>);

impl Access for Shared {
    fn with<R>(&self, f: impl FnOnce(&mut Subsystem) -> R) -> R {
        f(&mut self.0.borrow_mut())
    }
}

#[derive(Debug)]
struct Room(AtomicU32);

impl Windows for Room {
    fn take(&self, bytes: u32) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: u32) {
        assert!(self.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= ROOM, "no more than was taken");
    }
}

/// A drive that knows the controllers that may not write.
struct Drive<'s> {
    shared: &'s Shared,
    full: bool,
    later: bool,
    waiting: Vec<(u16, u64, Op)>,
    /// Controllers that have promised to write nothing, and those of other nodes.
    observers: Vec<u16>,
    nodes: Vec<u16>,
}

impl Media for Drive<'_> {
    fn read_now(&mut self, _: u32, _: u64, into: &mut [u8]) -> Status {
        into.fill(0);
        Status::SUCCESS
    }

    fn is_immediate(&self, _: u32) -> bool {
        !self.later
    }

    fn has_room(&self) -> bool {
        !self.full
    }

    fn submit(&mut self, request: &Request<'_>) -> Submitted {
        let writes =
            matches!(request.op, Op::Write | Op::WriteZeroes | Op::WriteUncorrectable | Op::Deallocate);
        let shutdown = request.slot == pumice_nvme::controller::SHUTDOWN_SLOT;
        assert!(!self.full || shutdown || !request.data.is_empty(), "no command that there is no room for");
        assert!(!(writes && self.observers.contains(&request.cntlid)), "an observer writes");
        let node = self.nodes.contains(&request.cntlid);
        assert!(!node || request.op == Op::Vendor || shutdown, "another node touches a namespace");
        assert!(self.shared.with(|s| s.stands(request.cntlid)), "a controller that is not there");
        if !self.later || shutdown {
            return Submitted::Done(Status::SUCCESS);
        }
        self.waiting.push((request.slot, request.len, request.op));
        Submitted::Later
    }
}

/// A connection, and what is known of it.
struct Socket {
    connection: Connection,
    peer: u8,
    /// Host and controller of its queue, where it has connected one.
    queue: Option<(u8, u16, u16)>,
    pending: Vec<u8>,
    waiting: Vec<(u16, u64, Op)>,
}

fn capsule(sqe: &Sqe, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let Ok(()) =
        push_with_data(&mut out, Kind::CapsuleCmd, 0, &sqe.0, Digests::default(), data.len(), |to| {
            to.copy_from_slice(data);
            Ok::<(), Infallible>(())
        });
    out
}

fn address(peer: u8) -> IpAddr {
    [192, 0, 2, peer].into()
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes::new(data);
    let limits = Limits {
        controllers: 6,
        controllers_of_address: 4,
        controllers_of_host: 3,
        queues: 3,
        queue_depth: 8,
        capsule_data: 4096,
        maxh2cdata: 8192,
        write_window: 16 << 10,
        ..Limits::default()
    };
    let namespace =
        Namespace {
            blocks: 64,
            format: BlockFormat::SMALLEST,
            nguid: [1; 16],
            uuid: [2; 16],
            read_only: false,
            write_grain: 8,
            deallocate_grain: 8,
        };
    let identity = Identity {
        nqn: NQN.parse().unwrap(),
        serial: "1".to_owned(),
        model: "Pumice".to_owned(),
        firmware: "1".to_owned(),
    };
    let mut subsystem = Subsystem::new(identity, limits, vec![namespace]);
    subsystem.set_vendor(VendorSet { helper: Some([NODE; 16]), ..VendorSet::default() });
    let shared = Shared(RefCell::new(subsystem));
    let mut drive = Drive {
        shared: &shared,
        full: false,
        later: false,
        waiting: Vec::new(),
        observers: Vec::new(),
        nodes: Vec::new(),
    };
    let room = Arc::new(Room(AtomicU32::new(ROOM)));
    // By controller: host, address.
    let mut controllers: Vec<(u16, u8, u8)> = Vec::new();
    let mut holder: Option<u16> = None;
    let mut sockets: Vec<Option<Socket>> = (0..6).map(|_| None).collect();
    let mut now = 0;
    while !bytes.is_empty() {
        let (what, which) = (bytes.byte(), usize::from(bytes.byte() % 6));
        controllers.retain(|(cntlid, ..)| shared.with(|s| s.stands(*cntlid)));
        holder = holder.filter(|cntlid| shared.with(|s| s.is_holder(*cntlid)));
        let Some(socket) = &mut sockets[which] else {
            let peer = what % 3;
            let mut connection = Connection::new(limits, "192.0.2.1:4420".parse().unwrap(), now)
                .with_peer(address(peer));
            connection.set_windows(Arc::clone(&room) as Arc<dyn Windows>);
            // ICReq: 128 bytes, version 0, no digests.
            let mut ic = vec![0; 128];
            (ic[0], ic[2], ic[4]) = (Kind::IcReq as u8, 128, 128);
            connection.receive(now, &ic, &shared, &mut drive, &mut Vec::new());
            sockets[which] =
                Some(Socket { connection, peer, queue: None, pending: Vec::new(), waiting: Vec::new() });
            continue;
        };
        let mut send: Vec<u8> = Vec::new();
        let mut connects = None;
        match what % 14 {
            // Connect, of the admin queue or of an I/O queue of any controller.
            0..=2 => {
                let (host, qid) = (1 + bytes.byte() % 3, u16::from(bytes.byte() % 4));
                let known = controllers.get(usize::from(bytes.byte()) % controllers.len().max(1));
                let cntlid = if qid == 0 { DYNAMIC } else { known.map_or(1, |(cntlid, ..)| *cntlid) };
                let data = Data {
                    hostid: [host; 16],
                    cntlid,
                    subnqn: NQN.to_owned(),
                    hostnqn: "nqn.2026-11.example:host".to_owned(),
                };
                let mut sqe = Sqe::new(opcode::FABRICS, 0);
                sqe.0[4] = opcode::fabrics::CONNECT;
                sqe.set_sgl(Sgl::in_capsule(1024));
                Fields { recfmt: 0, qid, sqsize: 7, cattr: 0, kato_ms: 0 }.encode(&mut sqe);
                send = capsule(&sqe, &data.encode());
                connects = Some((host, qid, cntlid));
            }
            // Enable, disable, shut down.
            3 => {
                let mut sqe = Sqe::new(opcode::FABRICS, 0);
                sqe.0[4] = opcode::fabrics::PROPERTY_SET;
                sqe.set_dword(11, 0x14);
                sqe.set_dword(12, [0x46_0001, 0x46_0001, 0x46_0000, 0x46_4001][usize::from(bytes.byte() % 4)]);
                push(&mut send, Kind::CapsuleCmd, 0, &sqe.0, Digests::default());
            }
            // I/O, with data in the capsule or asked for.
            4..=6 => {
                let code = [io::READ, io::WRITE, io::FLUSH, io::WRITE_ZEROES, io::VERIFY, 0x81, 0x82]
                    [usize::from(bytes.byte() % 7)];
                let (block, count) = (u64::from(bytes.byte() % 70), 1 + u32::from(bytes.byte() % 16));
                let mut sqe = Sqe::new(code, 1);
                sqe.set_blocks(block, count);
                sqe.set_cid(u16::from(bytes.byte()));
                if what % 14 == 4 && code == io::WRITE && count <= 8 {
                    sqe.set_sgl(Sgl::in_capsule(count * 512));
                    send = capsule(&sqe, &vec![1; count as usize * 512]);
                } else {
                    sqe.set_sgl(Sgl::transport(count * 512));
                    push(&mut send, Kind::CapsuleCmd, 0, &sqe.0, Digests::default());
                }
            }
            // Any bytes.
            7 => send.extend_from_slice(bytes.take(usize::from(what))),
            8 => now += u64::from(bytes.byte()) * SECOND / 8,
            9 => drive.full = bytes.byte() % 2 == 0,
            10 => drive.later = bytes.byte() % 2 == 0,
            11 => {
                if let Some((_, _, cntlid)) = socket.queue {
                    match bytes.byte() % 4 {
                        0 => {
                            if shared.with(|s| s.hold(cntlid)) {
                                let alone = controllers
                                    .iter()
                                    .all(|(other, host, _)| *other == cntlid || *host == NODE);
                                assert!(alone, "a hold beside another host");
                                holder = Some(cntlid);
                            }
                        }
                        1 => shared.with(|s| s.release(cntlid)),
                        2 if shared.with(|s| s.stands(cntlid)) => {
                            shared.with(|s| s.observe(cntlid));
                            drive.observers.push(cntlid);
                        }
                        _ => {}
                    }
                }
            }
            // The second answers everything.
            12 => {
                let mut out = Vec::new();
                for (slot, len, op) in socket.waiting.drain(..) {
                    if op == Op::Read {
                        let data = vec![0; len as usize];
                        socket.connection.complete_with(slot, Ok(&data), &shared, &mut out);
                    } else {
                        socket.connection.complete(slot, Status::SUCCESS, 0, &shared, &mut out);
                    }
                }
            }
            _ => {
                let mut socket = sockets[which].take().expect("it is there");
                socket.connection.closed(&shared);
                continue;
            }
        }
        socket.pending.extend_from_slice(&send);
        let mut out = Vec::new();
        loop {
            let received =
                socket.connection.receive(now, &socket.pending, &shared, &mut drive, &mut out);
            socket.pending.drain(..received.consumed);
            if !received.more {
                break;
            }
        }
        socket.waiting.append(&mut drive.waiting);
        socket.connection.tick(now, &shared, &mut out);
        assert!(out.len() <= 4 << 20, "bounded");
        if let (Some((host, qid, cntlid)), None) = (connects, socket.queue)
            && let Some(id) = socket.connection.host()
        {
            assert_eq!(id, [host; 16]);
            if qid == 0 {
                let new = u16::from_le_bytes([out[out.len() - 16], out[out.len() - 15]]);
                assert!(holder.is_none(), "an association under a hold");
                controllers.push((new, host, socket.peer));
                drive.observers.retain(|known| *known != new);
                drive.nodes.retain(|known| *known != new);
                if host == NODE {
                    drive.nodes.push(new);
                }
                socket.queue = Some((host, qid, new));
            } else {
                let of = controllers.iter().find(|(known, ..)| *known == cntlid);
                assert_eq!(of, Some(&(cntlid, host, socket.peer)), "a queue of another's controller");
                socket.queue = Some((host, qid, cntlid));
            }
        }
        let hosts = |host: bool| controllers.iter().filter(|(_, of, _)| (*of != NODE) == host).count();
        assert!(hosts(true) <= limits.controllers, "more associations than there may be");
        if socket.connection.is_closed() {
            let mut socket = sockets[which].take().expect("it is there");
            socket.connection.closed(&shared);
        }
    }
    sockets.into_iter().flatten().for_each(|mut socket| {
        socket.connection.closed(&shared);
    });
    assert_eq!(room.0.load(Ordering::Relaxed), ROOM, "all room is given back");
});
