//! Answers to commands: capsules, the data before them, and what is noted of them.

use super::*;

impl Connection {
    /// Appends a completion without data.
    pub(in crate::controller) fn respond(&self, sqe: &Sqe, status: Status, result: u64, out: &mut Vec<u8>) {
        let sqhd = self.queue.as_ref().map_or(0, |q| if q.flow_control { q.sqhd } else { u16::MAX });
        let cqe = Cqe { result, sqhd, cid: sqe.cid(), status };
        push(out, Kind::CapsuleResp, 0, &cqe.encode(), self.framing.digests);
    }

    /// Appends data that `fill` writes in place, and the completion. Where `fill` fails, the
    /// completion alone, with that status.
    pub(in crate::controller) fn respond_with(
        &self,
        sqe: &Sqe,
        len: u32,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Status>,
    ) -> Status {
        let alone = self.data_alone();
        match C2hData::push(out, sqe.cid(), len, alone, self.framing.digests, fill) {
            Ok(()) => {
                if !alone {
                    self.respond(sqe, Status::SUCCESS, 0, out);
                }
                Status::SUCCESS
            }
            Err(status) => {
                self.respond(sqe, status, 0, out);
                status
            }
        }
    }

    /// Appends all of an answer with data but the data, which the medium lends for the place that
    /// `lend` is told. Appends nothing if the medium does not lend, or if data have a digest: data
    /// that are overwritten before they are sent would not fit it.
    pub(in crate::controller) fn respond_lent(
        &mut self,
        sqe: &Sqe,
        len: u32,
        out: &mut Vec<u8>,
        lend: impl FnOnce(usize) -> Lent,
    ) -> Lent {
        if self.framing.digests.data {
            return Lent::Nothing;
        }
        let begin = out.len();
        C2hData::push_header(out, sqe.cid(), len, self.data_alone(), self.framing.digests);
        let lent = lend(out.len());
        match lent {
            Lent::Data => {
                self.lent += len as usize;
                if !self.data_alone() {
                    self.respond(sqe, Status::SUCCESS, 0, out);
                }
            }
            Lent::Failed(status) => {
                out.truncate(begin);
                self.respond(sqe, status, 0, out);
            }
            Lent::Nothing => out.truncate(begin),
        }
        lent
    }

    /// Returns whether a success with data needs no completion of its own: without flow control
    /// there is no sqhd to report.
    pub(super) fn data_alone(&self) -> bool {
        self.queue.as_ref().is_some_and(|q| !q.flow_control)
    }

    /// The command of a slot failed because of block `lba` of the namespace: completes it, and
    /// notes the block in the error log.
    pub fn complete_failed<A: Access>(
        &mut self,
        slot: u16,
        status: Status,
        lba: u64,
        access: &A,
        out: &mut Vec<u8>,
    ) {
        let Some(entry) = self.slots.get(slot) else { return };
        let (sqe, status, counts) = (entry.sqe, entry.fault.unwrap_or(status), entry.counts);
        self.count(counts, status);
        self.note_block(&sqe, status, lba, access);
        if self.may_answer() {
            self.respond(&sqe, status, 0, out);
        }
        self.release(slot, out);
    }

    /// The command of a slot is done: completes it without data.
    pub fn complete<A: Access>(
        &mut self,
        slot: u16,
        status: Status,
        result: u64,
        access: &A,
        out: &mut Vec<u8>,
    ) {
        if slot == crate::controller::media::SHUTDOWN_SLOT {
            self.shutdown_done(status, access);
            return;
        }
        let Some(entry) = self.slots.get(slot) else { return };
        let (sqe, status, counts) = (entry.sqe, entry.fault.unwrap_or(status), entry.counts);
        self.count(counts, status);
        self.note(&sqe, status, access);
        if self.may_answer() {
            self.respond(&sqe, status, result, out);
        }
        self.release(slot, out);
    }

    /// Returns whether commands are still answered. After a term request, or the end of the queue,
    /// nothing follows; the medium is still waited for.
    fn may_answer(&self) -> bool {
        self.state == State::Live
    }

    /// Frees a slot; others may ask for their data now.
    pub(super) fn release(&mut self, slot: u16, out: &mut Vec<u8>) {
        if let Some(entry) = self.slots.get(slot) {
            self.asked -= entry.window;
        }
        self.slots.free(slot);
        self.settle();
        if self.may_answer() {
            self.ask_next(out);
        }
    }

    /// A read is done: completes it with its data.
    pub fn complete_with<A: Access>(
        &mut self,
        slot: u16,
        data: Result<&[u8], Status>,
        access: &A,
        out: &mut Vec<u8>,
    ) {
        match data {
            Err(status) => self.complete(slot, status, 0, access, out),
            Ok(data) => {
                let Some(entry) = self.slots.get(slot) else { return };
                let (sqe, counts) = (entry.sqe, entry.counts);
                if !self.may_answer() {
                    self.release(slot, out);
                    return;
                }
                if data.is_empty() || data.len() > sqe.sgl().len as usize {
                    let status = if data.is_empty() { Status::SUCCESS } else { Status::SGL_LENGTH.dnr() };
                    self.complete(slot, status, 0, access, out);
                    return;
                }
                self.count(counts, Status::SUCCESS);
                self.respond_with(&sqe, data.len() as u32, out, |to| {
                    to.copy_from_slice(data);
                    Ok(())
                });
                self.release(slot, out);
            }
        }
    }

    /// A read is done whose `len` bytes of data the caller sends itself, from where they lie:
    /// appends all of the answer but the data, and returns in front of which byte of `out` they
    /// belong. `None`, with nothing done, if the answer cannot be made that way:
    /// [`complete_with`](Self::complete_with) makes it then.
    pub fn complete_around(&mut self, slot: u16, len: u32, out: &mut Vec<u8>) -> Option<usize> {
        let entry = self.slots.get(slot)?;
        let (sqe, counts) = (entry.sqe, entry.counts);
        if !self.may_answer() || self.framing.digests.data || len == 0 || len > sqe.sgl().len {
            return None;
        }
        self.count(counts, Status::SUCCESS);
        C2hData::push_header(out, sqe.cid(), len, self.data_alone(), self.framing.digests);
        let at = out.len();
        if !self.data_alone() {
            self.respond(&sqe, Status::SUCCESS, 0, out);
        }
        self.release(slot, out);
        Some(at)
    }

    /// Writes down a command that failed.
    pub(in crate::controller) fn note<A: Access>(&self, sqe: &Sqe, status: Status, access: &A) {
        if status.is_success() {
            return;
        }
        let names_blocks = self.is_io_queue() && crate::spec::command::names_blocks(sqe.opcode());
        self.note_block(sqe, status, if names_blocks { sqe.slba() } else { 0 }, access);
    }

    /// The same, with the block that caused the failure.
    fn note_block<A: Access>(&self, sqe: &Sqe, status: Status, lba: u64, access: &A) {
        let Some(queue) = self.queue.as_ref().filter(|_| !status.is_success()) else { return };
        if matches!(Status(status.code()), Status::WRITE_FAULT | Status::READ_ERROR) {
            queue.counters.media_errors.fetch_add(1, Ordering::Relaxed);
        }
        let entry = ErrorEntry {
            count: 0,
            sqid: queue.qid,
            cid: sqe.cid(),
            status_word: status.word(),
            lba,
            nsid: sqe.nsid(),
        };
        access.with(|subsystem| {
            if let Some(controller) = subsystem.controllers.get_mut(&queue.cntlid) {
                controller.log_error(entry);
            }
        });
    }
}
