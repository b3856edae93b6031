//! fio: latency logs (`time in ms, latency in ns, direction, block size[, offset]`; the time is
//! that of completion) and I/O logs of version 2 and 3.

use super::Op;
use super::error::Wrong;
use super::fields::{length, present, scaled, split, whole, words};
use super::line::{Line, Parsed};

/// Kinds of fio's logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// `*_clat.log`, `*_lat.log`.
    Latency,
    /// `fio version 2 iolog`: no times but waits, in microseconds.
    Second,
    /// `fio version 3 iolog`: times in microseconds.
    Third,
}

impl Log {
    pub(crate) fn of(header: &[u8]) -> Result<Self, Wrong> {
        if !header.starts_with(b"fio version") {
            return Ok(Self::Latency);
        }
        match words(header).nth(2) {
            Some(b"2") => Ok(Self::Second),
            Some(b"3") => Ok(Self::Third),
            _ => Err(Wrong::new("version", "I/O logs of versions 2 and 3 are read")),
        }
    }
}

/// A line of a latency log: arrival is completion minus latency.
pub(crate) fn parse_latency(line: &[u8]) -> Result<Parsed<'_>, Wrong> {
    let mut fields = split(line, b',');
    let done = scaled("time", whole("time", fields.next())?, 1_000_000)?;
    let latency = whole("latency", fields.next())?;
    let op = match whole("direction", fields.next())? {
        0 => Op::Read,
        1 => Op::Write,
        2 => return Ok(Parsed::Nothing),
        other => {
            return Err(Wrong::new("direction", format!("{other} is none of 0 (read), 1 (write), 2 (trim)")));
        }
    };
    let bytes = length("block size", whole("block size", fields.next())?)?;
    let offset = match fields.next() {
        Some(text) if !text.is_empty() => whole("offset", Some(text)).or_else(|wrong| {
            // Newer logs may print it in hexadecimal.
            let digits = text.strip_prefix(b"0x").and_then(|t| std::str::from_utf8(t).ok());
            digits.and_then(|t| u64::from_str_radix(t, 16).ok()).ok_or(wrong)
        })?,
        _ => 0,
    };
    let response = Some(latency);
    Ok(Parsed::Finished(Line {
        time_field: "time",
        place_field: "offset",
        device_field: "device",
        response_field: "latency",
        at: done,
        device: b"0",
        alias: None,
        op,
        offset,
        bytes,
        response,
    }))
}

/// A line of an I/O log. `clock` is the sum of the waits so far, in nanoseconds.
pub(crate) fn parse_io<'a>(log: Log, line: &'a [u8], clock: &mut u64) -> Result<Parsed<'a>, Wrong> {
    let mut parts = words(line);
    if log == Log::Third {
        *clock = scaled("timestamp", whole("timestamp", parts.next())?, 1_000)?;
    }
    let device = present("filename", parts.next())?;
    let action = present("action", parts.next())?;
    let op = match action {
        b"read" => Op::Read,
        b"write" => Op::Write,
        b"wait" => {
            let wait = scaled("offset", whole("offset", parts.next())?, 1_000)?;
            *clock = clock.checked_add(wait).ok_or_else(|| Wrong::new("offset", "waits are too long"))?;
            return Ok(Parsed::Nothing);
        }
        b"add" | b"open" | b"close" | b"sync" | b"datasync" | b"trim" => return Ok(Parsed::Nothing),
        other => {
            let shown = String::from_utf8_lossy(&other[..other.len().min(40)]).into_owned();
            return Err(Wrong::new("action", format!("'{shown}' is no action of fio")));
        }
    };
    let offset = whole("offset", parts.next())?;
    let bytes = length("length", whole("length", parts.next())?)?;
    let at = *clock;
    Ok(Parsed::Request(Line {
        time_field: if log == Log::Third { "timestamp" } else { "wait" },
        place_field: "offset",
        device_field: "filename",
        response_field: "timestamp",
        at,
        device,
        alias: None,
        op,
        offset,
        bytes,
        response: None,
    }))
}
