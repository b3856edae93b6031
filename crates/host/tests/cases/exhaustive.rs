//! Every combination of faults of a few members, in every code and layout.

use crate::faults::{Fault, How, Planted, SECTOR};
use crate::judge::{Case, Tally};
use crate::world::{Kind, RAID6, UUID, World, options, pass};
use pumice_host::repair::RepairPolicy;
use pumice_host::repair::{recover, undo, written_repairs};
use pumice_host::scrub::Options;
use pumice_host::state::StateFiles;
use pumice_raid::layout::{Layout, Level};

pub(crate) fn kinds() -> Vec<Kind> {
    let mut out = vec![Kind { level: Level::Raid4, layout: None, disks: 4, ..RAID6 }];
    for layout in Layout::ALL {
        for (level, disks) in [(Level::Raid5, 4), (Level::Raid6, 5)] {
            if layout.is_of(level) {
                out.push(Kind { level, layout: Some(layout), disks, ..RAID6 });
            }
        }
    }
    out
}

pub(crate) fn redundancy(kind: &Kind) -> usize {
    usize::from(kind.level.parities())
}

/// A folder in memory where there is one: thousands of journals are synced here, and their
/// durability has tests of its own.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Plants a fault set in each stripe, repairs by default, and judges every stripe.
pub(crate) fn run(
    world: &World,
    kind: &Kind,
    sets: &[(Vec<Fault>, u64)],
    missing: &[u16],
    seed: u64,
) -> Tally {
    let good: Vec<_> = (0..sets.len() as u64).map(|stripe| world.stripe_bytes(stripe)).collect();
    let planted: Vec<Planted> = sets
        .iter()
        .enumerate()
        .map(|(stripe, (faults, seed))| world.plant(stripe as u64, faults, *seed))
        .collect();
    let bad: Vec<_> = (0..sets.len() as u64).map(|stripe| world.stripe_bytes(stripe)).collect();
    world.fail(missing);
    let folder = folder();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let options = Options { repair: Some(RepairPolicy::Strong), ..options(seed) };
    let outcome = pass(&world.target(1 + seed as usize % 2, missing), Some(&state), &options);
    assert_eq!(outcome.stopped, None);
    let now: Vec<_> = (0..sets.len() as u64).map(|stripe| world.stripe_bytes(stripe)).collect();
    let mut tally = Tally::default();
    for stripe in 0..sets.len() as u64 {
        let index = stripe as usize;
        let case = Case {
            world,
            stripe,
            planted: &planted[index],
            good: &good[index],
            bad: &bad[index],
            now: &now[index],
            missing,
            redundancy: redundancy(kind),
            findings: outcome.findings.iter().filter(|f| f.stripe == stripe).collect(),
        };
        tally += case.judge();
    }
    undo_all(world, missing, &state);
    for (stripe, (bad, planted)) in bad.iter().zip(&planted).enumerate() {
        let back = world.stripe_bytes(stripe as u64);
        for role in (0..bad.len() as u16).filter(|role| !missing.contains(role)) {
            let lost = |at: usize| planted.lost.contains(&(role, at as u64 / SECTOR));
            let (back, bad) = (&back[usize::from(role)], &bad[usize::from(role)]);
            if back == bad {
                continue;
            }
            let differs = (0..bad.len()).find(|at| back[*at] != bad[*at] && !lost(*at));
            assert_eq!(differs, None, "stripe {stripe} member {role} is as before the repair");
        }
    }
    tally
}

/// Undoes all repairs, as `pumice repairs undo --all` does. Only sectors that were lost stay as the
/// repair left them.
fn undo_all(world: &World, missing: &[u16], state: &StateFiles) {
    let target = world.target(1, missing);
    let archive = state.archive();
    let (_, journal) = recover(&target, state.journal().unwrap(), &archive).unwrap();
    for id in written_repairs(&archive).unwrap() {
        undo(&target, &archive, &journal, id, 0).unwrap_or_else(|error| panic!("repair {id}: {error}"));
    }
}

/// Fault of one member: nothing, silent damage, lost or transiently lost sectors; in the same
/// sector as the others, or in one of its own.
fn fault(role: u16, state: usize, apart: bool) -> Option<Fault> {
    let sector = if apart { u64::from(role) } else { 1 };
    let at = sector * 512 + 20;
    match state {
        0 => None,
        1 => Some(Fault::Silent { role, at, len: 100, how: How::Noise }),
        2 => Some(Fault::Lost { role, sector, sectors: 1 }),
        3 => Some(Fault::Transient { role, sector, sectors: 1, reads: 2 }),
        // Long enough to last through the repair's own reads.
        _ => Some(Fault::Transient { role, sector, sectors: 1, reads: 4 }),
    }
}

const STATES: usize = 5;

/// All assignments of states to members with at most `most` members in trouble.
fn assignments(roles: &[u16], most: usize) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new()];
    for _ in roles {
        let longer = out.iter().flat_map(|states: &Vec<usize>| {
            let used = states.iter().filter(|state| **state != 0).count();
            let choices = if used < most { STATES } else { 1 };
            (0..choices).map(move |state| [states.as_slice(), &[state]].concat())
        });
        out = longer.collect();
    }
    out
}

#[test]
fn every_combination_up_to_one_beyond_the_distance() {
    let mut all = Tally::default();
    for (number, kind) in kinds().iter().enumerate() {
        let redundancy = redundancy(kind);
        // A missing member needs an equation to be left; RAID-4 and RAID-5 without one cannot be
        // scrubbed.
        let missing_sets: Vec<Vec<u16>> = match redundancy {
            2 => std::iter::once(Vec::new()).chain((0..kind.disks).map(|role| vec![role])).collect(),
            _ => vec![Vec::new()],
        };
        for missing in missing_sets {
            let roles: Vec<u16> = (0..kind.disks).filter(|role| !missing.contains(role)).collect();
            // The distance is the redundancy and one more; one beyond that.
            let most = redundancy + 2 - missing.len();
            // RAID-6 has hundreds of combinations a layout: the layouts share them out.
            let share = if redundancy == 2 { 6 } else { 1 };
            let mut sets = Vec::new();
            for (i, states) in assignments(&roles, most).into_iter().enumerate() {
                for apart in [false, true] {
                    if (i + usize::from(apart) + number) % share == 0 {
                        let faults =
                            roles.iter().zip(&states).filter_map(|(role, state)| fault(*role, *state, apart));
                        sets.push((faults.collect(), i as u64 * 2 + u64::from(apart) + 1));
                    }
                }
            }
            for (i, part) in sets.chunks(128).enumerate() {
                let kind = Kind { chunk: 4096, stripes: part.len() as u64, ..*kind };
                let seed = (number * 1000 + i) as u64;
                all += run(&World::new(kind, seed), &kind, part, &missing, seed);
            }
        }
    }
    eprintln!("{all:?}");
    assert!(all.cases > 5_000, "{all:?}");
    assert!(all.restored > all.cases / 4, "{all:?}");
    assert!(all.untouched > all.cases / 20, "{all:?}");
    // Silent damage of 100 different bytes takes every value: nothing rests on an assumption.
    assert_eq!((all.assumed, all.overwritten, all.beyond), (0, 0, 0), "{all:?}");
}

/// The rivals of rule R13, planted in every pair of members, over several kinds of content: good
/// bytes are never made bad.
#[test]
fn every_planted_rival_is_left_alone() {
    let kind = Kind { disks: 6, chunk: 8192, ..RAID6 };
    let mut sets = Vec::new();
    for a in 0..kind.disks {
        for b in a + 1..kind.disks {
            let silent = |role, how| Fault::Silent { role, at: 4096, len: 3000, how };
            let fill = |x, y| vec![silent(a, How::Fill(x)), silent(b, How::Fill(y))];
            sets.extend([fill(0, 0), fill(0xFF, 0xFF), fill(0, 0xFF), fill(7, 9)]);
            sets.push(vec![silent(a, How::Period(8)), silent(b, How::Period(8))]);
            sets.push(vec![silent(a, How::Period(64)), silent(b, How::CopyOf(a))]);
            sets.push(vec![silent(a, How::Flip(0x40)), silent(b, How::Flip(0x40))]);
            sets.push(vec![silent(a, How::Noise), silent(b, How::CopyOf(a))]);
            sets.push(vec![Fault::Exchange { a, b, at: 0, len: 8192 }]);
            sets.push(vec![Fault::Exchange { a, b, at: 4096, len: 512 }]);
            let other = (b + 1) % kind.disks;
            let exchange = |a, b| Fault::Exchange { a, b, at: 512, len: 1024 };
            if other != a {
                // Three in a ring.
                sets.push(vec![exchange(a, b), exchange(b, other)]);
            }
            let fourth = (b + 2) % kind.disks;
            if ![other, fourth].contains(&a) && fourth != b {
                sets.push(vec![exchange(a, b), exchange(other, fourth)]);
            }
            sets.push(vec![silent(a, How::CopyOf(other)), silent(b, How::CopyOf(other))]);
        }
    }
    let sets: Vec<_> = sets.into_iter().enumerate().map(|(i, set)| (set, i as u64 + 1)).collect();
    let mut all = Tally::default();
    for content in 0..5 {
        let kind = Kind { stripes: sets.len() as u64, ..kind };
        let world = World::empty(kind, content);
        (0..sets.len() as u64).for_each(|stripe| world.recontent(stripe, content));
        all += run(&world, &kind, &sets, &[], content);
    }
    eprintln!("{all:?}");
    assert_eq!((all.assumed, all.overwritten, all.beyond, all.rebuilt_wrong), (0, 0, 0, 0), "{all:?}");
}

/// Every part of a read-modify-write that arrives alone or with another: afterwards the stripe is
/// wholly old or wholly new, or as it was.
#[test]
fn a_torn_write_becomes_old_or_new() {
    let kind = Kind { disks: 6, chunk: 8192, ..RAID6 };
    let mut sets = Vec::new();
    for slot in 0..4 {
        for arrived in 1..7 {
            for (at, len) in [(0, 1), (100, 8), (1000, 300), (0, 8192)] {
                sets.push((vec![Fault::Torn { slot, at, len, arrived }], sets.len() as u64 + 1));
            }
        }
    }
    let kind = Kind { stripes: sets.len() as u64, ..kind };
    let all = run(&World::new(kind, 3), &kind, &sets, &[], 3);
    assert_eq!((all.assumed, all.overwritten, all.beyond), (0, 0, 0), "{all:?}");
}
