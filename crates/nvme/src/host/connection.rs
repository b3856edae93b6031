//! One queue of a host.

use super::outgoing::{Payload, Sink};
use crate::pdu::{
    Digests, Fatal, Frame, Framing, H2cData, IcReq, IcResp, Kind, LAST, SUCCESS, Transfer, Violation, frame,
    push, push_header,
};
use crate::spec::connect::{Data, Fields, NO_FLOW_CONTROL};
use crate::spec::opcode::{FABRICS, fabrics, io};
use crate::spec::{Cqe, Sgl, Sqe, Status};
use pumice_protect::digest;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of data in one C2HData PDU that are taken: what a command may move, and no more.
const MAX_DATA: u32 = 16 << 20;
/// Bytes that a Fabrics or admin command may carry in its capsule.
const ADMIN_CAPSULE: usize = 8192;

/// Options for connecting a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The queue: 0 is the admin queue.
    pub qid: u16,
    /// Commands in flight, at most: 1 to 1023.
    pub depth: u16,
    /// Digests asked for.
    pub digests: Digests,
    /// True if submission queue flow control is wanted.
    pub flow_control: bool,
    /// Keep-alive timeout in milliseconds, 0 for none. On the admin queue.
    pub kato_ms: u32,
    /// Names of both ends.
    pub data: Data,
    /// Bytes of data in a capsule of an I/O queue, from Identify (IOCCSZ); 0 for none.
    pub capsule_data: u32,
}

/// Event on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// Data for the command with this id, at this offset of its data.
    Data {
        /// The command.
        cid: u16,
        /// Byte offset.
        offset: u32,
        /// The bytes.
        data: &'a [u8],
    },
    /// A command has ended. For Connect, the result's low 16 bits are the controller's id.
    Completion(Completion),
}

/// Completion of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The command.
    pub cid: u16,
    /// Its status.
    pub status: Status,
    /// dw0 and dw1.
    pub result: u64,
}

/// Reasons that a command cannot be submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The queue is not connected.
    #[error("the queue is not connected")]
    NotConnected,
    /// As many commands as the queue has entries are in flight.
    #[error("the queue is full")]
    Full,
}

/// A command in flight.
#[derive(Debug, Default)]
struct Command<D> {
    used: bool,
    /// Data for the controller that the capsule did not carry.
    data: D,
    /// Bytes of it that were asked for and sent.
    sent: u32,
    /// Bytes for the host: expected, and come.
    expected: u32,
    come: u32,
    /// It cannot succeed with fewer bytes than expected.
    whole: bool,
    /// The data were not what their digest said.
    damaged: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    AwaitIcResp,
    AwaitConnect,
    Live,
    /// The controller has ended the connection.
    Terminated,
    Failed,
}

/// A queue of a host. It holds the data of commands as `D`.
#[derive(Debug)]
pub struct Connection<D = Vec<u8>> {
    options: Options,
    state: State,
    framing: Framing,
    maxh2cdata: u32,
    commands: Vec<Command<D>>,
    free: VecDeque<u16>,
    /// PDUs that were sent and received.
    pdus: u64,
}

/// Id of the Connect command.
const CONNECT_CID: u16 = 0;

impl Connection {
    /// A queue whose TCP connection stands: appends ICReq to `out`.
    pub fn new(options: Options, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&IcReq { hpda: 0, digests: options.digests, maxr2t: 0 }.encode());
        let depth = options.depth.clamp(1, 1023);
        Self {
            framing: Framing {
                controller: false,
                digests: Digests::default(),
                max_capsule_data: 0,
                max_data: MAX_DATA,
            },
            state: State::AwaitIcResp,
            maxh2cdata: 4096,
            commands: (0..depth).map(|_| Command::default()).collect(),
            free: (0..depth).collect(),
            pdus: 1,
            options,
        }
    }

    /// The same queue with data that it does not copy.
    ///
    /// # Panics
    /// If commands are in flight.
    #[must_use]
    pub fn lending<D: Payload>(self) -> Connection<D> {
        let Self { options, state, framing, maxh2cdata, commands, free, pdus } = self;
        assert!(commands.iter().all(|command| !command.used), "commands are in flight");
        let commands = commands.iter().map(|_| Command::default()).collect();
        Connection { options, state, framing, maxh2cdata, commands, free, pdus }
    }

    /// Submits a command with data for the controller; empty for none. Returns its id.
    ///
    /// # Errors
    /// If the queue is not connected, or is full.
    pub fn submit(&mut self, sqe: Sqe, data: &[u8], out: &mut Vec<u8>) -> Result<u16, SubmitError> {
        if self.is_in_capsule(&sqe, data.len()) {
            let (cid, sqe) = self.begin(sqe, 0)?;
            self.push_capsule(sqe, &data, out);
            return Ok(cid);
        }
        let mut copy = self.next().map(|command| std::mem::take(&mut command.data)).unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(data);
        self.submit_expecting(sqe, copy, 0, out)
    }
}

impl<D: Payload> Connection<D> {
    /// The command that is submitted next.
    fn next(&mut self) -> Option<&mut Command<D>> {
        self.commands.get_mut(usize::from(*self.free.front()?))
    }

    /// PDUs that were sent and received, since ICReq.
    #[must_use]
    pub fn pdus(&self) -> u64 {
        self.pdus
    }

    /// Returns whether commands may be submitted.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.state == State::Live
    }

    /// Commands that may still be submitted.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.is_live() { self.free.len() } else { 0 }
    }

    /// Submits a command with data for the controller; empty for none. Returns its id.
    ///
    /// # Errors
    /// If the queue is not connected, or is full.
    pub fn submit_data(&mut self, sqe: Sqe, data: D, out: &mut impl Sink<D>) -> Result<u16, SubmitError> {
        self.submit_expecting(sqe, data, 0, out)
    }

    /// Submits a command that brings `expected` bytes for the host. Returns its id.
    ///
    /// # Errors
    /// As [`submit_data`](Self::submit_data).
    pub fn submit_read(
        &mut self,
        sqe: Sqe,
        expected: u32,
        out: &mut impl Sink<D>,
    ) -> Result<u16, SubmitError> {
        self.submit_expecting(sqe, D::default(), expected, out)
    }

    /// Returns whether so many bytes go with their command. Those of Fabrics commands do on every
    /// queue.
    fn is_in_capsule(&self, sqe: &Sqe, len: usize) -> bool {
        let most = if self.options.qid == 0 || sqe.opcode() == FABRICS {
            ADMIN_CAPSULE
        } else {
            self.options.capsule_data as usize
        };
        (1..=most).contains(&len)
    }

    /// A command's place on the queue, for `expected` bytes; without data for the controller yet.
    fn begin(&mut self, mut sqe: Sqe, expected: u32) -> Result<(u16, Sqe), SubmitError> {
        if self.state != State::Live {
            return Err(SubmitError::NotConnected);
        }
        let cid = self.free.pop_front().ok_or(SubmitError::Full)?;
        self.pdus += 1;
        sqe.set_cid(cid);
        let command = &mut self.commands[usize::from(cid)];
        command.used = true;
        command.expected = expected;
        command.come = 0;
        command.sent = 0;
        // Other commands may have less to tell than there is room for.
        command.whole = self.options.qid != 0 && sqe.opcode() == io::READ;
        command.damaged = false;
        // Of a command with its data in the capsule nothing is left to ask for.
        command.data.release();
        Ok((cid, sqe))
    }

    /// A command with its data.
    fn push_capsule<P: Payload>(&self, mut sqe: Sqe, data: &P, out: &mut impl Sink<P>) {
        let (digests, len) = (self.framing.digests, data.size());
        sqe.set_sgl(Sgl::in_capsule(len as u32));
        push_header(out.bytes(), Kind::CapsuleCmd, 0, &sqe.0, digests, Some(len));
        push_data(out, data, 0..len, digests);
    }

    fn submit_expecting(
        &mut self,
        sqe: Sqe,
        data: D,
        expected: u32,
        out: &mut impl Sink<D>,
    ) -> Result<u16, SubmitError> {
        let (cid, mut sqe) = self.begin(sqe, expected)?;
        let len = data.size();
        if self.is_in_capsule(&sqe, len) {
            self.push_capsule(sqe, &data, out);
        } else {
            sqe.set_sgl(Sgl::transport(if len == 0 { expected } else { len as u32 }));
            push(out.bytes(), Kind::CapsuleCmd, 0, &sqe.0, self.framing.digests);
            self.commands[usize::from(cid)].data = data;
        }
        Ok(cid)
    }

    /// Takes what has come. Events are handed to `each`; what must be sent is appended to `out`.
    /// Returns the bytes that are done with, and how many must be there before more can happen.
    ///
    /// # Errors
    /// If the controller breaks the protocol; a term request is appended then, and the
    /// connection is over. If the controller ends the connection: what it gives as the reason.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut impl Sink<D>,
        mut each: impl FnMut(Event<'_>),
    ) -> Result<(usize, usize), Violation> {
        let mut consumed = 0;
        let mut needed = 0;
        loop {
            if self.state == State::Failed {
                // Nothing is believed any more.
                return Ok((bytes.len(), 0));
            }
            let done = frame(&bytes[consumed..], &self.framing, &mut needed).and_then(|frame| {
                frame.map(|frame| self.pdu(&frame, out, &mut each).map(|()| frame.len)).transpose()
            });
            match done {
                Ok(Some(len)) => {
                    consumed += len;
                    self.pdus += 1;
                }
                Ok(None) => return Ok((consumed, needed)),
                Err(violation) => {
                    // A term request is not answered with another.
                    if self.state != State::Terminated {
                        violation.encode(true, out.bytes());
                    }
                    self.state = State::Failed;
                    return Err(violation);
                }
            }
        }
    }

    fn pdu(
        &mut self,
        frame: &Frame<'_>,
        out: &mut impl Sink<D>,
        each: &mut impl FnMut(Event<'_>),
    ) -> Result<(), Violation> {
        let wrong = |fes, fei, what| Err(Violation::new(fes, fei, frame.header, what));
        match (self.state, frame.common.kind) {
            (_, Kind::C2hTermReq) => {
                self.state = State::Terminated;
                let (fes, fei) = Violation::decode(frame.header);
                wrong(Fatal::of(fes).unwrap_or(Fatal::Sequence), fei, "the controller ends the connection")
            }
            (State::AwaitIcResp, Kind::IcResp) => self.connect(frame, out.bytes()),
            (State::AwaitIcResp, _) => wrong(Fatal::Sequence, 0, "a PDU before ICResp"),
            (_, Kind::IcResp) => wrong(Fatal::Sequence, 0, "a second ICResp"),
            (_, Kind::CapsuleResp) => self.completion(frame, each),
            (State::Live, Kind::C2hData) => self.data(frame, each),
            (State::Live, Kind::R2t) => self.request(frame, out),
            _ => wrong(Fatal::Sequence, 0, "data before Connect"),
        }
    }

    fn connect(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<(), Violation> {
        let response = IcResp::decode(frame.header)?;
        if response.digests != self.options.digests {
            let what = "ICResp: other digests than were asked for";
            return Err(Violation::new(Fatal::UnsupportedParameter, 11, frame.header, what));
        }
        if response.cpda != 0 {
            let what = "ICResp: padded data are not supported";
            return Err(Violation::new(Fatal::UnsupportedParameter, 10, frame.header, what));
        }
        self.framing.digests = response.digests;
        self.maxh2cdata = response.maxh2cdata;
        self.state = State::AwaitConnect;
        let mut sqe = Sqe::new(FABRICS, 0);
        sqe.0[4] = fabrics::CONNECT;
        sqe.set_cid(CONNECT_CID);
        let data = self.options.data.encode().to_vec();
        sqe.set_sgl(Sgl::in_capsule(data.len() as u32));
        let fields = Fields {
            recfmt: 0,
            qid: self.options.qid,
            sqsize: self.commands.len() as u16,
            cattr: if self.options.flow_control { 0 } else { NO_FLOW_CONTROL },
            kato_ms: self.options.kato_ms,
        };
        fields.encode(&mut sqe);
        push_header(out, Kind::CapsuleCmd, 0, &sqe.0, self.framing.digests, Some(data.len()));
        push_data(out, &data, 0..data.len(), self.framing.digests);
        self.pdus += 1;
        Ok(())
    }

    fn completion(&mut self, frame: &Frame<'_>, each: &mut impl FnMut(Event<'_>)) -> Result<(), Violation> {
        let cqe = Cqe::decode(&frame.header[8..24]);
        if self.state == State::AwaitConnect {
            if cqe.cid != CONNECT_CID {
                return Err(Violation::new(Fatal::Sequence, 0, frame.header, "a completion of no command"));
            }
            self.state = if cqe.status.is_success() { State::Live } else { State::Failed };
            each(Event::Completion(Completion { cid: cqe.cid, status: cqe.status, result: cqe.result }));
            return Ok(());
        }
        let completion = Completion { cid: cqe.cid, status: cqe.status, result: cqe.result };
        self.end(completion, frame, each)
    }

    fn end(
        &mut self,
        mut completion: Completion,
        frame: &Frame<'_>,
        each: &mut impl FnMut(Event<'_>),
    ) -> Result<(), Violation> {
        let command = self.commands.get_mut(usize::from(completion.cid)).filter(|command| command.used);
        let Some(command) = command else {
            let what = "a completion of no command";
            return Err(Violation::new(Fatal::InvalidHeaderField, 20, frame.header, what));
        };
        command.used = false;
        command.data.release();
        if command.damaged {
            completion.status = Status::TRANSIENT_TRANSPORT;
        } else if command.whole && completion.status.is_success() && command.come < command.expected {
            completion.status = Status::DATA_TRANSFER_ERROR;
        }
        self.free.push_back(completion.cid);
        each(Event::Completion(completion));
        Ok(())
    }

    fn data(&mut self, frame: &Frame<'_>, each: &mut impl FnMut(Event<'_>)) -> Result<(), Violation> {
        let wrong = |fes, fei, what| Err(Violation::new(fes, fei, frame.header, what));
        let transfer = Transfer::decode(frame.header);
        let command = self.commands.get_mut(usize::from(transfer.cccid)).filter(|command| command.used);
        let Some(command) = command else {
            return wrong(Fatal::InvalidHeaderField, 8, "C2HData of no command");
        };
        if transfer.len as usize != frame.data.len() {
            return wrong(Fatal::InvalidHeaderField, 16, "C2HData: datal is not the data of the PDU");
        }
        if transfer.offset != command.come || transfer.len > command.expected - command.come {
            return wrong(Fatal::DataOutOfRange, 0, "C2HData that was not asked for");
        }
        command.come += transfer.len;
        command.damaged |= !frame.data_good;
        each(Event::Data { cid: transfer.cccid, offset: transfer.offset, data: frame.data });
        let flags = frame.common.flags & (LAST | SUCCESS);
        match flags {
            SUCCESS => wrong(Fatal::InvalidHeaderField, 1, "C2HData: SUCCESS without LAST"),
            f if f & SUCCESS != 0 => {
                let done = Completion { cid: transfer.cccid, status: Status::SUCCESS, result: 0 };
                self.end(done, frame, each)
            }
            _ => Ok(()),
        }
    }

    /// Sends what an R2T asks for.
    fn request(&mut self, frame: &Frame<'_>, out: &mut impl Sink<D>) -> Result<(), Violation> {
        let wrong = |fes, fei, what| Err(Violation::new(fes, fei, frame.header, what));
        let transfer = Transfer::decode(frame.header);
        let command = self.commands.get_mut(usize::from(transfer.cccid)).filter(|command| command.used);
        let Some(command) = command else { return wrong(Fatal::InvalidHeaderField, 8, "R2T of no command") };
        if transfer.offset != command.sent {
            return wrong(Fatal::DataOutOfRange, 0, "R2T for other data than the next");
        }
        let (start, len) = (transfer.offset as usize, transfer.len as usize);
        let Some(end) = start.checked_add(len).filter(|end| *end <= command.data.size()) else {
            return wrong(Fatal::DataOutOfRange, 0, "R2T for data that the command does not have");
        };
        if len == 0 {
            return wrong(Fatal::InvalidHeaderField, 16, "R2T for nothing");
        }
        command.sent += transfer.len;
        for from in (start..end).step_by(self.maxh2cdata as usize) {
            let piece = from..end.min(from + self.maxh2cdata as usize);
            let part = Transfer { offset: from as u32, len: piece.len() as u32, ..transfer };
            H2cData::push_header(out.bytes(), part, piece.end == end, self.framing.digests);
            push_data(out, &command.data, piece, self.framing.digests);
            self.pdus += 1;
        }
        Ok(())
    }
}

/// Appends data, and their digest if there is one.
fn push_data<D: Payload>(out: &mut impl Sink<D>, data: &D, range: Range<usize>, digests: Digests) {
    out.data(data, range.clone());
    if digests.data {
        let crc = data.parts(range).into_iter().fold(0, digest::crc32c_append);
        out.bytes().extend_from_slice(&crc.to_le_bytes());
    }
}
