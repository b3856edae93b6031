//! I/O commands: checked here, carried out by the medium.

use super::attached::Nsid;
use super::connection::Connection;
use super::media::{Lent, Media, Op, Request, Submitted};
use super::slots::{Counts, Phase};
use super::subsystem::Access;
use crate::pdu::{Fatal, Frame, Violation};
use crate::spec::command::{Check, Command, Direction, Effect, RANGE_BYTES, VENDOR, io_command};
use crate::spec::identify::{MDTS, Namespace};
use crate::spec::opcode::io;
use crate::spec::{Sgl, Sqe, Status};
use pumice_protect::command::CommandFields;
use pumice_protect::face::{FaceCommand, Operation};
use pumice_protect::format::Format;
use std::sync::atomic::Ordering;

/// Most bytes of a transfer.
pub(super) const MAX_TRANSFER: u64 = 4096 << MDTS;
/// Bytes of the largest list of ranges: 256 of 16 bytes.
const MAX_RANGES: u64 = 4096;

impl Connection {
    /// Returns whether the host has said that it changes nothing.
    pub(super) fn observes(&self) -> bool {
        // Relaxed: it is raised by a command of this host, and never lowered.
        self.queue.as_ref().is_some_and(|queue| queue.observer.load(Ordering::Relaxed))
    }

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
        if request.op == Op::Read && request.face.is_none() && media.is_immediate(request.nsid) {
            let status = self.read_at_once(sqe, &request, media, out);
            self.count(Some(Counts::Read(request.len)), status);
            self.note(sqe, status, access);
            return Ok(());
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
        self.submitted(&request);
        if let Submitted::Done(status) = media.submit(&request) {
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
        let lend = |at| media.lend(nsid, offset, len, at);
        match self.respond_lent(sqe, len as u32, out, lend) {
            Lent::Data => return Status::SUCCESS,
            Lent::Failed(status) => return status,
            Lent::Nothing => {}
        }
        self.respond_with(sqe, len as u32, out, |into| match media.read_now(nsid, offset, into) {
            status if status.is_success() => Ok(()),
            status => Err(status),
        })
    }

    /// The request of a command, whose data have come or will.
    pub(super) fn request<'a>(&self, slot: u16, sqe: &'a Sqe, data: &'a [u8]) -> Result<Request<'a>, Status> {
        let command = io_command(sqe.opcode());
        let op = match command {
            Some(command) => command.kind,
            None if sqe.opcode() >= VENDOR => Op::Vendor,
            None => return Err(Status::INVALID_OPCODE.dnr()),
        };
        // No fused operations; data are described by SGLs.
        if !sqe.is_plain() {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let cntlid = self.queue.as_ref().map_or(0, |queue| queue.cntlid);
        let (nsid, face) = (sqe.nsid(), None);
        let request =
            Request { slot, nsid, cntlid, op, offset: 0, len: 0, face, fua: false, data, command: sqe };
        match command {
            Some(command) => self.checked(command, request),
            None => vendor_checked(request),
        }
    }

    /// A command of the table, held to its row.
    fn checked<'a>(
        &self,
        command: &Command<Op, Check>,
        mut request: Request<'a>,
    ) -> Result<Request<'a>, Status> {
        let sqe = request.command;
        if !command.is_for(self.sender()) {
            return Err(Status::ACCESS_DENIED.dnr());
        }
        if command.check == Check::Namespace && request.nsid == u32::MAX {
            return Ok(request);
        }
        let namespace = self.namespace(request.nsid)?;
        if command.effect == Effect::ChangesData && (namespace.read_only || self.observes()) {
            return Err(Status::WRITE_PROTECTED.dnr());
        }
        match command.check {
            Check::Namespace => {}
            Check::Blocks => check_blocks(namespace, command, &mut request)?,
            Check::Ranges => {
                request.len = (u64::from(sqe.dword(10) & 0xFF) + 1) * RANGE_BYTES;
                // The list may be longer than its ranges: Linux sends a page whatever their number.
                check_data(sqe, u64::from(sqe.sgl().len), MAX_RANGES)?;
                if u64::from(sqe.sgl().len) < request.len {
                    return Err(Status::SGL_LENGTH.dnr());
                }
                // Checked when it is here.
                if !request.data.is_empty() {
                    let list = request.data.get(..request.len as usize);
                    request.data = list.ok_or(Status::DATA_TRANSFER_ERROR)?;
                    check_ranges(namespace, request.data)?;
                }
            }
        }
        Ok(request)
    }

    /// The namespace with this NSID, if it is attached to the host.
    fn namespace(&self, nsid: u32) -> Result<&Namespace, Status> {
        let found = self.queue.as_ref().map_or(Nsid::Invalid, |queue| queue.attached.find(nsid));
        match found {
            Nsid::Active(index) => self.namespaces.get(index).ok_or(Status::INVALID_NAMESPACE.dnr()),
            Nsid::Inactive => Err(Status::INVALID_FIELD.dnr()),
            Nsid::Invalid => Err(Status::INVALID_NAMESPACE.dnr()),
        }
    }
}

/// A vendor command. Its meaning, and its namespace, are for the medium to judge.
fn vendor_checked(mut request: Request<'_>) -> Result<Request<'_>, Status> {
    let sqe = request.command;
    request.len = u64::from(sqe.sgl().len);
    match Direction::of(sqe.opcode()) {
        Direction::ToController => check_data(sqe, request.len, MAX_TRANSFER)?,
        Direction::ToHost if sqe.sgl().kind == Sgl::TRANSPORT => check_data(sqe, request.len, MAX_TRANSFER)?,
        Direction::ToHost => return Err(Status::SGL_TYPE.dnr()),
        // Without data the SGL means nothing, and may say anything.
        Direction::None => request.len = 0,
        Direction::Both => return Err(Status::INVALID_OPCODE.dnr()),
    }
    Ok(request)
}

/// The blocks that a command names, and their data if it has some.
fn check_blocks(
    namespace: &Namespace,
    command: &Command<Op, Check>,
    request: &mut Request<'_>,
) -> Result<(), Status> {
    let (sqe, direction) = (request.command, command.direction());
    let blocks = u64::from(sqe.blocks());
    let end = sqe.slba().checked_add(blocks).ok_or(Status::LBA_RANGE.dnr())?;
    if end > namespace.blocks {
        return Err(Status::LBA_RANGE.dnr());
    }
    request.offset = namespace.format.data_len(sqe.slba());
    request.len = namespace.format.data_len(blocks);
    request.fua = sqe.control() & Sqe::FUA != 0;
    request.face = match namespace.format.protection() {
        Some(format) => face_command(format, command.kind, sqe)?,
        None => None,
    };
    if direction != Direction::None {
        let bytes = request.face.map_or(request.len, |face| face.transfer_bytes());
        check_data(sqe, bytes, MAX_TRANSFER)?;
    }
    if direction == Direction::ToHost && sqe.sgl().kind != Sgl::TRANSPORT {
        return Err(Status::SGL_TYPE.dnr());
    }
    Ok(())
}

/// The protection information fields of a command; `None` if commands of its kind have none.
fn face_command(format: &Format, op: Op, sqe: &Sqe) -> Result<Option<FaceCommand>, Status> {
    let operation = match op {
        Op::Write => Operation::Write,
        Op::Read => Operation::Read,
        Op::Compare => Operation::Compare,
        Op::Verify => Operation::Verify,
        Op::WriteZeroes => Operation::WriteZeroes,
        Op::Flush | Op::WriteUncorrectable | Op::Deallocate | Op::Vendor => return Ok(None),
    };
    let fields = CommandFields {
        slba: sqe.slba(),
        dword2: sqe.dword(2),
        dword3: sqe.dword(3),
        control: sqe.control(),
        dword14: sqe.dword(14),
        dword15: sqe.dword(15),
    };
    FaceCommand::parse(format, operation, &fields, sqe.blocks().into())
        .map(Some)
        .map_err(|_| Status::INVALID_PROTECTION.dnr())
}

fn takes_data(request: &Request<'_>) -> bool {
    Direction::of(request.command.opcode()) == Direction::ToController
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
