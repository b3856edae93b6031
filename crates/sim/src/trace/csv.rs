//! Comma-separated traces with a header: times in `ts_us` (or `ts_ns`, `ts_ms`, `ts_s`), places in
//! `offset_bytes`, `lbn512` or `lpn` (4 KiB pages), lengths in `size_bytes`, response times in
//! `svc_stop_us` (from arrival to completion), device in `dev`.

use super::Op;
use super::error::Wrong;
use super::fields::{length, needed_op, op, scaled, seconds, split, whole};
use super::input::LONGEST;
use super::line::{Line, Parsed};

/// Columns that are looked at.
const COLUMNS: usize = 64;

/// Content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Time,
    Place,
    Size,
    Stop,
    Op,
    Device,
    Other,
}

/// Columns of a trace, by their content.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    time: (usize, u64, &'static str),
    op: usize,
    place: (usize, u64, &'static str),
    size: Option<usize>,
    stop: Option<usize>,
    device: Option<usize>,
    last: usize,
    pages: bool,
    roles: [Role; COLUMNS],
}

impl Columns {
    pub(crate) fn of(header: &[u8]) -> Result<Self, Wrong> {
        let names: Vec<&[u8]> = split(header, b',').collect();
        let find = |name: &str| names.iter().take(COLUMNS).position(|n| *n == name.as_bytes());
        let needed = |field: &'static str, found: Option<usize>| {
            found.ok_or_else(|| Wrong::new(field, "the header has no such column"))
        };
        let times = [("ts_us", 1_000), ("ts_ns", 1), ("ts_ms", 1_000_000), ("ts_s", 0)];
        let time = times.iter().find_map(|&(name, unit)| find(name).map(|at| (at, unit, name)));
        let places = [("offset_bytes", 1), ("lbn512", 512), ("lpn", 4_096)];
        let place = places.iter().find_map(|&(name, unit)| find(name).map(|at| (at, unit, name)));
        let time = time.ok_or_else(|| Wrong::new("ts_us", "the header has no such column"))?;
        let place = place.ok_or_else(|| Wrong::new("offset_bytes", "the header has no such column"))?;
        let pages = place.2 == "lpn";
        let size = find("size_bytes");
        if !pages {
            needed("size_bytes", size)?;
        }
        let op = needed("op", find("op"))?;
        let stop = find("svc_stop_us");
        let device = find("dev");
        let last = [Some(time.0), Some(op), Some(place.0), size, stop, device].into_iter().flatten().max();
        let mut roles = [Role::Other; COLUMNS];
        for (at, role) in [
            (Some(time.0), Role::Time),
            (Some(place.0), Role::Place),
            (size, Role::Size),
            (stop, Role::Stop),
            (Some(op), Role::Op),
            (device, Role::Device),
        ] {
            if let Some(column) = at.and_then(|at| roles.get_mut(at)) {
                *column = role;
            }
        }
        Ok(Self { time, op, place, size, stop, device, last: last.unwrap_or(0), pages, roles })
    }

    pub(crate) fn has_responses(&self) -> bool {
        self.stop.is_some()
    }

    /// The first line of `text` and its length with its end, if it is of the kind that nearly all
    /// are: whole numbers without blanks, and a letter for the operation. `None` leaves it to
    /// [`parse`](Self::parse), which takes all that is allowed and finds the words for what is not.
    pub(crate) fn common<'a>(&self, text: &'a [u8]) -> Option<(Line<'a>, usize)> {
        let (mut numbers, mut operation, mut device) = ([0_u64; 4], None, &b"0"[..]);
        let (mut at, mut end) = (0, b',');
        for &role in self.roles.get(..=self.last)? {
            if end != b',' {
                return None;
            }
            let from = at;
            if let Role::Time | Role::Place | Role::Size | Role::Stop = role {
                let mut value = 0_u64;
                loop {
                    end = *text.get(at)?;
                    let digit = end.wrapping_sub(b'0');
                    if digit > 9 {
                        break;
                    }
                    value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
                    at += 1;
                }
                // 19 digits always fit.
                if !(1..=19).contains(&(at - from)) || !matches!(end, b',' | b'\n') {
                    return None;
                }
                numbers[role as usize] = value;
            } else {
                loop {
                    end = *text.get(at)?;
                    if matches!(end, b',' | b'\n') {
                        break;
                    }
                    at += 1;
                }
                match (role, &text[from..at]) {
                    (Role::Op, [b'R' | b'r']) => operation = Some(Op::Read),
                    (Role::Op, [b'W' | b'w']) => operation = Some(Op::Write),
                    (Role::Op, text) => operation = Some(op(text)?),
                    (Role::Device, name @ [first, .., last] | name @ [first @ last])
                        if first.is_ascii_graphic() && last.is_ascii_graphic() =>
                    {
                        device = name;
                    }
                    (Role::Other, _) => {}
                    _ => return None,
                }
            }
            at += 1;
        }
        if end == b',' {
            at += text[at..].iter().position(|&b| b == b'\n')? + 1;
        }
        if at as u64 > LONGEST {
            return None;
        }
        let [time, place, size, stop] = numbers;
        let line = Line {
            // Other than whole numbers of seconds have unit 0.
            at: time.checked_mul(self.time.1).filter(|_| self.time.1 > 0)?,
            device,
            op: operation?,
            offset: place.checked_mul(self.place.1)?,
            bytes: if self.size.is_some() { length("size_bytes", size).ok()? } else { 4_096 },
            response: if self.stop.is_some() { Some(stop.checked_mul(1_000)?) } else { None },
            ..self.blank()
        };
        Some((line, at))
    }

    pub(crate) fn parse<'a>(&self, line: &'a [u8]) -> Result<Parsed<'a>, Wrong> {
        let mut cells: [Option<&[u8]>; COLUMNS] = [None; COLUMNS];
        let mut rest = line;
        for cell in cells.iter_mut().take(self.last + 1) {
            let end = rest.iter().position(|&b| b == b',');
            let (text, more) = end.map_or((rest, None), |end| (&rest[..end], Some(&rest[end + 1..])));
            // Few traces have blanks.
            let blank = |b: Option<&u8>| b.is_some_and(u8::is_ascii_whitespace);
            *cell = Some(if blank(text.first()) || blank(text.last()) { text.trim_ascii() } else { text });
            match more {
                Some(more) => rest = more,
                None => break,
            }
        }
        let cell = |at: usize| cells.get(at).copied().flatten();
        let at = match self.time.1 {
            0 => seconds(self.time.2, cell(self.time.0))?,
            unit => scaled(self.time.2, whole(self.time.2, cell(self.time.0))?, unit)?,
        };
        // Trims and idle marks of page traces take no time of the drive.
        if self.pages && cell(self.op).is_some_and(|o| matches!(o, b"T" | b"I")) {
            return Ok(Parsed::Nothing);
        }
        let op = needed_op("op", cell(self.op))?;
        let offset = scaled(self.place.2, whole(self.place.2, cell(self.place.0))?, self.place.1)?;
        let bytes = match self.size {
            Some(size) => length("size_bytes", whole("size_bytes", cell(size))?)?,
            None => 4_096,
        };
        let response = match self.stop {
            Some(stop) => Some(scaled("svc_stop_us", whole("svc_stop_us", cell(stop))?, 1_000)?),
            None => None,
        };
        let device = match self.device {
            Some(device) => super::fields::present("dev", cell(device))?,
            None => b"0",
        };
        Ok(Parsed::Request(Line { at, device, op, offset, bytes, response, ..self.blank() }))
    }

    /// A line that says nothing yet, with the names of its fields.
    fn blank(&self) -> Line<'static> {
        Line {
            time_field: self.time.2,
            place_field: self.place.2,
            device_field: "dev",
            response_field: "svc_stop_us",
            at: 0,
            device: b"0",
            alias: None,
            op: Op::Read,
            offset: 0,
            bytes: 4_096,
            response: None,
        }
    }
}
