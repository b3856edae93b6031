//! Commands that zero ranges: the ranges, and the slices in which they are carried out.

use pumice_blockdev::{BlockDevice, IoError};
use pumice_nvme::controller::{Op, Request};
use pumice_nvme::spec::Sqe;
use pumice_protect::block_format::BlockFormat;

/// Dataset Management, dword 11: the ranges are to be deallocated. Other attributes are hints of
/// how they will be used, and change nothing.
const DEALLOCATE: u32 = 1 << 2;

/// Ranges that are left to be cleared.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Clearing {
    /// First byte and bytes of each range, apart from each other; the last is the next one.
    ranges: Vec<(u64, u64)>,
    /// True if the room of the ranges is given back.
    frees_room: bool,
}

impl Clearing {
    /// The ranges that a command clears; none if it is not of that kind. The protocol has checked
    /// the ranges against the namespace.
    pub(super) fn of(request: &Request<'_>, format: &BlockFormat) -> Self {
        match request.op {
            Op::WriteZeroes => Self {
                ranges: vec![(request.offset, request.len)],
                frees_room: request.command.control() & Sqe::DEAC != 0,
            },
            Op::Deallocate if request.command.dword(11) & DEALLOCATE != 0 => {
                let ranges = request.data.chunks_exact(16).map(|range| {
                    let blocks = u32::from_le_bytes([range[4], range[5], range[6], range[7]]);
                    let first = u64::from_le_bytes(std::array::from_fn(|i| range[8 + i]));
                    (format.data_len(first), format.data_len(blocks.into()))
                });
                Self { ranges: joined(ranges.collect()), frees_room: true }
            }
            _ => Self::default(),
        }
    }

    /// First byte and bytes of what is left.
    pub(super) fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// Clears a slice of at most `at_once` bytes, a power of two, with one call of the device; true
    /// if that was the last.
    ///
    /// # Errors
    /// Those of the device: what is left then is not cleared.
    pub(super) fn step(&mut self, device: &dyn BlockDevice, at_once: u64) -> Result<bool, IoError> {
        let Some((offset, len)) = self.ranges.pop() else { return Ok(true) };
        let slice = device.clears_at_once().min(at_once);
        // To a multiple of a slice, so that no grain is cut in two.
        let part = len.min(slice - offset % slice);
        if self.frees_room {
            device.discard(offset, part)?;
        } else {
            device.zero(offset, part)?;
        }
        if part < len {
            self.ranges.push((offset + part, len - part));
        }
        Ok(self.ranges.is_empty())
    }
}

/// The same bytes in ranges that are apart from each other: a host may name a drive 256 times.
fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.retain(|(_, len)| *len != 0);
    ranges.sort_unstable_by(|a, b| b.cmp(a));
    let mut apart: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    while let Some((start, len)) = ranges.pop() {
        match apart.last_mut() {
            Some((first, so_far)) if *first + *so_far >= start => {
                *so_far = (*so_far).max(start + len - *first);
            }
            _ => apart.push((start, len)),
        }
    }
    apart.reverse();
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_blockdev::MemoryDevice;

    #[test]
    fn a_drive_that_is_named_often_is_cleared_once() {
        assert_eq!(joined(vec![(0, 1 << 30); 256]), [(0, 1 << 30)]);
        let ranges = vec![(4096, 4096), (0, 512), (8192, 512), (16384, 0), (1024, 512), (4608, 512)];
        assert_eq!(joined(ranges), [(4096, 4608), (1024, 512), (0, 512)]);
    }

    #[test]
    fn a_slice_is_bounded_and_all_slices_are_the_ranges() {
        const SIZE: usize = 40 << 20;
        let device = MemoryDevice::with_content("m", vec![7; SIZE]);
        let ranges = vec![(512, 20 << 20), (30 << 20, 512), (31 << 20, 9 << 20)];
        let mut clearing = Clearing { ranges: joined(ranges.clone()), frees_room: true };
        let left = |clearing: &Clearing| clearing.ranges().iter().map(|(_, len)| *len).sum::<u64>();
        let (mut before, mut at_once, mut steps) = (left(&clearing), 1 << 20, 1);
        while !clearing.step(&device, at_once).unwrap() {
            let cleared = before - left(&clearing);
            assert!((1..=at_once.min(device.clears_at_once())).contains(&cleared), "{cleared}");
            (before, at_once, steps) = (left(&clearing), (2 * at_once).min(64 << 20), steps + 1);
        }
        assert!(steps >= 4, "{steps}");
        let mut content = vec![0; SIZE];
        device.read_at(0, &mut content).unwrap();
        let cleared = |at: u64| ranges.iter().any(|(start, len)| (*start..start + len).contains(&at));
        assert!(content.iter().enumerate().all(|(at, byte)| (*byte == 0) == cleared(at as u64)));
    }
}
