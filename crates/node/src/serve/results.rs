//! Results of parity commands that wait to be read: stored for each queue under tags, within
//! bounds.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Results of a queue that wait to be read, or will, at most.
pub(super) const MAX_RESULTS: usize = 16;
/// Bytes of the results of a controller that wait to be read, from which on no more commands with
/// results are taken.
pub(super) const MAX_RESULT_BYTES: usize = 4 << 20;

/// A queue: results belong to the one that asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct QueueId {
    pub(super) core: usize,
    pub(super) connection: usize,
}

/// The sender of a command: the queue, and its controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) queue: QueueId,
    pub(super) cntlid: u16,
}

/// Results of a queue.
#[derive(Debug, Default)]
struct OfQueue {
    cntlid: u16,
    /// Results that wait to be read, by tag.
    waiting: HashMap<u32, Vec<u8>>,
    /// Number of commands under way whose result is for a tag: each has its place already.
    expected: HashMap<u32, usize>,
}

impl OfQueue {
    /// Returns whether there is a place for a result under a tag: its own, or one that is free.
    fn has_place(&self, tag: u32) -> bool {
        let both = self.expected.keys().filter(|tag| self.waiting.contains_key(tag)).count();
        self.waiting.contains_key(&tag)
            || self.expected.contains_key(&tag)
            || self.waiting.len() + self.expected.len() - both < MAX_RESULTS
    }

    fn bytes(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }
}

/// The used part of the bounds of results.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResultsUse {
    /// Results of the queue that has most.
    pub(super) of_queue: usize,
    /// Bytes of the controller that has most, and of all.
    pub(super) of_controller: usize,
    pub(super) of_all: usize,
}

/// Reasons that a result cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// There is none under the tag.
    None,
    /// It has another length.
    Length,
}

/// The results of all queues.
#[derive(Debug, Default)]
pub(super) struct Results(Mutex<HashMap<QueueId, OfQueue>>);

impl Results {
    fn lock(&self) -> MutexGuard<'_, HashMap<QueueId, OfQueue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The used part of the bounds.
    pub(super) fn used(&self) -> ResultsUse {
        let queues = self.lock();
        let mut by_controller: HashMap<u16, usize> = HashMap::new();
        for of in queues.values() {
            *by_controller.entry(of.cntlid).or_default() += of.bytes();
        }
        ResultsUse {
            of_queue: queues.values().map(|of| of.waiting.len()).max().unwrap_or(0),
            of_controller: by_controller.values().copied().max().unwrap_or(0),
            of_all: by_controller.values().sum(),
        }
    }

    /// Takes the place of the result of a command that begins; `None` where there is no room for
    /// one more.
    pub(super) fn place(&self, sender: Sender, tag: u32) -> Option<Place<'_>> {
        let Sender { queue, cntlid } = sender;
        let mut queues = self.lock();
        let of_controller = queues.values().filter(|of| of.cntlid == cntlid);
        let room = queues.get(&queue).is_none_or(|of| of.has_place(tag))
            && of_controller.map(OfQueue::bytes).sum::<usize>() < MAX_RESULT_BYTES;
        if !room {
            return None;
        }
        let of = queues.entry(queue).or_insert_with(|| OfQueue { cntlid, ..OfQueue::default() });
        *of.expected.entry(tag).or_default() += 1;
        Some(Place { of: self, queue, tag })
    }

    /// Takes the result under a tag, whose length the reader knows.
    pub(super) fn take(&self, queue: QueueId, tag: u32, len: u64) -> Result<Vec<u8>, NotTaken> {
        let mut queues = self.lock();
        let waiting = queues.get_mut(&queue).map(|of| &mut of.waiting).ok_or(NotTaken::None)?;
        match waiting.get(&tag).map(|bytes| bytes.len() as u64) {
            Some(has) if has == len => waiting.remove(&tag).ok_or(NotTaken::None),
            Some(_) => Err(NotTaken::Length),
            None => Err(NotTaken::None),
        }
    }

    /// A queue is gone, and its results with it.
    pub(super) fn forget(&self, queue: QueueId) {
        self.lock().remove(&queue);
    }
}

/// The place of a result, from when its command begins until it has ended, however it ends.
pub(super) struct Place<'r> {
    of: &'r Results,
    queue: QueueId,
    tag: u32,
}

impl Place<'_> {
    /// Keeps a result, in place of one under the same tag, if it is still `wanted`. Asked with the
    /// results in hand: a queue that is gone was so before it was forgotten, and is not forgotten
    /// twice.
    pub(super) fn keep(&self, bytes: Vec<u8>, wanted: impl Fn() -> bool) {
        let mut queues = self.of.lock();
        if !bytes.is_empty()
            && wanted()
            && let Some(of) = queues.get_mut(&self.queue)
        {
            of.waiting.insert(self.tag, bytes);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = self.of.lock();
        let Some(of) = queues.get_mut(&self.queue) else { return };
        if let Some(count) = of.expected.get_mut(&self.tag) {
            *count -= 1;
            if *count == 0 {
                of.expected.remove(&self.tag);
            }
        }
        // Its queue may have been forgotten before the command began.
        if of.expected.is_empty() && of.waiting.is_empty() {
            queues.remove(&self.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(connection: usize, cntlid: u16) -> Sender {
        Sender { queue: QueueId { core: 0, connection }, cntlid }
    }

    fn keep(results: &Results, sender: Sender, tag: u32, bytes: usize) {
        results.place(sender, tag).unwrap().keep(vec![0; bytes], || true);
    }

    fn has_room(results: &Results, sender: Sender, tag: u32) -> bool {
        results.place(sender, tag).is_some()
    }

    #[test]
    fn results_that_wait_are_bounded_by_number_and_by_bytes() {
        let results = Results::default();
        (0..16).for_each(|tag| keep(&results, sender(7, 1), tag, 1000));
        assert!(!has_room(&results, sender(7, 1), 16) && has_room(&results, sender(7, 1), 3), "its tags");
        assert!(has_room(&results, sender(8, 1), 0));
        keep(&results, sender(8, 1), 0, MAX_RESULT_BYTES);
        assert!(!has_room(&results, sender(9, 1), 0), "the bytes of a controller, over all its queues");
        assert!(has_room(&results, sender(9, 2), 0), "another one has its own");
        keep(&results, sender(9, 2), 0, 100);
        let of_controller = MAX_RESULT_BYTES + 16_000;
        let all = ResultsUse { of_queue: 16, of_controller, of_all: of_controller + 100 };
        assert_eq!(results.used(), all);
        assert_eq!(results.take(sender(9, 2).queue, 0, 99), Err(NotTaken::Length));
        assert_eq!(results.take(sender(9, 2).queue, 0, 100), Ok(vec![0; 100]));
        assert_eq!(results.take(sender(9, 2).queue, 0, 100), Err(NotTaken::None));
    }

    /// All of them begin before the first has ended: each has its place from then on.
    #[test]
    fn commands_under_way_have_their_places_already() {
        let results = Results::default();
        keep(&results, sender(7, 1), 100, 1);
        let places: Vec<Place<'_>> = (0..20).filter_map(|tag| results.place(sender(7, 1), tag)).collect();
        assert_eq!(places.len(), MAX_RESULTS - 1);
        assert!(has_room(&results, sender(7, 1), 3), "one under the same tag takes its place");
        places.iter().for_each(|place| place.keep(vec![1], || true));
        assert_eq!(results.used().of_queue, MAX_RESULTS);
        drop(places);
        assert!(!has_room(&results, sender(7, 1), 30));
        assert_eq!(results.take(sender(7, 1).queue, 3, 1), Ok(vec![1]));
        assert!(has_room(&results, sender(7, 1), 30));
    }

    #[test]
    fn nothing_is_kept_of_a_queue_that_is_gone() {
        let results = Results::default();
        let place = results.place(sender(7, 1), 1).unwrap();
        results.forget(sender(7, 1).queue);
        place.keep(vec![1], || true);
        drop(place);
        let late = results.place(sender(7, 1), 1).unwrap();
        late.keep(vec![1], || false);
        drop(late);
        assert!(results.lock().is_empty());
    }
}
