//! A device that is put together from pieces of others.

use crate::probed::Place;
use pumice_blockdev::{BlockDevice, IoError, Operation};
use pumice_offload::Drives;
use std::collections::BTreeSet;
use std::io;

/// A run of bytes of a device, which may be a drive of a node.
#[derive(Clone)]
pub struct Run {
    /// The device.
    pub place: Place,
    /// First byte on it.
    pub start: u64,
    /// Bytes, at least 1.
    pub bytes: u64,
}

/// A device of the bytes of runs, one after another.
pub struct MappedDevice {
    name: String,
    runs: Vec<Run>,
}

impl MappedDevice {
    /// A device of these runs.
    #[must_use]
    pub fn new(name: impl Into<String>, runs: Vec<Run>) -> Self {
        Self { name: name.into(), runs }
    }

    /// Splits a range by runs, and calls `each` with the run, the offset on its device, and the
    /// part of the range.
    fn each(
        &self,
        operation: Operation,
        offset: u64,
        len: usize,
        mut each: impl FnMut(&Run, u64, std::ops::Range<usize>) -> Result<(), IoError>,
    ) -> Result<(), IoError> {
        let outside =
            || IoError::new(&self.name, operation, offset, len, io::ErrorKind::UnexpectedEof.into());
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.size_bytes());
        let end = end.ok_or_else(outside)?;
        let mut at = 0;
        for run in &self.runs {
            let (from, to) = (offset.max(at), end.min(at + run.bytes));
            if from < to {
                let part = (from - offset) as usize..(to - offset) as usize;
                each(run, run.start + (from - at), part)?;
            }
            at += run.bytes;
        }
        Ok(())
    }

    /// The devices of this machine below it.
    fn here(&self) -> impl Iterator<Item = &std::sync::Arc<dyn BlockDevice>> {
        self.runs.iter().filter_map(|run| run.place.here())
    }
}

impl BlockDevice for MappedDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    fn logical_block(&self) -> u32 {
        let block = |run: &Run| match &run.place {
            Place::Here(device) => device.logical_block(),
            Place::There(node, drive) => {
                node.drives().iter().find(|known| known.id == *drive).map_or(512, |known| known.block_bytes)
            }
        };
        self.runs.iter().map(block).max().unwrap_or(512)
    }

    fn read_only(&self) -> bool {
        self.here().any(|device| device.read_only())
    }

    fn failing(&self) -> Option<String> {
        self.here().find_map(|device| device.failing())
    }

    fn disks(&self) -> BTreeSet<String> {
        self.here().flat_map(|device| device.disks()).collect()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.each(Operation::Read, offset, buf.len(), |run, at, part| match &run.place {
            Place::Here(device) => device.read_at(at, &mut buf[part]),
            Place::There(node, drive) => {
                let len = part.len();
                let failed =
                    |error| IoError::new(&self.name, Operation::Read, at, len, io::Error::other(error));
                node.read(*drive, at, &mut buf[part]).map_err(failed)
            }
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.each(Operation::Write, offset, data.len(), |run, at, part| match &run.place {
            Place::Here(device) => device.write_at(at, &data[part]),
            Place::There(node, drive) => {
                let len = part.len();
                let failed =
                    |error| IoError::new(&self.name, Operation::Write, at, len, io::Error::other(error));
                node.write(*drive, at, &data[part]).map_err(failed)
            }
        })
    }

    fn flush(&self) -> Result<(), IoError> {
        for run in &self.runs {
            match &run.place {
                Place::Here(device) => device.flush()?,
                Place::There(node, drive) => node.flush(*drive).map_err(|error| {
                    IoError::new(&self.name, Operation::Flush, 0, 0, io::Error::other(error))
                })?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pumice_blockdev::MemoryDevice;
    use std::sync::Arc;

    proptest! {
        /// Bytes written through the pieces are read back, and lie where the pieces say.
        #[test]
        fn bytes_lie_in_their_pieces(
            cuts in prop::collection::vec((0usize..3, 1u64..700, 0u64..300), 1..6),
            at in 0u64..2000,
            len in 0usize..1500,
            seed in any::<u8>(),
        ) {
            let devices: Vec<Arc<dyn BlockDevice>> =
                (0..3).map(|i| Arc::new(MemoryDevice::new(&format!("d{i}"), 1 << 16)) as _).collect();
            let mut next = [0u64; 3];
            let mut runs = Vec::new();
            let mut places = Vec::new();
            for (device, bytes, gap) in cuts {
                let start = next[device] + gap;
                next[device] = start + bytes;
                places.extend((0..bytes).map(|i| (device, start + i)));
                runs.push(Run { place: Place::Here(Arc::clone(&devices[device])), start, bytes });
            }
            let mapped = MappedDevice::new("mapped", runs);
            let total = places.len() as u64;
            prop_assert_eq!(mapped.size_bytes(), total);
            let data: Vec<u8> = (0..len).map(|i| seed.wrapping_add(i as u8)).collect();
            let fits = at + len as u64 <= total;
            prop_assert_eq!(mapped.write_at(at, &data).is_ok(), fits);
            if fits {
                let mut read = vec![0; len];
                mapped.read_at(at, &mut read).unwrap();
                prop_assert_eq!(&read, &data);
                for (i, byte) in data.iter().enumerate() {
                    let (device, place) = places[at as usize + i];
                    let mut one = [0];
                    devices[device].read_at(place, &mut one).unwrap();
                    prop_assert_eq!(one[0], *byte);
                }
            }
        }
    }
}
