//! Requests for blocks on a core: drives in memory at once, everything else through workers.

use super::access::{Granted, Right, Rights, allowed, asked};
use super::budget::{Account, Held};
use super::clearing::Clearing;
use super::direct::Direct;
use super::done::Ticket;
use super::fair::HostKey;
use super::faults::{read_fault, write_fault};
use super::handle::CoreHandle;
use super::lanes::Lanes;
use super::metrics::{Class, CoreCounts};
use super::outgoing::Loan;
use super::pool::{Pool, carried};
use super::results::{QueueId, Sender};
use super::shared::Shared;
use super::updates;
use super::visible::Visible;
use super::workers::{Job, OffloadJob, read};
use crate::watch::Writing;
use pumice_base::buffer::SharedBuffer;
use pumice_blockdev::BlockDevice;
use pumice_nvme::controller::{Lent, Media, Op, Request, Submitted, Upcoming};
use pumice_nvme::spec::command::{On, Sender as SentBy};
use pumice_nvme::spec::connect::Data;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::wire;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Bytes that commands under way and answers of one connection may take before no more commands are
/// taken from it.
pub(super) const CONNECTION_FLIGHT: u64 = 16 << 20;
/// Commands of a connection with the media, beyond which no more are taken.
pub(super) const IN_FLIGHT_LIMIT: usize = 256;
/// Bytes of the largest command.
const MOST: u64 = 1 << 20;
/// Unit of buffers, in bytes; each command takes one more for itself.
const PAGE: u64 = 4096;
/// Bytes for which a host must have room before a command of it is taken.
pub(super) const ROOM: u64 = MOST + PAGE;

/// The media of one connection, as its core sees them.
pub(super) struct Blocks<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) workers: &'a Pool,
    /// The threads of long commands.
    pub(super) lanes: &'a Lanes,
    /// The queue of commands that the kernel carries.
    pub(super) direct: Option<&'a mut Direct>,
    /// The threads of parity commands and transfers.
    pub(super) engine: &'a Pool,
    /// The threads of the short ones.
    pub(super) control: &'a Pool,
    /// The host of the connection.
    pub(super) host: HostKey,
    /// The row of its host in the table of who may do what.
    pub(super) granted: Granted,
    /// The account of its host, once it is known.
    pub(super) account: Option<&'a Account>,
    /// Bytes that commands of the connection under way take, and that wait to be sent on it.
    pub(super) flying: &'a mut u64,
    pub(super) unsent: u64,
    /// Raised when the connection is closed.
    pub(super) gone: &'a Arc<AtomicBool>,
    pub(super) core: &'a CoreHandle,
    pub(super) connection: usize,
    pub(super) core_number: usize,
    /// Commands of the connection that are with the workers, counted up here.
    pub(super) in_flight: &'a mut usize,
    /// Writes of those.
    pub(super) writes: &'a mut usize,
    /// Writes whose data are still to come, by slot.
    pub(super) expected: &'a mut HashMap<u16, Writing>,
    /// Data that drives have lent since they were last taken from here.
    pub(super) loans: Vec<Loan>,
    /// The counters of this core.
    pub(super) counts: &'a CoreCounts,
    /// Time at which the turn began, on the server's clock.
    pub(super) now: u64,
    /// Time that the commands had waited in the socket, if the drives' pacers want to know.
    pub(super) waited: Duration,
}

/// Returns whether there is room for one more command of a connection that has so many with the
/// media, and so many bytes under way and unsent, on the account of its host.
pub(super) fn has_room(in_flight: usize, held: u64, account: Option<&Account>) -> bool {
    in_flight < IN_FLIGHT_LIMIT
        && held < CONNECTION_FLIGHT
        && account.is_none_or(|account| account.flight.has_room(ROOM))
}

impl Blocks<'_> {
    /// Holds what a command takes, until it has ended: a buffer of what it reads or brings, in
    /// whole pages.
    fn hold(&mut self, bytes: u64) -> (u64, Option<Held>) {
        let bytes = bytes.next_multiple_of(PAGE) + PAGE;
        *self.flying += bytes;
        (bytes, self.account.map(|account| account.flight.hold(bytes)))
    }

    fn device(&self, nsid: u32) -> Option<&Arc<dyn BlockDevice>> {
        self.shared.devices().get(self.shared.drive_of(nsid)?)
    }

    /// Begins a command of the parity command set.
    fn offload(&mut self, request: &Request<'_>) -> Submitted {
        let Some(command) = wire::command(request.command.opcode()) else {
            return Submitted::Done(Status::INVALID_OPCODE.dnr());
        };
        let sender = Sender {
            queue: QueueId { core: self.core_number, connection: self.connection },
            cntlid: request.cntlid,
        };
        // Counted from here on, as plain writes are.
        let writing = self.changed(request.cntlid, request.command);
        if updates::is_short(request.command, request.data, self.shared.all_immediate()) {
            let (offload, subsystem) = (self.shared.offload(), self.shared.subsystem());
            let now = self.shared.now();
            let done = offload.execute(sender, request.command, request.data, subsystem, now, &|| true);
            drop(writing);
            return Submitted::Done(done.status);
        }
        *self.in_flight += 1;
        let (flown, held) = self.hold(request.len);
        *self.writes += usize::from(!writing.is_empty());
        let workers = if command.long { self.engine } else { self.control };
        let job = Job {
            ticket: Ticket { connection: self.connection, slot: request.slot },
            core: self.core.clone(),
            host: self.host,
            flown,
            held,
            verified: 0,
            at_once: 0,
            devices: Vec::new(),
            gone: Arc::clone(self.gone),
            op: request.op,
            visible: None,
            unchecked: false,
            offset: 0,
            len: request.len,
            fua: false,
            data: None,
            offload: Some(OffloadJob {
                shared: Arc::clone(self.shared),
                sender,
                command: *request.command,
                data: request.data.to_vec(),
                sends: updates::sends(request.command, request.data),
            }),
            step: None,
            clearing: Clearing::default(),
            losses: None,
            writing,
            foreground: None,
            began: self.now,
            bytes: 0,
        };
        if updates::is_short_read(request.command) {
            // Its answer is sent when this core looks at what is done.
            carried(job);
        } else {
            workers.submit(job);
        }
        Submitted::Later
    }

    /// Bytes of memory that a command for `len` bytes needs.
    fn memory(op: Op, len: u64) -> u64 {
        match op {
            Op::Read | Op::Write | Op::Compare | Op::Verify => len.min(MOST),
            Op::Flush | Op::WriteUncorrectable | Op::WriteZeroes | Op::Deallocate | Op::Vendor => 0,
        }
    }

    /// Begins the write that an update or a store is about to do.
    fn changed(&self, cntlid: u16, sqe: &Sqe) -> Vec<Writing> {
        let Some((drive, bytes)) = updates::changed(sqe) else { return Vec::new() };
        let Some(index) = (drive as usize).checked_sub(1) else { return Vec::new() };
        let Some(superblocks) = self.shared.watch().superblocks().get(index) else { return Vec::new() };
        superblocks.lost(cntlid, &bytes);
        vec![self.shared.watch().begin(index, bytes)]
    }

    /// Notes what a command does to the superblocks of its drive.
    fn remember(&self, request: &Request<'_>, ranges: &[(u64, u64)]) {
        let Some(index) = self.shared.drive_of(request.nsid) else { return };
        let Some(superblocks) = self.shared.watch().superblocks().get(index) else { return };
        match request.op {
            // A superblock in it has tuples between its blocks: it is not parsed.
            Op::Write if request.face.is_some() => {
                superblocks.lost(request.cntlid, &(request.offset..request.offset + request.len));
            }
            Op::Write => superblocks.written(request.cntlid, request.offset, request.data),
            Op::WriteZeroes | Op::WriteUncorrectable => {
                superblocks.lost(request.cntlid, &(request.offset..request.offset + request.len));
            }
            Op::Deallocate => {
                let lost =
                    |(start, len): &(u64, u64)| superblocks.lost(request.cntlid, &(*start..start + len));
                ranges.iter().for_each(lost);
            }
            Op::Read | Op::Flush | Op::Compare | Op::Verify | Op::Vendor => {}
        }
    }

    /// Does something at once that the drive's pacer should know of.
    fn foreground(&self, nsid: u32, op: Op, bytes: u64, work: impl FnOnce() -> Status) -> Status {
        let Some(index) = self.shared.drive_of(nsid) else { return work() };
        let request = self.shared.pacing().arrived(index, self.waited);
        let status = work();
        self.shared.pacing().completed(index, request, bytes);
        // Done within the turn: it has no time of its own.
        self.counts.ended(index, Class::of(op), bytes, status.is_success(), None);
        status
    }

    /// Writes to a memory drive.
    fn write_now(&self, device: &dyn BlockDevice, request: &Request<'_>) -> Status {
        let bytes = request.offset..request.offset + request.len;
        let index = self.shared.drive_of(request.nsid);
        let _writing = index.map(|index| self.shared.watch().begin(index, bytes));
        match device.write_at(request.offset, request.data) {
            Ok(()) => Status::SUCCESS,
            Err(error) => write_fault(&error),
        }
    }
}

impl Media for Blocks<'_> {
    fn admit(&self, host: &Data) -> Result<(), Status> {
        allowed(self.shared.access().of(&host.hostnqn), On::Unbound, Rights::of(&[Right::Connect]))
    }

    fn allow(&self, sender: SentBy, on: On, command: &Sqe) -> Result<(), Status> {
        allowed(&self.granted, on, asked(sender, on, command))
    }

    fn read_now(&mut self, nsid: u32, offset: u64, into: &mut [u8]) -> Status {
        let Some(device) = self.device(nsid) else { return Status::INTERNAL };
        let len = into.len() as u64;
        self.foreground(nsid, Op::Read, len, || {
            match read(&**device, self.granted.faces().is_unchecked(), offset, into) {
                Ok(()) => Status::SUCCESS,
                Err(error) => read_fault(&error),
            }
        })
    }

    fn lend(&mut self, nsid: u32, offset: u64, len: u64, at: usize) -> Lent {
        let index = self.shared.drive_of(nsid).filter(|_| self.shared.is_resident(nsid));
        let Some(index) = index else { return Lent::Nothing };
        let device = &self.shared.devices()[index];
        let status = self.foreground(nsid, Op::Read, len, || {
            if self.granted.faces().is_unchecked() {
                return if device.has_marks(offset, len) { Status::READ_ERROR } else { Status::SUCCESS };
            }
            device.check_resident(offset, len).map_or_else(|error| read_fault(&error), |()| Status::SUCCESS)
        });
        if !status.is_success() {
            return Lent::Failed(status);
        }
        self.loans.push(Loan { at, device: index, offset, len: len as usize });
        Lent::Data
    }

    fn prepare(&mut self, next: Upcoming) {
        let Some(index) = self.shared.drive_of(next.nsid).filter(|_| self.shared.is_immediate(next.nsid))
        else {
            return;
        };
        let block = self.shared.format(next.nsid).data_len(1);
        if let Some(offset) = next.lba.checked_mul(block) {
            self.shared.devices()[index].prepare(offset, u64::from(next.blocks) * block);
        }
    }

    fn is_immediate(&self, nsid: u32) -> bool {
        self.shared.is_immediate(nsid)
    }

    fn expect(&mut self, request: &Request<'_>) {
        if request.op == Op::Write
            && let Some(index) = self.shared.drive_of(request.nsid)
        {
            let bytes = request.offset..request.offset + request.len;
            let writing = self.shared.watch().begin(index, bytes);
            self.expected.insert(request.slot, writing);
        }
    }

    fn abandon(&mut self, slot: u16) {
        self.expected.remove(&slot);
    }

    fn has_room(&self) -> bool {
        has_room(*self.in_flight, *self.flying + self.unsent, self.account)
    }

    fn submit(&mut self, request: &Request<'_>) -> Submitted {
        // Held until it is carried out, or with the job.
        let expected = self.expected.remove(&request.slot);
        if request.op == Op::Vendor {
            return self.offload(request);
        }
        let devices = if request.nsid == u32::MAX {
            self.shared.devices().iter().filter(|d| !d.read_only()).cloned().collect()
        } else {
            match self.device(request.nsid) {
                Some(device) => vec![Arc::clone(device)],
                None => return Submitted::Done(Status::INTERNAL),
            }
        };
        let clearing = Clearing::of(request, &self.shared.format(request.nsid));
        self.remember(request, clearing.ranges());
        let visible = Visible::of(request);
        if let Some(status) = self.at_once(request, &devices, visible.is_some()) {
            return Submitted::Done(status);
        }
        let data = has_data(request.op).then(|| SharedBuffer::copy_of(request.data));
        // Counted from here on: a write that waits for a worker is under way.
        let index = self.shared.drive_of(request.nsid);
        let writing = self.begin_writes(index, request, &clearing);
        let foreground = index.map(|index| (index, self.shared.pacing().arrived(index, self.waited)));
        drop(expected);
        let takes = match (request.op, &visible) {
            (_, Some(visible)) => visible.memory(),
            (op, None) => Self::memory(op, request.len),
        };
        let (flown, held) = self.hold(takes);
        *self.in_flight += 1;
        *self.writes += usize::from(!writing.is_empty());
        let bytes = bytes_of(request, &clearing);
        let job = Job {
            ticket: Ticket { connection: self.connection, slot: request.slot },
            core: self.core.clone(),
            host: self.host,
            flown,
            held,
            verified: 0,
            at_once: 0,
            devices,
            gone: Arc::clone(self.gone),
            op: request.op,
            visible,
            unchecked: self.granted.faces().is_unchecked(),
            offset: request.offset,
            len: request.len,
            fua: request.fua,
            data,
            offload: None,
            step: None,
            clearing,
            losses: None,
            writing,
            foreground,
            began: self.now,
            bytes,
        };
        self.hand_over(index, job);
        Submitted::Later
    }
}

impl Blocks<'_> {
    /// Carries out a write or a flush of a drive in memory. `None` if it is another request, which
    /// may wait.
    fn at_once(
        &mut self,
        request: &Request<'_>,
        devices: &[Arc<dyn BlockDevice>],
        is_visible: bool,
    ) -> Option<Status> {
        let [device] = devices else { return None };
        if is_visible
            || !matches!(request.op, Op::Write | Op::Flush)
            || !self.shared.is_immediate(request.nsid)
        {
            return None;
        }
        let work = || match request.op {
            Op::Write => self.write_now(&**device, request),
            // Memory has nothing to flush.
            _ => Status::SUCCESS,
        };
        Some(self.foreground(request.nsid, request.op, request.len, work))
    }

    /// Counts the writes of a request as begun: one that waits for a worker is under way.
    fn begin_writes(&self, drive: Option<usize>, request: &Request<'_>, clearing: &Clearing) -> Vec<Writing> {
        let begin = |start: u64, len: u64| Some(self.shared.watch().begin(drive?, start..start + len));
        match request.op {
            Op::Write | Op::WriteUncorrectable => begin(request.offset, request.len).into_iter().collect(),
            Op::WriteZeroes | Op::Deallocate => {
                clearing.ranges().iter().filter_map(|(start, len)| begin(*start, *len)).collect()
            }
            Op::Read | Op::Flush | Op::Compare | Op::Verify | Op::Vendor => Vec::new(),
        }
    }

    /// Hands a job to the lane of its drive if it takes long, else to io_uring, else to a thread.
    fn hand_over(&mut self, drive: Option<usize>, job: Job) {
        if let Some(drive) = drive.filter(|_| job.is_long()) {
            return self.lanes.submit(self.core_number, drive, job);
        }
        let job = match &mut self.direct {
            Some(direct) => direct.submit(job),
            None => Some(job),
        };
        if let Some(job) = job {
            self.workers.submit(job);
        }
    }
}

// Each of these matches names all commands, so that a new one has its place in each.

/// Returns whether the data of a request go with its job. The ranges of a Deallocate are with its
/// [`Clearing`], and a vendor's data with its own job.
fn has_data(op: Op) -> bool {
    match op {
        Op::Write | Op::Compare => true,
        Op::Read
        | Op::Flush
        | Op::WriteUncorrectable
        | Op::WriteZeroes
        | Op::Deallocate
        | Op::Verify
        | Op::Vendor => false,
    }
}

/// The bytes of a request, for the metrics.
fn bytes_of(request: &Request<'_>, clearing: &Clearing) -> u64 {
    match request.op {
        Op::WriteZeroes | Op::Deallocate => clearing.ranges().iter().map(|(_, len)| len).sum(),
        Op::Read | Op::Write | Op::Flush | Op::WriteUncorrectable | Op::Compare | Op::Verify => request.len,
        Op::Vendor => 0,
    }
}
