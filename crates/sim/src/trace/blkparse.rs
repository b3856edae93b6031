//! The text of blkparse: a request arrives when it is queued (Q; where a trace has none, when it is
//! issued, D), and is done when it completes (C).

use super::error::Wrong;
use super::events::RequestEvent;
use super::fields::{op, present, scaled, seconds, whole, words};
use super::line::{Line, Parsed};

/// Words that begin the summary at the end.
const SUMMARY: [&[u8]; 5] = [b"CPU", b"Total", b"Throughput", b"Events", b"Skips"];

/// True where the summary begins: nothing after it is an event.
pub(crate) fn is_summary(line: &[u8]) -> bool {
    SUMMARY.iter().any(|word| line.trim_ascii_start().starts_with(word))
}

/// True of the lines that name the files it was made from, after the summary or, where standard
/// error went to the same file, before the first event.
pub(crate) fn names_a_file(line: &[u8]) -> bool {
    line.starts_with(b"Input file ")
}

pub(crate) fn parse(line: &[u8]) -> Result<Parsed<'_>, Wrong> {
    let mut parts = words(line);
    let Some(device) = parts.next().filter(|_| !names_a_file(line)) else { return Ok(Parsed::Nothing) };
    let mut numbers = device.split(|&b| b == b',');
    whole("device", numbers.next())?;
    whole("device", numbers.next())?;
    let cpu = whole("cpu", parts.next())?;
    whole("sequence", parts.next())?;
    let at = seconds("time", parts.next())?;
    whole("pid", parts.next())?;
    let event = match present("action", parts.next())? {
        b"Q" => RequestEvent::Queued,
        b"D" => RequestEvent::Issued,
        b"C" => RequestEvent::Completed,
        b"M" => RequestEvent::MergedBehind,
        b"F" => RequestEvent::MergedBefore,
        _ => return Ok(Parsed::Nothing),
    };
    let rwbs = present("rwbs", parts.next())?;
    // Flushes, discards and the like: no data, or none that takes the drive's time as reads and
    // writes do.
    let kind = rwbs.iter().find(|b| !matches!(b, b'F')).copied().unwrap_or(b'N');
    let Some(op) = op(&[kind]) else { return Ok(Parsed::Nothing) };
    let Some(place) = parts.next() else { return Ok(Parsed::Nothing) };
    let sector = whole("sector", Some(place))?;
    if parts.next() != Some(b"+") {
        return Ok(Parsed::Nothing);
    }
    let bytes = scaled("blocks", whole("blocks", parts.next())?, 512)?;
    let offset = scaled("sector", sector, 512)?;
    Ok(Parsed::Event(
        event,
        cpu,
        Line {
            time_field: "time",
            place_field: "sector",
            device_field: "device",
            response_field: "time",
            at,
            device,
            alias: None,
            op,
            offset,
            bytes,
            response: None,
        },
    ))
}
