//! The beginning of a pass: a new pass, or the continuation of an interrupted one.
//! `docs/reference/on-disk/progress-state.md` has the rules.

use super::examine::{examine, examine_closely};
use super::options::{BATCH, Options};
use crate::error::HostError;
use crate::finding::Finding;
use crate::locks::Purpose;
use crate::order::Order;
use crate::pass::{Observer, Schedule};
use crate::state::{Before, MAX_SAVED_FINDINGS, PassKey, SavedPass, Shape, StateFiles};
use crate::stop::Stop;
use crate::target::Target;
use crate::{Method, date};
use pumice_base::units::format_date;
use pumice_raid::diagnosis::Diagnosis;
use std::ops::Range;

/// The initial state of a pass.
pub(super) struct PassStart {
    pub(super) saved: SavedPass,
    pub(super) schedule: Schedule,
    /// True if it continues an interrupted pass.
    pub(super) resumed: bool,
}

/// The state that a pass begins with, and its schedule.
pub(super) fn begin(
    target: &Target,
    state: Option<&StateFiles>,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<PassStart, HostError> {
    let Some(state) = state else { return fresh(target, options) };
    let whole = 0..target.layout().stripes();
    let complete = options.range.as_ref().is_none_or(|range| *range == whole);
    let before = match state.load(complete) {
        // A file that cannot be read stands in the way of resuming, not of beginning anew.
        Err(error) if !options.resume => Before::Unusable(error.to_string()),
        before => before?,
    };
    match (before, options.resume) {
        (Before::Pass(saved), true) => return resumed(target, state, *saved, options, observer),
        // A pass that was stopped in its first batch has left nothing to go on with.
        (Before::Pass(saved), false) if saved.stripes_checked == 0 => {}
        (Before::Pass(saved), false) => observer.note(&format!(
            "an interrupted scrub of {}, begun {}, had checked {} stripes; this scrub starts again (--resume would continue)",
            if complete { "this array" } else { "a part of this array" },
            format_date(saved.begun),
            saved.stripes_checked
        )),
        (Before::Unusable(why), true) => return Err(unusable(state, complete, &why)),
        (Before::Unusable(why), false) => observer.note(&format!(
            "the saved progress of an interrupted scrub is not used: {why}; this one begins at the start"
        )),
        (Before::Nothing, true) => observer.note(if complete {
            "there is no interrupted scrub of this array: this one begins at the start"
        } else {
            "there is no interrupted scrub of a part of this array: this one begins at the start"
        }),
        (Before::Nothing, false) => {}
    }
    fresh(target, options)
}

fn unusable(state: &StateFiles, complete: bool, why: &str) -> HostError {
    HostError::State {
        path: state.progress_path(complete),
        context: format!("the interrupted scrub cannot be resumed: {why}; start again without --resume"),
        source: None,
    }
}

fn fresh(target: &Target, options: &Options) -> Result<PassStart, HostError> {
    options.check(target)?;
    let range = options.range.clone().unwrap_or(0..target.layout().stripes());
    let batch = options.batch.unwrap_or(BATCH);
    let order = options.order.unwrap_or_default();
    let schedule = schedule(target, &range, batch, order);
    // Stripes without a member, or of a mirror without a second copy, are not in the schedule, and
    // have no view.
    let first = schedule.batches.iter().map(|batch| batch.start).min();
    let nodes = first.map_or(Ok(1), |first| target.view(first).map(|view| view.shares.len()))?;
    let key = PassKey {
        method: options.method.unwrap_or(Method::auto(nodes)),
        batch,
        accumulators: options.accumulators.unwrap_or(1),
        seed: options.seed.as_ref().unwrap_or(&options.fresh_seed).clone(),
        range,
        order,
        geometry: Shape::of(target.array().geometry()),
        plan: schedule.digest(),
    };
    // The fresh seed is never that of another pass, even if the operator fixes the seed in use.
    let identity = options.fresh_seed.derive("pass", 0).0;
    let identity = u64::from_le_bytes(std::array::from_fn(|i| identity[i])).max(1);
    let (read, _) = target.premises();
    let saved = SavedPass::new(target.array().uuid(), date::now(), identity, key, read);
    let saved = SavedPass { tagged: tagged(target)?, ..saved };
    Ok(PassStart { saved, schedule, resumed: false })
}

/// Roles of the members whose blocks are compared with their tags.
fn tagged(target: &Target) -> Result<Vec<u16>, HostError> {
    let mut roles = Vec::new();
    for (role, _) in target.members() {
        if target.tag_format(role)?.is_some() {
            roles.push(role.0);
        }
    }
    Ok(roles)
}

fn schedule(target: &Target, range: &Range<u64>, batch: u64, order: Order) -> Schedule {
    Schedule::new(target.array().plan(range.clone()), &target.borders(), batch, order)
}

fn resumed(
    target: &Target,
    state: &StateFiles,
    saved: SavedPass,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<PassStart, HostError> {
    let key = &saved.key;
    let differs = |option, then: String, now: Option<String>| match now {
        Some(now) if now != then => Err(HostError::Resume { option, then, now }),
        _ => Ok(()),
    };
    differs("--method", key.method.to_string(), options.method.map(|m| m.to_string()))?;
    differs("--batch", key.batch.to_string(), options.batch.map(|b| b.to_string()))?;
    differs("--accumulators", key.accumulators.to_string(), options.accumulators.map(|a| a.to_string()))?;
    differs("--order", key.order.to_string(), options.order.map(|o| o.to_string()))?;
    differs("--seed", key.seed.to_string(), options.seed.as_ref().map(ToString::to_string))?;
    let words = |range: &Range<u64>| format!("{}..{}", range.start, range.end);
    differs("--range", words(&key.range), options.range.as_ref().map(words))?;
    let changed = "the array has changed since the interrupted scrub: this one begins at the start";
    // The range is known to lie within the array only if its shape is the same.
    if key.geometry != Shape::of(target.array().geometry()) {
        observer.note(changed);
        return fresh(target, options);
    }
    // P6.
    let (now, _) = target.premises();
    if let Some(difference) = saved.read.differs_from(&now) {
        observer.note(&format!("{changed} ({difference})"));
        return fresh(target, options);
    }
    if saved.tagged != tagged(target)? {
        observer.note(&format!("{changed} (the members whose tags are read were others)"));
        return fresh(target, options);
    }
    let schedule = schedule(target, &key.range, key.batch, key.order);
    if key.plan != schedule.digest() {
        observer.note(changed);
        return fresh(target, options);
    }
    if let Err(field) = saved.fits(target.array().geometry(), &schedule.batches) {
        let why = format!("it is damaged: field '{field}' contradicts the plan");
        return Err(unusable(state, saved.is_complete(), &why));
    }
    observer.note(&format!(
        "resumed the scrub begun {}, saved {}, after {} of {} stripes",
        format_date(saved.begun),
        format_date(saved.saved),
        saved.stripes_checked,
        schedule.stripes()
    ));
    // The devices have today's names.
    let mut saved = SavedPass { read: now, ..saved };
    // A dry run may have begun it.
    saved.findings.iter_mut().for_each(|finding| finding.would_repair = false);
    Ok(PassStart { saved, schedule, resumed: true })
}

/// Adds the findings that this pass had repaired but not saved when it was killed: the archive had
/// them before the first byte was written.
///
/// The repair of a finding can take several writes, so its place is checked first. If it is still
/// inconsistent, the pass will find it again.
pub(super) fn settle_repaired(
    target: &Target,
    saved: &mut SavedPass,
    schedule: &Schedule,
    state: &StateFiles,
    (observer, stop): (&mut dyn Observer, &Stop),
) -> Result<(), HostError> {
    let place = |f: &Finding| (f.stripe, f.chunk_offset, f.length);
    for (id, json) in state.archive().findings_of(saved.pass)? {
        let Ok(finding) = serde_json::from_str::<Finding>(&json) else {
            observer.note(&format!("repair {id}: the finding that it names cannot be read"));
            continue;
        };
        let in_plan = schedule.batches.iter().any(|batch| batch.contains(&finding.stripe));
        let known = saved.findings.iter().position(|known| place(known) == place(&finding));
        let is_settled = known.is_some_and(|known| saved.findings[known].repaired);
        if is_settled || !in_plan || !is_consistent(target, &finding, stop)? {
            continue;
        }
        let finding = Finding { repaired: true, left_alone: None, ..finding };
        match known {
            Some(known) => saved.findings[known] = finding,
            None if saved.findings.len() < MAX_SAVED_FINDINGS => saved.findings.push(finding),
            None => observer
                .note(&format!("repair {id}: the report has no room for it, see pumice repairs show {id}")),
        }
    }
    Ok(())
}

/// Returns whether the place of a finding is consistent, and can be read, now.
fn is_consistent(target: &Target, finding: &Finding, stop: &Stop) -> Result<bool, HostError> {
    let _lock = target.lock(finding.stripe..finding.stripe + 1, Purpose::Check, stop)?;
    let view = target.view(finding.stripe)?;
    let seen = match target.is_locked() {
        true => examine_closely(target, &view, finding.stripe, &[]),
        false => examine(target, &view, finding.stripe),
    };
    let seen = match seen {
        Err(HostError::LostMeanwhile { .. }) => return Ok(false),
        seen => seen?,
    };
    let touches = |d: &Diagnosis| {
        u64::from(d.start) < finding.chunk_offset.saturating_add(finding.length)
            && finding.chunk_offset < u64::from(d.end())
    };
    Ok(!seen.diagnoses.iter().any(touches))
}
