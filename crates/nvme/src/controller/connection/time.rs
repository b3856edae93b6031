//! Effects of time on a connection: deadlines, silence, the end of its controller.

use super::{Connection, PATIENCE, State};
use crate::controller::notice::EndReason;
use crate::controller::slots::{Phase, Slot};
use crate::controller::subsystem::Access;
use std::sync::atomic::Ordering;

/// Nanoseconds that a host may be silent where no keep-alive timer runs: on a controller that is
/// not at work, and on the discovery service's without KATO.
pub(super) const SILENCE: u64 = 120_000_000_000;
/// Nanoseconds that the data of one command may take, from when they are asked for.
pub(super) const TRANSFER: u64 = 120_000_000_000;
/// Nanoseconds after which a connection that was asked for nothing keeps no memory.
const IDLE: u64 = 1_000_000_000;

impl Connection {
    /// Lets time pass: deadlines, keep alive, events, the end of the controller. To be called ten
    /// times a second.
    pub fn tick<A: Access>(&mut self, now: u64, access: &A, out: &mut Vec<u8>) {
        (self.now, self.ticked) = (now, now);
        self.check_life();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.end(EndReason::Deadline);
        }
        self.await_step(access);
        if self.state != State::Live {
            return;
        }
        if self.keeps_promises() {
            self.ask_next(out);
        } else {
            self.end(EndReason::Deadline);
            return;
        }
        let Some(queue) = &self.queue else { return };
        if queue.qid == 0 {
            if let Some(reason) = self.is_forsaken(access) {
                self.end(reason);
                return;
            }
            self.deliver_events(access, out);
        } else {
            self.look_at_namespaces(access);
        }
    }

    /// Takes over namespaces that have changed. Only then is the subsystem asked: all queues do
    /// this at every tick.
    pub(in crate::controller) fn look_at_namespaces<A: Access>(&mut self, access: &A) {
        // Acquire: a thread that sees the change sees the changed namespaces.
        if self.changes.load(Ordering::Acquire) != self.changes_seen {
            (self.namespaces, self.changes_seen) = access.with(|subsystem| subsystem.seen_namespaces());
        }
    }

    /// Since the last tick, nothing was taken from the host, although it may have sent something:
    /// what a live queue waits for has that much longer to come. To be called before the tick at
    /// `now`. Before Connect, and after a term request, deadlines run on: then everything is taken
    /// as it comes.
    pub fn put_off(&mut self, now: u64) {
        if self.state != State::Live {
            return;
        }
        let by = now.saturating_sub(self.ticked);
        // A deadline that began after the last tick has all of its time left, and no more.
        let later = |time: u64| (time + by).min(now);
        if let Some(deadline) = &mut self.deadline {
            *deadline = (*deadline + by).min(now + PATIENCE);
        }
        self.progress = later(self.progress);
        self.slots.each(|slot| slot.asked_at = later(slot.asked_at));
        if let Some(queue) = &mut self.queue {
            queue.last_keep_alive = later(queue.last_keep_alive);
        }
    }

    /// Returns whether the host sends what it was asked for: anything within [`PATIENCE`], and each
    /// command's data within [`TRANSFER`]. A connection that was not used for long keeps no memory.
    fn keeps_promises(&mut self) -> bool {
        let now = self.now;
        if self.asked == 0 {
            if self.slots.kept() > 0 && now.saturating_sub(self.progress) > IDLE {
                self.slots.let_go();
                self.settle();
            }
            return true;
        }
        let receives = |slot: &Slot| slot.phase == Phase::Receiving;
        let late = |slot: &Slot| receives(slot) && now.saturating_sub(slot.asked_at) > TRANSFER;
        let silent = now.saturating_sub(self.progress) > PATIENCE && self.slots.find(receives).is_some();
        !silent && self.slots.find(late).is_none()
    }

    /// Reason for taking the host of an admin queue for dead, if there is one. The keep-alive timer
    /// runs while the controller is at work: a host says nothing while it waits for that, or for
    /// the end of a shutdown.
    fn is_forsaken<A: Access>(&mut self, access: &A) -> Option<EndReason> {
        let at_work = self.with_controller(access, |controller| controller.is_at_work()).unwrap_or(false);
        let now = self.now;
        let queue = self.queue.as_mut()?;
        if !at_work {
            queue.last_keep_alive = now;
        }
        // Relaxed: a time that is looked at alone.
        let silence = now.saturating_sub(queue.heard.load(Ordering::Relaxed));
        if at_work && queue.kato_ns != 0 {
            // A host that keeps all others away must be heard of, however long a timeout it has
            // asked for.
            if silence > SILENCE && access.with(|s| s.is_holder(queue.cntlid)) {
                return Some(EndReason::Silence);
            }
            let dead = now.saturating_sub(queue.last_keep_alive) > queue.kato_ns;
            return dead.then_some(EndReason::KeepAlive);
        }
        (silence > SILENCE.max(queue.kato_ns)).then_some(EndReason::Silence)
    }
}
