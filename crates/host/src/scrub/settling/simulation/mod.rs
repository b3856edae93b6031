//! The machine against md writers in virtual time: `docs/settling.md`, *How this is tested*.

mod random;
mod reader;
mod world;

use crate::finding::Clause;
use random::Random;
use reader::{Reader, Tally};
use world::{Config, Kept, MS, S, World};

/// Anything that can happen.
fn anything(random: &mut Random) -> Config {
    let kept = [Kept::Nothing, Kept::Bitmap, Kept::Ppl, Kept::Journal][random.index(4)];
    let counted = random.percent(80);
    let nodes = if counted { 1 + random.index(3) } else { 1 };
    let stripes = 8;
    let crash = counted && random.percent(50);
    Config {
        kept,
        counted,
        nodes,
        members: 3 + random.index(3),
        stripes,
        gap: [5 * MS, 50 * MS, 300 * MS, 3 * S][random.index(4)],
        written: [2, 4, 8][random.index(3)],
        // Without counters and records, two torn looks may agree: see the page.
        toggle: random.percent(40) && (counted || kept == Kept::Bitmap),
        held: held(random, kept),
        slow_looks: [0, 1, 10][random.index(3)],
        pauses: random.percent(60),
        crash: crash.then(|| [5 * S, 30 * S, 90 * S][random.index(3)]),
        comes_back: random.percent(80),
        read_only: 30,
        resync: [5 * MS, S / 2, 6 * S][random.index(3)],
        paths: counted && random.percent(40),
        changes: !crash && random.percent(25),
        visitors: counted && random.percent(25),
        damage: 60,
        begins_cut_off: random.percent(30),
    }
}

/// How writes are held back: within the settle time, where the page says that the rule rests on it.
fn held(random: &mut Random, kept: Kept) -> (u64, u64) {
    let longest = if kept == Kept::Nothing { 2 * S } else { 30 * S };
    [(0, 1), (2, longest), (20, longest / 4)][random.index(3)]
}

/// A seed: some passes over one array. What is said that is not so, if anything is.
fn seed(
    number: u64,
    config: &dyn Fn(&mut Random) -> Config,
    without: Option<Clause>,
) -> Result<Tally, String> {
    let mut random = Random::new(number);
    let config = config(&mut random);
    let mut world = World::new(config.clone(), number ^ 0xABCD);
    let mut tally = Tally::default();
    world.advance(random.within(MS, 20 * S));
    for _ in 0..3 {
        Reader::pass(&mut world, without, &mut tally)
            .map_err(|what| format!("seed {number}: {what} ({config:?})"))?;
        world.advance(random.below(10 * S));
    }
    Ok(tally)
}

/// Many seeds.
fn run(seeds: std::ops::Range<u64>, config: &dyn Fn(&mut Random) -> Config) -> Tally {
    let mut all = Tally::default();
    for number in seeds {
        match seed(number, config, None) {
            Ok(tally) => all.add(&tally),
            Err(what) => panic!("{what}"),
        }
    }
    all
}

/// That calling everything busy is no success.
fn assert_shares(all: &Tally) {
    let judged = all.consistent + all.findings;
    assert!(all.refused * 4 < all.passes, "most passes must run: {all:?}");
    assert!(judged * 2 > all.suspects, "at least half of the suspects must be decided: {all:?}");
    assert!(all.damaged_found * 2 > all.damaged, "most of the damage must be found: {all:?}");
    assert!((all.stripes - all.busy()) * 100 > all.stripes * 90, "{all:?}");
}

#[test]
fn no_torn_stripe_is_a_finding_whatever_happens() {
    let all = run(0..3000, &anything);
    println!("{all:?}");
    assert_shares(&all);
}

/// The long form: `cargo xtask settle-sim`.
#[test]
#[ignore = "long; cargo xtask settle-sim runs it"]
fn long_form() {
    let seeds = std::env::var("PUMICE_SETTLE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let all = run(0..seeds, &anything);
    println!("{all:#?}");
    assert_shares(&all);
}

#[test]
#[ignore = "debugging"]
fn survey() {
    let n = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(5000);
    let mut kinds: std::collections::BTreeMap<String, Vec<u64>> = Default::default();
    let mut all = Tally::default();
    for number in 0..n {
        match seed(number, &anything, None) {
            Ok(tally) => all.add(&tally),
            Err(what) => {
                let config = anything(&mut Random::new(number));
                let kind = format!("{:?} counted {} changes {} {}", config.kept, config.counted, config.changes, if what.contains("false") {"false"} else {"missed"});
                kinds.entry(kind).or_default().push(number);
            }
        }
    }
    println!("{all:#?}");
    for (kind, seeds) in kinds {
        println!("{kind}: {} {:?}", seeds.len(), &seeds[..seeds.len().min(8)]);
    }
}
