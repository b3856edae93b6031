//! Repair: a verdict verified again, journalled, written, flushed and read back.
//!
//! `docs/on-disk/repair-journal.md` has the order of writing and the states after a crash.

mod journal;
mod recover;

pub use journal::{BadJournal, Intent, Journal, Record};
pub use recover::{Recovery, recover};

use crate::scrub::ScrubError;
use crate::target::{Stripes, Target, View};
use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::gf::add_scaled;
use pumice_parity::locate::error_values;
use pumice_raid::diagnosis::{BLOCK, Diagnosis, Verdict, diagnose_window};
use pumice_telemetry::Ledger;
use pumice_units::Role;
use std::fmt;
use std::str::FromStr;

/// What a repair rewrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairPolicy {
    /// The members that the verdict names. What is not located is left alone.
    Locate,
    /// md's policy: P and Q, from the data as it is. Damaged data becomes lasting.
    Parity,
}

impl FromStr for RepairPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "locate" => Ok(Self::Locate),
            "parity" => Ok(Self::Parity),
            _ => Err(format!("'{text}' is no repair policy: locate or parity")),
        }
    }
}

/// What became of one finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Repaired {
    /// Written and verified.
    Yes,
    /// Left alone, and why.
    No(Refusal),
}

/// Why a finding was left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The policy does not cover such a verdict.
    NotLocated,
    /// The media no longer say what was found.
    Changed,
    /// More is lost than the code can bring back.
    Undecodable,
    /// The equations that remain without the lost members do not hold.
    Inconsistent,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotLocated => {
                "no member is located; --repair-policy parity would rewrite parity from the data"
            }
            Self::Changed => "the media no longer say the same",
            Self::Undecodable => "more is lost than parity can bring back",
            Self::Inconsistent => {
                "the remaining parity does not hold, so what it would bring back is not sure"
            }
        })
    }
}

/// New bytes of some members over one window of a stripe.
struct Rewrite {
    roles: Vec<Role>,
    old: Vec<Vec<u8>>,
    new: Vec<Vec<u8>>,
}

/// Repairs findings of one array.
pub(crate) struct Repairer<'t> {
    target: &'t Target,
    journal: Journal,
    policy: RepairPolicy,
}

impl<'t> Repairer<'t> {
    pub(crate) fn new(target: &'t Target, journal: Journal, policy: RepairPolicy) -> Self {
        Self { target, journal, policy }
    }

    /// Repairs one diagnosis of a stripe, window by window.
    pub(crate) fn repair(
        &self,
        view: &View,
        stripe: u64,
        diagnosis: &Diagnosis,
        moved: &mut Ledger,
    ) -> Result<Repaired, ScrubError> {
        if self.policy == RepairPolicy::Locate && diagnosis.verdict.accused().is_empty() {
            return Ok(Repaired::No(Refusal::NotLocated));
        }
        let chunk = self.target.chunk();
        let block = BLOCK as u32;
        let end = ((diagnosis.start + diagnosis.len).div_ceil(block) * block).min(chunk);
        let mut start = diagnosis.start / block * block;
        let mut reader = Stripes::new(view, chunk);
        while start < end {
            let len = reader.window_bytes().min(end - start);
            match self.plan(view, &mut reader, stripe, start, len, diagnosis, moved)? {
                Ok(rewrite) => self.carry_out(view, &mut reader, stripe, start, &rewrite, moved)?,
                Err(refusal) => return Ok(Repaired::No(refusal)),
            }
            start += len;
        }
        Ok(Repaired::Yes)
    }

    /// Reads the window again and works out what to write; the verdict must still hold.
    #[expect(clippy::too_many_arguments, reason = "a place in a stripe is four of them")]
    fn plan(
        &self,
        view: &View,
        reader: &mut Stripes<'_>,
        stripe: u64,
        start: u32,
        len: u32,
        diagnosis: &Diagnosis,
        moved: &mut Ledger,
    ) -> Result<Result<Rewrite, Refusal>, ScrubError> {
        let window = reader.read(stripe, start, len)?;
        *moved += Ledger::read_from_drives(window.bytes) + Ledger::arrived_at_host(window.bytes);
        let lost: Vec<Role> = window.holes.iter().map(|(role, _)| *role).collect();
        let check = view.check_matrix(stripe);
        let chunks = by_role(view, &window.chunks, check.columns());
        if let Verdict::Unreadable(roles) = &diagnosis.verdict {
            // What reads again by now is rewritten all the same: the drive had given it up once.
            let mut roles = roles.clone();
            roles.extend(lost);
            roles.sort_unstable();
            roles.dedup();
            return Ok(restore(check, &roles, &chunks, len as usize));
        }
        if !lost.is_empty() {
            return Ok(Err(Refusal::Changed));
        }
        if self.policy == RepairPolicy::Parity {
            let parity = self.target.parity_roles(stripe);
            let roles: Vec<Role> = [Some(parity.p), parity.q]
                .into_iter()
                .flatten()
                .filter(|r| chunks[r.index()].is_some())
                .collect();
            return Ok(recompute(check, &roles, &chunks, len as usize));
        }
        let syndromes = syndromes(check, &chunks, len as usize);
        let rows: Vec<&[u8]> = syndromes.iter().map(Vec::as_slice).collect();
        let again = diagnose_window(check, self.target.parity_roles(stripe), &rows, start);
        let inside =
            |d: &&Diagnosis| d.start < diagnosis.start + diagnosis.len && diagnosis.start < d.start + d.len;
        let same = |d: &Diagnosis| d.verdict == diagnosis.verdict;
        if again.is_empty() || !again.iter().all(same) || again.iter().any(|d| !inside(&d)) {
            return Ok(Err(Refusal::Changed));
        }
        let roles = diagnosis.verdict.accused();
        let columns: Vec<usize> = roles.iter().map(|role| role.index()).collect();
        let Some(errors) = error_values(check, &columns, &rows) else {
            return Ok(Err(Refusal::Changed));
        };
        let old: Vec<Vec<u8>> =
            columns.iter().map(|c| chunks[*c].expect("an accused member is present").to_vec()).collect();
        let new =
            old.iter().zip(&errors).map(|(old, e)| old.iter().zip(e).map(|(a, b)| a ^ b).collect()).collect();
        Ok(Ok(Rewrite { roles, old, new }))
    }

    /// Journal, write, flush, read back.
    fn carry_out(
        &self,
        view: &View,
        reader: &mut Stripes<'_>,
        stripe: u64,
        start: u32,
        rewrite: &Rewrite,
        moved: &mut Ledger,
    ) -> Result<(), ScrubError> {
        let place = |role: Role| self.target.place(role, stripe, start);
        let records = rewrite.roles.iter().zip(rewrite.old.iter().zip(&rewrite.new));
        let records = records.map(|(role, (old, new))| Record {
            role: role.0,
            device_offset: place(*role),
            old: old.clone(),
            new: new.clone(),
        });
        let intent = Intent {
            array: self.target.array().uuid().0,
            events: self.target.array().events(),
            stripe,
            records: records.collect(),
        };
        let journal_error =
            |error| ScrubError::state(self.journal.path(), "the repair journal cannot be written", error);
        self.journal.begin(&intent).map_err(journal_error)?;
        for record in &intent.records {
            let member =
                self.target.member(Role(record.role)).expect("a record is of a member that is present");
            member.node.write(member.drive, record.device_offset, &record.new)?;
            moved.media_written += record.new.len() as u64;
        }
        for record in &intent.records {
            let member = self.target.member(Role(record.role)).expect("as above");
            member.node.flush(member.drive)?;
        }
        let len = rewrite.new[0].len();
        let window = reader.read(stripe, start, len as u32)?;
        *moved += Ledger::read_from_drives(window.bytes) + Ledger::arrived_at_host(window.bytes);
        let check = view.check_matrix(stripe);
        let chunks = by_role(view, &window.chunks, check.columns());
        let holds = window.holes.is_empty()
            && syndromes(check, &chunks, len).iter().all(|row| row.iter().all(|byte| *byte == 0));
        if !holds {
            return Err(ScrubError::RepairNotVerified { stripe, start });
        }
        self.journal.clear().map_err(journal_error)
    }
}

/// The chunks by role; `None` where a role is missing.
pub(crate) fn by_role<'r>(view: &View, chunks: &[&'r [u8]], columns: usize) -> Vec<Option<&'r [u8]>> {
    let mut out = vec![None; columns];
    for (role, chunk) in view.roles().zip(chunks) {
        out[role.index()] = Some(*chunk);
    }
    out
}

/// Every row of the equations over the chunks. Missing members have no part in them.
pub(crate) fn syndromes(check: &CheckMatrix, chunks: &[Option<&[u8]>], len: usize) -> Vec<Vec<u8>> {
    (0..check.rows())
        .map(|row| {
            let mut sum = vec![0; len];
            for (column, chunk) in chunks.iter().enumerate() {
                if let Some(chunk) = chunk {
                    add_scaled(&mut sum, chunk, check.get(row, column));
                }
            }
            sum
        })
        .collect()
}

/// Brings lost members back from the others, where the equations that remain without them hold.
fn restore(
    check: &CheckMatrix,
    roles: &[Role],
    chunks: &[Option<&[u8]>],
    len: usize,
) -> Result<Rewrite, Refusal> {
    let columns: Vec<usize> = roles.iter().map(|role| role.index()).collect();
    let remaining = check.eliminate(&columns);
    let mut survivors = chunks.to_vec();
    for column in &columns {
        survivors[*column] = None;
    }
    if syndromes(&remaining, &survivors, len).iter().any(|row| row.iter().any(|byte| *byte != 0)) {
        return Err(Refusal::Inconsistent);
    }
    let new = solve(check, &columns, &survivors, len)?;
    // An unreadable range has no old bytes: whatever a crash leaves there, the new ones are right.
    Ok(Rewrite { roles: roles.to_vec(), old: new.clone(), new })
}

/// Parity from data.
fn recompute(
    check: &CheckMatrix,
    roles: &[Role],
    chunks: &[Option<&[u8]>],
    len: usize,
) -> Result<Rewrite, Refusal> {
    let columns: Vec<usize> = roles.iter().map(|role| role.index()).collect();
    let new = solve(check, &columns, chunks, len)?;
    let old =
        columns.iter().map(|c| chunks[*c].expect("only members present are recomputed").to_vec()).collect();
    Ok(Rewrite { roles: roles.to_vec(), old, new })
}

/// The bytes of `columns` that make every equation hold with the other chunks as they are.
fn solve(
    check: &CheckMatrix,
    columns: &[usize],
    chunks: &[Option<&[u8]>],
    len: usize,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let recovery = check.recover(columns).ok_or(Refusal::Undecodable)?;
    columns
        .iter()
        .map(|column| {
            let row = recovery.lost.iter().position(|lost| lost == column).ok_or(Refusal::Undecodable)?;
            let mut sum = vec![0; len];
            for (survivor, coefficient) in recovery.survivors.iter().zip(&recovery.coefficients[row]) {
                add_scaled(&mut sum, chunks[*survivor].ok_or(Refusal::Undecodable)?, *coefficient);
            }
            Ok(sum)
        })
        .collect()
}
