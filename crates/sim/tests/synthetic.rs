//! The goal is held on loads that nothing was fitted to: memoryless, heavy-tailed, periodic with jitter, and with a day and a night.

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

/// Mean slowdown in milliseconds, with those who queue behind unless a collision alone is charged; and background bytes.
fn paced(shape: Shape, seed: u64, goal: f64, charge: Charge) -> (f64, u64) {
    let curve = Drive::Ultrastar.curve();
    let mut config = Config::new(Goal::mean((goal * MILLI) as Nanos), Policy::Priced, curve.clone());
    (config.charge, config.learn_service) = (charge, false);
    let pacer = Pacer::new(config, 0);
    let mut engine = Engine::new(Player::Pacer(Box::new(pacer)), curve, 0);
    let load = load(shape, seed, REQUESTS);
    load.iter().for_each(|&(at, done)| engine.request(at, done));
    engine.finish(load.last().map_or(0, |l| l.1));
    (engine.figures().mean_ms(charge != Charge::Collision), engine.figures().bytes())
}

/// One run has a standard error; the mean of many shows whether what is charged is the truth.
#[test]
fn what_is_measured_is_right_on_average() {
    for shape in [Shape::Poisson, Shape::OnOffPareto, Shape::Periodic, Shape::Diurnal] {
        for goal in [0.25, 1.0, 4.0] {
            let seeds = 16;
            let sum: f64 = (0..seeds).map(|seed| paced(shape, seed, goal, Charge::Measured).0).sum();
            let mean = sum / seeds as f64;
            println!("{shape:?}, goal {goal} ms: {mean:.3} ms");
            assert!(mean <= goal * 1.1, "{shape:?}: {mean} ms for {goal} ms");
        }
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
        let (mean, bytes) = paced(shape, seed, goal, charge);
        let requests = REQUESTS as f64;
        // One request of 4 MiB more than the account has; if those behind wait as well, for the time of the busy period that it makes. What is measured
        // has a standard error besides: responses vary by some 6 ms.
        let error = match charge {
            Charge::Collision => 48.0 / requests,
            Charge::Queued => 500.0 / requests,
            Charge::Measured => 500.0 / requests + 3.0 * 6.0 / (requests / 3.0).sqrt(),
        };
        prop_assert!(mean <= goal * 1.1 + error, "{mean} ms for {goal} ms");
        prop_assert!(bytes > 0);
    }
}
