//! Larger random cases. `PUMICE_REPAIR_CASES` and `PUMICE_REPAIR_SEED` set how many, and from which
//! seed.

use crate::exhaustive::{kinds, redundancy, run};
use crate::faults::{Fault, How};
use crate::judge::Tally;
use crate::world::{Kind, World, noise};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cases of the short form.
const CASES: u64 = 4_000;
/// Stripes of one array: a case each.
const STRIPES: u64 = 40;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

fn how(next: &mut impl FnMut() -> u64, disks: u16) -> How {
    match next() % 8 {
        0 => How::Flip((next() % 255 + 1) as u8),
        1 => How::Fill([0, 0xFF, next() as u8][(next() % 3) as usize]),
        2 => How::Period((next() % 64 + 1) as u8),
        3 => How::CopyOf((next() % u64::from(disks)) as u16),
        _ => How::Noise,
    }
}

fn fault(next: &mut impl FnMut() -> u64, kind: &Kind) -> Fault {
    let role = (next() % u64::from(kind.disks)) as u16;
    let len = match next() % 6 {
        0 => 1,
        1 => 1 + next() % 8,
        2 => 512,
        3 => kind.chunk,
        _ => 1 + next() % kind.chunk,
    };
    let at = match next() % 3 {
        // The faults of a stripe often meet.
        0 => 0,
        _ => next() % (kind.chunk - len + 1),
    };
    let sectors = 1 + next() % 4;
    let sector = next() % (kind.chunk / 512 - sectors + 1);
    match next() % 16 {
        0..8 => Fault::Silent { role, at, len, how: how(next, kind.disks) },
        8..11 => Fault::Lost { role, sector, sectors },
        11..13 => Fault::Transient { role, sector, sectors, reads: 1 + (next() % 5) as u32 },
        13 => {
            let b = (next() % u64::from(kind.disks)) as u16;
            // Disks exchange sectors, not bytes.
            Fault::Exchange { a: role, b, at: sector * 512, len: sectors * 512 }
        }
        14 => Fault::Overwritten { slot: role, at, len },
        _ => Fault::Torn { slot: role, at, len, arrived: 1 + (next() % 6) as u8 },
    }
}

/// Faults of one stripe. A torn write comes alone: what is right beside it has no single answer.
fn faults(next: &mut impl FnMut() -> u64, kind: &Kind) -> Vec<Fault> {
    let count = 1 + next() % 4;
    let faults: Vec<Fault> = (0..count).map(|_| fault(next, kind)).collect();
    match faults.iter().find(|fault| matches!(fault, Fault::Torn { .. })) {
        Some(torn) => vec![*torn],
        None => faults,
    }
}

/// The cases of one array: everything about them follows from the number of the round.
fn round(seed: u64, round: u64) -> Tally {
    let kinds = kinds();
    let mut next = noise(seed.wrapping_mul(1_000_003).wrapping_add(round));
    let kind = kinds[(next() % kinds.len() as u64) as usize];
    let disks = kind.disks + (next() % 4) as u16;
    let chunk = [4096, 8192, 16384][(next() % 3) as usize];
    let kind = Kind { disks, chunk, stripes: STRIPES, ..kind };
    let world = World::empty(kind, next());
    let content = next() % 5;
    (0..STRIPES).for_each(|stripe| world.recontent(stripe, content));
    let sets: Vec<_> = (0..STRIPES).map(|_| (faults(&mut next, &kind), next())).collect();
    let missing = match redundancy(&kind) {
        2 if next().is_multiple_of(4) => vec![(next() % u64::from(disks)) as u16],
        _ => Vec::new(),
    };
    run(&world, &kind, &sets, &missing, round)
}

#[test]
fn random_faults() {
    let cases = number("PUMICE_REPAIR_CASES", CASES);
    let seed = number("PUMICE_REPAIR_SEED", 1);
    let rounds = cases.div_ceil(STRIPES);
    let begun = AtomicU64::new(0);
    let all = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let number = begun.fetch_add(1, Ordering::Relaxed);
                    if number >= rounds {
                        break;
                    }
                    let tally = round(seed, number);
                    let mut all = all.lock().unwrap();
                    *all += tally;
                    if (number + 1).is_multiple_of(1000) {
                        eprintln!("{all:?}");
                    }
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    println!("seed {seed}: {all:?}");
    assert!(all.restored > all.cases / 20 && all.untouched > all.cases / 20, "{all:?}");
}
