//! The fingerprint of a batch: hashes of chunks, combined by row, summed over stripes.

use super::section::Section;
use pumice_offload::{ParityCommand, Rule};
use pumice_parity::fingerprint::{PowerSums, line_keys, stripe_key};
use pumice_parity::kernels::Kernels;
use pumice_parity::planes::Planes;
use pumice_parity::seed::Seed;

/// Bytes of a line, the unit of the hash.
const LINE: usize = 64;

/// Bytes of a window whose keys are drawn once, at most. A longer one has them drawn for each
/// section, so that they never take more than an eighth of what is folded.
const KEPT_WINDOW: u32 = 16 << 20;

/// Keys of a command.
pub(crate) struct Hasher {
    seed: Seed,
    /// Of the whole window, unless it is too long.
    lines: Option<Vec<u64>>,
    /// Line of the chunk with which the window begins.
    skip: usize,
    first_stripe: u64,
    rows: usize,
    powers: u8,
}

/// The power sums of one worker.
pub(crate) struct Sums {
    sums: PowerSums,
    rows: Vec<Planes>,
}

impl Hasher {
    pub(crate) fn new(command: &ParityCommand, seed: &Seed, powers: u8) -> Self {
        // One key for each line of a whole chunk: a window uses the keys of its place, so that the
        // hashes of the windows of a chunk add up to the hash of the chunk.
        let skip = command.window.start as usize / LINE;
        let whole = command.window.len <= KEPT_WINDOW;
        Self {
            seed: seed.clone(),
            lines: whole.then(|| line_keys(seed, skip, (command.window.len as usize).div_ceil(LINE))),
            skip,
            first_stripe: command.stripes.start,
            rows: command.rule.rows(),
            powers,
        }
    }

    pub(crate) fn sums(&self) -> Sums {
        Sums {
            sums: PowerSums::new(self.rows, usize::from(self.powers)),
            rows: vec![Planes::ZERO; self.rows],
        }
    }

    /// Adds a section. Sections begin on a line.
    pub(crate) fn add(&self, sums: &mut Sums, kernels: &Kernels, rule: &Rule, section: &Section<'_>) {
        let class = rule.class(section.stripe);
        let first = section.start as usize / LINE;
        let drawn;
        let keys = match &self.lines {
            Some(lines) => &lines[first..],
            None => {
                let lines = section.slices.first().map_or(0, |slice| slice.len().div_ceil(LINE));
                drawn = line_keys(&self.seed, self.skip + first, lines);
                &drawn
            }
        };
        sums.rows.fill(Planes::ZERO);
        for (source, slice) in section.slices.iter().enumerate() {
            let hash = kernels.fingerprint(keys, slice);
            for (row, coefficient) in sums.rows.iter_mut().zip(rule.column(class, source)) {
                match coefficient {
                    0 => {}
                    1 => row.add(&hash),
                    c => row.add(&hash.scaled(*c)),
                }
            }
        }
        let index = (section.stripe - self.first_stripe) as u32;
        let key = stripe_key(&self.seed, section.stripe);
        sums.sums.add(index, key, &sums.rows);
    }
}

impl Sums {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sums.merge(&other.sums);
    }

    pub(crate) fn into_power_sums(self) -> PowerSums {
        self.sums
    }
}
