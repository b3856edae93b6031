//! One pass over an array.

mod again;

use super::batch::{Order, Schedule};
use super::check::Checker;
use super::error::ScrubError;
use super::settle::{SETTLE, Settled, Settler, stand};
use super::settling::{Patience, Standing};
use crate::finding::Finding;
use crate::repair::{Journal, Repaired, Repairer};
use crate::state::{Before, PassKey, SavedPass, Shape, StateFiles, VERSION};
use crate::target::{Target, View};
use crate::{Method, repair};
use pumice_offload::{MAX_STRIPES, PaceFigures, PaceRequest};
use pumice_parity::kernels::Kernels;
use pumice_parity::seed::Seed;
use pumice_parity::weights::miss_bound;
use pumice_raid::diagnosis::Diagnosis;
use pumice_raid::plan::SkipReason;
use pumice_telemetry::Ledger;
use pumice_units::Role;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use crate::repair::RepairPolicy;

/// Findings after which a pass stops: an array with more is not scrubbed but restored.
const MAX_FINDINGS: usize = 100_000;
/// How often progress is saved.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// Stripes of a batch that could be judged from which on it can be said that most of them are inconsistent.
const UNSYNCED_BATCH: u64 = 8;
/// Stripes of a batch unless said otherwise: the period of 2 in GF(2^8).
const BATCH: u64 = 255;
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
            resume: false,
            in_use: false,
            settle: SETTLE,
            pace: PaceRequest::default(),
            running_elsewhere: false,
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
    /// Stripes checked, resumed ones included.
    pub stripes_checked: u64,
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

    /// Whether everything that should be checked was.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.stopped.is_none() && self.unsettled_stripes() == 0 && !self.findings.iter().any(Finding::is_busy)
    }
}

/// Runs a pass.
///
/// `state` is where progress and the repair journal live; without it, nothing can be resumed, and nothing repaired. `interrupt` stops the
/// pass after the batch in hand.
///
/// # Errors
/// Where the pass cannot begin. What happens once it has begun is part of the [`Outcome`].
pub fn run(
    target: &Target,
    state: Option<&StateFiles>,
    options: &Options,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Result<Outcome, ScrubError> {
    let mut pass = Pass::prepare(target, state, options, observer)?;
    let stopped = pass.batches(observer, interrupt);
    Ok(pass.finish(stopped))
}

struct Pass<'t> {
    target: &'t Target,
    state: Option<&'t StateFiles>,
    standing: Standing,
    seed: Seed,
    schedule: Schedule,
    repairer: Option<Repairer<'t>>,
    saved: SavedPass,
    /// Findings of a batch that failed, which are found again when it is done again.
    unfinished: Vec<Finding>,
    view: Option<(Range<u64>, View)>,
    began: Instant,
    seconds_before: f64,
    saved_at: Instant,
}

impl<'t> Pass<'t> {
    fn prepare(
        target: &'t Target,
        state: Option<&'t StateFiles>,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Self, ScrubError> {
        options.check(target)?;
        if options.repair.is_some() && options.in_use {
            return Err(no_repair("a repair needs devices that nobody else writes"));
        }
        let (saved, schedule) = start(target, state, options, observer)?;
        let seed: Seed = saved.key.seed.parse().map_err(|_| ScrubError::Option {
            option: "--seed",
            value: saved.key.seed.clone(),
            allowed: "64 hexadecimal digits",
        })?;
        // After everything that can be refused: a recovery writes.
        let repairer = match (options.repair, state) {
            (None, _) => None,
            (Some(policy), Some(state)) => {
                let journal = Journal::at(state.journal_path());
                let recovery = repair::recover(target, &journal)?;
                if recovery != repair::Recovery::Nothing {
                    observer.note(&recovery.to_string());
                }
                Some(Repairer::new(target, journal, policy))
            }
            (Some(_), None) => return Err(no_repair("a repair needs a state directory for its journal")),
        };
        if repairer.is_none() && state.is_some_and(|state| state.journal_path().exists()) {
            observer.note("a repair of this array was interrupted; run with --repair to bring it to an end");
        }
        if !options.pace.is_empty() {
            target.nodes().try_for_each(|node| node.pace(&options.pace))?;
        }
        let now = Instant::now();
        let standing = stand(target, now, options.in_use, options.settle, options.running_elsewhere)?;
        let seconds_before = saved.seconds;
        Ok(Self {
            target,
            state,
            standing,
            seed,
            schedule,
            repairer,
            saved,
            unfinished: Vec::new(),
            view: None,
            began: now,
            seconds_before,
            saved_at: now,
        })
    }

    /// Why it ended before its end. What was found until then stays found; a batch that failed is done again by the pass that resumes.
    fn batches(&mut self, observer: &mut dyn Observer, interrupt: &AtomicBool) -> Option<StopReason> {
        let failed = |error: ScrubError| Some(StopReason::Failed(error.to_string()));
        observer.progress(&self.progress());
        while let Some(stripes) = self.schedule.batches.get(self.saved.batches_done).cloned() {
            // Relaxed: a flag that is only ever raised; a batch later is soon enough.
            if interrupt.load(Ordering::Relaxed) {
                return Some(StopReason::Interrupted);
            }
            if let Err(error) = self.batch(stripes, observer) {
                return failed(error);
            }
            self.saved.batches_done += 1;
            observer.progress(&self.progress());
            if self.saved.findings.len() >= MAX_FINDINGS {
                return Some(StopReason::TooManyFindings);
            }
            if self.saved_at.elapsed() >= SAVE_EVERY
                && let Err(error) = self.save()
            {
                return failed(error);
            }
        }
        if interrupt.load(Ordering::Relaxed) {
            return Some(StopReason::Interrupted);
        }
        self.look_again(observer).err().and_then(failed)
    }

    fn progress(&self) -> Progress {
        Progress {
            stripes: self.saved.stripes_checked,
            of_stripes: self.schedule.stripes(),
            bytes: self.saved.bytes_checked,
            findings: self.saved.findings.len(),
        }
    }

    fn save(&mut self) -> Result<(), ScrubError> {
        self.saved.seconds = self.seconds_before + self.began.elapsed().as_secs_f64();
        self.saved_at = Instant::now();
        self.state.map_or(Ok(()), |state| state.save(&self.saved))
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
            seed: &self.seed,
            kernels: Kernels::best(),
        };
        let checked = checker.check(method, stripes.clone())?;
        let mut ledger = checked.moved;
        let mut findings = Vec::new();
        let mut suspects = checked.holes;
        suspects.extend(checked.suspects.into_iter().map(|stripe| (stripe, Vec::new())));
        let settler =
            Settler { target: self.target, view: &view, zero: self.began, patience: Patience::Batch };
        let settled = settler.settle(&mut self.standing, &suspects)?;
        ledger += settled.moved;
        self.refuse_unsynced(&stripes, &settled)?;
        for (stripe, diagnoses) in &settled.findings {
            let unsettled = settled.unsettled.get(stripe).copied();
            for diagnosis in diagnoses {
                findings.push(Finding::new(self.target, *stripe, diagnosis, unsettled));
                let finding = findings.last_mut().expect("just pushed");
                if let Err(error) = self.judge(&view, finding, diagnosis, &mut ledger, observer) {
                    self.give_up(findings, ledger);
                    return Err(error);
                }
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

    /// Keeps what a batch has found before it failed. The pass that does it again finds all of it once more, but for what is repaired by now.
    fn give_up(&mut self, findings: Vec<Finding>, ledger: Ledger) {
        let (repaired, unfinished): (Vec<_>, Vec<_>) = findings.into_iter().partition(|f| f.repaired);
        self.saved.ledger += ledger;
        self.saved.findings.extend(repaired);
        self.unfinished = unfinished;
    }

    /// Repairs what may be repaired of a finding, and shows it.
    fn judge(
        &self,
        view: &View,
        finding: &mut Finding,
        diagnosis: &Diagnosis,
        ledger: &mut Ledger,
        observer: &mut dyn Observer,
    ) -> Result<(), ScrubError> {
        if let Some(repairer) = &self.repairer {
            match repairer.repair(view, finding.stripe, diagnosis, ledger)? {
                Repaired::Yes => finding.repaired = true,
                Repaired::No(why) => {
                    observer.note(&format!("stripe {}: not repaired: {why}", finding.stripe));
                }
            }
        }
        // A busy one is shown when it has been looked at again, at the end of the pass.
        if !finding.is_busy() {
            observer.finding(finding);
        }
        Ok(())
    }

    fn finish(mut self, stopped: Option<StopReason>) -> Outcome {
        let by_place = |f: &Finding| (f.stripe, f.chunk_offset);
        self.saved.findings.sort_by_key(by_place);
        // Saved even where nothing is left to resume: a state that cannot be removed must not be one of an earlier batch.
        let mut kept = self.save();
        if let (Ok(()), None, Some(state)) = (&kept, &stopped, self.state) {
            kept = state.clear();
        }
        let stopped = stopped.or_else(|| kept.err().map(|error| StopReason::Failed(error.to_string())));
        // A node that does not answer has been reported already.
        let pacing = self.target.pace_figures().unwrap_or_default();
        let mut saved = self.saved;
        saved.findings.extend(self.unfinished);
        saved.findings.sort_by_key(by_place);
        Outcome {
            method: saved.key.method,
            findings: saved.findings,
            stripes_checked: saved.stripes_checked,
            skipped: self.schedule.skipped,
            rechecked: saved.rechecked,
            bytes_checked: saved.bytes_checked,
            pacing,
            ledger: saved.ledger,
            miss_bound: saved.miss_bound,
            batches: saved.batches_done,
            seconds: self.seconds_before + self.began.elapsed().as_secs_f64(),
            stopped,
        }
    }
}

fn no_repair(allowed: &'static str) -> ScrubError {
    ScrubError::Option { option: "--repair", value: "on".to_owned(), allowed }
}

/// The state a pass begins with, and its schedule: a new one, or the one that is resumed.
fn start(
    target: &Target,
    state: Option<&StateFiles>,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<(SavedPass, Schedule), ScrubError> {
    let before = match state.map_or(Ok(Before::Nothing), StateFiles::load) {
        // A state that cannot be read stands in the way of resuming, not of beginning anew.
        Err(error) if !options.resume => {
            observer.note(&format!("ignored: {error}"));
            Before::Nothing
        }
        before => before?,
    };
    match (before, options.resume) {
        (Before::Pass(saved), true) => return resumed(target, *saved, options, observer),
        (Before::Pass(saved), false) => {
            let checked = saved.stripes_checked;
            observer.note(&format!(
                "an interrupted scrub of this array had checked {checked} stripes; this one begins anew (--resume would go on)"
            ));
        }
        (Before::OtherVersion(version), _) => observer.note(&format!(
            "another version of pumice saved the interrupted scrub of this array (file version {version}, this one has {VERSION}): this one begins at its start"
        )),
        (Before::Nothing, true) => {
            observer.note("there is no interrupted scrub of this array: this one begins at its start");
        }
        (Before::Nothing, false) => {}
    }
    fresh(target, options)
}

fn fresh(target: &Target, options: &Options) -> Result<(SavedPass, Schedule), ScrubError> {
    options.check(target)?;
    let range = options.range.clone().unwrap_or(0..target.geometry().stripes());
    let view = target.view(range.start)?;
    let batch = options.batch.unwrap_or(BATCH);
    let accumulators = options.accumulators.unwrap_or(1);
    let order = options.order.unwrap_or_default();
    let schedule = schedule(target, &range, batch, order);
    let key = PassKey {
        method: options.method.unwrap_or(Method::auto(view.shares.len())),
        batch,
        accumulators,
        seed: options.seed.as_ref().unwrap_or(&options.fresh_seed).to_string(),
        range,
        order,
        geometry: Shape::of(target.geometry()),
        plan: schedule.digest(),
    };
    Ok((SavedPass::new(target.array().uuid().to_string(), key), schedule))
}

fn schedule(target: &Target, range: &Range<u64>, batch: u64, order: Order) -> Schedule {
    Schedule::new(target.array().plan(range.clone()), &target.borders(), batch, order)
}

fn resumed(
    target: &Target,
    saved: SavedPass,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<(SavedPass, Schedule), ScrubError> {
    let key = &saved.key;
    let differs = |option, then: String, now: Option<String>| match now {
        Some(now) if now != then => Err(ScrubError::Resume { option, then, now }),
        _ => Ok(()),
    };
    differs("--method", key.method.to_string(), options.method.map(|m| m.to_string()))?;
    differs("--batch", key.batch.to_string(), options.batch.map(|b| b.to_string()))?;
    differs("--accumulators", key.accumulators.to_string(), options.accumulators.map(|a| a.to_string()))?;
    differs("--order", key.order.to_string(), options.order.map(|o| o.to_string()))?;
    differs("--seed", key.seed.clone(), options.seed.as_ref().map(ToString::to_string))?;
    let words = |range: &Range<u64>| format!("{}..{}", range.start, range.end);
    differs("--range", words(&key.range), options.range.as_ref().map(words))?;
    let schedule = schedule(target, &key.range, key.batch, key.order);
    if key.geometry != Shape::of(target.geometry()) || key.plan != schedule.digest() {
        observer.note("the array has changed since the interrupted scrub: this one begins at its start");
        return fresh(target, options);
    }
    observer.note(&format!("resumed after {} of {} stripes", saved.stripes_checked, schedule.stripes()));
    Ok((saved, schedule))
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
