//! Random histories of an array under a pass: `docs/design/premises.md`, *How this is tested*.
//!
//! The superblocks are real bytes, read and assembled by the code of the product. The oracle knows
//! for each stripe of each device how often it was rewritten by a rebuild.

mod world;

use super::{is_whole, premises_of, superblocks_now};
use crate::premises::{Conclusion, Premises, Watch};
use pumice_base::units::{Role, Rules};
use pumice_raid::Array;
use std::collections::BTreeMap;
use std::time::Duration;
use world::{BATCH, MS, STRIPES, World};

/// The rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// P2 and P3: no look at the array.
    Looks,
    /// P4: the event count.
    Events,
    /// P5: a rebuild that ended meanwhile.
    Rebuilt,
    /// P6: saved progress without its premises.
    Saved,
}

/// Reads of a stripe of a role: the device, and the number of times it had been rewritten. Only
/// from a member that was in sync there.
type Read = BTreeMap<(u16, usize), Option<(usize, u32)>>;

/// A pass that was saved.
#[derive(Clone)]
struct Saved {
    premises: Premises,
    next: usize,
    read: Read,
}

/// Counts of the ends of passes.
#[derive(Debug, Default)]
struct Tally {
    clean: u64,
    incomplete: u64,
    refused: u64,
    resumed: u64,
    /// Complete although the array had changed in another way.
    calm: u64,
}

/// Runs a pass in up to four runs. An error is a CLEAN that is none.
fn pass(world: &mut World, without: Without, tally: &mut Tally) -> Result<(), String> {
    let mut saved: Option<Saved> = None;
    for _ in 0..4 {
        let Some((array, names)) = world.assemble() else {
            tally.refused += 1;
            world.advance(3000 * MS);
            continue;
        };
        world.in_run = true;
        let end = run(world, &array, &names, saved.take(), (without, tally));
        world.in_run = false;
        match end {
            End::Stopped(state) => saved = state,
            End::Complete(Some(state), truth) => {
                tally.clean += 1;
                tally.calm += u64::from(world.has_not_changed());
                return judge(&state, &truth);
            }
            End::Complete(None, _) => tally.incomplete += 1,
        }
        // Between two runs.
        let pause = world.random.within(MS, 30_000 * MS);
        world.advance(pause);
    }
    Ok(())
}

enum End {
    Stopped(Option<Saved>),
    /// Every batch is done. With what was confirmed, and the truth when the last look began.
    Complete(Option<Saved>, world::Truth),
}

fn run(
    world: &mut World,
    array: &Array,
    names: &[(Role, usize)],
    saved: Option<Saved>,
    (without, tally): (Without, &mut Tally),
) -> End {
    let reads = |role: Role| names.iter().any(|(named, _)| *named == role);
    let premises = premises_of(array, &reads);
    let fits = |saved: &Saved| without == Without::Saved || saved.premises.differs_from(&premises).is_none();
    let fresh = Saved { premises: premises.clone(), next: 0, read: Read::new() };
    let before = saved.filter(fits);
    tally.resumed += u64::from(before.is_some());
    let mut state = Saved { premises: premises.clone(), ..before.unwrap_or(fresh) };
    let mut watch = Watch::new(premises, is_whole(array, &reads));
    watch.rules = match without {
        Without::Looks => Rules::silently_without(3),
        Without::Events => Rules::silently_without(4),
        Without::Rebuilt => Rules::silently_without(5),
        Without::Nothing | Without::Saved => Rules::all(),
    };
    let began = world.now;
    let mut looked = world.now;
    while state.next < STRIPES {
        for stripe in state.next..state.next + BATCH {
            for member in &state.premises.members {
                let (_, device) = names.iter().find(|(role, _)| role.0 == member.role).expect("it is read");
                let by = world.random.within(0, 60 * MS);
                world.advance(by);
                state.read.insert((member.role, stripe), world.read(member.role, *device, stripe));
            }
        }
        state.next += BATCH;
        if world.random.percent(3) {
            let (holds, _) = last_look(world, &mut watch, (array, names), (&reads, began));
            return End::Stopped(holds.then_some(state));
        }
        if world.now - looked >= 1000 * MS {
            let (now, _) = world.look(array, names);
            looked = world.now;
            let at = Duration::from_micros(world.now - began);
            match watch.take(at, superblocks_now(array, now, &reads), false) {
                Conclusion::Yes => state.premises.events = watch.events(),
                Conclusion::Unknown(_) => {}
                Conclusion::No(_) => return End::Stopped(None),
            }
        }
    }
    let (holds, truth) = last_look(world, &mut watch, (array, names), (&reads, began));
    End::Complete((holds && array.not_named().is_empty()).then_some(state), truth)
}

/// The last look of a run, repeated as long as nothing can be decided: whether the premises hold,
/// and the truth when it began.
fn last_look(
    world: &mut World,
    watch: &mut Watch,
    (array, names): (&Array, &[(Role, usize)]),
    (reads, began): (&dyn Fn(Role) -> bool, u64),
) -> (bool, world::Truth) {
    for _ in 0..10 {
        let (now, truth) = world.look(array, names);
        let at = Duration::from_micros(world.now - began);
        match watch.take(at, superblocks_now(array, now, reads), true) {
            Conclusion::Yes => return (true, truth),
            Conclusion::No(_) => return (false, truth),
            Conclusion::Unknown(_) => world.advance(300 * MS),
        }
    }
    (false, world.truth())
}

/// Every byte of every member that the report names was read, in the state that it names.
fn judge(state: &Saved, truth: &world::Truth) -> Result<(), String> {
    for (role, device) in truth.members() {
        let Some(member) = state.premises.members.iter().find(|member| member.role == role) else {
            return Err(format!("member {role} is present, and the report does not name it"));
        };
        if truth.valid(role) > member.stripes as usize {
            return Err(format!("member {role} was read to stripe {} only", member.stripes));
        }
        for stripe in 0..member.stripes as usize {
            let read = state.read.get(&(role, stripe)).copied().flatten();
            if read != Some((device, truth.rewritten(device, stripe))) {
                return Err(format!("stripe {stripe} of member {role} was not read as it is: {read:?}"));
            }
        }
    }
    Ok(())
}

fn seed(number: u64, without: Without, tally: &mut Tally) -> Result<(), String> {
    let mut world = World::new(number);
    pass(&mut world, without, tally)
        .map_err(|what| format!("seed {number}: CLEAN, but {what}: {:?}", world.log))
}

fn seeds(of: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for number in of {
        if let Err(what) = seed(number, Without::Nothing, &mut tally) {
            panic!("{what}");
        }
    }
    tally
}

/// A rule that refuses everything is none: calm arrays, and many of the others, come out clean.
fn assert_shares(tally: &Tally) {
    println!("{tally:?}");
    let passes = tally.clean + tally.incomplete;
    assert!(tally.calm * 20 > passes && tally.resumed * 20 > passes, "{tally:?}");
    assert!(tally.clean * 4 > tally.incomplete, "{tally:?}");
}

#[test]
fn no_pass_is_clean_that_read_something_else() {
    assert_shares(&seeds(0..3000));
}

#[test]
fn a_calm_array_is_clean_whatever_else_happens_to_it() {
    let mut tally = Tally::default();
    for number in 0..400 {
        let mut world = World::calm(number);
        pass(&mut world, Without::Nothing, &mut tally).unwrap();
    }
    assert_eq!((tally.incomplete, tally.refused), (0, 0), "{tally:?}");
    assert!(tally.clean > 300, "{tally:?}");
}

/// The long form: `cargo xtask settle-sim`.
#[test]
#[ignore = "long; cargo xtask settle-sim runs it"]
fn long_form() {
    let number = std::env::var("PUMICE_SETTLE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    assert_shares(&seeds(0..number));
}

macro_rules! without {
    ($name:ident, $rule:ident) => {
        #[test]
        fn $name() {
            let mut tally = Tally::default();
            let found = (0..20_000).find_map(|number| seed(number, Without::$rule, &mut tally).err());
            assert!(found.is_some(), "nothing rests on this rule: {tally:?}");
        }
    };
}

without!(without_p2_and_p3_a_changed_array_is_clean, Looks);
without!(without_p4_a_member_that_was_rebuilt_between_two_looks_is_clean, Events);
without!(without_p5_a_rebuilt_member_is_clean, Rebuilt);
without!(without_p6_a_resumed_pass_is_clean, Saved);
