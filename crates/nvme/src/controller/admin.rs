//! Admin commands.

use super::association::Controller;
use super::attached::{Attached, Nsid};
use super::connection::Connection;
use super::io::MAX_TRANSFER;
use super::slots::Phase;
use super::subsystem::Access;
use crate::pdu::{Frame, Violation};
use crate::spec::command::{Admin, Effect, Sender, admin_command};
use crate::spec::identify::{
    ACL, AERL, Controller as IdentifyController, LEN, Namespace, cns, command_sets, namespace_list,
};
use crate::spec::opcode::admin;
use crate::spec::{Sgl, Sqe, Status, feature};
use std::sync::Arc;

/// Start of the vendor's part of Identify Controller.
const VENDOR: usize = 3072;

/// Scope that a command's NSID names.
pub(super) enum Scope {
    /// The controller: none of the namespaces, or all of them.
    Controller,
    /// One namespace, which exists.
    Namespace,
}

/// Checks that `len` bytes of data may go to the host. A part of them never may: the host could not
/// tell it from the whole. More room than that is filled up with zeros.
pub(super) fn check_room(sqe: &Sqe, len: usize) -> Result<(), Status> {
    let sgl = sqe.sgl();
    if sgl.kind != Sgl::TRANSPORT {
        return Err(Status::SGL_TYPE);
    }
    if len > sgl.len as usize || u64::from(sgl.len) > MAX_TRANSFER {
        return Err(Status::SGL_LENGTH);
    }
    Ok(())
}

/// Answer to an admin command: data and status, or a number and status.
pub(super) enum Answer {
    /// Data.
    Data(Vec<u8>),
    /// A result in dw0.
    Number(u32),
    /// A failure.
    Failed(Status),
    /// Not yet.
    Later,
}

impl Connection {
    /// An admin command, whose data may be still to come.
    pub(super) fn admin<A: Access>(
        &mut self,
        sqe: &Sqe,
        frame: &Frame<'_>,
        access: &A,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        let waits =
            frame.data.is_empty() && sqe.opcode() == admin::SET_FEATURES && sqe.sgl().kind == Sgl::TRANSPORT;
        let expected = if waits { feature::data_len(sqe.0[40]) } else { 0 };
        if expected != 0 && sqe.sgl().len == expected {
            self.ask(*sqe, expected, frame, out)?;
            return Ok(());
        }
        self.admin_with(sqe, frame.data, access, out);
        Ok(())
    }

    /// An admin command with the data that it has.
    pub(super) fn admin_with<A: Access>(&mut self, sqe: &Sqe, data: &[u8], access: &A, out: &mut Vec<u8>) {
        let cntlid = self.queue.as_ref().map(|queue| queue.cntlid);
        let answer = if !cntlid.is_some_and(|cntlid| access.with(|s| s.is_ready(cntlid))) {
            Answer::Failed(Status::SEQUENCE.dnr())
        } else if !sqe.is_plain() {
            Answer::Failed(Status::INVALID_FIELD.dnr())
        } else {
            match admin_command(sqe.opcode()).filter(|command| command.is_for(self.sender())) {
                Some(command) if command.effect == Effect::ChangesData && self.observes() => {
                    Answer::Failed(Status::WRITE_PROTECTED.dnr())
                }
                Some(command) => self.carry_out(command.kind, sqe, data, access, out),
                None => Answer::Failed(Status::INVALID_OPCODE.dnr()),
            }
        };
        match answer {
            Answer::Data(data) => self.answer_data(sqe, &data, access, out),
            Answer::Number(value) => self.respond(sqe, Status::SUCCESS, u64::from(value), out),
            Answer::Failed(status) => {
                self.note(sqe, status, access);
                self.respond(sqe, status, 0, out);
            }
            Answer::Later => {}
        }
        self.deliver_events(access, out);
    }

    fn carry_out<A: Access>(
        &mut self,
        command: Admin,
        sqe: &Sqe,
        data: &[u8],
        access: &A,
        out: &mut Vec<u8>,
    ) -> Answer {
        match command {
            Admin::Identify => self.identify(sqe, access),
            Admin::GetLogPage => self.log_page(sqe, access),
            Admin::SetFeatures => self.set_features(sqe, data, access),
            Admin::GetFeatures => self.get_features(sqe, access),
            Admin::AsyncEvent => self.async_event(sqe),
            Admin::KeepAlive => self.keep_alive(),
            Admin::Abort => self.abort(sqe, out),
        }
    }

    /// Answers with data, and with zeros where there is more room: a read that succeeds brings all
    /// that was asked for.
    fn answer_data<A: Access>(&self, sqe: &Sqe, data: &[u8], access: &A, out: &mut Vec<u8>) {
        if let Err(status) = check_room(sqe, data.len()) {
            self.note(sqe, status.dnr(), access);
            self.respond(sqe, status.dnr(), 0, out);
            return;
        }
        self.respond_with(sqe, sqe.sgl().len, out, |to| {
            let (known, rest) = to.split_at_mut(data.len());
            known.copy_from_slice(data);
            rest.fill(0);
            Ok(())
        });
    }

    /// The namespaces attached to the host. The discovery service has none.
    fn attached(&self) -> Attached {
        let queue = self.queue.as_ref().filter(|queue| !queue.discovery);
        queue.map_or_else(|| Attached::new([]), |queue| queue.attached.clone())
    }

    /// The scope that the NSID of a command about the controller names.
    pub(super) fn scope(&self, sqe: &Sqe) -> Result<Scope, Status> {
        match sqe.nsid() {
            0 | u32::MAX => Ok(Scope::Controller),
            nsid if self.attached().has(nsid) => Ok(Scope::Namespace),
            _ => Err(Status::INVALID_NAMESPACE),
        }
    }

    /// Kind of the other end.
    pub(super) fn sender(&self) -> Sender {
        match &self.queue {
            Some(queue) if queue.discovery => Sender::Discovery,
            Some(queue) if queue.helper => Sender::Node,
            _ => Sender::Host,
        }
    }

    pub(super) fn is_discovery(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.discovery)
    }

    fn identify<A: Access>(&self, sqe: &Sqe, access: &A) -> Answer {
        let (asked, csi, nsid) = (sqe.0[40], sqe.0[47], sqe.nsid());
        if self.is_discovery() && asked != cns::CONTROLLER {
            return Answer::Failed(Status::INVALID_FIELD.dnr());
        }
        // As they are now: the host asks because it was told that they have changed.
        let (namespaces, used) =
            access.with(|subsystem| (Arc::clone(subsystem.namespaces()), subsystem.used(nsid)));
        let attached = self.attached();
        let found = attached.find(nsid);
        let namespace = match found {
            Nsid::Active(index) => namespaces.get(index),
            Nsid::Inactive | Nsid::Invalid => None,
        };
        let of_namespace = |page: Option<Vec<u8>>| {
            page.map_or(Answer::Failed(Status::INVALID_NAMESPACE.dnr()), Answer::Data)
        };
        match asked {
            cns::CONTROLLER => Answer::Data(self.identify_controller(access)),
            cns::NAMESPACE if found == Nsid::Inactive => Answer::Data(vec![0; LEN]),
            cns::NAMESPACE => of_namespace(namespace.map(|n| n.encode_with_use(used.unwrap_or(n.blocks)))),
            cns::NAMESPACE_IDS => of_namespace(namespace.map(Namespace::ids)),
            cns::NAMESPACE_INDEPENDENT => of_namespace(namespace.map(Namespace::independent)),
            cns::NAMESPACE_OF_SET if csi == 0 => of_namespace(namespace.map(Namespace::of_set)),
            cns::CONTROLLER_OF_SET if csi == 0 => Answer::Data(IdentifyController::limits()),
            cns::COMMAND_SETS => Answer::Data(command_sets()),
            cns::NAMESPACE_LIST_OF_SET if csi != 0 => Answer::Failed(Status::INVALID_FIELD.dnr()),
            cns::NAMESPACE_LIST | cns::NAMESPACE_LIST_OF_SET if nsid < 0xFFFF_FFFE => {
                Answer::Data(namespace_list(attached.above(nsid)))
            }
            cns::NAMESPACE_LIST | cns::NAMESPACE_LIST_OF_SET => {
                Answer::Failed(Status::INVALID_NAMESPACE.dnr())
            }
            _ => Answer::Failed(Status::INVALID_FIELD.dnr()),
        }
    }

    fn identify_controller<A: Access>(&self, access: &A) -> Vec<u8> {
        let discovery = self.is_discovery();
        let cntlid = self.queue.as_ref().map_or(0, |queue| queue.cntlid);
        let attached = self.attached();
        access.with(|subsystem| {
            let mut namespaces = attached.above(0).filter_map(|n| subsystem.namespaces().get(n as usize - 1));
            let extended_formats = namespaces.any(Namespace::has_extended_format);
            let identity = subsystem.identity().clone();
            let mut page = IdentifyController {
                serial: identity.serial,
                model: identity.model,
                firmware: identity.firmware,
                cntlid,
                discovery,
                several_ports: subsystem.ports().len() > 1,
                namespaces: attached.largest(),
                extended_formats,
                queue_depth: subsystem.limits().queue_depth,
                capsule_data: subsystem.limits().capsule_data,
                subnqn: if discovery {
                    crate::spec::DISCOVERY_NQN.to_owned()
                } else {
                    identity.nqn.as_str().to_owned()
                },
            }
            .encode();
            let vendor = &subsystem.vendor().identify;
            page[VENDOR..VENDOR + vendor.len()].copy_from_slice(vendor);
            page
        })
    }

    fn keep_alive(&mut self) -> Answer {
        if let Some(queue) = &mut self.queue {
            queue.last_keep_alive = self.now;
        }
        Answer::Number(0)
    }

    fn async_event(&mut self, sqe: &Sqe) -> Answer {
        if self.slots.count(|slot| slot.phase == Phase::Event) > usize::from(AERL) {
            return Answer::Failed(Status::AER_LIMIT.dnr());
        }
        match self.slots.take(*sqe, Phase::Event) {
            Some(_) => Answer::Later,
            None => Answer::Failed(Status::AER_LIMIT.dnr()),
        }
    }

    /// Abort: commands on this queue that wait for an event can be given up; all others end by
    /// themselves soon.
    fn abort(&mut self, sqe: &Sqe, out: &mut Vec<u8>) -> Answer {
        const _: () = assert!(ACL == 3);
        let (sqid, cid) = (sqe.dword(10) as u16, (sqe.dword(10) >> 16) as u16);
        let waiting = |slot: &super::slots::Slot| slot.phase == Phase::Event && slot.sqe.cid() == cid;
        let found = if sqid == 0 { self.slots.find(waiting) } else { None };
        let Some(slot) = found else { return Answer::Number(1) };
        let Some(entry) = self.slots.get(slot) else { return Answer::Number(1) };
        let aborted = entry.sqe;
        self.slots.free(slot);
        self.respond(&aborted, Status::ABORTED, 0, out);
        Answer::Number(0)
    }

    /// Answers waiting AER commands with the events that there are.
    pub(super) fn deliver_events<A: Access>(&mut self, access: &A, out: &mut Vec<u8>) {
        while let Some(slot) = self.slots.find(|slot| slot.phase == Phase::Event) {
            let event = self.with_controller(access, Controller::take_event);
            let Some(Some(dw0)) = event else { return };
            let Some(entry) = self.slots.get(slot) else { return };
            let sqe = entry.sqe;
            self.slots.free(slot);
            self.respond(&sqe, Status::SUCCESS, u64::from(dw0), out);
        }
    }
}
