//! The data of commands that write: what is asked for, what came, and when a command is whole.

use super::*;
use crate::controller::media::Op;
use crate::spec::command::RANGE_BYTES;

impl Connection {
    /// Asks for the data of a command, or lets it wait until there is room.
    pub(in crate::controller) fn ask(
        &mut self,
        sqe: Sqe,
        len: u32,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u16, Violation> {
        let slot = self.slot(sqe, Phase::WaitsForRoom, frame)?;
        self.slots.get(slot).expect("just taken").expected = len;
        self.waiting.push_back(slot);
        self.ask_next(out);
        Ok(slot)
    }

    /// A slot for a command.
    pub(in crate::controller) fn slot(
        &mut self,
        sqe: Sqe,
        phase: Phase,
        frame: &Frame<'_>,
    ) -> Result<u16, Violation> {
        let what = "more commands than the queue has entries";
        let full = || Violation::new(Fatal::Sequence, 0, frame.header, what);
        self.slots.take(sqe, phase).ok_or_else(full)
    }

    pub(super) fn ask_next(&mut self, out: &mut Vec<u8>) {
        while let Some(slot) = self.waiting.front().copied() {
            let Some(expected) = self.slots.get(slot).map(|entry| entry.expected) else {
                self.waiting.pop_front();
                continue;
            };
            // One at least is always under way, however small the window is.
            if self.asked != 0 && self.asked + expected > self.limits.write_window {
                return;
            }
            // Kept memory is held already; what is new needs room.
            let data = match self.slots.kept_for(expected) {
                Some(kept) => kept,
                None if self.take_room(expected) => Vec::with_capacity(expected as usize),
                None => return,
            };
            let now = self.now;
            if self.asked == 0 {
                self.progress = now;
            }
            let Some(entry) = self.slots.get(slot) else { return };
            entry.phase = Phase::Receiving;
            entry.asked_at = now;
            let transfer =
                Transfer { cccid: entry.sqe.cid(), ttag: slot + 1, offset: 0, len: entry.expected };
            entry.window = data.capacity() as u32;
            entry.data = data;
            self.asked += entry.window;
            R2t::push(out, transfer, self.framing.digests);
            self.waiting.pop_front();
        }
    }

    pub(super) fn data<A: Access, M: Media>(
        &mut self,
        frame: &Frame<'_>,
        access: &A,
        media: &mut M,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        let wrong = |fes, fei, what| Err(Violation::new(fes, fei, frame.header, what));
        let transfer = Transfer::decode(frame.header);
        if transfer.ttag == 0 || transfer.ttag > self.slots.depth() {
            return wrong(Fatal::Sequence, 0, "H2CData: a ttag that was never given");
        }
        let slot = transfer.ttag - 1;
        let Some(entry) = self.slots.get(slot).filter(|entry| entry.phase == Phase::Receiving) else {
            return wrong(Fatal::InvalidHeaderField, 10, "H2CData: ttag of no transfer under way");
        };
        if transfer.cccid != entry.sqe.cid() {
            return wrong(Fatal::Sequence, 0, "H2CData: cccid of another command");
        }
        let so_far = entry.data.len() as u32;
        if transfer.len as usize != frame.data.len() {
            return wrong(Fatal::InvalidHeaderField, 16, "H2CData: datal is not the data of the PDU");
        }
        if transfer.offset != so_far || transfer.len > entry.expected - so_far {
            return wrong(Fatal::DataOutOfRange, 0, "H2CData: data that were not asked for");
        }
        let done = so_far + transfer.len == entry.expected;
        if done != (frame.common.flags & LAST != 0) {
            return wrong(
                Fatal::InvalidHeaderField,
                1,
                "H2CData: LAST belongs on the last PDU of a transfer",
            );
        }
        entry.data.extend_from_slice(frame.data);
        self.progress = self.now;
        if !frame.data_good {
            entry.fault = Some(Status::TRANSIENT_TRANSPORT);
        }
        if done {
            self.submit(slot, access, media, out);
        }
        Ok(())
    }

    /// All data of a command are here: hands it to the medium.
    pub(super) fn submit<A: Access, M: Media>(
        &mut self,
        slot: u16,
        access: &A,
        media: &mut M,
        out: &mut Vec<u8>,
    ) {
        let Some(entry) = self.slots.get(slot) else { return };
        entry.phase = Phase::Submitted;
        if let Some(fault) = entry.fault {
            media.abandon(slot);
            self.complete(slot, fault, 0, access, out);
            return;
        }
        let sqe = entry.sqe;
        let data = std::mem::take(&mut entry.data);
        if !self.is_io_queue() {
            self.release(slot, out);
            self.admin_with(&sqe, &data, access, out);
            return;
        }
        let submitted = match self.request(slot, &sqe, &data) {
            Ok(request) => {
                self.submitted(&request);
                media.submit(&request)
            }
            Err(status) => {
                media.abandon(slot);
                Submitted::Done(status)
            }
        };
        if let Submitted::Done(status) = submitted {
            // The memory is kept for the next command. (A medium that is not done has its own copy,
            // which is enough.)
            if let Some(entry) = self.slots.get(slot) {
                entry.data = data;
            }
            self.complete(slot, status, 0, access, out);
        }
    }

    /// A request goes to the medium: what counts when it has ended.
    pub(in crate::controller) fn submitted(&mut self, request: &Request<'_>) {
        if request.op == Op::Deallocate {
            // At most 256.
            self.work += (request.len / RANGE_BYTES) as u32;
        }
        if let Some(entry) = self.slots.get(request.slot) {
            entry.counts = match request.op {
                Op::Read => Some(Counts::Read(request.len)),
                Op::Write => Some(Counts::Written(request.len)),
                _ => None,
            };
        }
    }

    /// A read or a write has ended: bytes count if they were moved.
    pub(in crate::controller) fn count(&mut self, counts: Option<Counts>, status: Status) {
        let (Some(queue), Some(counts)) = (self.queue.as_mut(), counts) else { return };
        let moved = status.is_success();
        match counts {
            Counts::Read(bytes) if moved => {
                queue.done.bytes_read += bytes;
                queue.counters.bytes_read.fetch_add(bytes, Ordering::Relaxed);
            }
            Counts::Read(_) => {}
            Counts::Written(bytes) => {
                queue.counters.writes.fetch_add(1, Ordering::Relaxed);
                if moved {
                    queue.done.bytes_written += bytes;
                    queue.counters.bytes_written.fetch_add(bytes, Ordering::Relaxed);
                }
            }
        }
    }

    /// Gives back what is held of the windows and neither asked for nor kept.
    pub(super) fn settle(&mut self) {
        let needed = self.asked + self.slots.kept() as u32;
        if let Some(windows) = self.windows.as_ref().filter(|_| self.taken > needed) {
            windows.give_back(self.taken - needed);
            self.taken = needed;
        }
    }

    /// Takes room for so many bytes more to be asked for; what is kept for nothing is let go first.
    pub(super) fn take_room(&mut self, bytes: u32) -> bool {
        let Some(windows) = self.windows.clone() else { return true };
        for _ in 0..2 {
            let needed = self.asked + bytes + self.slots.kept() as u32;
            if needed <= self.taken {
                return true;
            }
            if windows.take(needed - self.taken) {
                self.taken = needed;
                return true;
            }
            self.slots.let_go();
            self.settle();
        }
        false
    }
}
