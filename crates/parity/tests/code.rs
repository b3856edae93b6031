//! Codes: every loss pattern decodes exactly where the rank says so, and gives the data back.
//!
//! `PUMICE_LONG=1` tries the sets of the largest codes as well.

use proptest::prelude::*;
use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::code::{Code, CodeSpec, Locality, LrcShape};
use pumice_parity::gf;
use pumice_parity::patterns::{Patterns, count};
use pumice_parity::seed::Seed;
use std::collections::BTreeMap;

/// Rank of vectors of `rows` entries, by Gauss on a copy: apart from the code under test.
fn rank(rows: usize, mut vectors: Vec<Vec<u8>>) -> usize {
    let mut rank = 0;
    for row in 0..rows {
        let Some(found) = vectors.iter().position(|v| v[row] != 0) else { continue };
        let pivot = vectors.swap_remove(found);
        for vector in &mut vectors {
            let factor = gf::div(vector[row], pivot[row]).unwrap();
            for (v, p) in vector.iter_mut().zip(&pivot) {
                *v ^= gf::mul(factor, *p);
            }
        }
        rank += 1;
    }
    rank
}

/// Returns whether the columns `of` are independent.
fn independent(code: &Code, of: &[usize]) -> bool {
    rank(code.parities(), of.iter().map(|c| code.check().column(*c)).collect()) == of.len()
}

/// A stripe: some data and its parities, one byte a column.
fn stripe(code: &Code, seed: u64) -> Vec<u8> {
    let bytes = Seed::from_number(seed).derive("stripe", 0).0;
    let data: Vec<u8> = bytes.iter().cycle().take(code.data()).copied().collect();
    let sum = |row: &Vec<u8>| row.iter().zip(&data).fold(0, |sum, (c, d)| sum ^ gf::mul(*c, *d));
    let parities: Vec<u8> = code.encode_rows().iter().map(sum).collect();
    data.into_iter().chain(parities).collect()
}

/// Returns whether the pattern decodes. If it does, asserts that the stripe comes back and that the
/// remaining equations check it.
fn decodes(code: &Code, stripe: &[u8], lost: &[usize]) -> bool {
    let recovery = code.recover(lost);
    assert_eq!(code.check().corrects(lost), recovery.is_some(), "{lost:?}");
    let Some(recovery) = recovery else { return false };
    assert_eq!(recovery.lost, lost);
    for (column, row) in lost.iter().zip(&recovery.coefficients) {
        assert_eq!(row.len(), recovery.survivors.len());
        let value = recovery.survivors.iter().zip(row).fold(0, |sum, (s, c)| sum ^ gf::mul(*c, stripe[*s]));
        assert_eq!(value, stripe[*column], "lost {lost:?}");
    }
    for (j, survivor) in recovery.survivors.iter().enumerate() {
        assert!(!lost.contains(survivor));
        assert!(recovery.coefficients.iter().any(|row| row[j] != 0), "{survivor} is read in vain");
    }
    let remaining = code.check().eliminate(lost);
    assert_eq!(remaining.rows(), code.parities() - lost.len());
    for row in 0..remaining.rows() {
        assert!(lost.iter().all(|column| remaining.get(row, *column) == 0));
        let sum = remaining.row(row).iter().zip(stripe).fold(0, |sum, (c, x)| sum ^ gf::mul(*c, *x));
        assert_eq!(sum, 0);
    }
    true
}

/// Every set of at most `largest` of `n` columns.
fn subsets(n: usize, largest: usize) -> impl Iterator<Item = Vec<usize>> {
    (0_u32..1 << n)
        .filter(move |bits| bits.count_ones() as usize <= largest)
        .map(move |bits| (0..n).filter(|i| bits >> i & 1 == 1).collect())
}

/// Tries every set of at most `largest` lost columns. Returns, by size, those that decode and all.
fn exhaustive(code: &Code, largest: usize) -> BTreeMap<usize, (u64, u64)> {
    let stripe = stripe(code, 1);
    let mut counts: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for lost in subsets(stripe.len(), largest) {
        let expected = independent(code, &lost);
        assert_eq!(decodes(code, &stripe, &lost), expected, "{lost:?}");
        let of_size = counts.entry(lost.len()).or_default();
        of_size.0 += u64::from(expected);
        of_size.1 += 1;
    }
    counts
}

#[test]
fn raid5_and_raid6_restore_one_and_two() {
    let counts = |code: Code| exhaustive(&code, code.check().columns());
    let sizes: Vec<_> = counts(Code::raid5(5).unwrap()).into_values().take(3).collect();
    assert_eq!(sizes, [(1, 1), (6, 6), (0, 15)]);
    let sizes: Vec<_> = counts(Code::raid6(6).unwrap()).into_values().take(4).collect();
    assert_eq!(sizes, [(1, 1), (8, 8), (28, 28), (0, 56)]);
}

#[test]
fn twenty_two_and_two_restores_every_pair() {
    let code = Code::raid6(22).unwrap();
    let stripe = stripe(&code, 2);
    for a in 0..24 {
        assert!(decodes(&code, &stripe, &[a]));
        for b in a + 1..24 {
            assert!(decodes(&code, &stripe, &[a, b]) && decodes(&code, &stripe, &[b, a]));
            for c in b + 1..24 {
                assert!(!decodes(&code, &stripe, &[a, b, c]));
            }
        }
    }
}

/// `docs/design/codes.md`, generator 1. SnapRAID publishes the same coefficients for its parities
/// 0 to 5.
const ROWS: [[u8; 12]; 8] = [
    [0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01],
    [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1D, 0x3A, 0x74, 0xE8],
    [0x01, 0xF5, 0xD2, 0xC4, 0x9A, 0x71, 0xF1, 0x7F, 0xFC, 0x87, 0xC1, 0xC6],
    [0x01, 0xBB, 0xA6, 0xD7, 0xC7, 0x07, 0xCE, 0x82, 0x4A, 0x2F, 0xA5, 0x9B],
    [0x01, 0x97, 0x7F, 0x9C, 0x7C, 0x18, 0xBD, 0xA2, 0x58, 0x1A, 0xDA, 0x74],
    [0x01, 0x2B, 0x3F, 0xCF, 0x73, 0x2C, 0xD6, 0xED, 0xCB, 0x74, 0x15, 0x78],
    [0x01, 0xE0, 0x18, 0xC8, 0xEA, 0xEC, 0x39, 0x2D, 0x23, 0xAB, 0x7C, 0x10],
    [0x01, 0xFD, 0x1B, 0x89, 0xF1, 0x53, 0x5E, 0x86, 0xF4, 0x7E, 0x5D, 0xDA],
];

#[test]
fn rows_are_the_published_ones_whatever_the_counts() {
    for parities in 1..=8 {
        for data in [1, 2, 5, 12, 100, 249] {
            let code = Code::reed_solomon(data, parities).unwrap();
            for (row, published) in code.encode_rows().iter().zip(&ROWS) {
                let known = data.min(12);
                assert_eq!(row[..known], published[..known], "{data}+{parities}");
            }
        }
    }
}

#[test]
fn the_first_two_parities_are_those_of_md() {
    for data in 1..=255 {
        assert_eq!(Code::reed_solomon(data, 1), Code::raid5(data));
        assert_eq!(Code::reed_solomon(data, 2), Code::raid6(data));
    }
}

/// Counts sets of at most as many columns as parities that are not independent: by elimination of
/// one column after another, apart from the code under test.
fn dependent_sets(code: &Code) -> u64 {
    fn extend(columns: &[[u8; 8]], basis: &mut Vec<([u8; 8], usize)>, most: usize) -> u64 {
        if basis.len() == most {
            return 0;
        }
        let mut bad = 0;
        for (at, column) in columns.iter().enumerate() {
            let mut rest = *column;
            for (base, pivot) in basis.iter() {
                let factor = rest[*pivot];
                rest.iter_mut().zip(base).for_each(|(r, b)| *r ^= gf::mul(factor, *b));
            }
            match rest.iter().position(|c| *c != 0) {
                None => bad += 1,
                Some(pivot) => {
                    let inverse = gf::inv(rest[pivot]).unwrap();
                    basis.push((rest.map(|c| gf::mul(c, inverse)), pivot));
                    bad += extend(&columns[at + 1..], basis, most);
                    basis.pop();
                }
            }
        }
        bad
    }
    let padded = |column: usize| {
        let mut out = [0; 8];
        let column = code.check().column(column);
        out[..column.len()].copy_from_slice(&column);
        out
    };
    let columns: Vec<[u8; 8]> = (0..code.check().columns()).map(padded).collect();
    extend(&columns, &mut Vec::new(), code.parities())
}

/// Rows depend on neither count, so these cover every smaller code.
#[test]
fn reed_solomon_codes_are_mds() {
    let long = std::env::var_os("PUMICE_LONG").is_some();
    let members = if long { 32 } else { 20 };
    for parities in 1..=8 {
        let code = Code::reed_solomon(members - parities, parities).unwrap();
        assert_eq!(dependent_sets(&code), 0, "{} + {parities}", members - parities);
    }
    // The count counts: the powers 2^(ij) are singular from six data columns with five parities on.
    let powers = |data: usize| {
        let rows: Vec<Vec<u8>> = (0..5).map(|j| (0..data).map(|i| gf::exp(i * j)).collect()).collect();
        dependent_sets(&Code::of_coefficients(&rows).unwrap())
    };
    assert_eq!(powers(5), 0);
    assert!(powers(6) > 0);
}

#[test]
fn reed_solomon_codes_decode_as_many_as_parities() {
    for (data, parities) in [(4, 3), (10, 4), (8, 8)] {
        let counts = exhaustive(&Code::reed_solomon(data, parities).unwrap(), parities + 1);
        assert_eq!(counts.len(), parities + 2);
        for (size, (good, all)) in counts {
            assert_eq!(good, if size <= parities { all } else { 0 }, "{data}+{parities}: {size}");
        }
    }
}

/// Up to `most` of `n` columns, in any order.
fn pattern(n: usize, most: usize) -> impl Strategy<Value = Vec<usize>> {
    proptest::sample::subsequence((0..n).collect::<Vec<_>>(), 0..=most).prop_shuffle()
}

proptest! {
    #[test]
    fn the_widest_code_restores_any_eight(lost in pattern(257, 9), seed: u64) {
        let code = Code::reed_solomon(249, 8).unwrap();
        prop_assert_eq!(decodes(&code, &stripe(&code, seed), &lost), lost.len() <= 8);
    }

    #[test]
    fn local_codes_decode_in_any_order(at in 0..5_usize, lost in pattern(16, 7), seed: u64) {
        let shape = LrcShape::OFFERED[at];
        let code = Code::lrc(shape);
        let lost: Vec<usize> = lost.into_iter().filter(|c| *c < code.check().columns()).collect();
        prop_assert_eq!(decodes(&code, &stripe(&code, seed), &lost), should(shape, &lost));
    }
}

/// The losses that any code of a shape can correct: one in each group, and as many more as there
/// are globals.
fn should(shape: LrcShape, lost: &[usize]) -> bool {
    let mut in_groups = vec![0_usize; usize::from(shape.groups())];
    let mut rest = 0;
    for column in lost {
        match shape.group_of(*column) {
            Some(group) => in_groups[group] += 1,
            None => rest += 1,
        }
    }
    let more: usize = in_groups.iter().map(|lost| lost.saturating_sub(1)).sum();
    rest + more <= usize::from(shape.globals())
}

fn shape(name: &str) -> LrcShape {
    name.parse::<CodeSpec>().unwrap().shape().unwrap()
}

/// A size, the sets of it that are corrected, and all.
type Count = (usize, u64, u64);

#[test]
fn local_codes_correct_all_that_their_shape_allows() {
    let published: [(&str, &[Count]); 5] = [
        ("lrc:6,2,2", &[(3, 120, 120), (4, 180, 210)]),
        ("lrc:12,2,2", &[(3, 560, 560), (4, 1680, 1820)]),
        ("lrc:12,2,2,data", &[(3, 560, 560), (4, 1568, 1820)]),
        ("lrc:9,3,3", &[(4, 1365, 1365), (5, 2940, 3003), (6, 3640, 5005)]),
        ("lrc:10,2,4", &[(5, 4368, 4368), (6, 7588, 8008)]),
    ];
    assert_eq!(published.map(|(name, _)| shape(name)), LrcShape::OFFERED);
    for (name, sizes) in published {
        let (spec, shape) = (name.parse::<CodeSpec>().unwrap(), shape(name));
        let code = spec.code();
        let counts = exhaustive(&code, code.parities() + 1);
        for lost in subsets(code.check().columns(), code.parities() + 1) {
            assert_eq!(independent(&code, &lost), should(shape, &lost), "{name} {lost:?}");
        }
        for (size, good, all) in sizes {
            assert_eq!(counts[size], (*good, *all), "{name}: sets of {size}");
            let patterns = Patterns { size: *size, corrected: *good, sets: *all };
            assert_eq!(count(&[code.check().clone()], *size), Some(patterns), "{name}");
        }
        let whole = |(good, all): &(u64, u64)| good == all;
        assert_eq!(counts.values().take_while(|of_size| whole(of_size)).count(), spec.corrects_any() + 1);
        assert_eq!(code.check().any_independent(), spec.corrects_any(), "{name}");
        assert_eq!(counts[&(code.parities() + 1)].0, 0);
    }
}

#[test]
fn exponents_in_order_are_not_enough_for_ten_two_four() {
    let in_order: Vec<Vec<u8>> = (0..2)
        .map(|group| (0..10).map(|i| u8::from(i / 5 == group)).collect())
        .chain(Code::reed_solomon(10, 5).unwrap().encode_rows()[1..].iter().cloned())
        .collect();
    let check = Code::of_coefficients(&in_order).unwrap().check().clone();
    assert_eq!(count(&[check], 6).map(|patterns| patterns.corrected), Some(7577));
}

#[test]
fn members_are_read_from_their_group() {
    for shape in LrcShape::OFFERED {
        let code = Code::lrc(shape);
        let columns = code.check().columns();
        for column in 0..columns {
            let survivors = code.recover(&[column]).unwrap().survivors;
            match shape.group_of(column) {
                Some(group) => {
                    let others = (0..columns).filter(|c| *c != column && shape.group_of(*c) == Some(group));
                    assert_eq!(survivors, others.collect::<Vec<_>>(), "{shape:?} {column}");
                }
                None => assert_eq!(survivors, (0..code.data()).collect::<Vec<_>>()),
            }
        }
    }
    let all = Code::lrc(shape("lrc:12,2,2"));
    assert_eq!(all.recover(&[15]).unwrap().survivors.len(), 7, "a global as well");
    let azure = Code::lrc(shape("lrc:12,2,2,data"));
    assert_eq!(azure.recover(&[2, 7]).unwrap().survivors.len(), 12, "the globals are not read");
}

#[test]
fn globals_of_two_rows_are_q_and_its_squares() {
    let code = Code::lrc(shape("lrc:12,2,2,data"));
    let rows = code.encode_rows();
    let p: Vec<u8> = rows[0].iter().zip(&rows[1]).map(|(x, y)| x ^ y).collect();
    let raid6 = Code::raid6(12).unwrap();
    assert_eq!([&p, &rows[2]], [&raid6.encode_rows()[0], &raid6.encode_rows()[1]]);
    assert_eq!(rows[3], rows[2].iter().map(|c| gf::mul(*c, *c)).collect::<Vec<_>>());
    assert_eq!(Code::of_coefficients(rows), Ok(code), "equations are [A | I]");
}

/// Local parities of generator 3 hold a global, so their coefficients are not 0 and 1.
#[test]
fn groups_of_all_members_hold_their_global() {
    let code = Code::lrc(shape("lrc:12,2,2"));
    let rows = code.encode_rows();
    for (i, e) in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 20].into_iter().enumerate() {
        let (x, y) = (u8::from(i < 6), u8::from(i >= 6));
        let column = [x ^ gf::exp(e), y ^ gf::exp(2 * e), gf::exp(e), gf::exp(2 * e)];
        assert_eq!(rows.iter().map(|row| row[i]).collect::<Vec<_>>(), column, "{i}");
    }
    // The same code as [A | I], with longer equations.
    let long = Code::of_coefficients(rows).unwrap();
    assert_eq!(long.encode_rows(), rows);
    for lost in subsets(16, 5) {
        assert_eq!(long.check().corrects(&lost), code.check().corrects(&lost), "{lost:?}");
    }
    assert!(long.recover(&[0]).unwrap().survivors.len() > 7);
}

/// The classes of a rotation: in stripe t, each of `turns`, a list of columns, is moved on by t
/// places over the members where the code has them.
fn rotation(code: &Code, turns: &[Vec<usize>], stripes: usize) -> Vec<CheckMatrix> {
    let columns = code.check().columns();
    (0..stripes)
        .map(|t| {
            let mut of_member: Vec<usize> = (0..columns).collect();
            for turn in turns {
                for (at, member) in turn.iter().enumerate() {
                    of_member[*member] = turn[(at + t) % turn.len()];
                }
            }
            let rows = (0..code.parities())
                .flat_map(|row| of_member.iter().map(move |column| code.check().get(row, *column)));
            CheckMatrix::new(code.parities(), columns, &rows.collect::<Vec<_>>()).unwrap()
        })
        .collect()
}

#[test]
fn a_layout_corrects_what_every_stripe_does() {
    let of_four = |classes: &[CheckMatrix]| count(classes, 4).unwrap().corrected;
    let range = |from: usize, to: usize| from..to;
    let (x, y) = (range(0, 6), range(6, 12));
    // Columns: x, y, Lx 12, Ly 13, P0 14, P1 15.
    let all = Code::lrc(shape("lrc:12,2,2"));
    let groups = [x.clone().chain([12, 14]).collect(), y.clone().chain([13, 15]).collect()];
    assert_eq!(of_four(&rotation(&all, &groups, 8)), 1680);
    let azure = Code::lrc(shape("lrc:12,2,2,data"));
    let groups = [x.clone().chain([12]).collect(), y.clone().chain([13]).collect(), vec![14, 15]];
    assert_eq!(of_four(&rotation(&azure, &groups, 14)), 1568);
    let one = x.chain([12]).chain(y).chain([13, 14, 15]).collect();
    assert_eq!(of_four(&rotation(&azure, &[one], 16)), 924);
    assert_eq!(of_four(&rotation(&azure, &[(0..16).collect()], 16)), 516);
    let rs = Code::reed_solomon(12, 4).unwrap();
    assert_eq!(of_four(&rotation(&rs, &[(0..16).collect()], 16)), 1820);
    assert_eq!(shape("lrc:12,2,2").locality(), Locality::All);
}

/// The number of independent columns is true also of the equations that remain without some
/// members.
#[test]
fn columns_said_to_be_independent_are() {
    let names = ["rs:4,3", "lrc:6,2,2", "lrc:12,2,2", "lrc:12,2,2,data", "lrc:9,3,3"];
    let mut least = usize::MAX;
    for code in names.map(|name| name.parse::<CodeSpec>().unwrap().code()) {
        let members = code.check().columns();
        for missing in subsets(members, 2) {
            let rest = code.check().eliminate(&missing);
            let any = rest.any_independent();
            assert!(any + missing.len() >= code.check().any_independent());
            least = least.min(any);
            for set in subsets(members, any).filter(|set| set.len() == any) {
                let zero = set.iter().any(|column| rest.column(*column).iter().all(|c| *c == 0));
                assert!(zero || rest.corrects(&set), "{missing:?} {set:?}");
            }
        }
    }
    assert_eq!(least, 1);
}
