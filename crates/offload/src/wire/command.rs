//! Descriptors of parity commands as bytes.

use super::{Fields, VERSION, WireError, put, wrong, zeros};
use crate::{DriveId, MemoryAddress, Mode, ParityCommand, Rule, Source, Window};
use pumice_parity::seed::Seed;

/// Bytes before the sources.
const FIXED: usize = 88;
/// Bytes of a source.
const SOURCE: usize = 16;
/// Bit 0 of byte 44: media are read without a pace.
const UNPACED: u8 = 1;
const MAX_SOURCES: usize = 1920;
const MAX_CLASSES: usize = 7680;

/// The descriptor of a parity command.
#[must_use]
pub fn encode_command(command: &ParityCommand) -> Vec<u8> {
    let mut out = vec![0; FIXED];
    let rule = &command.rule;
    let (mode, number, into, seed) = match &command.mode {
        Mode::Check => (0, 0, None, None),
        Mode::Generate { into } => (1, 0, Some(into), None),
        Mode::Interims { into, seed, accumulators } => (2, *accumulators, Some(into), Some(seed)),
        Mode::Accumulate { into, seed, accumulators } => (3, *accumulators, Some(into), Some(seed)),
        Mode::Fingerprint { seed, powers } => (4, *powers, None, Some(seed)),
    };
    out[..4].copy_from_slice(&[VERSION, mode, number, rule.rows() as u8]);
    put(&mut out, 4, &(command.sources.len() as u16).to_le_bytes());
    put(&mut out, 6, &(rule.guard().len() as u16).to_le_bytes());
    put(&mut out, 8, &command.chunk.to_le_bytes());
    put(&mut out, 12, &command.window.start.to_le_bytes());
    put(&mut out, 16, &command.window.len.to_le_bytes());
    put(&mut out, 20, &(rule.period() as u32).to_le_bytes());
    put(&mut out, 24, &command.stripes.start.to_le_bytes());
    put(&mut out, 32, &command.count().to_le_bytes());
    put(&mut out, 44, &[if command.unpaced { UNPACED } else { 0 }]);
    if let Some(into) = into {
        put(&mut out, 40, &into.drive.0.to_le_bytes());
        put(&mut out, 48, &into.offset.to_le_bytes());
    }
    if let Some(seed) = seed {
        put(&mut out, 56, &seed.0);
    }
    for source in &command.sources {
        let (kind, drive, offset) = match source {
            Source::Media { drive, base } => (0_u8, drive, base),
            Source::Memory { address } => (1, &address.drive, &address.offset),
        };
        out.extend_from_slice(&[kind, 0, 0, 0]);
        out.extend_from_slice(&drive.0.to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
    }
    for class in 0..rule.period() as usize {
        for source in 0..rule.sources() {
            out.extend_from_slice(rule.column(class, source));
        }
    }
    for column in rule.guard() {
        out.extend_from_slice(column);
    }
    out
}

/// Reads a descriptor.
///
/// # Errors
/// Names the field that makes no sense.
pub fn decode_command(bytes: &[u8]) -> Result<ParityCommand, WireError> {
    let f = Fields::new(bytes, "descriptor", FIXED)?;
    let (mode, number, rows) = (bytes[1], bytes[2], usize::from(bytes[3]));
    let (sources, guard) = (usize::from(f.u16(4)), usize::from(f.u16(6)));
    let classes = f.u32(20) as usize;
    if !(1..=8).contains(&rows) {
        return wrong("rows", rows);
    }
    if !(1..=MAX_SOURCES).contains(&sources) {
        return wrong("sources", sources);
    }
    if !(1..=MAX_CLASSES).contains(&classes) {
        return wrong("classes", classes);
    }
    let source = |i: usize| -> Result<Source, WireError> {
        let at = FIXED + i * SOURCE;
        f.slice(at, SOURCE)?;
        zeros(bytes, at + 1..at + 4)?;
        let (drive, offset) = (DriveId(f.u32(at + 4)), f.u64(at + 8));
        match bytes[at] {
            0 => Ok(Source::Media { drive, base: offset }),
            1 => Ok(Source::Memory { address: MemoryAddress { drive, offset } }),
            kind => wrong("source kind", kind),
        }
    };
    let list = (0..sources).map(source).collect::<Result<Vec<_>, _>>()?;
    let at = FIXED + sources * SOURCE;
    let coefficients = f.slice(at, classes * sources * rows)?.to_vec();
    let guard_at = at + coefficients.len();
    let columns = f.slice(guard_at, guard * rows)?.chunks(rows).map(<[u8]>::to_vec).collect();
    if guard_at + guard * rows != bytes.len() {
        return wrong("descriptor", format!("{} bytes, longer than its counts say", bytes.len()));
    }
    let rule = Rule::new(rows, sources, coefficients, columns)
        .map_err(|error| WireError { field: "rule", found: error.to_string() })?;
    let into = MemoryAddress { drive: DriveId(f.u32(40)), offset: f.u64(48) };
    let seed = Seed(f.array(56));
    if bytes[44] & !UNPACED != 0 {
        return wrong("flags", bytes[44]);
    }
    zeros(bytes, 45..48)?;
    if matches!(mode, 0 | 1) {
        zeros(bytes, 2..3)?;
        zeros(bytes, 56..88)?;
    }
    if matches!(mode, 0 | 4) {
        zeros(bytes, 40..44)?;
        zeros(bytes, 48..56)?;
    }
    let mode = match mode {
        0 => Mode::Check,
        1 => Mode::Generate { into },
        2 => Mode::Interims { into, seed, accumulators: number },
        3 => Mode::Accumulate { into, seed, accumulators: number },
        4 => Mode::Fingerprint { seed, powers: number },
        mode => return wrong("mode", mode),
    };
    let (first, count) = (f.u64(24), f.u64(32));
    let Some(end) = first.checked_add(count) else { return wrong("stripes", count) };
    let window = Window { start: f.u32(12), len: f.u32(16) };
    let (chunk, unpaced) = (f.u32(8), bytes[44] & UNPACED != 0);
    Ok(ParityCommand { sources: list, chunk, window, stripes: first..end, rule, mode, unpaced })
}
