//! The three readings: what is in the trace, what its idle intervals are, and then every policy
//! side by side.

use super::Study;
use super::contender::{Choice, PolicyName};
use super::notes::{limited, within};
use super::outcome::{Equal, Point, Report, Row};
use crate::study::drive::{Baseline, Drive};
use crate::study::engine::Engine;
use crate::study::error::StudyError;
use crate::study::learner::Learner;
use crate::study::player::Player;
use crate::study::replay::{Sizing, Start};
use crate::study::scan::Scan;
use crate::study::starts::Studied;
use crate::study::trace::TraceError;
use crate::study::tuner::Advice;
use pumice_pacer::{Goal, Nanos, Pacer, Policy, SIZES, ServiceCurve};
use std::sync::{Mutex, PoisonError};

/// Idle intervals that are remembered for tuning once: the last quarter of a million.
const REMEMBERED: usize = 1 << 18;
/// Idle intervals that a live pacer remembers, as in a data node.
const LIVE: usize = 4_096;
/// Goals of a curve: the study's, times two to these powers.
const POWERS: std::ops::RangeInclusive<i32> = -12..=3;

/// Requests that go to the simulations at once.
const BATCH: usize = 1 << 16;

struct Learned {
    past: Learner,
    rest: Learner,
    whole: Learner,
    boundary: Nanos,
    end: Nanos,
    /// Pacers that have seen the whole trace.
    informed: Vec<(PolicyName, Pacer<Studied>)>,
}

struct Setting<'a> {
    study: &'a Study,
    scan: &'a Scan,
    device: u32,
    drive: Drive,
    capacity: u64,
    curve: ServiceCurve,
}

impl Setting<'_> {
    /// Gives the device's requests in batches of (arrival, completion alone), read by a thread of
    /// its own: two batches at most wait.
    fn batches(&self, mut see: impl FnMut(&[(Nanos, Nanos)])) -> Result<(), TraceError> {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<(Nanos, Nanos)>>(2);
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                let mut baseline = Baseline::new(self.drive, self.capacity);
                let mut batch = Vec::with_capacity(BATCH);
                self.scan.each_request(self.device, |request| {
                    batch.push((request.at, baseline.complete(request)));
                    if batch.len() == BATCH {
                        // Nobody listens only if the other side has panicked.
                        let _ = sender.send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH)));
                    }
                })?;
                // As above.
                let _ = sender.send(batch);
                Ok(())
            });
            receiver.iter().for_each(|batch| see(&batch));
            reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn choice<'b>(&'b self, learned: &'b Learned, in_sample: bool, goal: Goal) -> Choice<'b> {
        let (past, future) = if in_sample {
            (learned.whole.history(), learned.whole.history())
        } else {
            (learned.past.history(), learned.rest.history())
        };
        Choice { goal, curve: &self.curve, past, future, queued: self.study.queued, history: LIVE }
    }
}

struct Run {
    name: PolicyName,
    in_sample: bool,
    wanted: bool,
    point: Option<(Option<f64>, Option<u64>)>,
    engine: Engine,
}

pub(super) fn run(study: &Study) -> Result<Report, StudyError> {
    let scan = Scan::of(&study.trace, study.format)?;
    let device = scan.choose(study.device.as_deref())?;
    let drive = study.drive.unwrap_or_else(|| scan.fitting_drive(device));
    let capacity = scan.seen[device as usize].capacity.max(1 << 30);
    let setting = Setting { study, scan: &scan, device, drive, capacity, curve: drive.curve() };
    let learned = learn(&setting, (scan.seen[device as usize].last as f64 * study.train) as Nanos)?;
    let mut runs = contenders(&setting, &learned);
    if study.curves {
        runs.extend(curve_runs(&setting, &learned));
    }
    setting.batches(|batch| feed(&mut runs, batch))?;
    runs.iter_mut().for_each(|run| run.engine.finish(learned.end));
    Ok(report(&setting, &scan, &learned, &runs))
}

/// Gives a batch of (arrival, completion alone) to every simulation. Each is on its own, so threads
/// change nothing but the time it takes.
fn feed(runs: &mut [Run], batch: &[(Nanos, Nanos)]) {
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = workers.min(runs.len());
    // One after the other to whoever is free: those that are only measured later have less to do
    // before.
    let queue = Mutex::new(runs.iter_mut());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(run) = next() {
                    batch.iter().for_each(|&(at, done)| run.engine.request(at, done));
                }
            });
        }
    });
}

fn learn(setting: &Setting<'_>, boundary: Nanos) -> Result<Learned, TraceError> {
    let predicting = setting.study.policies.iter().any(|policy| policy.asks_predictor());
    let mut whole = Learner::new(REMEMBERED, 0, predicting);
    let mut past = None;
    let mut rest = Learner::new(REMEMBERED, boundary, predicting);
    let nothing = pumice_pacer::History::new(1);
    let blank = Choice {
        goal: setting.study.goal,
        curve: &setting.curve,
        past: &nothing,
        future: &nothing,
        queued: setting.study.queued,
        history: LIVE,
    };
    let live =
        setting.study.policies.iter().filter(|p| matches!(p, PolicyName::Priced | PolicyName::WaitingLive));
    let mut observers: Vec<(PolicyName, Engine)> = live
        .map(|&name| (name, Engine::new(blank.player(name).0, setting.curve.clone(), Nanos::MAX)))
        .collect();
    setting.batches(|batch| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (_, engine) in &mut observers {
                    batch.iter().for_each(|&(at, done)| engine.request(at, done));
                }
            });
            for &(at, done) in batch {
                if at >= boundary {
                    past.get_or_insert_with(|| whole.clone());
                    rest.request(at, done);
                }
                whole.request(at, done);
            }
        });
    })?;
    let past = past.unwrap_or_else(|| whole.clone());
    let end = whole.end();
    let informed = observers
        .into_iter()
        .filter_map(|(name, mut engine)| {
            engine.finish(end);
            match engine.into_player() {
                Player::Pacer(pacer) => Some((name, *pacer)),
                _ => None,
            }
        })
        .collect();
    Ok(Learned { past, rest, whole, boundary, end, informed })
}

fn contenders(setting: &Setting<'_>, learned: &Learned) -> Vec<Run> {
    let study = setting.study;
    let mut names = study.policies.clone();
    names.extend([PolicyName::Cfq, PolicyName::Oracle]);
    let mut runs: Vec<Run> = Vec::new();
    for in_sample in [false, true] {
        if !in_sample && learned.boundary == 0 {
            continue;
        }
        let choice = setting.choice(learned, in_sample, study.goal);
        let from = if in_sample { 0 } else { learned.boundary };
        for (i, &name) in names.iter().enumerate() {
            if runs.iter().any(|r| r.name == name && r.in_sample == in_sample) {
                continue;
            }
            let (mut player, _) = choice.player(name);
            if in_sample && let Some((_, pacer)) = learned.informed.iter().find(|p| p.0 == name) {
                let mut pacer = pacer.clone();
                pacer.rewind(0);
                player = Player::Pacer(Box::new(pacer));
            }
            let engine = Engine::new(player, setting.curve.clone(), from);
            runs.push(Run { name, in_sample, wanted: i < study.policies.len(), point: None, engine });
        }
    }
    runs
}

fn curve_runs(setting: &Setting<'_>, learned: &Learned) -> Vec<Run> {
    let in_sample = learned.boundary == 0;
    let mut runs = Vec::new();
    let mut add = |name, player, point| {
        let engine = Engine::new(player, setting.curve.clone(), learned.boundary);
        runs.push(Run { name, in_sample, wanted: false, point: Some(point), engine });
    };
    for power in POWERS {
        let scaled = |nanos: Nanos| (nanos as f64 * f64::from(power).exp2()).round() as Nanos;
        let goal = Goal { mean: scaled(setting.study.goal.mean), ..setting.study.goal };
        let choice = setting.choice(learned, in_sample, goal);
        for name in [PolicyName::Waiting, PolicyName::Priced, PolicyName::Oracle] {
            add(name, choice.player(name).0, (Some(goal.mean as f64 / 1e6), None));
        }
    }
    let choice = setting.choice(learned, in_sample, setting.study.goal);
    for bytes in SIZES {
        let start = Start { threshold: 10_000_000, cutoff: 0, sizing: Sizing::fixed(bytes) };
        let pacer = choice.pacer(Policy::Other(Studied::fixed(start)));
        add(PolicyName::Cfq, Player::Pacer(Box::new(pacer)), (None, Some(bytes)));
    }
    runs
}

fn row(run: &Run, queued: bool, goal: Goal) -> Row {
    let figures = run.engine.figures();
    let (start, period) = match run.engine.player() {
        Player::Pacer(pacer) => {
            (pacer.starter().and_then(Studied::start), pacer.price_and_period().map(|p| p.1))
        }
        Player::Lossless(start, _) => (Some(*start), None),
        Player::Oracle(_) => (None, None),
    };
    // A tuned policy that found no candidate has no parameters to show.
    let start = start.filter(|s| s.threshold < Nanos::MAX);
    let mean = figures.mean_ms(queued);
    let share_ms = goal.percentile.map(|p| figures.quantile_ms(1.0 - (1.0 - p.share) * 1.1, queued));
    let free = matches!(
        run.name,
        PolicyName::BackToBack | PolicyName::FixedDelay | PolicyName::Rate | PolicyName::Cfq
    );
    let chosen = matches!(run.name, PolicyName::Priced).then(|| figures.mean_background()).filter(|b| *b > 0);
    Row {
        policy: run.name.name(),
        threshold_s: start.map(|s| s.threshold as f64 / 1e9),
        cutoff_s: start.filter(|s| s.cutoff > 0).map(|s| s.cutoff as f64 / 1e9),
        request_bytes: start.map(|s| s.sizing.max).or(chosen).or_else(|| fixed_size(run.name)),
        scrub_mb_per_s: figures.mib_per_s(),
        mean_slowdown_ms: mean,
        p99_slowdown_ms: figures.quantile_ms(0.99, queued),
        max_slowdown_ms: figures.max_ms(),
        mean_slowdown_queued_ms: figures.mean_ms(true),
        collisions: figures.collisions(),
        foreground: figures.requests(),
        ratio_to_cfq: None,
        ratio_to_oracle: None,
        in_sample: run.in_sample,
        holds_goal: !free,
        goal_held: within(mean, goal.mean)
            && goal.percentile.zip(share_ms).is_none_or(|(p, value)| limited(value, p.limit)),
        share_ms,
        period_s: period.filter(|p| *p > 0).map(|p| p as f64 / 1e9),
        name: run.name,
    }
}

fn fixed_size(name: PolicyName) -> Option<u64> {
    matches!(name, PolicyName::BackToBack | PolicyName::FixedDelay).then_some(64 << 10)
}

fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

fn report(setting: &Setting<'_>, scan: &Scan, learned: &Learned, runs: &[Run]) -> Report {
    let study = setting.study;
    let measured: Vec<(bool, Row)> = runs
        .iter()
        .filter(|run| run.point.is_none())
        .map(|run| (run.wanted, row(run, study.queued, study.goal)))
        .collect();
    let of = |name: PolicyName, in_sample: bool| {
        let found = measured.iter().find(|(_, r)| r.name == name && r.in_sample == in_sample);
        found.map_or(0.0, |(_, r)| r.scrub_mb_per_s)
    };
    let mut rows: Vec<Row> = Vec::new();
    for (_, row) in measured.iter().filter(|(wanted, _)| *wanted) {
        let mut row = row.clone();
        row.ratio_to_cfq = ratio(row.scrub_mb_per_s, of(PolicyName::Cfq, row.in_sample));
        row.ratio_to_oracle = ratio(row.scrub_mb_per_s, of(PolicyName::Oracle, row.in_sample));
        rows.push(row);
    }
    let curves: Vec<Point> = runs.iter().filter_map(|run| point(run, study.queued)).collect();
    let baseline = measured.iter().find(|(_, r)| r.name == PolicyName::Cfq).map(|(_, r)| r);
    let equal_throughput = baseline.and_then(|cfq| equal(cfq, &curves));
    let history = learned.whole.history();
    let advice = if learned.boundary > 0 { learned.past.history() } else { history };
    let seen = scan.seen[setting.device as usize];
    let notes = super::notes::notes(study, scan, setting.device, setting.drive, &rows);
    Report {
        trace: study.trace.display().to_string(),
        format: scan.format.name(),
        device: scan.devices.name(setting.device),
        devices: scan.listed(),
        drive: setting.drive.name(),
        recorded_times: seen.recorded > 0,
        goal_ms: study.goal.mean as f64 / 1e6,
        accounting: if study.queued { "queued" } else { "collision" },
        train: study.train,
        requests: seen.requests,
        span_s: learned.end as f64 / 1e9,
        idle_share: learned.whole.idle() as f64 / learned.end.max(1) as f64,
        variability: history.variability(),
        advice: super::advice_name(Advice::of(advice)),
        policies: rows,
        curves,
        equal_throughput,
        notes,
    }
}

fn point(run: &Run, queued: bool) -> Option<Point> {
    let (goal_ms, request_bytes) = run.point?;
    let figures = run.engine.figures();
    Some(Point {
        policy: run.name.name(),
        goal_ms,
        request_bytes,
        scrub_mb_per_s: figures.mib_per_s(),
        mean_slowdown_ms: figures.mean_ms(queued),
    })
}

/// The priced policy's slowdown at the baseline's throughput: between the two points around it, in
/// logarithms.
fn equal(cfq: &Row, curves: &[Point]) -> Option<Equal> {
    let mut points: Vec<&Point> =
        curves.iter().filter(|p| p.policy == PolicyName::Priced.name() && p.mean_slowdown_ms > 0.0).collect();
    points.sort_by(|a, b| a.scrub_mb_per_s.total_cmp(&b.scrub_mb_per_s));
    let above = points.iter().position(|p| p.scrub_mb_per_s >= cfq.scrub_mb_per_s)?;
    let high = points[above];
    let mean_slowdown_ms = match above.checked_sub(1).map(|i| points[i]) {
        Some(low) if high.scrub_mb_per_s > low.scrub_mb_per_s => {
            let part = (cfq.scrub_mb_per_s - low.scrub_mb_per_s) / (high.scrub_mb_per_s - low.scrub_mb_per_s);
            let (a, b) = (low.mean_slowdown_ms.ln(), high.mean_slowdown_ms.ln());
            (a + (b - a) * part).exp()
        }
        _ => high.mean_slowdown_ms,
    };
    Some(Equal {
        policy: PolicyName::Priced.name(),
        scrub_mb_per_s: cfq.scrub_mb_per_s,
        cfq_slowdown_ms: cfq.mean_slowdown_ms,
        mean_slowdown_ms,
        times_less: cfq.mean_slowdown_ms / mean_slowdown_ms,
    })
}
