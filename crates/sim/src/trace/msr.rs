//! MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, times in units of
//! 100 ns (Windows file time).

use super::error::Wrong;
use super::fields::{length, needed_op, present, scaled, split, whole};
use super::line::{Line, Parsed};

/// Returns whether a line names the fields.
pub(crate) fn is_header(line: &[u8]) -> bool {
    line.len() > 9 && line[..9].eq_ignore_ascii_case(b"timestamp")
}

pub(crate) fn parse(line: &[u8]) -> Result<Parsed<'_>, Wrong> {
    let mut fields = split(line, b',');
    let time = whole("Timestamp", fields.next())?;
    let _host = present("Hostname", fields.next())?;
    let disk = present("DiskNumber", fields.next())?;
    whole("DiskNumber", Some(disk))?;
    // "host,disk" as it stands in the line: `src1,1`.
    let (from, to) =
        (line.iter().position(|&b| b == b','), disk.as_ptr() as usize - line.as_ptr() as usize + disk.len());
    let device = &line[from.map_or(0, |f| f + 1)..to];
    let op = needed_op("Type", fields.next())?;
    let offset = whole("Offset", fields.next())?;
    let bytes = length("Size", whole("Size", fields.next())?)?;
    let response = scaled("ResponseTime", whole("ResponseTime", fields.next())?, 100)?;
    // File time in nanoseconds does not fit 64 bits for ever: until the year 2185.
    let at = scaled("Timestamp", time, 100)?;
    Ok(Parsed::Request(Line {
        time_field: "Timestamp",
        place_field: "Offset",
        device_field: "Hostname",
        response_field: "ResponseTime",
        at,
        device,
        alias: Some(disk),
        op,
        offset,
        bytes,
        response: Some(response),
    }))
}
