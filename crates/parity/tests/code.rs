//! Codes: every loss pattern decodes exactly where the rank says so, and gives the data back.

use proptest::prelude::*;
use pumice_parity::code::Code;
use pumice_parity::gf;
use pumice_parity::seed::Seed;

/// Rank of the columns `of`, by Gauss on a copy: apart from the code under test.
fn rank(code: &Code, of: &[usize]) -> usize {
    let mut vectors: Vec<Vec<u8>> = of.iter().map(|c| code.check().column(*c)).collect();
    let mut rank = 0;
    for row in 0..code.parities() {
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

/// A stripe: some data and its parities, one byte a column.
fn stripe(code: &Code, seed: u64) -> Vec<u8> {
    let bytes = Seed::from_number(seed).derive("stripe", 0).0;
    let mut out: Vec<u8> = bytes.iter().cycle().take(code.data()).copied().collect();
    for row in code.encode_rows() {
        let parity = row.iter().zip(&out).fold(0, |sum, (c, d)| sum ^ gf::mul(*c, *d));
        out.push(parity);
    }
    out
}

/// Whether the pattern decodes; where it does, that it gives the stripe back, and what remains
/// checks it.
fn decodes(code: &Code, stripe: &[u8], lost: &[usize]) -> bool {
    let Some(recovery) = code.recover(lost) else { return false };
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

fn subsets(n: usize) -> impl Iterator<Item = Vec<usize>> {
    (0_u32..1 << n).map(move |bits| (0..n).filter(|i| bits >> i & 1 == 1).collect())
}

fn exhaustive(code: &Code, largest: usize) -> (usize, usize) {
    let stripe = stripe(code, 1);
    let mut counts = (0, 0);
    for lost in subsets(stripe.len()).filter(|lost| lost.len() <= largest) {
        let expected = rank(code, &lost) == lost.len();
        assert_eq!(decodes(code, &stripe, &lost), expected, "{lost:?}");
        counts.0 += 1;
        counts.1 += usize::from(expected);
    }
    counts
}

#[test]
fn raid5_and_raid6_restore_one_and_two() {
    assert_eq!(exhaustive(&Code::raid5(5).unwrap(), 6), (64, 1 + 6));
    assert_eq!(exhaustive(&Code::raid6(6).unwrap(), 8), (256, 1 + 8 + 28));
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

#[test]
fn ten_and_four_restores_exactly_the_patterns_of_at_most_four() {
    // 1 + 14 + 91 + 364 + 1001 of the 3473 patterns of at most five.
    assert_eq!(exhaustive(&Code::reed_solomon(10, 4).unwrap(), 5), (3473, 1471));
}

#[test]
fn every_small_reed_solomon_code_is_mds() {
    for parities in 1..=5 {
        for data in 1..=5 {
            let code = Code::reed_solomon(data, parities).unwrap();
            for lost in subsets(data + parities) {
                assert_eq!(
                    rank(&code, &lost) == lost.len(),
                    lost.len() <= parities,
                    "{data}+{parities} {lost:?}"
                );
            }
            assert!(code.encode_rows()[0].iter().all(|c| *c == 1), "parity 0 is the XOR");
        }
    }
}

/// Up to `most` of `n` columns, in any order.
fn pattern(n: usize, most: usize) -> impl Strategy<Value = Vec<usize>> {
    proptest::sample::subsequence((0..n).collect::<Vec<_>>(), 0..=most).prop_shuffle()
}

proptest! {
    #[test]
    fn eight_and_eight_restores_any_eight(lost in pattern(16, 9), seed: u64) {
        let code = Code::reed_solomon(8, 8).unwrap();
        prop_assert_eq!(decodes(&code, &stripe(&code, seed), &lost), lost.len() <= 8);
    }

    #[test]
    fn the_widest_code_restores_any_eight(lost in pattern(256, 9), seed: u64) {
        let code = Code::reed_solomon(248, 8).unwrap();
        prop_assert_eq!(decodes(&code, &stripe(&code, seed), &lost), lost.len() <= 8);
    }

    #[test]
    fn every_lrc_is_maximally_recoverable(x in 1_usize..=15, y in 1_usize..=15, picks in pattern(34, 5)) {
        let code = Code::lrc(x, y).unwrap();
        let lost: Vec<usize> = picks.into_iter().filter(|c| *c < x + y + 4).collect();
        prop_assert_eq!(decodes(&code, &stripe(&code, 3), &lost), lrc_should(x, y, &lost), "{:?}", lost);
    }
}

/// One a group, and two more.
fn lrc_should(x: usize, y: usize, lost: &[usize]) -> bool {
    let of_x = |c: &&usize| **c < x || **c == x + y;
    let of_y = |c: &&usize| (x..x + y).contains(*c) || **c == x + y + 1;
    let (in_x, in_y) = (lost.iter().filter(of_x).count(), lost.iter().filter(of_y).count());
    in_x.saturating_sub(1) + in_y.saturating_sub(1) + (lost.len() - in_x - in_y) <= 2
}

#[test]
fn lrc_six_two_two_restores_all_that_any_such_code_can() {
    let code = Code::lrc(3, 3).unwrap();
    let stripe = stripe(&code, 4);
    let mut of_four = 0;
    for lost in subsets(10) {
        assert_eq!(rank(&code, &lost) == lost.len(), lrc_should(3, 3, &lost), "{lost:?}");
        let restored = decodes(&code, &stripe, &lost);
        assert_eq!(restored, lrc_should(3, 3, &lost), "{lost:?}");
        assert!(restored || lost.len() > 3, "any three: {lost:?}");
        of_four += usize::from(restored && lost.len() == 4);
    }
    assert_eq!(of_four, 180);
}

#[test]
fn every_lrc_pattern_of_four_decodes_as_the_formula_says() {
    for (x, y) in [(1, 1), (15, 15), (2, 7), (6, 6)] {
        let code = Code::lrc(x, y).unwrap();
        let n = x + y + 4;
        for a in 0..n {
            for b in a + 1..n {
                for c in b + 1..n {
                    for d in c + 1..n {
                        let lost = [a, b, c, d];
                        assert_eq!(rank(&code, &lost) == 4, lrc_should(x, y, &lost), "{x}+{y} {lost:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_lost_chunk_of_a_group_is_read_from_its_group() {
    let code = Code::lrc(6, 6).unwrap();
    assert_eq!(code.recover(&[2]).unwrap().survivors, [0, 1, 3, 4, 5, 12]);
    assert_eq!(code.recover(&[13]).unwrap().survivors, [6, 7, 8, 9, 10, 11]);
    assert_eq!(code.recover(&[2, 7]).unwrap().survivors.len(), 12, "the globals are not read");
}
