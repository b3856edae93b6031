//! Writes whose parity the nodes of the drives make, and when that moves fewer bytes.
//!
//! `docs/design/near-path.md`, *Where parity is made*, has the steps and the arithmetic.

use crate::choice::Choice;
use crate::log::{Kind, Record};
use crate::plan::{RowPlan, Term};
use crate::rows::{BLOCK, Rows, Touch};
use pumice_base::units::Role;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes over the host's link that a command counts for.
const COMMAND: u64 = 256;
/// Blocks that one node sums in one step, at most.
pub(crate) const MAX_TERMS: usize = 64;
/// Sums that one node sends in one step, at most: their check sums are told with its end.
const MAX_SENT: usize = 2;

/// A node of members.
pub type NodeNumber = u16;

/// The node that each member is on, if its writes can be near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearNodes {
    /// By role.
    pub nodes: Vec<Option<NodeNumber>>,
    /// Places in the local memory of each drive.
    pub places: u32,
    /// Places for stretches, beside them.
    pub stretches: u32,
    /// Windows of a stretch, at most.
    pub stretch_windows: u64,
}

/// A summand of an interim or of a new parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NearTerm {
    /// The blocks as they are on a member of the node.
    Old {
        /// The member.
        role: Role,
        /// First byte, from the start of the device.
        at: u64,
    },
    /// The new blocks of a member of the node, in its place.
    New(Role),
    /// The interim that a node has sent for this target, in the target's place.
    Interim(NodeNumber),
}

/// A sum that a node makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearSum {
    /// The parity that it is, or is a part of. It is a part if the step is of another member.
    pub target: Role,
    /// Coefficient times term.
    pub terms: Vec<(NearTerm, u8)>,
}

/// A record of the stripe log, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedRecord {
    /// First byte, from the start of the device.
    pub at: u64,
    /// The same from the start of the records.
    pub position: u64,
    /// The generation's nonce.
    pub nonce: u64,
    /// The contents of it.
    pub record: Record,
}

/// The step of a node for one of its members, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearStep {
    /// The number of the place of the drives that is used.
    pub place: u32,
    /// The node.
    pub node: NodeNumber,
    /// The rows, one run of them.
    pub rows: Rows,
    /// The request's bytes that go to the member's place.
    pub fill: Option<Touch>,
    /// Sums: to the target's place.
    pub sums: Vec<NearSum>,
    /// The record that is then written on the member.
    pub record: Option<PlacedRecord>,
}

/// The step of a node for a stretch of a member that is restored: a sum over blocks of its members,
/// and interims of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StretchStep {
    /// The number of the place for stretches that is used.
    pub place: u32,
    /// The node.
    pub node: NodeNumber,
    /// The member that is restored. If the step is of another one, the sum is an interim for it.
    pub target: Role,
    /// Bytes of each term.
    pub bytes: u64,
    /// Bytes from one set of coefficients to the next.
    pub segment: u64,
    /// Blocks as they are, and interims.
    pub terms: Vec<NearTerm>,
    /// The terms' coefficients by class: segment `i` has those of class `i` modulo their number.
    pub factors: Vec<Vec<u8>>,
}

/// The nodes, and the places of their drives that no operation has.
#[derive(Debug)]
pub(crate) struct Near {
    pub(crate) nodes: Vec<Option<NodeNumber>>,
    pub(crate) places: u32,
    pub(crate) free: Vec<u32>,
    pub(crate) free_stretches: Vec<u32>,
    pub(crate) stretch_windows: u64,
    pub(crate) choice: Choice,
}

/// The state of an operation on the near way beside that of others.
#[derive(Debug)]
pub(crate) struct NearOp {
    pub(crate) plan: NearPlan,
    pub(crate) place: Option<u32>,
    pub(crate) records: BTreeMap<Role, PlacedRecord>,
    /// All new blocks are in their places.
    pub(crate) made: bool,
}

/// The way in which nodes make the new blocks of a run of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearPlan {
    /// The rows.
    pub rows: Rows,
    /// The new bytes of each data member.
    pub fills: Vec<Touch>,
    /// Interims by node.
    pub sends: BTreeMap<NodeNumber, Vec<NearSum>>,
    /// New parities, with the interims that belong to them.
    pub makes: Vec<NearSum>,
    /// Blocks that the host gets.
    pub fetched: Option<Fetched>,
}

/// Blocks of one member that are brought to the host from the place of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetched {
    /// The member whose blocks they are.
    pub of: Role,
    /// The member in whose place they are made.
    pub at: Role,
}

/// The nodes of members, and the places of their rows.
struct Places<'p> {
    nodes: &'p [Option<NodeNumber>],
    first: u32,
    at: &'p dyn Fn(Role, u32) -> u64,
}

impl Places<'_> {
    fn node(&self, role: Role) -> Option<NodeNumber> {
        self.nodes.get(role.index()).copied().flatten()
    }

    fn by_node(&self, terms: &[(Term, u8)]) -> Option<BTreeMap<NodeNumber, Vec<(NearTerm, u8)>>> {
        let mut by_node: BTreeMap<NodeNumber, Vec<(NearTerm, u8)>> = BTreeMap::new();
        for (term, factor) in terms {
            let (role, term) = match term {
                Term::Old(role) => (*role, NearTerm::Old { role: *role, at: (self.at)(*role, self.first) }),
                Term::New(role) => (*role, NearTerm::New(*role)),
            };
            by_node.entry(self.node(role)?).or_default().push((term, *factor));
        }
        Some(by_node)
    }
}

/// The rows of plans that are all alike and follow each other.
fn run_of(plans: &[(u32, Arc<RowPlan>)]) -> Option<(Rows, &RowPlan)> {
    let (first, plan) = plans.first()?;
    let alike = |(i, (row, other)): (u32, &(u32, Arc<RowPlan>))| *row == first + i && other == plan;
    let rows = *first..first + plans.len() as u32;
    (0..).zip(plans).all(alike).then(|| (rows.fold(Rows::default(), Rows::with), &**plan))
}

/// The sum that is made at one member of the interims of other nodes and the terms of its own.
fn gather(
    target: Role,
    home: NodeNumber,
    mut by_node: BTreeMap<NodeNumber, Vec<(NearTerm, u8)>>,
    sends: &mut BTreeMap<NodeNumber, Vec<NearSum>>,
) -> NearSum {
    let mut own = by_node.remove(&home).unwrap_or_default();
    for (node, terms) in by_node {
        own.push((NearTerm::Interim(node), 1));
        sends.entry(node).or_default().push(NearSum { target, terms });
    }
    NearSum { target, terms: own }
}

impl NearPlan {
    /// The near way for an operation; `None` if there is none. `at` says where the first of the
    /// rows lies on a member's device.
    #[must_use]
    pub fn new(
        plans: &[(u32, Arc<RowPlan>)],
        touches: &[Touch],
        nodes: &[Option<NodeNumber>],
        at: impl Fn(Role, u32) -> u64,
    ) -> Option<Self> {
        let (rows, plan) = run_of(plans)?;
        let (first, end) = (plans.first()?.0, plans.last()?.0 + 1);
        if plan.outputs.iter().any(|output| !output.stored) {
            return None;
        }
        let places = Places { nodes, first, at: &at };
        let (mut fills, mut makes, mut sends) = (Vec::new(), Vec::new(), BTreeMap::new());
        for output in &plan.outputs {
            let target = output.role;
            let home = places.node(target)?;
            if output.overlay {
                let touch = touches.iter().find(|touch| touch.role == target)?;
                let whole = (touch.start, touch.end) == (u64::from(first) * BLOCK, u64::from(end) * BLOCK);
                if !output.terms.is_empty() || !whole {
                    return None;
                }
                fills.push(*touch);
                continue;
            }
            makes.push(gather(target, home, places.by_node(&output.terms)?, &mut sends));
        }
        Self { rows, fills, sends, makes, fetched: None }.if_it_fits()
    }

    /// The near way for a read of blocks of one member that have to be recovered: they are made at
    /// a member of the node that has most of their terms. `None` if there is none.
    #[must_use]
    pub fn read(
        plans: &[(u32, Arc<RowPlan>)],
        nodes: &[Option<NodeNumber>],
        at: impl Fn(Role, u32) -> u64,
    ) -> Option<Self> {
        let (rows, plan) = run_of(plans)?;
        let [output] = &plan.outputs[..] else { return None };
        let places = Places { nodes, first: plans.first()?.0, at: &at };
        let by_node = places.by_node(&output.terms)?;
        let (home, terms) = by_node.iter().max_by_key(|(_, terms)| terms.len())?;
        let (NearTerm::Old { role: carrier, .. }, _) = *terms.first()? else { return None };
        let mut sends = BTreeMap::new();
        let make = gather(carrier, *home, by_node.clone(), &mut sends);
        let fetched = Some(Fetched { of: output.role, at: carrier });
        Self { rows, fills: Vec::new(), sends, makes: vec![make], fetched }.if_it_fits()
    }

    /// The plan, if the nodes can hold it.
    fn if_it_fits(self) -> Option<Self> {
        let fits = |sums: &Vec<NearSum>| {
            let terms = sums.iter().flat_map(|sum| sum.terms.iter().map(|(term, _)| *term));
            sums.len() <= MAX_SENT && terms.collect::<BTreeSet<_>>().len() <= MAX_TERMS
        };
        let makes_fit = self.makes.iter().all(|make| (1..=MAX_TERMS).contains(&make.terms.len()));
        (makes_fit && self.sends.values().all(fits)).then_some(self)
    }

    /// Touched members of a node.
    #[must_use]
    pub fn touched(&self, node: NodeNumber, nodes: &[Option<NodeNumber>]) -> usize {
        self.fills.iter().filter(|touch| nodes[touch.role.index()] == Some(node)).count()
    }

    /// Bytes over the host's link, about.
    #[must_use]
    pub fn moved(&self, nodes: &[Option<NodeNumber>]) -> u64 {
        let apart = self.sends.keys().filter(|node| self.touched(**node, nodes) != 1).count();
        let commands = 2 * (self.fills.len() + self.makes.len()) + apart;
        self.bytes() * (self.fills.len() + usize::from(self.fetched.is_some())) as u64
            + COMMAND * commands as u64
    }

    /// Bytes of a member's rows.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.rows.count() as u64 * BLOCK
    }
}

/// Bytes over the host's link if the host makes the parity: what is read, stored and logged.
#[must_use]
pub fn far_moved(plans: &[(u32, Arc<RowPlan>)], log: Option<Kind>) -> u64 {
    let blocks: u64 = plans.iter().map(|(_, plan)| plan.moved()).sum();
    let stored = |plan: &RowPlan| plan.outputs.iter().filter(|output| output.stored).count() as u64;
    let logged = match log {
        Some(Kind::Blocks) => plans.iter().map(|(_, plan)| stored(plan) * BLOCK).sum(),
        _ => 0,
    };
    let roles: BTreeSet<Role> = plans
        .iter()
        .flat_map(|(_, plan)| plan.outputs.iter().filter(|output| output.stored).map(|output| output.role))
        .collect();
    let headers = if log.is_some() { roles.len() as u64 * BLOCK } else { 0 };
    blocks + logged + headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Method, RowMap, RowState, Tie};
    use pumice_base::units::StripeIndex;
    use pumice_raid::geometry::Geometry;
    use pumice_raid::layout::{Layout, Level};

    struct Case {
        map: RowMap,
        nodes: Vec<Option<NodeNumber>>,
    }

    /// An array over three nodes, members dealt out in blocks of neighbours.
    fn case(level: Level, disks: u16) -> Case {
        let layout = Some(Layout::LeftSymmetric);
        let geometry = Geometry::new(level, layout, disks, 64 << 10, 64 << 10).unwrap();
        let map = RowMap::new(&geometry, StripeIndex(0));
        let per_node = disks.div_ceil(3);
        Case { map, nodes: (0..disks).map(|role| Some(role / per_node)).collect() }
    }

    impl Case {
        /// A write of whole rows of some data members.
        fn plans(&self, touched: usize, rows: u32) -> (Vec<(u32, Arc<RowPlan>)>, Vec<Touch>) {
            let roles = &self.map.data()[..touched];
            let whole: Vec<(Role, bool)> = roles.iter().map(|role| (*role, true)).collect();
            let plan = self.map.write(&RowState::default(), &whole, Tie::Reconstruct).unwrap();
            let end = u64::from(rows) * BLOCK;
            let touch = |(i, role): (u64, &Role)| Touch { role: *role, start: 0, end, from: i * end };
            (
                (0..rows).map(|row| (row, Arc::new(plan.clone()))).collect(),
                (0..).zip(roles).map(touch).collect(),
            )
        }

        fn near(&self, plans: &[(u32, Arc<RowPlan>)], touches: &[Touch]) -> Option<NearPlan> {
            NearPlan::new(plans, touches, &self.nodes, |role, row| {
                (u64::from(role.get()) << 20) + u64::from(row) * BLOCK
            })
        }
    }

    /// Each coefficient of the plan is used once, at the node of its block, and the interims of
    /// other nodes arrive where they are expected.
    #[test]
    fn every_term_is_multiplied_where_its_block_is() {
        for (level, disks) in [(Level::Raid5, 5), (Level::Raid6, 6), (Level::Raid6, 24)] {
            let case = case(level, disks);
            for touched in 1..=case.map.data().len() {
                let (plans, touches) = case.plans(touched, 3);
                let near = case.near(&plans, &touches).unwrap();
                assert_eq!((near.rows, near.fills.len()), (Rows(7), touched));
                for output in plans[0].1.outputs.iter().filter(|output| !output.overlay) {
                    let home = case.nodes[output.role.index()].unwrap();
                    let make = near.makes.iter().find(|make| make.target == output.role).unwrap();
                    let mut seen = Vec::new();
                    let mut note = |node: NodeNumber, terms: &[(NearTerm, u8)]| {
                        for (term, factor) in terms {
                            let term = match term {
                                NearTerm::Old { role, at } => {
                                    assert_eq!(*at, u64::from(role.get()) << 20);
                                    Term::Old(*role)
                                }
                                NearTerm::New(role) => Term::New(*role),
                                NearTerm::Interim(_) => continue,
                            };
                            let (Term::Old(role) | Term::New(role)) = term;
                            assert_eq!(case.nodes[role.index()], Some(node));
                            seen.push((term, *factor));
                        }
                    };
                    note(home, &make.terms);
                    let interims = make.terms.iter().filter_map(|(term, factor)| match term {
                        NearTerm::Interim(node) => Some((*node, *factor)),
                        _ => None,
                    });
                    for (node, factor) in interims {
                        assert!(node != home && factor == 1);
                        let mut sent = near.sends[&node].iter().filter(|sum| sum.target == output.role);
                        note(node, &sent.next().unwrap().terms);
                        assert_eq!(sent.next(), None);
                    }
                    let mut terms = output.terms.clone();
                    terms.sort_unstable();
                    seen.sort_unstable();
                    assert_eq!(seen, terms, "{level} {touched}");
                }
            }
        }
    }

    #[test]
    fn what_the_host_has_to_lay_over_old_blocks_or_nobody_stores_is_far() {
        let case = case(Level::Raid6, 6);
        let (plans, touches) = case.plans(2, 2);
        assert!(case.near(&plans, &touches).is_some());
        // Two plans in one operation.
        let mut other = plans.clone();
        other[1].1 = case.plans(1, 1).0[0].1.clone();
        assert_eq!(case.near(&other, &touches), None);
        // A gap between rows.
        let mut gap = plans.clone();
        gap[1].0 = 2;
        assert_eq!(case.near(&gap, &touches), None);
        // Part of a block.
        let part =
            case.map.write(&RowState::default(), &[(case.map.data()[0], false)], Tie::Reconstruct).unwrap();
        let touch = Touch { role: case.map.data()[0], start: 512, end: 4096, from: 0 };
        assert_eq!(case.near(&[(0, part.into())], &[touch]), None);
        // A touched member that is not there.
        let role = case.map.data()[0];
        let state = RowState { absent: BTreeSet::from([role]), ..RowState::default() };
        let plan = case.map.write(&state, &[(role, true)], Tie::Reconstruct).unwrap();
        assert_eq!(case.near(&[(0, plan.into())], &touches[..1]), None);
        // A member whose node has no updates.
        let mut without = Case { map: case.map.clone(), nodes: case.nodes.clone() };
        without.nodes[case.map.parity()[0].index()] = None;
        assert_eq!(without.near(&plans, &touches), None);
    }

    /// The block is made on the node that has most of its terms, and the others send one interim.
    #[test]
    fn a_recovered_block_is_made_at_the_node_with_most_of_its_terms() {
        for (level, disks, apart) in [(Level::Raid5, 5, 2), (Level::Raid6, 24, 2), (Level::Raid5, 3, 1)] {
            let case = case(level, disks);
            let lost = case.map.data()[0];
            let state = RowState { absent: BTreeSet::from([lost]), ..RowState::default() };
            let plan = case.map.read(&state, &[lost]).unwrap();
            let plans: Vec<(u32, Arc<RowPlan>)> = (3..5).map(|row| (row, Arc::new(plan.clone()))).collect();
            let read =
                |plans: &[(u32, Arc<RowPlan>)]| NearPlan::read(plans, &case.nodes, |_, row| u64::from(row));
            let near = read(&plans).unwrap();
            let Some(Fetched { of, at }) = near.fetched else { panic!("nothing is brought") };
            assert_eq!((of, near.rows, near.fills.len(), near.sends.len()), (lost, Rows(0b11000), 0, apart));
            let home = case.nodes[at.index()].unwrap();
            let [make] = &near.makes[..] else { panic!("{:?}", near.makes) };
            assert_eq!(make.target, at);
            let mut seen = Vec::new();
            for (node, sum) in near.sends.iter().map(|(node, sums)| (*node, &sums[0])).chain([(home, make)]) {
                let own = sum.terms.iter().filter(|(term, _)| !matches!(term, NearTerm::Interim(_)));
                let most =
                    make.terms.iter().filter(|(term, _)| !matches!(term, NearTerm::Interim(_))).count();
                assert!(own.clone().count() <= most);
                for (term, factor) in own {
                    let NearTerm::Old { role, at: 3 } = term else { panic!("{term:?}") };
                    assert_eq!(case.nodes[role.index()], Some(node));
                    seen.push((Term::Old(*role), *factor));
                }
            }
            let mut terms = plan.outputs[0].terms.clone();
            terms.sort_unstable();
            seen.sort_unstable();
            assert_eq!(seen, terms);
            assert!(near.moved(&case.nodes) < far_moved(&plans, None));
            // Two members' blocks in one read.
            let two = case.map.read(&state, &case.map.data()[..2]).unwrap();
            assert_eq!(read(&[(0, two.into())]), None);
        }
        // A block that is there is read.
        let case = case(Level::Raid5, 5);
        let plan = case.map.read(&RowState::default(), &case.map.data()[..1]).unwrap();
        let plans = [(0, plan.into())];
        let near = NearPlan::read(&plans, &case.nodes, |_, _| 0).unwrap();
        assert!(near.moved(&case.nodes) > far_moved(&plans, None));
    }

    /// The way that moves fewer bytes over the host's link.
    #[test]
    fn the_arithmetic_of_both_ways() {
        let moved = |level, disks, touched, rows, log| {
            let case = case(level, disks);
            let (plans, touches) = case.plans(touched, rows);
            let near = case.near(&plans, &touches).unwrap();
            (plans[0].1.method, far_moved(&plans, log), near.moved(&case.nodes))
        };
        let kib = 1 << 10;
        // RAID-6, one block: three are read, three stored, three logged with a header each.
        let small = moved(Level::Raid6, 12, 1, 1, Some(Kind::Blocks));
        assert_eq!(small, (Method::ReadModifyWrite, 12 * 4 * kib, 4096 + 6 * COMMAND));
        let bitmap = moved(Level::Raid6, 12, 1, 1, None);
        assert_eq!(bitmap, (Method::ReadModifyWrite, 6 * 4 * kib, 4096 + 6 * COMMAND));
        // Full stripes with the log: far moves parity and a header for each member more.
        let (method, far, near) = moved(Level::Raid6, 24, 22, 16, Some(Kind::Intent));
        assert_eq!((method, far), (Method::Full, 24 * 64 * kib + 24 * 4 * kib));
        assert!(near < 22 * 64 * kib * 101 / 100, "{near}");
        let (_, far, near) = moved(Level::Raid5, 5, 4, 16, Some(Kind::Intent));
        assert_eq!(far, 5 * 64 * kib + 5 * 4 * kib);
        assert!(near < far && near < 4 * 64 * kib * 102 / 100, "{near}");
        // Full stripes of one row without a log: commands to 24 members are more than two blocks.
        let (_, far, near) = moved(Level::Raid6, 24, 22, 1, None);
        assert!(far < near, "{far} {near}");
    }
}
