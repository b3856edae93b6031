//! The goal is held on loads that nothing was fitted to: memoryless, heavy-tailed, periodic with
//! jitter, and with a day and a night.

use proptest::prelude::*;
use pumice_pacer::{Charge, Config, Goal, Nanos, Pacer, Policy};
use pumice_sim::{Drive, Engine, Player};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const MILLI: f64 = 1e6;
const SECOND: f64 = 1e9;

#[derive(Debug, Clone, Copy)]
enum Shape {
    Poisson,
    OnOffPareto,
    Periodic,
    Diurnal,
}

/// Arrivals, with service times of 2 to 8 ms.
fn load(shape: Shape, seed: u64, requests: usize) -> Vec<(Nanos, Nanos)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut uniform = move || (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let scale = 0.3 + 3.0 * uniform();
    let (mut at, mut free, mut left, mut tick) = (0.0, 0.0_f64, 0, 0.0);
    (0..requests)
        .map(|_| {
            let exponential = -(1.0 - uniform()).ln();
            at += match shape {
                Shape::Poisson => exponential * scale * 100.0 * MILLI,
                Shape::OnOffPareto if left > 0 => exponential * 10.0 * MILLI,
                Shape::OnOffPareto => {
                    left = (uniform() * 40.0) as u32 + 1;
                    (1.0 - uniform()).powf(-1.0 / 1.3) * scale * 100.0 * MILLI
                }
                Shape::Periodic if left > 0 => exponential * 3.0 * MILLI,
                Shape::Periodic => {
                    left = (uniform() * 8.0) as u32 + 1;
                    tick += (scale * 4.0).ceil() * 250.0 * MILLI;
                    (tick + uniform() * 30.0 * MILLI - at).max(0.0)
                }
                Shape::Diurnal => {
                    let hour = (at / SECOND / 600.0).sin();
                    exponential * scale * 100.0 * MILLI * (4.0 * hour).exp()
                }
            };
            left = left.saturating_sub(1);
            free = free.max(at) + (2.0 + 6.0 * uniform()) * MILLI;
            (at as Nanos, free as Nanos)
        })
        .collect()
}

const REQUESTS: usize = 8_000;

struct Paced {
    /// Mean slowdown in milliseconds, with those who queue behind unless a collision alone is
    /// charged.
    mean: f64,
    bytes: u64,
    /// Standard error of one run's mean against the measured one, in milliseconds.
    error: f64,
}

fn paced(shape: Shape, seed: u64, goal: f64, charge: Charge) -> Paced {
    let curve = Drive::Ultrastar.curve();
    let mut config = Config::new(Goal::mean((goal * MILLI) as Nanos), Policy::Priced, curve.clone());
    (config.charge, config.learn_service) = (charge, false);
    let pacer = Pacer::new(config, 0);
    let mut engine = Engine::new(Player::Pacer(Box::new(pacer)), curve, 0);
    let load = load(shape, seed, REQUESTS);
    load.iter().for_each(|&(at, done)| engine.request(at, done));
    engine.finish(load.last().map_or(0, |l| l.1));
    let Player::Pacer(pacer) = engine.player() else { unreachable!("it was given one") };
    let (clear, near) = pacer.latencies();
    Paced {
        mean: engine.figures().mean_ms(charge != Charge::Collision),
        bytes: engine.figures().bytes(),
        error: standard_error(&load, near.count() as f64, clear.count() as f64),
    }
}

/// Charged is `near / all` times the difference of two means, of the requests near background work
/// and of the clear ones, which vary without background work too. Those of one burst vary together,
/// so how much is taken from means of batches.
fn standard_error(load: &[(Nanos, Nanos)], near: f64, clear: f64) -> f64 {
    const BATCH: usize = 100;
    let means: Vec<f64> = load
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().map(|&(at, done)| (done - at) as f64).sum::<f64>() / BATCH as f64 / MILLI)
        .collect();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (means.len() - 1) as f64;
    near / (near + clear) * (variance * BATCH as f64 * (1.0 / near.max(1.0) + 1.0 / clear.max(1.0))).sqrt()
}

/// One run has a standard error; the mean of many shows whether what is charged is the truth.
#[test]
fn what_is_measured_is_right_on_average() {
    for shape in [Shape::Poisson, Shape::OnOffPareto, Shape::Periodic, Shape::Diurnal] {
        for goal in [0.25, 1.0, 4.0] {
            let seeds = 40;
            let sum: f64 = (0..seeds).map(|seed| paced(shape, seed, goal, Charge::Measured).mean).sum();
            let mean = sum / seeds as f64;
            println!("{shape:?}, goal {goal} ms: {mean:.3} ms");
            assert!(mean <= goal * 1.1, "{shape:?}: {mean} ms for {goal} ms");
        }
    }
}

/// The first requests after a start, or at another level, may all stand in one queue: a mean of 24
/// ms was believed where it was 7 without background work, several hundred requests were charged
/// against that, and nothing ever made it good (5.1 and 6.9 ms).
#[test]
fn a_crowded_moment_is_no_baseline() {
    for seed in [11_496_296_922_060_006_059, 1_019] {
        let paced = paced(Shape::OnOffPareto, seed, 4.0, Charge::Measured);
        assert!(paced.mean <= 4.4, "{seed}: {} ms", paced.mean);
        assert!(paced.bytes > 1 << 30, "{seed}: {} bytes", paced.bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_goal_is_held_on_loads_never_seen(
        shape in prop_oneof![Just(Shape::Poisson), Just(Shape::OnOffPareto), Just(Shape::Periodic), Just(Shape::Diurnal)],
        seed in any::<u64>(),
        goal in prop_oneof![Just(0.25), Just(1.0), Just(4.0)],
        charge in prop_oneof![Just(Charge::Collision), Just(Charge::Queued), Just(Charge::Measured)],
    ) {
        let paced = paced(shape, seed, goal, charge);
        let requests = REQUESTS as f64;
        // One request of 4 MiB more than the account has; if those behind wait as well, for the
        // time of the busy period that it makes. What is measured has a standard error besides:
        // four of them are passed once in 30 000 runs.
        let error = match charge {
            Charge::Collision => 48.0 / requests,
            Charge::Queued => 500.0 / requests,
            Charge::Measured => 500.0 / requests + 4.0 * paced.error,
        };
        prop_assert!(paced.mean <= goal * 1.1 + error, "{} ms for {goal} ms, +- {error}", paced.mean);
        prop_assert!(paced.bytes > 0);
    }
}
