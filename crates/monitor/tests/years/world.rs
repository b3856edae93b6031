//! A machine, its arrays, and what will happen to it in a year.

use crate::oracle::Hours;
use crate::random::Random;
use pumice_monitor::cells::Member;
use pumice_monitor::config::Config;
use pumice_monitor::schedule::{ArrayId, Disk, Seen};
use pumice_monitor::{DAY, HOUR, MINUTE};

/// Time zones as POSIX has them, so that no database is needed: with hours and half hours of
/// daylight saving, changes at midnight, both hemispheres, and none.
const ZONES: &[&str] = &[
    "UTC0",
    "CET-1CEST,M3.5.0,M10.5.0/3",
    "EST5EDT,M3.2.0,M11.1.0",
    "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
    "AEST-10AEDT,M10.1.0,M4.1.0/3",
    "<-04>4<-03>,M9.1.6/24,M4.1.6/24",
    "EET-2EEST,M4.5.5/0,M10.5.4/24",
    "<+0545>-5:45",
];

/// An event at a moment of true time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Happening {
    /// The machine is off for some seconds.
    Outage(i64),
    /// The monitor is killed and begins anew.
    Kill,
    /// The clock steps.
    Step(i64),
    /// Others work on an array for some seconds; whether a member is replaced first.
    Work(usize, i64, bool),
    /// Such work ends.
    Idle(usize),
    /// A person reads a share (per mille) of an array, from a share on.
    ByHand(usize, i64, i64),
}

/// The demands that the oracle may make of an array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Promise {
    /// Never later than `late`.
    pub in_time: bool,
    /// Never waits for more than `every`/4.
    pub no_wait: bool,
    /// Cannot be read in time: `scrub-infeasible` comes before `scrub-late`.
    pub(crate) hopeless: bool,
}

pub(crate) struct Plan {
    pub(crate) seen: Seen,
    pub(crate) every: i64,
    pub(crate) late: i64,
    pub(crate) nightly: i64,
    pub(crate) hours: Hours,
    /// Stripes read in a second.
    pub(crate) speed: f64,
    pub(crate) promise: Promise,
}

pub(crate) struct World {
    pub(crate) zone: &'static str,
    pub(crate) begin: i64,
    pub(crate) config: Config,
    pub(crate) parallel: usize,
    pub(crate) arrays: Vec<Plan>,
    pub(crate) happenings: Vec<(i64, Happening)>,
    pub(crate) seed: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let zone = *random.pick(ZONES);
        // From 2026 on, any second.
        let begin = 1_767_225_600 + random.within(0, 4 * 365 * DAY);
        let many = random.percent(10);
        let count = if many { random.within(9, 41) } else { random.within(1, 9) } as usize;
        let parallel = if random.percent(30) { 1 } else { random.within(2, 9) } as usize;
        let mut text = format!("[defaults]\nparallel = {parallel}\n");
        let seventy = random.percent(30);
        let mut arrays: Vec<Plan> = Vec::new();
        let mut hopeless = false;
        // In half of the years all arrays have one window, and little to read.
        let alike = random.percent(50).then(|| random.within(0, 7) as usize);
        for i in 0..count {
            let long = seventy && i == 0;
            let lost = !long && !hopeless && random.percent(4);
            hopeless |= lost;
            arrays.push(array(&mut random, i, long, lost, alike, &mut text));
        }
        share_disks(&mut random, &mut arrays);
        let calm = random.percent(60);
        promise(&mut arrays, parallel, calm);
        let happenings = happenings(&mut random, &arrays, calm);
        let config = Config::parse(&text).expect("a configuration");
        Self { zone, begin, config, parallel, arrays, happenings, seed: random.next() }
    }
}

fn array(
    random: &mut Random,
    i: usize,
    long: bool,
    lost: bool,
    alike: Option<usize>,
    text: &mut String,
) -> Plan {
    let windows: [(&str, Hours); 7] = [
        ("22:00-06:00", Hours::daily(22 * 60, 6 * 60)),
        ("22:00-06:00", Hours::daily(22 * 60, 6 * 60)),
        ("01:00-05:00", Hours::daily(60, 5 * 60)),
        ("00:30-02:30", Hours::daily(30, 150)),
        ("02:30-07:00", Hours::daily(150, 7 * 60)),
        ("00:00-24:00", Hours::daily(0, 1440)),
        ("Sat,Sun 00:00-24:00", Hours { days: 0b110_0000, from: 0, to: 1440 }),
    ];
    let every = if long { 120 } else { *random.pick(&[7, 14, 30, 30, 60]) } * DAY;
    let late = if long { 240 * DAY } else { every + every / 2 };
    let (window, hours) = if long { windows[0] } else { *random.pick(&windows) };
    let (window, hours) = alike.filter(|_| !long).map_or((window, hours), |i| windows[i]);
    let nightly = *random.pick(&[2, 4, 8, 8, 24]) * HOUR;
    let nightly = if long { 8 * HOUR } else { nightly };
    let per_night = hours.nightly(nightly);
    let seconds = if long {
        70 * per_night
    } else if lost {
        // Three times what can be read until it is late.
        3 * per_night * late / DAY * hours.nights() / 7
    } else {
        let nights = if alike.is_some() { 2 } else { 6 };
        random.within(10 * MINUTE, (nights * per_night).min(40 * HOUR))
    };
    let stripes = random.within(700, 2_000_000) as u64;
    let rate = random.within(20_000_000, 200_000_000);
    let members = random.within(2, 7);
    let days = |seconds: i64| seconds / DAY;
    text.push_str(&format!(
        "[[array]]\nname = \"a{i}\"\nevery = \"{}d\"\nlate = \"{}h\"\nwindow = [\"{window}\"]\nnightly = \"{}h\"\n",
        days(every),
        late / HOUR,
        nightly / HOUR
    ));
    // The configured rate is only the first guess.
    let guess = (rate * random.within(80, 120) / 100).clamp(1_000_000, 1_000_000_000);
    text.push_str(&format!("rate = \"{guess}\"\n"));
    let member = |k: i64| (Member(format!("m{i}-{k}-0")), Disk(format!("d{i}-{k}")));
    let seen = Seen {
        array: ArrayId(format!("a{i}")),
        name: format!("array{i}"),
        members: (0..members).map(member).collect(),
        stripes,
        member_bytes: (seconds * rate) as u64,
        work: None,
    };
    let promise = Promise { in_time: false, no_wait: false, hopeless: lost };
    Plan { seen, every, late, nightly, hours, speed: stripes as f64 / seconds as f64, promise }
}

/// Lets arrays have disks in common with the one before them.
fn share_disks(random: &mut Random, arrays: &mut [Plan]) {
    for i in 1..arrays.len() {
        if random.percent(40) {
            let other = arrays[i - 1].seen.members[0].1.clone();
            arrays[i].seen.members[0].1 = other;
        }
        if random.percent(10) && i > 2 {
            let other = arrays[i - 3].seen.members[1].1.clone();
            arrays[i].seen.members[1].1 = other;
        }
    }
}

/// Finds what can be promised: little load on disks that are connected, and on the machine.
fn promise(arrays: &mut [Plan], parallel: usize, calm: bool) {
    let connected = components(arrays);
    // The share of its hours that an array needs.
    let load = |plan: &Plan| {
        let pass = plan.seen.stripes as f64 / plan.speed;
        let hours = plan.hours.nightly(plan.nightly) as f64 * plan.hours.nights() as f64 / 7.0;
        pass / (hours * plan.every as f64 / DAY as f64)
    };
    let loads: Vec<f64> = arrays.iter().map(load).collect();
    let all: f64 = loads.iter().sum();
    let mut promises = Vec::new();
    for (i, plan) in arrays.iter().enumerate() {
        let near: Vec<usize> = (0..arrays.len()).filter(|j| connected[*j] == connected[i]).collect();
        let load_near: f64 = near.iter().map(|j| loads[*j]).sum();
        let machine = all / parallel as f64;
        // Windows of one night that differ may exclude each other.
        let same = near.iter().all(|j| arrays[*j].hours == plan.hours)
            && arrays.iter().all(|other| arrays.len() <= parallel || other.hours == plan.hours);
        // With windows at the weekend alone, a cell that a person read in the week waits for the
        // date after the next weekend, and then for the next weekend.
        let often = plan.hours.nights() == 7 || plan.late - plan.every >= 10 * DAY;
        let in_time = calm && often && same && load_near < 0.5 && machine < 0.5 && plan.late >= 10 * DAY;
        let nights = plan.every / 4 / (7 * DAY / plan.hours.nights());
        let others = near.len().max(arrays.len().div_ceil(parallel)) as i64;
        // Arrays that compete need a night each, every so many nights.
        let share = |list: &mut dyn Iterator<Item = usize>| {
            list.map(|j| 1.0 / (arrays[j].every as f64 / 4.0 / DAY as f64).floor().max(0.1)).sum::<f64>()
        };
        let crowded = share(&mut near.iter().copied()) > 0.7
            || arrays.len() > parallel && share(&mut (0..arrays.len())) / parallel as f64 > 0.7;
        let no_wait = calm && same && !crowded && nights > others + 1 && plan.hours.nights() == 7;
        promises.push((in_time, no_wait));
    }
    for (plan, (in_time, no_wait)) in arrays.iter_mut().zip(promises) {
        plan.promise.in_time = in_time && !plan.promise.hopeless;
        plan.promise.no_wait = no_wait;
        plan.promise.hopeless &= calm;
    }
}

/// A number for each array, the same for arrays that are connected by disks.
fn components(arrays: &[Plan]) -> Vec<usize> {
    let mut of: Vec<usize> = (0..arrays.len()).collect();
    loop {
        let mut changed = false;
        for i in 0..arrays.len() {
            for j in 0..i {
                let common =
                    |(_, disk): &(Member, Disk)| arrays[j].seen.members.iter().any(|(_, d)| d == disk);
                if of[i] != of[j] && arrays[i].seen.members.iter().any(common) {
                    let least = of[i].min(of[j]);
                    (of[i], of[j]) = (least, least);
                    changed = true;
                }
            }
        }
        if !changed {
            return of;
        }
    }
}

fn happenings(random: &mut Random, arrays: &[Plan], calm: bool) -> Vec<(i64, Happening)> {
    let mut list = Vec::new();
    let year = 365 * DAY;
    let (outages, longest) = if calm { (3, DAY) } else { (8, 25 * DAY) };
    for _ in 0..random.within(0, outages) {
        let length = random.within(MINUTE, longest);
        list.push((random.within(DAY, year), Happening::Outage(length)));
    }
    for _ in 0..random.within(0, 6) {
        list.push((random.within(DAY, year), Happening::Kill));
    }
    for _ in 0..random.within(0, 4) {
        let far = if calm { 20 } else { 60 * DAY };
        let (at, by) = (random.within(DAY, year), random.within(-far, far + 1));
        list.push((at, Happening::Step(by)));
        // Someone sets it right.
        list.push((at + random.within(MINUTE, 2 * DAY), Happening::Step(-by)));
    }
    for i in 0..arrays.len() {
        let (most, longest) = if calm { (3, DAY) } else { (6, 6 * DAY) };
        for _ in 0..random.within(0, most) {
            let (at, length) = (random.within(DAY, year), random.within(HOUR, longest));
            list.push((at, Happening::Work(i, length, random.percent(60))));
        }
        if random.percent(20) {
            let (at, from) = (random.within(DAY, year), random.within(0, 900));
            list.push((at, Happening::ByHand(i, from, random.within(1, 1001 - from))));
        }
    }
    list.sort_by_key(|(at, _)| *at);
    list
}
