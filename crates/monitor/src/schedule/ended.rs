//! Consequences of the end of a run.

use super::array::{Array, BUSY_NIGHTS, Busy};
use super::{End, How, Scheduler, grid};
use crate::ranges::Ranges;
use crate::time::{MINUTE, Now, Running, Wall};
use crate::window::Night;

/// Ranges of busy stripes that are remembered for an array.
const MOST_BUSY: usize = 1000;

impl Scheduler {
    pub(super) fn ended(&mut self, now: Now, mut end: End) {
        let night = self.calendar.night(now.wall);
        let Some(array) = self.arrays.get_mut(&end.array) else { return };
        let run = if end.own { array.run.take() } else { None };
        end.reading.stripes.remove_all(&end.busy);
        array.kept.cells.record(&end.reading);
        array.measure(&end);
        let point = array.policy.every.map(|every| grid::last_point(every, array.phase, now.wall));
        let again = run.as_ref().is_some_and(|run| run.busy) && end.how != How::Failed;
        array.count_busy(&end, night, point, again);
        match end.how {
            How::Done | How::Stopped => array.failures = 0,
            How::ByHand => array.kept.resting = Some(night),
            How::Failed => array.failed(now),
            How::Others(work) => {
                array.kept.blocker = work;
                array.pause = Some(Running(now.running.0 + 10 * MINUTE as u64));
                if let Some(record) = array.kept.nights.get_mut(&night) {
                    record.blocked = true;
                }
            }
        }
        array.changed();
    }
}

impl Array {
    /// Measures the rate of a run that was long enough to say something.
    fn measure(&mut self, end: &End) {
        let Some(seen) = &self.seen else { return };
        let stripes = end.reading.stripes.stripes();
        if end.seconds < 10 * MINUTE as u64 || stripes == 0 {
            return;
        }
        let bytes = u128::from(seen.member_bytes) * u128::from(stripes) / u128::from(seen.stripes.max(1));
        let rate = (bytes / u128::from(end.seconds)) as u64;
        // The mean of the last few runs: one slow night is no new rate.
        let mean = self.kept.rate.map_or(rate, |old| (old / 4 * 3).saturating_add(rate / 4));
        self.kept.rate = Some(mean.max(1));
    }

    /// Keeps the busy stripes of a run, and counts the nights of those that were read again (R10).
    fn count_busy(&mut self, end: &End, night: Night, point: Option<Wall>, again: bool) {
        self.kept.incomplete.remove_all(&end.reading.stripes);
        let mut fresh = end.busy.clone();
        for busy in &mut self.kept.busy {
            busy.stripes.remove_all(&end.reading.stripes);
            fresh.remove_all(&busy.stripes);
            if again && busy.tried != night {
                busy.tried = night;
                busy.left = busy.left.saturating_sub(1);
            }
        }
        let (over, kept): (Vec<_>, Vec<_>) = self.kept.busy.drain(..).partition(|busy| busy.left == 0);
        self.kept.busy = kept;
        let over = over.into_iter().flat_map(|busy| Vec::from(busy.stripes)).collect::<Vec<_>>();
        if let Some(point) = point.filter(|_| !over.is_empty()) {
            self.kept.incomplete.add(&over);
            match &mut self.kept.given_up {
                Some((of, stripes)) if *of == point => stripes.add(&over),
                other => *other = Some((point, Ranges::from(over))),
            }
        }
        let known: usize = self.kept.busy.iter().map(|busy| busy.stripes.count()).sum();
        if !fresh.is_empty() && known + fresh.count() <= MOST_BUSY {
            self.kept.busy.push(Busy { stripes: fresh, left: BUSY_NIGHTS, tried: night });
        }
        self.kept.busy.retain(|busy| !busy.stripes.is_empty());
    }
}
