//! From the syndromes of a block to the members that explain it.

use proptest::prelude::*;
use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::code::{Code, CodeSpec};
use pumice_parity::gf;
use pumice_parity::locate::{BlockDiagnosis, BlockVerdict, diagnose_block, error_values};

/// Damage: column, position, and what was added there.
type Error = (usize, usize, u8);

fn syndromes(check: &CheckMatrix, len: usize, errors: &[Error]) -> Vec<Vec<u8>> {
    let mut rows = vec![vec![0; len]; check.rows()];
    for (column, at, e) in errors {
        for (row, c) in rows.iter_mut().zip(check.column(*column)) {
            row[*at] ^= gf::mul(c, *e);
        }
    }
    rows
}

fn views(rows: &[Vec<u8>]) -> Vec<&[u8]> {
    rows.iter().map(Vec::as_slice).collect()
}

fn diagnose(check: &CheckMatrix, len: usize, errors: &[Error]) -> BlockDiagnosis {
    diagnose_block(check, &views(&syndromes(check, len, errors)))
}

fn verdict(check: &CheckMatrix, len: usize, errors: &[Error]) -> BlockVerdict {
    diagnose(check, len, errors).verdict
}

fn lrc(name: &str) -> Code {
    name.parse::<CodeSpec>().unwrap().code()
}

fn raid6(data: usize) -> CheckMatrix {
    Code::raid6(data).unwrap().check().clone()
}

#[test]
fn every_member_of_raid6_is_named_by_every_error() {
    let check = raid6(22);
    for column in 0..24 {
        for e in 1..=255 {
            assert_eq!(verdict(&check, 3, &[(column, 1, e)]), BlockVerdict::Columns(vec![column]));
        }
    }
}

#[test]
fn the_bad_bytes_are_counted_from_the_first_to_the_last() {
    let found = diagnose(&raid6(4), 4096, &[(1, 100, 7), (1, 250, 7), (1, 4095, 1)]);
    assert_eq!((found.first, found.last, found.positions), (100, 4095, 3));
    let clean = diagnose(&raid6(4), 4096, &[]);
    assert_eq!(
        clean,
        BlockDiagnosis { verdict: BlockVerdict::Consistent, first: 0, last: 0, positions: 0, rank: 0 }
    );
    assert_eq!(diagnose(&raid6(4), 0, &[]), clean);
}

#[test]
fn a_contradiction_makes_a_page_ambiguous_wherever_it_stands() {
    let check = raid6(6);
    for at in [0, 1, 63, 2048, 4094, 4095] {
        let mut errors: Vec<Error> = (0..4096).map(|at| (2, at, (at % 255) as u8 + 1)).collect();
        errors[at] = (4, at, 9);
        assert_eq!(
            verdict(&check, 4096, &errors),
            BlockVerdict::Ambiguous { candidates: vec![2, 4] },
            "a contradiction at {at}"
        );
        errors.remove(at);
        assert_eq!(verdict(&check, 4096, &errors), BlockVerdict::Columns(vec![2]));
    }
}

#[test]
fn a_quotient_that_is_no_slot_is_ambiguous() {
    let check = raid6(4);
    for slot in 4..255 {
        let rows = [vec![0, 1], vec![0, gf::exp(slot)]];
        let found = diagnose_block(&check, &views(&rows));
        assert_eq!(found.verdict, BlockVerdict::Ambiguous { candidates: vec![] }, "slot {slot}");
    }
    // Beside a position that does name a slot, it is the only candidate.
    let rows = [vec![1, 5], vec![gf::exp(99), gf::mul(5, 4)]];
    assert_eq!(
        diagnose_block(&check, &views(&rows)).verdict,
        BlockVerdict::Ambiguous { candidates: vec![2] }
    );
}

#[test]
fn one_equation_sees_and_cannot_say_where() {
    let raid5 = Code::raid5(4).unwrap();
    assert_eq!(verdict(raid5.check(), 8, &[(3, 4, 1)]), BlockVerdict::Unlocated);
    let degraded = raid6(4).eliminate(&[1]);
    assert_eq!(verdict(&degraded, 8, &[(3, 4, 1)]), BlockVerdict::Unlocated);
    assert_eq!(
        verdict(&degraded, 8, &[(1, 4, 1)]),
        BlockVerdict::Consistent,
        "the missing member has no part"
    );
    let nothing = raid6(4).eliminate(&[1, 2]);
    assert_eq!(diagnose_block(&nothing, &[]).verdict, BlockVerdict::Consistent);
}

#[test]
fn missing_members_are_never_named_and_the_rest_still_is() {
    let check = Code::reed_solomon(10, 4).unwrap().check().eliminate(&[3, 12]);
    assert_eq!(check.rows(), 2);
    for column in (0..14).filter(|c| ![3, 12].contains(c)) {
        let errors = [(column, 0, 5), (column, 2, 6)];
        assert_eq!(verdict(&check, 4, &errors), BlockVerdict::Columns(vec![column]));
        assert_eq!(
            verdict(&check, 4, &[errors[0], (3, 1, 9), (12, 2, 1)]),
            BlockVerdict::Columns(vec![column])
        );
    }
}

#[test]
fn four_parities_name_any_two_members() {
    let check = Code::reed_solomon(10, 4).unwrap().check().clone();
    for a in 0..14 {
        for b in a + 1..14 {
            let at_once = [(a, 0, 5), (b, 0, 77)];
            assert_eq!(verdict(&check, 8, &at_once), BlockVerdict::Columns(vec![a, b]));
            // Each position names one; the block needs both.
            let apart = [(a, 0, 5), (b, 7, 77)];
            assert_eq!(verdict(&check, 8, &apart), BlockVerdict::Columns(vec![a, b]));
            // The sets of the positions are of two, their union is not.
            let c = (b + 1) % 14;
            if c != a {
                let three = [(a, 0, 5), (b, 0, 77), (b, 1, 8), (c, 1, 9)];
                assert!(matches!(verdict(&check, 8, &three), BlockVerdict::Ambiguous { .. }), "{a} {b} {c}");
                // Positions that show all three name them; four are as many as rows.
                let d = (0..14).find(|d| ![a, b, c].contains(d)).unwrap();
                let apart = [(a, 0, 5), (b, 1, 77), (c, 2, 9), (d, 3, 1)];
                let mut columns = vec![a, b, c];
                columns.sort_unstable();
                assert_eq!(verdict(&check, 8, &apart[..3]), BlockVerdict::Columns(columns.clone()));
                columns.push(d);
                columns.sort_unstable();
                assert_eq!(verdict(&check, 8, &apart), BlockVerdict::Ambiguous { candidates: columns });
            }
        }
    }
}

#[test]
fn three_parities_name_one_member_and_refuse_two_at_one_position() {
    let check = Code::reed_solomon(6, 3).unwrap().check().clone();
    for a in 0..9 {
        assert_eq!(verdict(&check, 2, &[(a, 0, 1), (a, 1, 3)]), BlockVerdict::Columns(vec![a]));
        for b in (0..9).filter(|b| *b != a) {
            // With three parities and distance four, two errors never look like one.
            assert!(matches!(verdict(&check, 1, &[(a, 0, 7), (b, 0, 9)]), BlockVerdict::Ambiguous { .. }));
        }
    }
}

#[test]
fn every_member_of_an_lrc_is_named() {
    let check = lrc("lrc:12,2,2,data").check().clone();
    for column in 0..check.columns() {
        for e in [1, 0x80, 0xFF] {
            assert_eq!(verdict(&check, 1, &[(column, 0, e)]), BlockVerdict::Columns(vec![column]));
        }
    }
}

/// Every set of `size` of `n` columns.
fn sets(n: usize, size: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..1_u32 << n)
        .filter(move |bits| bits.count_ones() as usize == size)
        .map(move |bits| (0..n).filter(|i| bits >> i & 1 == 1).collect())
}

/// Damage of each member at a position of its own shows as many dimensions as members. With an MDS
/// code all sets of fewer members than parities are named. The counts of the local codes are from
/// another program, which looks for columns inside the span of the set.
#[test]
fn sets_that_show_all_their_dimensions_are_named() {
    let published: [(&str, &[usize]); 6] = [
        ("rs:4,3", &[7, 21]),
        ("rs:10,4", &[14, 91, 364]),
        ("lrc:6,2,2", &[10, 45, 80]),
        ("lrc:12,2,2,data", &[16, 120, 392]),
        ("lrc:9,3,3", &[15, 105, 455, 1260]),
        ("lrc:12,2,2", &[16, 120, 448]),
    ];
    for (name, counts) in published {
        let check = name.parse::<CodeSpec>().unwrap().code().check().clone();
        for (size, expected) in (1..).zip(counts) {
            let mut named = 0;
            for set in sets(check.columns(), size) {
                let errors: Vec<Error> =
                    set.iter().enumerate().map(|(at, column)| (*column, at, 0x53)).collect();
                match verdict(&check, size, &errors) {
                    BlockVerdict::Columns(columns) if columns == set => named += 1,
                    BlockVerdict::Ambiguous { .. } => {}
                    other => panic!("{name} {set:?}: {other:?}"),
                }
            }
            assert_eq!(named, *expected, "{name}: sets of {size}");
        }
    }
}

/// At one position a set of more than one member shows one dimension. Half of the columns that are
/// independent whichever they are is what can be named then.
#[test]
fn at_one_position_half_of_what_is_independent_is_named() {
    for (name, named) in [("rs:4,3", 1), ("rs:10,4", 2), ("rs:8,6", 3), ("lrc:6,2,2", 1), ("lrc:9,3,3", 2)] {
        let check = name.parse::<CodeSpec>().unwrap().code().check().clone();
        for size in 1..=named + 1 {
            for set in sets(check.columns(), size) {
                let errors: Vec<Error> = (1..).zip(&set).map(|(e, column)| (*column, 0, e * 29)).collect();
                match verdict(&check, 1, &errors) {
                    BlockVerdict::Columns(columns) if columns == set => {
                        assert!(size <= named, "{name} {set:?}");
                    }
                    // One more than can be named may look like fewer others.
                    found => assert!(size > named, "{name} {set:?}: {found:?}"),
                }
            }
        }
    }
}

#[test]
fn error_values_undo_the_damage_and_only_that() {
    let check = Code::reed_solomon(10, 4).unwrap().check().clone();
    let rows = syndromes(&check, 10, &[(3, 0, 5), (7, 0, 77), (3, 9, 1)]);
    let rows = views(&rows);
    let values = error_values(&check, &[3, 7], &rows).unwrap();
    assert_eq!(values[0], [5, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(values[1], [77, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(error_values(&check, &[7, 3], &rows).unwrap()[1], values[0], "in the order that was asked");
    assert_eq!(error_values(&check, &[3], &rows), None, "not enough");
    assert_eq!(error_values(&check, &[3, 3, 7], &rows), None, "not determined");
    assert_eq!(error_values(&check, &[0, 1, 2, 3, 7], &rows), None, "more than equations");
    assert_eq!(error_values(&check, &[], &rows), None);
    assert_eq!(error_values(&check, &[], &[&[0], &[0], &[0], &[0]]), Some(vec![]));
}

/// Some columns of `n`, and damage of at least one byte in each.
fn damage(
    n: usize,
    members: std::ops::RangeInclusive<usize>,
) -> impl Strategy<Value = (Vec<usize>, Vec<Error>)> {
    proptest::sample::subsequence((0..n).collect::<Vec<_>>(), members).prop_flat_map(|columns| {
        let parts: Vec<_> = columns
            .iter()
            .map(|c| prop::collection::vec((Just(*c), 0_usize..32, 1..=255_u8), 1..4))
            .collect();
        (Just(columns), parts).prop_map(|(columns, parts)| {
            // One error a member and position: two might cancel.
            let mut errors: Vec<Error> = parts.into_iter().flatten().collect();
            errors.sort_unstable();
            errors.dedup_by_key(|(column, at, _)| (*column, *at));
            (columns, errors)
        })
    })
}

proptest! {
    #[test]
    fn up_to_half_the_parities_are_located_and_undone(
        ((data, parities), (columns, errors)) in
            prop::sample::select(vec![(6, 2), (8, 3), (10, 4), (7, 5), (12, 6), (8, 7), (8, 8), (16, 8)])
                .prop_flat_map(|(k, p): (usize, usize)| (Just((k, p)), damage(k + p, 1..=p / 2)))
    ) {
        let check = Code::reed_solomon(data, parities).unwrap().check().clone();
        let rows = syndromes(&check, 32, &errors);
        let found = diagnose_block(&check, &views(&rows));
        prop_assert_eq!(found.verdict, BlockVerdict::Columns(columns.clone()));
        let values = error_values(&check, &columns, &views(&rows)).unwrap();
        for (column, values) in columns.iter().zip(&values) {
            for (at, value) in values.iter().enumerate() {
                let e = errors.iter().find(|e| (e.0, e.1) == (*column, at)).map_or(0, |e| e.2);
                prop_assert_eq!(*value, e);
            }
        }
    }

    /// With at most p - t bad members, those that are named are the bad ones: what else would
    /// explain the block shares a dependency of p columns with them.
    #[test]
    fn a_few_more_are_never_blamed_on_others((columns, errors) in damage(12, 1..=3)) {
        let check = Code::reed_solomon(7, 5).unwrap().check().clone();
        match verdict(&check, 32, &errors) {
            BlockVerdict::Columns(named) => prop_assert_eq!(named, columns),
            BlockVerdict::Ambiguous { .. } => prop_assert_eq!(columns.len(), 3),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn whatever_is_named_does_explain_the_block(
        rows in prop::collection::vec(prop::collection::vec(any::<u8>(), 3), 4)
    ) {
        let check = lrc("lrc:6,2,2").check().clone();
        if let BlockVerdict::Columns(columns) = diagnose_block(&check, &views(&rows)).verdict {
            prop_assert!(columns.len() <= 3 && error_values(&check, &columns, &views(&rows)).is_some());
        }
    }
}
