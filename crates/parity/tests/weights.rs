//! Weights: never blind, as random as their bound says, and the same on every machine.

use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::code::{Code, CodeSpec};
use pumice_parity::gf;
use pumice_parity::seed::Seed;
use pumice_parity::weights::{GuardError, Weights, draw, miss_bound};

fn guard(check: &CheckMatrix) -> Vec<Vec<u8>> {
    (0..check.columns()).map(|column| check.column(column)).collect()
}

/// The fraction of stripes in which weights cancel a fixed syndrome, and how many were tried.
fn miss_rate(check: &CheckMatrix, syndrome: &[u8], stripes: u64) -> f64 {
    let weights = Weights::new(&Seed::from_number(11), 0, &guard(check)).unwrap();
    let missed = (0..stripes)
        .filter(|stripe| {
            let sum = weights.of(*stripe).iter().zip(syndrome).fold(0, |sum, (w, y)| sum ^ gf::mul(*w, *y));
            sum == 0
        })
        .count();
    missed as f64 / stripes as f64
}

/// Five standard deviations of a rate around `p`.
fn tolerance(p: f64, trials: u64) -> f64 {
    5.0 * (p * (1.0 - p) / trials as f64).sqrt()
}

#[test]
fn no_member_is_ever_unseen() {
    for code in [
        Code::raid5(4).unwrap(),
        Code::raid6(22).unwrap(),
        Code::raid6(200).unwrap(),
        Code::reed_solomon(10, 4).unwrap(),
        Code::reed_solomon(120, 8).unwrap(),
        "lrc:12,2,2,data".parse::<CodeSpec>().unwrap().code(),
    ] {
        let weights = Weights::new(&Seed::from_number(3), 1, &guard(code.check())).unwrap();
        for stripe in 0..500 {
            let combined = code.check().combine(&weights.of(stripe));
            assert!(combined.iter().all(|c| *c != 0), "{} columns, stripe {stripe}", combined.len());
        }
    }
}

#[test]
fn a_member_that_plain_weights_never_see_is_seen() {
    // c = 1 + g^slot is zero for slot 0: whatever happens to that member, the sum of P and Q holds.
    let code = Code::raid6(8).unwrap();
    let (naive, slot) = (code.check().combine(&[1, 1]), 0);
    assert_eq!(naive[slot], 0);
    for damage in 1..=255 {
        assert_eq!(gf::mul(naive[slot], damage), 0, "the naive sum misses {damage:02X}");
        let weights = draw(&Seed::from_number(5), u64::from(damage), 0, &guard(code.check())).unwrap();
        assert_ne!(gf::mul(code.check().combine(&weights)[slot], damage), 0);
    }
}

#[test]
fn raid6_misses_as_often_as_the_bound_says_and_no_more() {
    let code = Code::raid6(22).unwrap();
    let bound = miss_bound(2, &guard(code.check()), 1, 1);
    assert_eq!(bound, 1.0 / 233.0);
    // (1, 2^200): no slot of 22, so one of the good r cancels it.
    let rate = miss_rate(code.check(), &[1, gf::exp(200)], 400_000);
    assert!((rate - bound).abs() < tolerance(bound, 400_000), "{rate} for {bound}");
    // Damage that one member explains is never missed.
    assert_eq!(miss_rate(code.check(), &[7, gf::mul(7, gf::exp(3))], 20_000), 0.0);
}

#[test]
fn raid5_misses_over_several_stripes_as_often_as_the_bound_says() {
    let code = Code::raid5(4).unwrap();
    let columns = guard(code.check());
    assert_eq!(miss_bound(1, &columns, 1, 1), 0.0);
    let bound = miss_bound(1, &columns, 1000, 1);
    assert_eq!(bound, 1.0 / 255.0);
    // The same damage in stripes 2s and 2s + 1: plain XOR never sees it.
    let weights = Weights::new(&Seed::from_number(8), 0, &columns).unwrap();
    let pairs = 200_000;
    let missed = (0..pairs).filter(|s| weights.of(2 * s) == weights.of(2 * s + 1)).count();
    let rate = missed as f64 / pairs as f64;
    assert!((rate - bound).abs() < tolerance(bound, pairs), "{rate} for {bound}");
}

#[test]
fn more_parities_stay_within_the_general_bound() {
    let code = Code::reed_solomon(10, 4).unwrap();
    let bound = miss_bound(4, &guard(code.check()), 1, 1);
    assert_eq!(bound, 1.0 / 242.0);
    for syndrome in [[1, 2, 3, 4], [0, 9, 0, 200], [0xFF, 0x80, 0x1D, 0x55]] {
        let rate = miss_rate(code.check(), &syndrome, 200_000);
        assert!(rate < bound + tolerance(bound, 200_000), "{rate} for {bound}");
        assert!(rate > 1.0 / 300.0, "about one value in 256 cancels: {rate}");
    }
}

#[test]
fn independent_accumulators_multiply_the_bound() {
    let columns = guard(Code::raid6(22).unwrap().check());
    assert!((miss_bound(2, &columns, 1, 3) - 233.0_f64.powi(-3)).abs() < 1e-20);
    assert_eq!(miss_bound(2, &columns, 1, 0), 1.0);
    assert_eq!(miss_bound(0, &[], 9, 4), 1.0);
    let seed = Seed::from_number(1);
    let differ = (0..1000).filter(|s| draw(&seed, *s, 0, &columns) != draw(&seed, *s, 1, &columns)).count();
    assert!(differ > 990, "{differ}");
}

#[test]
fn a_rotating_array_has_the_bound_of_its_directions() {
    // Each class has the same columns on other members; a missing member's column is zero.
    let check = Code::raid6(4).unwrap().check().clone();
    let mut columns = guard(&check);
    columns.extend(guard(&check));
    columns.push(vec![0, 0]);
    columns.push(vec![3, 6]);
    assert_eq!(miss_bound(2, &columns, 1, 1), 1.0 / 251.0);
    assert!(check.combine(&draw(&Seed::from_number(2), 0, 0, &columns).unwrap()).iter().all(|c| *c != 0));
}

#[test]
fn a_guard_that_nothing_satisfies_says_so() {
    // All 257 directions of two rows: every w is blind to one of them.
    let all: Vec<Vec<u8>> = (0..=255).map(|q| vec![1, q]).chain([vec![0, 1]]).collect();
    assert_eq!(miss_bound(2, &all, 1, 1), 1.0);
    assert_eq!(draw(&Seed::from_number(2), 0, 0, &all), Err(GuardError));
    // Without (1, 0) the weights of one direction are good: those that are blind to it alone.
    let weights = draw(&Seed::from_number(2), 0, 0, &all[1..]).unwrap();
    assert_eq!((weights[0], weights[1] != 0), (0, true), "only multiples of (0, 1) are good");
}

#[test]
fn weights_are_the_same_on_every_machine() {
    // Computed by an independent ChaCha8. They are part of the wire format.
    let seed = Seed::from_number(42);
    let raid6 = guard(Code::raid6(6).unwrap().check());
    let rs = guard(Code::reed_solomon(4, 3).unwrap().check());
    assert_eq!(draw(&seed, 0, 0, &raid6).unwrap(), [2, 133]);
    assert_eq!(draw(&seed, u64::MAX, 3, &raid6).unwrap(), [58, 12]);
    assert_eq!(draw(&seed, 1_000_000, 1, &rs).unwrap(), [170, 84, 51]);
}

/// Multiples of the same columns, as often as a descriptor holds them, are no more directions.
#[test]
fn only_directions_count() {
    let columns: Vec<Vec<u8>> = (0..60_000_u32).map(|i| vec![(i % 255) as u8 + 1; 8]).collect();
    assert!(draw(&Seed::from_number(2), 0, 0, &columns).is_ok());
    let many: Vec<Vec<u8>> = (0..60_000_u32).map(|i| [&[1][..], &i.to_le_bytes()].concat()).collect();
    assert_eq!(draw(&Seed::from_number(2), 0, 0, &many), Err(GuardError));
    assert!(draw(&Seed::from_number(2), 0, 0, &many[..256]).is_ok());
}
