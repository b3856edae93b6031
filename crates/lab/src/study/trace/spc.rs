//! Storage Performance Council trace files: `ASU,LBA,Size,Opcode,Timestamp`; LBA in 512-byte
//! blocks, Size in bytes, Timestamp in seconds.

use super::error::Wrong;
use super::fields::{length, needed_op, present, scaled, seconds, split, whole};
use super::line::{Line, Parsed};

pub(crate) fn parse(line: &[u8]) -> Result<Parsed<'_>, Wrong> {
    let mut fields = split(line, b',');
    let device = present("ASU", fields.next())?;
    whole("ASU", Some(device))?;
    let offset = scaled("LBA", whole("LBA", fields.next())?, 512)?;
    let bytes = length("Size", whole("Size", fields.next())?)?;
    let op = needed_op("Opcode", fields.next())?;
    let at = seconds("Timestamp", fields.next())?;
    Ok(Parsed::Request(Line {
        time_field: "Timestamp",
        place_field: "LBA",
        device_field: "ASU",
        response_field: "Timestamp",
        at,
        device,
        alias: None,
        op,
        offset,
        bytes,
        response: None,
    }))
}
