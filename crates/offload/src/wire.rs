//! Commands and results as bytes. Byte tables: `docs/wire-format/offload.md`.

mod grant;
mod hosts;
mod pacing;
mod superblocks;

pub use grant::{GRANT_BYTES, decode_grant, encode_grant};
pub use hosts::{HOST_BYTES, HOSTS_HEADER, MAX_HOSTS, decode_hosts, encode_hosts};
pub use pacing::{
    FIGURES_BYTES, FIGURES_HEADER, FIGURES_PER_PAGE, PACE_BYTES, decode_figures, decode_pace, encode_figures,
    encode_pace,
};
pub use superblocks::{
    SUPERBLOCK_BYTES, SUPERBLOCKS_HEADER, SUPERBLOCKS_PAGE, decode_superblocks, encode_superblocks,
};

use crate::{
    Activity, DriveDescription, DriveId, Grant, MAX_UNREADABLE, MemoryAddress, Mode, ParityCommand,
    ParityResult, RESULT_HEADER_BYTES, Rule, Source, StripeBitmap, Transfer, Unread, Unreadable, Window,
    Writes,
};
use pumice_parity::fingerprint::PowerSums;
use pumice_parity::seed::Seed;
use pumice_telemetry::Ledger;
use std::fmt::Display;
use thiserror::Error;

/// The version of descriptors and results.
pub const VERSION: u8 = 3;
/// Bytes of a descriptor, at most.
pub const MAX_DESCRIPTOR: usize = 1 << 20;
/// Drives of a page of a description.
pub const DRIVES_PER_PAGE: u32 = 16;
/// What Identify Controller says at byte 3072.
pub const SIGNATURE: [u8; 8] = *b"PUMICEPC";

/// Opcodes: I/O commands of the vendor range, with the direction of their data in bits 0 and 1.
pub mod opcode {
    /// Fill local memory.
    pub const MEMORY_FILL: u8 = 0x80;
    /// Keep other hosts away, or no longer.
    pub const HOLD: u8 = 0x84;
    /// Take a part of a drive's local memory for this host.
    pub const MEMORY_LEASE: u8 = 0x88;
    /// Let another node write local memory, or no longer.
    pub const MEMORY_GRANT: u8 = 0x91;
    /// Ask for a pace.
    pub const PACE: u8 = 0x8D;
    /// Read what was measured of it.
    pub const PACE_READ: u8 = 0x92;
    /// Read which other hosts are associated.
    pub const HOSTS_READ: u8 = 0x8E;
    /// Read what the node remembers of superblocks.
    pub const SUPERBLOCKS_READ: u8 = 0x96;
    /// Execute a parity command.
    pub const PARITY_EXECUTE: u8 = 0x81;
    /// Read a result.
    pub const RESULT_READ: u8 = 0x82;
    /// Write local memory.
    pub const MEMORY_WRITE: u8 = 0x85;
    /// Read local memory.
    pub const MEMORY_READ: u8 = 0x86;
    /// Move local memory to a peer.
    pub const TRANSFER: u8 = 0x89;
    /// Describe the node's drives.
    pub const DESCRIBE: u8 = 0x8A;

    /// All of them.
    pub const ALL: [u8; 14] = [
        MEMORY_FILL,
        PARITY_EXECUTE,
        RESULT_READ,
        HOLD,
        MEMORY_WRITE,
        MEMORY_READ,
        MEMORY_LEASE,
        MEMORY_GRANT,
        TRANSFER,
        DESCRIBE,
        HOSTS_READ,
        PACE,
        PACE_READ,
        SUPERBLOCKS_READ,
    ];
}

/// Status: the peer of a transfer is not known or does not answer.
pub const STATUS_PEER: u16 = 0x7C0;
/// Status: other hosts are associated, or one of them holds the node.
pub const STATUS_IN_USE: u16 = 0x7C1;
/// Status: other hosts have leased the drive's local memory.
pub const STATUS_NO_MEMORY: u16 = 0x7C2;
/// Hold, dword 10: give it back.
pub const HOLD_RELEASE: u32 = 0;
/// Hold, dword 10: keep other hosts away.
pub const HOLD_TAKE: u32 = 1;
/// Hold, dword 10: this host writes no namespace from now on.
pub const HOLD_OBSERVE: u32 = 2;
/// The host identifier under which a node connects to another one. Whoever uses it can write granted local memory and do nothing else, so it is not counted among the hosts.
pub const NODE_HOST_ID: [u8; 16] = *b"pumice data node";
/// Local memory is leased in units of so many bytes.
pub const LEASE_UNIT: u64 = 4096;

const FIXED: usize = 88;
const SOURCE: usize = 16;
const MAX_SOURCES: usize = 1920;
const MAX_CLASSES: usize = 7680;
const TRANSFER_FIXED: usize = 56;
const MAX_NAME: usize = 223;
const DRIVE: usize = 128;
const DRIVE_NAME: usize = 104;

/// A field of a descriptor or result that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field} is {found}")]
pub struct WireError {
    /// The field.
    pub field: &'static str,
    /// What it is.
    pub found: String,
}

fn wrong<T>(field: &'static str, found: impl Display) -> Result<T, WireError> {
    Err(WireError { field, found: format!("{found}") })
}

/// What is reserved, or of no meaning with the other fields, is zero: a later version's meaning is not passed over.
fn zeros(bytes: &[u8], at: std::ops::Range<usize>) -> Result<(), WireError> {
    match at.clone().zip(&bytes[at]).find(|(_, byte)| **byte != 0) {
        Some((at, byte)) => wrong("a reserved byte", format!("{byte} (byte {at})")),
        None => Ok(()),
    }
}

/// Bytes that are read field by field, each within bounds.
struct Fields<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8], what: &'static str, fixed: usize) -> Result<Self, WireError> {
        if bytes.len() < fixed {
            return wrong(what, format!("{} bytes, less than {fixed}", bytes.len()));
        }
        if bytes[0] != VERSION {
            return wrong("version", bytes[0]);
        }
        Ok(Self { bytes, what })
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|i| self.bytes[at + i])
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    fn slice(&self, at: usize, len: usize) -> Result<&'a [u8], WireError> {
        at.checked_add(len).and_then(|end| self.bytes.get(at..end)).ok_or_else(|| WireError {
            field: self.what,
            found: format!("{} bytes, shorter than its counts say", self.bytes.len()),
        })
    }
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

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
    zeros(bytes, 44..48)?;
    if matches!(mode, 0 | 1) {
        zeros(bytes, 2..3)?;
        zeros(bytes, 56..88)?;
    }
    if matches!(mode, 0 | 4) {
        zeros(bytes, 40..56)?;
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
    Ok(ParityCommand { sources: list, chunk: f.u32(8), window, stripes: first..end, rule, mode })
}

/// The bytes of a result.
#[must_use]
pub fn encode_result(result: &ParityResult) -> Vec<u8> {
    let mut out = vec![0; RESULT_HEADER_BYTES as usize];
    let sums = result.fingerprint.as_ref().map(PowerSums::to_bytes).unwrap_or_default();
    let unreadable = &result.unreadable[..result.unreadable.len().min(MAX_UNREADABLE)];
    out[0] = VERSION;
    out[1] = u8::from(result.range.is_some());
    put(&mut out, 2, &(unreadable.len() as u16).to_le_bytes());
    put(&mut out, 4, &(sums.len() as u32).to_le_bytes());
    put(&mut out, 8, &result.nonzero.len().to_le_bytes());
    let (first, last) = result.range.unwrap_or_default();
    put(&mut out, 16, &first.to_le_bytes());
    put(&mut out, 20, &last.to_le_bytes());
    for (at, bytes) in [(24, result.moved.media_read), (32, result.moved.pcie), (40, result.moved.node_cpu)] {
        put(&mut out, at, &bytes.to_le_bytes());
    }
    if let Some(Activity { epoch, before, after }) = result.activity {
        let counters = [epoch, before.started, before.completed, after.started, after.completed];
        for (i, counter) in counters.into_iter().enumerate() {
            put(&mut out, 48 + 8 * i, &counter.to_le_bytes());
        }
    }
    out.extend_from_slice(&result.nonzero.to_bytes());
    out.extend_from_slice(&sums);
    for place in unreadable {
        out.extend_from_slice(&(place.source as u32).to_le_bytes());
        out.extend_from_slice(&place.start.to_le_bytes());
        out.extend_from_slice(&place.len.to_le_bytes());
        out.extend_from_slice(&[u8::from(place.why == Unread::NotAsked), 0, 0, 0]);
        out.extend_from_slice(&place.stripe.to_le_bytes());
    }
    out
}

/// Reads the result of `command`.
///
/// # Errors
/// Names the field that makes no sense, or does not belong to the command.
pub fn decode_result(bytes: &[u8], command: &ParityCommand) -> Result<ParityResult, WireError> {
    let header = RESULT_HEADER_BYTES as usize;
    let f = Fields::new(bytes, "result", header)?;
    let (unreadable, sums_len, repetitions) = (usize::from(f.u16(2)), f.u32(4) as usize, f.u64(8));
    if repetitions != 0 && repetitions != command.count() {
        return wrong("repetitions", repetitions);
    }
    let bitmap_len = repetitions.div_ceil(8) as usize;
    let mut nonzero = StripeBitmap::from_bytes(repetitions, f.slice(header, bitmap_len)?);
    let sums_at = header + bitmap_len;
    let sums = f.slice(sums_at, sums_len)?;
    let fingerprint = match command.mode {
        Mode::Fingerprint { powers, .. } => {
            let sums = PowerSums::from_bytes(command.rule.rows(), usize::from(powers), sums)
                .map_err(|error| WireError { field: "power sums", found: error.to_string() })?;
            Some(sums)
        }
        _ if sums_len != 0 => return wrong("power sums", format!("{sums_len} bytes")),
        _ => None,
    };
    let places_at = sums_at + sums_len;
    f.slice(places_at, unreadable * 24)?;
    let mut places = Vec::with_capacity(unreadable);
    for at in (0..unreadable).map(|i| places_at + i * 24) {
        let place = Unreadable {
            source: f.u32(at) as usize,
            stripe: f.u64(at + 16),
            start: f.u32(at + 4),
            len: f.u32(at + 8),
            why: match bytes[at + 12] {
                0 => Unread::Refused,
                1 => Unread::NotAsked,
                other => return wrong("unreadable place", format!("kind {other}")),
            },
            reason: "unrecovered read error".to_owned(),
        };
        let inside = place.start.checked_add(place.len).is_some_and(|end| end <= command.chunk);
        if place.source >= command.sources.len() || !command.stripes.contains(&place.stripe) || !inside {
            return wrong("unreadable place", format!("{place:?}"));
        }
        places.push(place);
    }
    // There may be more of them than are told. The bits of their stripes mean nothing: so that none is taken for good, all are looked at from the last one told on.
    if let Some(last) = places.get(MAX_UNREADABLE - 1) {
        (last.stripe - command.stripes.start..nonzero.len()).for_each(|bit| nonzero.set(bit));
    }
    let range = (bytes[1] & 1 != 0).then(|| (f.u32(16), f.u32(20)));
    if let Some((first, last)) = range.filter(|(first, last)| first > last || *last >= command.window.len) {
        return wrong("range", format!("{first} to {last}"));
    }
    Ok(ParityResult {
        nonzero,
        range,
        fingerprint,
        unreadable: places,
        activity: (f.u64(48) != 0).then(|| Activity {
            epoch: f.u64(48),
            before: Writes { started: f.u64(56), completed: f.u64(64) },
            after: Writes { started: f.u64(72), completed: f.u64(80) },
        }),
        moved: Ledger { media_read: f.u64(24), pcie: f.u64(32), node_cpu: f.u64(40), ..Ledger::default() },
    })
}

/// The descriptor of a transfer.
#[must_use]
pub fn encode_transfer(transfer: &Transfer) -> Vec<u8> {
    let mut out = vec![0; TRANSFER_FIXED];
    out[0] = VERSION;
    put(&mut out, 4, &transfer.from.drive.0.to_le_bytes());
    put(&mut out, 8, &transfer.from.offset.to_le_bytes());
    put(&mut out, 16, &transfer.to.drive.0.to_le_bytes());
    put(&mut out, 20, &(transfer.peer.len() as u32).to_le_bytes());
    put(&mut out, 24, &transfer.to.offset.to_le_bytes());
    put(&mut out, 32, &transfer.len.to_le_bytes());
    put(&mut out, 40, &transfer.grant.0);
    out.extend_from_slice(transfer.peer.as_bytes());
    out
}

/// Reads the descriptor of a transfer.
///
/// # Errors
/// Names the field that makes no sense.
pub fn decode_transfer(bytes: &[u8]) -> Result<Transfer, WireError> {
    let f = Fields::new(bytes, "descriptor", TRANSFER_FIXED)?;
    let len = f.u32(20) as usize;
    if !(1..=MAX_NAME).contains(&len) {
        return wrong("bytes of the peer's name", len);
    }
    let name = f.slice(TRANSFER_FIXED, len)?;
    if TRANSFER_FIXED + len != bytes.len() {
        return wrong("descriptor", format!("{} bytes, longer than its counts say", bytes.len()));
    }
    zeros(bytes, 1..4)?;
    let Ok(peer) = std::str::from_utf8(name) else { return wrong("peer", "no UTF-8") };
    Ok(Transfer {
        from: MemoryAddress { drive: DriveId(f.u32(4)), offset: f.u64(8) },
        len: f.u64(32),
        peer: peer.to_owned(),
        to: MemoryAddress { drive: DriveId(f.u32(16)), offset: f.u64(24) },
        grant: Grant(f.array(40)),
    })
}

/// Bytes before the drives of a description.
pub const DESCRIPTION_HEADER: usize = 24;

/// Bytes that went over a node's sockets since it started, at the ends that others have connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketBytes {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
}

/// A page of the description of a node's drives.
#[must_use]
pub fn encode_drives(drives: &[DriveDescription], page: u32, sockets: SocketBytes) -> Vec<u8> {
    let first = (page as usize).saturating_mul(DRIVES_PER_PAGE as usize).min(drives.len());
    let part = &drives[first..drives.len().min(first + DRIVES_PER_PAGE as usize)];
    let mut out = vec![0; DESCRIPTION_HEADER];
    put(&mut out, 0, &(drives.len() as u32).to_le_bytes());
    put(&mut out, 4, &(part.len() as u32).to_le_bytes());
    put(&mut out, 8, &sockets.received.to_le_bytes());
    put(&mut out, 16, &sockets.sent.to_le_bytes());
    for drive in part {
        let mut entry = [0; DRIVE];
        put(&mut entry, 0, &drive.size_bytes.to_le_bytes());
        put(&mut entry, 8, &drive.memory_bytes.to_le_bytes());
        // A path too long for the field is cut at its beginning: its end tells more.
        let cut = drive.name.len().saturating_sub(DRIVE_NAME);
        let cut = (cut..drive.name.len()).find(|at| drive.name.is_char_boundary(*at)).unwrap_or(cut);
        let name = &drive.name[cut..];
        put(&mut entry, 16, &(name.len() as u32).to_le_bytes());
        put(&mut entry, 20, &drive.block_bytes.to_le_bytes());
        put(&mut entry, 24, name.as_bytes());
        out.extend_from_slice(&entry);
    }
    out
}

/// The bytes of sockets in the header of a page; `None` where it is too short.
#[must_use]
pub fn decode_sockets(bytes: &[u8]) -> Option<SocketBytes> {
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    Some(SocketBytes { received: u64_at(8)?, sent: u64_at(16)? })
}

/// Reads a page: how many drives the node has, and those of the page.
///
/// # Errors
/// Names the field that makes no sense.
pub fn decode_drives(bytes: &[u8], page: u32) -> Result<(u32, Vec<DriveDescription>), WireError> {
    let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let (Some(all), Some(count)) = (word(0), word(4)) else { return wrong("description", "too short") };
    if count > DRIVES_PER_PAGE {
        return wrong("drives of the page", count);
    }
    let first = page.saturating_mul(DRIVES_PER_PAGE);
    let drive = |i: u32| {
        let at = DESCRIPTION_HEADER + i as usize * DRIVE;
        let entry = bytes
            .get(at..at + DRIVE)
            .ok_or_else(|| WireError { field: "description", found: "shorter than its drives".to_owned() })?;
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
        let len = (u64_at(16) as u32 as usize).min(DRIVE_NAME);
        Ok(DriveDescription {
            id: DriveId(first.saturating_add(i + 1)),
            name: String::from_utf8_lossy(&entry[24..24 + len]).into_owned(),
            size_bytes: u64_at(0),
            memory_bytes: u64_at(8),
            block_bytes: match (u64_at(16) >> 32) as u32 {
                // A node that does not say: the smallest there is.
                0 => 512,
                bytes if bytes.is_power_of_two() && bytes >= 512 => bytes,
                bytes => return wrong("block bytes", bytes),
            },
        })
    };
    Ok((all, (0..count).map(drive).collect::<Result<_, WireError>>()?))
}
