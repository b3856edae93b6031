//! The needs of one row: which blocks are read, and how each new block follows from them.
//!
//! `docs/design/volumes.md`, *From request to steps*, has the table of methods. A plan holds
//! coefficients and no bytes, so that it can be carried out where the drives are.

use crate::rows::{BLOCK, RowLayout};
use pumice_base::units::{Role, StripeIndex};
use pumice_parity::check_matrix::{CheckMatrix, Recovery};
use std::collections::BTreeSet;

/// One summand of a new block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// The block as it is on the member.
    Old(Role),
    /// The block that an earlier output of the same plan made.
    New(Role),
}

/// A block as a sum of others.
type Sum = (Role, Vec<(Term, u8)>);

/// A block that a plan makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The member to which it belongs.
    pub role: Role,
    /// The sum of coefficient times term; zeros if empty.
    pub terms: Vec<(Term, u8)>,
    /// The request's bytes are then laid over it.
    pub overlay: bool,
    /// It is to be stored on its member.
    pub stored: bool,
}

/// The method by which parity is brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// No parity is written: none is there, or the plan only reads.
    None,
    /// Every data block is new.
    Full,
    /// Old parity and the change of the touched blocks.
    ReadModifyWrite,
    /// All data blocks anew.
    Reconstruct,
}

/// The plan that is taken of two that move as many blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// Reconstruct-write: it mends parity that was wrong.
    Reconstruct,
    /// Read-modify-write: it needs nothing of the members that are not touched.
    ReadModifyWrite,
}

/// The plan by which one row is read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowPlan {
    /// The method by which parity is brought up to date.
    pub method: Method,
    /// Blocks that are read.
    pub reads: BTreeSet<Role>,
    /// Blocks that are made, in this order.
    pub outputs: Vec<Output>,
}

/// The equations do not determine what is asked for, or cannot carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the block of member {0} is lost: too many blocks of its row are missing or bad")]
pub struct Lost(pub Role);

/// The members of a row.
#[derive(Debug, Clone)]
pub struct RowMap {
    /// The equations; columns are roles.
    matrix: CheckMatrix,
    /// Data members in the order of the array's addresses.
    data: Vec<Role>,
    /// Parity members.
    parity: Vec<Role>,
    /// Each parity as a sum of data: as many rows as parities, as many columns as members.
    encode: Vec<Vec<u8>>,
}

/// The blocks of a row that cannot be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowState {
    /// Their member is not there: they can neither be read nor stored.
    pub absent: BTreeSet<Role>,
    /// Listed as bad: they hold nothing, and become good when they are stored.
    pub bad: BTreeSet<Role>,
}

impl RowState {
    fn unknown(&self, role: Role) -> bool {
        self.absent.contains(&role) || self.bad.contains(&role)
    }
}

impl RowMap {
    /// The members of the rows of a stripe.
    ///
    /// # Panics
    /// If the layout's parities do not follow from its data, which would be no layout.
    #[must_use]
    pub fn new(layout: &dyn RowLayout, stripe: StripeIndex) -> Self {
        let matrix = layout.equations(stripe);
        let data = layout.data_roles(stripe);
        let parity: Vec<Role> = (0..layout.members()).map(Role).filter(|role| !data.contains(role)).collect();
        let columns: Vec<usize> = parity.iter().map(|role| role.index()).collect();
        let recovery = matrix.recover(&columns).expect("parity follows from data");
        let encode =
            recovery.coefficients.iter().map(|row| spread(&recovery, row, matrix.columns())).collect();
        Self { matrix, data, parity, encode }
    }

    /// Data members in the order of the array's addresses.
    #[must_use]
    pub fn data(&self) -> &[Role] {
        &self.data
    }

    /// Parity members.
    #[must_use]
    pub fn parity(&self) -> &[Role] {
        &self.parity
    }

    /// Each unknown block as a sum of known ones, by role; `None` if they are not determined.
    fn recover(&self, unknown: &BTreeSet<Role>) -> Option<Vec<Sum>> {
        let lost: Vec<usize> = unknown.iter().map(|role| role.index()).collect();
        if lost.is_empty() {
            return Some(Vec::new());
        }
        let recovery = self.matrix.recover(&lost)?;
        // Columns are roles, which fit 16 bits.
        let term = |(column, c): (&usize, &u8)| (Term::Old(Role(*column as u16)), *c);
        let sums = recovery.coefficients.iter().map(|row| {
            recovery.survivors.iter().zip(row).filter(|(_, c)| **c != 0).map(term).collect::<Vec<_>>()
        });
        Some(unknown.iter().copied().zip(sums).collect())
    }

    /// Plans the read of the blocks `wanted`.
    ///
    /// # Errors
    /// If one of them is lost.
    pub fn read(&self, state: &RowState, wanted: &[Role]) -> Result<RowPlan, Lost> {
        let old = Old::new(self, state);
        let output = |role: &Role| {
            let terms = old.value(*role).ok_or(Lost(*role))?;
            Ok(Output { role: *role, terms, overlay: false, stored: false })
        };
        Ok(RowPlan::of(Method::None, wanted.iter().map(output).collect::<Result<_, _>>()?))
    }

    /// Plans how the blocks of `targets` are made anew from the others, whatever they hold now.
    ///
    /// # Errors
    /// If the others do not determine them.
    pub fn restore(&self, state: &RowState, targets: &BTreeSet<Role>) -> Result<RowPlan, Lost> {
        let mut without = state.clone();
        without.bad.extend(targets);
        without.absent.retain(|role| !targets.contains(role));
        let mut plan = self.read(&without, &targets.iter().copied().collect::<Vec<_>>())?;
        for output in &mut plan.outputs {
            output.stored = true;
        }
        Ok(plan)
    }

    /// Plans the write of a row: by the method that moves fewer blocks, and by that of `tie` if
    /// both move as many. `touched` says of each touched data member whether its whole block is
    /// new.
    ///
    /// # Errors
    /// If a touched block can neither be stored nor be carried by parity.
    pub fn write(&self, state: &RowState, touched: &[(Role, bool)], tie: Tie) -> Result<RowPlan, Lost> {
        let old = Old::new(self, state);
        let mut outputs = Vec::new();
        for (role, whole) in touched {
            let terms = if *whole { Vec::new() } else { old.value(*role).ok_or(Lost(*role))? };
            outputs.push(Output { role: *role, terms, overlay: true, stored: !state.absent.contains(role) });
        }
        let carried = |role: &Role| !state.absent.contains(role);
        // A parity without a part in the touched blocks stays as it is.
        let has_part = |i: &usize| touched.iter().any(|(role, _)| self.encode[*i][role.index()] != 0);
        let is_here = |i: &usize| !state.absent.contains(&self.parity[*i]);
        let targets: Vec<usize> = (0..self.parity.len()).filter(is_here).filter(has_part).collect();
        if targets.is_empty() {
            return match touched.iter().find(|(role, _)| !carried(role)) {
                Some((role, _)) => Err(Lost(*role)),
                None => Ok(RowPlan::of(Method::None, outputs)),
            };
        }
        let difference = self.by_difference(state, touched, &targets, &outputs);
        let anew = self.anew(&old, touched, &targets, outputs);
        let any_bad = targets.iter().any(|i| state.bad.contains(&self.parity[*i]));
        let plan = match (anew, difference) {
            (Some(anew), Some(difference)) if !any_bad && difference.is_better(&anew, tie) => difference,
            (Some(anew), _) => anew,
            (None, Some(difference)) => difference,
            (None, None) => return Err(Lost(touched.first().map_or(Role(0), |(role, _)| *role))),
        };
        match touched.iter().find(|(role, _)| !carried(role)) {
            Some((role, _)) if !self.carries(state, &plan) => Err(Lost(*role)),
            _ => Ok(plan),
        }
    }

    /// Returns whether the blocks of absent members follow from the others once the plan is carried
    /// out.
    fn carries(&self, state: &RowState, plan: &RowPlan) -> bool {
        let stored = |role: &&Role| plan.outputs.iter().any(|output| output.stored && output.role == **role);
        let bad = state.bad.iter().filter(|role| !stored(role));
        self.recover(&state.absent.iter().chain(bad).copied().collect()).is_some()
    }

    /// Read-modify-write of the good parities among `targets`.
    fn by_difference(
        &self,
        state: &RowState,
        touched: &[(Role, bool)],
        targets: &[usize],
        data: &[Output],
    ) -> Option<RowPlan> {
        if touched.iter().any(|(role, _)| state.unknown(*role)) {
            return None;
        }
        let mut outputs = data.to_vec();
        for i in targets.iter().filter(|i| !state.bad.contains(&self.parity[**i])) {
            let parity = self.parity[*i];
            let mut terms = vec![(Term::Old(parity), 1)];
            for (role, _) in touched {
                let c = self.encode[*i][role.index()];
                if c != 0 {
                    terms.extend([(Term::Old(*role), c), (Term::New(*role), c)]);
                }
            }
            outputs.push(Output { role: parity, terms, overlay: false, stored: true });
        }
        Some(RowPlan::of(Method::ReadModifyWrite, outputs))
    }

    /// Reconstruct-write of all `targets`.
    fn anew(
        &self,
        old: &Old<'_>,
        touched: &[(Role, bool)],
        targets: &[usize],
        mut outputs: Vec<Output>,
    ) -> Option<RowPlan> {
        let mut values = Vec::new();
        for role in &self.data {
            let new = touched.iter().any(|(touched, _)| touched == role);
            values.push((*role, if new { vec![(Term::New(*role), 1)] } else { old.value(*role)? }));
        }
        for i in targets {
            let mut terms: Vec<(Term, u8)> = Vec::new();
            for (role, value) in &values {
                let c = self.encode[*i][role.index()];
                terms.extend(value.iter().map(|(term, by)| (*term, pumice_parity::gf::mul(c, *by))));
            }
            outputs.push(Output {
                role: self.parity[*i],
                terms: merged(terms),
                overlay: false,
                stored: true,
            });
        }
        let plan = RowPlan::of(Method::Reconstruct, outputs);
        let method = if plan.reads.is_empty() { Method::Full } else { Method::Reconstruct };
        Some(RowPlan { method, ..plan })
    }
}

/// A row of recovery coefficients, spread over all columns.
fn spread(recovery: &Recovery, row: &[u8], columns: usize) -> Vec<u8> {
    let mut out = vec![0; columns];
    for (column, c) in recovery.survivors.iter().zip(row) {
        out[*column] = *c;
    }
    out
}

/// Terms with the same block added up; those that cancel out are dropped.
fn merged(mut terms: Vec<(Term, u8)>) -> Vec<(Term, u8)> {
    terms.sort_unstable();
    let mut out: Vec<(Term, u8)> = Vec::new();
    for (term, c) in terms {
        match out.last_mut() {
            Some((last, sum)) if *last == term => *sum ^= c,
            _ => out.push((term, c)),
        }
    }
    out.retain(|(_, c)| *c != 0);
    out
}

/// The old blocks of a row: themselves, or a sum of others.
struct Old<'s> {
    state: &'s RowState,
    recovered: Option<Vec<Sum>>,
}

impl<'s> Old<'s> {
    fn new(map: &RowMap, state: &'s RowState) -> Self {
        Self { state, recovered: map.recover(&state.absent.union(&state.bad).copied().collect()) }
    }

    fn value(&self, role: Role) -> Option<Vec<(Term, u8)>> {
        if !self.state.unknown(role) {
            return Some(vec![(Term::Old(role), 1)]);
        }
        self.recovered.as_ref()?.iter().find(|(lost, _)| *lost == role).map(|(_, terms)| terms.clone())
    }
}

impl RowPlan {
    fn of(method: Method, outputs: Vec<Output>) -> Self {
        let old = |(term, _): &(Term, u8)| match term {
            Term::Old(role) => Some(*role),
            Term::New(_) => None,
        };
        let reads = outputs.iter().flat_map(|output| output.terms.iter().filter_map(old)).collect();
        Self { method, reads, outputs }
    }

    fn is_better(&self, other: &Self, tie: Tie) -> bool {
        match tie {
            Tie::Reconstruct => self.moved() < other.moved(),
            Tie::ReadModifyWrite => self.moved() <= other.moved(),
        }
    }

    /// Bytes that are read and stored.
    #[must_use]
    pub fn moved(&self) -> u64 {
        BLOCK * (self.reads.len() + self.outputs.iter().filter(|output| output.stored).count()) as u64
    }
}
