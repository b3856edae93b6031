//! Stale and foreign metadata, one use of a disk after another, at all the places where formats
//! have theirs. The array that is found is of the last use, or none is.

use crate::devices::{Sparse, spec};
use pumice_raid::layout::Level;
use pumice_raid::superblock::v1::V1;
use pumice_raid::{FormatSpec, Known, Metadata, ReadAt, Uuid, assemble, probe_together};
use std::ops::Range;

const MIB: u64 = 1 << 20;
const SECTOR: u64 = 512;

/// Numbers from a seed (SplitMix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// A use of a disk by something that is not an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    Ext,
    Xfs,
    Swap,
    Lvm,
    Luks,
    Btrfs,
    Fat,
    Imsm,
    Ddf,
}

const OTHERS: [Other; 9] = [
    Other::Ext,
    Other::Xfs,
    Other::Swap,
    Other::Lvm,
    Other::Luks,
    Other::Btrfs,
    Other::Fat,
    Other::Imsm,
    Other::Ddf,
];

/// A table of partitions, one of which takes the disk from 1 MiB on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Dos,
    Logical,
    Gpt,
}

/// One use of all disks of the machine.
#[derive(Debug, Clone, Copy)]
enum Use {
    /// Members of one array on whole disks.
    Whole(Metadata, Level),
    /// The same in partitions.
    Parts(Table, Metadata, Level),
    /// Each disk by itself.
    Apart(Other),
    /// Each in a partition.
    ApartIn(Table, Other),
}

const LEVELS: [Level; 4] = [Level::Raid1, Level::Raid5, Level::Raid6, Level::Raid4];

fn draw_use(draw: &mut Draw) -> Use {
    let metadata = draw.one_of(&Metadata::ALL);
    let level = draw.one_of(&LEVELS);
    let table = draw.one_of(&[Table::Dos, Table::Logical, Table::Gpt]);
    match draw.below(4) {
        0 | 1 => Use::Whole(metadata, level),
        2 => match draw.below(2) {
            0 => Use::Parts(table, metadata, level),
            // Containers are of whole disks.
            _ => Use::ApartIn(table, draw.one_of(&OTHERS[..7])),
        },
        _ => Use::Apart(draw.one_of(&OTHERS)),
    }
}

/// Writes onto a disk, or into a partition of it.
struct Area<'d> {
    disk: &'d mut Sparse,
    range: Range<u64>,
}

impl Area<'_> {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        assert!(at + bytes.len() as u64 <= self.len());
        self.disk.write(self.range.start + at, bytes);
    }
}

/// Writes what makes a disk, or a partition, be used so; all that the tool which makes it writes
/// within the first 128 KiB.
fn make_other(area: &mut Area<'_>, other: Other, draw: &mut Draw) {
    let len = area.len();
    let id = draw.next().to_le_bytes().repeat(2);
    let mut block = vec![0; 4096];
    match other {
        Other::Ext => {
            area.write(0, &[0; 1024]);
            let mut sb = vec![0; 1024];
            sb[4..8].copy_from_slice(&((len / 4096) as u32).to_le_bytes());
            sb[24] = 2;
            sb[56..58].copy_from_slice(&[0x53, 0xEF]);
            sb[104..120].copy_from_slice(&id);
            area.write(1024, &sb);
            // The table of groups in the second block.
            area.write(4096, &[7; 4096]);
        }
        Other::Xfs => {
            block[..4].copy_from_slice(b"XFSB");
            block[4..8].copy_from_slice(&4096_u32.to_be_bytes());
            block[8..16].copy_from_slice(&(len / 4096).to_be_bytes());
            block[32..48].copy_from_slice(&id);
            area.write(0, &block);
            area.write(4096, &[b'A'; 4096]);
        }
        Other::Swap => {
            block[1024] = 1;
            block[1028..1032].copy_from_slice(&((len / 4096 - 1) as u32).to_le_bytes());
            block[1036..1052].copy_from_slice(&id);
            block[4086..].copy_from_slice(b"SWAPSPACE2");
            area.write(0, &block);
        }
        Other::Lvm => {
            let label = &mut block[512..1024];
            label[..8].copy_from_slice(b"LABELONE");
            label[20..24].copy_from_slice(&32_u32.to_le_bytes());
            label[24..32].copy_from_slice(b"LVM2 001");
            let text: Vec<u8> = id.iter().chain(&id).map(|byte| b'a' + byte % 26).collect();
            label[32..64].copy_from_slice(&text);
            label[64..72].copy_from_slice(&len.to_le_bytes());
            area.write(0, &block);
            area.write(4096, &[b' '; 1024]);
        }
        Other::Luks => {
            block[..8].copy_from_slice(b"LUKS\xBA\xBE\0\x02");
            let text: Vec<u8> = id.iter().map(|byte| b'a' + byte % 26).collect();
            block[168..184].copy_from_slice(&text);
            area.write(0, &block);
            area.write(4096, &[b'{'; 4096]);
        }
        Other::Btrfs => {
            // mkfs clears what was there.
            area.write(0, &[0; 64 << 10]);
            block[48..56].copy_from_slice(&(64_u64 << 10).to_le_bytes());
            block[64..72].copy_from_slice(b"_BHRfS_M");
            block[0xC9 + 8..0xC9 + 16].copy_from_slice(&len.to_le_bytes());
            block[0xC9 + 66..0xC9 + 82].copy_from_slice(&id);
            area.write(64 << 10, &block);
        }
        Other::Fat => {
            block[11..13].copy_from_slice(&512_u16.to_le_bytes());
            block[32..36].copy_from_slice(&((len / SECTOR) as u32).to_le_bytes());
            block[67..71].copy_from_slice(&id[..4]);
            block[82..90].copy_from_slice(b"FAT32   ");
            block[510..512].copy_from_slice(&[0x55, 0xAA]);
            area.write(0, &block);
        }
        Other::Imsm => area.write(len - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00"),
        Other::Ddf => area.write(len - 512, &[0xDE, 0x11, 0xDE, 0x11]),
    }
}

fn dos_sector(entries: &[(u8, u64, u64)], id: u32) -> Vec<u8> {
    let mut sector = vec![0; 512];
    sector[440..444].copy_from_slice(&id.to_le_bytes());
    for (i, (kind, start, sectors)) in entries.iter().enumerate() {
        let entry = &mut sector[446 + 16 * i..462 + 16 * i];
        entry[4] = *kind;
        entry[8..12].copy_from_slice(&(*start as u32).to_le_bytes());
        entry[12..16].copy_from_slice(&(*sectors as u32).to_le_bytes());
    }
    sector[510..].copy_from_slice(&[0x55, 0xAA]);
    sector
}

/// Writes a table with one partition, up to `end` or as far as the table lets it; returns its
/// bytes.
fn make_table(disk: &mut Sparse, table: Table, end: u64, draw: &mut Draw) -> Range<u64> {
    let id = draw.next() as u32;
    let last = disk.size / SECTOR;
    match table {
        Table::Dos => {
            disk.write(0, &dos_sector(&[(0xFD, 2048, end / SECTOR - 2048)], id));
            MIB..end / SECTOR * SECTOR
        }
        Table::Logical => {
            disk.write(0, &dos_sector(&[(5, 2048, end / SECTOR - 2048)], id));
            disk.write(MIB, &dos_sector(&[(0xFD, 2048, end / SECTOR - 4096)], 0));
            2 * MIB..end / SECTOR * SECTOR
        }
        Table::Gpt => {
            let end = (end / SECTOR).min(last - 33);
            let mut entry = vec![0; 128];
            entry[..16].fill(3);
            entry[32..40].copy_from_slice(&2048_u64.to_le_bytes());
            entry[40..48].copy_from_slice(&(end - 1).to_le_bytes());
            let mut entries = entry;
            entries.resize(128 * 128, 0);
            for (own, other, array) in [(1, last - 1, 2), (last - 1, 1, last - 33)] {
                let mut header = vec![0; 512];
                header[..8].copy_from_slice(b"EFI PART");
                header[10..12].copy_from_slice(&[1, 0]);
                header[12] = 92;
                header[24..32].copy_from_slice(&own.to_le_bytes());
                header[32..40].copy_from_slice(&other.to_le_bytes());
                header[56..64].copy_from_slice(&draw.next().to_le_bytes());
                header[72..80].copy_from_slice(&array.to_le_bytes());
                header[80] = 128;
                header[84] = 128;
                let sum = crc32fast::hash(&header[..92]);
                header[16..20].copy_from_slice(&sum.to_le_bytes());
                disk.write(own * SECTOR, &header);
                disk.write(array * SECTOR, &entries);
            }
            disk.write(0, &dos_sector(&[(0xEE, 1, last - 1)], 0));
            MIB..end * SECTOR
        }
    }
}

/// Makes an array of `areas` at `time`, and returns its UUID.
fn make_array(
    disks: &mut [Sparse],
    parts: &[Range<u64>],
    metadata: Metadata,
    level: Level,
    time: u64,
    draw: &mut Draw,
) -> Uuid {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&draw.next().to_le_bytes());
    let array_uuid = Uuid(uuid);
    // The writer makes no mirrors: they have the superblock of a RAID-5 with another level.
    let written = if level == Level::Raid1 { Level::Raid5 } else { level };
    let spec = FormatSpec {
        array_uuid,
        ctime: time,
        device_bytes: parts.iter().map(|part| part.end - part.start).collect(),
        device_uuids: (0..parts.len()).map(|_| Uuid(std::array::from_fn(|_| draw.next() as u8))).collect(),
        ..spec(metadata, written, parts.len())
    };
    let format = spec.format().unwrap();
    for ((member, part), disk) in format.members.iter().zip(parts).zip(disks) {
        for (i, (at, bytes)) in member.writes.iter().enumerate() {
            match level == Level::Raid1 && i == 0 {
                true => disk.write(part.start + at, &as_mirror(bytes, metadata)),
                false => disk.write(part.start + at, bytes),
            }
        }
    }
    array_uuid
}

/// A superblock with the level of a mirror.
fn as_mirror(bytes: &[u8], metadata: Metadata) -> Vec<u8> {
    if metadata == Metadata::V0_90 {
        let mut bytes = bytes.to_vec();
        let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        bytes[28..32].copy_from_slice(&1_u32.to_le_bytes());
        bytes[256..264].fill(0);
        bytes[152..156].fill(0);
        let sum: u64 = (0..4096).step_by(4).map(|at| u64::from(word(&bytes, at))).sum();
        let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
        bytes[152..156].copy_from_slice(&sum.to_le_bytes());
        return bytes;
    }
    let mut superblock = V1::decode(bytes, metadata).unwrap();
    (superblock.level, superblock.layout, superblock.chunk) = (1, 0, 0);
    superblock.encode()
}

/// Builds the disks. Returns the last use of the machine: the array, if it was one of whole disks.
fn build(draw: &mut Draw, disks: &mut [Sparse]) -> (Vec<Use>, Option<Uuid>) {
    let mut uses = Vec::new();
    let mut last = None;
    for age in 0..1 + draw.below(3) {
        // Clocks go wrong.
        let time = 1_700_000_000 + age * 1000 * [1, 1, 1, 0][draw.below(4) as usize];
        let what = draw_use(draw);
        uses.push(what);
        let whole: Vec<Range<u64>> = disks.iter().map(|disk| 0..disk.size).collect();
        // Partitions end with the disk, or on a whole MiB.
        let end = |disk: &Sparse| disk.size - [0, 0, 512, disk.size % MIB][(age as usize + 1) % 4];
        last = match what {
            Use::Whole(metadata, level) => Some(make_array(disks, &whole, metadata, level, time, draw)),
            Use::Parts(table, metadata, level) => {
                let parts: Vec<_> =
                    disks.iter_mut().map(|disk| make_table(disk, table, end(disk), draw)).collect();
                make_array(disks, &parts, metadata, level, time, draw);
                None
            }
            Use::Apart(other) => {
                for disk in disks.iter_mut() {
                    let range = 0..disk.size;
                    make_other(&mut Area { disk, range }, other, draw);
                }
                None
            }
            Use::ApartIn(table, other) => {
                for disk in disks.iter_mut() {
                    let range = make_table(disk, table, end(disk), draw);
                    make_other(&mut Area { disk, range }, other, draw);
                }
                None
            }
        };
    }
    if draw.below(3) == 0 {
        last = reuse(draw, disks, &mut uses).and(None);
    }
    (uses, last)
}

/// Puts one or two disks to another use, which leaves the last array without them.
fn reuse(draw: &mut Draw, disks: &mut [Sparse], uses: &mut Vec<Use>) -> Option<Uuid> {
    let first = draw.below(3) as usize;
    // A clock that was set back meanwhile would leave nothing to tell the two arrays apart.
    let time = 1_700_100_000;
    if draw.below(2) == 0 {
        let some = &mut disks[first..first + 2];
        let whole: Vec<Range<u64>> = some.iter().map(|disk| 0..disk.size).collect();
        let (metadata, level) = (draw.one_of(&Metadata::ALL), draw.one_of(&[Level::Raid1, Level::Raid5]));
        uses.push(Use::Whole(metadata, level));
        return Some(make_array(some, &whole, metadata, level, time, draw));
    }
    // A LUKS header says no size: on one member it may be held by the array.
    let other = draw.one_of(&[Other::Ext, Other::Xfs, Other::Swap, Other::Lvm, Other::Btrfs, Other::Imsm]);
    uses.push(Use::Apart(other));
    let range = 0..disks[first].size;
    let disk = &mut disks[first];
    make_other(&mut Area { disk, range }, other, draw);
    None
}

/// The outcome of one seed: whether an array was found, and whether it may be.
enum Outcome {
    Right,
    Refused,
    Wrong(String),
}

fn run(seed: u64) -> Outcome {
    let mut draw = Draw(seed);
    let size = 64 * MIB + draw.one_of(&[0, 48 * SECTOR, 17 * SECTOR, 96 * SECTOR, MIB / 2]);
    let mut disks: Vec<Sparse> = (0..4).map(|_| Sparse::new(size)).collect();
    let (uses, last) = build(&mut draw, &mut disks);
    let named: Vec<&dyn ReadAt> = disks.iter().map(|disk| disk as &dyn ReadAt).collect();
    let mut records = Vec::new();
    for (i, found) in probe_together(&named, Known::default()).into_iter().enumerate() {
        match found {
            Ok(Some(record)) => records.push((format!("m{i}"), record)),
            Ok(None) | Err(_) => return Outcome::Refused,
        }
    }
    match (assemble(records), last) {
        (Err(_), _) => Outcome::Refused,
        (Ok(array), Some(own)) if array.uuid() == own => Outcome::Right,
        (Ok(array), _) => Outcome::Wrong(format!("seed {seed}: {uses:?}: {} is taken", array.format())),
    }
}

#[test]
fn of_ten_thousand_stackings_no_array_of_an_older_use_is_taken() {
    let (mut right, mut refused, mut wrong) = (0, 0, Vec::new());
    for seed in 0..10_000 {
        match run(seed) {
            Outcome::Right => right += 1,
            Outcome::Refused => refused += 1,
            Outcome::Wrong(what) => wrong.push(what),
        }
    }
    println!("{right} right, {refused} refused, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(right > 1500, "{right}");
}
