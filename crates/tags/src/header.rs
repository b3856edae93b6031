//! The header of a tag file.

use crate::geometry::{Geometry, InvalidGeometry};
use pumice_protect::guard::Guard;
use thiserror::Error;

const MAGIC: [u8; 8] = *b"PUMTAGS1";
const SERIAL_AT: usize = 56;
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
    /// Whether it was closed: the log is empty.
    pub clean: bool,
    /// Whether the tags are stale: nothing is refused.
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
    #[error("no tag file")]
    Magic,
    /// A tag file of an earlier version.
    #[error("version: it is {0}, and this program reads 2; remove the tag file and adopt the drive again")]
    Version(u32),
    /// A field.
    #[error("{0}: no such value")]
    Field(&'static str),
    /// A size.
    #[error(transparent)]
    Geometry(#[from] InvalidGeometry),
}

impl Header {
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
        bytes.extend_from_slice(self.serial.as_bytes());
        bytes
    }

    /// Reads the body of the two-slot record.
    ///
    /// # Errors
    /// With the name of the field.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let (head, serial) = bytes.split_at_checked(SERIAL_AT).ok_or(BadHeader::Magic)?;
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
        let geometry = Geometry::new(qword(24), block, unit, guard, qword(40))?;
        let adopted = qword(48);
        if adopted > geometry.blocks() {
            return Err(BadHeader::Field("blocks that adoption has passed"));
        }
        Ok(Self {
            identity: qword(8),
            generation: qword(16),
            geometry,
            clean: head[37] & 1 == 1,
            stale: head[37] & 2 == 2,
            adopted,
            serial: serial.to_owned(),
        })
    }
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
        assert_eq!(Header::decode(&header().encode()), Ok(header()));
    }

    #[test]
    fn no_other_bytes_are_a_header() {
        let good = header().encode();
        for len in 0..good.len() {
            assert!(Header::decode(&good[..len]).is_err(), "{len}");
        }
        // Magic, size, block, guard, flags, data, serial, log, adopted.
        for at in [0, 24, 33, 36, 37, 38, 39, 40, 51, 56] {
            let mut bad = good.clone();
            bad[at] = 0xFF;
            assert!(Header::decode(&bad).is_err(), "{at}");
        }
    }
}
