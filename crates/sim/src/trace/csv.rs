//! Comma-separated traces with a header: times in `ts_us` (or `ts_ns`, `ts_ms`, `ts_s`), places in `offset_bytes`, `lbn512` or `lpn` (4 KiB pages),
//! lengths in `size_bytes`, response times in `svc_stop_us` (from arrival to completion), device in `dev`.

use super::error::Wrong;
use super::fields::{length, needed_op, op, scaled, seconds, split, whole};
use super::reader::{Line, Parsed};

/// Which column holds what.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    time: (usize, u64),
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
        let find = |name: &str| names.iter().position(|n| *n == name.as_bytes());
        let needed = |field: &'static str, found: Option<usize>| {
            found.ok_or_else(|| Wrong::new(field, "the header has no such column"))
        };
        let times = [("ts_us", 1_000), ("ts_ns", 1), ("ts_ms", 1_000_000), ("ts_s", 0)];
        let time = times.iter().find_map(|&(name, unit)| find(name).map(|at| (at, unit)));
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
        let mut cells: [Option<&[u8]>; 16] = [None; 16];
        for (cell, text) in cells.iter_mut().zip(split(line, b',')).take(self.last + 1) {
            *cell = Some(text);
        }
        let cell = |at: usize| cells.get(at).copied().flatten();
        let at = match self.time.1 {
            0 => seconds("ts_s", cell(self.time.0))?,
            unit => scaled("ts_us", whole("ts_us", cell(self.time.0))?, unit)?,
        };
        // Trims and idle marks of page traces take no time of the drive.
        if self.pages && cell(self.op).is_some_and(|o| op(o).is_none() && matches!(o, b"T" | b"I")) {
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
            time_field: "ts_us",
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
