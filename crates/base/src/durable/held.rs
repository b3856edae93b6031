//! Bytes with several holders.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Bytes that several may hold and nobody changes: a part of what an owner holds.
///
/// A clone is another holder of the same bytes. The owner is dropped with the last one.
#[derive(Clone)]
pub struct Held {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Held {
    /// All bytes of an owner, which must give the same ones each time.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        let range = 0..owner.as_ref().len();
        Self { owner: Arc::new(owner), range }
    }

    /// A part of them.
    ///
    /// # Panics
    /// If it goes beyond them.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.range.len(), "a part of what is held");
        let start = self.range.start;
        Self { owner: Arc::clone(&self.owner), range: start + range.start..start + range.end }
    }

    /// These bytes and those of `next`, if they lie one after the other with the same owner.
    #[must_use]
    pub fn joined(&self, next: &Self) -> Option<Self> {
        let follows = Arc::ptr_eq(&self.owner, &next.owner) && self.range.end == next.range.start;
        follows.then(|| Self { owner: Arc::clone(&self.owner), range: self.range.start..next.range.end })
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("range", &self.range).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_owner_join_and_others_do_not() {
        let all = Held::new((0..100).collect::<Vec<u8>>());
        let (first, second) = (all.part(10..20), all.part(20..50));
        assert_eq!(second.part(5..7)[..], [25, 26]);
        let both = first.joined(&second).unwrap();
        assert_eq!(both[..], all[10..50]);
        assert!(second.joined(&first).is_none() && first.joined(&first).is_none());
        let other = Held::new((0..100).collect::<Vec<u8>>());
        assert!(first.joined(&other.part(20..50)).is_none());
    }
}
