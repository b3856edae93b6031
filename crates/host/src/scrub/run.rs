//! One scrub of an array: the scan, then the repair of its findings.

use super::begin::{PassStart, begin, settle_repaired};
use super::books::{no_repair, note_waiting, open_books};
use super::check::Checker;
use super::options::Options;
use super::outcome::Outcome;
use super::pace::PaceWaits;
use super::settle::{Settled, Settler, stand};
use super::settling::{Patience, Standing};
use super::vouch::vouch;
use crate::error::HostError;
use crate::finding::Finding;
use crate::locks::Purpose;
use crate::members::Equations;
use crate::parts::judged;
use crate::pass::{Course, Observer, Progress, StopReason, Work};
use crate::premises::Watch;
use crate::repair::Repairer;
use crate::state::{SavedPass, StateFiles};
use crate::stop::Stop;
use crate::target::{Target, View};
use crate::{Method, date};
use pumice_parity::kernels::Kernels;
use pumice_parity::weights::miss_bound;
use pumice_protect::origin::Origin;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between saves of the progress.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// Fewest judged stripes of a batch for the conclusion that most of them are inconsistent.
const UNSYNCED_BATCH: u64 = 8;
/// Power sums a row of a fingerprint: they name up to four bad stripes in each plane.
pub(crate) const POWERS: u8 = 8;

/// Runs a pass.
///
/// `state` holds progress and the repair journal; without it, nothing can be resumed or repaired.
/// `stop` ends the pass, and each of its waits, at once; a repair that has begun is finished. The
/// resumed pass repeats the current batch.
///
/// # Errors
/// If the pass cannot begin. Later failures are part of the [`Outcome`].
pub fn run(
    target: &Target,
    state: Option<&StateFiles>,
    options: &Options,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Outcome, HostError> {
    let (mut course, mut pass) = Pass::prepare(target, state, options, observer, stop)?;
    let nodes: Vec<_> = target.nodes().map(Arc::clone).collect();
    // The writer of a locked array has commands on the same nodes: giving those up would cost it a
    // member. Under its locks no command waits for a pace, so each ends soon by itself.
    let own = !target.is_locked();
    let _listening = stop.listen(move || nodes.iter().filter(|_| own).for_each(|node| node.give_up()));
    let stopped = course
        .run(&mut pass, observer)
        .or_else(|| pass.look_again(observer).err().map(|error| course.reason(&error)))
        .or_else(|| {
            let looked = pass.look_at_pending(&mut course.schedule.skipped);
            looked.err().map(|error| course.reason(&error))
        })
        // A repair rests on what was read.
        .or_else(|| match pass.repairer {
            Some(_) => pass.confirm_at_end().err().map(|error| course.reason(&error)),
            None => None,
        })
        .or_else(|| pass.mend(&course));
    Ok(pass.finish(course, stopped, observer))
}

/// A scrub under way: its tools and its results so far.
///
/// Invariants:
///
/// 1. `saved` is the complete result so far. It includes a batch only when the batch is done, so
///    that the saved state can be resumed at any moment, and a failed batch can be repeated.
/// 2. Only `repairer` writes to members, and only after the whole range was scanned. One exception:
///    a repair that was interrupted is recovered before the scan.
/// 3. If progress cannot be saved, the pass continues without: its report has all findings.
/// 4. Progress is saved, and the pass ends as complete, only after a look at the superblocks that
///    confirms `saved.read`, the array as it was read (`docs/design/premises.md`).
/// 5. `view` is of the stripes between two borders of the target.
pub(super) struct Pass<'t> {
    pub(super) target: &'t Target,
    pub(super) stop: &'t Stop,
    state: Option<&'t StateFiles>,
    pub(super) standing: Standing,
    accept_degraded: bool,
    /// True if adopted tags are vouched for.
    vouch: bool,
    /// Findings at which this run of the pass stops.
    most_findings: usize,
    /// Stripes to check in all.
    of_stripes: u64,
    pub(super) repairer: Option<Repairer<'t>>,
    pub(super) saved: SavedPass,
    /// Watches over `saved.read`.
    pub(super) watch: Watch,
    /// The time of the last look at the superblocks.
    pub(super) confirmed_at: Instant,
    /// The array has changed: nothing that was read holds.
    pub(super) is_void: bool,
    /// The view that was used last, and its stripes.
    view: Option<(Range<u64>, View)>,
    pub(super) began: Instant,
    seconds_before: f64,
    saved_at: Instant,
    /// True if the last save succeeded, or none was tried yet.
    is_saving: bool,
    pace: PaceWaits,
    /// Not in `saved`: a resumed pass looks at them anew.
    pub(super) extra: Extra,
}

/// Stripes that were checked although the plan leaves them out.
#[derive(Debug, Default)]
pub(super) struct Extra {
    /// Number of stripes.
    pub(super) stripes: u64,
    /// Bytes of all present members in them.
    pub(super) bytes: u64,
}

impl<'t> Pass<'t> {
    fn prepare(
        target: &'t Target,
        state: Option<&'t StateFiles>,
        options: &Options,
        observer: &mut dyn Observer,
        stop: &'t Stop,
    ) -> Result<(Course<'t>, Self), HostError> {
        options.check(target)?;
        if options.repair.is_some() && options.in_use && !options.dry_run {
            return Err(no_repair("a repair needs exclusive use of the devices"));
        }
        let PassStart { mut saved, schedule, resumed } = begin(target, state, options, observer)?;
        let repairer = match (options.repair, state) {
            (None, _) => None,
            (Some(policy), _) if options.dry_run => Some(Repairer::new(target, None, policy)),
            (Some(policy), Some(state)) => {
                let books = open_books(target, state, &saved, options, (observer, stop))?;
                Some(Repairer::new(target, Some(books), policy))
            }
            (Some(_), None) => return Err(no_repair("a repair needs a state directory for its journal")),
        };
        if let (true, Some(state)) = (repairer.is_none() || options.dry_run, state) {
            note_waiting(state, observer);
        }
        if let (true, Some(state)) = (resumed, state) {
            // After a recovery, which may have finished one.
            settle_repaired(target, &mut saved, &schedule, state, (observer, stop))?;
        }
        if !options.pace.is_empty() {
            target.nodes().try_for_each(|node| node.pace(&options.pace))?;
        }
        let now = Instant::now();
        let standing = stand(target, now, options.in_use, options.settle, options.running_elsewhere)?;
        let seconds_before = saved.seconds;
        // Members that are written are held, and a lost connection loses the hold.
        let may_reconnect = (options.repair.is_none() || options.dry_run) && !target.is_locked();
        let pass = Self {
            target,
            stop,
            state,
            standing,
            accept_degraded: options.accept_degraded,
            vouch: options.vouch,
            most_findings: saved.findings.len().saturating_add(options.max_findings),
            of_stripes: schedule.stripes(),
            repairer,
            watch: Watch::new(saved.read.clone(), target.premises().1),
            saved,
            confirmed_at: now,
            is_void: false,
            view: None,
            began: now,
            seconds_before,
            saved_at: now,
            is_saving: true,
            pace: PaceWaits::default(),
            extra: Extra::default(),
        };
        Ok((Course::new(target, stop, schedule, options.reconnect, may_reconnect), pass))
    }

    pub(super) fn try_save(&mut self) -> Result<(), HostError> {
        self.saved.seconds = self.seconds_before + self.began.elapsed().as_secs_f64();
        self.saved.saved = date::now().max(self.saved.begun);
        self.saved_at = Instant::now();
        self.state.map_or(Ok(()), |state| state.save(&self.saved))
    }

    pub(super) fn is_save_due(&self) -> bool {
        self.saved_at.elapsed() >= SAVE_EVERY && self.confirmed_at.elapsed() >= SAVE_EVERY
    }

    /// Saves progress if a look at the superblocks confirms what was read.
    pub(super) fn save_confirmed(&mut self) -> Result<(), HostError> {
        match self.confirm()? {
            true => self.try_save(),
            false => Ok(()),
        }
    }

    /// Saves progress. If that fails, the pass continues and says so once: its report has the
    /// findings nevertheless.
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
    pub(super) fn take_view(&mut self, stripe: u64) -> Result<View, HostError> {
        if let Some((range, view)) = self.view.take()
            && range.contains(&stripe)
        {
            return Ok(view);
        }
        self.target.view(stripe)
    }

    pub(super) fn put_view(&mut self, stripe: u64, view: View) {
        let borders = self.target.borders();
        let start = borders.iter().copied().filter(|b| *b <= stripe).max().unwrap_or(0);
        let end = borders.iter().copied().find(|b| *b > stripe).unwrap_or(u64::MAX);
        self.view = Some((start..end, view));
    }

    /// An array that another host runs is assumed to be synced (`Options::running_elsewhere`). If
    /// most of the judged stripes of a batch are inconsistent, it is not: its parity is being
    /// built, and its inconsistencies are not damage. Stripes that the host is writing, and stripes
    /// with refused sectors, do not count as judged.
    fn refuse_unsynced(&self, stripes: &Range<u64>, settled: &Settled) -> Result<(), HostError> {
        let disturbed =
            settled.unsettled.keys().filter(|stripe| !settled.undisturbed(**stripe)).count() as u64;
        let judged = stripes.end - stripes.start - disturbed;
        if self.standing.run_by_hosts && judged >= UNSYNCED_BATCH && settled.inconsistent() > judged / 2 {
            return Err(HostError::Unsynced { start: stripes.start, end: stripes.end });
        }
        Ok(())
    }

    fn finish(
        mut self,
        course: Course<'_>,
        stopped: Option<StopReason>,
        observer: &mut dyn Observer,
    ) -> Outcome {
        let by_place = |f: &Finding| (f.stripe, f.chunk_offset);
        self.saved.findings.sort_by_key(by_place);
        if self.repairer.is_none() {
            self.saved.patterns = crate::pattern::apply(&mut self.saved.findings, self.saved.stripes_checked);
        }
        crate::astray::apply(&mut self.saved.findings);
        let (stopped, is_confirmed) = self.last_look(stopped, &course);
        if is_confirmed {
            // Saved even if nothing is left to resume: a state that cannot be removed must not be
            // one of an earlier batch.
            self.save(observer);
        }
        let is_over = self.is_void || stopped.is_none() && self.is_saving;
        if let (true, Some(state)) = (is_over, self.state)
            && let Err(error) = state.clear(&self.saved)
        {
            observer
                .note(&format!("the saved progress could not be removed at the end of the pass: {error}"));
        }
        // A node that does not answer has been reported already.
        let pacing = self.target.pace_figures().unwrap_or_default();
        let not_named = match self.accept_degraded {
            true => Vec::new(),
            false => self.target.array().not_named().to_vec(),
        };
        let saved = self.saved;
        let unjudged = saved.findings.iter().filter(|finding| finding.is_unjudged());
        let unjudged = unjudged.map(|finding| finding.stripe).collect();
        let done = match self.is_void {
            true => &[],
            false => course.schedule.batches.get(..saved.batches_done).unwrap_or_default(),
        };
        Outcome {
            judged: judged(done, &unjudged),
            begun: saved.begun,
            events: (self.watch.first_events(), self.watch.events()),
            read: saved.read.members,
            method: saved.key.method,
            findings: saved.findings,
            stripes_asked: saved.key.ranges().iter().map(|range| range.end - range.start).sum(),
            patterns: saved.patterns,
            read_again: self.target.error_account().stripes_read_again(),
            stripes_checked: saved.stripes_checked + self.extra.stripes,
            skipped: course.schedule.skipped,
            rechecked: saved.rechecked,
            bytes_checked: saved.bytes_checked + self.extra.bytes,
            pacing,
            ledger: saved.ledger,
            tags: saved.tags,
            vouched: saved.vouched,
            miss_bound: saved.miss_bound,
            range: saved.key.range,
            parts: saved.key.parts,
            equations: Equations::of(self.target, &course.schedule.batches),
            not_named,
            links: self.target.nodes().filter_map(|node| Some(node.link()?.link_figures())).collect(),
            reconnections: course.reconnections,
            batches: saved.batches_done,
            seconds: self.seconds_before + self.began.elapsed().as_secs_f64(),
            stopped,
        }
    }
}

impl Work for Pass<'_> {
    fn batch(&mut self, stripes: Range<u64>, observer: &mut dyn Observer) -> Result<(), HostError> {
        // Before the lock: a writer that waits for it must not wait for a node's pace.
        self.pace.wait(self.target, observer, self.stop)?;
        // From the first read to the verdicts.
        let lock = self.target.lock(stripes.clone(), Purpose::Check, self.stop)?;
        let view = self.take_view(stripes.start)?;
        let method = self.saved.key.method;
        let checker = Checker {
            view: &view,
            chunk: self.target.chunk(stripes.start),
            accumulators: self.saved.key.accumulators,
            powers: POWERS,
            seed: &self.saved.key.seed,
            kernels: Kernels::best(),
        };
        let checked = checker.check(method, stripes.clone())?;
        let mut ledger = checked.moved;
        let mut findings = Vec::new();
        let tags = checked.tags;
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
                findings.push(finding);
            }
        }
        let vouched = if self.vouch && tags.is_some_and(|fit| fit[Origin::Adopted as usize] > 0) {
            let bound = bound(method, &view, stripes.end - stripes.start, checker.accumulators);
            vouch(self.target, &view, &stripes, &suspects, bound)?
        } else {
            0
        };
        drop(lock);
        // A busy one is shown when it has been looked at again, at the end of the pass.
        findings.iter().filter(|finding| !finding.is_busy()).for_each(|f| observer.finding(f));
        // From here on nothing fails: a batch that failed is done again, and must count once.
        let count = stripes.end - stripes.start;
        let present = view.present() as u64;
        self.saved.ledger += ledger;
        self.saved.stripes_checked += count;
        self.saved.rechecked += settled.rechecked;
        self.saved.bytes_checked += count * present * u64::from(checker.chunk);
        self.saved.miss_bound = self.saved.miss_bound.max(bound(method, &view, count, checker.accumulators));
        if let Some(fit) = tags {
            let sums = self.saved.tags.get_or_insert_default();
            sums.iter_mut().zip(fit).for_each(|(sum, fit)| *sum = sum.saturating_add(fit));
        }
        self.saved.findings.extend(findings);
        self.saved.vouched += vouched;
        self.put_view(stripes.start, view);
        Ok(())
    }

    fn batches_done(&self) -> usize {
        self.saved.batches_done
    }

    fn count_batch(&mut self) {
        self.saved.batches_done += 1;
    }

    fn progress(&self) -> Progress {
        Progress {
            stripes: self.saved.stripes_checked,
            of_stripes: self.of_stripes,
            bytes: self.saved.bytes_checked,
            findings: self.saved.findings.len(),
        }
    }

    fn is_too_much(&self) -> bool {
        self.saved.findings.len() >= self.most_findings
    }

    fn save_in_time(&mut self, observer: &mut dyn Observer) -> Result<(), HostError> {
        if self.is_save_due() {
            match self.confirm() {
                Ok(true) => self.save(observer),
                Ok(false) => {}
                // The next batch meets it, and connects again.
                Err(error) if error.is_lost_connection() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Local memory is leased again, perhaps less of it.
    fn forget_connections(&mut self) {
        self.view = None;
    }
}

/// Upper bound of the chance that fixed damage in a batch goes unseen. `docs/design/scrub-maths.md`
/// derives it.
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
