//! One pass over an array: the scan, then the repair of what it found.

mod again;
mod mend;

use super::batch::{Order, Schedule};
use super::begin::{Begun, begin, settle_repaired};
use super::check::Checker;
use super::error::ScrubError;
use super::retry::{RECONNECT, Retry, reconnect};
use super::settle::{SETTLE, Settled, Settler, stand};
use super::settling::{Patience, Standing};
use crate::finding::{Finding, Verdict};
use crate::members::Equations;
use crate::pattern::Pattern;
use crate::repair::archive::KEPT_FOR;
use crate::repair::{Books, Found, Repairer};
use crate::state::{SavedPass, StateFiles};
use crate::stop::Stop;
use crate::target::{Target, View};
use crate::{Method, date, repair};
use pumice_offload::{LinkFigures, MAX_STRIPES, PaceFigures, PaceRequest};
use pumice_parity::kernels::Kernels;
use pumice_parity::seed::Seed;
use pumice_parity::weights::miss_bound;
use pumice_raid::plan::SkipReason;
use pumice_telemetry::Ledger;
use pumice_units::Role;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::repair::RepairPolicy;

/// New findings after which a pass stops, unless said otherwise: an array with more is not scrubbed but restored.
const MAX_FINDINGS: usize = 100_000;
/// How often progress is saved.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// Stripes of a batch that could be judged from which on it can be said that most of them are inconsistent.
const UNSYNCED_BATCH: u64 = 8;
/// Stripes of a batch unless said otherwise: the period of 2 in GF(2^8).
pub(super) const BATCH: u64 = 255;
/// Power sums a row of a fingerprint: they name up to four bad stripes in each plane.
pub(crate) const POWERS: u8 = 8;

/// What to check and how. `None` where the caller leaves it to the pass.
#[derive(Debug, Clone)]
pub struct Options {
    /// How stripes are checked.
    pub method: Option<Method>,
    /// Stripes of a batch, at most.
    pub batch: Option<u64>,
    /// Accumulators of `stripe` across nodes and `aggregate`, 1 to 8.
    pub accumulators: Option<u8>,
    /// What weights and keys are drawn from, where the operator fixes it.
    pub seed: Option<Seed>,
    /// A fresh seed, for a pass that is not resumed.
    pub fresh_seed: Seed,
    /// Which stripes.
    pub range: Option<Range<u64>>,
    /// In which order.
    pub order: Option<Order>,
    /// Whether and how to repair.
    pub repair: Option<RepairPolicy>,
    /// Do everything that a repair does, up to its first write.
    pub dry_run: bool,
    /// Go on with an interrupted pass, where there is one.
    pub resume: bool,
    /// The devices may be written meanwhile: inconsistencies must stand.
    pub in_use: bool,
    /// How long an inconsistency must stand on devices that others may be writing.
    pub settle: Duration,
    /// The pace of the nodes' reads; nothing to leave it to their own configuration.
    pub pace: PaceRequest,
    /// Another host runs the array, and its superblocks do not tell that from one that was not stopped cleanly.
    pub running_elsewhere: bool,
    /// Members that were not named, though md holds the array to have them, are no reason to call the result incomplete.
    pub accept_degraded: bool,
    /// Findings of one run of the pass after which it stops; a pass that is resumed may add as many again.
    pub max_findings: usize,
    /// How long lost connections are tried anew, since the first failure in a row; zero for not at all.
    pub reconnect: Duration,
    /// How long the bytes that repairs replaced are kept, in seconds. Older ones are deleted when a
    /// repairing pass begins.
    pub keep_repairs: u64,
}

impl Options {
    /// Whether the options make sense for an array: what can be refused before anything is opened, recovered or written.
    ///
    /// # Errors
    /// Names the option.
    pub fn check(&self, target: &Target) -> Result<(), ScrubError> {
        let stripes = target.geometry().stripes();
        if let Some(range) = self.range.as_ref().filter(|r| r.start >= r.end || r.end > stripes) {
            return Err(ScrubError::Range { start: range.start, end: range.end, stripes });
        }
        if let Some(batch) = self.batch.filter(|batch| !(1..=MAX_STRIPES).contains(batch)) {
            let value = batch.to_string();
            return Err(ScrubError::Option { option: "--batch", value, allowed: "1 to 4194304 stripes" });
        }
        if let Some(accumulators) = self.accumulators.filter(|n| !(1..=8).contains(n)) {
            let value = accumulators.to_string();
            return Err(ScrubError::Option { option: "--accumulators", value, allowed: "1 to 8" });
        }
        Ok(())
    }

    /// The pass's own choices, with a fresh seed.
    #[must_use]
    pub fn with_seed(fresh_seed: Seed) -> Self {
        Self {
            method: None,
            batch: None,
            accumulators: None,
            seed: None,
            fresh_seed,
            range: None,
            order: None,
            repair: None,
            dry_run: false,
            resume: false,
            in_use: false,
            settle: SETTLE,
            pace: PaceRequest::default(),
            running_elsewhere: false,
            accept_degraded: false,
            max_findings: MAX_FINDINGS,
            reconnect: RECONNECT,
            keep_repairs: KEPT_FOR,
        }
    }
}

/// Where a pass is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Stripes checked.
    pub stripes: u64,
    /// Stripes to check in all.
    pub of_stripes: u64,
    /// Bytes checked.
    pub bytes: u64,
    /// Findings so far.
    pub findings: usize,
}

/// Who watches a pass.
pub trait Observer {
    /// A batch is done.
    fn progress(&mut self, progress: &Progress);
    /// Something was found (and perhaps repaired).
    fn finding(&mut self, finding: &Finding);
    /// Something an operator should know.
    fn note(&mut self, note: &str);
}

/// Why a pass ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The operator wanted it.
    Interrupted,
    /// A node or the state directory failed.
    Failed(String),
    /// More findings than a scrub can be about.
    TooManyFindings,
    /// Somebody took a device of this machine into use, which nobody had when the pass began: who,
    /// and which device.
    TakenIntoUse(String),
}

/// Why a result is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfinished {
    /// The pass ended before its end.
    Stopped,
    /// Stripes of the range could not be judged, and were left out.
    Skipped,
    /// Stripes would not stand still.
    Busy,
    /// Bytes of stripes were not asked for: the member's error time is spent.
    NotAsked,
    /// Fewer stripes were checked than were asked for, for none of the other reasons.
    Uncovered,
    /// A member that md holds the array to have was not named, and that was not accepted.
    NotNamed,
}

/// Stripes that were left out, by reason.
pub type SkippedStripes = BTreeMap<SkipReason, u64>;

/// What a pass brought.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The method that ran.
    pub method: Method,
    /// What was found, by place.
    pub findings: Vec<Finding>,
    /// Stripes that were asked for: those of the range.
    pub stripes_asked: u64,
    /// Stripes checked, resumed ones included.
    pub stripes_checked: u64,
    /// What findings have in common: such findings are not repaired by default.
    pub patterns: Vec<Pattern>,
    /// Stripes of which a member refused bytes at first, and gave back all of them later, by member.
    pub read_again: BTreeMap<Role, u64>,
    /// Stripes left out.
    pub skipped: SkippedStripes,
    /// Stripes that looked inconsistent, and were consistent when they were looked at again: written while they were read.
    pub rechecked: u64,
    /// Bytes checked, resumed ones included.
    pub bytes_checked: u64,
    /// What the members' nodes measured of their pace, by role; nothing where there was none.
    pub pacing: Vec<(Role, PaceFigures)>,
    /// Bytes by place.
    pub ledger: Ledger,
    /// The chance that damage of a batch went unseen, at most: the largest over the batches.
    pub miss_bound: f64,
    /// The stripes that were asked for.
    pub range: Range<u64>,
    /// The equations that could be checked.
    pub equations: Equations,
    /// Members that md holds the array to have, that were not named, and whose absence was not accepted.
    pub not_named: Vec<Role>,
    /// What the connections to the nodes moved since they were made, a value for each node behind a network.
    pub links: Vec<LinkFigures>,
    /// How often lost connections were made anew.
    pub reconnections: u64,
    /// Batches checked.
    pub batches: usize,
    /// Seconds spent, resumed ones included.
    pub seconds: f64,
    /// Why it ended early.
    pub stopped: Option<StopReason>,
}

impl Outcome {
    /// Stripes left out for another reason than that they were never written.
    #[must_use]
    pub fn unsettled_stripes(&self) -> u64 {
        self.skipped.iter().filter(|(reason, _)| **reason != SkipReason::NeverWritten).map(|(_, n)| n).sum()
    }

    /// What keeps the result from being complete.
    #[must_use]
    pub fn unfinished(&self) -> Vec<Unfinished> {
        let reasons = [
            (self.stopped.is_some(), Unfinished::Stopped),
            (self.unsettled_stripes() > 0, Unfinished::Skipped),
            (self.findings.iter().any(Finding::is_busy), Unfinished::Busy),
            (self.findings.iter().any(|f| f.verdict == Verdict::NotAsked), Unfinished::NotAsked),
            (!self.not_named.is_empty(), Unfinished::NotNamed),
        ];
        let mut out: Vec<Unfinished> =
            reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason).collect();
        if out.is_empty() && !self.covers_range() {
            out.push(Unfinished::Uncovered);
        }
        out
    }

    /// Whether the stripes that were checked, and those that were never written, are all that were asked
    /// for. Nothing is clean without this, however the pass came to its end.
    #[must_use]
    pub fn covers_range(&self) -> bool {
        let never_written = self.skipped.get(&SkipReason::NeverWritten).copied().unwrap_or(0);
        self.stripes_checked.checked_add(never_written) == Some(self.stripes_asked)
    }

    /// Whether everything that should be checked was.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unfinished().is_empty()
    }
}

/// Runs a pass.
///
/// `state` is where progress and the repair journal live; without it, nothing can be resumed, and nothing repaired. `stop` ends the
/// pass, and every wait of it, at once; a repair that has begun is brought to its end. The batch in hand is done again by the pass that
/// resumes.
///
/// # Errors
/// Where the pass cannot begin. What happens once it has begun is part of the [`Outcome`].
pub fn run(
    target: &Target,
    state: Option<&StateFiles>,
    options: &Options,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Outcome, ScrubError> {
    let mut pass = Pass::prepare(target, state, options, observer, stop)?;
    let nodes: Vec<_> = target.nodes().map(Arc::clone).collect();
    let _listening = stop.listen(move || nodes.iter().for_each(|node| node.give_up()));
    let stopped = pass.batches(observer).or_else(|| pass.mend());
    Ok(pass.finish(stopped, observer))
}

struct Pass<'t> {
    target: &'t Target,
    stop: &'t Stop,
    retry: Retry,
    /// Members are written: the nodes are held.
    repairs: bool,
    state: Option<&'t StateFiles>,
    standing: Standing,
    accept_degraded: bool,
    /// Findings at which this run of the pass stops.
    most_findings: usize,
    schedule: Schedule,
    repairer: Option<Repairer<'t>>,
    saved: SavedPass,
    /// How often lost connections were made anew.
    reconnections: u64,
    view: Option<(Range<u64>, View)>,
    began: Instant,
    seconds_before: f64,
    saved_at: Instant,
    /// Whether the last save went well, or none was tried yet.
    is_saving: bool,
}

impl<'t> Pass<'t> {
    fn prepare(
        target: &'t Target,
        state: Option<&'t StateFiles>,
        options: &Options,
        observer: &mut dyn Observer,
        stop: &'t Stop,
    ) -> Result<Self, ScrubError> {
        options.check(target)?;
        if options.repair.is_some() && options.in_use && !options.dry_run {
            return Err(no_repair("a repair needs devices that nobody else writes"));
        }
        let Begun { mut saved, schedule, resumed } = begin(target, state, options, observer)?;
        let repairer = match (options.repair, state) {
            (None, _) => None,
            (Some(policy), _) if options.dry_run => Some(Repairer::new(target, None, policy)),
            (Some(policy), Some(state)) => {
                let books = open_books(target, state, &saved, options, observer)?;
                Some(Repairer::new(target, Some(books), policy))
            }
            (Some(_), None) => return Err(no_repair("a repair needs a state directory for its journal")),
        };
        if let (true, Some(state)) = (repairer.is_none() || options.dry_run, state) {
            note_waiting(state, observer);
        }
        if let (true, Some(state)) = (resumed, state) {
            // After a recovery, which may have finished one.
            settle_repaired(target, &mut saved, &schedule, state, observer)?;
        }
        if !options.pace.is_empty() {
            target.nodes().try_for_each(|node| node.pace(&options.pace))?;
        }
        let now = Instant::now();
        let standing = stand(target, now, options.in_use, options.settle, options.running_elsewhere)?;
        let seconds_before = saved.seconds;
        Ok(Self {
            target,
            stop,
            retry: Retry::new(options.reconnect),
            reconnections: 0,
            repairs: options.repair.is_some() && !options.dry_run,
            state,
            standing,
            accept_degraded: options.accept_degraded,
            most_findings: saved.findings.len().saturating_add(options.max_findings),
            schedule,
            repairer,
            saved,
            view: None,
            began: now,
            seconds_before,
            saved_at: now,
            is_saving: true,
        })
    }

    /// Why it ended before its end. What was found until then stays found; a batch that failed is done again by the pass that resumes.
    fn batches(&mut self, observer: &mut dyn Observer) -> Option<StopReason> {
        let failed = |error: ScrubError| Some(StopReason::Failed(error.to_string()));
        observer.progress(&self.progress());
        while let Some(stripes) = self.schedule.batches.get(self.saved.batches_done).cloned() {
            if self.stop.is_raised() {
                return Some(StopReason::Interrupted);
            }
            while let Err(error) = self.batch(stripes.clone(), observer) {
                if let Err(error) = self.try_again(error, observer) {
                    let cut_short = self.is_cut_short(&error);
                    return if cut_short { Some(StopReason::Interrupted) } else { failed(error) };
                }
            }
            self.retry.succeeded();
            self.saved.batches_done += 1;
            observer.progress(&self.progress());
            let more = self.saved.batches_done < self.schedule.batches.len();
            if more && self.saved.findings.len() >= self.most_findings {
                return Some(StopReason::TooManyFindings);
            }
            if self.saved_at.elapsed() >= SAVE_EVERY {
                self.save(observer);
            }
        }
        if self.stop.is_raised() {
            return Some(StopReason::Interrupted);
        }
        let error = self.look_again(observer).err()?;
        if self.is_cut_short(&error) { Some(StopReason::Interrupted) } else { failed(error) }
    }

    /// Whether something failed because the operator wants the pass to end: a wait, or a command of a node.
    fn is_cut_short(&self, error: &ScrubError) -> bool {
        self.stop.is_raised() && (matches!(error, ScrubError::Interrupted) || error.is_lost_connection())
    }

    /// After a batch failed with `error`: waits and connects anew, if that can help. Then the batch is done again from its beginning,
    /// with other local memory. A pass that repairs ends instead: it held the nodes, and others may have written since.
    fn try_again(&mut self, mut error: ScrubError, observer: &mut dyn Observer) -> Result<(), ScrubError> {
        loop {
            if self.stop.is_raised() || self.repairs || !error.is_lost_connection() {
                return Err(error);
            }
            let Some(wait) = self.retry.failed(Instant::now()) else { return Err(error) };
            observer.note(&format!("{error}; trying again in {:.2} s", wait.as_secs_f64()));
            self.stop.wait(wait).map_err(|_| ScrubError::Interrupted)?;
            match reconnect(self.target, self.stop) {
                Ok(()) => break,
                Err(again) => error = again,
            }
        }
        self.reconnections += 1;
        // Local memory is leased anew, and perhaps less of it.
        self.view = None;
        Ok(())
    }

    fn progress(&self) -> Progress {
        Progress {
            stripes: self.saved.stripes_checked,
            of_stripes: self.schedule.stripes(),
            bytes: self.saved.bytes_checked,
            findings: self.saved.findings.len(),
        }
    }

    fn try_save(&mut self) -> Result<(), ScrubError> {
        self.saved.seconds = self.seconds_before + self.began.elapsed().as_secs_f64();
        self.saved.saved = date::now().max(self.saved.begun);
        self.saved_at = Instant::now();
        self.state.map_or(Ok(()), |state| state.save(&self.saved))
    }

    /// Saves progress. If that fails the pass goes on, and says so once: what it finds is in its report
    /// all the same.
    fn save(&mut self, observer: &mut dyn Observer) {
        match self.try_save() {
            Err(error) if self.is_saving => {
                observer.note(&format!("progress is not saved: {error}"));
                self.is_saving = false;
            }
            Err(_) => {}
            Ok(()) => self.is_saving = true,
        }
    }

    /// The view of a batch; batches never cross a border.
    fn take_view(&mut self, stripe: u64) -> Result<View, ScrubError> {
        if let Some((range, view)) = self.view.take()
            && range.contains(&stripe)
        {
            return Ok(view);
        }
        self.target.view(stripe)
    }

    fn put_view(&mut self, stripe: u64, view: View) {
        let borders = self.target.borders();
        let start = borders.iter().copied().filter(|b| *b <= stripe).max().unwrap_or(0);
        let end = borders.iter().copied().find(|b| *b > stripe).unwrap_or(u64::MAX);
        self.view = Some((start..end, view));
    }

    fn batch(&mut self, stripes: Range<u64>, observer: &mut dyn Observer) -> Result<(), ScrubError> {
        let view = self.take_view(stripes.start)?;
        let method = self.saved.key.method;
        let checker = Checker {
            view: &view,
            chunk: self.target.chunk(),
            accumulators: self.saved.key.accumulators,
            powers: POWERS,
            seed: &self.saved.key.seed,
            kernels: Kernels::best(),
        };
        let checked = checker.check(method, stripes.clone())?;
        let mut ledger = checked.moved;
        let mut findings = Vec::new();
        let mut suspects = checked.holes;
        suspects.extend(checked.suspects.into_iter().map(|stripe| (stripe, Vec::new())));
        let settler = Settler {
            target: self.target,
            view: &view,
            zero: self.began,
            patience: Patience::Batch,
            stop: self.stop,
        };
        let settled = settler.settle(&mut self.standing, &suspects)?;
        ledger += settled.moved;
        self.refuse_unsynced(&stripes, &settled)?;
        for (stripe, diagnoses) in &settled.findings {
            let unsettled = settled.unsettled.get(stripe).copied();
            for diagnosis in diagnoses {
                let alone = diagnoses.len() == 1;
                let finding = Finding::new(self.target, *stripe, diagnosis, alone, unsettled);
                // A busy one is shown when it has been looked at again, at the end of the pass.
                if !finding.is_busy() {
                    observer.finding(&finding);
                }
                findings.push(finding);
            }
        }
        let count = stripes.end - stripes.start;
        let present = view.present() as u64;
        self.saved.ledger += ledger;
        self.saved.stripes_checked += count;
        self.saved.rechecked += settled.rechecked;
        self.saved.bytes_checked += count * present * u64::from(checker.chunk);
        self.saved.miss_bound = self.saved.miss_bound.max(bound(method, &view, count, checker.accumulators));
        self.saved.findings.extend(findings);
        self.put_view(stripes.start, view);
        Ok(())
    }

    /// An array that another host runs is taken for synced (`Options::running_elsewhere`). Where most of the stripes of a batch that could be judged are inconsistent, it is not: its parity is being
    /// built, and what it looks like now are no findings. What that host is writing meanwhile says nothing, and what a drive does not give back neither.
    fn refuse_unsynced(&self, stripes: &Range<u64>, settled: &Settled) -> Result<(), ScrubError> {
        let disturbed =
            settled.unsettled.keys().filter(|stripe| !settled.undisturbed(**stripe)).count() as u64;
        let judged = stripes.end - stripes.start - disturbed;
        if self.standing.run_by_hosts && judged >= UNSYNCED_BATCH && settled.inconsistent() > judged / 2 {
            return Err(ScrubError::Unsynced { start: stripes.start, end: stripes.end });
        }
        Ok(())
    }

    fn finish(mut self, stopped: Option<StopReason>, observer: &mut dyn Observer) -> Outcome {
        let by_place = |f: &Finding| (f.stripe, f.chunk_offset);
        self.saved.findings.sort_by_key(by_place);
        if self.repairer.is_none() {
            self.saved.patterns = crate::pattern::apply(&mut self.saved.findings);
        }
        // Saved even if nothing is left to resume: a state that cannot be removed must not be one of an
        // earlier batch.
        self.save(observer);
        if let (None, Some(state), true) = (&stopped, self.state, self.is_saving)
            && let Err(error) = state.clear()
        {
            observer.note(&format!("the saved progress stays, although the pass is at its end: {error}"));
        }
        // A node that does not answer has been reported already.
        let pacing = self.target.pace_figures().unwrap_or_default();
        let not_named = match self.accept_degraded {
            true => Vec::new(),
            false => self.target.array().not_named().to_vec(),
        };
        let saved = self.saved;
        Outcome {
            method: saved.key.method,
            findings: saved.findings,
            stripes_asked: saved.key.range.end - saved.key.range.start,
            patterns: saved.patterns,
            read_again: self.target.error_account().stripes_read_again(),
            stripes_checked: saved.stripes_checked,
            skipped: self.schedule.skipped,
            rechecked: saved.rechecked,
            bytes_checked: saved.bytes_checked,
            pacing,
            ledger: saved.ledger,
            miss_bound: saved.miss_bound,
            range: saved.key.range,
            equations: Equations::of(self.target, &self.schedule.batches),
            not_named,
            links: self.target.nodes().filter_map(|node| node.link_figures()).collect(),
            reconnections: self.reconnections,
            batches: saved.batches_done,
            seconds: self.seconds_before + self.began.elapsed().as_secs_f64(),
            stopped,
        }
    }
}

/// What a repair needs: a settled journal, the archive, and a state directory that takes what is written.
/// After everything that can be refused: a recovery writes.
fn open_books(
    target: &Target,
    state: &StateFiles,
    saved: &SavedPass,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Books, ScrubError> {
    let archive = state.archive();
    let found = state.journal()?;
    if let Some(why) = state.read_only() {
        return Err(ScrubError::NotKept { path: archive.path(), reason: why.to_owned() });
    }
    let (recovery, journal) = repair::recover(target, found, &archive)?;
    if recovery != repair::Recovery::Nothing {
        observer.note(&recovery.to_string());
    }
    // A directory that is full says so now, not in the middle.
    state.save(saved)?;
    let deleted = archive.tidy(date::now(), options.keep_repairs)?;
    if deleted > 0 {
        let path = archive.path();
        observer.note(&format!("deleted what {deleted} old repairs had replaced, from {}", path.display()));
    }
    Ok(Books { journal, archive, pass: saved.pass })
}

/// Says that an interrupted repair waits, to a pass that does not repair.
fn note_waiting(state: &StateFiles, observer: &mut dyn Observer) {
    match state.journal() {
        Ok(Found::Settled(_)) => {}
        Ok(Found::Waiting(waiting)) => {
            let roles: Vec<String> = waiting.intent().records.iter().map(|r| r.role.to_string()).collect();
            observer.note(&format!(
                "a repair of this array was interrupted, in stripe {} of member {}; run with --repair to bring it to an end ({})",
                waiting.intent().stripe,
                roles.join(", "),
                waiting.path().display()
            ));
        }
        Err(error) => observer.note(&format!("a repair of this array was interrupted: {error}")),
    }
}

fn no_repair(allowed: &'static str) -> ScrubError {
    ScrubError::Option { option: "--repair", value: "on".to_owned(), allowed }
}

/// The chance that fixed damage of a batch goes unseen, at most. `docs/scrub-maths.md` derives it.
fn bound(method: Method, view: &View, stripes: u64, accumulators: u8) -> f64 {
    let nodes = view.shares.len();
    match method {
        Method::Host => 0.0,
        Method::Stripe if nodes == 1 => 0.0,
        Method::Stripe => miss_bound(view.rows(), view.guard(), 1, accumulators),
        Method::Aggregate => miss_bound(view.rows(), view.guard(), stripes, accumulators),
        Method::Fingerprint => 2_f64.powi(-63),
    }
}
