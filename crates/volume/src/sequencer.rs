//! The locks of windows: any number of readers, or one that writes, first come, first served.

use crate::rows::Window;
use std::collections::{BTreeMap, VecDeque};

/// Names an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

#[derive(Debug, Default)]
struct Queue {
    /// Operations that have the window.
    holders: Vec<OpId>,
    exclusive: bool,
    /// Operations that wait; true if they write.
    waiting: VecDeque<(OpId, bool)>,
}

/// The locks of all windows that anybody uses or waits for.
#[derive(Debug, Default)]
pub struct Sequencer {
    queues: BTreeMap<Window, Queue>,
}

impl Sequencer {
    /// Asks for a window. Returns whether the operation has it now; else [`release`](Self::release)
    /// names it.
    pub fn acquire(&mut self, op: OpId, window: Window, writes: bool) -> bool {
        let queue = self.queues.entry(window).or_default();
        assert!(!queue.holders.contains(&op), "V26: an operation does not ask for a window that it has");
        queue.waiting.push_back((op, writes));
        Self::admit(queue).contains(&op)
    }

    /// Gives a window back, or waits for it no longer. Returns the operations that have it from now
    /// on.
    pub fn release(&mut self, op: OpId, window: Window) -> Vec<OpId> {
        let queue =
            self.queues.get_mut(&window).expect("V27: who gives a window back has it, or waits for it");
        let before = queue.holders.len() + queue.waiting.len();
        queue.holders.retain(|holder| *holder != op);
        queue.waiting.retain(|(waiting, _)| *waiting != op);
        let left = queue.holders.len() + queue.waiting.len();
        assert!(left + 1 == before, "V27: who gives a window back has it, or waits for it, once");
        let admitted = Self::admit(queue);
        if queue.holders.is_empty() && queue.waiting.is_empty() {
            self.queues.remove(&window);
        }
        admitted
    }

    /// Returns whether an operation has a window, and no other has it.
    pub(crate) fn is_alone(&self, op: OpId, window: Window) -> bool {
        self.queues.get(&window).is_some_and(|queue| queue.exclusive && queue.holders == [op])
    }

    fn admit(queue: &mut Queue) -> Vec<OpId> {
        let mut admitted = Vec::new();
        while let Some((op, writes)) = queue.waiting.front().copied() {
            let free = queue.holders.is_empty() || !(queue.exclusive || writes);
            if !free {
                break;
            }
            queue.waiting.pop_front();
            queue.holders.push(op);
            queue.exclusive = writes;
            assert!(
                !writes || queue.holders.len() == 1,
                "L2: a window has one operation that writes, and no other beside it"
            );
            admitted.push(op);
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_writers_do_not_and_nobody_overtakes() {
        let mut locks = Sequencer::default();
        let (w, op) = (Window(1), OpId);
        assert!(locks.acquire(op(1), w, false));
        assert!(locks.acquire(op(2), w, false));
        assert!(!locks.acquire(op(3), w, true));
        assert!(!locks.acquire(op(4), w, false), "a reader does not overtake a writer");
        assert!(locks.acquire(op(5), Window(2), true), "other windows are free");
        assert_eq!(locks.release(op(1), w), []);
        assert_eq!(locks.release(op(2), w), [op(3)]);
        assert!(!locks.acquire(op(6), w, true));
        assert_eq!(locks.release(op(3), w), [op(4)]);
        assert_eq!(locks.release(op(4), w), [op(6)]);
        assert_eq!(locks.release(op(6), w), []);
        assert_eq!(locks.queues.len(), 1, "what nobody uses is forgotten");
    }
}
