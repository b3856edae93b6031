//! One TCP connection: from bytes to commands, and back.

mod answers;
mod data;
mod parting;
mod time;

use super::association::Life;
use super::attached::Attached;
use super::exchange::{Authentication, message};
use super::media::{Lent, Media, Request, Submitted, Windows};
use super::notice::{EndReason, Ended, Notice, QueueSums, Totals};
use super::slots::{Counts, Phase, Slots};
use super::subsystem::{Access, Counters, Limits};
use super::upcoming::upcoming;
use crate::pdu::{
    C2hData, Digests, Fatal, Frame, Framing, IcReq, IcResp, Kind, LAST, R2t, Transfer, Violation, frame, push,
};
use crate::spec::command::On;
use crate::spec::connect::{AUTHENTICATE, DATA_LEN, Data, Fields};
use crate::spec::identify::Namespace;
use crate::spec::log::ErrorEntry;
use crate::spec::{Cqe, Sgl, Sqe, Status, opcode};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Nanoseconds that a host has for ICReq, for Connect, for the rest of a PDU, and to close after a
/// term request.
pub(super) const PATIENCE: u64 = 30_000_000_000;
/// Bytes of data in a capsule of the admin queue and of every Fabrics command, whatever IOCCSZ
/// says.
pub(super) const ADMIN_CAPSULE: u32 = 8192;
/// Bytes of answers that are worth sending before more is done: while they are under way, the host
/// can work on them, and they are still in this core's cache.
const BATCH: usize = 128 << 10;
/// Work after which the caller is asked whether the turn goes on, for what is answered with little
/// or nothing: commands and pieces of data count 1, and each range of a Deallocate 1 more.
const BATCH_WORK: u32 = 512;

/// Result of handing in received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes that are done with; the caller keeps the rest and hands it in again with what follows.
    pub consumed: usize,
    /// Bytes that must be there, from the first that is kept, before anything more can happen.
    pub needed: usize,
    /// Whole PDUs may be left: the caller sends what there is, and hands in the rest again at once.
    pub more: bool,
    /// A command is left for which the medium has no room: the caller hands in the rest again when
    /// it has.
    pub full: bool,
    /// Work done, however little was answered: commands and pieces of data count 1, and each range
    /// of a Deallocate 1 more. At most 512, and the work of the last one.
    pub work: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing but ICReq may come.
    AwaitIcReq,
    /// Nothing but Connect may come.
    AwaitConnect,
    /// Nothing but authentication may come.
    AwaitAuth,
    /// A queue of a controller.
    Live,
    /// A term request is out: what comes is thrown away until the host closes.
    Quiesce,
    /// The caller closes the socket.
    Closed,
}

/// The queue that a connection is.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) qid: u16,
    /// Its host has proven its name on it, or need not.
    pub(super) proven: bool,
    pub(super) cntlid: u16,
    pub(super) hostid: [u8; 16],
    pub(super) hostnqn: String,
    pub(super) discovery: bool,
    /// It is another node's: it moves local memory and never touches a namespace.
    pub(super) helper: bool,
    /// Its host has said that it writes no namespace.
    pub(super) observer: Arc<AtomicBool>,
    /// The namespaces attached to its host.
    pub(super) attached: Attached,
    pub(super) entries: u16,
    pub(super) sqhd: u16,
    pub(super) flow_control: bool,
    pub(super) life: Arc<Life>,
    pub(super) epoch: u32,
    /// Time at which the controller was heard of last.
    pub(super) heard: Arc<AtomicU64>,
    pub(super) counters: Arc<Counters>,
    /// Sums of this queue, and those of its association.
    pub(super) done: QueueSums,
    pub(super) totals: Arc<Totals>,
    pub(super) kato_ms: u32,
    pub(super) kato_ns: u64,
    pub(super) last_keep_alive: u64,
}

/// One connection of a host.
#[derive(Debug)]
pub struct Connection {
    pub(super) state: State,
    /// Time of the accept.
    pub(super) accepted: u64,
    /// Time at which the present state, or the PDU that has begun, has lasted too long.
    pub(super) deadline: Option<u64>,
    pub(super) now: u64,
    /// Address at which the host came in.
    pub(super) local: SocketAddr,
    /// The network address that the host comes from.
    pub(super) peer: IpAddr,
    pub(super) limits: Limits,
    pub(super) framing: Framing,
    pub(super) queue: Option<Queue>,
    /// The authentication of its host, if there is a key for that.
    pub(super) authentication: Option<Box<Authentication>>,
    pub(super) namespaces: Arc<[Namespace]>,
    /// Count of changes of namespaces, and the count at the last look.
    pub(super) changes: Arc<AtomicU64>,
    pub(super) changes_seen: u64,
    pub(super) slots: Slots,
    /// Bytes of write data of commands whose data were asked for, and that have not ended.
    asked: u32,
    /// A further judge of how much data may be asked for, and the bytes taken there: for data asked
    /// for, and for memory that is kept.
    windows: Option<Arc<dyn Windows>>,
    taken: u32,
    /// Time at which the host last did anything for data it was asked for.
    progress: u64,
    /// Time of the last tick.
    ticked: u64,
    /// Slots that wait for room, in order.
    waiting: std::collections::VecDeque<u16>,
    /// Bytes that the medium has lent since the caller's last turn to send.
    lent: usize,
    /// Work since the caller last handed anything in.
    pub(super) work: u32,
    /// Notices that the caller has not taken yet.
    pub(super) notices: Vec<Notice>,
    /// Reason for the end, if it is known.
    end: Option<EndReason>,
}

impl Connection {
    /// A connection that was just accepted at `local`. `now` is in nanoseconds from any start.
    #[must_use]
    pub fn new(limits: Limits, local: SocketAddr, now: u64) -> Self {
        Self {
            state: State::AwaitIcReq,
            accepted: now,
            deadline: Some(now + PATIENCE),
            now,
            local,
            peer: Ipv4Addr::UNSPECIFIED.into(),
            limits,
            framing: Framing {
                controller: true,
                digests: Digests::default(),
                max_capsule_data: ADMIN_CAPSULE,
                max_data: limits.maxh2cdata,
            },
            queue: None,
            authentication: None,
            namespaces: Arc::new([]),
            changes: Arc::default(),
            changes_seen: 0,
            slots: Slots::default(),
            asked: 0,
            windows: None,
            taken: 0,
            progress: now,
            ticked: now,
            waiting: std::collections::VecDeque::new(),
            lent: 0,
            work: 0,
            notices: Vec::new(),
            end: None,
        }
    }

    /// The same, from a host at this network address: queues of one controller all come from one.
    #[must_use]
    pub fn with_peer(mut self, peer: IpAddr) -> Self {
        // A socket for both families has IPv4 addresses mapped into IPv6.
        self.peer = peer.to_canonical();
        self
    }

    /// Has the connection ask `windows` too before it asks for data.
    pub fn set_windows(&mut self, windows: Arc<dyn Windows>) {
        self.windows = Some(windows);
    }

    /// The network address that the host comes from.
    #[must_use]
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Returns whether the caller should close the socket, after sending what is left.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The queue, if it is known whose it is.
    fn bound(&self) -> Option<&Queue> {
        self.queue.as_ref().filter(|queue| queue.proven)
    }

    /// The identifier of the host whose queue it is; `None` until that is proven.
    #[must_use]
    pub fn host(&self) -> Option<[u8; 16]> {
        self.bound().map(|queue| queue.hostid)
    }

    /// The NQN of the host, once it is connected and proven.
    #[must_use]
    pub fn host_name(&self) -> Option<&str> {
        self.bound().map(|queue| queue.hostnqn.as_str())
    }

    /// Returns whether it is an I/O queue.
    #[must_use]
    pub fn is_io_queue(&self) -> bool {
        self.queue.as_ref().is_some_and(|q| q.qid != 0)
    }

    /// Takes what has come: as many whole PDUs as there are, or as make a batch of answers. Those
    /// are appended to `out`.
    pub fn receive<A: Access, M: Media>(
        &mut self,
        now: u64,
        bytes: &[u8],
        access: &A,
        media: &mut M,
        out: &mut Vec<u8>,
    ) -> Received {
        self.now = now;
        if let Some(queue) = self.bound() {
            // Relaxed: a time that is looked at alone.
            queue.heard.store(now, Ordering::Relaxed);
        }
        let (mut consumed, mut needed) = (0, 0);
        let began = out.len();
        (self.lent, self.work) = (0, 0);
        let mut full = false;
        let more = loop {
            // One before may have ended the queue: what follows is not carried out.
            self.check_life();
            if self.is_closed() {
                break false;
            }
            let is_batch = out.len() - began + self.lent >= BATCH || self.work >= BATCH_WORK;
            if is_batch && consumed < bytes.len() {
                break true;
            }
            if self.state == State::Quiesce {
                consumed = bytes.len();
                break false;
            }
            match frame(&bytes[consumed..], &self.framing, &mut needed) {
                Ok(Some(frame)) => {
                    let len = frame.len;
                    let command = frame.common.kind == Kind::CapsuleCmd && self.is_io_queue();
                    if command && self.state == State::Live && !media.has_room() {
                        full = true;
                        break false;
                    }
                    if command && let Some(next) = upcoming(&bytes[consumed + len..]) {
                        media.prepare(next);
                    }
                    if let Err(violation) = self.pdu(&frame, access, media, out) {
                        self.terminate(&violation, out);
                        continue;
                    }
                    consumed += len;
                    self.work += 1;
                    if self.state == State::Live {
                        self.deadline = None;
                    }
                }
                Ok(None) => break false,
                Err(violation) => self.terminate(&violation, out),
            }
        };
        if full {
            // Whole PDUs wait for the medium, not for the host.
            self.deadline = None;
        } else if self.state == State::Live && consumed < bytes.len() && self.deadline.is_none() {
            self.deadline = Some(now + PATIENCE);
        }
        Received { consumed, needed, more, full, work: self.work }
    }

    /// It ends, for this reason unless another one was first.
    pub fn end(&mut self, reason: EndReason) {
        self.state = State::Closed;
        self.end.get_or_insert(reason);
    }

    /// The socket is closed: leaves the controller; the admin queue takes the whole association
    /// with it. The last connection of an association tells what it was.
    pub fn closed<A: Access>(&mut self, access: &A) -> Option<Ended> {
        self.end(EndReason::HostClosed);
        let queue = self.queue.take()?;
        access.with(|subsystem| {
            if queue.qid == 0 {
                subsystem.end(queue.cntlid);
            } else if queue.proven
                && let Some(controller) = subsystem.controllers.get_mut(&queue.cntlid)
                && queue.life.epoch() == queue.epoch
            {
                controller.queues.remove(&queue.qid);
                subsystem.note_change(queue.cntlid);
            }
        });
        let told = queue.proven || queue.qid != 0;
        queue.part(self.end.unwrap_or(EndReason::HostClosed)).filter(|_| told)
    }

    /// Returns whether the association, or the queue, has ended that it is of.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.life.epoch() != queue.epoch)
    }

    pub(super) fn check_life(&mut self) {
        if self.has_ended() {
            self.end(EndReason::HostEnded);
        }
    }

    fn terminate(&mut self, violation: &Violation, out: &mut Vec<u8>) {
        violation.encode(false, out);
        self.notices.push(Notice::Violation(violation.what));
        self.end.get_or_insert(EndReason::Violation);
        self.state = State::Quiesce;
        self.deadline = Some(self.now + PATIENCE);
    }

    fn pdu<A: Access, M: Media>(
        &mut self,
        frame: &Frame<'_>,
        access: &A,
        media: &mut M,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        let sequence = |what| Err(Violation::new(Fatal::Sequence, 0, frame.header, what));
        match (self.state, frame.common.kind) {
            (_, Kind::H2cTermReq) => self.end(EndReason::HostEnded),
            (State::AwaitIcReq, Kind::IcReq) => self.initialize(frame, out)?,
            (State::AwaitIcReq, _) => return sequence("a PDU before ICReq"),
            (_, Kind::IcReq) => return sequence("a second ICReq"),
            (State::AwaitConnect, Kind::CapsuleCmd) => self.before_connect(frame, access, media, out)?,
            (State::AwaitConnect, _) => return sequence("data before Connect"),
            (State::AwaitAuth, Kind::CapsuleCmd) => self.before_proof(frame, access, media, out)?,
            (State::AwaitAuth, _) => return sequence("data before authentication"),
            (_, Kind::CapsuleCmd) => self.capsule(frame, access, media, out)?,
            (_, Kind::H2cData) => self.data(frame, access, media, out)?,
            _ => return sequence("a PDU that no host sends"),
        }
        Ok(())
    }

    fn initialize(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<(), Violation> {
        let request = IcReq::decode(frame.header)?;
        // Data follow the header directly: on an alignment of hpda they would be padded, which
        // Linux neither asks for nor reads.
        if request.hpda != 0 {
            let what = "ICReq: padded data are not supported";
            return Err(Violation::new(Fatal::UnsupportedParameter, 10, frame.header, what));
        }
        let response = IcResp { cpda: 0, digests: request.digests, maxh2cdata: self.limits.maxh2cdata };
        out.extend_from_slice(&response.encode());
        self.framing.digests = request.digests;
        self.state = State::AwaitConnect;
        self.deadline = Some(self.now + PATIENCE);
        Ok(())
    }

    fn before_connect<A: Access, M: Media>(
        &mut self,
        frame: &Frame<'_>,
        access: &A,
        media: &M,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        let sqe = sqe_of(frame);
        if sqe.opcode() != opcode::FABRICS || sqe.0[4] != opcode::fabrics::CONNECT {
            self.respond(&sqe, Status::SEQUENCE.dnr(), 0, out);
            return Ok(());
        }
        check_capsule(&sqe, frame)?;
        match self.connect(&sqe, frame, access, media) {
            Ok(cntlid) => {
                let asks = if self.authentication.is_some() {
                    self.await_proof(self.accepted);
                    AUTHENTICATE
                } else {
                    self.go_live();
                    0
                };
                self.take_sqe();
                self.respond(&sqe, Status::SUCCESS, u64::from(cntlid) | asks, out);
            }
            Err((status, dw0)) => {
                let host = Some(frame.data)
                    .filter(|data| data.len() == DATA_LEN)
                    .and_then(|data| Data::decode(data).ok());
                let host = host.map_or_else(String::new, |data| data.hostnqn);
                self.notices.push(Notice::Refused { host, qid: Fields::decode(&sqe).qid, status });
                self.respond(&sqe, status, u64::from(dw0), out);
            }
        }
        Ok(())
    }

    /// A capsule on a live queue.
    fn capsule<A: Access, M: Media>(
        &mut self,
        frame: &Frame<'_>,
        access: &A,
        media: &mut M,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        let sqe = sqe_of(frame);
        if !frame.data.is_empty() {
            check_capsule(&sqe, frame)?;
        }
        self.take_sqe();
        if !frame.data_good {
            self.respond(&sqe, Status::TRANSIENT_TRANSPORT, 0, out);
            return Ok(());
        }
        let on = if self.is_io_queue() { On::Io } else { On::Admin };
        if let Err(status) = media.allow(self.sender(), on, &sqe) {
            self.note(&sqe, status, access);
            self.respond(&sqe, status, 0, out);
            return Ok(());
        }
        if let Some(kind) = message(&sqe) {
            self.authenticate(kind, &sqe, frame.data, access, media, out);
        } else if sqe.opcode() == opcode::FABRICS {
            self.fabrics(&sqe, access, media, out);
        } else if self.is_io_queue() {
            return self.io(&sqe, frame, access, media, out);
        } else {
            return self.admin(&sqe, frame, access, out);
        }
        Ok(())
    }

    pub(super) fn take_sqe(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.sqhd = (queue.sqhd + 1) % queue.entries;
            queue.done.commands += 1;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(windows) = &self.windows {
            windows.give_back(self.taken);
        }
    }
}

pub(super) fn sqe_of(frame: &Frame<'_>) -> Sqe {
    let mut bytes = [0; 64];
    bytes.copy_from_slice(&frame.header[8..72]);
    Sqe(bytes)
}

/// Data in a capsule must be what the SGL says.
pub(super) fn check_capsule(sqe: &Sqe, frame: &Frame<'_>) -> Result<(), Violation> {
    let sgl = sqe.sgl();
    if sgl.kind != Sgl::IN_CAPSULE {
        let what = "data in a capsule whose SGL does not say so";
        return Err(Violation::new(Fatal::UnsupportedParameter, 47, frame.header, what));
    }
    if sgl.offset != 0 {
        let what = "data at an offset in the capsule";
        return Err(Violation::new(Fatal::UnsupportedParameter, 32, frame.header, what));
    }
    if sgl.len as usize != frame.data.len() {
        let what = "data in a capsule are not as long as the SGL says";
        return Err(Violation::new(Fatal::InvalidHeaderField, 4, frame.header, what));
    }
    Ok(())
}
