//! Layouts of codes that correct some sets of losses of a size and not others.

use crate::harness::{Setup, World};
use pumice_base::units::{Role, StripeIndex};
use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::code::{Code, CodeSpec};
use pumice_parity::gf;
use pumice_raid::layout::{Layout, Level};
use pumice_volume::plan::{Method, RowMap, RowPlan, RowState, Term, Tie};
use pumice_volume::rows::{BLOCK, RoleSet, RowLayout};
use pumice_volume::token::holds;
use pumice_volume::{Event, Refusal};
use std::collections::{BTreeMap, BTreeSet};

/// A code whose columns are the members, or turn over all members by one place a stripe.
struct CodeLayout {
    code: Code,
    turns: bool,
}

impl CodeLayout {
    fn new(name: &str, turns: bool) -> Self {
        Self { code: name.parse::<CodeSpec>().unwrap().code(), turns }
    }

    /// The code's column of each member.
    fn columns(&self, stripe: StripeIndex) -> Vec<usize> {
        let members = usize::from(self.members());
        let by = if self.turns { stripe.get() as usize % members } else { 0 };
        (0..members).map(|member| (member + by) % members).collect()
    }
}

impl RowLayout for CodeLayout {
    fn members(&self) -> u16 {
        self.code.check().columns() as u16
    }

    fn data_members(&self) -> u16 {
        self.code.data() as u16
    }

    fn chunk_bytes(&self) -> u64 {
        BLOCK
    }

    fn stripes(&self) -> u64 {
        100
    }

    fn period(&self) -> u64 {
        if self.turns { u64::from(self.members()) } else { 1 }
    }

    fn data_roles(&self, stripe: StripeIndex) -> Vec<Role> {
        let columns = self.columns(stripe);
        let role = |data| columns.iter().position(|column| *column == data).unwrap() as u16;
        (0..self.code.data()).map(|data| Role(role(data))).collect()
    }

    fn equations(&self, stripe: StripeIndex) -> CheckMatrix {
        let (columns, rows) = (self.columns(stripe), self.code.parities());
        let all = (0..rows).flat_map(|row| columns.iter().map(move |c| self.code.check().get(row, *c)));
        CheckMatrix::new(rows, columns.len(), &all.collect::<Vec<_>>()).unwrap()
    }
}

fn set(members: u16, bits: u32) -> RoleSet {
    (0..members).filter(|role| bits >> role & 1 == 1).map(Role).collect()
}

/// The counts of `docs/design/codes.md`: a set counts if every stripe of the rotation corrects it.
#[test]
fn losses_are_corrected_in_every_stripe_or_not_at_all() {
    for (name, turns, expected) in [
        ("lrc:12,2,2", false, 1680),
        ("lrc:12,2,2,data", false, 1568),
        ("lrc:12,2,2,data", true, 516),
        ("rs:12,4", true, 1820),
    ] {
        let layout = CodeLayout::new(name, turns);
        let of_four = (0..1_u32 << 16).filter(|bits| bits.count_ones() == 4);
        let corrected = of_four.filter(|bits| layout.corrects(&set(16, *bits))).count();
        assert_eq!(corrected, expected, "{name} {turns}");
    }
}

/// No writer can go on while another holds the array without recording more failures than the code
/// corrects, and no two hold it. Every set of members.
#[test]
fn one_holder_leaves_the_others_too_few() {
    let names = ["rs:1,1", "rs:4,1", "rs:2,2", "rs:5,2", "rs:3,3", "rs:6,4", "lrc:6,2,2", "lrc:9,3,3"];
    for name in names {
        let layout = CodeLayout::new(name, false);
        let (members, mut holders) = (layout.members(), 0);
        for bits in 0..1_u32 << members {
            let (held, rest) = (set(members, bits), set(members, !bits));
            if holds(&layout, &held) {
                holders += 1;
                assert!(!holds(&layout, &rest), "{name} {held:?}");
                assert!(!layout.corrects(&held), "{name}: the others miss {held:?}");
            }
        }
        assert!(holders > 0, "{name}");
    }
}

#[test]
fn a_holder_needs_members_that_determine_the_others() {
    let layout = CodeLayout::new("lrc:6,2,2", false);
    let without = |lost: [u16; 4]| (0..10).map(Role).filter(|role| !lost.contains(&role.0)).collect();
    // Two data of each group; three of one with its local parity.
    assert!(holds(&layout, &without([0, 1, 3, 4])));
    assert!(!holds(&layout, &without([0, 1, 2, 6])));
    // RAID-6 of four survives two members, but two of four are no majority.
    let raid6 = CodeLayout::new("rs:2,2", false);
    assert!(raid6.corrects(&[Role(0), Role(1)].into()));
    assert!(!holds(&raid6, &[Role(2), Role(3)].into()));
    assert!(!holds(&raid6, &[Role(2), Role(3), Role(9)].into()), "9 is no member");
}

/// Every set of drives that are gone when a volume begins.
#[test]
fn a_volume_begins_if_the_code_corrects_the_missing_members() {
    for (level, disks) in [(Level::Raid5, 3), (Level::Raid6, 5)] {
        for bits in 0..(1_u32 << disks) - 1 {
            let layout = Some(Layout::LeftSymmetric);
            let setup = Setup { level, layout, disks, chunk: 16384, stripes: 12, log: true, near: false };
            let mut world = World::new(1, &setup);
            world.start().unwrap();
            world.event(Event::Stop);
            world.settle();
            world.crash();
            let gone = set(disks, bits);
            gone.iter().for_each(|role| world.disks[role.index()].up = false);
            let expected = if gone.len() <= usize::from(level.parities()) {
                Ok(())
            } else {
                Err(Refusal::TooFew { missing: gone.len() as u16, survives: level.parities() })
            };
            assert_eq!(world.start(), expected, "{level} {gone:?}");
        }
    }
}

/// All blocks of a row from its data, one byte each.
fn encode(layout: &CodeLayout, data: &[u8]) -> BTreeMap<Role, u8> {
    let sum = |row: &Vec<u8>| row.iter().zip(data).fold(0, |sum, (c, byte)| sum ^ gf::mul(*c, *byte));
    let parities = layout.code.encode_rows().iter().map(sum);
    (0..).map(Role).zip(data.iter().copied().chain(parities)).collect()
}

fn carry_out(plan: &RowPlan, old: &BTreeMap<Role, u8>, new: &BTreeMap<Role, u8>) -> BTreeMap<Role, u8> {
    let mut made: BTreeMap<Role, u8> = BTreeMap::new();
    for output in &plan.outputs {
        let sum = output.terms.iter().fold(0, |sum, (term, c)| {
            let source = match term {
                Term::Old(role) => old[role],
                Term::New(role) => made[role],
            };
            sum ^ gf::mul(*c, source)
        });
        made.insert(output.role, if output.overlay { new[&output.role] } else { sum });
    }
    made
}

#[test]
fn a_small_write_touches_only_parities_with_a_part_in_it() {
    let stored = |name: &str, touched: &[u16]| {
        let layout = CodeLayout::new(name, false);
        let map = RowMap::new(&layout, StripeIndex(0));
        let list: Vec<(Role, bool)> = touched.iter().map(|role| (Role(*role), true)).collect();
        let plan = map.write(&RowState::default(), &list, Tie::Reconstruct).unwrap();
        let stored: Vec<u16> = plan.outputs.iter().filter(|o| o.stored).map(|o| o.role.0).collect();
        (plan.method, plan.reads.len(), stored)
    };
    let rmw = Method::ReadModifyWrite;
    // x 0 to 5, y 6 to 11, Px 12, Py 13, P0 14, P1 15.
    assert_eq!(stored("lrc:12,2,2,data", &[0]), (rmw, 4, vec![0, 12, 14, 15]));
    assert_eq!(stored("lrc:12,2,2,data", &[11]), (rmw, 4, vec![11, 13, 14, 15]));
    assert_eq!(stored("lrc:12,2,2,data", &[0, 11]), (rmw, 6, vec![0, 11, 12, 13, 14, 15]));
    assert_eq!(stored("lrc:12,2,2", &[0]), (rmw, 5, vec![0, 12, 13, 14, 15]));
    assert_eq!(stored("rs:12,4", &[0]), (rmw, 5, vec![0, 12, 13, 14, 15]));
    // Anew as well: all of x is written.
    let (method, reads, stored) = stored("lrc:12,2,2,data", &[0, 1, 2, 3, 4, 5]);
    assert_eq!((method, reads, stored), (Method::Reconstruct, 6, vec![0, 1, 2, 3, 4, 5, 12, 14, 15]));
}

/// Every state of at most four unknown members of lrc:6,2,2, and writes of one and of two members:
/// what is stored fits, what is not stored fits still, and what was written can be read.
#[test]
fn plans_of_a_local_code_keep_the_equations() {
    for name in ["lrc:6,2,2", "rs:6,4"] {
        let layout = CodeLayout::new(name, false);
        let map = RowMap::new(&layout, StripeIndex(0));
        let data: Vec<u8> = (1..=6).map(|i| 0x35_u8.wrapping_mul(i)).collect();
        let row = encode(&layout, &data);
        let (mut written, mut lost) = (0_u64, 0_u64);
        let unknown = (0..1_u32 << 10).filter(|bits| bits.count_ones() <= 4);
        for bits in unknown {
            let gone: Vec<Role> = set(10, bits).into_iter().collect();
            for split in 0..=gone.len() {
                let (absent, bad) = gone.split_at(split);
                let of = |roles: &[Role]| roles.iter().copied().collect::<BTreeSet<Role>>();
                let state = RowState { absent: of(absent), bad: of(bad) };
                let old: BTreeMap<Role, u8> =
                    row.iter().filter(|(role, _)| !gone.contains(role)).map(|(r, b)| (*r, *b)).collect();
                for (a, b) in [(0, 0), (0, 1), (2, 5), (4, 4), (1, 3)] {
                    let touched = BTreeSet::from([Role(a), Role(b)]);
                    let mut wanted = data.clone();
                    touched.iter().for_each(|role| wanted[role.index()] ^= 0xC0 | role.0 as u8);
                    let wanted = encode(&layout, &wanted);
                    let list: Vec<(Role, bool)> = touched.iter().map(|role| (*role, true)).collect();
                    let Ok(plan) = map.write(&state, &list, Tie::ReadModifyWrite) else {
                        lost += 1;
                        assert!(!layout.corrects(&of(&gone)), "{name} {state:?} {touched:?}");
                        continue;
                    };
                    written += 1;
                    let made = carry_out(&plan, &old, &wanted);
                    let mut after = old.clone();
                    for output in plan.outputs.iter().filter(|output| output.stored) {
                        assert!(!state.absent.contains(&output.role));
                        after.insert(output.role, made[&output.role]);
                    }
                    for (role, byte) in &after {
                        assert_eq!(*byte, wanted[role], "{name} {state:?} {touched:?} {role}");
                    }
                    let mut then = state.clone();
                    then.bad.retain(|role| !after.contains_key(role));
                    let roles: Vec<Role> = touched.iter().copied().collect();
                    let read = map.read(&then, &roles).unwrap();
                    let found = carry_out(&read, &after, &wanted);
                    assert!(roles.iter().all(|role| found[role] == wanted[role]));
                }
            }
        }
        assert!(written > 1000 && (name == "rs:6,4" || lost > 100), "{name} {written} {lost}");
    }
}
