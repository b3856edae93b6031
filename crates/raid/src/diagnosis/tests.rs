use super::*;
use pumice_parity::gf;

/// 3+2: data 0, 1, 2 with exponents 0, 1, 2; P 3; Q 4.
fn raid6() -> (CheckMatrix, Redundancy) {
    let rows = [1, 1, 1, 1, 0, 1, 2, 4, 0, 1];
    let check = CheckMatrix::new(2, 5, &rows).unwrap();
    (check, Redundancy::Parity(vec![3, 4]))
}

#[test]
fn three_copies_are_located_by_majority_and_two_are_not() {
    let class = pumice_parity::array_layout::StripeClass::of_copies(5, &[1, 2, 4]);
    let good: Vec<u8> = (0..4096_u32).map(|i| (i * 7 + i / 256) as u8).collect();
    let look = |bad: &[(usize, usize)]| {
        let mut contents = vec![None; 5];
        for role in [1, 2, 4] {
            let mut bytes = good.clone();
            for (of, at) in bad.iter().filter(|(of, _)| *of == role) {
                (0..100).for_each(|i| bytes[at + i] ^= (i as u8).wrapping_mul(*of as u8) | 1);
            }
            contents[role] = Some(bytes);
        }
        let contents: Vec<Option<&[u8]>> = contents.iter().map(|c| c.as_deref()).collect();
        let rows: Vec<Vec<u8>> = (0..2)
            .map(|row| {
                let mut sum = vec![0; 4096];
                for (column, bytes) in contents.iter().enumerate() {
                    if let Some(bytes) = bytes {
                        gf::add_scaled(&mut sum, bytes, class.check().get(row, column));
                    }
                }
                sum
            })
            .collect();
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        diagnose_window(class.check(), class.redundancy(), &rows, &contents, 0)
    };
    for role in [1, 2, 4] {
        let found = look(&[(role, 50)]);
        assert_eq!(found[0].verdict, Verdict::Copy(Role(role as u16)));
        assert_eq!((found[0].start, found[0].len), (50, 100));
        assert_eq!(found[0].evidence.as_ref().unwrap().doubts(true), []);
    }
    let all = Verdict::CopiesDiffer(vec![Role(1), Role(2), Role(4)]);
    assert_eq!(look(&[(1, 50), (2, 60)])[0].verdict, all, "all three differ");
    assert_eq!(look(&[(1, 50), (2, 1000)])[0].verdict, all, "others at other places");
    assert_eq!(look(&[(1, 50), (2, 1000)])[0].certainty, Certainty::None);
    // Two copies.
    let class = pumice_parity::array_layout::StripeClass::of_copies(3, &[0, 2]);
    let row = [0, 0, 7];
    let found = diagnose_window(class.check(), class.redundancy(), &[&row], &[], 0);
    assert_eq!(found[0].verdict, Verdict::CopiesDiffer(vec![Role(0), Role(2)]));
}

fn syndromes(len: usize, errors: &[(usize, u8, u8)]) -> [Vec<u8>; 2] {
    let mut rows = [vec![0; len], vec![0; len]];
    for (at, p, q) in errors {
        rows[0][*at] ^= p;
        rows[1][*at] ^= q;
    }
    rows
}

fn diagnose(len: usize, offset: u32, errors: &[(usize, u8, u8)]) -> Vec<Diagnosis> {
    let (check, parity) = raid6();
    let rows = syndromes(len, errors);
    diagnose_window(&check, &parity, &[&rows[0], &rows[1]], &[], offset)
}

#[test]
fn one_member_over_two_blocks_is_one_finding() {
    let found = diagnose(16384, 0, &[(4000, 7, 14), (4096, 9, 18), (5000, 1, 2)]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].start, found[0].len), (4000, 1001));
    assert_eq!(found[0].verdict, Verdict::Member(Role(1)));
    assert_eq!(found[0].certainty, Certainty::Likely);
    assert_eq!(found[0].alternatives[0].verdict, Verdict::Several(vec![Role(3), Role(4)]));
}

#[test]
fn blocks_that_do_not_touch_stay_apart() {
    assert_eq!(diagnose(16384, 0, &[(0, 7, 14), (8192, 9, 18)]).len(), 2);
}

#[test]
fn blocks_count_from_the_chunk_not_the_window() {
    let found = diagnose(4096, 2048, &[(0, 5, 0), (2048, 0, 6)]);
    assert_eq!(
        found.iter().map(|d| (d.start, d.verdict.clone())).collect::<Vec<_>>(),
        [
            (2048, Verdict::Parity { row: 0, role: Role(3) }),
            (4096, Verdict::Parity { row: 1, role: Role(4) }),
        ]
    );
}

#[test]
fn one_contradiction_on_the_last_byte_of_a_page_is_heard() {
    let mut errors: Vec<(usize, u8, u8)> = (0..4095).map(|at| (at, 3, gf::mul(3, 4))).collect();
    errors.push((4095, 3, gf::mul(3, 2)));
    let found = diagnose(4096, 0, &errors);
    assert_eq!(found[0].verdict, Verdict::Ambiguous(vec![Role(1), Role(2)]));
    assert_eq!(found[0].certainty, Certainty::None);
}

#[test]
fn p_and_q_by_the_same_bytes_is_never_proven() {
    let found = diagnose(4096, 0, &[(10, 0x55, 0x55)]);
    assert_eq!(found[0].verdict, Verdict::Member(Role(0)));
    assert_ne!(found[0].certainty, Certainty::Proven);
    assert!(found[0].alternatives.iter().any(|a| a.verdict == Verdict::Several(vec![Role(3), Role(4)])));
}

#[test]
fn raid5_sees_and_cannot_say() {
    let check = CheckMatrix::new(1, 4, &[1; 4]).unwrap();
    let mut row = vec![0; 8192];
    row[5000..5100].fill(1);
    let found = diagnose_window(&check, &Redundancy::Parity(vec![3]), &[&row], &[], 0);
    assert_eq!((found[0].start, found[0].len, &found[0].verdict), (5000, 100, &Verdict::Unlocated));
}
