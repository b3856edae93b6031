//! Other contents of a device: partition tables, LVM's label, file systems, other RAID formats.
//!
//! The superblocks 0.90 and 1.0 stand at the end of the device, where the last partition or LVM's
//! last volume ends as well. So a superblock counts only if nothing else on the device says that
//! its place is its own; see "Whose place it is" in `docs/reference/on-disk/md.md`.

mod disk;
mod filesystems;
mod lvm;
mod set;
mod tables;

use std::fmt;
use std::ops::Range;

use pumice_base::units::SECTOR;

use crate::metadata::Metadata;
use crate::read_at::ReadAt;
use crate::superblock::Superblock;
use crate::superblock::v1::MAX_BYTES;
use disk::Disk;

pub use set::{Strangers, strangers};

/// Bytes at the end of a device that a partition table, a file system or LVM usually leaves free.
const ROUNDING: u64 = 1 << 20;

/// A format that is not md's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContentKind {
    /// A partition table of DOS.
    Dos,
    /// A GUID partition table.
    Gpt,
    /// A physical volume of LVM.
    Lvm,
    /// An encrypted container, LUKS 1 or 2.
    Luks,
    /// A file system, ext2 to ext4.
    Ext,
    /// The file system XFS.
    Xfs,
    /// The file system Btrfs.
    Btrfs,
    /// The file system F2FS.
    F2fs,
    /// A file system FAT12, FAT16 or FAT32.
    Fat,
    /// The file system exFAT.
    Exfat,
    /// The file system NTFS.
    Ntfs,
    /// Linux's swap area.
    Swap,
    /// A device of bcache.
    Bcache,
    /// A RAID of Intel's firmware.
    Imsm,
    /// A RAID in SNIA's Common RAID Disk Data Format.
    Ddf,
    /// A device of ZFS.
    Zfs,
    /// A device of dm-integrity.
    Integrity,
    /// A RAID of SPDK.
    Spdk,
    /// Linux md in a partition.
    Md,
}

impl ContentKind {
    /// The name under which an array of md that may lie in it is found.
    const fn inside(self) -> &'static str {
        match self {
            Self::Dos | Self::Gpt => ": name a partition",
            Self::Lvm => ": name a logical volume",
            Self::Luks | Self::Bcache | Self::Integrity => {
                ": name the device that it appears as when it is open"
            }
            _ => "",
        }
    }

    /// Returns whether making it on a device leaves a superblock 1.2, in sector 8, as it was.
    const fn leaves_sector_8(self) -> bool {
        matches!(self, Self::Dos | Self::Fat | Self::Swap)
    }
}

impl fmt::Display for ContentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dos => "DOS partition table",
            Self::Gpt => "GPT partition table",
            Self::Lvm => "LVM physical volume",
            Self::Luks => "LUKS container",
            Self::Ext => "ext2/ext3/ext4 file system",
            Self::Xfs => "XFS file system",
            Self::Btrfs => "Btrfs file system",
            Self::F2fs => "F2FS file system",
            Self::Fat => "FAT file system",
            Self::Exfat => "exFAT file system",
            Self::Ntfs => "NTFS file system",
            Self::Swap => "swap area",
            Self::Bcache => "bcache device",
            Self::Imsm => "Intel RAID (IMSM) member",
            Self::Ddf => "DDF RAID member",
            Self::Zfs => "ZFS device",
            Self::Integrity => "dm-integrity device",
            Self::Spdk => "SPDK RAID member",
            Self::Md => "md superblock",
        })
    }
}

/// Bytes of the device that a format calls its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// From the start of the device.
    pub bytes: Range<u64>,
    /// The partition, by its number.
    pub partition: Option<u32>,
    /// Content at the start of the partition.
    pub holds: Option<ContentKind>,
}

/// A format that was found on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The format.
    pub kind: ContentKind,
    /// The id of this one, as its own tools print it.
    pub id: Option<String>,
    /// The name of what it belongs to: LVM's volume group.
    pub name: Option<String>,
    /// The bytes that it calls its own, if it says how many; of a partition table one for each
    /// partition, and behind them one for the whole disk if the table says how large that is.
    pub claims: Vec<Claim>,
}

impl Signature {
    fn new(kind: ContentKind, id: Option<String>, bytes: Option<u64>) -> Self {
        let claims = bytes.map(|end| Claim { bytes: 0..end, partition: None, holds: None });
        Self { kind, id, name: None, claims: claims.into_iter().collect() }
    }

    /// The end of what it calls its own.
    fn end(&self) -> Option<u64> {
        self.claims.iter().map(|claim| claim.bytes.end).max()
    }

    /// Returns whether it is of this device. One that says it is larger is of an array that begins
    /// with this device.
    fn is_of(&self, device_bytes: u64) -> bool {
        self.end().is_none_or(|end| end <= device_bytes)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let article = if matches!(
            self.kind,
            ContentKind::Ext
                | ContentKind::Xfs
                | ContentKind::F2fs
                | ContentKind::Exfat
                | ContentKind::Ntfs
                | ContentKind::Lvm
                | ContentKind::Imsm
                | ContentKind::Spdk
                | ContentKind::Md
        ) {
            "an"
        } else {
            "a"
        };
        write!(f, "{article} {}", self.kind)?;
        if let Some(name) = &self.name {
            write!(f, " of volume group {name}")?;
        }
        match &self.id {
            Some(id) => write!(f, " ({id})"),
            None => Ok(()),
        }
    }
}

/// The reason why a superblock may not be the device's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The format of the superblock.
    pub metadata: Metadata,
    /// The byte at which it lies.
    pub place: u64,
    /// The other format.
    pub other: Signature,
    /// The bytes that both call their own.
    pub claim: Option<Claim>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metadata, place, other, claim } = self;
        write!(f, "superblock {metadata} at byte {place}, and {other}: ")?;
        match claim {
            Some(Claim { partition: Some(number), bytes, .. }) if bytes.contains(place) => write!(
                f,
                "the superblock lies in partition {number} and belongs to it, not to the whole device; \
                 name the partition, or a copy of its bytes ({} bytes from {} on)",
                bytes.end - bytes.start,
                bytes.start
            )?,
            Some(Claim { partition: Some(number), .. }) => {
                write!(f, "the superblock's array and partition {number} cannot both hold the device")?;
            }
            Some(_) if other.kind == ContentKind::Lvm => {
                f.write_str(
                    "the superblock belongs to a logical volume, or is of an older use; name the volume",
                )?;
            }
            _ => f.write_str("one of them is of an older use, and which one cannot be told")?,
        }
        write!(f, "; with --metadata {metadata} the superblock is taken as the whole device's own")
    }
}

/// Lists what else a device holds, other than what says it is larger than the device: that is held
/// by an array which begins with the device. A part that cannot be read counts as empty.
#[must_use]
pub fn signatures(device: &dyn ReadAt) -> Vec<Signature> {
    let disk = Disk::new(device, 0..device.size_bytes());
    let mut found = at_start(&disk);
    found.extend(tables::find(&disk));
    let tail = disk.tail();
    if tail.has(b"Intel Raid ISM Cfg Sig. ", &[1024, 8192]) {
        found.push(Signature::new(ContentKind::Imsm, None, None));
    }
    if tail.has(&[0xDE, 0x11, 0xDE, 0x11], &[512, 4096]) {
        found.push(Signature::new(ContentKind::Ddf, None, None));
    }
    found.retain(|found| found.is_of(device.size_bytes()));
    found
}

/// The words for what a device without a superblock of md holds, to follow its name and that it
/// has none; nothing if it holds nothing that is known.
#[must_use]
pub fn holds(device: &dyn ReadAt) -> String {
    let mut found = signatures(device);
    found.extend(filesystems::zfs(&Disk::new(device, 0..device.size_bytes())));
    let each = found.iter().map(|other| format!("{other}{}", other.kind.inside()));
    match each.collect::<Vec<_>>() {
        each if each.is_empty() => String::new(),
        each => format!("; it holds {}", each.join(", and ")),
    }
}

/// Signatures in a disk or partition, other than partitions.
fn at_start(disk: &Disk<'_>) -> Vec<Signature> {
    let mut found = filesystems::find(disk);
    found.extend(lvm::find(disk));
    found
}

/// The first of `found`, the [`signatures`] of the device, by which `superblock` may not be its
/// own.
#[must_use]
pub fn conflict(superblock: &Superblock, device_bytes: u64, found: &[Signature]) -> Option<Conflict> {
    let place = superblock.super_offset.get() * SECTOR;
    let of = |other: &Signature, claim: Option<&Claim>| {
        let (other, claim) = (other.clone(), claim.cloned());
        Some(Conflict { metadata: superblock.metadata, place, other, claim })
    };
    // At the end of the disk, and of the whole disk.
    let container = found.iter().find(|other| matches!(other.kind, ContentKind::Imsm | ContentKind::Ddf));
    if let Some(other) = container {
        return of(other, None);
    }
    match superblock.metadata {
        Metadata::V0_90 | Metadata::V1_0 => {
            // The content of the array ends before the superblock; on a member of a larger array it
            // ends nowhere near it.
            let spare = if holds_as_much_as_a_member(superblock) { 0 } else { ROUNDING };
            let place = place.saturating_sub(spare)..place + MAX_BYTES as u64;
            found.iter().find_map(|other| {
                let meets = |claim: &&Claim| overlap(&claim.bytes, &place);
                other.claims.iter().find(meets).and_then(|claim| of(other, Some(claim)))
            })
        }
        Metadata::V1_1 | Metadata::V1_2 => {
            let data = superblock.data_offset_bytes()..device_bytes;
            let written_over = superblock.metadata == Metadata::V1_2;
            found.iter().filter(|other| !written_over || other.kind.leaves_sector_8()).find_map(|other| {
                // A partition without anything in it is usually of an older use: mdadm leaves the
                // table where it was.
                let meets = |claim: &&Claim| {
                    (claim.partition.is_none() || claim.holds.is_some()) && overlap(&claim.bytes, &data)
                };
                other.claims.iter().find(meets).and_then(|claim| of(other, Some(claim)))
            })
        }
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Returns whether the array is about as large as the data area of one member, so that what the
/// array holds looks on a member as if the member held it.
fn holds_as_much_as_a_member(superblock: &Superblock) -> bool {
    let member = superblock.size.get().saturating_mul(SECTOR);
    superblock.arrangement().is_ok_and(|array| array.array_bytes() <= member.saturating_add(ROUNDING))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pieces: &[(usize, &[u8])]) -> Vec<u8> {
        let mut disk = vec![0; 1 << 20];
        for (at, bytes) in pieces {
            disk[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        disk
    }

    #[test]
    fn what_a_device_without_a_superblock_holds_is_named() {
        let uberblock = 0x00BA_B10C_u64;
        for (pieces, words) in [
            (&[][..], ""),
            (&[(0, &b"integrt\0"[..])][..], "a dm-integrity device: name the device that it appears as"),
            (&[(0, b"SPDKRAID")], "an SPDK RAID member"),
            (&[(132 << 10, &uberblock.to_le_bytes())], "a ZFS device"),
            (&[(255 << 10, &uberblock.to_be_bytes())], "a ZFS device"),
            (&[(256 << 10, &uberblock.to_le_bytes())], ""),
            (&[((1 << 20) - 1024, b"Intel Raid ISM Cfg Sig. ")], "an Intel RAID (IMSM) member"),
            (&[(0, b"SPDKRAID"), ((1 << 20) - 512, &[0xDE, 0x11, 0xDE, 0x11])], ", and a DDF RAID member"),
        ] {
            let said = holds(&&with(pieces)[..]);
            assert!(said.contains(words) && said.is_empty() == words.is_empty(), "{said} {words}");
        }
    }
}
