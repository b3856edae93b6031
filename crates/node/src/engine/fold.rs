//! Folds a section of a stripe by a command's mode, and combines the parts of the workers.

use super::fingerprint::Hasher;
use super::section::Section;
use crate::memory::{MemoryAccess, further};
use pumice_offload::{MemoryAddress, Mode, NodeError, ParityCommand, ParityResult, StripeBitmap};
use pumice_parity::class_plan::ClassPlan;
use pumice_parity::kernels::Kernels;
use pumice_parity::weights::Weights;

/// State of a command's folding, shared by its workers.
pub(crate) struct Fold<'c> {
    command: &'c ParityCommand,
    kernels: Kernels,
    memory: &'c dyn MemoryAccess,
    classes: Vec<ClassPlan>,
    hasher: Option<Hasher>,
    /// One for each accumulator.
    weights: Vec<Weights>,
}

/// Sums that one worker has folded so far.
pub(crate) struct Partial {
    nonzero: StripeBitmap,
    range: Option<(u32, u32)>,
    accumulators: Vec<Vec<u8>>,
    sums: Option<super::fingerprint::Sums>,
    scratch: Vec<Vec<u8>>,
    /// The plan of the stripe that was folded last: a chunk may arrive in several sections.
    weighted: Option<(u64, ClassPlan)>,
}

impl<'c> Fold<'c> {
    /// Prepares a command that was validated.
    ///
    /// # Errors
    /// If its guard leaves no good weights.
    pub(crate) fn new(
        command: &'c ParityCommand,
        kernels: Kernels,
        memory: &'c dyn MemoryAccess,
    ) -> Result<Self, NodeError> {
        let rule = &command.rule;
        let classes = (0..rule.period() as usize)
            .map(|class| ClassPlan::new(rule.rows(), &rule.columns(class)))
            .collect();
        let hasher = match &command.mode {
            Mode::Fingerprint { seed, powers } => Some(Hasher::new(command, seed, *powers)),
            _ => None,
        };
        let weights = match &command.mode {
            Mode::Interims { seed, accumulators, .. } | Mode::Accumulate { seed, accumulators, .. } => {
                let of = |a| Weights::new(seed, a, rule.guard());
                let all: Result<Vec<_>, _> = (0..u32::from(*accumulators)).map(of).collect();
                all.map_err(|error| NodeError::invalid("guard", error.to_string()))?
            }
            _ => Vec::new(),
        };
        Ok(Self { command, kernels, memory, classes, hasher, weights })
    }

    /// Bytes of the accumulators and bits that each worker has for itself.
    pub(crate) fn sum_bytes(&self) -> usize {
        let window = self.command.window.len as usize;
        match self.command.mode {
            Mode::Accumulate { accumulators, .. } => window.saturating_mul(usize::from(accumulators)),
            _ => (self.command.count() / 8) as usize,
        }
    }

    /// A worker's empty start.
    pub(crate) fn start(&self) -> Partial {
        let bits = match self.command.mode {
            Mode::Check | Mode::Generate { .. } => self.command.count(),
            _ => 0,
        };
        let accumulators = match self.command.mode {
            Mode::Accumulate { accumulators, .. } => {
                vec![vec![0; self.command.window.len as usize]; usize::from(accumulators)]
            }
            _ => Vec::new(),
        };
        Partial {
            nonzero: StripeBitmap::new(bits),
            range: None,
            accumulators,
            sums: self.hasher.as_ref().map(Hasher::sums),
            scratch: Vec::new(),
            weighted: None,
        }
    }

    /// Folds one section.
    pub(crate) fn section(&self, partial: &mut Partial, section: &Section<'_>) -> Result<(), NodeError> {
        let class = &self.classes[self.command.rule.class(section.stripe)];
        match &self.command.mode {
            Mode::Check => self.check(partial, section, class),
            Mode::Generate { into } => self.generate(partial, section, class, *into)?,
            Mode::Interims { into, .. } => self.interims(partial, section, *into)?,
            Mode::Accumulate { .. } => self.accumulate(partial, section),
            Mode::Fingerprint { .. } => {
                if let (Some(hasher), Some(sums)) = (&self.hasher, &mut partial.sums) {
                    hasher.add(sums, &self.kernels, &self.command.rule, section);
                }
            }
        }
        Ok(())
    }

    fn repetition(&self, stripe: u64) -> u64 {
        stripe - self.command.stripes.start
    }

    /// The source of a stripe that is the XOR of the others if the command finds nothing, and a
    /// source that does not count for that.
    pub(crate) fn sum(&self, stripe: u64) -> Option<(usize, Option<usize>)> {
        let checks = matches!(self.command.mode, Mode::Check);
        checks.then(|| self.classes[self.command.rule.class(stripe)].sum()).flatten()
    }

    /// Returns whether a section of a command that checks has nothing to be found.
    pub(crate) fn is_clean(&self, section: &Section<'_>) -> bool {
        self.classes[self.command.rule.class(section.stripe)].check(&self.kernels, section.slices).0 == 0
    }

    fn check(&self, partial: &mut Partial, section: &Section<'_>, class: &ClassPlan) {
        if class.check(&self.kernels, section.slices).0 == 0 {
            return;
        }
        // Rare: fold again, this time into memory, to see where.
        partial.nonzero.set(self.repetition(section.stripe));
        let rows = rows_of(&mut partial.scratch, class.rows(), section);
        class.accumulate(&self.kernels, section.slices, &mut views(rows));
        for row in rows.iter() {
            widen(&mut partial.range, &self.kernels, section.start, row);
        }
    }

    fn generate(
        &self,
        partial: &mut Partial,
        section: &Section<'_>,
        class: &ClassPlan,
        into: MemoryAddress,
    ) -> Result<(), NodeError> {
        let rows = rows_of(&mut partial.scratch, class.rows(), section);
        class.accumulate(&self.kernels, section.slices, &mut views(rows));
        let mut bad = false;
        for row in rows.iter() {
            bad |= widen(&mut partial.range, &self.kernels, section.start, row);
        }
        if bad {
            partial.nonzero.set(self.repetition(section.stripe));
        }
        self.store(into, section, rows)
    }

    fn interims(
        &self,
        partial: &mut Partial,
        section: &Section<'_>,
        into: MemoryAddress,
    ) -> Result<(), NodeError> {
        let Partial { scratch, weighted, .. } = partial;
        let plan = self.weighted(weighted, section.stripe);
        let rows = rows_of(scratch, plan.rows(), section);
        plan.accumulate(&self.kernels, section.slices, &mut views(rows));
        self.store(into, section, rows)
    }

    fn accumulate(&self, partial: &mut Partial, section: &Section<'_>) {
        let Partial { accumulators: sums, weighted, .. } = partial;
        let plan = self.weighted(weighted, section.stripe);
        let start = section.start as usize;
        let len = section.slices[0].len();
        let mut views: Vec<&mut [u8]> = sums.iter_mut().map(|sum| &mut sum[start..start + len]).collect();
        plan.accumulate(&self.kernels, section.slices, &mut views);
    }

    /// The weighted plan of a stripe, kept while the worker stays in it.
    fn weighted<'p>(&self, kept: &'p mut Option<(u64, ClassPlan)>, stripe: u64) -> &'p ClassPlan {
        if kept.as_ref().is_none_or(|(of, _)| *of != stripe) {
            let rule = &self.command.rule;
            let weights: Vec<Vec<u8>> = self.weights.iter().map(|w| w.of(stripe)).collect();
            *kept = Some((stripe, ClassPlan::weighted(&rule.columns(rule.class(stripe)), &weights)));
        }
        &kept.as_ref().expect("set above").1
    }

    /// Writes the outputs of a section to their place: repetition after repetition, output after
    /// output.
    fn store(&self, into: MemoryAddress, section: &Section<'_>, rows: &[Vec<u8>]) -> Result<(), NodeError> {
        let window = u64::from(self.command.window.len);
        let first = self.repetition(section.stripe) * rows.len() as u64;
        for (i, row) in rows.iter().enumerate() {
            let at = (first + i as u64) * window + u64::from(section.start);
            self.memory.write(further(into, at), row)?;
        }
        Ok(())
    }

    /// Brings two workers' parts together.
    pub(crate) fn merge(&self, into: &mut Partial, other: &Partial) {
        into.nonzero.union(&other.nonzero);
        if let Some((first, last)) = other.range {
            let (a, b) = into.range.unwrap_or((first, last));
            into.range = Some((a.min(first), b.max(last)));
        }
        for (sum, part) in into.accumulators.iter_mut().zip(&other.accumulators) {
            for (a, b) in sum.iter_mut().zip(part) {
                *a ^= b;
            }
        }
        if let (Some(sums), Some(part)) = (&mut into.sums, &other.sums) {
            sums.merge(part);
        }
    }

    /// The command's result; writes the accumulators to their place.
    pub(crate) fn finish(&self, partial: Partial) -> Result<ParityResult, NodeError> {
        let mut range = partial.range;
        if let Mode::Accumulate { into, .. } = self.command.mode {
            let window = u64::from(self.command.window.len);
            for (i, sum) in partial.accumulators.iter().enumerate() {
                widen(&mut range, &self.kernels, 0, sum);
                self.memory.write(further(into, i as u64 * window), sum)?;
            }
        }
        Ok(ParityResult {
            nonzero: partial.nonzero,
            range,
            fingerprint: partial.sums.map(super::fingerprint::Sums::into_power_sums),
            ..ParityResult::default()
        })
    }
}

/// Zeroed rows of the section's length.
fn rows_of<'s>(scratch: &'s mut Vec<Vec<u8>>, rows: usize, section: &Section<'_>) -> &'s mut [Vec<u8>] {
    let len = section.slices.first().map_or(0, |s| s.len());
    scratch.resize_with(rows.max(scratch.len()), Vec::new);
    for row in &mut scratch[..rows] {
        row.clear();
        row.resize(len, 0);
    }
    &mut scratch[..rows]
}

fn views(rows: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    rows.iter_mut().map(Vec::as_mut_slice).collect()
}

/// Widens `range` by the non-zero bytes of `row`, which begins at `start`; tells whether there are
/// any.
fn widen(range: &mut Option<(u32, u32)>, kernels: &Kernels, start: u32, row: &[u8]) -> bool {
    let Some(found) = kernels.nonzero_range(row) else { return false };
    let (first, last) = (start + found.start as u32, start + found.end as u32 - 1);
    let (a, b) = range.unwrap_or((first, last));
    *range = Some((a.min(first), b.max(last)));
    true
}
