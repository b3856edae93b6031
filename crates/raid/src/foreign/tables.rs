//! Partition tables of DOS, and GUID partition tables.
//!
//! Layout: the UEFI Specification 2.10, chapter 5.

use std::ops::Range;

use super::disk::Disk;
use super::filesystems::{is_boot_sector, uuid};
use super::{Claim, ContentKind, Signature, at_start};
use crate::bytes::{u32_at, u64_at};
use crate::metadata::Metadata;
use crate::superblock::MAGIC;
use pumice_base::units::SECTOR;

/// The type of the one partition of a table that only keeps others away from a GPT disk.
const PROTECTIVE: u8 = 0xEE;
/// The most logical partitions that are followed.
const LOGICAL: usize = 64;
/// The most entries of a GPT that are read.
const ENTRIES: u32 = 1024;

/// The partition tables of a disk: two, if one of DOS with partitions of its own stands before a
/// GPT that it does not protect.
pub(super) fn find(disk: &Disk<'_>) -> Vec<Signature> {
    let head = disk.head();
    let entries = dos_entries(head).unwrap_or_default();
    let protects = entries.iter().any(|entry| entry.kind == PROTECTIVE);
    let backup = || {
        let tail = disk.tail();
        [512, 4096].into_iter().find_map(|sector| gpt(disk, sector, tail.at(sector)))
    };
    let primary = [512, 4096].into_iter().find_map(|sector| gpt(disk, sector, &head[sector..]));
    let mut found = Vec::new();
    if !entries.is_empty() {
        found.extend(primary.or_else(|| protects.then(backup).flatten()));
    }
    if !entries.is_empty() && !protects {
        found.push(dos(disk, head, &entries));
    }
    found
}

/// An entry of a table of DOS, in sectors of 512 bytes.
struct Entry {
    slot: u32,
    kind: u8,
    start: u64,
    sectors: u64,
}

impl Entry {
    fn bytes(&self, from: u64) -> Range<u64> {
        let start = from.saturating_add(self.start).saturating_mul(SECTOR);
        start..start.saturating_add(self.sectors.saturating_mul(SECTOR))
    }

    const fn is_extended(&self) -> bool {
        matches!(self.kind, 0x05 | 0x0F | 0x85)
    }
}

/// The entries in use; `None` if the sector is no table, or an empty one.
fn dos_entries(sector: &[u8]) -> Option<Vec<Entry>> {
    if sector.get(510..512)? != [0x55, 0xAA] || is_boot_sector(sector) {
        return None;
    }
    let mut entries = Vec::new();
    for slot in 0..4_u32 {
        let at = 446 + 16 * slot as usize;
        if !matches!(sector[at], 0 | 0x80) {
            return None;
        }
        let (kind, start, sectors) = (sector[at + 4], u32_at(sector, at + 8), u32_at(sector, at + 12));
        if kind != 0 && sectors != 0 {
            entries.push(Entry { slot, kind, start: u64::from(start), sectors: u64::from(sectors) });
        }
    }
    (!entries.is_empty()).then_some(entries)
}

fn dos(disk: &Disk<'_>, head: &[u8], entries: &[Entry]) -> Signature {
    let mut found = Signature::new(ContentKind::Dos, Some(format!("{:08x}", u32_at(head, 440))), None);
    let mut claim = |bytes: Range<u64>, partition: u32| {
        let holds = holds(&disk.part(&bytes));
        found.claims.push(Claim { bytes, partition: Some(partition), holds });
    };
    for entry in entries.iter().filter(|entry| entry.is_extended()) {
        logical(disk, entry).into_iter().zip(5..).for_each(|(bytes, number)| claim(bytes, number));
    }
    // Behind the logical ones, which lie in it.
    entries.iter().for_each(|entry| claim(entry.bytes(0), entry.slot + 1));
    found
}

/// The logical partitions in an extended one: a chain of tables, each with a partition and the
/// place of the next.
fn logical(disk: &Disk<'_>, extended: &Entry) -> Vec<Range<u64>> {
    let mut out = Vec::new();
    let mut table = extended.start;
    for _ in 0..LOGICAL {
        let sector = disk.read(table.saturating_mul(SECTOR), SECTOR as usize);
        let Some(entries) = dos_entries(&sector) else { break };
        out.extend(entries.iter().find(|entry| !entry.is_extended()).map(|entry| entry.bytes(table)));
        match entries.iter().find(|entry| entry.is_extended()) {
            Some(next) => table = extended.start.saturating_add(next.start),
            None => break,
        }
    }
    out
}

/// The GPT whose header this is, on a disk of sectors of `sector` bytes.
fn gpt(disk: &Disk<'_>, sector: usize, header: &[u8]) -> Option<Signature> {
    let len = u32_at(header, 12) as usize;
    if !header.starts_with(b"EFI PART") || !(92..=sector).contains(&len) || header.len() < len {
        return None;
    }
    let mut summed = header[..len].to_vec();
    summed[16..20].fill(0);
    if crc32fast::hash(&summed) != u32_at(header, 16) {
        return None;
    }
    let sector = sector as u64;
    let bytes = |lba: u64| lba.saturating_mul(sector);
    // The header's own sector and that of the other copy: one of them is the disk's last.
    let last = u64_at(header, 24).max(u64_at(header, 32));
    let mut found = Signature::new(ContentKind::Gpt, Some(uuid(&mixed_endian(header, 56), 0)), None);
    let (count, size) = (u32_at(header, 80).min(ENTRIES), u32_at(header, 84) as usize);
    if (128..=4096).contains(&size) {
        let entries = disk.read(bytes(u64_at(header, 72)), count as usize * size);
        for (entry, number) in entries.chunks_exact(size).zip(1..) {
            let (first, end) = (u64_at(entry, 32), u64_at(entry, 40).saturating_add(1));
            if entry[..16] != [0; 16] && first < end {
                let range = bytes(first)..bytes(end);
                found.claims.push(Claim { bytes: range, partition: Some(number), holds: None });
            }
        }
    }
    found.claims.push(Claim { bytes: 0..bytes(last.saturating_add(1)), partition: None, holds: None });
    Some(found)
}

/// A GUID in the order in which it is printed.
fn mixed_endian(bytes: &[u8], at: usize) -> [u8; 16] {
    let mut id: [u8; 16] = crate::bytes::array(bytes, at);
    id[..4].reverse();
    id[4..6].reverse();
    id[6..8].reverse();
    id
}

/// The first format that is found in a partition.
fn holds(partition: &Disk<'_>) -> Option<ContentKind> {
    if let Some(found) = at_start(partition).first() {
        return Some(found.kind);
    }
    let places = Metadata::ALL.iter().filter_map(|format| format.super_offset(partition.bytes()));
    let is_md = |place: u64| u32_at(&partition.read(place, 512), 0) == MAGIC;
    places.into_iter().any(is_md).then_some(ContentKind::Md)
}
