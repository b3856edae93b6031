//! The rate that a pace leaves to other hosts: no host can stop the scrubs of others by asking for
//! an extremely slow pace.

use super::{BACK_TO_BACK, Reader, locked};
use pumice_offload::PaceRequest;
use pumice_pacer::TokenBucket;

/// Bytes a second of each drive for all commands that another host's pace holds up.
pub(crate) const FLOOR: u64 = 4 << 20;

/// A drive's floor.
pub(super) fn bucket() -> TokenBucket {
    TokenBucket::new(FLOOR, BACK_TO_BACK, 0)
}

impl Reader<'_> {
    /// Lets a read of at most `want` bytes start although the pace in force does not, if that pace
    /// is not the one that the node's configuration and the command's own host have asked for.
    /// Those hold in full.
    pub(super) fn by_floor(&self, want: u64) -> Option<u64> {
        let own = {
            let requests = locked(&self.pacing.requests);
            let own = requests.of(self.asker);
            if own == requests.effective {
                return None;
            }
            own
        };
        let now = self.pacing.now();
        if !self.is_open(&own, now) {
            return None;
        }
        let bytes = want.min(BACK_TO_BACK);
        // Whoever wants less than the floor pays more for each byte of it.
        let price = own.rate.map_or(1, |rate| FLOOR.div_ceil(rate.max(1))).max(1);
        let mut floor = locked(&self.pacing.drives[self.index].floor);
        if floor.ready_at(now, bytes) > now {
            return None;
        }
        floor.take(now, bytes.saturating_mul(price));
        self.past_pacer.set(true);
        Some(bytes)
    }

    fn is_open(&self, own: &PaceRequest, now: u64) -> bool {
        self.pacing.windows(own).is_ok_and(|windows| windows.open_at(now) == now)
    }
}

#[cfg(test)]
mod tests {
    use crate::pace::Pacing;
    use pumice_offload::PaceRequest;
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, Ordering};

    const ALWAYS: &(dyn Fn() -> bool + Sync) = &|| true;

    /// A window that is not open now, nor soon.
    fn closed(pacing: &Pacing) -> (u32, u32) {
        let later = (pacing.second_of_day + 7200) % 86_400;
        (later, later + 1)
    }

    /// One host asks for the lowest rate, the lowest slowdown and a time of day that is far away.
    /// Its own reads wait; another host's go on.
    #[test]
    fn a_pace_that_stops_everything_stops_only_whoever_asked_for_it() {
        let drives = || [(1 << 30, BTreeSet::new())];
        for case in 0..3 {
            let pacing = Pacing::new(drives());
            let slowest = match case {
                0 => PaceRequest { rate: Some(4096), ..PaceRequest::default() },
                1 => PaceRequest { windows: vec![closed(&pacing)], ..PaceRequest::default() },
                _ => PaceRequest { slowdown_ns: Some(1), ..PaceRequest::default() },
            };
            pacing.ask(1, slowest).unwrap();
            if case == 2 {
                // Somebody is served all the time: there is no idle moment.
                let _ = pacing.arrived(0, std::time::Duration::ZERO);
            }
            let other = pacing.reader(0, 2);
            for _ in 0..4 {
                let granted = other.start(1 << 20, ALWAYS).unwrap();
                other.done(granted);
            }
            let wanted = AtomicBool::new(true);
            std::thread::scope(|scope| {
                let own = scope.spawn(|| {
                    let own = pacing.reader(0, 1);
                    // The first may start from what is saved up.
                    (0..3)
                        .map_while(|_| {
                            let granted = own.start(1 << 20, &|| wanted.load(Ordering::Relaxed))?;
                            own.done(granted);
                            Some(granted)
                        })
                        .count()
                });
                let granted = other.start(1 << 20, ALWAYS).unwrap();
                other.done(granted);
                assert!(!own.is_finished(), "case {case}");
                wanted.store(false, Ordering::Relaxed);
                assert!(own.join().unwrap() < 3, "case {case}");
            });
        }
    }

    /// A pace of the node's configuration, or of the host itself, has no floor.
    #[test]
    fn a_pace_of_the_nodes_own_or_of_the_host_itself_holds_in_full() {
        let pacing = Pacing::new([(1 << 30, BTreeSet::new())]);
        let window = closed(&pacing);
        let closed = PaceRequest { windows: vec![window], ..PaceRequest::default() };
        let slow = PaceRequest { rate: Some(4096), ..PaceRequest::default() };
        let (other, itself) = (pacing.reader(0, 2), pacing.reader(0, 1));
        pacing.ask(1, slow.clone()).unwrap();
        assert!(itself.by_floor(4096).is_none() && other.by_floor(4096).is_some());
        pacing.ask(2, closed.clone()).unwrap();
        assert!(other.by_floor(4096).is_none(), "its own time of day has not come");
        pacing.ask(2, PaceRequest::default()).unwrap();
        pacing.configure(closed).unwrap();
        assert!(other.by_floor(4096).is_none(), "the node's has not");
    }

    /// The floor has a bound of its own: many commands have no more of it than one.
    #[test]
    fn the_floor_of_a_drive_is_one_for_all() {
        let pacing = Pacing::new([(1 << 30, BTreeSet::new())]);
        pacing.ask(1, PaceRequest { rate: Some(4096), ..PaceRequest::default() }).unwrap();
        let began = std::time::Instant::now();
        let readers: Vec<_> = (2..100).map(|asker| pacing.reader(0, asker)).collect();
        let granted: u64 = readers.iter().filter_map(|reader| reader.by_floor(1 << 20)).sum();
        let most = (1 << 20) + super::FLOOR as f64 as u64 * (began.elapsed().as_secs() + 1);
        assert!((1 << 20..=most).contains(&granted), "{granted}");
    }
}
