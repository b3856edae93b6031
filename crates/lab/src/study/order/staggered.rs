//! The first segment of every region, then the second of every region, and so on.

use super::{Extent, Order, OrderError};

/// Staggered scrubbing (Oprea and Juels, FAST 2010; *Practical scrubbing*, section IV.A): a drive
/// of R regions with S segments each is gone through in S rounds; round k gives segment k of every
/// region by growing address.
///
/// A burst of errors lies within one region, so one of its segments is probably met early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staggered {
    from: u64,
    to: u64,
    region: u64,
    segment: u64,
    round: u64,
    regions: u64,
    turn: u64,
    within: u64,
    left: u64,
}

impl Staggered {
    /// The bytes `from..to` in regions of `region` bytes and segments of `segment` bytes; the last
    /// ones may be shorter.
    ///
    /// # Errors
    /// If the range is empty, or a segment has no bytes or is larger than a region.
    pub fn new(from: u64, to: u64, region: u64, segment: u64) -> Result<Self, OrderError> {
        if from >= to {
            return Err(OrderError::EmptyRange);
        }
        if segment == 0 || segment > region {
            return Err(OrderError::Segments);
        }
        let regions = (to - from).div_ceil(region);
        Ok(Self { from, to, region, segment, round: 0, regions, turn: 0, within: 0, left: to - from })
    }

    /// The bytes of segment `round` of region `turn` that exist: empty past the end of a short last
    /// region.
    fn segment_bounds(&self) -> (u64, u64) {
        let region = self.from + self.turn * self.region;
        let region_end = region.saturating_add(self.region).min(self.to);
        let start = region.saturating_add(self.round * self.segment).min(region_end);
        (start, start.saturating_add(self.segment).min(region_end))
    }
}

impl Order for Staggered {
    fn next(&mut self, limit: u64) -> Option<Extent> {
        while self.left > 0 {
            let (start, end) = self.segment_bounds();
            let offset = start + self.within;
            if offset < end {
                let len = limit.max(1).min(end - offset);
                self.within += len;
                self.left -= len;
                return Some(Extent { offset, len });
            }
            self.within = 0;
            self.turn += 1;
            if self.turn == self.regions {
                self.turn = 0;
                self.round += 1;
            }
        }
        None
    }

    fn left(&self) -> u64 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_walk_over_the_regions() -> Result<(), OrderError> {
        let mut order = Staggered::new(0, 11, 4, 2)?;
        let offsets: Vec<_> = std::iter::from_fn(|| order.next(100)).map(|e| (e.offset, e.len)).collect();
        assert_eq!(offsets, [(0, 2), (4, 2), (8, 2), (2, 2), (6, 2), (10, 1)]);
        Ok(())
    }
}
