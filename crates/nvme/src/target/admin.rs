//! Admin commands.

use super::connection::Connection;
use super::controller::Controller;
use super::fabrics::keep_alive_ns;
use super::media::Media;
use super::slots::Phase;
use super::subsystem::Access;
use crate::pdu::Frame;
use crate::spec::identify::{
    ACL, AERL, Controller as IdentifyController, LEN, Namespace, cns, namespace_list,
};
use crate::spec::opcode::{admin, feature};
use crate::spec::{Sgl, Sqe, Status};

/// Where the vendor's part of Identify Controller begins.
const VENDOR: usize = 3072;

/// What an admin command answers: data and status, or a number and status.
pub(super) enum Answer {
    /// Data, cut to what the host asked for.
    Data(Vec<u8>),
    /// A result in dw0.
    Number(u32),
    /// A failure.
    Failed(Status),
    /// Not yet.
    Later,
}

impl Connection {
    /// An admin command.
    pub(super) fn admin<A: Access, M: Media>(
        &mut self,
        sqe: &Sqe,
        frame: &Frame<'_>,
        access: &A,
        _media: &mut M,
        out: &mut Vec<u8>,
    ) {
        let ready = self.with_controller(access, |c: &mut Controller| c.is_ready());
        let answer = if ready != Some(true) {
            Answer::Failed(Status::SEQUENCE.dnr())
        } else if sqe.flags() & 0b11 != 0 {
            Answer::Failed(Status::INVALID_FIELD.dnr())
        } else {
            match sqe.opcode() {
                admin::IDENTIFY => self.identify(sqe, access),
                admin::GET_LOG_PAGE => self.log_page(sqe, access),
                admin::SET_FEATURES => self.set_features(sqe, frame, access),
                admin::GET_FEATURES => self.get_features(sqe, access),
                admin::ASYNC_EVENT => self.async_event(sqe),
                admin::KEEP_ALIVE => self.keep_alive(),
                admin::ABORT => self.abort(sqe, out),
                _ => Answer::Failed(Status::INVALID_OPCODE.dnr()),
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

    fn answer_data<A: Access>(&self, sqe: &Sqe, data: &[u8], access: &A, out: &mut Vec<u8>) {
        let sgl = sqe.sgl();
        let status = if sgl.kind != Sgl::TRANSPORT {
            Status::SGL_TYPE.dnr()
        } else if sgl.len == 0 {
            Status::SGL_LENGTH.dnr()
        } else {
            let len = data.len().min(sgl.len as usize);
            self.respond_with(sqe, len as u32, out, |to| {
                to.copy_from_slice(&data[..len]);
                Ok(())
            });
            return;
        };
        self.note(sqe, status, access);
        self.respond(sqe, status, 0, out);
    }

    fn is_discovery(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.discovery)
    }

    fn identify<A: Access>(&self, sqe: &Sqe, access: &A) -> Answer {
        let (asked, csi, nsid) = (sqe.0[40], sqe.0[47], sqe.nsid());
        if self.is_discovery() && asked != cns::CONTROLLER {
            return Answer::Failed(Status::INVALID_FIELD.dnr());
        }
        let count = self.namespaces.len() as u32;
        let namespace = nsid.checked_sub(1).and_then(|index| self.namespaces.get(index as usize));
        let of_namespace = |page: Option<Vec<u8>>| {
            page.map_or(Answer::Failed(Status::INVALID_NAMESPACE.dnr()), Answer::Data)
        };
        match asked {
            cns::CONTROLLER => Answer::Data(self.identify_controller(access)),
            cns::NAMESPACE => of_namespace(namespace.map(Namespace::encode)),
            cns::NAMESPACE_IDS => of_namespace(namespace.map(Namespace::ids)),
            cns::NAMESPACE_INDEPENDENT => of_namespace(namespace.map(Namespace::independent)),
            // Nothing beyond the base: no protection information, no limits of single commands.
            cns::NAMESPACE_OF_SET if csi == 0 => of_namespace(namespace.map(|_| vec![0; LEN])),
            cns::CONTROLLER_OF_SET if csi == 0 => Answer::Data(vec![0; LEN]),
            cns::NAMESPACE_LIST if nsid < 0xFFFF_FFFE => Answer::Data(namespace_list(nsid, count)),
            cns::NAMESPACE_LIST => Answer::Failed(Status::INVALID_NAMESPACE.dnr()),
            _ => Answer::Failed(Status::INVALID_FIELD.dnr()),
        }
    }

    fn identify_controller<A: Access>(&self, access: &A) -> Vec<u8> {
        let discovery = self.is_discovery();
        let cntlid = self.queue.as_ref().map_or(0, |queue| queue.cntlid);
        access.with(|subsystem| {
            let identity = subsystem.identity().clone();
            let mut page = IdentifyController {
                serial: identity.serial,
                model: identity.model,
                firmware: identity.firmware,
                cntlid,
                discovery,
                namespaces: subsystem.namespaces().len() as u32,
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

    fn set_features<A: Access>(&mut self, sqe: &Sqe, frame: &Frame<'_>, access: &A) -> Answer {
        if sqe.dword(10) >> 31 != 0 {
            return Answer::Failed(Status::NOT_SAVEABLE.dnr());
        }
        let (fid, value) = (sqe.0[40], sqe.dword(11));
        let discovery = self.is_discovery();
        match fid {
            feature::KEEP_ALIVE => {
                if let Some(queue) = &mut self.queue {
                    queue.kato_ns = keep_alive_ns(value);
                    queue.last_keep_alive = self.now;
                }
                self.with_controller(access, |controller| controller.kato_ms = value);
                Answer::Number(0)
            }
            feature::ASYNC_EVENTS => {
                self.with_controller(access, |controller| controller.event_mask = value);
                Answer::Number(0)
            }
            _ if discovery => Answer::Failed(Status::INVALID_FIELD.dnr()),
            feature::QUEUES if value & 0xFFFF != 0xFFFF && value >> 16 != 0xFFFF => {
                Answer::Number(self.queues_granted(value))
            }
            // There is one power state; the write cache is the backend's own affair and cannot be turned off.
            feature::POWER if value & 0x1F == 0 => Answer::Number(0),
            feature::WRITE_CACHE if value & 1 == 1 => Answer::Number(0),
            feature::WRITE_CACHE => Answer::Failed(Status::NOT_CHANGEABLE.dnr()),
            feature::ARBITRATION | feature::TEMPERATURE => Answer::Number(0),
            feature::ERROR_RECOVERY if value >> 16 == 0 => Answer::Number(0),
            feature::HOST_ID => self.host_id_is(frame, access),
            _ => Answer::Failed(Status::INVALID_FIELD.dnr()),
        }
    }

    /// The host id was given by Connect: it may be said again, not changed.
    fn host_id_is<A: Access>(&self, frame: &Frame<'_>, access: &A) -> Answer {
        let same = self.with_controller(access, |controller| frame.data == controller.hostid);
        if same == Some(true) { Answer::Number(0) } else { Answer::Failed(Status::SEQUENCE.dnr()) }
    }

    fn queues_granted(&self, asked: u32) -> u32 {
        let most = u32::from(self.limits.queues) - 1;
        (asked & 0xFFFF).min(most) | (asked >> 16).min(most) << 16
    }

    fn get_features<A: Access>(&self, sqe: &Sqe, access: &A) -> Answer {
        // Current and default values are told; there are no saved ones, and no capabilities of changing.
        if sqe.dword(10) >> 8 & 0b111 > 1 {
            return Answer::Failed(Status::INVALID_FIELD.dnr());
        }
        let of = |f: fn(&Controller) -> u32| {
            Answer::Number(self.with_controller(access, |controller| f(controller)).unwrap_or(0))
        };
        match sqe.0[40] {
            feature::KEEP_ALIVE => of(|controller| controller.kato_ms),
            feature::ASYNC_EVENTS => of(|controller| controller.event_mask),
            _ if self.is_discovery() => Answer::Failed(Status::INVALID_FIELD.dnr()),
            feature::QUEUES => Answer::Number(self.queues_granted(0xFFFE_FFFE)),
            feature::WRITE_CACHE => Answer::Number(1),
            feature::ARBITRATION | feature::POWER | feature::ERROR_RECOVERY => Answer::Number(0),
            feature::TEMPERATURE => Answer::Number(343),
            feature::HOST_ID => {
                let id = self.with_controller(access, |controller| controller.hostid.to_vec());
                Answer::Data(id.unwrap_or_default())
            }
            _ => Answer::Failed(Status::INVALID_FIELD.dnr()),
        }
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

    /// Abort: commands on this queue that wait for an event can be given up; all others end by themselves soon.
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
