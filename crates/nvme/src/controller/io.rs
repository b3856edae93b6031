//! I/O commands: checked here, carried out by the medium.

use super::connection::Connection;
use super::media::{Media, Op, Request};
use super::slots::Phase;
use super::subsystem::Access;
use crate::pdu::{Fatal, Frame, Violation};
use crate::spec::identify::{MDTS, Namespace};
use crate::spec::opcode::io;
use crate::spec::{Sgl, Sqe, Status};
use std::sync::atomic::Ordering;

/// Bytes of a transfer, at most.
pub(super) const MAX_TRANSFER: u64 = 4096 << MDTS;
/// Bytes of the largest list of ranges: 256 of 16 bytes.
const MAX_RANGES: u64 = 4096;

/// Opcodes of the vendor's own, from here on.
const VENDOR: u8 = 0x80;
/// Opcode bits: data go to the controller.
const TO_CONTROLLER: u8 = 0b01;
/// Opcode bits: data go to the host.
const TO_HOST: u8 = 0b10;

fn op_of(sqe: &Sqe) -> Option<Op> {
    Some(match sqe.opcode() {
        io::FLUSH => Op::Flush,
        io::WRITE => Op::Write,
        io::READ => Op::Read,
        io::WRITE_UNCORRECTABLE => Op::WriteUncorrectable,
        io::COMPARE => Op::Compare,
        io::WRITE_ZEROES => Op::WriteZeroes,
        io::DATASET_MANAGEMENT => Op::Deallocate,
        io::VERIFY => Op::Verify,
        VENDOR.. => Op::Vendor,
        _ => return None,
    })
}

/// Whether dwords 10 and 11 of an I/O command are a block.
pub(super) fn names_blocks(sqe: &Sqe) -> bool {
    let ops = [Op::Write, Op::Read, Op::WriteUncorrectable, Op::Compare, Op::WriteZeroes, Op::Verify];
    op_of(sqe).is_some_and(|op| ops.contains(&op))
}

impl Connection {
    /// An I/O command.
    pub(super) fn io<A: Access, M: Media>(
        &mut self,
        sqe: &Sqe,
        frame: &Frame<'_>,
        access: &A,
        media: &mut M,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        if let Some(queue) = &self.queue
            && sqe.opcode() == io::READ
        {
            queue.counters.reads.fetch_add(1, Ordering::Relaxed);
        }
        let request = match self.request(0, sqe, frame.data) {
            Ok(request) => request,
            Err(status) => {
                self.note(sqe, status, access);
                self.respond(sqe, status, 0, out);
                return Ok(());
            }
        };
        if request.op == Op::Read {
            if let Some(queue) = &mut self.queue {
                queue.done.bytes_read += request.len;
                queue.counters.bytes_read.fetch_add(request.len, Ordering::Relaxed);
            }
            if media.is_immediate(request.nsid) {
                let status = self.read_at_once(sqe, &request, media, out);
                self.note(sqe, status, access);
                return Ok(());
            }
        }
        // A command of the vendor's may have none: an R2T for nothing would be a violation.
        let takes = takes_data(&request) && sqe.sgl().len != 0;
        if takes && sqe.sgl().kind == Sgl::IN_CAPSULE && frame.data.is_empty() {
            // Data that are there were held to the SGL before; that there are none is seen here.
            let what = "no data in a capsule whose SGL says that there are";
            return Err(Violation::new(Fatal::InvalidHeaderField, 4, frame.header, what));
        }
        if takes && sqe.sgl().kind == Sgl::TRANSPORT {
            let slot = self.ask(*sqe, sqe.sgl().len, frame, out)?;
            media.expect(&Request { slot, ..request });
            return Ok(());
        }
        let slot = self.slot(*sqe, Phase::Submitted, frame)?;
        let request = Request { slot, ..request };
        self.count_write(&request);
        if let Some(status) = media.submit(&request) {
            self.complete(slot, status, 0, access, out);
        }
        Ok(())
    }

    /// Answers a read from a medium that need not be waited for.
    fn read_at_once<M: Media>(
        &mut self,
        sqe: &Sqe,
        request: &Request<'_>,
        media: &mut M,
        out: &mut Vec<u8>,
    ) -> Status {
        let (nsid, offset, len) = (request.nsid, request.offset, request.len);
        if let Some(status) = self.respond_lent(sqe, len as u32, out, |at| media.lend(nsid, offset, len, at))
        {
            return status;
        }
        self.respond_with(sqe, len as u32, out, |into| match media.read_now(nsid, offset, into) {
            Some(status) if status.is_success() => Ok(()),
            Some(status) => Err(status),
            None => Err(Status::INTERNAL),
        })
    }

    /// The request of a command, whose data have come or will.
    pub(super) fn request<'a>(&self, slot: u16, sqe: &'a Sqe, data: &'a [u8]) -> Result<Request<'a>, Status> {
        let op = op_of(sqe).ok_or(Status::INVALID_OPCODE.dnr())?;
        // No fused operations; data are described by SGLs.
        if !sqe.is_plain() {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let nsid = sqe.nsid();
        let cntlid = self.queue.as_ref().map_or(0, |queue| queue.cntlid);
        let mut request =
            Request { slot, nsid, cntlid, op, offset: 0, len: 0, fua: false, data, command: sqe };
        let queue = self.queue.as_ref();
        if op != Op::Vendor && queue.is_some_and(|queue| queue.helper) {
            return Err(Status::ACCESS_DENIED.dnr());
        }
        if op == Op::Flush && nsid == u32::MAX {
            return Ok(request);
        }
        if op == Op::Vendor {
            // What it means, and for which namespace, is the medium's affair.
            request.len = u64::from(sqe.sgl().len);
            match sqe.opcode() & 0b11 {
                TO_CONTROLLER => check_data(sqe, request.len, MAX_TRANSFER)?,
                TO_HOST if sqe.sgl().kind == Sgl::TRANSPORT => check_data(sqe, request.len, MAX_TRANSFER)?,
                TO_HOST => return Err(Status::SGL_TYPE.dnr()),
                0 => {}
                _ => return Err(Status::INVALID_OPCODE.dnr()),
            }
            return Ok(request);
        }
        let namespace = nsid
            .checked_sub(1)
            .and_then(|index| self.namespaces.get(index as usize))
            .ok_or(Status::INVALID_NAMESPACE.dnr())?;
        let writes = matches!(op, Op::Write | Op::WriteUncorrectable | Op::WriteZeroes | Op::Deallocate);
        // Relaxed: it is raised by a command of this host, and never lowered.
        let observes = queue.is_some_and(|queue| queue.observer.load(Ordering::Relaxed));
        if writes && (namespace.read_only || observes) {
            return Err(Status::WRITE_PROTECTED.dnr());
        }
        match op {
            Op::Flush => return Ok(request),
            Op::Deallocate => {
                request.len = (u64::from(sqe.dword(10) & 0xFF) + 1) * 16;
                // The list may be longer than its ranges: Linux sends a page whatever their number.
                check_data(sqe, u64::from(sqe.sgl().len), MAX_RANGES)?;
                if u64::from(sqe.sgl().len) < request.len {
                    return Err(Status::SGL_LENGTH.dnr());
                }
                // Checked when it is here.
                if !data.is_empty() {
                    request.data = data.get(..request.len as usize).ok_or(Status::DATA_TRANSFER_ERROR)?;
                    check_ranges(namespace, request.data)?;
                }
                return Ok(request);
            }
            _ => {}
        }
        let blocks = u64::from(sqe.blocks());
        let end = sqe.slba().checked_add(blocks).ok_or(Status::LBA_RANGE.dnr())?;
        if end > namespace.blocks {
            return Err(Status::LBA_RANGE.dnr());
        }
        request.offset = sqe.slba() << namespace.block_shift;
        request.len = blocks << namespace.block_shift;
        request.fua = sqe.control() & Sqe::FUA != 0;
        if takes_data(&request) || op == Op::Read {
            check_data(sqe, request.len, MAX_TRANSFER)?;
            if op == Op::Read && sqe.sgl().kind != Sgl::TRANSPORT {
                return Err(Status::SGL_TYPE.dnr());
            }
        }
        Ok(request)
    }
}

fn takes_data(request: &Request<'_>) -> bool {
    match request.op {
        Op::Vendor => request.command.opcode() & 0b11 == TO_CONTROLLER,
        op => matches!(op, Op::Write | Op::Compare | Op::Deallocate),
    }
}

fn check_data(sqe: &Sqe, len: u64, max: u64) -> Result<(), Status> {
    let sgl = sqe.sgl();
    if !matches!(sgl.kind, Sgl::IN_CAPSULE | Sgl::TRANSPORT) {
        return Err(Status::SGL_TYPE.dnr());
    }
    if len > max {
        return Err(Status::INVALID_FIELD.dnr());
    }
    if u64::from(sgl.len) != len {
        return Err(Status::SGL_LENGTH.dnr());
    }
    Ok(())
}

fn check_ranges(namespace: &Namespace, list: &[u8]) -> Result<(), Status> {
    for range in list.chunks_exact(16) {
        let blocks = u64::from(crate::bytes::u32_at(range, 4));
        let end = crate::bytes::u64_at(range, 8).checked_add(blocks).ok_or(Status::LBA_RANGE.dnr())?;
        if end > namespace.blocks {
            return Err(Status::LBA_RANGE.dnr());
        }
    }
    Ok(())
}
