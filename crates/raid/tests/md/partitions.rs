//! Places of partitions, in tables that are built here by the specifications, byte by byte.

use proptest::prelude::*;
use pumice_raid::ReadAt;
use pumice_raid::partition::{PartitionError, place};
use std::io;

struct Disk(Vec<u8>);

impl ReadAt for Disk {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.size_bytes());
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(&self.0[offset as usize..][..buf.len()]);
        Ok(())
    }
}

const SECTORS: usize = 4096;

fn put(disk: &mut [u8], sector: usize, slot: usize, kind: u8, start: u32, sectors: u32) {
    let at = sector * 512 + 446 + 16 * slot;
    disk[at + 4] = kind;
    disk[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
    disk[at + 12..at + 16].copy_from_slice(&sectors.to_le_bytes());
    disk[sector * 512 + 510..sector * 512 + 512].copy_from_slice(&[0x55, 0xAA]);
}

/// Two primary partitions, and three logical ones.
fn dos() -> Vec<u8> {
    let mut disk = vec![0; SECTORS * 512];
    put(&mut disk, 0, 0, 0x83, 8, 100);
    put(&mut disk, 0, 1, 0x05, 1000, 2000);
    put(&mut disk, 0, 3, 0xFD, 200, 300);
    for (table, next, own) in [(1000, Some(1200), 100), (1200, Some(1800), 150), (1800, None, 90)] {
        put(&mut disk, table, 0, 0xFD, 8, own);
        if let Some(next) = next {
            put(&mut disk, table, 1, 0x05, next as u32 - 1000, 300);
        }
    }
    disk
}

fn sectors(disk: &[u8], number: u32) -> Result<(u64, u64), PartitionError> {
    place(&Disk(disk.to_vec()), number).map(|range| (range.start / 512, (range.end - range.start) / 512))
}

#[test]
fn partitions_of_dos_are_counted_as_linux_does() {
    let disk = dos();
    for (number, expected) in
        [(1, (8, 100)), (4, (200, 300)), (5, (1008, 100)), (6, (1208, 150)), (7, (1808, 90))]
    {
        assert_eq!(sectors(&disk, number).unwrap(), expected, "{number}");
    }
    assert!(matches!(sectors(&disk, 2), Err(PartitionError::Extended(2))));
    for number in [0, 3, 8, 200] {
        assert!(matches!(sectors(&disk, number), Err(PartitionError::Number(_))), "{number}");
    }
    assert!(matches!(sectors(&vec![0; 65536], 1), Err(PartitionError::NoTable)));
}

#[test]
fn a_broken_chain_a_circle_and_a_place_off_the_disk_are_refused() {
    let mut disk = dos();
    disk[1200 * 512 + 511] = 0;
    assert!(matches!(sectors(&disk, 6), Err(PartitionError::Chain(6))));
    let mut disk = dos();
    put(&mut disk, 1800, 1, 0x05, 0, 300);
    assert!(matches!(sectors(&disk, 200), Err(PartitionError::Number(200))), "a circle ends");
    let mut disk = dos();
    put(&mut disk, 1800, 0, 0xFD, 8, 3000);
    assert!(matches!(sectors(&disk, 7), Err(PartitionError::Chain(7))), "outside the extended one");
    let mut disk = dos();
    put(&mut disk, 0, 3, 0xFD, 200, 4000);
    assert!(matches!(sectors(&disk, 4), Err(PartitionError::Outside { number: 4, .. })));
}

const ENTRIES: usize = 128;

/// A GPT with both copies, and partitions 1 and 3.
fn gpt(sector: usize) -> Vec<u8> {
    let mut disk = vec![0; SECTORS * sector];
    put(&mut disk, 0, 0, 0xEE, 1, u32::MAX);
    let table = ENTRIES * 128 / sector;
    let mut entries = vec![0; ENTRIES * 128];
    for (index, first, last) in [(0, 100u64, 199u64), (2, 300, 399)] {
        entries[index * 128] = 7;
        entries[index * 128 + 32..][..8].copy_from_slice(&first.to_le_bytes());
        entries[index * 128 + 40..][..8].copy_from_slice(&last.to_le_bytes());
    }
    let last = SECTORS - 1;
    for (own, other, at) in [(1, last, 2), (last, 1, last - table)] {
        disk[at * sector..][..entries.len()].copy_from_slice(&entries);
        let mut header = vec![0; 92];
        header[..8].copy_from_slice(b"EFI PART");
        header[10] = 1;
        header[12] = 92;
        let mut word = |at: usize, value: u64| header[at..at + 8].copy_from_slice(&value.to_le_bytes());
        word(24, own as u64);
        word(32, other as u64);
        word(40, (2 + table) as u64);
        word(48, (last - table - 1) as u64);
        word(72, at as u64);
        header[56] = 9;
        header[80] = ENTRIES as u8;
        header[84] = 128;
        header[88..92].copy_from_slice(&crc32fast::hash(&entries).to_le_bytes());
        let crc = crc32fast::hash(&header);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        disk[own * sector..][..92].copy_from_slice(&header);
    }
    disk
}

#[test]
fn partitions_of_a_gpt_by_either_copy() {
    for sector in [512, 4096] {
        let whole = gpt(sector);
        let place = |disk: &[u8], number| place(&Disk(disk.to_vec()), number);
        let range = |first: u64, end: u64| first * sector as u64..end * sector as u64;
        assert_eq!(place(&whole, 1).unwrap(), range(100, 200));
        assert_eq!(place(&whole, 3).unwrap(), range(300, 400));
        for number in [0, 2, 129] {
            assert!(matches!(place(&whole, number), Err(PartitionError::Number(_))), "{number}");
        }
        // A damaged entry spoils one copy; the other counts.
        let mut one = whole.clone();
        one[2 * sector + 33] ^= 1;
        assert_eq!(place(&one, 1).unwrap(), range(100, 200));
        // Both are damaged: nothing is guessed.
        let mut both = one.clone();
        both[(SECTORS - 1) * sector + 56] ^= 1;
        assert!(matches!(place(&both, 1), Err(PartitionError::Gpt(_))));
    }
}

#[test]
fn two_good_copies_that_differ_are_refused() {
    let mut disk = gpt(512);
    // Another disk's copy: good by itself.
    let at = (SECTORS - 1) * 512;
    disk[at + 56] = 8;
    disk[at + 16..at + 20].fill(0);
    let crc = crc32fast::hash(&disk[at..at + 92]);
    disk[at + 16..at + 20].copy_from_slice(&crc.to_le_bytes());
    assert!(matches!(place(&Disk(disk), 1), Err(PartitionError::Differ("disk_guid"))));
}

proptest! {
    /// Damage anywhere in the tables gives the same place, or none: never another one by a GPT, and
    /// never one off the disk.
    #[test]
    fn damage_gives_no_other_place_of_a_gpt(at in 512usize..34 * 512, bit in 0u32..8) {
        let mut disk = gpt(512);
        disk[at] ^= 1 << bit;
        if let Ok(range) = place(&Disk(disk), 1) {
            prop_assert_eq!(range, 100 * 512..200 * 512);
        }
    }

    #[test]
    fn any_bytes_have_a_place_on_the_disk_or_none(bytes in prop::collection::vec(any::<u8>(), 0..3000), number in 0u32..12) {
        let mut bytes = bytes;
        if bytes.len() >= 512 {
            bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
        }
        let size = bytes.len() as u64;
        if let Ok(range) = place(&Disk(bytes), number) {
            prop_assert!(range.start < range.end && range.end <= size);
        }
    }
}
