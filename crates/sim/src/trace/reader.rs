//! A trace as a stream of requests by growing time, in bounded memory.

use super::blkparse;
use super::csv::Columns;
use super::detect::Format;
use super::devices::Devices;
use super::error::{TraceError, Wrong};
use super::events::{Events, RequestEvent};
use super::fio::{self, Log};
use super::input;
use super::line::{Parsed, SECOND};
use super::{Request, msr, spc};
use pumice_pacer::Nanos;
use std::collections::VecDeque;
use std::io::BufRead;
use std::path::Path;

/// Requests without completion that are kept while their completion is looked for.
const OPEN: usize = 4_096;

/// Bytes that some editors put before the first line of UTF-8.
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

enum State {
    Csv(Columns),
    Msr,
    Spc,
    Blkparse { summary: bool },
    FioLatency,
    FioIo { log: Log, clock: Nanos },
}

/// A request whose completion is awaited, or that waits for its place in time.
#[derive(Debug, Clone, Copy)]
struct Open {
    request: Request,
    settled: bool,
}

/// Reads a trace.
pub struct TraceReader {
    path: String,
    input: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
    format: Format,
    state: State,
    devices: Devices,
    origin: Option<Nanos>,
    /// The time of the first line and the latest of any.
    times: Option<(Nanos, Nanos)>,
    events: Events,
    open: VecDeque<Open>,
    pending_first: bool,
    ended: bool,
    given: u64,
    released: Nanos,
}

impl std::fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceReader")
            .field("path", &self.path)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl TraceReader {
    /// Opens a trace; its format is told by its first line unless it is given.
    ///
    /// # Errors
    /// Where the file cannot be opened or read, or its first line fits no format.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Self, TraceError> {
        let shown = path.display().to_string();
        let mut input =
            input::open(path).map_err(|source| TraceError::Open { path: shown.clone(), source })?;
        let (mut line, mut number) = (Vec::with_capacity(256), 0);
        loop {
            number += 1;
            let more = input::read_line(&mut *input, &mut line).map_err(|source| TraceError::Read {
                path: shown.clone(),
                line: number,
                source,
            })?;
            if !more {
                let what = "the trace has no lines".to_owned();
                return Err(TraceError::Empty { path: shown, line: number, field: "first line", what });
            }
            if line.starts_with(BYTE_ORDER_MARK) {
                line.drain(..BYTE_ORDER_MARK.len());
            }
            if !line.trim_ascii().is_empty() && !blkparse::names_a_file(&line) {
                break;
            }
        }
        let unknown = || TraceError::Format {
            path: shown.clone(),
            line: number,
            field: "first line",
            what: "no known format of traces".to_owned(),
        };
        let format = format.or_else(|| Format::detect(&line)).ok_or_else(unknown)?;
        let (state, header) = Self::begin(format, &line).map_err(|wrong| TraceError::Format {
            path: shown.clone(),
            line: number,
            field: wrong.field,
            what: wrong.what,
        })?;
        Ok(Self {
            path: shown,
            input,
            line,
            number,
            format,
            state,
            devices: Devices::default(),
            origin: None,
            times: None,
            events: Events::default(),
            open: VecDeque::new(),
            pending_first: !header,
            ended: false,
            given: 0,
            released: 0,
        })
    }

    /// The state of a format, and whether the first line is a header.
    fn begin(format: Format, line: &[u8]) -> Result<(State, bool), Wrong> {
        Ok(match format {
            Format::Csv => (State::Csv(Columns::of(line)?), true),
            Format::Msr => (State::Msr, msr::is_header(line)),
            Format::Spc => (State::Spc, false),
            Format::Blkparse => (State::Blkparse { summary: false }, false),
            Format::Fio => match Log::of(line)? {
                Log::Latency => (State::FioLatency, false),
                log => (State::FioIo { log, clock: 0 }, true),
            },
        })
    }

    /// Takes the input behind the header of a comma-separated trace of which no request was taken,
    /// and its columns; `None` for other traces.
    pub(super) fn into_csv(self) -> Option<(Box<dyn BufRead + Send>, Columns)> {
        match self.state {
            State::Csv(columns) => Some((self.input, columns)),
            _ => None,
        }
    }

    /// Its format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns whether the format tells response times.
    #[must_use]
    pub fn has_responses(&self) -> bool {
        match &self.state {
            State::Csv(columns) => columns.has_responses(),
            State::Msr | State::FioLatency | State::Blkparse { .. } => true,
            State::Spc | State::FioIo { .. } => false,
        }
    }

    /// The devices that have appeared so far.
    #[must_use]
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// The next request; `None` at the end.
    ///
    /// # Errors
    /// Where a line is damaged, time goes back, the file ends early, or holds no request at all.
    pub fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        loop {
            if let Some(request) = self.settled() {
                self.given += 1;
                return Ok(Some(request));
            }
            if self.ended {
                return Ok(None);
            }
            if !std::mem::take(&mut self.pending_first) {
                self.number += 1;
                let more = input::read_line(&mut *self.input, &mut self.line).map_err(|source| {
                    TraceError::Read { path: self.path.clone(), line: self.number, source }
                })?;
                if !more {
                    self.finish()?;
                    continue;
                }
            }
            if let Some(request) = self.take_line().map_err(|wrong| self.complaint(wrong))? {
                self.given += 1;
                return Ok(Some(request));
            }
        }
    }

    fn complaint(&self, wrong: Wrong) -> TraceError {
        TraceError::Field { path: self.path.clone(), line: self.number, field: wrong.field, what: wrong.what }
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        self.ended = true;
        self.follow(true);
        self.open.iter_mut().for_each(|open| open.settled = true);
        if self.given == 0 && self.open.is_empty() {
            let what = "the trace has no reads or writes".to_owned();
            return Err(TraceError::Empty { path: self.path.clone(), line: self.number, field: "op", what });
        }
        Ok(())
    }

    /// A request that waits for nothing any more.
    fn settled(&mut self) -> Option<Request> {
        let front = self.open.front()?;
        if !front.settled && self.open.len() <= OPEN {
            return None;
        }
        let mut request = self.open.pop_front()?.request;
        // Arrivals that are computed from completions may overtake each other by more than the
        // window.
        request.at = request.at.max(self.released);
        self.released = request.at;
        Some(request)
    }

    fn take_line(&mut self) -> Result<Option<Request>, Wrong> {
        if self.line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let parsed = match &mut self.state {
            State::Csv(columns) => columns.parse(&self.line)?,
            State::Msr => msr::parse(&self.line)?,
            State::Spc => spc::parse(&self.line)?,
            State::Blkparse { summary } => {
                *summary |= blkparse::is_summary(&self.line);
                if *summary { Parsed::Nothing } else { blkparse::parse(&self.line)? }
            }
            State::FioLatency => fio::parse_latency(&self.line)?,
            State::FioIo { log, clock } => fio::parse_io(*log, &self.line, clock)?,
        };
        let finished = matches!(parsed, Parsed::Finished(_));
        let (line, event) = match parsed {
            Parsed::Nothing => return Ok(None),
            Parsed::Event(event, cpu, line) => (line, Some((event, cpu))),
            Parsed::Request(line) | Parsed::Finished(line) => (line, None),
        };
        let late = match (event, self.times) {
            (Some((_, cpu)), _) => self.events.late(cpu, line.at),
            (None, Some((_, last))) => last.checked_sub(line.at).filter(|back| *back > 0),
            (None, None) => None,
        };
        if let Some(back) = late {
            let what = format!("time goes back by {}.{:09} s", back / SECOND, back % SECOND);
            return Err(Wrong::new(line.time_field, what));
        }
        let (first, last) = self.times.unwrap_or((line.at, line.at));
        line.check_time(first, last)?;
        line.check()?;
        self.times = Some((first, last.max(line.at)));
        let mut request = Request {
            at: line.at,
            device: self.devices.number(line.device_field, line.device, line.alias)?,
            op: line.op,
            offset: line.offset,
            bytes: line.bytes,
            response: line.response,
        };
        match event {
            Some((event, cpu)) => {
                self.events.push(event, cpu, request)?;
                self.follow(false);
                Ok(None)
            }
            None if finished => {
                self.place_finished(request);
                Ok(None)
            }
            None => {
                request.at -= *self.origin.get_or_insert(request.at);
                Ok(Some(request))
            }
        }
    }

    /// Follows the requests whose events nothing earlier can come before.
    fn follow(&mut self, end: bool) {
        while let Some((event, mut request)) = self.events.pop(end) {
            request.at -= *self.origin.get_or_insert(request.at);
            self.place(request, event);
        }
    }

    /// Keeps a request until its completion is seen.
    fn place(&mut self, request: Request, event: RequestEvent) {
        let near = |open: &Open| !open.settled && open.request.device == request.device;
        let same = |open: &Open| near(open) && open.request.offset == request.offset;
        match event {
            RequestEvent::Queued => self.open.push_back(Open { request, settled: false }),
            RequestEvent::Issued => {
                if !self.open.iter().any(same) {
                    self.open.push_back(Open { request, settled: false });
                }
            }
            RequestEvent::Completed => {
                if let Some(open) = self.open.iter_mut().find(|open| same(open)) {
                    open.request.response = Some(request.at - open.request.at);
                    open.settled = true;
                }
            }
            RequestEvent::MergedBehind | RequestEvent::MergedBefore => {
                // It travels within another request from now on, which is issued and completes by
                // the place of its first sector.
                if let Some(at) = self.open.iter().rposition(same) {
                    self.open.remove(at);
                }
                let end = request.offset + request.bytes;
                let before = event == RequestEvent::MergedBefore;
                let other = self.open.iter_mut().rfind(|open| {
                    let (from, bytes) = (open.request.offset, open.request.bytes);
                    near(open) && if before { from == end } else { from + bytes == request.offset }
                });
                if let Some(other) = other {
                    other.request.bytes += request.bytes;
                    other.request.offset = other.request.offset.min(request.offset);
                }
            }
        }
    }

    /// Puts a request, known at its completion, at its arrival.
    fn place_finished(&mut self, mut request: Request) {
        let arrived = request.at.saturating_sub(request.response.unwrap_or(0));
        let done = request.at.saturating_sub(*self.origin.get_or_insert(arrived));
        request.at = done.saturating_sub(request.response.unwrap_or(0));
        let at = self.open.partition_point(|open| open.request.at <= request.at);
        self.open.insert(at, Open { request, settled: false });
        // What arrived a second before anything that completes now is in its place, as good as
        // always.
        for open in &mut self.open {
            if open.settled || open.request.at + SECOND > done {
                break;
            }
            open.settled = true;
        }
    }
}
