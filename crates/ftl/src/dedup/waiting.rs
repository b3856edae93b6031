//! Logical pages that wait for a look at their contents.

use std::collections::VecDeque;

/// Entries that are kept before those that count no more are dropped, however small the drive is.
const LEAST: usize = 1 << 10;

/// LPNs in the order of their writes. Memory is bounded: entries that count no more are dropped
/// once there are twice as many entries as logical pages.
///
/// The order is that of the **last** write of each LPN. A page that the filter found to be unique
/// is never looked up, only indexed; its duplicates were all written after it, and find it only if
/// it is indexed before they are looked up.
#[derive(Debug)]
pub(super) struct Waiting {
    queue: VecDeque<u32>,
    /// The number of the first entry. Numbers wrap: there are far fewer than 2^32 at a time.
    first: u32,
    /// The number of the last entry of each LPN: an entry with another number counts no more.
    latest: Vec<u32>,
}

impl Waiting {
    pub(super) fn new(logical: u32) -> Self {
        Self { queue: VecDeque::new(), first: 0, latest: vec![u32::MAX; logical as usize] }
    }

    pub(super) fn push(&mut self, lpn: u32) {
        if self.queue.len() >= LEAST.max(2 * self.latest.len()) {
            self.drop_old();
        }
        self.latest[lpn as usize] = self.first.wrapping_add(self.queue.len() as u32);
        self.queue.push_back(lpn);
    }

    /// Keeps the last entry of each LPN, and numbers them anew.
    fn drop_old(&mut self) {
        let (mut number, first) = (self.first, self.first);
        let mut kept = 0;
        let latest = &mut self.latest;
        self.queue.retain(|&lpn| {
            let counts = latest[lpn as usize] == number;
            number = number.wrapping_add(1);
            if counts {
                // Not above its old number, so no entry that comes later has it.
                latest[lpn as usize] = first.wrapping_add(kept);
                kept += 1;
            }
            counts
        });
    }

    /// The next LPN, which waits no more.
    pub(super) fn pop(&mut self) -> Option<u32> {
        loop {
            let (lpn, number) = (self.queue.pop_front()?, self.first);
            self.first = self.first.wrapping_add(1);
            if self.latest[lpn as usize] == number {
                return Some(lpn);
            }
        }
    }

    /// LPNs that were popped and not looked at, in the order in which they were. None of them was
    /// pushed since.
    pub(super) fn put_back(&mut self, lpns: &[u32]) {
        for &lpn in lpns.iter().rev() {
            self.first = self.first.wrapping_sub(1);
            self.latest[lpn as usize] = self.first;
            self.queue.push_front(lpn);
        }
    }

    /// Entries; some may count no more.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        4 * (self.queue.len() + self.latest.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(waiting: &mut Waiting) -> Vec<u32> {
        std::iter::from_fn(|| waiting.pop()).collect()
    }

    #[test]
    fn the_order_is_that_of_last_writes() {
        let mut waiting = Waiting::new(10);
        for lpn in [3, 1, 3, 2, 1] {
            waiting.push(lpn);
        }
        assert_eq!(all(&mut waiting), [3, 2, 1]);
        assert_eq!(all(&mut waiting), [0; 0]);
        waiting.push(7);
        waiting.put_back(&[2, 1]);
        assert_eq!(all(&mut waiting), [2, 1, 7]);
    }

    #[test]
    fn what_was_put_back_and_is_written_again_waits_at_its_new_place() {
        let mut waiting = Waiting::new(10);
        [4, 5, 6].into_iter().for_each(|lpn| waiting.push(lpn));
        assert_eq!(waiting.pop(), Some(4));
        waiting.put_back(&[4]);
        waiting.push(4);
        assert_eq!(all(&mut waiting), [5, 6, 4]);
    }

    #[test]
    fn memory_is_bounded_without_idle_time() {
        let mut waiting = Waiting::new(2_000);
        for n in 0..100_000 {
            waiting.push(n % 2_000);
            assert!(waiting.bytes() <= 4 * 6_000);
        }
        assert_eq!(all(&mut waiting), (0..2_000).collect::<Vec<_>>());
    }
}
