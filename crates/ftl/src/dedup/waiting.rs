//! Logical pages that wait for a look at their contents.

/// Entries that are kept before repetitions are dropped, however small the drive is.
const LEAST: usize = 1 << 10;

/// LPNs in the order of their writes. Memory is bounded: repetitions are dropped once there are
/// twice as many entries as logical pages.
///
/// The order is that of the **last** write of each LPN. A page that the filter found to be unique
/// is never looked up, only indexed; its duplicates were all written after it, and find it only if
/// it is indexed before they are looked up.
#[derive(Debug)]
pub(super) struct Waiting {
    lpns: Vec<u32>,
    logical: u32,
}

impl Waiting {
    pub(super) fn new(logical: u32) -> Self {
        Self { lpns: Vec::new(), logical }
    }

    pub(super) fn push(&mut self, lpn: u32) {
        if self.lpns.len() >= LEAST.max(2 * self.logical as usize) {
            self.drop_repetitions();
        }
        self.lpns.push(lpn);
    }

    /// Keeps the last entry of each LPN.
    fn drop_repetitions(&mut self) {
        let mut seen = vec![0_u64; (self.logical as usize).div_ceil(64)];
        let mut first_time = |lpn: u32| {
            let (word, bit) = (&mut seen[lpn as usize / 64], 1 << (lpn % 64));
            let first = *word & bit == 0;
            *word |= bit;
            first
        };
        // From the end to the start, so that the entry that is met first is the last one.
        self.lpns.reverse();
        self.lpns.retain(|&lpn| first_time(lpn));
        self.lpns.reverse();
    }

    /// All entries, once each.
    pub(super) fn take(&mut self) -> Vec<u32> {
        self.drop_repetitions();
        std::mem::take(&mut self.lpns)
    }

    /// Entries that were taken and not looked at. They come before what was written since.
    pub(super) fn put_back(&mut self, lpns: &[u32]) {
        self.lpns.splice(0..0, lpns.iter().copied());
    }

    pub(super) fn bytes(&self) -> u64 {
        4 * self.lpns.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_last_writes() {
        let mut waiting = Waiting::new(10);
        for lpn in [3, 1, 3, 2, 1] {
            waiting.push(lpn);
        }
        assert_eq!(waiting.take(), [3, 2, 1]);
        assert_eq!(waiting.take(), [0; 0]);
        waiting.push(7);
        waiting.put_back(&[2, 1]);
        assert_eq!(waiting.take(), [2, 1, 7]);
    }

    #[test]
    fn memory_is_bounded_without_idle_time() {
        let mut waiting = Waiting::new(2_000);
        for n in 0..100_000 {
            waiting.push(n % 2_000);
            assert!(waiting.bytes() <= 4 * 4_000);
        }
        assert_eq!(waiting.take().len(), 2_000);
    }
}
