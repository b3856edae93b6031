//! Another order, but the region of a fresh error at once.

use super::{Extent, Order, OrderError, Sequential};

/// Regions that wait at most; further ones are dropped, as the pass reaches them anyway.
const WAITING: usize = 32;

/// Goes through the whole region of a fresh error before anything else, then goes on with `inner`.
/// Such a region is gone through in addition: `inner` still gives each of its bytes once.
#[derive(Debug, Clone)]
pub struct ErrorFirst<O> {
    inner: O,
    from: u64,
    to: u64,
    region: u64,
    waiting: [u64; WAITING],
    len: usize,
    current: Option<Sequential>,
}

impl<O: Order> ErrorFirst<O> {
    /// `inner` over `from..to`, with regions of `region` bytes.
    ///
    /// # Errors
    /// If the range or the region is empty.
    pub fn new(inner: O, from: u64, to: u64, region: u64) -> Result<Self, OrderError> {
        if from >= to {
            return Err(OrderError::EmptyRange);
        }
        if region == 0 {
            return Err(OrderError::Segments);
        }
        Ok(Self { inner, from, to, region, waiting: [0; WAITING], len: 0, current: None })
    }

    /// An error was found at a byte: its region comes next. A region that waits already is not
    /// added again.
    pub fn found_error(&mut self, offset: u64) {
        if !(self.from..self.to).contains(&offset) {
            return;
        }
        let region = (offset - self.from) / self.region;
        if self.len < WAITING && !self.waiting[..self.len].contains(&region) {
            self.waiting[self.len] = region;
            self.len += 1;
        }
    }

    fn open_region(&mut self) {
        if self.current.as_ref().is_some_and(|c| c.left() > 0) || self.len == 0 {
            return;
        }
        let region = self.waiting[0];
        self.waiting.copy_within(1..self.len, 0);
        self.len -= 1;
        let start = self.from + region * self.region;
        self.current = Sequential::range(start, start.saturating_add(self.region).min(self.to)).ok();
    }
}

impl<O: Order> Order for ErrorFirst<O> {
    fn next(&mut self, limit: u64) -> Option<Extent> {
        self.open_region();
        let urgent = self.current.as_mut().and_then(|c| c.next(limit));
        urgent.or_else(|| self.inner.next(limit))
    }

    fn left(&self) -> u64 {
        self.inner.left() + self.current.as_ref().map_or(0, Order::left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_error_goes_before() -> Result<(), OrderError> {
        let mut order = ErrorFirst::new(Sequential::range(0, 12)?, 0, 12, 4)?;
        assert_eq!(order.next(2), Some(Extent { offset: 0, len: 2 }));
        order.found_error(9);
        order.found_error(8);
        let offsets: Vec<_> = std::iter::from_fn(|| order.next(4)).map(|e| e.offset).collect();
        assert_eq!(offsets, [8, 2, 6, 10]);
        Ok(())
    }
}
