//! Examines one suspect stripe exactly: the bytes, the member, the certainty.
//!
//! The nodes fold the stripe's rows where the data is; the host asks where the syndrome is not zero
//! and reads those bytes alone. A stripe with unreadable places is read to the host block by block
//! instead, so that every block is judged that can be. So is a stripe with tags, which are a second
//! witness.

use super::check::on_each;
use super::checked::Hole;
use crate::error::HostError;
use crate::relay::bring;
use crate::repair::{by_role, syndromes as rows_of};
use crate::sectors::{Block, Run};
use crate::stripes::{Stripes, Tags};
use crate::target::{Target, View};
use crate::testimony::{JudgedRun, TagVerdict, acquits, judge_tags, lost, runs, wrong_blocks};
use pumice_base::telemetry::Ledger;
use pumice_base::units::Role;
use pumice_offload::{
    Activity, Grant, MemoryAddress, Mode, ParityCommand, ParityResult, RESULT_HEADER_BYTES, Rule, Source,
    Transfer, Unread, Window, Writes,
};
use pumice_parity::check_matrix::CheckMatrix;
use pumice_raid::diagnosis::{BLOCK, Diagnosis, Evidence, Gap, MOST_WRONG, Verdict, diagnose_window, join};
use std::collections::BTreeSet;

/// Bytes of a chunk that are examined together before the block-by-block examination.
const WINDOW: u32 = 64 << 10;

/// The result of an examination.
#[derive(Debug, Default)]
pub(crate) struct Examination {
    /// By place in the chunk.
    pub(crate) diagnoses: Vec<Diagnosis>,
    /// The counters of each share's node before the first read and after the last.
    pub(crate) activity: Vec<Option<Activity>>,
    pub(crate) moved: Ledger,
}

impl Examination {
    /// Adds the counters of a later command on every share.
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

/// Examines a stripe that every drive can read.
///
/// # Errors
/// If a node fails.
pub(crate) fn examine(target: &Target, view: &View, stripe: u64) -> Result<Examination, HostError> {
    let chunk = target.chunk(stripe);
    let rows = view.rows();
    let mut out = Examination::default();
    // One set of rows from every node, and their sum, share the first node's local memory.
    let sets = view.shares.len() as u64 + 1;
    let fits = (view.memory_bytes / sets).min(view.own_bytes) / rows as u64;
    let whole_blocks = u32::try_from(fits).unwrap_or(u32::MAX) / BLOCK as u32 * BLOCK as u32;
    let window = whole_blocks.min(chunk);
    if window == 0 {
        let need = sets * rows as u64 * BLOCK as u64;
        return Err(HostError::LocalMemory { need, have: view.memory_bytes });
    }
    let mut start = 0;
    while start < chunk {
        let len = window.min(chunk - start);
        let found = syndromes(view, stripe, Window { start, len }, &mut out)?;
        if let Some((offset, rows)) = found {
            let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            let found = judge(target, view, stripe, offset, &rows, &mut out.moved)?;
            join(&mut out.diagnoses, found);
        }
        start += len;
    }
    Ok(out)
}

/// Diagnoses blocks from their syndromes. If a member can be named, the contents of every member
/// are read too, because they are the evidence (R11 to R13 of `docs/design/repair.md`).
fn judge(
    target: &Target,
    view: &View,
    stripe: u64,
    offset: u32,
    rows: &[&[u8]],
    moved: &mut Ledger,
) -> Result<Vec<Diagnosis>, HostError> {
    let check = view.check_matrix(stripe);
    let redundancy = target.redundancy(stripe);
    let found = diagnose_window(check, redundancy, rows, &[], offset);
    if check.rows() < 2 || found.is_empty() {
        return Ok(found);
    }
    let block = BLOCK as u32;
    let mut reader = Stripes::new(view, target.chunk(stripe));
    // The end of a mirror may be shorter than a block.
    let longest = (reader.window_bytes() / block * block).max(block);
    let (mut at, end) = (0, rows[0].len() as u32);
    let mut out = Vec::new();
    while at < end {
        let len = longest.min(end - at);
        let part: Vec<&[u8]> = rows.iter().map(|row| &row[at as usize..(at + len) as usize]).collect();
        let window = reader.read(stripe, offset + at, len)?;
        *moved += Ledger::read_from_drives(window.bytes) + Ledger::arrived_at_host(window.bytes);
        if let Some((_, reason)) = window.holes.first() {
            return Err(HostError::LostMeanwhile { stripe, reason: reason.clone() });
        }
        let contents = by_role(view, &window.chunks, check.columns());
        join(&mut out, diagnose_window(check, redundancy, &part, &contents, offset + at));
        at += len;
    }
    Ok(out)
}

/// The syndrome rows over the blocks that are not zero, and where in the chunk they begin.
type Syndromes = Option<(u32, Vec<Vec<u8>>)>;

fn syndromes(
    view: &View,
    stripe: u64,
    window: Window,
    out: &mut Examination,
) -> Result<Syndromes, HostError> {
    let rows = view.rows() as u64;
    let len = u64::from(window.len);
    let set = rows * len;
    let results = on_each(&view.shares, |share| {
        share.node.parity(&view.command(
            share,
            stripe..stripe + 1,
            window,
            Mode::Generate { into: MemoryAddress { drive: share.memory_drive, offset: 0 } },
        ))
    })?;
    out.witness(&results);
    let moved = &mut out.moved;
    for result in &results {
        *moved += result.moved + Ledger::arrived_at_host(result.encoded_len());
        if let Some(hole) = result.unreadable.first() {
            return Err(HostError::LostMeanwhile { stripe, reason: hole.reason.clone() });
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
            let transfer = Transfer { from, len: set, peer, to: place(i as u64), grant: Grant::NONE };
            *moved += bring(&*share.node, &*collector.node, &transfer)?;
        }
        let sum = place(view.shares.len() as u64);
        let result = collector.node.parity(&ParityCommand {
            unpaced: false,
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

/// Examines a stripe with unreadable places, or with tags, block by block. Failed reads are
/// repeated sector by sector; sectors that can be read then count as usual. The equations that
/// remain without the missing members are checked over each run of sectors.
///
/// # Errors
/// If a node fails, or a drive as a whole.
pub(crate) fn examine_closely(
    target: &Target,
    view: &View,
    stripe: u64,
    known: &[Hole],
) -> Result<Examination, HostError> {
    let chunk = target.chunk(stripe);
    let check = view.check_matrix(stripe);
    let mut reader = Stripes::new(view, chunk);
    let mut out = Examination::default();
    count_writes(view, chunk, stripe, &mut out)?;
    let longest = reader.window_bytes().min(WINDOW) / BLOCK as u32 * BLOCK as u32;
    let mut start = 0;
    while start < chunk {
        let window = longest.max(BLOCK as u32).min(chunk - start);
        let end = start + window;
        if known.is_empty() && is_sound(check, view, &mut reader, stripe, start, window, &mut out)? {
            start = end;
            continue;
        }
        while start < end {
            let len = (BLOCK as u32).min(chunk - start);
            let block = Block::read(target, view, &mut reader, stripe, start, len)?;
            out.moved += Ledger::read_from_drives(block.bytes()) + Ledger::arrived_at_host(block.bytes());
            judge_block(target, check, stripe, &block, &mut out.diagnoses);
            start += len;
        }
    }
    count_writes(view, chunk, stripe, &mut out)?;
    let lost = |hole: &Hole| {
        let inside = |gap: &Gap| gap.role == hole.role;
        out.diagnoses.iter().any(|diagnosis| diagnosis.gaps.iter().any(inside))
    };
    let again: BTreeSet<Role> = known.iter().filter(|hole| !lost(hole)).map(|hole| hole.role).collect();
    again.into_iter().for_each(|role| target.error_account().read_again(role));
    Ok(out)
}

/// Returns whether a window of a stripe can be read completely, every equation holds, and no tag
/// differs.
fn is_sound(
    check: &CheckMatrix,
    view: &View,
    reader: &mut Stripes<'_>,
    stripe: u64,
    start: u32,
    len: u32,
    out: &mut Examination,
) -> Result<bool, HostError> {
    let window = reader.read(stripe, start, len)?;
    out.moved += Ledger::read_from_drives(window.bytes) + Ledger::arrived_at_host(window.bytes);
    if !window.holes.is_empty() || window.tags.iter().flatten().any(Tags::is_faulty) {
        return Ok(false);
    }
    let contents = by_role(view, &window.chunks, check.columns());
    let rows = rows_of(check, &contents, len as usize);
    Ok(rows.iter().all(|row| row.iter().all(|byte| *byte == 0)))
}

/// Diagnoses a block by its tags, its equations and its missing sectors.
fn judge_block(
    target: &Target,
    check: &CheckMatrix,
    stripe: u64,
    block: &Block,
    diagnoses: &mut Vec<Diagnosis>,
) {
    let heard = judge_tags(check, block);
    let whole = block.missing.is_empty() && heard.is_empty();
    for (run, suspects) in runs(block) {
        if suspects.is_empty() {
            join(diagnoses, judge_run(target, check, stripe, block, &run, whole));
        }
    }
    for heard in &heard {
        join(diagnoses, diagnoses_of(target, stripe, block, heard));
    }
    for (role, part) in lost(block) {
        let verdict = Verdict::TagLost(vec![role]);
        let (start, len) = (block.start + part.start, part.end - part.start);
        join(diagnoses, vec![Diagnosis::of_tags(start, len, verdict, None)]);
    }
    for why in [Unread::Refused, Unread::NotAsked] {
        let (roles, gaps) = block.gaps(why);
        if !gaps.is_empty() {
            let verdict = match why {
                Unread::Refused => Verdict::Unreadable(roles),
                Unread::NotAsked => Verdict::NotAsked(roles),
            };
            join(diagnoses, vec![Diagnosis::of_gaps(block.start, block.len, verdict, gaps)]);
        }
    }
}

/// Diagnoses a run by its equations. `whole` means that no sector of its block is missing or
/// differs from its tag.
fn judge_run(
    target: &Target,
    check: &CheckMatrix,
    stripe: u64,
    block: &Block,
    run: &Run,
    whole: bool,
) -> Vec<Diagnosis> {
    let remaining = check.eliminate(&run.columns());
    let rows = block.syndromes(&remaining, run);
    if rows.is_empty() {
        return Vec::new();
    }
    let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
    let contents = block.contents(run);
    let start = block.start + run.range.start;
    let mut found = diagnose_window(&remaining, target.redundancy(stripe), &rows, &contents, start);
    for diagnosis in &mut found {
        if !whole {
            diagnosis.evidence = diagnosis.evidence.take().map(Evidence::beside_a_gap);
        }
        if let [role] = diagnosis.verdict.accused()[..] {
            let range = diagnosis.start - block.start..diagnosis.end() - block.start;
            diagnosis.testimony = acquits(block, role, &range);
        }
    }
    found
}

/// The diagnoses of a run in which tags differ.
fn diagnoses_of(target: &Target, stripe: u64, block: &Block, heard: &JudgedRun) -> Vec<Diagnosis> {
    let JudgedRun { run, verdict } = heard;
    let whole = |verdict| {
        let len = run.range.end - run.range.start;
        Diagnosis::of_tags(block.start + run.range.start, len, verdict, None)
    };
    match verdict {
        TagVerdict::Tags(roles) => vec![whole(Verdict::TagDamaged(roles.clone()))],
        TagVerdict::Ambiguous(roles) => vec![whole(Verdict::Ambiguous(roles.clone()))],
        TagVerdict::Convicted { members, testimony, tags, .. } => {
            let columns: Vec<usize> = members.iter().map(|(role, _)| role.index()).collect();
            let verdict = Verdict::of_members(&columns, target.redundancy(stripe));
            let (first, last) = changed(block, run, members);
            let start = block.start + run.range.start + first;
            let mut convicted = Diagnosis::of_tags(start, last + 1 - first, verdict, Some(*testimony));
            convicted.wrong = wrong_blocks(block, run, members);
            convicted.wrong.truncate(MOST_WRONG);
            let mut out = vec![convicted];
            if !tags.is_empty() {
                out.push(whole(Verdict::TagDamaged(tags.clone())));
            }
            out
        }
    }
}

/// The first and the last byte of a run that must change.
fn changed(block: &Block, run: &Run, members: &[(Role, Vec<u8>)]) -> (u32, u32) {
    let (mut first, mut last) = (u32::MAX, 0);
    for (role, new) in members {
        let old = block.chunks[role.index()].iter().flat_map(|chunk| &chunk[run.bytes()]);
        for (at, _) in (0..).zip(old.zip(new)).filter(|(_, (old, new))| old != new) {
            (first, last) = (first.min(at), last.max(at));
        }
    }
    // A tag that differs is of other bytes than those that lie there.
    (first.min(last), last)
}

/// Asks every node for the counters of the stripe's regions, with a check of a single block, whose
/// outcome does not matter.
fn count_writes(view: &View, chunk: u32, stripe: u64, out: &mut Examination) -> Result<(), HostError> {
    let results = on_each(&view.shares, |share| {
        let window = Window { start: 0, len: chunk.min(BLOCK as u32) };
        share.node.parity(&view.command(share, stripe..stripe + 1, window, Mode::Check))
    })?;
    for result in &results {
        out.moved += result.moved + Ledger::arrived_at_host(result.encoded_len());
    }
    out.witness(&results);
    Ok(())
}
