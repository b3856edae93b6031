//! File systems, swap, LUKS and bcache: their marks, ids and sizes.
//!
//! Places of fields: the documentation of each format in Linux (`Documentation/filesystems`), the
//! LUKS specifications, and Microsoft's of FAT, exFAT and NTFS.

use super::disk::Disk;
use super::{ContentKind, Signature};
use crate::bytes::{array, u16_at, u32_at, u64_at};
use std::ops::Range;

/// ZFS's ring of uberblocks in the first label: 128 KiB, of which each entry has 1 KiB or more.
const ZFS: Range<u64> = 128 << 10..256 << 10;
/// An uberblock begins with this, in the byte order of the machine that wrote it.
const UBERBLOCK: u64 = 0x00BA_B10C;
/// Btrfs's superblock.
const BTRFS: u64 = 64 << 10;
/// The mark of bcache's superblock, at sector 8.
const BCACHE: [u8; 16] =
    [0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA, 0x82, 0x65, 0xF5, 0x7F, 0x48, 0xBA, 0x6D, 0x81];

/// Finds the file systems at the start of a disk or partition.
pub(super) fn find(disk: &Disk<'_>) -> Vec<Signature> {
    let head = disk.head();
    let of = [fat, exfat, ntfs, luks, xfs, ext, f2fs, swap];
    let mut found: Vec<Signature> = of.into_iter().filter_map(|format| format(head)).collect();
    if head[4096 + 24..].starts_with(&BCACHE) {
        found.push(Signature::new(ContentKind::Bcache, Some(uuid(head, 4096 + 40)), None));
    }
    if head.starts_with(b"integrt\0") {
        found.push(Signature::new(ContentKind::Integrity, None, None));
    }
    if head.starts_with(b"SPDKRAID") {
        found.push(Signature::new(ContentKind::Spdk, None, None));
    }
    found.extend(btrfs(disk));
    found
}

/// 16 bytes as a UUID is usually printed.
pub(super) fn uuid(bytes: &[u8], at: usize) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let id: [u8; 16] = array(bytes, at);
    let parts = [&id[..4], &id[4..6], &id[6..8], &id[8..10], &id[10..]];
    parts.map(hex).join("-")
}

/// Returns whether sector 0 is the boot sector of a file system rather than a partition table.
pub(super) fn is_boot_sector(head: &[u8]) -> bool {
    fat(head).is_some() || exfat(head).is_some() || ntfs(head).is_some()
}

fn fat(head: &[u8]) -> Option<Signature> {
    let serial_at = match (&head[54..57], &head[82..87]) {
        (_, b"FAT32") => 67,
        (b"FAT", _) => 39,
        _ => return None,
    };
    let sector = u64::from(u16_at(head, 11));
    if head[510..512] != [0x55, 0xAA] || !sector.is_power_of_two() || !(512..=4096).contains(&sector) {
        return None;
    }
    let sectors = match u16_at(head, 19) {
        0 => u64::from(u32_at(head, 32)),
        few => u64::from(few),
    };
    let serial = u32_at(head, serial_at);
    let id = format!("{:04X}-{:04X}", serial >> 16, serial & 0xFFFF);
    Some(Signature::new(ContentKind::Fat, Some(id), Some(sectors * sector)))
}

fn exfat(head: &[u8]) -> Option<Signature> {
    if !head[3..].starts_with(b"EXFAT   ") {
        return None;
    }
    let bytes = 1_u64.checked_shl(u32::from(head[108]))?.checked_mul(u64_at(head, 72))?;
    let serial = u32_at(head, 100);
    Some(Signature::new(
        ContentKind::Exfat,
        Some(format!("{:04X}-{:04X}", serial >> 16, serial & 0xFFFF)),
        Some(bytes),
    ))
}

fn ntfs(head: &[u8]) -> Option<Signature> {
    if !head[3..].starts_with(b"NTFS    ") {
        return None;
    }
    // The last sector, the copy of the first, is not counted.
    let bytes = u64_at(head, 40).saturating_add(1).saturating_mul(u64::from(u16_at(head, 11)));
    Some(Signature::new(ContentKind::Ntfs, Some(format!("{:016X}", u64_at(head, 72))), Some(bytes)))
}

fn luks(head: &[u8]) -> Option<Signature> {
    if !head.starts_with(b"LUKS\xBA\xBE") {
        return None;
    }
    // It holds what the device has behind its header, and does not say how much that is.
    let id = &head[168..208];
    let id: String = id.iter().take_while(|b| b.is_ascii_graphic()).map(|b| char::from(*b)).collect();
    Some(Signature::new(ContentKind::Luks, Some(id), None))
}

fn xfs(head: &[u8]) -> Option<Signature> {
    if !head.starts_with(b"XFSB") {
        return None;
    }
    let block = u32::from_be_bytes(array(head, 4));
    let bytes = u64::from_be_bytes(array(head, 8)).saturating_mul(u64::from(block));
    Some(Signature::new(ContentKind::Xfs, Some(uuid(head, 32)), Some(bytes)))
}

fn ext(head: &[u8]) -> Option<Signature> {
    const AT: usize = 1024;
    const INCOMPAT_64BIT: u32 = 0x80;
    if u16_at(head, AT + 56) != 0xEF53 {
        return None;
    }
    let shift = u32_at(head, AT + 24);
    let high = match u32_at(head, AT + 96) & INCOMPAT_64BIT {
        0 => 0,
        _ => u64::from(u32_at(head, AT + 0x150)),
    };
    let blocks = high << 32 | u64::from(u32_at(head, AT + 4));
    // Blocks of 1 to 64 KiB.
    let bytes = (shift <= 6).then(|| blocks.saturating_mul(1024 << shift))?;
    Some(Signature::new(ContentKind::Ext, Some(uuid(head, AT + 104)), Some(bytes)))
}

fn f2fs(head: &[u8]) -> Option<Signature> {
    const AT: usize = 1024;
    if u32_at(head, AT) != 0xF2F5_2010 {
        return None;
    }
    let bytes = 1_u64.checked_shl(u32_at(head, AT + 16))?.checked_mul(u64_at(head, AT + 36))?;
    Some(Signature::new(ContentKind::F2fs, Some(uuid(head, AT + 108)), Some(bytes)))
}

fn swap(head: &[u8]) -> Option<Signature> {
    const PAGE: u64 = 4096;
    if !head[4086..].starts_with(b"SWAPSPACE2") || u32_at(head, 1024) != 1 {
        return None;
    }
    let bytes = (u64::from(u32_at(head, 1028)) + 1) * PAGE;
    Some(Signature::new(ContentKind::Swap, Some(uuid(head, 1036)), Some(bytes)))
}

fn btrfs(disk: &Disk<'_>) -> Option<Signature> {
    /// Of the record of the device that the superblock is on.
    const DEVICE: usize = 0xC9;
    let bytes = disk.read(BTRFS, 4096);
    if !bytes[64..].starts_with(b"_BHRfS_M") || u64_at(&bytes, 48) != BTRFS {
        return None;
    }
    Some(Signature::new(
        ContentKind::Btrfs,
        Some(uuid(&bytes, DEVICE + 66)),
        Some(u64_at(&bytes, DEVICE + 8)),
    ))
}

/// A device of ZFS. It says nothing of its size where that could be read without its lists of names
/// and values, so it claims no bytes: it is looked for only to name what a device holds.
pub(super) fn zfs(disk: &Disk<'_>) -> Option<Signature> {
    let ring = disk.read(ZFS.start, (ZFS.end - ZFS.start) as usize);
    let begins = |entry: &[u8]| [UBERBLOCK, UBERBLOCK.swap_bytes()].contains(&u64_at(entry, 0));
    ring.chunks(1024).any(begins).then(|| Signature::new(ContentKind::Zfs, None, None))
}
