//! Code that the targets share: checksums that fit, so that the fuzzer comes past them, and devices
//! made of its bytes.

use std::io;

use pumice_protect::format::Place;
use pumice_protect::guard::Guard;
use pumice_protect::metadata::MetadataFormat;
use pumice_raid::geometry::Geometry;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::{FormatSpec, Metadata, ReadAt, Uuid};

/// Sets `field` of a superblock so that the sum of its words fits.
pub fn seal_superblock(bytes: &mut [u8], field: usize) {
    bytes[field..field + 4].fill(0);
    let words = bytes.chunks_exact(4);
    let rest = match words.remainder() {
        [low, high, ..] => u64::from(u16::from_le_bytes([*low, *high])),
        _ => 0,
    };
    let sum = words.fold(rest, |sum, w| sum + u64::from(u32::from_le_bytes([w[0], w[1], w[2], w[3]])));
    let folded = (sum as u32).wrapping_add((sum >> 32) as u32);
    bytes[field..field + 4].copy_from_slice(&folded.to_le_bytes());
}

/// The label, the header of the metadata area and the text of a physical volume, with checksums
/// that fit. `sector` replaces the label's bytes from 32 on, `header` those of the area's from 40
/// on, if there are any; `place` chooses where in its ring the text begins.
#[must_use]
pub fn seal_lvm(sector: &[u8], header: &[u8], text: &[u8], place: u64) -> Vec<(u64, Vec<u8>)> {
    const AREA: u64 = 4096;
    const BYTES: u64 = 1 << 16;
    let mut label = vec![0; 512];
    label[..8].copy_from_slice(b"LABELONE");
    label[8..16].copy_from_slice(&1_u64.to_le_bytes());
    label[20..24].copy_from_slice(&32_u32.to_le_bytes());
    label[24..32].copy_from_slice(b"LVM2 001");
    label[32..64].fill(b'a');
    for (i, word) in [1 << 20, 1 << 17, 0, 0, 0, AREA, BYTES, 0, 0, 1 << 32 | 2].into_iter().enumerate() {
        label[64 + 8 * i..72 + 8 * i].copy_from_slice(&u64::to_le_bytes(word));
    }
    label[32..32 + sector.len()].copy_from_slice(sector);
    let sum = lvm_crc(&label[20..]);
    label[16..20].copy_from_slice(&sum.to_le_bytes());

    let mut text = text[..text.len().min(1 << 15)].to_vec();
    text.push(0);
    let at = 512 + place % (BYTES - 512);
    let mut area = vec![0; 512];
    area[4..20].copy_from_slice(b"\x20LVM2\x20x[5A%r0N*>");
    area[20..24].copy_from_slice(&1_u32.to_le_bytes());
    for (field, word) in [(24, AREA), (32, BYTES), (40, at), (48, text.len() as u64)] {
        area[field..field + 8].copy_from_slice(&word.to_le_bytes());
    }
    area[56..60].copy_from_slice(&lvm_crc(&text).to_le_bytes());
    area[40..40 + header.len()].copy_from_slice(header);
    let sum = lvm_crc(&area[4..]);
    area[..4].copy_from_slice(&sum.to_le_bytes());
    let wrapped = text.split_off(text.len().min((BYTES - at) as usize));
    vec![(512, label), (AREA, area), (AREA + at, text), (AREA + 512, wrapped)]
}

fn lvm_crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0xF597_A6CF, |register, byte| {
        (0..8).fold(register ^ u32::from(*byte), |register: u32, _| {
            if register & 1 == 1 { register >> 1 ^ 0xEDB8_8320 } else { register >> 1 }
        })
    })
}

/// A device with some pieces in their places and the fuzzer's bytes, over and over, everywhere
/// else.
pub struct Device<'a> {
    /// Bytes.
    pub size: u64,
    /// Places and what is there; the first that covers a byte counts.
    pub pieces: Vec<(u64, Vec<u8>)>,
    /// Bytes everywhere else, over and over.
    pub filling: &'a [u8],
}

impl ReadAt for Device<'_> {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (i, byte) in buf.iter_mut().enumerate() {
            let at = offset + i as u64;
            let piece =
                |(start, bytes): &(u64, Vec<u8>)| bytes.get(at.checked_sub(*start)? as usize).copied();
            let filling = || self.filling.get(at as usize % self.filling.len().max(1)).copied();
            *byte = self.pieces.iter().find_map(piece).or_else(filling).unwrap_or(0);
        }
        Ok(())
    }
}

/// A new array to be damaged: small, of a kind that `choice` picks.
pub fn spec(choice: u64) -> FormatSpec {
    let level = [Level::Raid4, Level::Raid5, Level::Raid6][(choice >> 2) as usize % 3];
    let disks = 4 + (choice >> 4) as usize % 6;
    let layouts: Vec<_> = Layout::ALL.into_iter().filter(|layout| layout.is_of(level)).collect();
    FormatSpec {
        metadata: Metadata::ALL[choice as usize % 4],
        level,
        layout: layouts.get((choice >> 8) as usize % layouts.len().max(1)).copied(),
        chunk_bytes: 65536,
        component_bytes: None,
        device_bytes: vec![64 << 20; disks],
        array_uuid: Uuid([7; 16]),
        device_uuids: (0..disks).map(|i| Uuid([i as u8; 16])).collect(),
        name: "fuzz".to_owned(),
        ctime: 1,
        bitmap: choice >> 16 & 1 == 1,
        bad_block_log: choice >> 17 & 1 == 1,
        data_offset: None,
    }
}

/// A small RAID-5.
pub fn geometry() -> Geometry {
    Geometry::new(Level::Raid5, Some(Layout::LeftSymmetric), 4, 65536, 65536 * 1000)
        .expect("a geometry that can be")
}

/// Takes a number off the front.
pub fn take(data: &mut &[u8]) -> u64 {
    let (head, tail) = data.split_at(data.len().min(8));
    *data = tail;
    let mut bytes = [0; 8];
    bytes[..head.len()].copy_from_slice(head);
    u64::from_le_bytes(bytes)
}

/// The fuzzer's bytes, one after the other, and zeros behind them.
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// From the first on.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next one.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// At most so many.
    pub fn take(&mut self, most: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        some
    }

    /// Returns whether there are none any more.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Any metadata that blocks beside a tag file may have.
#[must_use]
pub fn metadata(choice: u64) -> MetadataFormat {
    let tuple = MetadataFormat::tuple(Guard::ALL[choice as usize % 3]);
    let place = if choice >> 2 & 1 == 0 { Place::Last } else { Place::First };
    let bytes = [tuple.bytes(), 16, 64][(choice >> 3) as usize % 3];
    let metadata = tuple.with_bytes(bytes, place).unwrap_or(tuple);
    metadata.with_storage_bits((choice >> 5) as u32 & 63).unwrap_or(metadata)
}
