//! Verdicts over codes with three equations or more: damage from a seed, judged by the members that
//! were really damaged. `PUMICE_LONG=1` tries a hundred times as many.

use pumice_base::units::Role;
use pumice_parity::array_layout::Redundancy;
use pumice_parity::code::{Code, CodeSpec, ColumnRole};
use pumice_parity::gf;
use pumice_raid::diagnosis::{Certainty, Diagnosis, Verdict, diagnose_window};

const BLOCK: usize = 4096;
const CODES: [&str; 6] = ["rs:4,3", "rs:10,4", "rs:8,8", "lrc:6,2,2", "lrc:12,2,2", "lrc:12,2,2,all"];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 20
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

fn cases() -> u64 {
    if std::env::var_os("PUMICE_LONG").is_some() { 5_000 } else { 60 }
}

fn seeded(seed: u64) -> Random {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    (0..8).for_each(|_| _ = random.next());
    random
}

fn encode(code: &Code, data: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let parities = code.encode_rows().iter().map(|row| {
        let mut sum = vec![0; data[0].len()];
        row.iter().zip(&data).for_each(|(factor, bytes)| gf::add_scaled(&mut sum, bytes, *factor));
        sum
    });
    let parities: Vec<_> = parities.collect();
    data.into_iter().chain(parities).collect()
}

fn parities(code: &Code) -> Vec<usize> {
    let columns = 0..code.check().columns();
    columns.filter(|column| !matches!(code.role(*column), Some(ColumnRole::Data(_)))).collect()
}

/// The diagnoses of a block, with the members of `missing` not there.
fn judge(code: &Code, stripe: &[Vec<u8>], missing: &[usize]) -> Vec<Diagnosis> {
    let check = code.check().eliminate(missing);
    let rows: Vec<Vec<u8>> = (0..check.rows())
        .map(|row| {
            let mut sum = vec![0; BLOCK];
            for (column, bytes) in stripe.iter().enumerate() {
                gf::add_scaled(&mut sum, bytes, check.get(row, column));
            }
            sum
        })
        .collect();
    let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
    let present = |(column, bytes): (usize, &Vec<u8>)| (!missing.contains(&column)).then_some(bytes.clone());
    let contents: Vec<Option<Vec<u8>>> = stripe.iter().enumerate().map(present).collect();
    let contents: Vec<Option<&[u8]>> = contents.iter().map(Option::as_deref).collect();
    diagnose_window(&check, &Redundancy::Parity(parities(code)), &rows, &contents, 0)
}

/// Members that the verdict names, and whether it is strong.
fn named(found: &[Diagnosis]) -> Option<(Vec<usize>, bool)> {
    let [one] = found else { return None };
    if one.certainty != Certainty::Likely {
        return None;
    }
    let strong = one.evidence.as_ref().is_some_and(|evidence| evidence.doubts(false).is_empty());
    Some((one.verdict.accused().iter().map(|role| role.index()).collect(), strong))
}

fn some_columns(random: &mut Random, columns: usize, count: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..columns).collect();
    let mut out: Vec<usize> = (0..count).map(|_| all.swap_remove(random.below(all.len()))).collect();
    out.sort_unstable();
    out
}

#[test]
fn a_strong_verdict_names_the_damaged_members() {
    let (mut strong, mut likely, mut wrong) = (0, 0, 0);
    for (number, name) in CODES.iter().enumerate() {
        let code = name.parse::<CodeSpec>().unwrap().code();
        for case in 0..cases() {
            let mut random = seeded(case * 16 + number as u64);
            let data = (0..code.data()).map(|_| random.bytes(BLOCK)).collect();
            let mut stripe = encode(&code, data);
            let missing = random.below(3).min(code.parities() - 2);
            let missing = some_columns(&mut random, stripe.len(), missing);
            let count = 1 + random.below(code.parities() + 1);
            let mut damaged = some_columns(&mut random, stripe.len(), count);
            damaged.retain(|column| !missing.contains(column));
            if damaged.is_empty() {
                continue;
            }
            let positions = [1, 2, 4, 40][random.below(4)];
            for _ in 0..positions {
                let at = random.below(BLOCK);
                damaged.iter().for_each(|column| stripe[*column][at] ^= 1 + random.below(255) as u8);
            }
            match named(&judge(&code, &stripe, &missing)) {
                Some((accused, true)) => {
                    assert_eq!(accused, damaged, "{name}, case {case}: strong, without {missing:?}");
                    strong += 1;
                }
                Some((accused, false)) => {
                    likely += 1;
                    wrong += u32::from(accused != damaged);
                }
                None => {}
            }
        }
    }
    println!("{strong} strong and right, {likely} likely, of which {wrong} wrong");
    assert!(strong > 50 && likely > 25, "{strong} strong, {likely} likely");
    // With two equations left one value names a member wrongly in n of 255.
    assert!(wrong * 20 <= likely, "{wrong} of {likely} are wrong");
}

/// Two members are damaged in different places: each place alone shows one of them.
#[test]
fn members_that_are_damaged_in_different_places_are_named() {
    for (number, name) in CODES.iter().enumerate().filter(|(_, name)| **name != "lrc:6,2,2") {
        let code = name.parse::<CodeSpec>().unwrap().code();
        for case in 0..cases() / 12 {
            let mut random = seeded(case * 16 + number as u64 + 1000);
            let mut stripe = encode(&code, (0..code.data()).map(|_| random.bytes(BLOCK)).collect());
            let damaged = some_columns(&mut random, stripe.len(), 2);
            for (column, from) in damaged.iter().zip([0, 2000]) {
                let bytes = stripe[*column][from..from + 512].iter_mut();
                bytes.for_each(|byte| *byte ^= 1 + random.below(255) as u8);
            }
            let found = named(&judge(&code, &stripe, &[]));
            assert_eq!(found, Some((damaged, true)), "{name}, case {case}");
        }
    }
}

/// Members that hold fills have been written over so that they look like another one: as many as
/// there are equations, with one of parity among them.
#[test]
fn fills_that_look_like_another_member_are_no_strong_evidence() {
    for name in ["rs:4,3", "rs:10,4", "rs:8,8"] {
        let code = name.parse::<CodeSpec>().unwrap().code();
        let rows = code.parities();
        for case in 0..cases() / 4 {
            let mut random = seeded(case + 77);
            let one = random.below(code.data());
            let error = random.bytes(BLOCK);
            // Every parity has lost a write of this member into an empty stripe, or the others were
            // written over one.
            let mut data: Vec<Vec<u8>> = vec![vec![0; BLOCK]; code.data()];
            let mut stripe = encode(&code, data.clone());
            data[one] = error;
            stripe[one].clone_from(&data[one]);
            let found = judge(&code, &stripe, &[]);
            let (accused, strong) = named(&found).expect("the member is named");
            assert_eq!(accused, [one], "{name}, case {case}");
            assert!(!strong, "{name}, case {case}: {rows} parities may have lost a write");
        }
    }
}

/// Any four equations explain one byte by a pair in one of 714 cases, if more members are damaged.
#[test]
fn bytes_that_are_too_few_name_nobody() {
    let code = "rs:10,4".parse::<CodeSpec>().unwrap().code();
    for case in 0..cases() / 4 {
        let mut random = seeded(case + 5);
        let mut stripe = encode(&code, (0..10).map(|_| random.bytes(BLOCK)).collect());
        let damaged = some_columns(&mut random, 14, 2);
        let mut hit = |at: usize, stripe: &mut Vec<Vec<u8>>| {
            damaged.iter().for_each(|column| stripe[*column][at] ^= 1 + random.below(255) as u8);
        };
        hit(99, &mut stripe);
        let found = judge(&code, &stripe, &[]);
        assert_eq!(named(&found), None, "case {case}");
        let accused = damaged.iter().map(|column| Role(*column as u16)).collect();
        assert_eq!(found[0].verdict, Verdict::Ambiguous(accused));
        // Two more bytes name both.
        hit(1000, &mut stripe);
        hit(4000, &mut stripe);
        assert_eq!(named(&judge(&code, &stripe, &[])), Some((damaged.clone(), true)), "case {case}");
    }
}
