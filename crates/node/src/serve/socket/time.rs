//! Effects of time on a socket: deadlines, hosts that do not read, unused buffers.

use super::{FIRST_BUFFER, Look, Socket, Turn};
use crate::serve::shared::Shared;
use pumice_blockdev::BlockDevice;
use pumice_nvme::controller::EndReason;
use pumice_remote::transport::ByteStream;
use std::sync::Arc;

/// A host must take so many bytes of what waits for it in so many nanoseconds, or all of it.
pub(super) const UNREAD_LEAST: u64 = 64 << 10;
const UNREAD_PATIENCE: u64 = 30_000_000_000;

impl Socket {
    /// Returns whether all was taken that has come: if not, the host is not late with what follows.
    fn is_heard(&self) -> bool {
        !self.readable && !self.left && self.waits().is_none() && self.has_room(self.in_flight)
    }

    /// Lets time pass.
    pub(in crate::serve) fn tick(&mut self, shared: &Shared, now: u64) -> Turn {
        if !self.is_heard() {
            self.connection.put_off(now);
        }
        self.connection.tick(now, shared.subsystem(), self.out.bytes());
        if let Look::Waits { round, until } = self.look
            && now >= until
            && !shared.rounds().is_made(round)
        {
            shared.log().stands_still(self.peer);
            self.connection.end(EndReason::Deadline);
            self.ended = true;
        }
        if self.gives_up(shared.devices(), now) {
            self.connection.end(EndReason::Deadline);
            self.ended = true;
        }
        if self.sent == std::mem::replace(&mut self.sent_at_tick, self.sent) {
            self.out.shrink();
        }
        // A buffer that grew and is not needed now is let go; it grows again when it is.
        if !std::mem::take(&mut self.busy) && self.filled == 0 && self.receive.len() > FIRST_BUFFER {
            self.receive = vec![0; FIRST_BUFFER];
        }
        self.account_for(shared);
        if self.ended || self.connection.is_closed() { Turn::Over } else { Turn::Waits }
    }

    /// Sends what the socket takes, and tells whether its host has taken next to nothing for too
    /// long. A socket says that it has room when much of its memory is free: before its host is
    /// judged, it is asked whether it has any.
    pub(super) fn gives_up(&mut self, devices: &[Arc<dyn BlockDevice>], now: u64) -> bool {
        if self.stuck.is_some_and(|(since, _)| now.saturating_sub(since) >= UNREAD_PATIENCE) {
            self.writable = true;
        }
        self.send(devices);
        self.is_stuck(now)
    }

    /// Returns whether its host has taken next to nothing of what waits for it, for too long.
    pub(super) fn is_stuck(&mut self, now: u64) -> bool {
        if self.is_sent() {
            self.stuck = None;
            return false;
        }
        // A stream may have taken what the host has not.
        let taken = self.sent.saturating_sub(self.stream.unsent() as u64);
        let (since, before) = *self.stuck.get_or_insert((now, taken));
        if now.saturating_sub(since) < UNREAD_PATIENCE {
            return false;
        }
        self.stuck = Some((now, taken));
        taken.saturating_sub(before) < UNREAD_LEAST
    }
}
