use super::*;
use proptest::prelude::*;

fn member(number: u8) -> Member {
    Member(format!("m{number}"))
}

/// An event of an array, for the oracle and the cells alike.
#[derive(Debug, Clone)]
enum Step {
    /// Stripes, in per mille of the array, read with members (bits).
    Read(u64, u64, u8),
    /// A member leaves and another one takes its place.
    Replace(u8),
    /// The state is stored and read again.
    Store,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let read =
        (0..1000_u64, 1..600_u64, 1..16_u8).prop_map(|(from, len, members)| Step::Read(from, len, members));
    let step = prop_oneof![8 => read, 1 => (0..4_u8).prop_map(Step::Replace), 1 => Just(Step::Store)];
    prop::collection::vec(step, 1..40)
}

proptest! {
    /// The oracle keeps the time of each stripe and member. A cell is never taken for younger than
    /// its oldest stripe, and a run over the whole cell counts at once.
    #[test]
    fn a_cell_is_as_old_as_its_oldest_stripe(stripes in 1..3000_u64, steps in steps()) {
        let mut cells = Cells::new(stripes);
        let mut members: Vec<Member> = (0..4).map(member).collect();
        cells.set_members(stripes, &members, Wall(1));
        let mut truth: BTreeMap<Member, Vec<i64>> =
            members.iter().map(|m| (m.clone(), vec![0; stripes as usize])).collect();
        let mut fresh = 4;
        for (at, step) in (10..).zip(steps) {
            match step {
                Step::Read(from, len, bits) => {
                    let range = Range { from: stripes * from / 1000, to: (stripes * (from + len) / 1000).min(stripes) };
                    let read: Vec<Member> =
                        (0..4).filter(|i| bits & (1 << i) != 0).map(|i| members[i].clone()).collect();
                    for member in &read {
                        let column = truth.get_mut(member).expect("a member");
                        column[range.from as usize..range.to as usize].fill(at);
                    }
                    cells.record(&Reading { begun: Wall(at), members: read, stripes: Ranges::one(range) });
                }
                Step::Replace(i) => {
                    truth.remove(&members[i as usize]);
                    members[i as usize] = member(fresh);
                    truth.insert(member(fresh), vec![0; stripes as usize]);
                    fresh += 1;
                    cells.set_members(stripes, &members, Wall(at));
                }
                Step::Store => {
                    let text = serde_json::to_string(&cells).expect("text");
                    let read: Cells = serde_json::from_str(&text).expect("cells");
                    prop_assert_eq!(&read, &cells);
                    cells = read;
                }
            }
            for cell in 0..cells.count() {
                let range = cells.range(cell);
                let oldest = |column: &Vec<i64>| column[range.from as usize..range.to as usize].iter().min().copied();
                let true_time = truth.values().filter_map(oldest).min().unwrap_or(0);
                // Fragments under the bound lose nothing: the time is exact.
                prop_assert_eq!(cells.time(cell), Some(Wall(true_time)), "cell {} at {}", cell, at);
            }
        }
    }

    #[test]
    fn wanted_is_what_is_old_and_the_oldest_comes_first(stripes in 1..3000_u64, steps in steps(), due in 0..60_i64) {
        let mut cells = Cells::new(stripes);
        let members: Vec<Member> = (0..4).map(member).collect();
        cells.set_members(stripes, &members, Wall(1));
        let mut truth = vec![[0_i64; 4]; stripes as usize];
        for (at, step) in (10..).zip(steps) {
            if let Step::Read(from, len, bits) = step {
                let range = Range { from: stripes * from / 1000, to: (stripes * (from + len) / 1000).min(stripes) };
                for stripe in &mut truth[range.from as usize..range.to as usize] {
                    (0..4).filter(|i| bits & (1 << i) != 0).for_each(|i| stripe[i] = at);
                }
                let read = (0..4).filter(|i| bits & (1 << i) != 0).map(|i| members[i].clone()).collect();
                cells.record(&Reading { begun: Wall(at), members: read, stripes: Ranges::one(range) });
            }
        }
        let wanted = cells.wanted(Wall(due), Wall(1_000_000));
        let mut seen = vec![false; stripes as usize];
        let mut last = i64::MIN;
        for range in &wanted {
            for stripe in range.from..range.to {
                prop_assert!(!std::mem::replace(&mut seen[stripe as usize], true), "twice");
            }
            let of = cells.time(cells.cell_of(range.from)).map_or(0, |time| time.0);
            prop_assert!(of >= last, "the oldest comes first");
            last = cells.time(cells.cell_of(range.to - 1)).map_or(0, |time| time.0);
        }
        for (stripe, times) in truth.iter().enumerate() {
            let cell_old = cells.time(cells.cell_of(stripe as u64)).is_none_or(|time| time.0 == 0 || time.0 < due);
            let old = times.iter().min().is_some_and(|time| *time == 0 || *time < due);
            // A stripe that is old is wanted. One that is wanted lies in a cell that is old.
            prop_assert!(!old || seen[stripe], "stripe {} is left out", stripe);
            prop_assert!(cell_old || !seen[stripe], "stripe {} is read again", stripe);
        }
    }

    #[test]
    fn merging_takes_the_later_times_in_any_order(a in steps(), b in steps()) {
        let build = |steps: &[Step], shift: i64| {
            let mut cells = Cells::new(2500);
            let members: Vec<Member> = (0..4).map(member).collect();
            cells.set_members(2500, &members, Wall(1));
            for (at, step) in (10 + shift..).step_by(2).zip(steps) {
                if let Step::Read(from, len, bits) = step {
                    let range = Range { from: 2500 * from / 1000, to: (2500 * (from + len) / 1000).min(2500) };
                    let read = (0..4).filter(|i| bits & (1 << i) != 0).map(|i| members[i as usize].clone()).collect();
                    cells.record(&Reading { begun: Wall(at), members: read, stripes: Ranges::one(range) });
                }
            }
            cells
        };
        let (a, b) = (build(&a, 0), build(&b, 1));
        let merged = |mut one: Cells, other: &Cells| { one.merge(other); one };
        let (ab, ba) = (merged(a.clone(), &b), merged(b.clone(), &a));
        prop_assert_eq!(&ab.columns, &ba.columns);
        prop_assert_eq!(&merged(ab.clone(), &b), &ab);
    }
}

#[test]
fn cells_cover_each_stripe_once() {
    for stripes in [0, 1, 2, 37, 999, 1000, 1001, 2500, 123_457, u64::MAX] {
        let cells = Cells::new(stripes);
        let mut next = 0;
        for cell in 0..cells.count() {
            let range = cells.range(cell);
            assert_eq!(range.from, next);
            assert!(!range.is_empty());
            assert_eq!((cells.cell_of(range.from), cells.cell_of(range.to - 1)), (cell, cell), "{stripes}");
            next = range.to;
        }
        assert_eq!(next, stripes);
    }
}

#[test]
fn a_stored_state_that_cannot_be_is_refused() {
    for text in [
        r#"{"stripes":2000,"members":{"a":{"joined":1,"times":[[999,0]]}},"fragments":[]}"#,
        r#"{"stripes":2000,"members":{"a":{"joined":1,"times":[[4294967295,0],[4294967295,5]]}},"fragments":[]}"#,
        r#"{"stripes":9,"members":{},"fragments":[{"stripes":{"from":3,"to":10},"at":5,"members":[]}]}"#,
        r#"{"stripes":9,"members":{},"fragments":[{"stripes":{"from":3,"to":3},"at":5,"members":[]}]}"#,
        r#"{"stripes":9,"members":{},"fragments":[],"more":1}"#,
    ] {
        assert!(serde_json::from_str::<Cells>(text).is_err(), "{text}");
    }
}
