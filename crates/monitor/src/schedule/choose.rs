//! The choice of arrays that begin, and of those that make room (R2 to R5).

use super::array::Run;
use super::{ArrayId, Disk, Order, Scheduler, Why};
use crate::time::{DAY, MINUTE, Now, Running, Wall};
use crate::window::Night;
use std::collections::{BTreeMap, BTreeSet};

/// Seconds in which a run may go between others (R4).
const BETWEEN: u64 = 10 * MINUTE as u64;

/// An array that could begin if its disks are free.
struct Candidate {
    array: ArrayId,
    due: Wall,
    /// Time at which it will have waited `every`/4, if it is urgent.
    urgent: Option<Wall>,
    /// Time at which it will have ended if it begins now.
    ends: Running,
}

/// The holder of a disk.
struct Holder {
    /// The run; `None`: the work of others.
    run: Option<ArrayId>,
    /// The likely time of its end.
    until: Running,
}

impl Scheduler {
    pub(super) fn choose(&mut self, now: Now, night: Night, orders: &mut Vec<Order>) {
        let candidates = self.candidates(now, night);
        if candidates.is_empty() {
            return;
        }
        let mut held = self.holders(now, night);
        let mut reserved: BTreeMap<Disk, Running> = BTreeMap::new();
        let mut running: Vec<ArrayId> = self
            .arrays
            .iter()
            .filter(|(_, array)| array.run.is_some())
            .map(|(uuid, _)| uuid.clone())
            .collect();
        let mut ending = self.arrays.values().filter(|a| a.run.as_ref().is_some_and(|r| r.stopping)).count();
        for candidate in candidates {
            let disks = self.disks(&candidate.array);
            let blockers: Vec<&Holder> = disks.iter().filter_map(|disk| held.get(disk)).collect();
            let full = running.len() >= self.config.parallel;
            if blockers.is_empty() && !full {
                let allowed = |disk: &Disk| {
                    let end = candidate.ends;
                    reserved.get(disk).is_none_or(|until| end.0 <= now.running.0 + BETWEEN || end <= *until)
                };
                if disks.iter().all(allowed) {
                    self.start(&candidate, now, night, orders);
                    for disk in disks {
                        held.insert(
                            disk,
                            Holder { run: Some(candidate.array.clone()), until: candidate.ends },
                        );
                    }
                    running.push(candidate.array);
                }
                continue;
            }
            let until = blockers.iter().map(|holder| holder.until).max().unwrap_or(now.running);
            if candidate.urgent.is_some() {
                let room = full && blockers.is_empty();
                if room && ending > 0 {
                    ending -= 1;
                } else {
                    let stop: BTreeSet<ArrayId> = if room {
                        self.longest(&running, night).into_iter().collect()
                    } else {
                        self.all_that_yield(&blockers, night)
                    };
                    self.stop(&stop, orders);
                }
            }
            for disk in disks {
                let end = reserved.entry(disk).or_insert(until);
                *end = (*end).min(until);
            }
        }
    }

    fn disks(&self, array: &ArrayId) -> Vec<Disk> {
        let seen = self.arrays.get(array).and_then(|array| array.seen.as_ref());
        let disks: BTreeSet<Disk> =
            seen.into_iter().flat_map(|seen| seen.members.iter().map(|(_, disk)| disk.clone())).collect();
        disks.into_iter().collect()
    }

    /// Disks that are read or worked on, and by whom.
    fn holders(&self, now: Now, night: Night) -> BTreeMap<Disk, Holder> {
        let mut held = BTreeMap::new();
        for (uuid, array) in &self.arrays {
            let Some(seen) = array.seen.as_ref() else { continue };
            let (run, until) = match &array.run {
                Some(run) => {
                    let stop = now.running.0 + self.may_read(uuid, now, night);
                    (Some(uuid.clone()), Running(run.expected.0.min(stop)))
                }
                None if seen.work.is_some() && !array.gone => (None, Running(u64::MAX)),
                None => continue,
            };
            for (_, disk) in &seen.members {
                held.insert(disk.clone(), Holder { run: run.clone(), until });
            }
        }
        held
    }

    /// Seconds for which an array may read from now on: window and budget.
    fn may_read(&self, array: &ArrayId, now: Now, night: Night) -> u64 {
        let Some(array) = self.arrays.get(array) else { return 0 };
        let window = array.windows.map_or(0, |windows| windows.span.to.since(now.wall));
        array.budget(night).min(window.max(0) as u64)
    }

    /// Arrays that could begin, in the order in which they may.
    fn candidates(&self, now: Now, night: Night) -> Vec<Candidate> {
        let may: Vec<&ArrayId> = self
            .arrays
            .iter()
            .filter(|(_, array)| array.may_begin(now, night))
            .map(|(uuid, _)| uuid)
            .collect();
        let mut list: Vec<Candidate> = Vec::with_capacity(may.len());
        for uuid in may {
            let array = &self.arrays[uuid];
            let Some(want) = &array.want else { continue };
            let stripes = want.ranges.iter().map(crate::ranges::Range::len).sum();
            let seconds = array.seconds(stripes).min(self.may_read(uuid, now, night));
            list.push(Candidate {
                array: uuid.clone(),
                due: want.due,
                urgent: self.urgent(uuid, now, night),
                ends: Running(now.running.0.saturating_add(seconds)),
            });
        }
        list.sort_by(|a, b| {
            let key = |c: &Candidate| (c.urgent.is_none(), c.urgent, c.due);
            key(a).cmp(&key(b)).then_with(|| a.array.cmp(&b.array))
        });
        list
    }

    /// Time at which an array has waited too long, if it would not get another night before (R5).
    fn urgent(&self, uuid: &ArrayId, now: Now, night: Night) -> Option<Wall> {
        let array = self.arrays.get(uuid)?;
        let deadline = array.kept.waiting?.plus(array.policy.every? / 4);
        let windows = array.windows?;
        let span = self.calendar.span(night);
        let next = self.calendar.next_open(&array.policy.windows, span.to).unwrap_or(span.to.plus(9 * DAY));
        let between = next.since(windows.span.from.max(span.from)).max(DAY);
        let competitors = self.competitors(uuid) as i64;
        // The waiting of a run that is stopped goes on a moment longer.
        let last = next.plus(competitors.saturating_mul(between)).plus(10 * MINUTE);
        (last > deadline || now.wall >= deadline).then_some(deadline)
    }

    /// The nights that others may need first: arrays that want one of its disks, or more arrays
    /// than may run at a time.
    fn competitors(&self, uuid: &ArrayId) -> usize {
        let own: BTreeSet<Disk> = self.disks(uuid).into_iter().collect();
        let wants = |array: &super::array::Array| array.want.is_some();
        let others = || self.arrays.iter().filter(|(other, array)| *other != uuid && wants(array));
        let shares = |seen: &super::Seen| seen.members.iter().any(|(_, disk)| own.contains(disk));
        let on_disks = others().filter(|(_, array)| array.seen.as_ref().is_some_and(shares)).count();
        on_disks.max(others().count() / self.config.parallel)
    }

    fn start(&mut self, candidate: &Candidate, now: Now, night: Night, orders: &mut Vec<Order>) {
        let Some(array) = self.arrays.get_mut(&candidate.array) else { return };
        let Some(want) = &array.want else { return };
        let stripes = want.ranges.iter().map(crate::ranges::Range::len).sum();
        let expected = Running(now.running.0.saturating_add(array.seconds(stripes)));
        array.run =
            Some(Run { stopping: false, busy: want.busy, urgent: candidate.urgent.map(|_| night), expected });
        array.kept.waiting = None;
        orders.push(Order::Start {
            array: candidate.array.clone(),
            ranges: want.ranges.clone(),
            busy: want.busy,
        });
    }

    /// Returns whether a run makes room for one that waited too long.
    fn yields(&self, array: &ArrayId, night: Night) -> bool {
        let run = self.arrays.get(array).and_then(|array| array.run.as_ref());
        run.is_some_and(|run| run.urgent != Some(night))
    }

    /// The run that ends last among those that make room.
    fn longest(&self, running: &[ArrayId], night: Night) -> Option<ArrayId> {
        let yields = running.iter().filter(|array| self.yields(array, night));
        let expected = |array: &&ArrayId| self.arrays[*array].run.as_ref().map(|run| run.expected);
        yields.max_by_key(expected).cloned()
    }

    /// All runs that hold disks, if all of them make room.
    fn all_that_yield(&self, blockers: &[&Holder], night: Night) -> BTreeSet<ArrayId> {
        let runs: Option<BTreeSet<ArrayId>> = blockers.iter().map(|holder| holder.run.clone()).collect();
        runs.filter(|runs| runs.iter().all(|run| self.yields(run, night))).unwrap_or_default()
    }

    fn stop(&mut self, arrays: &BTreeSet<ArrayId>, orders: &mut Vec<Order>) {
        for uuid in arrays {
            if let Some(run) = self.arrays.get_mut(uuid).and_then(|array| array.run.as_mut())
                && !run.stopping
            {
                run.stopping = true;
                orders.push(Order::Stop { array: uuid.clone(), why: Why::Waiting });
            }
        }
    }
}
