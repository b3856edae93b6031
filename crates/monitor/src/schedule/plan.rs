//! The plan of the next days: the same machine with pretended runs.

use super::{ArrayId, End, Event, How, Order, Scheduler};
use crate::cells::Reading;
use crate::ranges::{Range, Ranges};
use crate::time::{DAY, Now, Running, Wall};
use std::collections::BTreeMap;

/// Runs that a plan has at most.
const MOST_RUNS: usize = 100_000;

/// A run that is planned.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The array.
    pub array: ArrayId,
    /// Its start.
    pub from: Wall,
    /// Its end, or the time at which it is stopped.
    pub to: Wall,
    /// The share of the array that it reads, 0 to 1.
    pub share: f64,
    /// True if it reads all that is due.
    pub ends: bool,
}

/// A pretended run.
struct Pretended {
    from: Wall,
    began: Running,
    ranges: Vec<Range>,
    seconds: u64,
    stop: bool,
}

impl Scheduler {
    /// The runs of the next days, 0 to 400, if nothing else happens: no outage, no work of others,
    /// each array at its rate.
    #[must_use]
    pub fn plan(&self, now: Now, days: u32) -> Vec<Planned> {
        let mut machine = self.clone();
        machine.arrays.values_mut().for_each(|array| array.run = None);
        let last = now.running.0 + u64::from(days.min(400)) * DAY as u64;
        let (mut runs, mut plan) = (BTreeMap::<ArrayId, Pretended>::new(), Vec::new());
        let mut at = now;
        let mut events = vec![Event::Tick];
        while at.running.0 <= last && plan.len() < MOST_RUNS {
            for event in std::mem::take(&mut events) {
                for order in machine.step(at, event) {
                    match order {
                        Order::Start { array, ranges, .. } => {
                            let stripes = ranges.iter().map(Range::len).sum();
                            let seconds = machine.arrays[&array].seconds(stripes);
                            let run =
                                Pretended { from: at.wall, began: at.running, ranges, seconds, stop: false };
                            runs.insert(array, run);
                        }
                        Order::Stop { array, .. } => {
                            runs.entry(array).and_modify(|run| run.stop = true);
                        }
                    }
                }
            }
            let over = |run: &Pretended| run.stop || at.running.since(run.began) >= run.seconds;
            let ended: Vec<ArrayId> =
                runs.iter().filter(|(_, run)| over(run)).map(|(uuid, _)| uuid.clone()).collect();
            for uuid in ended {
                if let Some(run) = runs.remove(&uuid) {
                    let (end, planned) = machine.pretended_end(uuid, &run, at);
                    plan.push(planned);
                    events.push(Event::Ended(end));
                }
            }
            if !events.is_empty() {
                continue;
            }
            let ends = runs.values().map(|run| run.seconds.saturating_sub(at.running.since(run.began)));
            let wait = ends.min().unwrap_or(u64::MAX).min(machine.wake(at)).max(1);
            at.running.0 += wait;
            at.wall = at.wall.plus(wait as i64);
            events.push(Event::Tick);
        }
        plan
    }

    fn pretended_end(&self, array: ArrayId, run: &Pretended, at: Now) -> (End, Planned) {
        let read = at.running.since(run.began).min(run.seconds);
        let all: u64 = run.ranges.iter().map(Range::len).sum();
        let mut left = if run.seconds == 0 {
            all
        } else {
            (u128::from(all) * u128::from(read) / u128::from(run.seconds)) as u64
        };
        let stripes = left;
        let mut done = Vec::new();
        for range in &run.ranges {
            let part = range.len().min(left);
            done.push(Range { from: range.from, to: range.from + part });
            left -= part;
        }
        let seen = self.arrays.get(&array).and_then(|array| array.seen.as_ref());
        let total = seen.map_or(1, |seen| seen.stripes.max(1));
        let members = seen.map(|seen| seen.members.iter().map(|(member, _)| member.clone()).collect());
        let planned = Planned {
            array: array.clone(),
            from: run.from,
            to: at.wall,
            share: stripes as f64 / total as f64,
            ends: stripes == all,
        };
        let reading =
            Reading { begun: run.from, members: members.unwrap_or_default(), stripes: Ranges::from(done) };
        let how = if stripes == all { How::Done } else { How::Stopped };
        (End { array, own: true, reading, busy: Ranges::default(), seconds: read, how }, planned)
    }
}
