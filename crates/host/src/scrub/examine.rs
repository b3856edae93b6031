//! Looking at one suspect stripe exactly: which bytes, which member, how sure.
//!
//! The nodes fold the stripe's rows where the data is; the host asks where the syndrome is not zero and reads those
//! bytes alone. A stripe with unreadable places is read to the host block by block instead, so that every block that can be
//! judged is.

use super::ScrubError;
use super::check::on_each;
use super::checked::Hole;
use crate::relay::bring;
use crate::target::{Stripes, Target, View};
use pumice_offload::{
    Activity, MemoryAddress, Mode, ParityCommand, ParityResult, RESULT_HEADER_BYTES, Rule, Source, Transfer,
    Window, Writes,
};
use pumice_parity::gf;
use pumice_raid::diagnosis::{BLOCK, Certainty, Diagnosis, Verdict, diagnose_window, join};
use pumice_telemetry::Ledger;
use pumice_units::Role;

/// What an examination found.
#[derive(Debug, Default)]
pub(crate) struct Examination {
    /// By place in the chunk.
    pub(crate) diagnoses: Vec<Diagnosis>,
    /// The counters of each share's node before the first read and after the last.
    pub(crate) activity: Vec<Option<Activity>>,
    pub(crate) moved: Ledger,
}

impl Examination {
    /// Takes the counters of a command on every share, which came after the ones before it.
    fn witness<'r>(&mut self, results: impl IntoIterator<Item = &'r ParityResult>) {
        let now: Vec<Option<Activity>> = results.into_iter().map(|result| result.activity).collect();
        if self.activity.is_empty() {
            self.activity = now;
            return;
        }
        for (known, now) in self.activity.iter_mut().zip(now) {
            *known = match (*known, now) {
                (Some(a), Some(b)) if a.epoch == b.epoch => Some(Activity { after: b.after, ..a }),
                // The node was started anew in between: under this epoch nothing is quiet.
                (Some(a), _) => Some(Activity { epoch: u64::MAX, after: Writes::default(), ..a }),
                (None, _) => None,
            };
        }
    }
}

/// Examines a stripe that every drive gives back.
///
/// # Errors
/// Where a node fails.
pub(crate) fn examine(target: &Target, view: &View, stripe: u64) -> Result<Examination, ScrubError> {
    let chunk = target.chunk();
    let rows = view.rows();
    let mut out = Examination::default();
    // One set of rows from every node, and their sum, share the first node's local memory.
    let sets = view.shares.len() as u64 + 1;
    let fits = (view.memory_bytes / sets).min(view.own_bytes) / rows as u64;
    let window = u32::try_from(fits).unwrap_or(u32::MAX).min(chunk) / BLOCK as u32 * BLOCK as u32;
    if window == 0 {
        let need = sets * rows as u64 * BLOCK as u64;
        return Err(ScrubError::LocalMemory { need, have: view.memory_bytes });
    }
    let mut start = 0;
    while start < chunk {
        let len = window.min(chunk - start);
        let found = syndromes(view, chunk, stripe, Window { start, len }, &mut out)?;
        if let Some((offset, rows)) = found {
            let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            let parity = target.parity_roles(stripe);
            join(&mut out.diagnoses, diagnose_window(view.check_matrix(stripe), parity, &rows, offset));
        }
        start += len;
    }
    Ok(out)
}

/// The syndrome rows over the blocks that are not zero, and where in the chunk they begin.
type Syndromes = Option<(u32, Vec<Vec<u8>>)>;

fn syndromes(
    view: &View,
    chunk: u32,
    stripe: u64,
    window: Window,
    out: &mut Examination,
) -> Result<Syndromes, ScrubError> {
    let rows = view.rows() as u64;
    let len = u64::from(window.len);
    let set = rows * len;
    let results = on_each(&view.shares, |share| {
        share.node.parity(&ParityCommand {
            sources: share.sources.clone(),
            chunk,
            window,
            stripes: stripe..stripe + 1,
            rule: share.rule.clone(),
            mode: Mode::Generate { into: MemoryAddress { drive: share.memory_drive, offset: 0 } },
        })
    })?;
    out.witness(&results);
    let moved = &mut out.moved;
    for result in &results {
        *moved += result.moved + Ledger::arrived_at_host(result.encoded_len());
        if let Some(hole) = result.unreadable.first() {
            return Err(ScrubError::LostMeanwhile { stripe, reason: hole.reason.clone() });
        }
    }
    let collector = &view.shares[0];
    let place = |i: u64| MemoryAddress { drive: collector.memory_drive, offset: i * set };
    let (range, sum) = if view.shares.len() == 1 {
        (results[0].range, place(0))
    } else {
        for (i, share) in view.shares.iter().enumerate().skip(1) {
            let from = MemoryAddress { drive: share.memory_drive, offset: 0 };
            let peer = collector.node_name.clone();
            let transfer = Transfer { from, len: set, peer, to: place(i as u64) };
            *moved += bring(&*share.node, &*collector.node, &transfer)?;
        }
        let sum = place(view.shares.len() as u64);
        let result = collector.node.parity(&ParityCommand {
            sources: (0..view.shares.len() as u64).map(|i| Source::Memory { address: place(i) }).collect(),
            chunk: window.len,
            window: Window { start: 0, len: window.len },
            stripes: 0..rows,
            rule: Rule::sum(view.shares.len()),
            mode: Mode::Generate { into: sum },
        })?;
        *moved += result.moved + Ledger::arrived_at_host(result.encoded_len());
        (result.range, sum)
    };
    let Some((first, last)) = range else { return Ok(None) };
    // Whole blocks: a verdict needs every position of its block.
    let block = BLOCK as u32;
    let start = first / block * block;
    let end = (last / block + 1).saturating_mul(block).min(window.len);
    let mut syndromes = Vec::with_capacity(view.rows());
    for row in 0..rows {
        let mut bytes = vec![0; (end - start) as usize];
        let offset = sum.offset + row * len + u64::from(start);
        collector.node.memory_read(MemoryAddress { drive: sum.drive, offset }, &mut bytes)?;
        *moved += Ledger::arrived_at_host(bytes.len() as u64 + RESULT_HEADER_BYTES);
        syndromes.push(bytes);
    }
    Ok(Some((window.start + start, syndromes)))
}

/// Examines a stripe with places that some drive does not give back: those are findings, and the equations that remain
/// without them are checked, block by block.
///
/// # Errors
/// Where a node fails for another reason than unreadable media.
pub(crate) fn examine_with_holes(
    target: &Target,
    view: &View,
    stripe: u64,
    known: &[Hole],
) -> Result<Examination, ScrubError> {
    let chunk = target.chunk();
    let parity = target.parity_roles(stripe);
    let check = view.check_matrix(stripe);
    let mut reader = Stripes::new(view, chunk);
    let mut out = Examination::default();
    count_writes(view, chunk, stripe, &mut out)?;
    let mut start = 0;
    while start < chunk {
        let len = (BLOCK as u32).min(chunk - start);
        let window = reader.read(stripe, start, len)?;
        out.moved += Ledger::read_from_drives(window.bytes) + Ledger::arrived_at_host(window.bytes);
        let mut lost: Vec<Role> = window.holes.iter().map(|(role, _)| *role).collect();
        // What was unreadable a moment ago and is not now is a failing drive all the same.
        lost.extend(
            known.iter().filter(|h| h.start < start + len && start < h.start + h.len).map(|h| h.role),
        );
        lost.sort_unstable();
        lost.dedup();
        let missing: Vec<usize> = lost.iter().map(|role| role.index()).collect();
        let remaining = check.eliminate(&missing);
        let rows: Vec<Vec<u8>> = (0..remaining.rows())
            .map(|row| fold(remaining.row(row), view, &window.chunks, len as usize))
            .collect();
        if !rows.is_empty() {
            let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            join(&mut out.diagnoses, diagnose_window(&remaining, parity, &rows, start));
        }
        if !lost.is_empty() {
            push_unreadable(&mut out.diagnoses, start, len, lost);
        }
        start += len;
    }
    count_writes(view, chunk, stripe, &mut out)?;
    Ok(out)
}

/// Asks every node for the counters of the stripe's regions, with a check of a single block, whose outcome does not matter.
fn count_writes(view: &View, chunk: u32, stripe: u64, out: &mut Examination) -> Result<(), ScrubError> {
    let results = on_each(&view.shares, |share| {
        share.node.parity(&ParityCommand {
            sources: share.sources.clone(),
            chunk,
            window: Window { start: 0, len: chunk.min(BLOCK as u32) },
            stripes: stripe..stripe + 1,
            rule: share.rule.clone(),
            mode: Mode::Check,
        })
    })?;
    for result in &results {
        out.moved += result.moved + Ledger::arrived_at_host(result.encoded_len());
    }
    out.witness(&results);
    Ok(())
}

/// One row over the chunks in the view's order.
fn fold(row: &[u8], view: &View, chunks: &[&[u8]], len: usize) -> Vec<u8> {
    let mut sum = vec![0; len];
    for (role, chunk) in view.roles().zip(chunks) {
        gf::add_scaled(&mut sum, chunk, row[role.index()]);
    }
    sum
}

fn push_unreadable(out: &mut Vec<Diagnosis>, start: u32, len: u32, lost: Vec<Role>) {
    let verdict = Verdict::Unreadable(lost);
    let before = out.iter_mut().rev().find(|d| matches!(d.verdict, Verdict::Unreadable(_)));
    if let Some(last) = before
        && last.verdict == verdict
        && last.start + last.len == start
    {
        last.len += len;
        return;
    }
    // The drive itself is the witness.
    out.push(Diagnosis { start, len, verdict, certainty: Certainty::Proven, alternatives: Vec::new() });
}
