//! The region that was checked longest ago comes first.

use super::{Extent, Order, OrderError, Sequential};
use pumice_pacer::Nanos;

/// Goes through whole regions, the one with the oldest check first (the lower address where they
/// are equal).
///
/// Costs one look at every region's time for each region begun: keep regions to thousands.
#[derive(Debug, Clone)]
pub struct OldestFirst {
    from: u64,
    to: u64,
    region: u64,
    checked: Vec<Nanos>,
    done: Vec<bool>,
    left: u64,
    current: Option<Sequential>,
}

impl OldestFirst {
    /// The bytes `from..to` in regions of `region` bytes, none ever checked.
    ///
    /// # Errors
    /// If the range or the region is empty.
    pub fn new(from: u64, to: u64, region: u64) -> Result<Self, OrderError> {
        if from >= to {
            return Err(OrderError::EmptyRange);
        }
        if region == 0 {
            return Err(OrderError::Segments);
        }
        let regions = usize::try_from((to - from).div_ceil(region)).map_err(|_| OrderError::Segments)?;
        let (checked, done) = (vec![0; regions], vec![false; regions]);
        Ok(Self { from, to, region, checked, done, left: to - from, current: None })
    }

    /// Remembers when the region around a byte was last checked, in nanoseconds.
    pub fn set_checked(&mut self, offset: u64, at: Nanos) {
        let region = offset.saturating_sub(self.from) / self.region;
        if let Some(slot) = usize::try_from(region).ok().and_then(|i| self.checked.get_mut(i)) {
            *slot = at;
        }
    }

    /// The oldest check of a region that this pass has not begun.
    #[must_use]
    pub fn oldest(&self) -> Option<Nanos> {
        self.open().map(|i| self.checked[i])
    }

    fn open(&self) -> Option<usize> {
        (0..self.checked.len()).filter(|&i| !self.done[i]).min_by_key(|&i| self.checked[i])
    }
}

impl Order for OldestFirst {
    fn next(&mut self, limit: u64) -> Option<Extent> {
        loop {
            if let Some(extent) = self.current.as_mut().and_then(|c| c.next(limit)) {
                self.left -= extent.len;
                return Some(extent);
            }
            let i = self.open()?;
            self.done[i] = true;
            let start = self.from + i as u64 * self.region;
            self.current = Sequential::range(start, start.saturating_add(self.region).min(self.to)).ok();
        }
    }

    fn left(&self) -> u64 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_region_comes_first() -> Result<(), OrderError> {
        let mut order = OldestFirst::new(0, 10, 4)?;
        order.set_checked(0, 30);
        order.set_checked(5, 10);
        order.set_checked(9, 20);
        assert_eq!(order.oldest(), Some(10));
        let offsets: Vec<_> = std::iter::from_fn(|| order.next(4)).map(|e| (e.offset, e.len)).collect();
        assert_eq!(offsets, [(4, 4), (8, 2), (0, 4)]);
        Ok(())
    }
}
