//! Authentication of a connection's host. `docs/design/authentication.md` has the states.

use super::connection::{Connection, State, check_capsule, sqe_of};
use super::exchange::message;
use super::media::Media;
use super::notice::{EndReason, Notice};
use super::subsystem::Access;
use crate::auth::Computed;
use crate::auth::controller::{Answer, Step};
use crate::auth::failure::Failure;
use crate::pdu::{Frame, Violation};
use crate::spec::command::Fabrics;
use crate::spec::connect::Data;
use crate::spec::{DISCOVERY_NQN, Sqe, Status, authentication};

/// Nanoseconds from the accept of a connection to the proof of its host, and for the rest of an
/// authentication that failed on a queue that was live.
const PATIENCE: u64 = 10_000_000_000;

impl Connection {
    /// The queue takes everything from now on.
    pub(super) fn go_live(&mut self) {
        self.state = State::Live;
        self.deadline = None;
        if self.is_io_queue() {
            self.framing.max_capsule_data = self.limits.capsule_data;
        } else if let Some(queue) = &self.queue {
            let (association, kato_ms) = (queue.who(), queue.kato_ms);
            self.notices.push(Notice::Associated { association, kato_ms });
        }
    }

    /// Nothing but authentication is taken, and that until some time after `since`.
    pub(super) fn await_proof(&mut self, since: u64) {
        self.state = State::AwaitAuth;
        self.deadline = Some(since.saturating_add(PATIENCE));
    }

    /// A capsule on a queue whose host has to prove itself.
    pub(super) fn before_proof<A: Access, M: Media>(
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
        match message(&sqe) {
            _ if !frame.data_good => self.respond(&sqe, Status::TRANSIENT_TRANSPORT, 0, out),
            Some(kind) => self.authenticate(kind, &sqe, frame.data, access, media, out),
            None => self.respond(&sqe, Status::AUTHENTICATION_REQUIRED.dnr(), 0, out),
        }
        Ok(())
    }

    /// A command that carries a message, with its data.
    pub(super) fn authenticate<A: Access, M: Media>(
        &mut self,
        kind: Fabrics,
        sqe: &Sqe,
        data: &[u8],
        access: &A,
        media: &mut M,
        out: &mut Vec<u8>,
    ) {
        if self.authentication.is_none() {
            return self.respond(sqe, Status::INVALID_OPCODE.dnr(), 0, out);
        }
        let sends = kind == Fabrics::AuthenticationSend;
        let fits = |length: &u32| {
            if sends { *length as usize == data.len() } else { *length <= sqe.sgl().len && data.is_empty() }
        };
        match authentication::length(sqe).filter(fits) {
            None => self.respond(sqe, Status::INVALID_FIELD.dnr(), 0, out),
            Some(_) if sends => self.sent(sqe, data, access, media, out),
            Some(room) => self.fetched(sqe, room, access, media, out),
        }
    }

    /// Authentication Send.
    fn sent<A: Access, M: Media>(
        &mut self,
        sqe: &Sqe,
        data: &[u8],
        access: &A,
        media: &mut M,
        out: &mut Vec<u8>,
    ) {
        let Some(seed) = media.seed() else { return self.respond(sqe, Status::INTERNAL, 0, out) };
        let now = self.now;
        let names = self.names(access);
        let Some((names, auth)) = names.as_ref().zip(self.authentication.as_mut()) else { return };
        if auth.exchange.is_between() {
            // The keys may have changed since the last exchange.
            if let Some(keys) = media.keys(&names.hostnqn, &names.subnqn) {
                auth.exchange.set_keys(keys.credentials.clone(), keys.policy.clone());
                auth.keys = keys;
            } else {
                self.respond(sqe, Status::AUTHENTICATION_REQUIRED.dnr(), 0, out);
                return self.unproven(Failure::NoHostKey, access);
            }
        }
        match auth.exchange.send(data, seed, now) {
            Step::Compute(job) => {
                auth.pending = Some(*sqe);
                if !media.compute(&names.hostnqn, job) {
                    self.respond(sqe, Status::CONNECT_BUSY, 0, out);
                    self.unproven(Failure::Busy, access);
                }
            }
            Step::Complete => {
                let status = self.settled(access, media);
                self.respond(sqe, status.err().unwrap_or(Status::SUCCESS), 0, out);
            }
            Step::End => {
                self.respond(sqe, Status::SUCCESS, 0, out);
                self.given_up(access);
            }
        }
    }

    /// Authentication Receive.
    fn fetched<A: Access, M: Media>(
        &mut self,
        sqe: &Sqe,
        room: u32,
        access: &A,
        media: &mut M,
        out: &mut Vec<u8>,
    ) {
        let now = self.now;
        let Some(auth) = self.authentication.as_mut() else { return };
        let Answer { message, end } = auth.exchange.receive(room as usize, now);
        match self.settled(access, media) {
            Err(status) => self.respond(sqe, status, 0, out),
            Ok(()) if message.is_empty() => self.respond(sqe, Status::SUCCESS, 0, out),
            Ok(()) => {
                self.respond_with(sqe, message.len() as u32, out, |to| {
                    to.copy_from_slice(&message);
                    Ok(())
                });
            }
        }
        if end {
            self.given_up(access);
        }
    }

    /// A computation of the connection is done.
    pub fn computed<A: Access>(&mut self, computed: Computed, now: u64, access: &A, out: &mut Vec<u8>) {
        self.now = now;
        let Some(auth) = self.authentication.as_mut() else { return };
        let step = auth.exchange.computed(computed, now);
        let pending = auth.pending.take();
        if !matches!(self.state, State::AwaitAuth | State::Live) {
            return;
        }
        if let Some(sqe) = pending {
            self.respond(&sqe, Status::SUCCESS, 0, out);
        }
        match step {
            Step::End => self.given_up(access),
            // The result of a step never asks for another one.
            Step::Complete | Step::Compute(_) => self.withdrawn(),
        }
    }

    /// After a step: the host may have proven itself, or a proof that it had may be void.
    fn settled<A: Access, M: Media>(&mut self, access: &A, media: &M) -> Result<(), Status> {
        let Some(auth) = &self.authentication else { return Ok(()) };
        match (auth.exchange.proof().copied(), self.state) {
            (Some(proof), State::AwaitAuth) => {
                let admitted = self.admitted(proof.key, access, media);
                match admitted {
                    Ok(()) => self.go_live(),
                    Err(status) => {
                        self.tell_refused(status);
                        self.end(EndReason::Unproven);
                    }
                }
                admitted
            }
            _ => {
                self.withdrawn();
                Ok(())
            }
        }
    }

    /// A queue that was live is not any more if its proof is void.
    fn withdrawn(&mut self) {
        let void = self.authentication.as_ref().is_some_and(|auth| auth.exchange.proof().is_none());
        if void && self.state == State::Live {
            self.await_proof(self.now);
        }
    }

    /// The host has proven one of its keys: whether it may come in now. The table of hosts may have
    /// changed since Connect.
    fn admitted<A: Access, M: Media>(&mut self, key: usize, access: &A, media: &M) -> Result<(), Status> {
        self.check_life();
        if self.is_closed() {
            return Err(Status::SEQUENCE.dnr());
        }
        let names = self.names(access).ok_or(Status::SEQUENCE.dnr())?;
        media.admit(&names)?;
        let Some(auth) = &self.authentication else { return Ok(()) };
        let stands = media
            .keys(&names.hostnqn, &names.subnqn)
            .is_none_or(|keys| keys.credentials.has_host_key(&auth.keys.credentials, key));
        if !stands {
            return Err(Status::AUTHENTICATION_REQUIRED);
        }
        let Some(queue) = self.queue.as_mut().filter(|queue| !queue.proven) else { return Ok(()) };
        access.with(|subsystem| match queue.qid {
            0 => subsystem.prove(queue.cntlid),
            qid => subsystem.prove_queue(queue.cntlid, qid),
        })?;
        queue.proven = true;
        queue.last_keep_alive = self.now;
        // Relaxed: a time that is looked at alone.
        queue.heard.store(self.now, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    /// The data of its Connect.
    fn names<A: Access>(&self, access: &A) -> Option<Data> {
        let queue = self.queue.as_ref()?;
        let subnqn = if queue.discovery {
            DISCOVERY_NQN.to_owned()
        } else {
            access.with(|subsystem| subsystem.identity().nqn.as_str().to_owned())
        };
        Some(Data { hostid: queue.hostid, cntlid: queue.cntlid, subnqn, hostnqn: queue.hostnqn.clone() })
    }

    /// Ends the connection if the next step of its authentication is late.
    pub(super) fn await_step<A: Access>(&mut self, access: &A) {
        let now = self.now;
        let late = self.authentication.as_mut().is_some_and(|auth| auth.exchange.expire(now));
        if late && matches!(self.state, State::AwaitAuth | State::Live) {
            self.given_up(access);
        }
    }

    /// The exchange is over without a proof.
    fn given_up<A: Access>(&mut self, access: &A) {
        let failure = self.authentication.as_ref().and_then(|auth| auth.exchange.failure().copied());
        self.unproven(failure.unwrap_or(Failure::Deadline), access);
    }

    /// Ends the connection, and if the queue was live its association.
    fn unproven<A: Access>(&mut self, failure: Failure, access: &A) {
        if let Some(queue) = &self.queue {
            let (host, qid) = (queue.hostnqn.clone(), queue.qid);
            self.notices.push(Notice::Unproven { host, qid, failure });
            if queue.proven && queue.life.epoch() == queue.epoch {
                access.with(|subsystem| subsystem.end(queue.cntlid));
            }
        }
        self.end(EndReason::Unproven);
    }

    fn tell_refused(&mut self, status: Status) {
        if let Some(queue) = &self.queue {
            self.notices.push(Notice::Refused { host: queue.hostnqn.clone(), qid: queue.qid, status });
        }
    }
}
