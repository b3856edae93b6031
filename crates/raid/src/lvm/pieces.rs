//! The pieces of physical volumes that a logical volume consists of.

use std::io;

use crate::ReadAt;
use pumice_base::units::SECTOR;
use thiserror::Error;

use crate::lvm::group::{Area, Group, Mapping};

/// Most pieces, and most steps while they are put together.
const MAX_PIECES: usize = 65_536;
/// Most levels of volumes that stand on each other.
const MAX_DEPTH: usize = 8;

/// A run of bytes of a logical volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The physical volume, as its index in [`Group::physical`], and the first byte on it; `None`
    /// for bytes that are nowhere (segments of type `error`).
    pub place: Option<(usize, u64)>,
    /// Bytes, at least 1.
    pub bytes: u64,
}

/// A volume whose bytes cannot be followed to physical volumes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PiecesError {
    /// It stands on a segment of a type that moves bytes in its own way.
    #[error("{volume} is of type {kind}")]
    Kind {
        /// The volume with the segment.
        volume: String,
        /// The type.
        kind: String,
    },
    /// A volume uses more of another than there is.
    #[error("{volume} has {bytes} bytes; what stands on it needs {needed}")]
    Short {
        /// The other.
        volume: String,
        /// Its bytes.
        bytes: u64,
        /// Bytes that are used of it, from its start.
        needed: u64,
    },
    /// Too many pieces.
    #[error("more than 65536 pieces")]
    Many,
    /// Too many volumes on each other, or a circle of them.
    #[error("more than 8 levels of volumes")]
    Deep,
}

/// Lists the pieces of a logical volume, from its first byte to its last.
///
/// # Errors
/// If a part of it cannot be followed.
///
/// # Panics
/// If the group has no such volume.
pub fn pieces(group: &Group, volume: usize) -> Result<Vec<Piece>, PiecesError> {
    let bytes = group.logical[volume].extents() * group.extent_bytes();
    let mut walk = Walk { group, out: Vec::new(), steps: 0 };
    walk.volume(volume, 0, bytes, 0)?;
    Ok(walk.out)
}

struct Walk<'g> {
    group: &'g Group,
    out: Vec<Piece>,
    steps: usize,
}

impl Walk<'_> {
    /// Adds `bytes` bytes of a volume from `start` on.
    fn volume(&mut self, volume: usize, start: u64, bytes: u64, depth: usize) -> Result<(), PiecesError> {
        if depth >= MAX_DEPTH {
            return Err(PiecesError::Deep);
        }
        let group = self.group;
        let (lv, extent) = (&group.logical[volume], group.extent_bytes());
        let (has, needed) = (lv.extents() * extent, start.saturating_add(bytes));
        if needed > has {
            return Err(PiecesError::Short { volume: lv.name.clone(), bytes: has, needed });
        }
        for segment in &lv.segments {
            let (first, last) = (segment.start * extent, (segment.start + segment.extents) * extent);
            let (from, to) = (start.max(first), needed.min(last));
            if from >= to {
                continue;
            }
            let (mut at, end) = (from - first, to - first);
            match &segment.mapping {
                Mapping::Nothing => self.push(None, end - at)?,
                Mapping::Integrity(integrity) => {
                    let bytes = integrity.data_sectors.saturating_mul(SECTOR);
                    if bytes < end {
                        return Err(PiecesError::Short { volume: lv.name.clone(), bytes, needed: end });
                    }
                    self.volume(integrity.origin, at, end - at, depth + 1)?;
                }
                Mapping::Striped { areas, chunk_sectors } => {
                    let chunk = match areas.len() {
                        1 => last - first,
                        _ => chunk_sectors * SECTOR,
                    };
                    while at < end {
                        let (number, inside) = (at / chunk, at % chunk);
                        let len = (chunk - inside).min(end - at);
                        let area = areas[(number % areas.len() as u64) as usize];
                        let offset = number / areas.len() as u64 * chunk + inside;
                        self.area(area, offset, len, depth)?;
                        at += len;
                    }
                }
                Mapping::Raid(_) | Mapping::Other { .. } => {
                    return Err(PiecesError::Kind { volume: lv.name.clone(), kind: segment.kind.clone() });
                }
            }
        }
        Ok(())
    }

    /// Adds `bytes` bytes of an area from `offset` on.
    fn area(&mut self, area: Area, offset: u64, bytes: u64, depth: usize) -> Result<(), PiecesError> {
        match area {
            Area::Physical { pv, extent } => {
                // Inside the volume's extents, whose bytes fit 64 bits.
                let start =
                    self.group.physical[pv].start_sector * SECTOR + extent * self.group.extent_bytes();
                self.push(Some((pv, start + offset)), bytes)
            }
            Area::Logical { lv, extent } => {
                let start = extent.saturating_mul(self.group.extent_bytes()).saturating_add(offset);
                self.volume(lv, start, bytes, depth + 1)
            }
        }
    }

    /// Adds a piece, or makes the last one longer.
    fn push(&mut self, place: Option<(usize, u64)>, bytes: u64) -> Result<(), PiecesError> {
        self.steps += 1;
        if self.steps > MAX_PIECES {
            return Err(PiecesError::Many);
        }
        if let Some(last) = self.out.last_mut() {
            let follows = match (last.place, place) {
                (Some((pv, start)), Some(next)) => (pv, start + last.bytes) == next,
                (None, None) => true,
                _ => false,
            };
            if follows {
                last.bytes += bytes;
                return Ok(());
            }
        }
        self.out.push(Piece { place, bytes });
        Ok(())
    }
}

/// A logical volume, read through its pieces.
pub struct Mapped<'p, 'd> {
    pieces: &'p [Piece],
    /// By physical volume, the device, if it is there.
    devices: &'p [Option<&'d dyn ReadAt>],
}

impl<'p, 'd> Mapped<'p, 'd> {
    /// The volume of `pieces`, on physical volumes whose devices are given in the order of
    /// [`Group::physical`].
    #[must_use]
    pub const fn new(pieces: &'p [Piece], devices: &'p [Option<&'d dyn ReadAt>]) -> Self {
        Self { pieces, devices }
    }
}

impl ReadAt for Mapped<'_, '_> {
    fn size_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// # Errors
    /// Also `NotFound`, if the device of a piece is not there.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let (mut skip, mut rest) = (offset, buf);
        for piece in self.pieces {
            if rest.is_empty() {
                break;
            }
            if skip >= piece.bytes {
                skip -= piece.bytes;
                continue;
            }
            let len = (piece.bytes - skip).min(rest.len() as u64) as usize;
            let (here, behind) = rest.split_at_mut(len);
            let (pv, start) = piece.place.ok_or(io::ErrorKind::NotFound)?;
            let device = self.devices.get(pv).copied().flatten().ok_or(io::ErrorKind::NotFound)?;
            device.read_exact_at(start + skip, here)?;
            (skip, rest) = (0, behind);
        }
        if rest.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
