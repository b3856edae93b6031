//! Write amplification under random writes, against the formulas of the literature: whether garbage
//! collection counts and chooses rightly shows here.

use pumice_flash::chip::{Geometry, MemoryNand, Random, Timing};
use pumice_flash::ftl::{Config, ContentId, Ftl, NoJournal, Scheme, Tag};
use pumice_lab::study::flash::VictimPolicy;

const PAGES_PER_BLOCK: u32 = 64;
const BLOCKS: u32 = 600;
/// Blocks that hold nothing when a victim is chosen: two free ones, and the open block of garbage
/// collection.
const UNUSED: u32 = 3;

/// FIFO cleaning: u = e^(-alpha (1 - u)), and 1 / (1 - u) programs a write (Desnoyers, SYSTOR
/// 2012).
fn fifo(alpha: f64) -> f64 {
    let u = (0..10_000).fold(0.5_f64, |u, _| (-alpha * (1.0 - u)).exp());
    1.0 / (1.0 - u)
}

/// The mean field of blocks of which the emptiest of `d` random ones is cleaned (after Van Houdt,
/// SIGMETRICS 2013), or the emptiest of all. With S_i the share of blocks that have at least i live
/// pages: c i (S_i - S_(i+1)) = 1 - S_i^d, and the sum of S_i is the mean number of live pages.
fn mean_field(alpha: f64, d: Option<f64>) -> f64 {
    let b = f64::from(PAGES_PER_BLOCK);
    let live = |c: f64| {
        let mut above = 0.0;
        (1..=PAGES_PER_BLOCK).rev().fold(0.0, |sum, i| {
            let i = f64::from(i);
            above = match d {
                None => f64::min(1.0, above + 1.0 / (c * i)),
                Some(d) => bisect(above, 1.0, |x| c * i * (x - above) - (1.0 - x.powf(d))),
            };
            sum + above
        })
    };
    // More cleaning for each write, a smaller c, needs fuller blocks.
    let c = bisect(1e-3, 1e3, |c| b / alpha - live(c));
    alpha / c
}

/// The root of a function that rises.
fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if f(middle) < 0.0 { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The least that any separation can reach if a share `f` of the pages gets a share `r` of the
/// writes: each group has blocks of its own and the best part of the spare pages.
fn two_temperatures(alpha: f64, f: f64, r: f64) -> f64 {
    let at = |share: f64| {
        let hot = share * (alpha - 1.0);
        r * mean_field(1.0 + hot / f, None)
            + (1.0 - r) * mean_field(1.0 + (alpha - 1.0 - hot) / (1.0 - f), None)
    };
    (1..40).map(|i| at(f64::from(i) / 40.0)).fold(f64::INFINITY, f64::min)
}

/// Programs for each write, in the steady state of a drive whose writes `draw` chooses.
fn measured(alpha: f64, scheme: Scheme, victim: VictimPolicy, draw: impl Fn(&mut Random, u32) -> u32) -> f64 {
    let logical = (f64::from((BLOCKS - UNUSED) * PAGES_PER_BLOCK) / alpha) as u32;
    let geometry = Geometry {
        blocks: BLOCKS,
        pages_per_block: PAGES_PER_BLOCK,
        channels: 1,
        page_bytes: 4_096,
        oob_bytes: 128,
    };
    let nand = MemoryNand::<ContentId, Tag>::new(geometry, Timing::DISKSIM);
    let config = Config { wear_spread: u32::MAX, ..Config::new(logical, scheme) };
    let mut drive =
        Ftl::format_choosing(nand, NoJournal, config, victim.build(BLOCKS, PAGES_PER_BLOCK, 1)).unwrap();
    let (mut random, mut number) = (Random::new(11), 0);
    let mut write = |drive: &mut Ftl<_, _, _>, lpn| {
        number += 1;
        // No content comes twice.
        drive.write(lpn, &ContentId { strong: number, weak: number as u32 }, 0).unwrap();
    };
    for lpn in 0..logical {
        write(&mut drive, lpn);
    }
    for _ in 0..8 * logical {
        let lpn = draw(&mut random, logical);
        write(&mut drive, lpn);
    }
    let before = drive.stats();
    for _ in 0..8 * logical {
        let lpn = draw(&mut random, logical);
        write(&mut drive, lpn);
    }
    let after = drive.stats();
    let (copies, writes) = (after.copies - before.copies, after.host_writes - before.host_writes);
    1.0 + copies as f64 / writes as f64
}

fn uniform(random: &mut Random, logical: u32) -> u32 {
    random.below(u64::from(logical)) as u32
}

#[test]
fn the_formulas_give_published_values() {
    let near =
        |value: f64, published: f64| assert!((value - published).abs() < 0.006, "{value}, {published}");
    near(fifo(1.3), 2.364);
    near(mean_field(1.15, None), 3.800);
    near(mean_field(1.3, None), 2.293);
    near(mean_field(1.3, Some(10.0)), 2.357);
    near(mean_field(1.3, Some(2.0)), 3.085);
}

#[test]
fn uniform_writes_cost_what_the_formulas_say() {
    for alpha in [1.15, 1.3, 1.5] {
        let cases = [
            (VictimPolicy::Greedy, mean_field(alpha, None)),
            (VictimPolicy::Fifo, fifo(alpha)),
            (VictimPolicy::Choices(2), mean_field(alpha, Some(2.0))),
            (VictimPolicy::Choices(10), mean_field(alpha, Some(10.0))),
        ];
        for (victim, formula) in cases {
            let waf = measured(alpha, Scheme::None, victim, uniform);
            let off = waf / formula - 1.0;
            println!("alpha {alpha}, {victim:?}: {waf:.3}, formula {formula:.3}, {:+.2} %", 100.0 * off);
            assert!(off.abs() < 0.02, "alpha {alpha}, {victim:?}: {waf:.3}, formula {formula:.3}");
        }
    }
}

#[test]
fn two_temperatures_cost_at_least_their_bound() {
    let (alpha, f, r) = (1.3, 0.2, 0.8);
    let draw = |random: &mut Random, logical: u32| {
        let hot = (f64::from(logical) * f) as u32;
        if random.below(100) < (100.0 * r) as u64 {
            random.below(u64::from(hot)) as u32
        } else {
            hot + random.below(u64::from(logical - hot)) as u32
        }
    };
    // Pages of free and open blocks count as spare here: a bound must not be too high.
    let generous = alpha * f64::from(BLOCKS) / f64::from(BLOCKS - UNUSED);
    let bound = two_temperatures(generous, f, r);
    let single = measured(alpha, Scheme::None, VictimPolicy::Greedy, draw);
    for scheme in [Scheme::Ages, Scheme::Measured] {
        let waf = measured(alpha, scheme, VictimPolicy::Greedy, draw);
        println!("{scheme}: {waf:.3}, one stream {single:.3}, bound {bound:.3}");
        assert!(waf >= bound, "{scheme}: {waf:.3} is below the bound {bound:.3}");
        assert!(waf < single, "{scheme}: {waf:.3} is no better than one stream, {single:.3}");
    }
    assert!(single >= bound);
}
