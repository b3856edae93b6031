//! Logical pages that wait for a look at their contents.

use crate::ftl::table::{NONE, Table};

/// No logical page: the end of the list.
const END: u32 = u32::MAX - 1;

/// LPNs in the order of their writes: a list through two tables, 8 bytes an LPN from the start. It
/// has room for every LPN once, so it is never full, and each operation takes the same time however
/// many wait.
///
/// The order is that of the **last** write of each LPN. A page that the filter found to be unique
/// is never looked up, only indexed; its duplicates were all written after it, and find it only if
/// it is indexed before they are looked up.
#[derive(Debug)]
pub(super) struct Waiting {
    /// [`NONE`] for a logical page that does not wait.
    before: Table,
    /// Read for pages that wait alone.
    after: Vec<u32>,
    first: u32,
    last: u32,
    len: usize,
}

impl Waiting {
    /// Room for so many logical pages, fewer than 2^31.
    pub(super) fn new(logical: u32) -> Self {
        let (before, after) = (Table::new(logical), vec![0; logical as usize]);
        Self { before, after, first: END, last: END, len: 0 }
    }

    /// A logical page was written: it waits, after all others.
    pub(super) fn push(&mut self, lpn: u32) {
        self.remove(lpn);
        self.link(self.last, lpn, END);
    }

    /// Puts a logical page between two that follow each other.
    fn link(&mut self, before: u32, lpn: u32, after: u32) {
        self.before.set(lpn, before);
        self.after[lpn as usize] = after;
        self.join(before, lpn);
        self.join(lpn, after);
        self.len += 1;
    }

    /// Lets two follow each other. One of them may be an end of the list.
    fn join(&mut self, before: u32, after: u32) {
        match self.after.get_mut(before as usize) {
            Some(next) => *next = after,
            None => self.first = after,
        }
        if (after as usize) < self.before.len() {
            self.before.set(after, before);
        } else {
            self.last = before;
        }
    }

    /// A logical page waits no more, if it did.
    pub(super) fn remove(&mut self, lpn: u32) {
        // Without room for any, none waits.
        if self.before.len() == 0 {
            return;
        }
        let before = self.before.get(lpn);
        if before == NONE {
            return;
        }
        self.join(before, self.after[lpn as usize]);
        self.before.set(lpn, NONE);
        self.len -= 1;
    }

    /// The next LPN, which waits no more.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let first = Some(self.first).filter(|first| *first != END)?;
        self.remove(first);
        Some(first)
    }

    /// LPNs that were popped and not looked at, in the order in which they were. None of them was
    /// pushed since.
    pub(super) fn put_back(&mut self, lpns: &[u32]) {
        for &lpn in lpns.iter().rev() {
            self.link(END, lpn, self.first);
        }
    }

    /// LPNs that wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> u64 {
        4 * (self.before.len() + self.after.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Random;
    use std::collections::VecDeque;

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
    fn memory_is_fixed_without_idle_time() {
        // No power of two: a queue that grows would have more room than it needs.
        let mut waiting = Waiting::new(2_100);
        for n in 0..100_000 {
            waiting.push(n % 2_100);
            assert!(waiting.bytes() == 8 * 2_100 && waiting.len() <= 2_100);
        }
        assert_eq!(all(&mut waiting).len(), 2_100);
    }

    #[test]
    fn the_list_is_that_of_a_plain_queue() {
        let (mut random, mut waiting, mut plain) = (Random::new(1), Waiting::new(12), VecDeque::new());
        for _ in 0..20_000 {
            let lpn = random.below(12) as u32;
            match random.below(8) {
                0 => assert_eq!(waiting.pop(), plain.pop_front()),
                1 => {
                    waiting.remove(lpn);
                    plain.retain(|other| *other != lpn);
                }
                2 => {
                    let some: Vec<u32> = (0..random.below(4)).filter_map(|_| waiting.pop()).collect();
                    waiting.put_back(&some);
                }
                _ => {
                    waiting.push(lpn);
                    plain.retain(|other| *other != lpn);
                    plain.push_back(lpn);
                }
            }
            assert_eq!(waiting.len(), plain.len());
        }
        assert_eq!(all(&mut waiting), Vec::from(plain));
    }
}
