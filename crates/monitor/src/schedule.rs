//! The schedule of passes: events and times in, orders out. `docs/design/monitor.md` has the rules
//! R1 to R14.

mod array;
mod choose;
mod ended;
mod forecast;
mod grid;
mod plan;
mod stored;

pub use array::Shortfall;
pub use grid::{ArrayId, MachineId};
pub use plan::Planned;
pub use stored::{StateError, Stored};

use crate::cells::{Cells, Member, Reading};
use crate::config::Config;
use crate::ranges::{Range, Ranges};
use crate::time::{DAY, MINUTE, Now, Wall};
use crate::window::{Calendar, Night};
use array::Array;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// Arrays at most.
const MOST_ARRAYS: usize = 1024;
/// Seconds after the boot from which ages are judged without synchronised time.
const TRUSTED: u64 = 10 * MINUTE as u64;

/// A physical disk: arrays that name the same one are not read at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Disk(pub String);

/// An array as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its UUID.
    pub array: ArrayId,
    /// Its name.
    pub name: String,
    /// The members present, and the disk of each.
    pub members: Vec<(Member, Disk)>,
    /// Its stripes.
    pub stripes: u64,
    /// Bytes of each member that a pass reads.
    pub member_bytes: u64,
    /// The work of others on it, by name: a rebuild, md's check, a unit. `None` if it is idle.
    pub work: Option<String>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// It read all that it was asked to.
    Done,
    /// It was asked to end, and saved.
    Stopped,
    /// A person ended it.
    ByHand,
    /// It failed.
    Failed,
    /// It found others at work.
    Others(String),
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The array.
    pub array: ArrayId,
    /// True if it was the run that the scheduler started last; else one by hand, or of a monitor
    /// that is gone.
    pub own: bool,
    /// The stripes that it has read whole.
    pub reading: Reading,
    /// Stripes that it could not judge.
    pub busy: Ranges,
    /// Seconds for which it read.
    pub seconds: u64,
    /// Its end.
    pub how: How,
}

/// An event for the scheduler.
#[derive(Debug, Clone)]
pub enum Event {
    /// Time passed.
    Tick,
    /// All arrays were looked at; those that are not listed are gone.
    Look(Vec<Seen>),
    /// A run ended.
    Ended(End),
    /// A person wants an array to rest until noon.
    Skip(ArrayId),
    /// The configuration was read anew.
    Reload(Box<Config>),
}

/// The reason why a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The window ends.
    Window,
    /// It has read for as long as it may in a night.
    Budget,
    /// Others are at work on the array, or it is gone.
    Others,
    /// Another array has waited too long.
    Waiting,
    /// A person, or the configuration, wants it.
    Asked,
}

/// An order of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// A run is to begin.
    Start {
        /// The array.
        array: ArrayId,
        /// The stripes that it reads, in this order.
        ranges: Vec<Range>,
        /// True if it only reads busy stripes again.
        busy: bool,
    },
    /// A run is to save and end.
    Stop {
        /// The array.
        array: ArrayId,
        /// The reason.
        why: Why,
    },
}

/// A fault of the schedule, for the alerts.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// A cell was checked longer ago than `late`; the time of its check.
    Late(Wall),
    /// Stripes stayed busy; how many.
    Incomplete(u64),
    /// The limits do not let the array be read in time.
    Infeasible(Shortfall),
    /// Work of others took three nights in a row; its name.
    Blocked(String),
    /// A check lies in the future.
    Clock,
}

/// The scheduler of a machine.
#[derive(Debug, Clone)]
pub struct Scheduler {
    machine: MachineId,
    calendar: Calendar,
    config: Config,
    arrays: BTreeMap<ArrayId, Array>,
    last: Option<Now>,
    night: Option<(Night, Wall, Wall)>,
}

impl Scheduler {
    /// A scheduler without arrays.
    #[must_use]
    pub fn new(machine: MachineId, zone: TimeZone, config: Config) -> Self {
        let calendar = Calendar::new(zone);
        Self { machine, calendar, config, arrays: BTreeMap::new(), last: None, night: None }
    }

    /// Takes an event, and answers with orders. To be called at each event, and at the latest when
    /// [`Self::wake`] says.
    pub fn step(&mut self, now: Now, event: Event) -> Vec<Order> {
        let now = Now { wall: now.wall.bounded(), ..now };
        self.pass_time(now);
        let mut orders = Vec::new();
        match event {
            Event::Tick => {}
            Event::Look(seen) => self.look(now, seen),
            Event::Ended(end) => self.ended(now, end),
            Event::Skip(array) => {
                let night = self.calendar.night(now.wall);
                if let Some(array) = self.arrays.get_mut(&array) {
                    array.kept.resting = Some(night);
                }
            }
            Event::Reload(config) => {
                self.config = *config;
                self.reload();
            }
        }
        let night = self.night_of(now);
        for array in self.arrays.values_mut() {
            if array.refresh(now, night, &self.calendar) {
                array.shortfall = forecast::shortfall(array, now.wall, night, &self.calendar);
            }
        }
        self.stops(night, &mut orders);
        self.choose(now, night, &mut orders);
        orders
    }

    /// Counts the time since the last step, and closes nights that are over.
    fn pass_time(&mut self, now: Now) {
        let night = self.night_of(now);
        let passed = self.last.map_or(0, |last| now.running.since(last.running));
        for array in self.arrays.values_mut() {
            array.pass_time(passed, night, now);
        }
        self.last = Some(now);
    }

    /// The night of a moment, remembered until it is over or the clock steps.
    fn night_of(&mut self, now: Now) -> Night {
        match self.night {
            Some((night, from, to)) if from <= now.wall && now.wall < to => night,
            _ => {
                let night = self.calendar.night(now.wall);
                let span = self.calendar.span(night);
                self.night = Some((night, span.from, span.to));
                night
            }
        }
    }

    fn look(&mut self, now: Now, seen: Vec<Seen>) {
        for array in self.arrays.values_mut() {
            array.gone = true;
        }
        // Known arrays first: those that are gone then make room for new ones.
        let (known, new): (Vec<Seen>, Vec<Seen>) =
            seen.into_iter().partition(|seen| self.arrays.contains_key(&seen.array));
        for seen in known.into_iter().chain(new) {
            if !self.arrays.contains_key(&seen.array) {
                if self.arrays.len() >= MOST_ARRAYS && !self.forget_one() {
                    continue;
                }
                let policy = self.config.policy(&seen.array.0, &seen.name).clone();
                let phase = grid::phase(&self.machine, &seen.array);
                self.arrays.insert(seen.array.clone(), Array::new(policy, phase));
            }
            if let Some(array) = self.arrays.get_mut(&seen.array) {
                let policy = self.config.policy(&seen.array.0, &seen.name);
                if array.policy != *policy {
                    array.set_policy(policy.clone());
                }
                array.look(seen, now);
            }
        }
    }

    /// Forgets an array that is gone; false if there is none.
    fn forget_one(&mut self) -> bool {
        let gone = self.arrays.iter().find(|(_, array)| array.gone && array.run.is_none());
        let gone = gone.map(|(uuid, _)| uuid.clone());
        gone.is_some_and(|uuid| self.arrays.remove(&uuid).is_some())
    }

    fn reload(&mut self) {
        for (uuid, array) in &mut self.arrays {
            let name = array.seen.as_ref().map_or("", |seen| seen.name.as_str());
            array.set_policy(self.config.policy(&uuid.0, name).clone());
        }
    }

    /// Stops runs that may not go on (R6, R8).
    fn stops(&mut self, night: Night, orders: &mut Vec<Order>) {
        for (uuid, array) in &mut self.arrays {
            let why = array.must_stop(night);
            let Some(run) = &mut array.run else { continue };
            if let Some(why) = why.filter(|_| !run.stopping) {
                run.stopping = true;
                orders.push(Order::Stop { array: uuid.clone(), why });
            }
        }
    }

    /// Seconds after which the next step is due, if no event comes before.
    #[must_use]
    pub fn wake(&self, now: Now) -> u64 {
        let mut next = self.night.map_or(DAY, |(_, _, to)| to.since(now.wall));
        for array in self.arrays.values() {
            next = next.min(array.wake(now));
        }
        if now.running.0 < TRUSTED {
            next = next.min((TRUSTED - now.running.0) as i64);
        }
        next.max(1) as u64
    }

    /// The faults of every array at a moment.
    #[must_use]
    pub fn faults(&self, now: Now) -> Vec<(ArrayId, Fault)> {
        let trusted = now.synchronised || now.running.0 >= TRUSTED;
        let of = |(uuid, array): (&ArrayId, &Array)| {
            let faults = array.faults(now.wall.bounded(), trusted);
            faults.into_iter().map(|fault| (uuid.clone(), fault)).collect::<Vec<_>>()
        };
        self.arrays.iter().filter(|(_, array)| !array.gone).flat_map(of).collect()
    }

    /// The machine's id.
    #[must_use]
    pub const fn machine(&self) -> &MachineId {
        &self.machine
    }

    /// The cells of an array.
    #[must_use]
    pub fn cells(&self, array: &ArrayId) -> Option<&Cells> {
        self.arrays.get(array).map(|array| &array.kept.cells)
    }

    /// Returns the time at which an array is due; `None` if it never is.
    #[must_use]
    pub fn due(&self, array: &ArrayId) -> Option<Wall> {
        self.arrays.get(array).and_then(|array| array.due(self.last?.wall))
    }
}

#[cfg(test)]
mod tests;
