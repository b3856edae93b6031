//! Events of a volume in service, from one source: each gets a number, is told to the log, kept for
//! clients of the socket, and counted. `docs/reference/control.md` has the events.

use crate::api::{EVENTS_AT_ONCE, EVENTS_KEPT, Event, Events, Severity, Told};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The log of events.
pub struct EventLog {
    series: String,
    kept: Mutex<Kept>,
    /// The way of an event to the operator's log.
    tell: Box<dyn Fn(&Told) + Send + Sync>,
}

/// Events that are kept.
#[derive(Debug, Default)]
struct Kept {
    newest: u64,
    /// The last ones, oldest first, without gaps.
    events: VecDeque<Told>,
    counts: BTreeMap<(&'static str, Severity), u64>,
}

impl Kept {
    fn add(&mut self, at: u64, event: Event) -> Told {
        self.newest += 1;
        *self.counts.entry((event.name(), event.severity())).or_default() += 1;
        let text = one_line(&event.to_string());
        let told = Told { id: self.newest, at, severity: event.severity(), text, event };
        if self.events.len() == EVENTS_KEPT {
            self.events.pop_front();
        }
        self.events.push_back(told.clone());
        told
    }

    fn after(&self, after: u64) -> (Vec<Told>, u64) {
        // A number that this series does not have yet is of an earlier one.
        let after = if after > self.newest { 0 } else { after };
        let oldest = self.events.front().map_or(self.newest + 1, |told| told.id);
        let dropped = oldest.saturating_sub(after + 1);
        let later = self.events.iter().filter(|told| told.id > after);
        (later.take(EVENTS_AT_ONCE).cloned().collect(), dropped)
    }
}

/// Words on one line.
fn one_line(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLog").field("series", &self.series).finish_non_exhaustive()
    }
}

impl EventLog {
    /// An empty one, of a new series. `tell` is told each event once, in order; it must not wait.
    #[must_use]
    pub fn new(tell: impl Fn(&Told) + Send + Sync + 'static) -> Self {
        // The standard library's hasher is keyed anew, from the system, each time.
        let series = RandomState::new().hash_one(std::process::id());
        Self { series: format!("{series:016x}"), kept: Mutex::default(), tell: Box::new(tell) }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened.
    pub fn emit(&self, event: Event) {
        // Told under the lock: so the log has them in the order of their numbers.
        let mut kept = self.lock();
        (self.tell)(&kept.add(now(), event));
    }

    /// Events after number `after`, at most [`EVENTS_AT_ONCE`].
    #[must_use]
    pub fn after(&self, after: u64) -> Events {
        let kept = self.lock();
        let (events, dropped) = kept.after(after);
        Events { series: self.series.clone(), events, dropped, newest: kept.newest }
    }

    /// The number of events by name and weight.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, Severity, u64)> {
        self.lock().counts.iter().map(|((name, severity), count)| (*name, *severity, *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    #[test]
    fn an_event_is_logged_kept_and_counted_once() {
        let logged = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&logged);
        let events = EventLog::new(move |told| log.lock().unwrap().push(told.clone()));
        events.emit(Event::GoesOn);
        events.emit(Event::ScrubFailed { why: "two\nlines".to_owned() });
        events.emit(Event::GoesOn);
        let kept = events.after(0);
        assert_eq!(kept.events, *logged.lock().unwrap(), "one source");
        assert_eq!((kept.newest, kept.dropped, kept.series.len()), (3, 0, 16));
        assert_eq!(kept.events[1].text, "the scrub could not run: two lines");
        let counts = [("goes_on", Severity::Info, 2), ("scrub_failed", Severity::Warning, 1)];
        assert_eq!(events.counts(), counts);
        assert_eq!(events.after(2).events.len(), 1);
        assert_eq!(events.after(3).events, []);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A client that asks on, however seldom, is told of all that it misses: the numbers that
        /// it has seen, and those dropped, are all there are.
        #[test]
        fn what_is_dropped_is_said(bursts in proptest::collection::vec(0_usize..1500, 1..6)) {
            let mut kept = Kept::default();
            let (mut after, mut seen, mut missed) = (0, 0, 0);
            for burst in bursts {
                (0..burst).for_each(|_| drop(kept.add(0, Event::GoesOn)));
                loop {
                    let (events, dropped) = kept.after(after);
                    missed += dropped;
                    prop_assert!(events.len() <= EVENTS_AT_ONCE && kept.events.len() <= EVENTS_KEPT);
                    let numbers: Vec<u64> = events.iter().map(|told| told.id).collect();
                    let first = after + dropped + 1;
                    prop_assert_eq!(&numbers, &(first..first + numbers.len() as u64).collect::<Vec<_>>());
                    seen += numbers.len() as u64;
                    let Some(last) = numbers.last() else { break };
                    after = *last;
                }
            }
            prop_assert_eq!(seen + missed, kept.newest);
            // A number of another series: everything that is kept is told.
            prop_assert_eq!(kept.after(kept.newest + 7).0.len(), kept.events.len().min(EVENTS_AT_ONCE));
        }
    }
}
