//! Comma-separated traces with a header: times in `ts_us` (or `ts_ns`, `ts_ms`, `ts_s`), places in `offset_bytes`, `lbn512` or `lpn` (4 KiB pages),
//! lengths in `size_bytes`, response times in `svc_stop_us` (from arrival to completion), device in `dev`.

use super::error::Wrong;
use super::fields::{length, needed_op, scaled, seconds, split, whole};
use super::reader::{Line, Parsed};

/// Columns that are looked at.
const COLUMNS: usize = 64;

/// Which column holds what.
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
        Ok(Self { time, op, place, size, stop, device, last: last.unwrap_or(0), pages })
    }

    pub(crate) fn has_responses(&self) -> bool {
        self.stop.is_some()
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
        Ok(Parsed::Request(Line {
            time_field: self.time.2,
            place_field: self.place.2,
            device_field: "dev",
            response_field: "svc_stop_us",
            at,
            device,
            alias: None,
            op,
            offset,
            bytes,
            response,
        }))
    }
}
