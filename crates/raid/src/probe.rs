//! Reads the superblock of one device, and the structures beside it.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

use pumice_base::units::{SECTOR, format_date};

use crate::area::Area;
use crate::bad_blocks;
use crate::bitmap::{self, Bitmap};
use crate::bytes::u32_at;
use crate::foreign::{Conflict, Signature, conflict, signatures};
use crate::invalid::Invalid;
use crate::journal::{self, Journal};
use crate::metadata::Metadata;
use crate::ppl::{self, Ppl};
use crate::read_at::ReadAt;
use crate::superblock::features::Features;
use crate::superblock::v1::{FIXED_BYTES, MAX_BYTES};
use crate::superblock::{MAGIC, Position, Superblock};
use crate::uuid::Uuid;

/// Attempts to follow a journal whose tail moves meanwhile.
const JOURNAL_TRIES: usize = 4;

/// Everything md wrote about itself on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRecord {
    /// The superblock.
    pub superblock: Superblock,
    /// The bitmap, where the array has one.
    pub bitmap: Option<Bitmap>,
    /// The ranges that this device cannot give back, from the start of the device.
    pub bad_blocks: Vec<Area>,
    /// An oddity of the log of those ranges.
    pub bad_block_oddity: Option<bad_blocks::Oddity>,
    /// The partial parity log, where the array has one.
    pub ppl: Option<Ppl>,
    /// The state of the journal, on a journal device.
    pub journal: Option<Journal>,
    /// Other contents of the device, if they were looked for: not if the operator named the format
    /// of the superblock, or the array is in use.
    pub foreign: Vec<Signature>,
}

impl MemberRecord {
    /// The format of the superblock.
    #[must_use]
    pub const fn metadata(&self) -> Metadata {
        self.superblock.metadata
    }
}

/// A device that could not be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A read failed.
    #[error("{what} cannot be read at byte {offset}: {source}")]
    Read {
        /// The structure that was read.
        what: &'static str,
        /// Offset of the read, in bytes.
        offset: u64,
        /// The failure of the read.
        source: io::Error,
    },
    /// A structure is damaged, or of a kind that is not known.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Several superblocks hold good: each but one is of an older use of the device, or was written
    /// as data. At least two.
    #[error("{}", ambiguity(.0))]
    Ambiguous(Vec<Superblock>),
    /// Something else on the device says that the superblock's place is its own.
    #[error("{0}")]
    Foreign(Box<Conflict>),
}

fn ambiguity(all: &[Superblock]) -> String {
    let each = |superblock: &Superblock| {
        let (array, written) = (superblock.array_uuid, format_date(superblock.utime));
        format!("{} (array {array}, written {written})", superblock.metadata)
    };
    let version = |superblock: &Superblock| format!("--metadata {}", superblock.metadata);
    format!(
        "superblocks {} hold good, and nothing tells which one counts: any other was left by an older use \
         of the device, or was written as data of the array; say it with {}",
        all.iter().map(each).collect::<Vec<_>>().join(" and "),
        all.iter().map(version).collect::<Vec<_>>().join(" or ")
    )
}

/// Facts about a device's superblock that are known before it is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// The array.
    pub array: Option<Uuid>,
    /// The format. An array's UUID is no secret to its users, so that they can write superblocks
    /// with it; its format tells these from its own.
    pub metadata: Option<Metadata>,
}

impl Known {
    /// That it is one of this array, and in this format.
    #[must_use]
    pub const fn of(superblock: &Superblock) -> Self {
        Self { array: Some(superblock.array_uuid), metadata: Some(superblock.metadata) }
    }

    fn fits(&self, superblock: &Superblock) -> bool {
        self.array.is_none_or(|array| array == superblock.array_uuid)
            && self.metadata.is_none_or(|metadata| metadata == superblock.metadata)
    }
}

/// [`probe_for`] without knowledge of the device.
///
/// # Errors
/// As [`probe_for`].
pub fn probe(device: &dyn ReadAt) -> Result<Option<MemberRecord>, ProbeError> {
    probe_for(device, Known::default())
}

/// Looks for a superblock in all four places, and reads it with what belongs to it. `None` where
/// there is none in any.
///
/// A damaged superblock beside a good one is taken for a remnant. A place that cannot be read
/// counts only if no other place has a good superblock: where another format would have its own,
/// this one may have data.
///
/// Of several good ones the one counts that is as it is known to be. Of several such, or if there
/// is none, the one counts in whose data all the others lie as a whole, if it lies in the data of
/// none, and none is newer: a user who may write to the array may have written them.
///
/// # Errors
/// If the only superblock, or something it points to, is damaged or unknown; where several are good
/// and none of them counts; where something else on the device claims the place of the one that
/// counts, unless its format is known; where a read fails.
pub fn probe_for(device: &dyn ReadAt, known: Known) -> Result<Option<MemberRecord>, ProbeError> {
    let device_sectors = device.size_bytes() / SECTOR;
    let mut good: Vec<Superblock> = Vec::new();
    let mut damaged: Option<Invalid> = None;
    let mut unreadable: Option<ProbeError> = None;
    for metadata in Metadata::ALL {
        let Some(sector) = metadata.super_sector(device_sectors) else { continue };
        match read_superblock(device, metadata, sector, device_sectors) {
            Ok(Some(Ok(superblock))) => good.push(superblock),
            Ok(Some(Err(invalid))) => drop(damaged.get_or_insert(invalid)),
            Ok(None) => {}
            Err(error) => drop(unreadable.get_or_insert(error)),
        }
    }
    match (choose(good, known)?, damaged) {
        // Users of an array in use may write what they like into it: it is known, and looked at no
        // more.
        (Some(superblock), _) if known.metadata.is_some() => read_own(device, superblock).map(Some),
        (Some(superblock), _) => read_alone(device, superblock).map(Some),
        // The array's own superblock may be the one that cannot be read.
        (None, invalid) => match (unreadable, invalid) {
            (Some(error), _) => Err(error),
            (None, Some(invalid)) => Err(invalid.into()),
            (None, None) => Ok(None),
        },
    }
}

/// Reads the structures that the superblock that counts points to.
fn read_own(device: &dyn ReadAt, superblock: Superblock) -> Result<MemberRecord, ProbeError> {
    match superblock.journal_tail {
        Some(_) => read_journal_device(device, superblock),
        None => read_rest(device, superblock, Logs::ALL),
    }
}

/// The same, and what else the device holds: nothing that claims the place of the superblock.
fn read_alone(device: &dyn ReadAt, superblock: Superblock) -> Result<MemberRecord, ProbeError> {
    let foreign = signatures(device);
    match conflict(&superblock, device.size_bytes(), &foreign) {
        Some(other) => Err(ProbeError::Foreign(Box::new(other))),
        None => Ok(MemberRecord { foreign, ..read_own(device, superblock)? }),
    }
}

/// The one of several good superblocks that counts.
fn choose(mut good: Vec<Superblock>, known: Known) -> Result<Option<Superblock>, ProbeError> {
    if good.iter().any(|superblock| known.fits(superblock)) {
        good.retain(|superblock| known.fits(superblock));
    }
    // One that was left behind by an older use does not count, whatever lies in its data area. The
    // times only ever speak against one: clocks may be wrong.
    let outranks = |a: &Superblock, b: &Superblock| a.holds_whole(b) && !b.may_hold(a) && a.utime >= b.utime;
    let counts = |i: usize| good.iter().enumerate().all(|(j, other)| i == j || outranks(&good[i], other));
    match (0..good.len()).find(|i| counts(*i)) {
        Some(i) => Ok(Some(good.swap_remove(i))),
        None if good.is_empty() => Ok(None),
        None => Err(ProbeError::Ambiguous(good)),
    }
}

/// Looks at devices that are named together. If one has several good superblocks, that one counts
/// whose array and format another device has that is not in doubt; but not if several are such, or
/// another one is not older.
pub fn probe_together(
    devices: &[&dyn ReadAt],
    known: Known,
) -> Vec<Result<Option<MemberRecord>, ProbeError>> {
    let mut found: Vec<_> = devices.iter().map(|device| probe_for(*device, known)).collect();
    let sure = found.iter().filter_map(|found| found.as_ref().ok()?.as_ref());
    let sure: BTreeSet<(Uuid, Metadata)> =
        sure.map(|record| (record.superblock.array_uuid, record.metadata())).collect();
    for (device, found) in devices.iter().zip(&mut found) {
        let Err(ProbeError::Ambiguous(all)) = found else { continue };
        let backed = |one: &&Superblock| sure.contains(&(one.array_uuid, one.metadata));
        let mut counts = all.iter().filter(backed);
        let (Some(one), None) = (counts.next(), counts.next()) else { continue };
        // A user of the array may know its UUID; a later array has another.
        let older = |other: &Superblock| other.array_uuid == one.array_uuid || other.utime < one.utime;
        if all.iter().all(older) {
            *found = read_alone(*device, one.clone()).map(Some);
        }
    }
    found
}

/// Looks at one place of each device, that of a format, whatever lies at the others.
pub fn probe_at(
    devices: &[&dyn ReadAt],
    metadata: Metadata,
) -> Vec<Result<Option<MemberRecord>, ProbeError>> {
    let at = |device: &&dyn ReadAt| match superblock_at(*device, metadata)? {
        Some(superblock) => read_own(*device, superblock).map(Some),
        None => Ok(None),
    };
    devices.iter().map(at).collect()
}

/// The bytes that are read for a superblock at `sector`.
pub(crate) fn span(sector: u64, device_sectors: u64) -> Range<u64> {
    let start = sector * SECTOR;
    // Version 1.0 may stand nearer to the end of the device than its largest size.
    start..(start + MAX_BYTES as u64).min(device_sectors * SECTOR)
}

/// The bytes of a device of `device_bytes` that [`probe`] always reads: the places of superblocks.
#[must_use]
pub fn probed_spans(device_bytes: u64) -> Vec<Range<u64>> {
    let sectors = device_bytes / SECTOR;
    let places = Metadata::ALL.iter().filter_map(|metadata| metadata.super_sector(sectors));
    places.map(|sector| span(sector, sectors)).collect()
}

/// The superblock at `sector`: `None` without a magic.
fn read_superblock(
    device: &dyn ReadAt,
    metadata: Metadata,
    sector: u64,
    device_sectors: u64,
) -> Result<Option<Result<Superblock, Invalid>>, ProbeError> {
    let span = span(sector, device_sectors);
    let mut bytes = vec![0; (span.end - span.start) as usize];
    read(device, metadata.structure(), span.start, &mut bytes)?;
    let magic = u32_at(&bytes, 0);
    let v0 = metadata == Metadata::V0_90;
    if bytes.len() < FIXED_BYTES || !(magic == MAGIC || v0 && magic == MAGIC.swap_bytes()) {
        return Ok(None);
    }
    Ok(Some(Superblock::parse(&bytes, metadata, device_sectors)))
}

fn read(device: &dyn ReadAt, what: &'static str, offset: u64, buf: &mut [u8]) -> Result<(), ProbeError> {
    device.read_exact_at(offset, buf).map_err(|source| ProbeError::Read { what, offset, source })
}

/// The superblock of one format, wherever else there may be one. `None` if there is none in its
/// place.
pub(crate) fn superblock_at(
    device: &dyn ReadAt,
    metadata: Metadata,
) -> Result<Option<Superblock>, ProbeError> {
    let device_sectors = device.size_bytes() / SECTOR;
    let Some(sector) = metadata.super_sector(device_sectors) else { return Ok(None) };
    Ok(read_superblock(device, metadata, sector, device_sectors)?.transpose()?)
}

/// The records of writes under way that are read beside a superblock. One that is not read is as if
/// there were none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Logs {
    pub(crate) bitmap: bool,
    pub(crate) ppl: bool,
}

impl Logs {
    const ALL: Self = Self { bitmap: true, ppl: true };
}

/// Reads the structures that the superblock points to.
pub(crate) fn read_rest(
    device: &dyn ReadAt,
    superblock: Superblock,
    logs: Logs,
) -> Result<MemberRecord, ProbeError> {
    let bitmap = superblock.bitmap.filter(|_| logs.bitmap);
    let bitmap = bitmap.map(|area| read_bitmap(device, &superblock, area)).transpose()?;
    let (bad_blocks, bad_block_oddity) = read_bad_blocks(device, &superblock)?;
    let several = superblock.features.has(Features::MULTIPLE_PPLS);
    let follow = |area: Area| {
        Ppl::follow(superblock.array_uuid, area.sectors.saturating_mul(SECTOR), several, |offset| {
            let mut bytes = [0; ppl::HEADER_BYTES];
            read(device, "partial parity log", area.start_bytes().saturating_add(offset), &mut bytes)
                .map(|()| bytes)
        })
    };
    let ppl = superblock.ppl.filter(|_| logs.ppl).map(follow).transpose()?;
    let journal =
        superblock.journal_tail.map(|tail| read_journal(device, &superblock, tail.get())).transpose()?;
    let foreign = Vec::new();
    Ok(MemberRecord { superblock, bitmap, bad_blocks, bad_block_oddity, ppl, journal, foreign })
}

/// The bad-block log, and what is odd about it.
fn read_bad_blocks(
    device: &dyn ReadAt,
    superblock: &Superblock,
) -> Result<(Vec<Area>, Option<bad_blocks::Oddity>), ProbeError> {
    let Some(log) = superblock.bad_block_log.filter(|log| log.used) else { return Ok((Vec::new(), None)) };
    // The superblock bounds the log to 128 sectors.
    let mut bytes = vec![0; (log.area.sectors * SECTOR) as usize];
    let ranges = read(device, "bad-block log", log.area.start_bytes(), &mut bytes)
        .and_then(|()| Ok(bad_blocks::parse(&bytes, log.shift)?));
    match ranges {
        Ok(ranges) => {
            Ok((ranges, bad_blocks::begins_with_zeros(&bytes).then_some(bad_blocks::Oddity::Zeros)))
        }
        Err(error) if matches!(superblock.position(), Position::Spare | Position::Faulty) => {
            Ok((Vec::new(), Some(bad_blocks::Oddity::Unread(error.to_string()))))
        }
        Err(error) => Err(error),
    }
}

/// Reads a journal device, to which somebody may be writing.
///
/// Entries behind `journal_tail` stay until the tail moves on. So where the tail is the same after
/// the ring was followed as before, no entry that was there before has been missed; else the ring
/// is followed again, and after a few times its state is [`Journal::Unknown`].
pub(crate) fn read_journal_device(
    device: &dyn ReadAt,
    mut superblock: Superblock,
) -> Result<MemberRecord, ProbeError> {
    for _ in 0..JOURNAL_TRIES {
        let record = read_rest(device, superblock.clone(), Logs::ALL)?;
        // One that cannot be made out is being written.
        if let Ok(Some(now)) = superblock_at(device, superblock.metadata) {
            let same = now.journal_tail == superblock.journal_tail;
            superblock = now;
            if same {
                return Ok(record);
            }
        }
    }
    let journal = Some(Journal::Unknown("its tail moved each time that it was read"));
    let (bad_blocks, bad_block_oddity, foreign) = (Vec::new(), None, Vec::new());
    let (bitmap, ppl) = (None, None);
    Ok(MemberRecord { superblock, bitmap, bad_blocks, bad_block_oddity, ppl, journal, foreign })
}

fn read_bitmap(device: &dyn ReadAt, superblock: &Superblock, area: Area) -> Result<Bitmap, ProbeError> {
    let mut header = [0; bitmap::HEADER_BYTES];
    read(device, "bitmap", area.start_bytes(), &mut header)?;
    let stored = match superblock.metadata {
        Metadata::V0_90 => superblock.array_uuid.swap_words(),
        _ => superblock.array_uuid,
    };
    let header = bitmap::Header::parse(&header, stored, superblock.resync_sectors(), area.sectors)?;
    let range = header.state_bytes();
    // Bounded by `bitmap::MAX_BYTES`.
    let mut states = vec![0; range.end.saturating_sub(range.start) as usize];
    read(device, "bitmap", area.start_bytes() + range.start, &mut states)?;
    Ok(Bitmap::new(header, states, superblock.events)?)
}

fn read_journal(device: &dyn ReadAt, superblock: &Superblock, tail: u64) -> Result<Journal, ProbeError> {
    let Ok(geometry) = superblock.geometry() else {
        return Ok(Journal::Unknown("the array's geometry cannot be"));
    };
    Journal::follow(superblock.array_uuid, &geometry, tail, superblock.data_size.get(), |at| {
        let mut bytes = [0; journal::BLOCK_BYTES];
        let offset = superblock.data_offset.get().saturating_add(at).saturating_mul(SECTOR);
        read(device, "journal", offset, &mut bytes).map(|()| bytes)
    })
}
