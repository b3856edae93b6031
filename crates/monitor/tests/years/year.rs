//! A year: the scheduler, the children that it starts, and what happens to them.

use crate::random::Random;
use crate::world::{Happening, Plan, World};
use jiff::tz::TimeZone;
use pumice_monitor::cells::{Member, Reading};
use pumice_monitor::schedule::{End, Event, Fault, How, MachineId, Order, Scheduler, Stored, Why};
use pumice_monitor::{DAY, HOUR, MINUTE, Now, Range, Ranges, Running, Wall};
use std::collections::BTreeMap;

/// Seconds that a child takes to end.
const ENDING: i64 = 2;

/// Counts of the events of all years: a simulation in which nothing happens proves nothing.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    years: u64,
    arrays: u64,
    runs: u64,
    passes: u64,
    stops: BTreeMap<String, u64>,
    promised_in_time: u64,
    promised_no_wait: u64,
    hopeless: u64,
    late: u64,
    infeasible: u64,
    blocked: u64,
    incomplete: u64,
    clock: u64,
    busy_runs: u64,
}

impl Sums {
    pub(crate) fn add(&mut self, other: &Self) {
        self.years += other.years;
        self.arrays += other.arrays;
        self.runs += other.runs;
        self.passes += other.passes;
        self.promised_in_time += other.promised_in_time;
        self.promised_no_wait += other.promised_no_wait;
        self.hopeless += other.hopeless;
        self.late += other.late;
        self.infeasible += other.infeasible;
        self.blocked += other.blocked;
        self.incomplete += other.incomplete;
        self.clock += other.clock;
        self.busy_runs += other.busy_runs;
        for (why, count) in &other.stops {
            *self.stops.entry(why.clone()).or_default() += count;
        }
    }

    /// Returns whether the years had the events that they are for.
    pub(crate) fn is_worth_it(&self) -> bool {
        self.years < 100
            || [self.promised_in_time, self.promised_no_wait, self.hopeless, self.late, self.infeasible]
                .iter()
                .chain([&self.blocked, &self.incomplete, &self.clock, &self.busy_runs])
                .chain(self.stops.values())
                .all(|count| *count > 0)
                && self.stops.len() >= 4
    }
}

/// A child.
struct Child {
    ranges: Vec<Range>,
    began: i64,
    wall: i64,
    members: Vec<Member>,
    /// Time at which it ends because it was asked to.
    ends: Option<i64>,
    checked_to: i64,
    fails: bool,
}

/// An array as it truly is.
struct Truth {
    /// Stripes that are watched, when each was last read, and whether with all present members.
    samples: Vec<(u64, Option<i64>, bool)>,
    child: Option<Child>,
    /// True time since which it waits.
    waits: Option<i64>,
    /// Time from which the year's promise is asked again after something happened.
    excused: i64,
    work_ends: i64,
    infeasible: bool,
    replaced: u32,
}

struct Year {
    world: World,
    zone: TimeZone,
    random: Random,
    scheduler: Scheduler,
    truths: Vec<Truth>,
    at: i64,
    boot: i64,
    skew: i64,
    stepped: i64,
    queue: Vec<(i64, Happening)>,
    events: Vec<Event>,
    sums: Sums,
}

/// Lives a year.
pub(crate) fn live(seed: u64) -> Result<Sums, String> {
    let world = World::new(seed);
    let zone = TimeZone::posix(world.zone).map_err(|e| e.to_string())?;
    let mut random = Random::new(world.seed);
    let truths = world.arrays.iter().map(|plan| truth(plan, &mut random)).collect();
    let machine = MachineId(format!("machine{seed}"));
    let mut queue = world.happenings.clone();
    queue.reverse();
    let scheduler = Scheduler::new(machine, zone.clone(), world.config.clone());
    let sums = Sums { years: 1, arrays: world.arrays.len() as u64, ..Sums::default() };
    let mut year = Year {
        world,
        zone,
        random,
        scheduler,
        truths,
        at: 0,
        boot: -HOUR,
        skew: 0,
        stepped: -DAY,
        queue,
        events: Vec::new(),
        sums,
    };
    year.look();
    for plan in &year.world.arrays {
        year.sums.promised_in_time += u64::from(plan.promise.in_time);
        year.sums.promised_no_wait += u64::from(plan.promise.no_wait);
        year.sums.hopeless += u64::from(plan.promise.hopeless);
    }
    while year.at < 365 * DAY {
        year.round()
            .map_err(|why| format!("{why} (day {:.3}, {})", year.at as f64 / DAY as f64, year.world.zone))?;
    }
    Ok(year.sums)
}

fn truth(plan: &Plan, random: &mut Random) -> Truth {
    let samples = (0..24).map(|_| (random.within(0, plan.seen.stripes as i64) as u64, None, false)).collect();
    Truth { samples, child: None, waits: None, excused: 0, work_ends: 0, infeasible: false, replaced: 0 }
}

impl Year {
    fn wall(&self) -> i64 {
        self.world.begin + self.at + self.skew
    }

    fn now(&self) -> Now {
        let running = (self.at - self.boot) as u64;
        Now { wall: Wall(self.wall()), running: Running(running), synchronised: running > 90 }
    }

    fn look(&mut self) {
        let seen = self.world.arrays.iter().map(|plan| plan.seen.clone()).collect();
        self.events.retain(|event| !matches!(event, Event::Look(_)));
        // Ends of children that are reported at the same moment come after it.
        self.events.insert(0, Event::Look(seen));
    }

    /// Gives the scheduler its events, judges, and goes to the next moment.
    fn round(&mut self) -> Result<(), String> {
        let mut turns = 0;
        loop {
            let events = std::mem::take(&mut self.events);
            let events = if events.is_empty() { vec![Event::Tick] } else { events };
            for event in events {
                for order in self.scheduler.step(self.now(), event) {
                    self.carry_out(order)?;
                }
            }
            self.children();
            if self.events.is_empty() {
                break;
            }
            turns += 1;
            if turns > 1000 {
                return Err("no end of events at one moment".to_owned());
            }
        }
        self.judge()?;
        let mut next = self.at + self.scheduler.wake(self.now()) as i64;
        for truth in &self.truths {
            if let Some(child) = &truth.child {
                next = next.min(child.ends.unwrap_or(i64::MAX));
            }
        }
        for (plan, truth) in self.world.arrays.iter().zip(&self.truths) {
            if let Some(child) = &truth.child {
                next = next.min(natural_end(plan, child));
            }
        }
        if let Some((at, _)) = self.queue.last() {
            next = next.min(*at);
        }
        self.at = next.max(self.at + 1);
        self.windows()?;
        self.children();
        while self.queue.last().is_some_and(|(at, _)| *at <= self.at) {
            if let Some((_, happening)) = self.queue.pop() {
                self.happens(happening)?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, order: Order) -> Result<(), String> {
        match order {
            Order::Start { array, ranges, busy } => {
                let i = self.index(&array.0);
                let plan = &self.world.arrays[i];
                let reading = self.truths.iter().filter(|truth| truth.child.is_some()).count();
                if reading >= self.world.parallel {
                    return Err(format!("{} runs at a time", reading + 1));
                }
                for (other, truth) in self.world.arrays.iter().zip(&self.truths) {
                    let shares = |(_, disk): &(Member, _)| other.seen.members.iter().any(|(_, d)| d == disk);
                    let busy = truth.child.is_some() || other.seen.work.is_some();
                    if busy && plan.seen.members.iter().any(shares) {
                        return Err(format!("{array:?} begins on a disk of {:?}", other.seen.array));
                    }
                }
                let members = plan.seen.members.iter().map(|(member, _)| member.clone()).collect();
                let fails = self.random.percent(1);
                let (began, wall) = (self.at, self.wall());
                let child = Child { ranges, began, wall, members, ends: None, checked_to: self.at, fails };
                self.truths[i].child = Some(child);
                self.truths[i].waits = None;
                self.sums.runs += 1;
                self.sums.busy_runs += u64::from(busy);
            }
            Order::Stop { array, why } => {
                let i = self.index(&array.0);
                let late = self.random.within(0, ENDING + 1);
                // It may just have ended by itself.
                let Some(child) = self.truths[i].child.as_mut() else { return Ok(()) };
                child.ends = Some(child.ends.unwrap_or(i64::MAX).min(self.at + late));
                *self.sums.stops.entry(name(why).to_owned()).or_default() += 1;
            }
        }
        Ok(())
    }

    fn index(&self, uuid: &str) -> usize {
        uuid[1..].parse().expect("an array's number")
    }

    /// Ends the children that are done.
    fn children(&mut self) {
        for i in 0..self.truths.len() {
            let Some(child) = &self.truths[i].child else { continue };
            let natural = natural_end(&self.world.arrays[i], child);
            let failed = child.fails && self.at > child.began + 5 * MINUTE;
            if natural <= self.at || child.ends.is_some_and(|ends| ends <= self.at) || failed {
                let how = match () {
                    () if failed => How::Failed,
                    () if natural <= self.at => How::Done,
                    () if self.random.percent(1) && child.ends.is_some() => How::ByHand,
                    () => How::Stopped,
                };
                let end = self.end(i, true, how);
                self.events.push(Event::Ended(end));
            }
        }
    }

    /// Ends a child: notes what was truly read, and what it reports.
    fn end(&mut self, i: usize, own: bool, how: How) -> End {
        let child = self.truths[i].child.take().expect("a child");
        let plan = &self.world.arrays[i];
        let read = ((self.at - child.began) as f64 * plan.speed) as u64;
        let mut left = if how == How::Done { u64::MAX } else { read };
        let (mut stripes, mut busy) = (Vec::new(), Vec::new());
        let all: u64 = child.ranges.iter().map(Range::len).sum();
        for range in &child.ranges {
            let part = range.len().min(left);
            stripes.push(Range { from: range.from, to: range.from + part });
            left -= part;
        }
        let many = if all < 100 { 30 } else { 4 };
        if self.random.percent(many) && how != How::Failed {
            let range = *self.random.pick(&stripes);
            if !range.is_empty() {
                let from = self.random.within(range.from as i64, range.to as i64) as u64;
                busy.push(Range { from, to: (from + 3).min(range.to) });
            }
        }
        let busy = Ranges::from(busy);
        let mut whole = Ranges::from(stripes);
        whole.remove_all(&busy);
        let current = plan.seen.members.iter().all(|(member, _)| child.members.contains(member));
        for (stripe, at, all) in &mut self.truths[i].samples {
            // A busy stripe was read; that it could not be judged is no fault of the schedule.
            if busy.iter().any(|range| range.from <= *stripe && *stripe < range.to) {
                *at = Some(self.at);
            }
            if whole.iter().any(|range| range.from <= *stripe && *stripe < range.to) {
                *at = Some(self.at);
                *all |= current;
            }
        }
        let begun = Wall(child.wall);
        let reading = Reading { begun, members: child.members, stripes: whole };
        let seconds = (self.at - child.began) as u64;
        self.sums.passes += u64::from(how == How::Done);
        if how == How::ByHand || how == How::Failed {
            self.truths[i].excused = self.at + 2 * DAY;
        }
        End { array: plan.seen.array.clone(), own, reading, busy, seconds, how }
    }

    fn happens(&mut self, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Outage(seconds) => {
                let ends = self.kill();
                self.at += seconds;
                self.boot = self.at;
                self.restore(ends)?;
            }
            Happening::Kill => {
                let ends = self.kill();
                self.restore(ends)?;
            }
            Happening::Step(by) => {
                self.skew += by;
                if by.abs() > 60 {
                    self.stepped = i64::MAX;
                }
            }
            Happening::Work(i, seconds, replace) => {
                let plan = &mut self.world.arrays[i];
                let truth = &mut self.truths[i];
                if replace {
                    truth.replaced += 1;
                    plan.seen.members[0].0 = Member(format!("m{i}-0-{}", truth.replaced));
                    truth.samples.iter_mut().for_each(|(_, _, all)| *all = false);
                }
                plan.seen.work = Some("md2_resync".to_owned());
                truth.work_ends = truth.work_ends.max(self.at + seconds);
                self.queue.push((self.at + seconds, Happening::Idle(i)));
                self.queue.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
                self.excuse(self.at + seconds);
                self.look();
            }
            Happening::Idle(i) => {
                if self.truths[i].work_ends <= self.at {
                    self.world.arrays[i].seen.work = None;
                    self.look();
                }
            }
            Happening::ByHand(i, from, share) => self.by_hand(i, from as u64, share as u64),
        }
        Ok(())
    }

    /// A person reads a part of an array. It takes no time: its disks are nobody's matter here.
    fn by_hand(&mut self, i: usize, from: u64, share: u64) {
        let plan = &self.world.arrays[i];
        let edge = |part: u64| plan.seen.stripes * part / 1000;
        let range = Range { from: edge(from), to: edge(from + share) };
        let members: Vec<Member> = plan.seen.members.iter().map(|(member, _)| member.clone()).collect();
        for (stripe, at, all) in &mut self.truths[i].samples {
            if range.from <= *stripe && *stripe < range.to {
                (*at, *all) = (Some(self.at), true);
            }
        }
        let reading = Reading { begun: Wall(self.wall()), members, stripes: Ranges::one(range) };
        let array = plan.seen.array.clone();
        let end = End { array, own: false, reading, busy: Ranges::default(), seconds: 0, how: How::Done };
        self.events.push(Event::Ended(end));
    }

    /// Kills the monitor and its children; their documents are found later.
    fn kill(&mut self) -> Vec<End> {
        let running: Vec<usize> =
            (0..self.truths.len()).filter(|i| self.truths[*i].child.is_some()).collect();
        running.into_iter().map(|i| self.end(i, false, How::Stopped)).collect()
    }

    fn restore(&mut self, ends: Vec<End>) -> Result<(), String> {
        let text = serde_json::to_string(&self.scheduler.store()).map_err(|e| e.to_string())?;
        let stored: Stored = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let (zone, config) = (self.zone.clone(), self.world.config.clone());
        let machine = self.scheduler.machine().clone();
        self.scheduler = Scheduler::restore(machine, zone, config, stored).map_err(|e| e.to_string())?;
        self.events.clear();
        self.look();
        self.events.extend(ends.into_iter().map(Event::Ended));
        self.excuse(self.at);
        Ok(())
    }

    /// Asks no promise of waiting for a while, because something happened.
    fn excuse(&mut self, until: i64) {
        for truth in &mut self.truths {
            truth.excused = truth.excused.max(until);
            truth.waits = None;
        }
    }

    /// Looks at the clock on the wall for every child, at a few moments since the last time.
    fn windows(&mut self) -> Result<(), String> {
        let shift = self.world.begin + self.skew;
        for (plan, truth) in self.world.arrays.iter().zip(&mut self.truths) {
            let Some(child) = &mut truth.child else { continue };
            let end = self.at.min(child.ends.unwrap_or(i64::MAX)) - ENDING - 1;
            let mut at = child.checked_to;
            while at <= end {
                if !plan.hours.shows(&self.zone, shift + at) {
                    return Err(format!("{:?} reads outside its window", plan.seen.array));
                }
                at = if at == end { end + 1 } else { (at + 15 * MINUTE).min(end) };
            }
            child.checked_to = self.at;
        }
        Ok(())
    }

    /// Judges ages, waits and faults.
    fn judge(&mut self) -> Result<(), String> {
        let now = self.now();
        let trusted = now.synchronised || now.running.0 >= 600;
        let faults = self.scheduler.faults(now);
        let calm_clock = self.at > self.stepped && self.skew.abs() <= 60;
        for i in 0..self.truths.len() {
            let array = self.world.arrays[i].seen.array.clone();
            let due = self.scheduler.due(&array);
            let of: Vec<&Fault> =
                faults.iter().filter(|(of, _)| *of == array).map(|(_, fault)| fault).collect();
            let any = |test: fn(&Fault) -> bool| of.iter().any(|fault| test(fault));
            let late = any(|fault| matches!(fault, Fault::Late(_)));
            let incomplete = any(|fault| matches!(fault, Fault::Incomplete(_)));
            let plan = &self.world.arrays[i];
            let truth = &mut self.truths[i];
            let goes_on = truth.child.as_ref().is_some_and(|child| child.ends.is_none());
            if plan.seen.work.is_some() && goes_on {
                return Err(format!("{array:?} is read while others work on it"));
            }
            truth.infeasible |= any(|fault| matches!(fault, Fault::Infeasible(_)));
            self.sums.late += u64::from(late);
            self.sums.infeasible += u64::from(any(|fault| matches!(fault, Fault::Infeasible(_))));
            self.sums.blocked += u64::from(any(|fault| matches!(fault, Fault::Blocked(_))));
            self.sums.clock += u64::from(any(|fault| matches!(fault, Fault::Clock)));
            self.sums.incomplete += u64::from(incomplete);
            if !calm_clock {
                truth.waits = None;
                continue;
            }
            let oldest = truth.samples.iter().map(|(_, at, _)| at.unwrap_or(0)).min().unwrap_or(0);
            if trusted && self.at - oldest > plan.late + HOUR && !late {
                return Err(format!("{array:?} is late, and nobody says so"));
            }
            if plan.promise.in_time && !incomplete && self.at - oldest > plan.late {
                return Err(format!("{array:?} is late, though it was feasible"));
            }
            if plan.promise.hopeless && late && !truth.infeasible {
                return Err(format!("{array:?} is late before it was called infeasible"));
            }
            let is_due = due.is_some_and(|due| due.0 <= now.wall.0);
            let waits = is_due && truth.child.is_none() && !incomplete && self.at >= truth.excused;
            truth.waits = if waits { truth.waits.or(Some(self.at)) } else { None };
            let waited = truth.waits.map_or(0, |since| self.at - since);
            if plan.promise.no_wait && waited > plan.every / 4 + HOUR {
                return Err(format!("{array:?} waits for {:.1} days", waited as f64 / DAY as f64));
            }
            ages(&self.scheduler, plan, truth, self.world.begin + self.skew)?;
        }
        Ok(())
    }
}

/// Compares the cells with what was truly read.
fn ages(scheduler: &Scheduler, plan: &Plan, truth: &Truth, shift: i64) -> Result<(), String> {
    let Some(cells) = scheduler.cells(&plan.seen.array) else { return Ok(()) };
    let count = cells.count() as u64;
    for (stripe, at, all) in truth.samples.iter().take(4) {
        let guess = (u128::from(*stripe) * u128::from(count) / u128::from(plan.seen.stripes)) as usize;
        let holds = |cell: &usize| cells.range(*cell).from <= *stripe && *stripe < cells.range(*cell).to;
        let cell = (guess.saturating_sub(1)..=guess + 1).find(holds).ok_or("a stripe without a cell")?;
        let claimed = cells.time(cell).map_or(0, |time| time.0);
        if claimed != 0 && (!all || claimed > at.unwrap_or(0) + shift + 120) {
            return Err(format!("{:?}: cell {cell} is taken for read", plan.seen.array));
        }
    }
    Ok(())
}

/// Returns the time at which a child has read all.
fn natural_end(plan: &Plan, child: &Child) -> i64 {
    let all: u64 = child.ranges.iter().map(Range::len).sum();
    child.began + (all as f64 / plan.speed).ceil() as i64
}

const fn name(why: Why) -> &'static str {
    match why {
        Why::Window => "window",
        Why::Budget => "budget",
        Why::Others => "others",
        Why::Waiting => "waiting",
        Why::Asked => "asked",
    }
}
