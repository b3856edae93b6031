//! The header of a tag file.

use crate::geometry::{Geometry, InvalidGeometry};
use pumice_protect::format::Place;
use pumice_protect::guard::Guard;
use pumice_protect::metadata::MetadataFormat;
use thiserror::Error;

const MAGIC: [u8; 8] = *b"PUMTAGS1";
const SERIAL_AT: usize = 56;
/// The same in version 3.
const SERIAL_AT_3: usize = 60;
/// The most bytes of a serial number.
pub const MAX_SERIAL: usize = 64;

/// The drive and the state of a tag file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Drawn when the file was made.
    pub identity: u64,
    /// One more each time the file is opened for writing.
    pub generation: u64,
    /// The drive's sizes.
    pub geometry: Geometry,
    /// True if it was closed: the log is empty.
    pub clean: bool,
    /// True if the tags are stale: nothing is refused.
    pub stale: bool,
    /// Blocks that adoption has passed.
    pub adopted: u64,
    /// The drive's serial number; empty if it is not known. At most [`MAX_SERIAL`] bytes.
    pub serial: String,
}

/// An invalid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadHeader {
    /// Another kind of file.
    #[error(
        "no tag file, or its header is damaged; if it was the tag file of this drive, delete it and adopt the \
         drive again"
    )]
    Magic,
    /// A tag file of an earlier version.
    #[error(
        "version: it is {0}, and this program reads 2 and 3; remove the tag file and adopt the drive again"
    )]
    Version(u32),
    /// A field.
    #[error("{0}: no such value")]
    Field(&'static str),
    /// A size.
    #[error(transparent)]
    Geometry(#[from] InvalidGeometry),
}

impl Header {
    /// The version of its record: 2 if that can describe it, else 3.
    #[must_use]
    pub fn version(&self) -> u32 {
        let metadata = self.geometry.format().metadata();
        if metadata == MetadataFormat::tuple(metadata.guard()) { 2 } else { 3 }
    }

    /// The body of the two-slot record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let geometry = &self.geometry;
        bytes.extend_from_slice(&self.identity.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&geometry.size().to_le_bytes());
        bytes.extend_from_slice(&(geometry.block_bytes() as u32).to_le_bytes());
        bytes.push(geometry.format().guard() as u8);
        bytes.push(u8::from(self.clean) | u8::from(self.stale) << 1);
        bytes.push(u8::from(geometry.carries_data()));
        bytes.push(self.serial.len() as u8);
        bytes.extend_from_slice(&geometry.log_bytes().to_le_bytes());
        bytes.extend_from_slice(&self.adopted.to_le_bytes());
        if self.version() == 3 {
            let metadata = geometry.format().metadata();
            let first = metadata.place() == Place::First;
            bytes.extend([metadata.bytes() as u8, u8::from(first), metadata.storage_bits() as u8, 0]);
        }
        bytes.extend_from_slice(self.serial.as_bytes());
        bytes
    }

    /// Reads the body of the two-slot record of version 2 or 3.
    ///
    /// # Errors
    /// With the name of the field.
    pub fn decode(bytes: &[u8], version: u32) -> Result<Self, BadHeader> {
        let serial_at = if version == 3 { SERIAL_AT_3 } else { SERIAL_AT };
        let (head, serial) = bytes.split_at_checked(serial_at).ok_or(BadHeader::Magic)?;
        if head[..8] != MAGIC {
            return Err(BadHeader::Magic);
        }
        let qword = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let block = u32::from_le_bytes(std::array::from_fn(|i| head[32 + i]));
        let guard = *Guard::ALL.get(usize::from(head[36])).ok_or(BadHeader::Field("guard"))?;
        if head[37] > 3 {
            return Err(BadHeader::Field("flags"));
        }
        if head[38] > 1 {
            return Err(BadHeader::Field("whether records carry the data"));
        }
        let serial = std::str::from_utf8(serial).map_err(|_| BadHeader::Field("serial number"))?;
        if serial.len() != usize::from(head[39]) || serial.len() > MAX_SERIAL {
            return Err(BadHeader::Field("serial number"));
        }
        let unit = if head[38] == 1 { 1 } else { block };
        let metadata = metadata(guard, &head[SERIAL_AT..])?;
        let geometry = Geometry::new(qword(24), block, unit, metadata, qword(40))?;
        let adopted = qword(48);
        if adopted > geometry.blocks() {
            return Err(BadHeader::Field("blocks that adoption has passed"));
        }
        let header = Self {
            identity: qword(8),
            generation: qword(16),
            geometry,
            clean: head[37] & 1 == 1,
            stale: head[37] & 2 == 2,
            adopted,
            serial: serial.to_owned(),
        };
        // What version 2 can describe has version 2.
        if header.version() == version { Ok(header) } else { Err(BadHeader::Field("version")) }
    }
}

/// The metadata that the fields of version 3 describe; of version 2, which has none, the tuple.
fn metadata(guard: Guard, fields: &[u8]) -> Result<MetadataFormat, BadHeader> {
    let tuple = MetadataFormat::tuple(guard);
    let [bytes, first, storage_bits, zero] = *fields else { return Ok(tuple) };
    if first > 1 || zero != 0 {
        return Err(BadHeader::Field("place of the tuple"));
    }
    let place = if first == 1 { Place::First } else { Place::Last };
    tuple
        .with_bytes(bytes.into(), place)
        .and_then(|metadata| metadata.with_storage_bits(storage_bits.into()))
        .map_err(|_| BadHeader::Field("metadata"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            identity: 0x1122_3344_5566_7788,
            generation: 3,
            geometry: Geometry::new(1 << 30, 4096, 512, Guard::Crc64, 2 << 20).expect("a drive"),
            clean: false,
            stale: true,
            adopted: 5,
            serial: "S1".to_owned(),
        }
    }

    #[test]
    fn the_bytes_of_a_header() {
        let expected = "50554d5441475331 8877665544332211 0300000000000000 0000004000000000 \
                        00100000 02 02 01 02 0000200000000000 0500000000000000 5331";
        let hex: String = header().encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected.replace(' ', ""));
        assert_eq!(Header::decode(&header().encode(), 2), Ok(header()));
    }

    fn large(first: bool, storage_bits: u32) -> Header {
        let place = if first { Place::First } else { Place::Last };
        let metadata = MetadataFormat::tuple(Guard::Crc16)
            .with_bytes(64, place)
            .and_then(|metadata| metadata.with_storage_bits(storage_bits))
            .expect("a format");
        let geometry = Geometry::new(1 << 30, 4096, 4096, metadata, 2 << 20).expect("a drive");
        Header { geometry, ..header() }
    }

    #[test]
    fn a_header_that_version_2_cannot_describe() {
        let expected = "50554d5441475331 8877665544332211 0300000000000000 0000004000000000 \
                        00100000 00 02 00 02 0000200000000000 0500000000000000 40 01 18 00 5331";
        let header = large(true, 24);
        let hex: String = header.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((hex, header.version()), (expected.replace(' ', ""), 3));
        let good = header.encode();
        assert_eq!(Header::decode(&good, 3), Ok(header));
        assert!(Header::decode(&good, 2).is_err());
        let last = large(false, 0);
        assert_eq!(Header::decode(&last.encode(), 3), Ok(last));
        for (at, byte) in [(56, 8), (56, 32), (56, 65), (57, 2), (58, 33), (59, 1), (33, 2)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(Header::decode(&bad, 3).is_err(), "{at} {byte}");
        }
        // Only the tuple, and no storage tag: such a file has version 2.
        let mut plain = good.clone();
        plain[56..59].copy_from_slice(&[8, 0, 0]);
        assert_eq!(Header::decode(&plain, 3), Err(BadHeader::Field("version")));
        plain[58] = 1;
        assert_eq!(Header::decode(&plain, 3).map(|header| header.version()), Ok(3));
    }

    #[test]
    fn no_other_bytes_are_a_header() {
        let good = header().encode();
        for len in 0..good.len() {
            assert!(Header::decode(&good[..len], 2).is_err(), "{len}");
        }
        // Magic, size, block, guard, flags, data, serial, log, adopted.
        for at in [0, 24, 33, 36, 37, 38, 39, 40, 51, 56] {
            let mut bad = good.clone();
            bad[at] = 0xFF;
            assert!(Header::decode(&bad, 2).is_err(), "{at}");
        }
    }
}
