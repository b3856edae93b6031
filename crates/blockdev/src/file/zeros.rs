//! Zeroing of ranges, with their space kept or released.

use super::FileDevice;
use crate::device::{Grains, write_zeros};
use crate::error::Operation;
use crate::system::{self, Zeroing};
use crate::{IoError, disks};
use pumice_base::buffer::ALIGNMENT;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;

/// The largest grain that is told: of more, a host would make a stripe.
const LARGEST: u32 = 1 << 20;

/// Bytes that the system is asked to make zeros at a time.
pub(super) const AT_ONCE: u64 = 64 << 20;

/// Units in which a medium writes and gives back space.
pub(super) fn grains(file: &File, is_block_device: bool, logical_block: u32) -> Grains {
    let sensible = |bytes: u64, least: u32| {
        let bytes = u32::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two());
        bytes.filter(|bytes| (least..=LARGEST).contains(bytes)).unwrap_or(least)
    };
    let Ok(about) = file.metadata() else { return Grains { write: logical_block, discard: logical_block } };
    if !is_block_device {
        let write = ALIGNMENT as u32;
        return Grains { write, discard: sensible(about.blksize(), write) };
    }
    let physical = system::physical_block_size(file).map_or(0, u64::from);
    let write = sensible(physical, logical_block);
    let discard = disks::queue_number(&about, "discard_granularity").unwrap_or(0);
    Grains { write, discard: sensible(discard, write) }
}

impl FileDevice {
    /// Makes a range zeros: whole grains by the system, what is left at the ends by writing it.
    pub(super) fn clear(&self, operation: Operation, offset: u64, len: u64) -> Result<(), IoError> {
        let length = usize::try_from(len).unwrap_or(usize::MAX);
        self.check_change(operation, offset, length)?;
        let end = offset + len;
        let grain = if self.is_block_device { u64::from(self.logical_block) } else { ALIGNMENT as u64 };
        let (first, last) = (offset.next_multiple_of(grain), end / grain * grain);
        if first >= last {
            return write_zeros(self, offset, len);
        }
        let done = self.gate.whole(|| self.clear_grains(operation, first, last - first));
        match done {
            Ok(true) => {
                write_zeros(self, offset, first - offset)?;
                write_zeros(self, last, end - last)
            }
            Ok(false) => {
                self.writes_zeros.store(true, Ordering::Relaxed);
                write_zeros(self, offset, len)
            }
            Err(error) => Err(IoError::new(&self.name, operation, offset, length, error)),
        }
    }

    /// Asks the system for zeros, without the room where that is wanted and can be had; false where
    /// it cannot do either.
    fn clear_grains(&self, operation: Operation, offset: u64, len: u64) -> io::Result<bool> {
        let wanted: &[Zeroing] = match operation {
            Operation::Discard => &[Zeroing::FreeRoom, Zeroing::KeepRoom],
            _ => &[Zeroing::KeepRoom],
        };
        for how in wanted {
            match system::make_zeros(&self.file, *how, offset, len) {
                Ok(()) => return Ok(true),
                // EINVAL: a block device with an alignment of its own.
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL)
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}
