//! The label of a device, and the header of its physical volume.
//!
//! Layout: `docs/reference/on-disk/lvm.md`, read off volumes that LVM 2.03 made.

use std::io;

use crate::ReadAt;
use crate::invalid::Invalid;

use crate::lvm::bytes::{array, check, crc, u32_at, u64_at};
use crate::lvm::id::Id;

/// Bytes of a sector, which holds label and header.
const SECTOR: usize = 512;
/// The label stands in one of the first sectors.
const SECTORS: u64 = 4;
/// Bytes of the label in front of the header.
const LABEL: usize = 32;
/// Bytes of the header in front of its lists.
const LISTS: usize = 40;
/// Most metadata areas that are read; LVM makes up to two.
const MAX_AREAS: usize = 8;

const STRUCTURE: &str = "PV header";

/// A range of bytes of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First byte, from the start of the device.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The header of a physical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The sector with the label, 0 to 3.
    pub sector: u64,
    /// The id of the volume.
    pub id: Id,
    /// Bytes of the device when the header was written.
    pub device_bytes: u64,
    /// Its metadata areas; there may be none.
    pub areas: Vec<Range>,
    /// The flag that a group uses the volume; `None` for a header that does not say so (no
    /// extension, or one of version 1).
    pub in_use: Option<bool>,
}

/// Content of the first sectors of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Label {
    /// No label.
    None,
    /// Only labels with a wrong checksum or a wrong sector number; the first of them.
    Damaged(Invalid),
    /// A good label, and the header of the physical volume or the field of it that is invalid.
    Found(Result<Header, Invalid>),
}

/// Reads the label of a device.
///
/// # Errors
/// If the device does not give back its first sectors, and none that it gives back has a label.
pub fn read(device: &(impl ReadAt + ?Sized)) -> io::Result<Label> {
    let mut damaged = None;
    let mut unread = None;
    for number in 0..SECTORS {
        let mut sector = [0; SECTOR];
        match device.read_exact_at(number * SECTOR as u64, &mut sector) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => {
                unread.get_or_insert(error);
                continue;
            }
        }
        match header_at(&sector, number) {
            None => {}
            Some(Ok(start)) => return Ok(Label::Found(header(&sector, start, number))),
            Some(Err(error)) => {
                damaged.get_or_insert(error);
            }
        }
    }
    match (unread, damaged) {
        (Some(error), _) => Err(error),
        (None, Some(error)) => Ok(Label::Damaged(error)),
        (None, None) => Ok(Label::None),
    }
}

/// Offset of the header in a sector with a label; `None` without a label.
fn header_at(sector: &[u8; SECTOR], number: u64) -> Option<Result<usize, Invalid>> {
    if !sector.starts_with(b"LABELONE") {
        return None;
    }
    let verify = || {
        let found = u64_at(sector, 8);
        check(found == number, "LVM label", "sector", found, number)?;
        let (found, sum) = (u32_at(sector, 16), crc(&sector[20..]));
        check(found == sum, "LVM label", "crc", format_args!("{found:#010x}"), format_args!("{sum:#010x}"))?;
        let kind: [u8; 8] = array(sector, 24);
        check(kind == *b"LVM2 001", "LVM label", "type", kind.escape_ascii(), "LVM2 001")?;
        let start = u32_at(sector, 20) as usize;
        check((LABEL..=SECTOR - LISTS).contains(&start), "LVM label", "offset", start, "32 to 472")?;
        Ok(start)
    };
    Some(verify())
}

fn header(sector: &[u8; SECTOR], start: usize, number: u64) -> Result<Header, Invalid> {
    let id: [u8; 32] = array(sector, start);
    let id = Id::from_bytes(id).ok_or_else(|| {
        check(false, STRUCTURE, "pv_uuid", id.escape_ascii(), "letters and digits").unwrap_err()
    })?;
    let device_bytes = u64_at(sector, start + 32);
    let mut at = start + LISTS;
    list(sector, &mut at, "data areas")?;
    let areas = list(sector, &mut at, "metadata areas")?;
    check(areas.len() <= MAX_AREAS, STRUCTURE, "metadata areas", areas.len(), "at most 8")?;
    let extended = at + 8 <= SECTOR && u32_at(sector, at) >= 2;
    let in_use = extended.then(|| u32_at(sector, at + 4) & 1 != 0);
    Ok(Header { sector: number, id, device_bytes, areas, in_use })
}

/// A list of areas, up to a pair of zeros.
fn list(sector: &[u8; SECTOR], at: &mut usize, field: &'static str) -> Result<Vec<Range>, Invalid> {
    let mut out = Vec::new();
    loop {
        check(*at + 16 <= SECTOR, STRUCTURE, field, "a list without end", "a list that ends in its sector")?;
        let (offset, bytes) = (u64_at(sector, *at), u64_at(sector, *at + 8));
        *at += 16;
        if offset == 0 {
            return Ok(out);
        }
        out.push(Range { offset, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device whose label is in `sector`, with two metadata areas.
    fn device(sector: u64) -> Vec<u8> {
        let mut out = vec![0; 4096];
        let at = sector as usize * SECTOR;
        let label = &mut out[at..at + SECTOR];
        label[..8].copy_from_slice(b"LABELONE");
        label[8..16].copy_from_slice(&sector.to_le_bytes());
        label[20..24].copy_from_slice(&32_u32.to_le_bytes());
        label[24..32].copy_from_slice(b"LVM2 001");
        label[32..64].copy_from_slice(b"0123456789abcdefghijABCDEFGHIJ00");
        let words = [1 << 30, 1 << 20, 0, 0, 0, 4096, 1 << 19, 1 << 29, 1 << 18, 0, 0, 1 << 32 | 2];
        for (i, word) in words.into_iter().enumerate() {
            label[64 + 8 * i..72 + 8 * i].copy_from_slice(&u64::to_le_bytes(word));
        }
        let sum = crc(&label[20..]);
        label[16..20].copy_from_slice(&sum.to_le_bytes());
        out
    }

    #[test]
    fn the_label_is_found_in_the_first_four_sectors() {
        for sector in 0..4 {
            let Label::Found(Ok(header)) = read(&device(sector)).unwrap() else { panic!("{sector}") };
            assert_eq!(header.sector, sector);
            assert_eq!(header.id.to_string(), "012345-6789-abcd-efgh-ijAB-CDEF-GHIJ00");
            assert_eq!(header.device_bytes, 1 << 30);
            assert_eq!(
                header.areas,
                [Range { offset: 4096, bytes: 1 << 19 }, Range { offset: 1 << 29, bytes: 1 << 18 }]
            );
            assert_eq!(header.in_use, Some(true));
        }
        assert_eq!(read(&device(4)).unwrap(), Label::None);
        assert_eq!(read(&Vec::new()).unwrap(), Label::None);
    }

    #[test]
    fn every_bit_of_the_sector_is_checked() {
        let good = device(1);
        for bit in 0..SECTOR * 8 {
            let mut bytes = good.clone();
            bytes[SECTOR + bit / 8] ^= 1 << (bit % 8);
            let found = read(&bytes).unwrap();
            let expected =
                if bit < 64 { matches!(found, Label::None) } else { matches!(found, Label::Damaged(_)) };
            assert!(expected, "bit {bit}: {found:?}");
        }
    }

    #[test]
    fn a_copy_in_another_sector_is_passed_over() {
        let mut bytes = device(3);
        let copy = bytes[3 * SECTOR..4 * SECTOR].to_vec();
        bytes[..SECTOR].copy_from_slice(&copy);
        assert!(matches!(read(&bytes).unwrap(), Label::Found(Ok(Header { sector: 3, .. }))));
        bytes.truncate(2 * SECTOR);
        assert!(matches!(read(&bytes).unwrap(), Label::Damaged(_)));
    }

    #[test]
    fn lists_end_in_their_sector() {
        let mut bytes = device(0);
        bytes[72..SECTOR].fill(1);
        let sum = crc(&bytes[20..SECTOR]);
        bytes[16..20].copy_from_slice(&sum.to_le_bytes());
        let Label::Found(Err(error)) = read(&bytes).unwrap() else { panic!() };
        assert_eq!(error.field, "data areas");
    }
}
