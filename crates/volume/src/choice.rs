//! Which way operations of a class go: the faster one, found by trial.
//!
//! `docs/design/near-path.md`, *Which way is faster*, has the rule and what it costs.

mod sample;

use sample::{SAMPLE, Sample};

/// Busy time, in nanoseconds, of waiting after a switch and of a sample, at most: a trial has both.
const LONGEST: u64 = 1_000_000_000;
/// Time in which a sample has to be complete, or else there is too little load.
const QUIET: u64 = 10_000_000_000;
/// Busy time from one comparison to the next, at first and at most.
const STAY: (u64, u64) = (2_000_000_000, 30_000_000_000);
/// Busy time that pays for a nanosecond of trials: they take at most 3 %.
const PRICE: u64 = 34;
/// What the account of trials holds at first, and at most: busy time that paid for 0.4 s of them.
const ACCOUNT: i64 = 400_000_000 * PRICE as i64;
/// Busy time before a trial ends early, and operations that would have been done.
const EARLY: (u64, u64) = (25_000_000, 16);

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Writes of rows of which every data block is new.
    FullStripes,
    /// All other writes.
    PartialWrites,
    /// Reads of blocks that have to be recovered.
    LostReads,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 3] = [Self::FullStripes, Self::PartialWrites, Self::LostReads];
}

/// Where sums are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// By the nodes of the drives.
    Near,
    /// By the host.
    Far,
}

impl Way {
    const fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }
}

/// What decides on the way of an operation that can be near.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// Always near.
    #[default]
    Near,
    /// Always far.
    Far,
    /// Measured: the faster one.
    Faster,
}

/// How a class stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The class.
    pub class: Class,
    /// The way in use, trials left aside.
    pub way: Way,
    /// Bytes a second of busy time on the near way, when it was last measured.
    pub near_rate: Option<u64>,
    /// The same on the far way.
    pub far_rate: Option<u64>,
    /// Verdicts since everything began.
    pub verdicts: u64,
}

/// An operation that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    class: Class,
    way: Way,
    period: u64,
}

impl Begun {
    /// The way that it was to take.
    #[must_use]
    pub const fn way(&self) -> Way {
        self.way
    }
}

/// What a class does at the moment.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// It goes the way of the last verdict.
    Stay,
    /// It goes the other way; the sample before.
    Trial(Sample),
    /// It goes its way again; the samples before and of the trial.
    Confirm(Sample, Sample),
    /// There is too little load.
    Quiet,
}

/// One class.
#[derive(Debug)]
struct Course {
    way: Way,
    phase: Phase,
    /// Counts switches: operations of an earlier one are not counted.
    period: u64,
    near: u64,
    far: u64,
    /// Operations that were under way at the switch.
    at_switch: u64,
    /// All since the switch.
    switched: Sample,
    /// The first operations after the switch are done.
    warm: bool,
    sample: Sample,
    /// When the sample began, in time.
    began: u64,
    /// The sample of the way in use that the last verdict rests on.
    judged: Option<Sample>,
    /// Samples in a row that are not like that one.
    unlike: u32,
    /// Busy time since the last comparison, and to the next one.
    since: u64,
    stay: u64,
    account: i64,
    rates: [Option<u64>; 2],
    verdicts: u64,
}

impl Course {
    const fn new(now: u64) -> Self {
        Self {
            way: Way::Near,
            phase: Phase::Stay,
            period: 0,
            near: 0,
            far: 0,
            at_switch: 0,
            switched: Sample::NONE,
            warm: false,
            sample: Sample::NONE,
            began: now,
            judged: None,
            unlike: 0,
            since: 0,
            stay: STAY.0,
            account: ACCOUNT,
            rates: [None; 2],
            verdicts: 0,
        }
    }

    const fn going(&self) -> Way {
        match self.phase {
            Phase::Stay | Phase::Confirm(..) => self.way,
            Phase::Trial(_) => self.way.other(),
            Phase::Quiet => Way::Near,
        }
    }

    const fn of(&mut self, way: Way) -> &mut u64 {
        match way {
            Way::Near => &mut self.near,
            Way::Far => &mut self.far,
        }
    }

    const fn under_way(&self) -> u64 {
        self.near + self.far
    }

    /// Operations that go another way than new ones.
    const fn straggling(&self) -> u64 {
        match self.going() {
            Way::Near => self.far,
            Way::Far => self.near,
        }
    }

    /// Whether it is being compared, which others should not disturb.
    const fn compares(&self) -> bool {
        matches!(self.phase, Phase::Trial(_) | Phase::Confirm(..)) && self.under_way() > 0
    }

    fn pass(&mut self, ns: u64) {
        let under_way = self.under_way();
        if under_way == 0 {
            return;
        }
        self.since += ns;
        self.switched.pass(ns, under_way);
        if self.warm {
            self.sample.pass(ns, under_way);
        }
        let tried = match self.phase {
            Phase::Trial(_) => true,
            Phase::Stay | Phase::Confirm(..) => self.straggling() > 0,
            Phase::Quiet => false,
        };
        // Both are times of one process, which fit 63 bits.
        let price = if tried { (ns * PRICE) as i64 } else { 0 };
        self.account = (self.account + ns as i64 - price).min(ACCOUNT);
    }

    fn begin(&mut self, class: Class, now: u64) -> Begun {
        if now.saturating_sub(self.began) > QUIET {
            match self.phase {
                Phase::Stay => self.turn(Phase::Quiet, now),
                Phase::Trial(_) | Phase::Confirm(..) if self.under_way() == 0 => {
                    self.turn(Phase::Quiet, now);
                }
                Phase::Quiet => self.renew(now),
                Phase::Trial(_) | Phase::Confirm(..) => {}
            }
        }
        let way = self.going();
        *self.of(way) += 1;
        Begun { class, way, period: self.period }
    }

    /// From now on operations count anew.
    fn turn(&mut self, phase: Phase, now: u64) {
        self.phase = phase;
        self.period += 1;
        self.at_switch = self.under_way();
        self.switched = Sample::default();
        self.warm = false;
        self.renew(now);
    }

    fn renew(&mut self, now: u64) {
        self.sample = Sample::default();
        self.began = now;
    }

    /// Goes on as far as what was counted allows. `alone`: no other class is being compared.
    fn step(&mut self, now: u64, alone: bool) {
        let through = self.straggling() == 0 && self.switched.done >= self.at_switch.max(1);
        if !self.warm && (through || self.switched.busy >= LONGEST) {
            self.warm = true;
            self.renew(now);
        }
        match self.phase {
            Phase::Stay if self.sample.is_full() => {
                let sample = self.sample;
                self.renew(now);
                self.rates[self.way as usize] = Some(sample.per_second());
                let differs = |factor| self.judged.is_some_and(|judged| !judged.is_like(&sample, factor));
                self.unlike = if differs(2.0) { self.unlike + 1 } else { 0 };
                let other = self.unlike >= 2 || differs(4.0);
                let due = self.judged.is_none() || self.since >= self.stay || other;
                if due && alone && self.account >= (SAMPLE * PRICE) as i64 {
                    self.turn(Phase::Trial(sample), now);
                }
            }
            Phase::Quiet if self.sample.is_full() => {
                self.rates[Way::Near as usize] = Some(self.sample.per_second());
                let way = self.way;
                self.phase = Phase::Stay;
                match way {
                    Way::Near => self.renew(now),
                    Way::Far => self.turn(Phase::Stay, now),
                }
            }
            Phase::Stay | Phase::Quiet if self.sample.busy >= LONGEST => self.starve(now),
            Phase::Trial(before) => self.step_trial(before, now),
            Phase::Confirm(before, tried) if self.sample.is_full() => {
                self.judge(before.plus(self.sample), tried, now);
            }
            Phase::Confirm(..) if self.is_long() => self.starve(now),
            Phase::Stay | Phase::Quiet | Phase::Confirm(..) => {}
        }
    }

    fn step_trial(&mut self, before: Sample, now: u64) {
        let expected = before.rate() * self.switched.busy as f64;
        let enough = (EARLY.1 + 4 * self.at_switch) as f64 * before.load()[1];
        if self.switched.busy >= EARLY.0
            && expected >= enough
            && 2.0 * (self.switched.bytes as f64) < expected
        {
            return self.judge(before, self.switched, now);
        }
        if self.sample.is_full() {
            // One that seems better is looked at twice: the sample before may have been a bad one.
            return match before.rate() >= 1.5 * self.sample.rate() {
                true => self.judge(before, self.sample, now),
                false => self.turn(Phase::Confirm(before, self.sample), now),
            };
        }
        if self.is_long() {
            self.starve(now);
        }
    }

    /// Whether what is compared has had its time, first to warm up and then to be measured.
    const fn is_long(&self) -> bool {
        self.sample.busy >= LONGEST || self.switched.busy >= 2 * LONGEST
    }

    /// So few operations end that nothing can be said.
    fn starve(&mut self, now: u64) {
        self.way = Way::Near;
        (self.judged, self.unlike, self.since, self.stay) = (None, 0, 0, STAY.0);
        self.turn(Phase::Stay, now);
    }

    /// Compares the way in use with the one that was tried.
    fn judge(&mut self, used: Sample, tried: Sample, now: u64) {
        let was = self.going();
        let (near, far) = match self.way {
            Way::Near => (used, tried),
            Way::Far => (tried, used),
        };
        self.rates = [Some(near.per_second()), Some(far.per_second())];
        let winner = if far.rate() > 1.1 * near.rate() { Way::Far } else { Way::Near };
        let (won, lost) = match winner {
            Way::Near => (near, far),
            Way::Far => (far, near),
        };
        let fair = won.is_fair(&lost);
        let next = if fair { winner } else { self.way };
        self.stay = if fair && next == self.way { (2 * self.stay).min(STAY.1) } else { STAY.0 };
        self.verdicts += u64::from(fair);
        self.judged = Some(if next == self.way { used } else { tried });
        (self.way, self.since, self.unlike) = (next, 0, 0);
        if next == was {
            self.phase = Phase::Stay;
            self.renew(now);
        } else {
            self.turn(Phase::Stay, now);
        }
    }

    /// Forgets everything but the operations that are under way.
    fn restart(&mut self, now: u64) {
        let (near, far, period) = (self.near, self.far, self.period);
        *self = Self { near, far, period, ..Self::new(now) };
        self.turn(Phase::Stay, now);
    }
}

/// The choice of all classes. Time and operations go in, ways come out.
#[derive(Debug)]
pub struct Choice {
    pub(crate) preference: Preference,
    /// Nanoseconds, from any beginning.
    now: u64,
    courses: [Course; 3],
}

impl Choice {
    /// Nothing is known.
    #[must_use]
    pub const fn new() -> Self {
        let courses = [Course::new(0), Course::new(0), Course::new(0)];
        Self { preference: Preference::Near, now: 0, courses }
    }

    /// Time passes. `now`: nanoseconds from any beginning; earlier ones are passed over.
    pub fn at(&mut self, now: u64) {
        let ns = now.saturating_sub(self.now);
        if ns == 0 {
            return;
        }
        self.now = now.max(self.now);
        for class in Class::ALL {
            let course = &mut self.courses[class as usize];
            course.pass(ns);
            if matches!(course.phase, Phase::Trial(_)) {
                self.step(class);
            }
        }
    }

    /// An operation of a class begins, by the way that this says.
    #[must_use]
    pub fn begin(&mut self, class: Class) -> Begun {
        let now = self.now;
        self.courses[class as usize].begin(class, now)
    }

    /// An operation has ended. `bytes`: what its user has of it; `None`: it does not count, because
    /// it failed or did not keep to its way.
    pub fn end(&mut self, begun: Begun, bytes: Option<u64>) {
        let course = &mut self.courses[begun.class as usize];
        let under_way = course.of(begun.way);
        *under_way = under_way.saturating_sub(1);
        if let (Some(bytes), true) = (bytes, begun.period == course.period) {
            course.switched.bytes += bytes;
            course.switched.done += 1;
            if course.warm {
                course.sample.bytes += bytes;
                course.sample.done += 1;
            }
        }
        self.step(begun.class);
    }

    fn step(&mut self, class: Class) {
        let (now, alone) =
            (self.now, Class::ALL.iter().all(|other| *other == class || !self.compares(*other)));
        let course = &mut self.courses[class as usize];
        let period = course.period;
        course.step(now, alone);
        if course.period == period {
            return;
        }
        // What the others did meanwhile was done beside something else.
        for other in Class::ALL.into_iter().filter(|other| *other != class) {
            if matches!(self.courses[other as usize].phase, Phase::Stay) {
                self.courses[other as usize].renew(now);
            }
        }
    }

    const fn compares(&self, class: Class) -> bool {
        self.courses[class as usize].compares()
    }

    /// Begins again with nothing known: nodes or members are others.
    pub fn restart(&mut self) {
        let now = self.now;
        self.courses.iter_mut().for_each(|course| course.restart(now));
    }

    /// The way that the last verdict on a class says.
    #[must_use]
    pub const fn way(&self, class: Class) -> Way {
        self.courses[class as usize].way
    }

    /// How all classes stand.
    #[must_use]
    pub fn standings(&self) -> [Standing; 3] {
        Class::ALL.map(|class| {
            let Course { way, rates: [near_rate, far_rate], verdicts, .. } = self.courses[class as usize];
            Standing { class, way, near_rate, far_rate, verdicts }
        })
    }
}

impl Default for Choice {
    fn default() -> Self {
        Self::new()
    }
}
