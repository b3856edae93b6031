//! The text of blkparse: a request arrives when it is queued (Q; where a trace has none, when it is issued, D), and is done when it completes (C).

use super::error::Wrong;
use super::fields::{op, scaled, seconds, whole, words};
use super::reader::{Line, Parsed};

/// Words that begin the summary at the end.
const SUMMARY: [&[u8]; 6] = [b"CPU", b"Total", b"Throughput", b"Events", b"Skips", b"Input"];

/// True where the summary begins: nothing after it is an event.
pub(crate) fn is_summary(line: &[u8]) -> bool {
    SUMMARY.iter().any(|word| line.trim_ascii_start().starts_with(word))
}

pub(crate) fn parse(line: &[u8]) -> Result<Parsed<'_>, Wrong> {
    let mut parts = words(line);
    let Some(device) = parts.next() else { return Ok(Parsed::Nothing) };
    let mut numbers = device.split(|&b| b == b',');
    whole("device", numbers.next())?;
    whole("device", numbers.next())?;
    whole("cpu", parts.next())?;
    whole("sequence", parts.next())?;
    let at = seconds("time", parts.next())?;
    whole("pid", parts.next())?;
    let action = super::fields::present("action", parts.next())?;
    if !matches!(action, b"Q" | b"D" | b"C" | b"M" | b"F") {
        return Ok(Parsed::Nothing);
    }
    let rwbs = super::fields::present("rwbs", parts.next())?;
    // Flushes, discards and the like: no data, or none that takes the drive's time as reads and writes do.
    let kind = rwbs.iter().find(|b| !matches!(b, b'F')).copied().unwrap_or(b'N');
    let Some(op) = op(&[kind]) else { return Ok(Parsed::Nothing) };
    let Some(place) = parts.next() else { return Ok(Parsed::Nothing) };
    let sector = whole("sector", Some(place))?;
    if parts.next() != Some(b"+") {
        return Ok(Parsed::Nothing);
    }
    let bytes = scaled("blocks", whole("blocks", parts.next())?, 512)?;
    let offset = scaled("sector", sector, 512)?;
    let line = Line { time_field: "time", at, device, alias: None, op, offset, bytes, response: None };
    Ok(match action {
        b"Q" => Parsed::Queued(line),
        b"D" => Parsed::Issued(line),
        b"C" => Parsed::Completed(line),
        _ => Parsed::Merged(line),
    })
}
