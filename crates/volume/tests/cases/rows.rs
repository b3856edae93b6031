//! Every plan of small rows: all layouts, all sets of absent and bad blocks, all sets of touched
//! ones.

use pumice_base::units::{Role, StripeIndex};
use pumice_parity::gf;
use pumice_raid::geometry::Geometry;
use pumice_raid::layout::{Layout, Level};
use pumice_volume::plan::{Method, RowMap, RowPlan, RowState, Term, Tie};
use std::collections::{BTreeMap, BTreeSet};

/// The value that a plan makes of one byte of each member. `old`: only what may be read.
fn carry_out(plan: &RowPlan, old: &BTreeMap<Role, u8>, new: impl Fn(Role, u8) -> u8) -> BTreeMap<Role, u8> {
    let mut made = BTreeMap::new();
    for output in &plan.outputs {
        let sum = output.terms.iter().fold(0, |sum, (term, c)| {
            let source = match term {
                Term::Old(role) => old[role],
                Term::New(role) => made[role],
            };
            sum ^ gf::mul(*c, source)
        });
        made.insert(output.role, if output.overlay { new(output.role, sum) } else { sum });
    }
    made
}

/// All blocks of a row from its data.
fn encode(geometry: &Geometry, stripe: StripeIndex, data: &BTreeMap<Role, u8>) -> BTreeMap<Role, u8> {
    let map = geometry.stripe(stripe);
    let mut row = data.clone();
    row.insert(map.p, data.values().fold(0, |sum, byte| sum ^ byte));
    if let Some(q) = map.q {
        let terms = map.data.iter().zip(&map.exponents);
        row.insert(q, terms.fold(0, |sum, (role, e)| sum ^ gf::mul(gf::exp(usize::from(*e)), data[role])));
    }
    row
}

fn subset(roles: &[Role], bits: u32) -> BTreeSet<Role> {
    roles.iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0).map(|(_, role)| *role).collect()
}

#[test]
fn every_plan_keeps_the_equations_and_touches_nothing_else() {
    let mut methods: BTreeMap<Method, u64> = BTreeMap::new();
    let mut lost = 0_u64;
    let mut spaces = vec![(Level::Raid4, None, 4_u16)];
    for level in [Level::Raid5, Level::Raid6] {
        spaces.extend(Layout::ALL.into_iter().filter(|l| l.is_of(level)).map(|l| (level, Some(l), 5)));
    }
    for (level, layout, disks) in spaces {
        let geometry = Geometry::new(level, layout, disks, 4096, 1 << 20).unwrap();
        for stripe in (0..u64::from(disks)).map(StripeIndex) {
            let map = RowMap::new(&geometry, stripe);
            let all: Vec<Role> = (0..disks).map(Role).collect();
            let data = map.data().iter().zip(1..).map(|(role, i)| (*role, 0x35_u8.wrapping_mul(i))).collect();
            let row = encode(&geometry, stripe, &data);
            // Each member: there, absent or bad.
            for states in 0..3_u32.pow(u32::from(disks)) {
                let digit = |role: &Role| states / 3_u32.pow(u32::from(role.get())) % 3;
                let of = |wanted| all.iter().copied().filter(|role| digit(role) == wanted).collect();
                let state = RowState { absent: of(1), bad: of(2) };
                let unknown = state.absent.len() + state.bad.len();
                let survives = usize::from(level.parities());
                if unknown > survives + 1 {
                    continue;
                }
                let old: BTreeMap<Role, u8> = row
                    .iter()
                    .filter(|(role, _)| digit(role) == 0)
                    .map(|(role, byte)| (*role, *byte))
                    .collect();
                for touched in 1..1_u32 << map.data().len() {
                    let touched = subset(map.data(), touched);
                    let whole = states % 2 == 0;
                    let new = |role: Role, sum: u8| {
                        let byte = 0xC0 | role.get() as u8;
                        if whole { byte } else { sum & 0xF0 | byte & 0x0F }
                    };
                    let list: Vec<(Role, bool)> = touched.iter().map(|role| (*role, whole)).collect();
                    let tie = if states % 4 < 2 { Tie::Reconstruct } else { Tie::ReadModifyWrite };
                    let Ok(plan) = map.write(&state, &list, tie) else {
                        lost += 1;
                        assert!(unknown > survives, "{level} {state:?} {list:?}");
                        continue;
                    };
                    *methods.entry(plan.method).or_default() += 1;
                    assert!(plan.reads.iter().all(|role| old.contains_key(role)));
                    let made = carry_out(&plan, &old, new);
                    let mut wanted = data.clone();
                    for role in &touched {
                        wanted.insert(*role, new(*role, data[role]));
                    }
                    let wanted = encode(&geometry, stripe, &wanted);
                    let mut after = old.clone();
                    for output in plan.outputs.iter().filter(|output| output.stored) {
                        assert!(!state.absent.contains(&output.role));
                        after.insert(output.role, made[&output.role]);
                    }
                    for (role, byte) in &after {
                        assert_eq!(
                            *byte, wanted[role],
                            "{level} {layout:?} {stripe} {state:?} {list:?} {role}"
                        );
                    }
                    // What was written can be read again.
                    let mut then = state.clone();
                    then.bad.retain(|role| !after.contains_key(role));
                    let roles: Vec<Role> = touched.iter().copied().collect();
                    let read = map.read(&then, &roles).unwrap();
                    let found = carry_out(&read, &after, |_, sum| sum);
                    assert!(roles.iter().all(|role| found[role] == wanted[role]));
                }
                for bits in 1..1_u32 << disks {
                    let targets = subset(&all, bits);
                    let Ok(plan) = map.restore(&state, &targets) else { continue };
                    let made = carry_out(&plan, &old, |_, sum| sum);
                    assert!(targets.iter().all(|role| made[role] == row[role]));
                    assert!(plan.reads.iter().all(|role| !targets.contains(role)));
                }
            }
        }
    }
    assert!(methods.values().all(|count| *count > 1000) && methods.len() == 4, "{methods:?}");
    assert!(lost > 1000, "{lost}");
}

#[test]
fn the_method_that_moves_less_is_taken() {
    let geometry = Geometry::new(Level::Raid6, Some(Layout::LeftSymmetric), 10, 4096, 1 << 20).unwrap();
    let map = RowMap::new(&geometry, StripeIndex(0));
    let method = |count: usize| {
        let touched: Vec<_> = map.data()[..count].iter().map(|role| (*role, true)).collect();
        let plan = map.write(&RowState::default(), &touched, Tie::Reconstruct).unwrap();
        (plan.method, plan.moved() / 4096)
    };
    // 8 data members: t touched cost t + 2 reads, or 8 - t.
    assert_eq!(method(1), (Method::ReadModifyWrite, 3 + 3));
    assert_eq!(method(2), (Method::ReadModifyWrite, 4 + 4));
    assert_eq!(method(3), (Method::Reconstruct, 5 + 5));
    assert_eq!(method(7), (Method::Reconstruct, 1 + 9));
    assert_eq!(method(8), (Method::Full, 10));
    // 4 data members: one touched costs three reads either way.
    let geometry = Geometry::new(Level::Raid6, Some(Layout::LeftSymmetric), 6, 4096, 1 << 20).unwrap();
    let map = RowMap::new(&geometry, StripeIndex(0));
    let method = |tie| map.write(&RowState::default(), &[(map.data()[0], true)], tie).unwrap().method;
    assert_eq!(method(Tie::Reconstruct), Method::Reconstruct);
    assert_eq!(method(Tie::ReadModifyWrite), Method::ReadModifyWrite);
}
