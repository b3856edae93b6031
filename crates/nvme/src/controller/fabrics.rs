//! Fabrics commands: Connect, properties, Disconnect.

use super::association::{Configured, Controller};
use super::connection::{Connection, Queue};
use super::exchange::Authentication;
use super::media::{Media, Op, Request, SHUTDOWN_SLOT, Submitted};
use super::notice::QueueSums;
use super::slots::{Phase, Slots};
use super::subsystem::{Access, Refusal, bad_parameter};
use crate::bytes::{u32_at, u64_at};
use crate::pdu::Frame;
use crate::spec::command::{Fabrics, On, fabrics_command};
use crate::spec::connect::{DATA_LEN, Data, Fields, NO_FLOW_CONTROL};
use crate::spec::property::{VERSION, capabilities, cc, offset};
use crate::spec::{Sqe, Status};
use std::sync::Arc;

/// The status of a Fabrics command that belongs on another kind of queue.
fn elsewhere(on: On) -> Status {
    match on {
        On::Unbound => Status::SEQUENCE.dnr(),
        On::Admin => Status::INVALID_OPCODE.dnr(),
        On::Io => Status::INVALID_QUEUE_TYPE.dnr(),
    }
}

impl Connection {
    /// Connect: binds the connection to a queue of a controller. Returns the controller's id.
    pub(super) fn connect<A: Access, M: Media>(
        &mut self,
        sqe: &Sqe,
        frame: &Frame<'_>,
        access: &A,
        media: &M,
    ) -> Result<u16, Refusal> {
        let fields = Fields::decode(sqe);
        if !frame.data_good {
            return Err((Status::TRANSIENT_TRANSPORT, 0));
        }
        if frame.data.len() != DATA_LEN {
            return Err((Status::SGL_LENGTH.dnr(), 0));
        }
        if fields.recfmt != 0 {
            return Err((Status::CONNECT_FORMAT.dnr(), 0));
        }
        let data = Data::decode(frame.data).map_err(|at| bad_parameter(at, true))?;
        if fields.sqsize == 0 || fields.sqsize >= self.limits.queue_depth {
            return Err(bad_parameter(44, false));
        }
        media.admit(&data).map_err(|status| match status.code() == Status::CONNECT_INVALID.code() {
            // The one field of the data that a medium judges by itself.
            true => bad_parameter(crate::spec::connect::offset::HOSTID, true),
            false => (status, 0),
        })?;
        let (now, peer) = (self.now, self.peer);
        let keys = media.keys(&data.hostnqn, &data.subnqn);
        let proven = keys.is_none();
        let queue = access.with(|subsystem| {
            let counters = Arc::clone(subsystem.counters());
            let controller = if fields.qid == 0 {
                subsystem.associate(&fields, &data, peer, now, proven)
            } else {
                subsystem.join(&fields, &data, peer, proven)
            }?;
            let life = Arc::clone(if fields.qid == 0 { &controller.life } else { &controller.io_life });
            let epoch = life.epoch();
            if proven {
                controller.hear(now);
            }
            Ok(Queue {
                qid: fields.qid,
                proven,
                kato_ms: fields.kato_ms,
                cntlid: controller.cntlid,
                hostid: controller.hostid,
                hostnqn: controller.hostnqn.clone(),
                discovery: controller.discovery,
                helper: controller.helper,
                observer: Arc::clone(&controller.observer),
                attached: controller.attached.clone(),
                entries: fields.sqsize + 1,
                sqhd: 0,
                flow_control: fields.cattr & NO_FLOW_CONTROL == 0,
                life,
                epoch,
                heard: Arc::clone(&controller.heard),
                counters,
                done: QueueSums::default(),
                totals: Arc::clone(&controller.totals),
                kato_ns: keep_alive_ns(fields.kato_ms),
                last_keep_alive: now,
            })
        })?;
        self.changes = access.with(|subsystem| Arc::clone(subsystem.namespace_changes()));
        self.look_at_namespaces(access);
        let cntlid = queue.cntlid;
        self.authentication = keys.map(|keys| Authentication::new(keys, fields.kato_ms, now));
        self.slots = Slots::new(queue.entries);
        self.queue = Some(queue);
        Ok(cntlid)
    }

    /// A Fabrics command on a live queue.
    pub(super) fn fabrics<A: Access, M: Media>(
        &mut self,
        sqe: &Sqe,
        access: &A,
        media: &mut M,
        out: &mut Vec<u8>,
    ) {
        let here = if self.is_io_queue() { On::Io } else { On::Admin };
        let (status, result) = match fabrics_command(sqe.0[4]) {
            None => (Status::INVALID_OPCODE.dnr(), 0),
            Some(row) if !row.check.contains(&here) => (elsewhere(row.check[0]), 0),
            Some(row) => match row.kind {
                Fabrics::Connect => (Status::SEQUENCE.dnr(), 0),
                Fabrics::PropertyGet => self.property_get(sqe, access),
                Fabrics::PropertySet => (self.property_set(sqe, access, media), 0),
                // The caller has carried these out.
                Fabrics::AuthenticationSend | Fabrics::AuthenticationReceive => (Status::SEQUENCE.dnr(), 0),
                Fabrics::Disconnect => (self.disconnect(sqe, access), 0),
            },
        };
        self.note(sqe, status, access);
        self.respond(sqe, status, result, out);
    }

    fn disconnect<A: Access>(&mut self, sqe: &Sqe, access: &A) -> Status {
        if sqe.0[40] != 0 || sqe.0[41] != 0 {
            return Status::CONNECT_FORMAT.dnr();
        }
        if let Some(queue) = &mut self.queue {
            access.with(|subsystem| {
                if let Some(controller) = subsystem.controllers.get_mut(&queue.cntlid) {
                    controller.queues.remove(&queue.qid);
                    subsystem.note_change(queue.cntlid);
                }
            });
            // The queue may be connected again at once. This connection is none of it any more: it
            // ends as those of an ended association do, takes nothing more, and its end is not that
            // of the queue that has its number then.
            queue.epoch = queue.epoch.wrapping_sub(1);
        }
        Status::SUCCESS
    }

    /// Runs `f` on the connection's controller.
    pub(super) fn with_controller<A: Access, R>(
        &self,
        access: &A,
        f: impl FnOnce(&mut Controller) -> R,
    ) -> Option<R> {
        let cntlid = self.queue.as_ref()?.cntlid;
        access.with(|subsystem| subsystem.controllers.get_mut(&cntlid).map(f))
    }

    fn property_get<A: Access>(&self, sqe: &Sqe, access: &A) -> (Status, u64) {
        let wide = sqe.0[40] & 0b111 == 1;
        let depth = self.limits.queue_depth;
        if let Some(queue) = &self.queue {
            // It may have become ready since the host looked last.
            access.with(|subsystem| subsystem.is_ready(queue.cntlid));
        }
        let value = self.with_controller(access, |controller| match (u32_at(&sqe.0, 44), wide) {
            (offset::CAP, true) => Some(capabilities(depth)),
            (offset::VS, false) => Some(u64::from(VERSION)),
            (offset::CC, false) => Some(u64::from(controller.cc)),
            (offset::CSTS, false) => Some(u64::from(controller.csts)),
            _ => None,
        });
        value.flatten().map_or((Status::INVALID_FIELD.dnr(), 0), |value| (Status::SUCCESS, value))
    }

    fn property_set<A: Access, M: Media>(&mut self, sqe: &Sqe, access: &A, media: &mut M) -> Status {
        if sqe.0[40] & 0b111 != 0 || u32_at(&sqe.0, 44) != offset::CC {
            return Status::INVALID_FIELD.dnr();
        }
        let (value, now) = (u64_at(&sqe.0, 48) as u32, self.now);
        let configured = self.with_controller(access, |controller| controller.configure(value, now));
        if value & cc::ENABLE == 0 {
            // A reset takes the AER commands with it, without a completion.
            while let Some(slot) = self.slots.find(|slot| slot.phase == Phase::Event) {
                self.slots.free(slot);
            }
        }
        if configured == Some(Configured::Shutdown) && self.is_discovery() {
            // It has written nothing.
            self.shutdown_done(Status::SUCCESS, access);
        } else if configured == Some(Configured::Shutdown) {
            let flush = Request {
                slot: SHUTDOWN_SLOT,
                nsid: u32::MAX,
                cntlid: self.queue.as_ref().map_or(0, |queue| queue.cntlid),
                op: Op::Flush,
                offset: 0,
                len: 0,
                face: None,
                fua: false,
                data: &[],
                command: sqe,
            };
            if let Submitted::Done(status) = media.submit(&flush) {
                self.shutdown_done(status, access);
            }
        }
        Status::SUCCESS
    }

    /// Every write is durable.
    pub(super) fn shutdown_done<A: Access>(&mut self, flushed: Status, access: &A) {
        self.with_controller(access, |controller| controller.shut_down(flushed.is_success()));
    }
}

/// The keep-alive timeout in nanoseconds, with one unit of its granularity more; 0 for none.
pub(super) fn keep_alive_ns(kato_ms: u32) -> u64 {
    if kato_ms == 0 {
        0
    } else {
        (u64::from(kato_ms) + u64::from(crate::spec::identify::KAS) * 100) * 1_000_000
    }
}

const _: () = assert!(DATA_LEN <= super::connection::ADMIN_CAPSULE as usize);
