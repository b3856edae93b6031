//! Repair: a finding is read again, journalled, written, flushed and read back.
//!
//! `docs/design/repair.md` says what may be written; `docs/reference/on-disk/repair-journal.md` has
//! the order of writing and the states after a crash.

pub mod archive;
mod bytes;
mod journal;
mod plan;
mod policy;
mod record;
mod recover;
mod undo;
mod write;

pub use archive::{Archive, EntryId, Kept, Occasion};
pub use journal::{BadJournal, Begun, Found, Journal, Waiting};
pub use policy::RepairPolicy;
pub use record::{Intent, IntentKind, OldBytes, Record, SECTOR};
pub use recover::{Recovery, drop_waiting, recover};
pub use undo::{undo, written_repairs};

pub(crate) use policy::Refusal;

use crate::error::HostError;
use crate::finding::{Finding, LostPlace};
use crate::sectors::Block;
use crate::stripes::{Stripes, Tags};
use crate::target::{Target, View};
pub(crate) use plan::syndromes;
use plan::{BlockPlan, Grain, Rewrite, plan_convicted, plan_located, plan_lost, plan_parity};
use pumice_base::telemetry::Ledger;
use pumice_base::units::Role;
use pumice_parity::check_matrix::CheckMatrix;
use pumice_raid::diagnosis::{BLOCK, Diagnosis, Verdict};
use std::ops::Range;
use write::{Bytes, write};

/// The outcome for one finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Repaired {
    /// Written and verified.
    Yes,
    /// A repair would write it (dry run).
    Would,
    /// Left alone, and the reason. `partly`: some of its blocks or runs were written.
    No { why: Refusal, partly: bool },
}

/// Repairs findings of one array.
pub(crate) struct Repairer<'t> {
    target: &'t Target,
    /// `None` for a dry run.
    books: Option<Books>,
    policy: RepairPolicy,
}

/// The journal and archive that a repair uses before it writes.
pub(crate) struct Books {
    pub(crate) journal: Journal,
    pub(crate) archive: Archive,
    /// The identity of the pass.
    pub(crate) pass: u64,
}

/// The place of a repair, and the bytes that it moved.
pub(crate) struct Site<'s> {
    pub(crate) view: &'s View,
    pub(crate) stripe: u64,
    pub(crate) moved: &'s mut Ledger,
    /// The rewritten ranges (in a dry run: those to be rewritten): members, and places in their
    /// chunks.
    pub(crate) written: Vec<(Role, Range<u32>)>,
    /// The reason, for the archive; filled in for each finding.
    pub(crate) occasion: Occasion,
}

impl Site<'_> {
    /// Returns whether every lost sector of a finding was rewritten, together with other bytes.
    pub(crate) fn has_rewritten(&self, finding: &Finding) -> bool {
        let covered = |lost: &LostPlace| {
            let of_member = || self.written.iter().filter(|(role, _)| role.0 == lost.member);
            let mut at = lost.chunk_offset;
            while let Some((_, range)) = of_member().find(|(_, range)| range.contains(&at)) {
                at = range.end;
            }
            at >= lost.chunk_offset + lost.length
        };
        !finding.lost.is_empty() && finding.lost.iter().all(covered)
    }
}

impl<'t> Repairer<'t> {
    pub(crate) fn new(target: &'t Target, books: Option<Books>, policy: RepairPolicy) -> Self {
        Self { target, books, policy }
    }

    /// Returns whether nothing is written.
    pub(crate) fn is_dry(&self) -> bool {
        self.books.is_none()
    }

    /// Repairs one diagnosis of a stripe. `finding` is the same diagnosis after the judgement of
    /// the whole pass.
    pub(crate) fn repair(
        &self,
        site: &mut Site<'_>,
        diagnosis: &Diagnosis,
        finding: &Finding,
    ) -> Result<Repaired, HostError> {
        if let Err(why) = self.policy.allows(finding) {
            return Ok(Repaired::No { why, partly: false });
        }
        if let Some(books) = &self.books {
            site.occasion = Occasion::of(finding, self.policy, books.pass);
        }
        let last_equation = self.target.merely_unnamed().is_empty();
        let (done, refused) = match &diagnosis.verdict {
            Verdict::Unreadable(_) => {
                self.blocks(site, diagnosis, |check, block| plan_lost(check, block, last_equation))?
            }
            _ if finding.is_convicted() => {
                self.blocks(site, diagnosis, |check, block| plan_convicted(check, block, diagnosis))?
            }
            _ => self.windows(site, diagnosis)?,
        };
        Ok(match refused {
            Some(why) => Repaired::No { why, partly: done && self.books.is_some() },
            None if self.books.is_some() => Repaired::Yes,
            None => Repaired::Would,
        })
    }

    /// Repairs lost sectors, and bytes that tags prove wrong (R22), block by block. Returns whether
    /// anything was planned, and the reason if something was not.
    fn blocks(
        &self,
        site: &mut Site<'_>,
        diagnosis: &Diagnosis,
        plan: impl Fn(&CheckMatrix, &Block) -> BlockPlan,
    ) -> Result<(bool, Option<Refusal>), HostError> {
        let chunk = self.target.chunk(site.stripe);
        let check = site.view.check_matrix(site.stripe);
        let mut reader = Stripes::new(site.view, chunk);
        let (mut done, mut refused) = (false, None);
        let mut start = diagnosis.start / BLOCK as u32 * BLOCK as u32;
        while start < diagnosis.end() {
            let len = (BLOCK as u32).min(chunk - start);
            let block = Block::read(self.target, site.view, &mut reader, site.stripe, start, len)?;
            *site.moved += Ledger::read_from_drives(block.bytes()) + Ledger::arrived_at_host(block.bytes());
            let plan = plan(check, &block);
            refused = refused.or(plan.refused);
            for rewrite in &plan.rewrites {
                self.carry_out(site, &mut reader, rewrite)?;
                done = true;
            }
            start += len;
        }
        Ok((done, refused))
    }

    /// Repairs bytes that read well, window by window.
    fn windows(
        &self,
        site: &mut Site<'_>,
        diagnosis: &Diagnosis,
    ) -> Result<(bool, Option<Refusal>), HostError> {
        let chunk = self.target.chunk(site.stripe);
        let block = BLOCK as u32;
        let end = (diagnosis.end().div_ceil(block) * block).min(chunk);
        let mut start = diagnosis.start / block * block;
        let mut reader = Stripes::new(site.view, chunk);
        let mut done = false;
        while start < end {
            let len = reader.window_bytes().min(end - start);
            match self.window(site, &mut reader, start, len, diagnosis)? {
                Ok(rewrite) => self.carry_out(site, &mut reader, &rewrite)?,
                Err(refusal) => return Ok((done, Some(refusal))),
            }
            done = true;
            start += len;
        }
        Ok((done, None))
    }

    /// Reads the window again and plans the write; the verdict must still hold (R1).
    fn window(
        &self,
        site: &mut Site<'_>,
        reader: &mut Stripes<'_>,
        start: u32,
        len: u32,
        diagnosis: &Diagnosis,
    ) -> Result<Result<Rewrite, Refusal>, HostError> {
        let window = reader.read(site.stripe, start, len)?;
        *site.moved += Ledger::read_from_drives(window.bytes) + Ledger::arrived_at_host(window.bytes);
        if !window.holes.is_empty() {
            return Ok(Err(Refusal::Changed));
        }
        let check = site.view.check_matrix(site.stripe);
        let accused = window.tags.iter().flatten().any(Tags::differs);
        let redundancy = self.target.redundancy(site.stripe);
        let contents = by_role(site.view, &window.chunks, check.columns());
        Ok(match self.policy {
            RepairPolicy::Parity if !self.target.merely_unnamed().is_empty() => Err(Refusal::NotNamed),
            // R22: parity from data that tags accuse would make the damage last.
            RepairPolicy::Parity if accused => Err(Refusal::Accused),
            RepairPolicy::Parity => plan_parity(check, redundancy, &contents, start, len as usize),
            _ => {
                let grain = self.grain(site.stripe, &diagnosis.verdict.accused())?;
                plan_located(check, redundancy, &contents, start, len as usize, diagnosis, grain)
            }
        })
    }

    /// The smallest write that all these members take.
    fn grain(&self, stripe: u64, roles: &[Role]) -> Result<Grain, HostError> {
        let mut grain = Grain { bytes: 512, phase: 0 };
        for role in roles {
            let tagged = self.target.tag_format(*role)?.map_or(512, |format| format.block_bytes);
            let bytes = self.target.sector_bytes(*role)?.max(tagged);
            if bytes >= grain.bytes {
                let phase = (self.target.place(*role, stripe, 0) % u64::from(bytes)) as u32;
                grain = Grain { bytes, phase };
            }
        }
        Ok(grain)
    }

    /// Keep the old bytes, journal, write, flush, read back.
    fn carry_out(
        &self,
        site: &mut Site<'_>,
        reader: &mut Stripes<'_>,
        rewrite: &Rewrite,
    ) -> Result<(), HostError> {
        let (stripe, start) = (site.stripe, rewrite.start);
        let written = rewrite.changes.iter().map(|change| (change.role, start..start + rewrite.len()));
        let Some(books) = &self.books else {
            site.written.extend(written);
            return Ok(());
        };
        let records = rewrite.changes.iter().map(|change| {
            let old = match &change.old {
                Some(old) => OldBytes::read(old.clone()),
                None => OldBytes::all_lost(change.new.len()),
            };
            let record = Record::new(self.target, change.role, stripe, start, old, change.new.clone());
            // A node of an earlier version writes it as any other bytes.
            let tags_stay = change.convicted && write::can_restore(self.target, change.role);
            Record { tags_stay, ..record }
        });
        let array = self.target.array();
        let intent = Intent {
            kind: IntentKind::Repair,
            array: array.uuid(),
            events: array.events(),
            stripe,
            records: records.collect(),
        };
        let kept = books.archive.keep(self.target, intent, &site.occasion, site.moved)?;
        let begun = books.journal.begin(&kept)?;
        site.moved.media_written += write(self.target, kept.intent(), Bytes::New)?;
        // Every member of the stripe, not only what was written: the equations must hold.
        let window = reader.read(stripe, start, rewrite.len())?;
        *site.moved += Ledger::read_from_drives(window.bytes) + Ledger::arrived_at_host(window.bytes);
        let check = site.view.check_matrix(stripe);
        let contents = by_role(site.view, &window.chunks, check.columns());
        let unfit = |change: &plan::Change| {
            let index = site.view.roles().position(|other| other == change.role);
            // Where tags stay, those that are lost stay lost.
            let unfit = if change.convicted { Tags::differs } else { Tags::is_faulty };
            index.and_then(|index| window.tags[index].as_ref()).is_some_and(unfit)
        };
        let holds = window.holes.is_empty()
            && !rewrite.changes.iter().any(unfit)
            && rewrite.changes.iter().all(|c| contents[c.role.index()] == Some(c.new.as_slice()))
            && syndromes(check, &contents, rewrite.len() as usize)
                .iter()
                .all(|row| row.iter().all(|byte| *byte == 0));
        if !holds {
            return Err(HostError::RepairNotVerified { stripe, start });
        }
        books.archive.mark_done(kept.id())?;
        begun.settle()?;
        site.written.extend(written);
        Ok(())
    }
}

/// The chunks by role; `None` for a missing role.
pub(crate) fn by_role<'r>(view: &View, chunks: &[&'r [u8]], columns: usize) -> Vec<Option<&'r [u8]>> {
    let mut out = vec![None; columns];
    for (role, chunk) in view.roles().zip(chunks) {
        out[role.index()] = Some(*chunk);
    }
    out
}
