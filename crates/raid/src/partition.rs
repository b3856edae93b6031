//! The place of one partition of a disk, by its number.
//!
//! Unlike [`foreign`](crate::foreign), which asks whether a table may claim a place, this reads
//! strictly: bytes at a wrong place would be checked, and repaired. Layout: the UEFI Specification
//! 2.10, chapter 5.

use std::io;
use std::ops::Range;

use pumice_base::units::SECTOR;

use crate::bytes::{u32_at, u64_at};
use crate::read_at::ReadAt;

/// Most logical partitions that are followed.
const LOGICAL: u32 = 128;
/// Most entries of a GPT.
const ENTRIES: u32 = 1024;
/// The type of a DOS partition that stands for a GPT.
const PROTECTIVE: u8 = 0xEE;

/// The reason why a partition has no place.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// The table cannot be read.
    #[error("partition table: {0}")]
    Read(#[from] io::Error),
    /// No table is there.
    #[error("there is no partition table")]
    NoTable,
    /// A GPT of which no copy is good.
    #[error("GPT: {0}; the copy at the end of the disk is no better")]
    Gpt(String),
    /// Two good copies of a GPT that differ.
    #[error("GPT: its two copies differ in {0}")]
    Differ(&'static str),
    /// A chain of logical partitions that is broken.
    #[error("the table of logical partition {0} is damaged")]
    Chain(u32),
    /// No partition has this number.
    #[error("there is no partition {0}")]
    Number(u32),
    /// A partition that is only a frame for others.
    #[error("partition {0} is extended: name one of the logical partitions in it")]
    Extended(u32),
    /// A partition that is not on the disk.
    #[error("partition {number} is bytes {} to {}; the disk has {disk}", .range.start, .range.end)]
    Outside {
        /// Its number.
        number: u32,
        /// Its bytes.
        range: Range<u64>,
        /// Bytes of the disk.
        disk: u64,
    },
}

/// An entry of a DOS table.
#[derive(Clone, Copy)]
struct Entry {
    kind: u8,
    start: u64,
    sectors: u64,
}

impl Entry {
    const fn is_extended(&self) -> bool {
        matches!(self.kind, 0x05 | 0x0F | 0x85)
    }

    fn bytes(&self, from: u64) -> Range<u64> {
        // Both have at most 33 bits.
        let start = (from + self.start) * SECTOR;
        start..start + self.sectors * SECTOR
    }
}

/// The four entries of a sector that ends with the mark of a table; `None` without the mark.
fn entries(sector: &[u8; 512]) -> Option<[Option<Entry>; 4]> {
    if sector[510..] != [0x55, 0xAA] {
        return None;
    }
    Some(std::array::from_fn(|slot| {
        let at = 446 + 16 * slot;
        let (kind, start, sectors) = (sector[at + 4], u32_at(sector, at + 8), u32_at(sector, at + 12));
        (kind != 0 && sectors != 0).then_some(Entry {
            kind,
            start: u64::from(start),
            sectors: u64::from(sectors),
        })
    }))
}

fn sector_at(device: &dyn ReadAt, sector: u64) -> io::Result<[u8; 512]> {
    let mut bytes = [0; 512];
    device.read_exact_at(sector.saturating_mul(SECTOR), &mut bytes)?;
    Ok(bytes)
}

/// The bytes of partition `number` of a disk, counted as Linux does: in a DOS table 1 to 4, logical
/// ones from 5 on; in a GPT the entry.
///
/// # Errors
/// If there is no such partition, or the table is damaged, or the partition is not on the disk.
pub fn place(device: &dyn ReadAt, number: u32) -> Result<Range<u64>, PartitionError> {
    let disk = device.size_bytes();
    let first = entries(&sector_at(device, 0)?).ok_or(PartitionError::NoTable)?;
    let protects = first.iter().flatten().any(|entry| entry.kind == PROTECTIVE);
    let range = match (protects, number) {
        (true, _) => in_gpt(device, number)?,
        (false, 1..=4) => {
            let entry = first[number as usize - 1].ok_or(PartitionError::Number(number))?;
            if entry.is_extended() {
                return Err(PartitionError::Extended(number));
            }
            entry.bytes(0)
        }
        (false, _) => logical(device, &first, number)?,
    };
    if range.is_empty() || range.end > disk {
        return Err(PartitionError::Outside { number, range, disk });
    }
    Ok(range)
}

/// A logical partition: each table of the chain has one, and the place of the next.
fn logical(
    device: &dyn ReadAt,
    first: &[Option<Entry>; 4],
    number: u32,
) -> Result<Range<u64>, PartitionError> {
    let extended = first.iter().flatten().find(|entry| entry.is_extended());
    let extended = extended.ok_or(PartitionError::Number(number))?;
    let within = extended.bytes(0);
    let mut table = extended.start;
    for at in 5..5 + LOGICAL {
        let chain = || PartitionError::Chain(at);
        let found = entries(&sector_at(device, table)?).ok_or_else(chain)?;
        let own = found.iter().flatten().find(|entry| !entry.is_extended());
        if at == number {
            let range = own.ok_or(PartitionError::Number(number))?.bytes(table);
            let inside = within.start <= range.start && range.end <= within.end;
            return if inside { Ok(range) } else { Err(chain()) };
        }
        let next = found.iter().flatten().find(|entry| entry.is_extended());
        table = extended.start + next.ok_or(PartitionError::Number(number))?.start;
    }
    Err(PartitionError::Number(number))
}

/// A copy of a GPT.
#[derive(PartialEq, Eq)]
struct Gpt {
    sector: u64,
    guid: [u8; 16],
    usable: (u64, u64),
    other: u64,
    size: usize,
    entries: Vec<u8>,
}

fn in_gpt(device: &dyn ReadAt, number: u32) -> Result<Range<u64>, PartitionError> {
    let mut why = None;
    for sector in [512, 4096] {
        let last = (device.size_bytes() / sector).checked_sub(1).ok_or(PartitionError::NoTable)?;
        let (primary, backup) = (copy(device, sector, 1), copy(device, sector, last));
        let gpt = match (primary, backup) {
            (Ok(primary), Ok(backup)) => {
                let same = [
                    ("disk_guid", primary.guid == backup.guid),
                    ("usable_lba", primary.usable == backup.usable),
                    ("alternate_lba", primary.other == last && backup.other == 1),
                    ("partition_entries", primary.entries == backup.entries),
                ];
                if let Some((field, _)) = same.into_iter().find(|(_, same)| !same) {
                    return Err(PartitionError::Differ(field));
                }
                primary
            }
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => one,
            (Err(primary), Err(_)) => {
                why.get_or_insert(primary);
                continue;
            }
        };
        return entry(&gpt, number);
    }
    Err(PartitionError::Gpt(why.unwrap_or_default()))
}

/// The copy whose header is in a sector.
fn copy(device: &dyn ReadAt, sector: u64, lba: u64) -> Result<Gpt, String> {
    let read = |at: u64, bytes: &mut [u8]| {
        let at = at.checked_mul(sector).ok_or("an lba is past the disk")?;
        device.read_exact_at(at, bytes).map_err(|error| error.to_string())
    };
    let mut header = vec![0; sector as usize];
    read(lba, &mut header)?;
    let len = u32_at(&header, 12) as usize;
    if !header.starts_with(b"EFI PART") || !(92..=sector as usize).contains(&len) {
        return Err("it has no header".to_owned());
    }
    let mut summed = header[..len].to_vec();
    summed[16..20].fill(0);
    if crc32fast::hash(&summed) != u32_at(&header, 16) {
        return Err("header_crc32 is wrong".to_owned());
    }
    if u64_at(&header, 24) != lba {
        return Err(format!("my_lba is {}; must be {lba}", u64_at(&header, 24)));
    }
    let (count, size) = (u32_at(&header, 80), u32_at(&header, 84) as usize);
    if count > ENTRIES || !(128..=4096).contains(&size) || !size.is_power_of_two() {
        return Err(format!("{count} entries of {size} bytes; at most {ENTRIES} of 128 to 4096"));
    }
    let mut entries = vec![0; count as usize * size];
    read(u64_at(&header, 72), &mut entries)?;
    if crc32fast::hash(&entries) != u32_at(&header, 88) {
        return Err("partition_entry_array_crc32 is wrong".to_owned());
    }
    let guid = crate::bytes::array(&header, 56);
    let usable = (u64_at(&header, 40), u64_at(&header, 48));
    Ok(Gpt { sector, guid, usable, other: u64_at(&header, 32), size, entries })
}

fn entry(gpt: &Gpt, number: u32) -> Result<Range<u64>, PartitionError> {
    let index = number.checked_sub(1).ok_or(PartitionError::Number(number))? as usize;
    let entry = gpt.entries.chunks_exact(gpt.size).nth(index).filter(|entry| entry[..16] != [0; 16]);
    let entry = entry.ok_or(PartitionError::Number(number))?;
    let (first, last) = (u64_at(entry, 32), u64_at(entry, 40));
    if first > last || first < gpt.usable.0 || last > gpt.usable.1 {
        let why = format!("partition {number} is sectors {first} to {last}, outside the usable ones");
        return Err(PartitionError::Gpt(why));
    }
    let byte = |lba: u64| lba.saturating_mul(gpt.sector);
    Ok(byte(first)..byte(last.saturating_add(1)))
}
