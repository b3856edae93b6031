//! One array: what is known of it, and what it wants.

use super::{Fault, Seen, Why, grid};
use crate::cells::Cells;
use crate::config::Policy;
use crate::ranges::{Range, Ranges};
use crate::time::{DAY, HOUR, MINUTE, Now, Running, Wall};
use crate::window::{Calendar, Night, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Nights in which busy stripes are read again.
pub(super) const BUSY_NIGHTS: u8 = 3;
/// Nights in a row after which work of others is a fault.
const LOST_NIGHTS: u32 = 3;
/// Nights that are remembered.
const NIGHTS: i32 = 31;

/// A change that would do for an array that will not be read in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shortfall {
    /// Bytes a second from each drive that would do, with the hours that it has.
    pub rate: u64,
    /// Hours of reading a night that would do, with the rate that it has.
    pub hours: f64,
    /// Hours a night that it has.
    pub had: f64,
}

/// The reading of an array in one night, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct NightRecord {
    /// Reading.
    pub(super) read: u64,
    /// The window was open and the machine ran.
    pub(super) offered: u64,
    /// It wanted to read when the night ended.
    pub(super) wanted: bool,
    /// Others kept it from reading.
    pub(super) blocked: bool,
}

/// Stripes that could not be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Busy {
    pub(super) stripes: Ranges,
    /// Nights that are left.
    pub(super) left: u8,
    /// The night in which they were last read.
    pub(super) tried: Night,
}

/// The part that is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    pub(super) cells: Cells,
    /// The point of the last pass that was closed.
    pub(super) closed: Option<Wall>,
    pub(super) busy: Vec<Busy>,
    /// Stripes that stayed busy, until they are read.
    pub(super) incomplete: Ranges,
    /// Those of them that the pass of a point gave up.
    pub(super) given_up: Option<(Wall, Ranges)>,
    pub(super) waiting: Option<Wall>,
    pub(super) nights: BTreeMap<Night, NightRecord>,
    /// Measured bytes a second from each drive.
    pub(super) rate: Option<u64>,
    pub(super) lost: u32,
    pub(super) blocker: String,
    /// The night in which it rests.
    pub(super) resting: Option<Night>,
}

/// A run that is under way.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) stopping: bool,
    pub(super) busy: bool,
    /// The night in which it began as urgent.
    pub(super) urgent: Option<Night>,
    /// Time at which it will have read all.
    pub(super) expected: Running,
}

/// The stripes that an array asks to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) due: Wall,
    pub(super) ranges: Vec<Range>,
    pub(super) busy: bool,
}

/// The stretch around now in which the windows stay as they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Windows {
    pub(super) open: bool,
    pub(super) span: Span,
}

#[derive(Debug, Clone)]
pub(super) struct Array {
    pub(super) kept: Kept,
    pub(super) policy: Policy,
    pub(super) phase: u64,
    pub(super) seen: Option<Seen>,
    pub(super) gone: bool,
    pub(super) run: Option<Run>,
    pub(super) windows: Option<Windows>,
    pub(super) want: Option<Want>,
    /// For which point and night `want` was found.
    want_of: Option<(Wall, Night)>,
    pub(super) oldest: Option<Wall>,
    newest: Wall,
    /// After failures: how many, and until when it rests.
    pub(super) failures: u32,
    pub(super) pause: Option<Running>,
    pub(super) shortfall: Option<Shortfall>,
    night: Option<Night>,
}

impl Array {
    pub(super) fn new(policy: Policy, phase: u64) -> Self {
        let kept = Kept {
            cells: Cells::new(0),
            closed: None,
            busy: Vec::new(),
            incomplete: Ranges::default(),
            given_up: None,
            waiting: None,
            nights: BTreeMap::new(),
            rate: None,
            lost: 0,
            blocker: String::new(),
            resting: None,
        };
        Self::kept(kept, policy, phase)
    }

    pub(super) fn kept(kept: Kept, policy: Policy, phase: u64) -> Self {
        let mut array = Self {
            kept,
            policy,
            phase,
            seen: None,
            gone: true,
            run: None,
            windows: None,
            want: None,
            want_of: None,
            oldest: None,
            newest: Wall(0),
            failures: 0,
            pause: None,
            shortfall: None,
            night: None,
        };
        array.changed();
        array
    }

    pub(super) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        self.windows = None;
        self.want_of = None;
    }

    /// Forgets what follows from the cells.
    pub(super) fn changed(&mut self) {
        self.oldest = self.kept.cells.oldest();
        self.newest = self.kept.cells.newest();
        self.want_of = None;
    }

    pub(super) fn look(&mut self, seen: Seen, now: Now) {
        self.gone = false;
        let same = self.seen.as_ref().is_some_and(|old| {
            old.members == seen.members
                && old.stripes == seen.stripes
                && old.member_bytes == seen.member_bytes
        });
        if !same {
            let members: Vec<_> = seen.members.iter().map(|(member, _)| member.clone()).collect();
            if seen.stripes != self.kept.cells.stripes() {
                self.kept.busy.clear();
                self.kept.incomplete = Ranges::default();
                self.kept.given_up = None;
                self.kept.closed = None;
            }
            self.kept.cells.set_members(seen.stripes, &members, now.wall);
            self.changed();
        }
        self.seen = Some(seen);
    }

    /// The moment after which a check is not believed (R12).
    fn future(now: Wall) -> Wall {
        now.plus(DAY)
    }

    /// Returns the time at which it is due (R1).
    pub(super) fn due(&self, now: Wall) -> Option<Wall> {
        let every = self.policy.every?;
        let oldest = self.oldest?;
        let future = Self::future(now);
        if self.newest > future {
            return Some(grid::last_point(every, self.phase, now));
        }
        let closed = self.kept.closed.filter(|closed| *closed <= future).unwrap_or_default();
        Some(grid::next_point(every, self.phase, oldest.max(closed)))
    }

    /// Seconds that it takes to read stripes.
    pub(super) fn seconds(&self, stripes: u64) -> u64 {
        let Some(seen) = &self.seen else { return 0 };
        let bytes = u128::from(seen.member_bytes) * u128::from(stripes) / u128::from(seen.stripes.max(1));
        (bytes / u128::from(self.rate().max(1))) as u64
    }

    /// Bytes a second from each drive: as measured, else as configured.
    pub(super) fn rate(&self) -> u64 {
        self.kept.rate.unwrap_or(self.policy.rate)
    }

    /// Seconds that it may still read in a night (R8).
    pub(super) fn budget(&self, night: Night) -> u64 {
        let read = self.kept.nights.get(&night).map_or(0, |record| record.read);
        (self.policy.nightly as u64).saturating_sub(read)
    }

    /// Counts seconds that passed, and closes a night that is over (R7).
    pub(super) fn pass_time(&mut self, passed: u64, night: Night, now: Now) {
        if let Some(old) = self.night {
            let open = self.windows.is_some_and(|windows| windows.open);
            let idle = self.seen.as_ref().is_none_or(|seen| seen.work.is_none());
            let wants = self.want.is_some() && self.run.is_none();
            let record = self.kept.nights.entry(old).or_default();
            let reading = if self.run.is_some() { passed } else { 0 };
            record.read = record.read.saturating_add(reading);
            record.offered = record.offered.saturating_add(if open { passed } else { 0 });
            record.blocked |= open && passed > 0 && wants && !idle;
        }
        if self.night.is_some_and(|old| old != night) {
            self.close_night(night);
        }
        if self.night != Some(night) {
            self.night = Some(night);
            self.kept.nights.retain(|of, _| (night.0 - NIGHTS..=night.0 + 1).contains(&of.0));
            self.kept.nights.entry(night).or_default();
            self.failures = 0;
            self.pause = None;
        }
        if self.kept.waiting.is_some_and(|since| since > Self::future(now.wall)) {
            self.kept.waiting = Some(now.wall);
        }
    }

    fn close_night(&mut self, night: Night) {
        let wanted = self.want.as_ref().is_some_and(|want| !want.busy) || self.run.is_some();
        let Some(old) = self.night.and_then(|old| self.kept.nights.get_mut(&old)) else { return };
        old.wanted = wanted;
        if old.read > 0 || !wanted {
            self.kept.lost = 0;
        } else if old.blocked {
            self.kept.lost = self.kept.lost.saturating_add(1);
        }
        self.kept.resting = self.kept.resting.filter(|resting| *resting == night);
    }

    /// Looks at windows and wants, where they may have changed; whether it looked at wants.
    pub(super) fn refresh(&mut self, now: Now, night: Night, calendar: &Calendar) -> bool {
        let valid = self.windows.is_some_and(|w| w.span.from <= now.wall && now.wall < w.span.to);
        if !valid {
            self.windows = Some(match calendar.open(&self.policy.windows, now.wall) {
                Some(span) => Windows { open: true, span },
                None => {
                    let next = calendar.next_open(&self.policy.windows, now.wall);
                    let to = next.unwrap_or_else(|| now.wall.plus(DAY)).max(now.wall.plus(1));
                    Windows { open: false, span: Span { from: now.wall, to } }
                }
            });
        }
        if let Some(work) = self.seen.as_ref().and_then(|seen| seen.work.as_ref())
            && self.kept.blocker != *work
        {
            self.kept.blocker.clone_from(work);
        }
        let found = self.find_want(now.wall, night);
        match &self.want {
            Some(_) if self.run.is_none() && self.kept.waiting.is_none() => {
                self.kept.waiting = Some(now.wall);
            }
            Some(_) if self.run.is_none() => {}
            _ => self.kept.waiting = None,
        }
        found
    }

    fn find_want(&mut self, now: Wall, night: Night) -> bool {
        let Some(every) = self.policy.every.filter(|_| self.seen.is_some() && !self.gone) else {
            self.want = None;
            self.want_of = None;
            self.shortfall = None;
            return false;
        };
        let point = grid::last_point(every, self.phase, now);
        if self.want_of == Some((point, night)) {
            return false;
        }
        self.want_of = Some((point, night));
        self.want = self.wanted(now, point, night);
        true
    }

    /// Returns the stripes to read for a point: the pass first, then busy stripes (R10).
    fn wanted(&mut self, now: Wall, point: Wall, night: Night) -> Option<Want> {
        let due = self.due(now).filter(|due| *due <= now);
        if let Some(due) = due {
            let ranges = self.without_busy(self.kept.cells.wanted(point, Self::future(now)), point);
            if !ranges.is_empty() {
                return Some(Want { due, ranges, busy: false });
            }
            if self.kept.busy.is_empty() {
                self.kept.closed = Some(point);
            }
        }
        let again = self.kept.busy.iter().filter(|busy| busy.tried != night);
        let ranges: Vec<Range> = again.flat_map(|busy| busy.stripes.iter()).collect();
        let ranges = Vec::from(Ranges::from(ranges));
        (!ranges.is_empty()).then(|| Want { due: due.unwrap_or(now), ranges, busy: true })
    }

    fn without_busy(&self, ranges: Vec<Range>, point: Wall) -> Vec<Range> {
        let given_up = self.kept.given_up.iter().filter(|(of, _)| *of == point).map(|(_, stripes)| stripes);
        let out: Vec<&Ranges> = self.kept.busy.iter().map(|busy| &busy.stripes).chain(given_up).collect();
        if out.iter().all(|out| out.is_empty()) {
            return ranges;
        }
        let without = |range: Range| {
            let mut left = Ranges::one(range);
            out.iter().for_each(|out| left.remove_all(out));
            Vec::from(left)
        };
        ranges.into_iter().flat_map(without).collect()
    }

    /// Returns the reason why its run may not go on, if there is one.
    pub(super) fn must_stop(&self, night: Night) -> Option<Why> {
        if self.gone || self.seen.as_ref().is_some_and(|seen| seen.work.is_some()) {
            Some(Why::Others)
        } else if !self.windows.is_some_and(|windows| windows.open) {
            Some(Why::Window)
        } else if self.budget(night) == 0 {
            Some(Why::Budget)
        } else if self.kept.resting == Some(night) || self.policy.every.is_none() {
            Some(Why::Asked)
        } else {
            None
        }
    }

    /// Returns whether it may begin now, if its disks are free.
    pub(super) fn may_begin(&self, now: Now, night: Night) -> bool {
        self.run.is_none()
            && self.want.is_some()
            && self.budget(night) >= MINUTE as u64
            && self.must_stop(night).is_none()
            && self.pause.is_none_or(|pause| pause <= now.running)
    }

    /// Lets it rest after a failure: 10 min, then twice as long, 16 h at most.
    pub(super) fn failed(&mut self, now: Now) {
        let wait = (10 * MINUTE as u64) << self.failures.min(10);
        self.failures += 1;
        self.pause = Some(Running(now.running.0 + wait.min(16 * HOUR as u64)));
    }

    /// Seconds to the next change that time alone brings.
    pub(super) fn wake(&self, now: Now) -> i64 {
        let mut next = self.windows.map_or(DAY, |windows| windows.span.to.since(now.wall));
        if let (Some(_), Some(night)) = (&self.run, self.night) {
            next = next.min(self.budget(night) as i64);
        }
        // A point of the grid makes more cells due, also while an older pass is open.
        if let Some(every) = self.policy.every {
            next = next.min(grid::next_point(every, self.phase, now.wall).since(now.wall));
        }
        if let Some(pause) = self.pause.filter(|pause| *pause > now.running) {
            next = next.min(pause.since(now.running) as i64);
        }
        next.max(1)
    }

    pub(super) fn faults(&self, now: Wall, trusted: bool) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.policy.every.is_none() {
            return faults;
        }
        if let Some(oldest) = self.oldest.filter(|oldest| trusted && now.since(*oldest) > self.policy.late) {
            faults.push(Fault::Late(oldest));
        }
        if trusted && self.newest > Self::future(now) {
            faults.push(Fault::Clock);
        }
        if !self.kept.incomplete.is_empty() {
            faults.push(Fault::Incomplete(self.kept.incomplete.stripes()));
        }
        if let Some(shortfall) = &self.shortfall {
            faults.push(Fault::Infeasible(*shortfall));
        }
        if self.kept.lost >= LOST_NIGHTS {
            faults.push(Fault::Blocked(self.kept.blocker.clone()));
        }
        faults
    }
}
