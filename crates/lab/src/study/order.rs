//! In which order a drive is gone through. Each order is a strategy of tens of lines: it is asked
//! for the next piece and gives at most so many bytes.

mod error_first;
mod oldest_first;
mod sequential;
mod staggered;

pub use error_first::ErrorFirst;
pub use oldest_first::OldestFirst;
pub use sequential::Sequential;
pub use staggered::Staggered;

use thiserror::Error;

/// A piece of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes from the start of the drive.
    pub offset: u64,
    /// Length in bytes, at least 1.
    pub len: u64,
}

/// An order that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OrderError {
    /// Nothing to go through, or an end before the start.
    #[error("the range is empty")]
    EmptyRange,
    /// A region or segment of no bytes, or a segment larger than its region.
    #[error("regions and segments have at least one byte, and a segment is no larger than its region")]
    Segments,
    /// An origin outside the range.
    #[error("the origin lies outside the range")]
    Origin,
}

/// A way to go through a drive. One pass gives every byte of its range exactly once, then `None`.
pub trait Order {
    /// The next piece, of at most `limit` bytes (at least 1 is given); `None` when the pass is
    /// done.
    fn next(&mut self, limit: u64) -> Option<Extent>;

    /// Bytes of the pass that have not been given yet.
    fn left(&self) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn covers_once(order: &mut dyn Order, from: u64, to: u64, limits: &[u64]) {
        let mut seen = vec![0_u8; usize::try_from(to).expect("small")];
        let mut turn = 0;
        let mut left = order.left();
        assert_eq!(left, to - from);
        while let Some(extent) = order.next(limits[turn % limits.len()]) {
            assert!(extent.len >= 1 && extent.len <= limits[turn % limits.len()]);
            (extent.offset..extent.offset + extent.len).for_each(|at| seen[at as usize] += 1);
            left -= extent.len;
            assert_eq!(order.left(), left);
            turn += 1;
        }
        assert!(seen[..from as usize].iter().all(|&n| n == 0));
        assert!(seen[from as usize..].iter().all(|&n| n == 1));
        assert_eq!(order.next(1), None);
    }

    proptest! {
        #[test]
        fn every_byte_exactly_once(
            from in 0_u64..500, len in 1_u64..5_000, region in 1_u64..1_500, segment in 1_u64..700,
            origin in 0_u64..5_000, limits in proptest::collection::vec(1_u64..900, 1..5),
        ) {
            let to = from + len;
            let origin = from + origin % len;
            let segment = segment.min(region);
            covers_once(&mut Sequential::range(from, to)?, from, to, &limits);
            covers_once(&mut Sequential::from_origin(from, to, origin)?, from, to, &limits);
            covers_once(&mut Staggered::new(from, to, region, segment)?, from, to, &limits);
            let plain = Sequential::range(from, to)?;
            covers_once(&mut ErrorFirst::new(plain, from, to, region)?, from, to, &limits);
            let mut oldest = OldestFirst::new(from, to, region)?;
            covers_once(&mut oldest, from, to, &limits);
        }
    }
}
