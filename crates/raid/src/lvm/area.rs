//! A metadata area: its header, and the committed text in its ring.

use std::io;

use crate::ReadAt;
use crate::invalid::Invalid;
use thiserror::Error;

use crate::lvm::bytes::{array, check, crc, u32_at, u64_at};
use crate::lvm::label::Range;

/// Bytes of the header, behind which the ring begins.
const HEADER: u64 = 512;
const MAGIC: [u8; 16] = *b"\x20LVM2\x20x[5A%r0N*>";
const IGNORED: u32 = 1;
/// The largest text that is read, in bytes.
pub const MAX_TEXT: u64 = 16 << 20;

const STRUCTURE: &str = "metadata area";

/// The reason why an area gives no text.
#[derive(Debug, Error)]
pub enum AreaError {
    /// A field of it is invalid, or a checksum wrong.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The device does not give the bytes back.
    #[error("metadata area: {0}")]
    Read(#[from] io::Error),
}

/// Reads the committed text of an area, without the NUL behind it; `None` for an area without a
/// text, or one that is marked as ignored.
///
/// # Errors
/// If header or text are damaged or cannot be read.
pub fn read(device: &(impl ReadAt + ?Sized), area: Range) -> Result<Option<Vec<u8>>, AreaError> {
    let end = area.offset.checked_add(area.bytes);
    let on_device = end.is_some_and(|end| end <= device.size_bytes()) && area.bytes > HEADER;
    let allowed =
        format_args!("more than 512, inside the device of {} bytes", device.size_bytes()).to_string();
    check(on_device, STRUCTURE, "place", format_args!("{} from {} on", area.bytes, area.offset), allowed)?;
    let mut header = [0; HEADER as usize];
    device.read_exact_at(area.offset, &mut header)?;
    let (found, sum) = (u32_at(&header, 0), crc(&header[4..]));
    check(found == sum, STRUCTURE, "crc", format_args!("{found:#010x}"), format_args!("{sum:#010x}"))?;
    let magic: [u8; 16] = array(&header, 4);
    check(magic == MAGIC, STRUCTURE, "magic", magic.escape_ascii(), MAGIC.escape_ascii())?;
    let version = u32_at(&header, 20);
    check(version == 1, STRUCTURE, "version", version, 1)?;
    let (start, size) = (u64_at(&header, 24), u64_at(&header, 32));
    check(start == area.offset, STRUCTURE, "start", start, area.offset)?;
    check(size == area.bytes, STRUCTURE, "size", size, area.bytes)?;

    let (offset, bytes) = (u64_at(&header, 40), u64_at(&header, 48));
    let (sum, flags) = (u32_at(&header, 56), u32_at(&header, 60));
    if offset == 0 || flags & IGNORED != 0 {
        return Ok(None);
    }
    check((HEADER..size).contains(&offset), STRUCTURE, "offset of the text", offset, "in the ring")?;
    let most = (size - HEADER).min(MAX_TEXT);
    check((2..=most).contains(&bytes), STRUCTURE, "size of the text", bytes, format_args!("2 to {most}"))?;
    // At most `MAX_TEXT`.
    let mut text = vec![0; bytes as usize];
    let whole = bytes.min(size - offset) as usize;
    let (first, wrapped) = text.split_at_mut(whole);
    device.read_exact_at(area.offset + offset, first)?;
    device.read_exact_at(area.offset + HEADER, wrapped)?;
    let found = crc(&text);
    check(found == sum, "text", "crc", format_args!("{found:#010x}"), format_args!("{sum:#010x}"))?;
    let last = text.pop();
    check(last == Some(0), "text", "last byte", last.unwrap_or(0), 0)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Range = Range { offset: 4096, bytes: 8192 };

    fn device(text: &[u8], at: u64, size: u64, flags: u32) -> Vec<u8> {
        let mut out = vec![0xEE; 4096 + 8192];
        let ring = 8192 - HEADER;
        for (i, byte) in text.iter().enumerate() {
            let place = (at + ring - HEADER + i as u64) % ring;
            out[(4096 + HEADER + place) as usize] = *byte;
        }
        let header = &mut out[4096..4608];
        header.fill(0);
        header[4..20].copy_from_slice(&MAGIC);
        header[20..24].copy_from_slice(&1_u32.to_le_bytes());
        header[24..32].copy_from_slice(&4096_u64.to_le_bytes());
        header[32..40].copy_from_slice(&8192_u64.to_le_bytes());
        header[40..48].copy_from_slice(&at.to_le_bytes());
        header[48..56].copy_from_slice(&size.to_le_bytes());
        header[56..60].copy_from_slice(&crc(text).to_le_bytes());
        header[60..64].copy_from_slice(&flags.to_le_bytes());
        let sum = crc(&header[4..]);
        header[..4].copy_from_slice(&sum.to_le_bytes());
        out
    }

    #[test]
    fn a_text_is_read_wherever_it_lies_in_its_ring() {
        let text: Vec<u8> = (1..=255).cycle().take(3000).chain([0]).collect();
        for at in (HEADER..8192).step_by(512) {
            let found = read(&device(&text, at, 3001, 0), AREA).unwrap().unwrap();
            assert_eq!(found, text[..3000], "{at}");
        }
        assert!(read(&device(&text, 0, 3001, 0), AREA).unwrap().is_none());
        assert!(read(&device(&text, 512, 3001, IGNORED), AREA).unwrap().is_none());
    }

    #[test]
    fn every_bit_is_checked() {
        let good = device(b"vg {}\0", 8192 - 3, 6, 0);
        let places = (0..512).chain([512, 513, 514, 8189, 8190, 8191]);
        for bit in places.flat_map(|byte| (0..8).map(move |bit| (4096 + byte, bit))) {
            let mut bytes = good.clone();
            bytes[bit.0] ^= 1 << bit.1;
            assert!(matches!(read(&bytes, AREA), Err(AreaError::Invalid(_))), "{bit:?}");
        }
        assert_eq!(read(&good, AREA).unwrap().unwrap(), b"vg {}");
    }

    #[test]
    fn places_outside_are_refused() {
        let field = |bytes: &[u8], area| match read(bytes, area) {
            Err(AreaError::Invalid(error)) => error.field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field(&device(b"vg {}\0", 8192, 6, 0), AREA), "offset of the text");
        assert_eq!(field(&device(b"vg {}\0", 512, 8192, 0), AREA), "size of the text");
        assert_eq!(field(&device(b"vg {}\0", 512, 1, 0), AREA), "size of the text");
        assert_eq!(field(&device(b"vg {}x", 512, 6, 0), AREA), "last byte");
        let good = device(b"vg {}\0", 512, 6, 0);
        assert_eq!(field(&good, Range { offset: 4096, bytes: 8193 }), "place");
        assert_eq!(field(&good, Range { offset: u64::MAX, bytes: 8192 }), "place");
        assert_eq!(field(&good, Range { offset: 4096, bytes: 4096 }), "size");
        assert_eq!(field(&good[..12000], AREA), "place");
        let copied = [&good[..], &good[4096..]].concat();
        assert_eq!(field(&copied, Range { offset: 12288, bytes: 8192 }), "start");
    }
}
