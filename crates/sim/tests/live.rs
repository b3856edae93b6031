//! The live pacer on drives that serve requests side by side: the goal is held by the true
//! slowdown, and what the goal allows is used.
//!
//! The true slowdown is the difference of two means, with and without background work.

use pumice_pacer::{Charge, Config, Goal, Kind, Nanos, Pacer, Policy};
use pumice_sim::Drive;
use pumice_sim::live::{Background, Load, Measured, play};

const MICRO: Nanos = 1_000;
const MILLI: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;

fn config(load: &Load, goal: Nanos) -> Config {
    let config = Config::new(Goal::mean(goal), Policy::Priced, load.drive.curve());
    assert_eq!(config.charge, Charge::Measured, "what a data node gets");
    config
}

struct Outcome {
    alone: Measured,
    seen: Measured,
    pacer: Pacer,
    goal: Nanos,
}

impl Outcome {
    fn of(load: &Load, config: Config) -> Self {
        let goal = config.goal.mean;
        let mut background = Background::Pacer(Box::new(Pacer::new(config, 0)));
        let alone = play(load, &mut Background::None);
        let seen = play(load, &mut background);
        let Background::Pacer(pacer) = background else { unreachable!("it comes back") };
        Self { alone, seen, pacer: *pacer, goal }
    }

    fn slowdown(&self) -> f64 {
        self.seen.mean - self.alone.mean
    }

    /// The goal is held by the true slowdown, to a tenth and `error` nanoseconds, and the pacer
    /// knows the slowdown it makes.
    fn check(&self, name: &str, error: f64) {
        let (goal, slowdown, believed) =
            (self.goal as f64, self.slowdown(), self.pacer.figures().mean_slowdown());
        let (clear, met) = self.pacer.latencies();
        println!(
            "{name:22} goal {:5.0} us: slowed {:7.1}, believed {:7.1}; {:8.2} MB in all; p99 {:.0} clear, {:.0} met; {} KiB each",
            goal / 1e3,
            slowdown / 1e3,
            believed / 1e3,
            self.seen.bytes as f64 / 1e6,
            clear.quantile(0.99) as f64 / 1e3,
            met.quantile(0.99) as f64 / 1e3,
            self.pacer.figures().total_bytes() / 1024 / self.pacer.figures().background.max(1),
        );
        assert!(slowdown <= 1.1 * goal + error, "{name}: {slowdown} for a goal of {goal} +- {error}");
        assert!(
            (slowdown - believed).abs() <= 0.1 * slowdown + error + 2e3,
            "{name}: {slowdown} or {believed}"
        );
        let share = clear.count() as f64 / (clear.count() + met.count()) as f64;
        assert!(share > 0.08, "{name}: {share} of the foreground is left clear");
    }

    /// At least `times` the bytes that a fixed rate of 64 KiB requests brings which slows no less.
    fn beats_fixed(&self, load: &Load, times: f64) {
        let bytes = fixed(load, 64 << 10, self.alone.mean, self.slowdown().max(0.0));
        println!("{:31} {:.1} times a fixed rate", "", self.seen.bytes as f64 / bytes as f64);
        assert!(self.seen.bytes as f64 >= times * bytes as f64, "{} and {bytes}", self.seen.bytes);
    }
}

/// The most bytes of requests of `size` at a fixed rate that slow the foreground by no more than
/// `slowdown`.
fn fixed(load: &Load, size: u64, alone: f64, slowdown: f64) -> u64 {
    let (mut low, mut high) = ((1e4_f64).ln(), (1e11_f64).ln());
    let mut best = 0;
    for _ in 0..14 {
        let every = f64::midpoint(low, high);
        let seen = play(load, &mut Background::Fixed(size, every.exp() as Nanos));
        if seen.mean - alone <= slowdown {
            best = best.max(seen.bytes);
            high = every;
        } else {
            low = every;
        }
    }
    best
}

fn nvme(clients: u32) -> Load {
    Load {
        drive: Drive::Nvme,
        clients,
        bytes: 4 << 10,
        think: 0,
        steady: 0,
        burst_bytes: 4 << 10,
        on: SECOND,
        off: 0,
        span: 2 * SECOND,
        seed: 7,
    }
}

fn disk(clients: u32, think: Nanos, span: Nanos) -> Load {
    Load { drive: Drive::Ultrastar, think, span, ..nvme(clients) }
}

/// Twice the standard error of the difference of two means of `n` requests, of `clients` that wait
/// for each other's service of 6.2 +- 1.8 ms.
fn error(outcome: &Outcome, clients: u32) -> f64 {
    2.0 * f64::from(clients) * 1.8e6 * (2.0 / outcome.seen.requests as f64).sqrt()
}

#[test]
fn a_steady_load_on_an_ssd() {
    for clients in [1, 8, 32] {
        for goal in [50 * MICRO, 200 * MICRO, MILLI] {
            let load = nvme(clients);
            let outcome = Outcome::of(&load, config(&load, goal));
            outcome.check(&format!("ssd, depth {clients}"), 0.0);
            outcome.beats_fixed(&load, 1.0);
        }
    }
}

#[test]
fn a_steady_load_on_a_disk() {
    for clients in [1, 8, 32] {
        for goal in [50 * MICRO, 200 * MICRO, MILLI] {
            let load = disk(clients, 0, 1_200 * SECOND);
            let outcome = Outcome::of(&load, config(&load, goal));
            let error = error(&outcome, clients);
            outcome.check(&format!("disk, depth {clients}"), error);
            // Where the slowdown can be told from 0 at all.
            if outcome.slowdown() > 3.0 * error {
                outcome.beats_fixed(&load, 1.0);
            }
        }
    }
}

#[test]
fn clients_that_think_on_a_disk() {
    for (clients, think) in [(1, 50 * MILLI), (8, 100 * MILLI)] {
        for goal in [200 * MICRO, MILLI, 4 * MILLI] {
            let load = disk(clients, think, 2_400 * SECOND);
            let outcome = Outcome::of(&load, config(&load, goal));
            outcome.check(&format!("disk, {clients} think {}", think / MILLI), error(&outcome, 3));
            outcome.beats_fixed(&load, 1.0);
        }
    }
}

/// Queues come and go by themselves here, so one run's mean says little: the mean of eight does.
#[test]
fn an_open_load_on_a_disk() {
    for goal in [MILLI, 4 * MILLI] {
        let seeds = 8;
        let of = |seed| {
            let load = Load { seed, ..disk(64, 1_000 * MILLI, 2_400 * SECOND) };
            Outcome::of(&load, config(&load, goal)).slowdown()
        };
        let mean = (0..seeds).map(of).sum::<f64>() / seeds as f64;
        println!("disk, 64 think 1000: goal {goal}, slowed {mean:.0}");
        assert!(mean <= 1.1 * goal as f64, "{mean} for {goal}");
    }
}

#[test]
fn a_bursty_load() {
    for goal in [50 * MICRO, 200 * MICRO, MILLI] {
        let load = Load { on: 500 * MILLI, off: 500 * MILLI, span: 12 * SECOND, ..nvme(8) };
        let outcome = Outcome::of(&load, config(&load, goal));
        outcome.check("ssd, bursty", 0.0);
        outcome.beats_fixed(&load, 3.0);
        let load = Load { on: 5 * SECOND, off: 5 * SECOND, ..disk(4, 0, 1_200 * SECOND) };
        let outcome = Outcome::of(&load, config(&load, goal));
        outcome.check("disk, bursty", error(&outcome, 1));
        outcome.beats_fixed(&load, 3.0);
    }
}

#[test]
fn the_level_and_the_sizes_of_a_load_change() {
    for goal in [50 * MICRO, 200 * MICRO] {
        let on = 300 * MILLI;
        let load = Load { steady: 1, burst_bytes: 64 << 10, on, off: on, span: 6 * SECOND, ..nvme(16) };
        let outcome = Outcome::of(&load, config(&load, goal));
        // Clients with short and with long requests go round the more or less often: the mix
        // differs with and without background work, so there is no true slowdown of the mean to
        // compare with. What the pacer believes is bound by the account; here, that there is no
        // false alarm.
        let believed = outcome.pacer.figures().mean_slowdown();
        println!("level changes: goal {goal}, believed {believed}, {} MB", outcome.seen.bytes / 1_000_000);
        assert!(believed <= 1.1 * goal as f64 && outcome.seen.bytes > 1_000_000_000);
        let load = Load { burst_bytes: 4 << 10, ..load };
        Outcome::of(&load, config(&load, goal)).check("ssd, depth 1 and 16", 0.0);
    }
}

#[test]
fn several_in_flight() {
    for in_flight in [2, 4, 16] {
        let load = nvme(8);
        let outcome = Outcome::of(&load, Config { in_flight, ..config(&load, 200 * MICRO) });
        outcome.check(&format!("ssd, {in_flight} in flight"), 0.0);
        assert!(outcome.seen.bytes > 3_000_000_000, "{}", outcome.seen.bytes);
    }
}

#[test]
fn it_takes_the_rests_and_yields() {
    for (load, goal, full) in [
        (Load { on: 3 * SECOND, off: 3 * SECOND, span: 18 * SECOND, ..nvme(4) }, MICRO, 250_000_000),
        (Load { on: 30 * SECOND, off: 30 * SECOND, ..disk(4, 0, 360 * SECOND) }, 200 * MICRO, 8_000_000),
    ] {
        let outcome = Outcome::of(&load, config(&load, goal));
        let tenth = |at: Nanos| outcome.seen.by_tenth[(at / (100 * MILLI)) as usize];
        // Of what a tenth of a second brings in a rest, three times as much in a whole second of
        // work is little.
        let cycle = load.on + load.off;
        // The first cycle is for learning.
        for start in (cycle..load.span).step_by(cycle as usize) {
            let second = |from: Nanos| (from..from + SECOND).step_by(100_000_000).map(tenth).sum::<u64>();
            for at in (start + SECOND..start + load.on).step_by(SECOND as usize) {
                assert!(second(at) < 3 * full, "{:?} at {at}: {} in a second", load.drive, second(at));
            }
            for at in (start + load.on + SECOND..start + cycle).step_by(SECOND as usize) {
                assert!(second(at) > 7 * full, "{:?} at {at}: {} in a second", load.drive, second(at));
            }
        }
    }
}

#[test]
fn a_goal_of_nothing_leaves_a_busy_drive_alone() {
    let load = nvme(8);
    let outcome = Outcome::of(&load, config(&load, 0));
    assert_eq!((outcome.seen.bytes, outcome.slowdown()), (0, 0.0));
}

#[test]
fn the_same_seed_gives_the_same() {
    let load = Load { think: 30 * MICRO, ..nvme(4) };
    let of = || Outcome::of(&load, config(&load, 100 * MICRO));
    let (a, b) = (of(), of());
    assert_eq!((a.seen.bytes, a.seen.requests), (b.seen.bytes, b.seen.requests));
    assert!(a.seen.mean.to_bits() == b.seen.mean.to_bits() && a.seen.by_tenth == b.seen.by_tenth);
}

#[test]
fn kinds_keep_their_bytes_when_they_are_done_out_of_order() {
    let load = nvme(1);
    let mut pacer = Pacer::new(Config { in_flight: 3, ..config(&load, MILLI) }, 0);
    pacer.begin_work(Kind::default(), 1);
    pacer.begin_work(Kind::new(1).expect("a kind"), 3);
    let mut now = 5 * SECOND;
    let mut bytes = Vec::new();
    for _ in 0..400 {
        while let pumice_pacer::Decision::StartRequest { bytes: b, .. } = pacer.next(now) {
            bytes.push(b);
        }
        assert!(bytes.len() <= 3);
        now += 200 * MICRO;
        pacer.background_done(now, bytes.pop().expect("an idle drive is used"));
    }
    let shares = pacer.figures().bytes;
    assert!((2.9..3.1).contains(&(shares[1] as f64 / shares[0] as f64)), "{shares:?}");
}
