//! The machine against md writers in virtual time: `docs/design/settling.md`, *How this is tested*.

mod config;
mod random;
mod reader;
mod world;

use crate::finding::Clause;
use config::{Config, Kept, MS, S};
use random::Random;
use reader::{Reader, Tally};
use world::World;

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
        // Without counters, two torn looks may agree: see the page.
        toggle: counted && random.percent(40),
        held: held(random, kept),
        slow_looks: [0, 1, 10][random.index(3)],
        pauses: random.percent(60),
        crash: crash.then(|| [5 * S, 30 * S, 90 * S][random.index(3)]),
        comes_back: random.percent(80),
        read_only: 30,
        resync: [5 * MS, S / 2, 6 * S][random.index(3)],
        paths: counted && random.percent(40),
        changes: random.percent(25),
        restarts: counted && random.percent(20),
        visitors: counted && random.percent(30),
        damage: 60,
        begins_cut_off: random.percent(30),
    }
}

/// Percentage of writes that are held back, and the longest time: within the settle time, where the
/// page says that the rule rests on it.
fn held(random: &mut Random, kept: Kept) -> (u64, u64) {
    let longest = if kept == Kept::Nothing { 2 * S } else { 30 * S };
    [(0, 1), (2, longest), (20, longest / 4)][random.index(3)]
}

/// A seed: some passes over one array. An error is the first false statement.
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

/// Many seeds, on all processors. Nothing false may be said in any.
fn run(seeds: std::ops::Range<u64>, config: &(dyn Fn(&mut Random) -> Config + Sync)) -> Tally {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let part = |thread: usize| {
        let mut sum = Tally::default();
        for number in seeds.clone().skip(thread).step_by(threads) {
            sum.add(&seed(number, config, None)?);
        }
        Ok::<_, String>(sum)
    };
    let mut all = Tally::default();
    std::thread::scope(|scope| {
        let part = &part;
        let parts: Vec<_> = (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        for sum in parts {
            match sum.join().expect("no part panics") {
                Ok(sum) => all.add(&sum),
                Err(what) => panic!("{what}"),
            }
        }
    });
    all
}

/// The count that is too small for a success, if one is: refusing everything, leaving it out, or
/// calling it busy is no success.
fn lacks(all: &Tally) -> Option<&'static str> {
    let judged = all.consistent + all.findings;
    [
        (all.refused * 4 < all.passes, "three quarters of the passes must run"),
        (all.skipped * 4 < all.stripes, "few stripes may be left out"),
        (
            all.stripes.saturating_sub(all.busy()) * 100 > all.stripes * 90,
            "nine stripes of ten must be judged",
        ),
        (judged * 4 > all.suspects * 3, "three suspects of four must be decided"),
        (all.damaged_found * 10 > all.damaged * 7, "most of the damage must be found"),
    ]
    .into_iter()
    .find_map(|(holds, what)| (!holds).then_some(what))
}

fn assert_shares(all: &Tally) {
    assert_eq!(lacks(all), None, "{all:?}");
}

#[test]
fn a_pass_that_judges_nothing_is_no_success() {
    let all = run(0..50, &anything);
    let suspects = all.suspects;
    let refused = Tally { refused: all.passes, stripes: 0, suspects: 0, ..all.clone() };
    assert_eq!(lacks(&refused), Some("three quarters of the passes must run"));
    let skipped = Tally { skipped: all.stripes, ..all.clone() };
    assert_eq!(lacks(&skipped), Some("few stripes may be left out"));
    let everything = [(Clause::Quiet, all.stripes)].into();
    let busy = Tally { busy: everything, consistent: 0, findings: 0, damaged_found: 0, ..all.clone() };
    assert_eq!(lacks(&busy), Some("nine stripes of ten must be judged"));
    let suspects = [(Clause::Quiet, suspects)].into();
    let busy = Tally { busy: suspects, consistent: 0, findings: 0, damaged_found: 0, ..all };
    assert_eq!(lacks(&busy), Some("three suspects of four must be decided"));
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
    let judged = all.stripes - all.busy();
    println!("{all:#?}");
    println!(
        "{judged} of {} stripes judged ({:.2} %), {} of {} suspects decided ({:.1} %)",
        all.stripes,
        100.0 * judged as f64 / all.stripes as f64,
        all.consistent + all.findings,
        all.suspects,
        100.0 * (all.consistent + all.findings) as f64 / all.suspects as f64,
    );
    assert_shares(&all);
}

/// Leaves a clause out, and says in which of some seeds something is said that is not so.
fn first_false(clause: Clause, config: &(dyn Fn(&mut Random) -> Config + Sync)) -> Option<String> {
    // With all clauses the same seeds are fine.
    run(0..SEEDS_OF_A_CLAUSE, config);
    (0..SEEDS_OF_A_CLAUSE).find_map(|number| seed(number, config, Some(clause)).err())
}

/// Seeds with which a clause is tried.
const SEEDS_OF_A_CLAUSE: u64 = 2000;

/// An array over two nodes that is written all the time, without records, and nothing else happens.
fn plain() -> Config {
    Config {
        kept: Kept::Nothing,
        counted: true,
        nodes: 2,
        members: 4,
        stripes: 8,
        gap: 300 * MS,
        written: 8,
        toggle: false,
        held: (0, 1),
        slow_looks: 0,
        pauses: true,
        crash: None,
        comes_back: false,
        read_only: 0,
        resync: S,
        paths: false,
        changes: false,
        restarts: false,
        visitors: false,
        damage: 0,
        begins_cut_off: false,
    }
}

macro_rules! without {
    ($name:ident, $clause:ident, $config:expr) => {
        #[test]
        fn $name() {
            let config = |_: &mut Random| $config;
            let what = first_false(Clause::$clause, &config);
            assert!(
                what.is_some_and(|what| what.contains("a false finding")),
                "nothing rests on this clause"
            );
        }
    };
}

without!(
    without_s2_a_write_that_is_held_back_is_a_finding,
    Apart,
    Config { held: (5, 2 * S), gap: 60 * MS, stripes: 32, written: 32, ..plain() }
);
without!(
    without_s3_two_torn_looks_that_differ_are_a_finding,
    Agree,
    Config {
        counted: false,
        nodes: 1,
        gap: 500 * MS,
        written: 1,
        held: (50, 400 * MS),
        slow_looks: 15,
        ..plain()
    }
);
without!(
    without_s4_the_same_write_twice_is_a_finding,
    Quiet,
    Config { toggle: true, gap: 5 * MS, written: 2, slow_looks: 5, ..plain() }
);
without!(
    without_s5_what_a_crash_left_is_a_finding,
    Stay,
    Config {
        crash: Some(40 * S),
        gap: 50 * MS,
        held: (30, 1500 * MS),
        slow_looks: 20,
        stripes: 16,
        written: 16,
        ..plain()
    }
);
without!(
    without_s6_a_write_behind_a_silent_path_is_a_finding,
    Heard,
    Config { paths: true, gap: 300 * MS, ..plain() }
);
without!(
    without_s7_a_member_that_failed_is_a_finding,
    Same,
    Config { changes: true, gap: 50 * MS, ..plain() }
);
without!(
    without_s8_what_the_journal_still_holds_is_a_finding,
    Logs,
    Config { kept: Kept::Journal, held: (40, 30 * S), ..plain() }
);
without!(
    without_s9_what_waits_for_a_resync_by_the_bitmap_is_a_finding,
    Bitmap,
    Config { kept: Kept::Bitmap, begins_cut_off: true, resync: 6 * S, ..plain() }
);
without!(
    without_s10_what_waits_for_a_resync_is_a_finding,
    Whole,
    Config { begins_cut_off: true, resync: 6 * S, ..plain() }
);
without!(
    without_s11_evidence_that_comes_too_late_makes_a_finding,
    Timely,
    Config { kept: Kept::Journal, held: (40, 30 * S), slow_looks: 30, ..plain() }
);
without!(without_s12_every_torn_look_is_a_finding, Shared, Config { gap: 20 * MS, ..plain() });

/// S1 is what makes the rest bearable: without it nearly every stripe that is written stays busy.
#[test]
fn without_s1_what_is_written_stays_busy() {
    let config = |_: &mut Random| Config { gap: 20 * MS, held: (20, 500 * MS), ..plain() };
    let with = run(0..40, &config);
    let mut left_out = Tally::default();
    (0..40).for_each(|n| left_out.add(&seed(n, &config, Some(Clause::Consistent)).unwrap()));
    assert!(with.busy() * 4 < with.suspects, "{with:?}");
    assert!(left_out.busy() > 3 * with.busy().max(1), "{left_out:?}");
}

/// Cost of a busy array with a bitmap: the share of its stripes that counts as checked.
#[test]
fn most_stripes_of_a_busy_array_with_a_bitmap_count_as_checked() {
    let config = |random: &mut Random| Config {
        kept: Kept::Bitmap,
        gap: [5 * MS, 50 * MS][random.index(2)],
        written: 6,
        pauses: random.percent(50),
        damage: 60,
        ..plain()
    };
    let with = run(0..300, &config);
    let share = |left_out: u64| (with.stripes - left_out) as f64 / with.stripes as f64;
    println!(
        "{} stripes, {} suspects: {:.4} count as checked; {:.4} would if a set bit stopped the check; busy {:?}",
        with.stripes,
        with.suspects,
        share(with.busy()),
        share(with.marked),
        with.busy
    );
    assert!(share(with.busy()) > 0.9, "{with:?}");
    let mut ignored = Tally::default();
    (0..300).for_each(|n| ignored.add(&seed(n, &config, Some(Clause::Bitmap)).unwrap()));
    println!("{:.4} if bits are ignored", (ignored.stripes - ignored.busy()) as f64 / ignored.stripes as f64);
    assert!(share(with.marked) < share(with.busy()), "{with:?}");
}
