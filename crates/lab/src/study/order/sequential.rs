//! From the start to the end, or from an origin around.

use super::{Extent, Order, OrderError};

/// By growing address: the whole of a range, or around it from an origin (a random one on each node
/// keeps the nodes of one array apart).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequential {
    from: u64,
    to: u64,
    at: u64,
    left: u64,
}

impl Sequential {
    /// The bytes `from..to`, in order.
    ///
    /// # Errors
    /// If the range is empty.
    pub fn range(from: u64, to: u64) -> Result<Self, OrderError> {
        Self::from_origin(from, to, from)
    }

    /// The bytes `from..to`, beginning at `origin` and wrapping around.
    ///
    /// # Errors
    /// If the range is empty or the origin outside.
    pub fn from_origin(from: u64, to: u64, origin: u64) -> Result<Self, OrderError> {
        if from >= to {
            return Err(OrderError::EmptyRange);
        }
        if !(from..to).contains(&origin) {
            return Err(OrderError::Origin);
        }
        Ok(Self { from, to, at: origin, left: to - from })
    }
}

impl Order for Sequential {
    fn next(&mut self, limit: u64) -> Option<Extent> {
        if self.left == 0 {
            return None;
        }
        let len = limit.max(1).min(self.left).min(self.to - self.at);
        let extent = Extent { offset: self.at, len };
        self.left -= len;
        self.at += len;
        if self.at == self.to {
            self.at = self.from;
        }
        Some(extent)
    }

    fn left(&self) -> u64 {
        self.left
    }
}
