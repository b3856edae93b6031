//! A background reader of a drive: it waits for its rate, its turn and the pacer's permission.

use super::lane::{Lane, State, Turn};
use super::{Asker, Pacing};
use pumice_pacer::Decision;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// Time that a background read sleeps at most before it looks whether it is still wanted.
const NAP: Duration = Duration::from_millis(100);

/// Something reads a drive in the background.
pub(crate) struct Reader<'p> {
    pub(super) pacing: &'p Pacing,
    pub(super) index: usize,
    pub(super) asker: Asker,
    /// The read under way was let through by the floor: the pacer knows nothing of it.
    pub(super) past_pacer: Cell<bool>,
}

impl Reader<'_> {
    /// Waits until a background read of at most `want` bytes may start, and returns how long it may
    /// be. `None` where it is not wanted any more.
    pub(crate) fn start(&self, want: u64, wanted: &(dyn Fn() -> bool + Sync)) -> Option<u64> {
        let (pacing, drive) = (self.pacing, &self.pacing.drives[self.index]);
        let over = || pacing.stopping.load(Ordering::Acquire) || !wanted();
        // The rate first: whoever waits for it keeps nobody else.
        while let Some(wait) = drive.rate_wait(pacing.now(), want) {
            if over() {
                return None;
            }
            if let Some(granted) = self.by_floor(want) {
                return Some(granted);
            }
            std::thread::sleep(wait.min(NAP));
        }
        let lane = &pacing.lanes[drive.lane];
        let mut state = lane.lock();
        let turn = loop {
            if over() {
                return None;
            }
            if lane.is_taken()
                && let Some(granted) = self.by_floor(want)
            {
                return Some(granted);
            }
            match Turn::take(lane) {
                Some(turn) => break turn,
                None => state = lane.free.wait_timeout(state, NAP).unwrap_or_else(PoisonError::into_inner).0,
            }
        };
        let (state, granted) = self.ask(lane, state, want, &over);
        // Given back under the lock: who has just seen that it is taken would miss that.
        drop(turn);
        drop(state);
        granted
    }

    /// Asks the pacer until it lets a read start, or nobody wants it.
    fn ask<'s>(
        &self,
        lane: &'s Lane,
        mut state: MutexGuard<'s, State>,
        want: u64,
        over: &dyn Fn() -> bool,
    ) -> (MutexGuard<'s, State>, Option<u64>) {
        let _waits = Waits::new(&lane.waiting);
        loop {
            if over() {
                return (state, None);
            }
            lane.catch_up(&mut state);
            let now = self.pacing.now();
            let nap = match state.pacer.as_mut().map(|pacer| pacer.next(now)) {
                // Nobody wants a pace any more.
                None => return (state, Some(want)),
                Some(Decision::StartRequest { bytes, .. }) => {
                    let granted = bytes.min(want);
                    self.pacing.drives[self.index].take(now, granted);
                    return (state, Some(granted));
                }
                Some(Decision::WaitUntil(then)) => Duration::from_nanos(then.saturating_sub(now)).min(NAP),
                Some(Decision::WaitForEvent) => NAP,
            };
            if let Some(granted) = self.by_floor(want) {
                return (state, Some(granted));
            }
            if !lane.any_left.load(Ordering::Acquire) {
                state = lane.changed.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// It has ended.
    pub(crate) fn done(&self, bytes: u64) {
        let drive = &self.pacing.drives[self.index];
        let lane = &self.pacing.lanes[drive.lane];
        let now = self.pacing.now();
        drive.bytes.fetch_add(bytes, Ordering::Relaxed);
        drive.requests.fetch_add(1, Ordering::Relaxed);
        if self.past_pacer.take() {
            return;
        }
        if let Some(pacer) = &mut lane.lock().pacer {
            pacer.background_done(now, bytes);
        }
        if lane.waiting.load(Ordering::Relaxed) > 0 {
            lane.changed.notify_all();
        }
    }
}

/// Counts one who waits, as long as it lives.
struct Waits<'p>(&'p AtomicUsize);

impl<'p> Waits<'p> {
    fn new(count: &'p AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut state = self.pacing.lane(self.index).lock();
        state.readers -= 1;
        state.tell_work();
    }
}
