//! Statistics of a trace's idle times, in bounded memory.

use crate::drive::{Baseline, Drive};
use crate::error::StudyError;
use crate::learner::Learner;
use crate::scan::Scan;
use crate::slowdown::TimeCounts;
use crate::trace::{Format, Op};
use crate::tuner::Advice;
use pumice_pacer::{Idle, Nanos};
use serde::Serialize;
use std::path::Path;

/// Waits that the remaining idle time is given for, in milliseconds.
const WAITS: [f64; 11] = [0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4];

/// Remaining length of idle intervals after a wait.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Remaining {
    /// The wait in seconds.
    pub waited_s: f64,
    /// Share of intervals that last longer.
    pub share: f64,
    /// Their mean rest in seconds.
    pub mean_remaining_s: f64,
}

/// The hazard rate at an age of idleness.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct HazardAt {
    /// From this age, in seconds, to twice it.
    pub age_s: f64,
    /// Intervals that end a second of such idleness.
    pub per_s: f64,
}

/// Statistics of one device of a trace.
#[derive(Debug, Clone, Serialize)]
pub struct TraceStats {
    /// The trace's path as given.
    pub trace: String,
    /// Its format.
    pub format: &'static str,
    /// The device.
    pub device: String,
    /// All devices with their numbers of requests.
    pub devices: Vec<(String, u64)>,
    /// True if completion times are the trace's own; else they come from `drive`.
    pub recorded_times: bool,
    /// The drive's model.
    pub drive: &'static str,
    /// Reads and writes.
    pub requests: u64,
    /// Share of reads.
    pub reads: f64,
    /// Mean length in bytes.
    pub mean_bytes: f64,
    /// From the trace's first arrival to the device's last completion, in seconds.
    pub span_s: f64,
    /// Requests a second.
    pub per_s: f64,
    /// Share of time without a request.
    pub idle_share: f64,
    /// Idle intervals.
    pub intervals: u64,
    /// Their mean length in seconds.
    pub mean_idle_s: f64,
    /// Their median length in seconds.
    pub median_idle_s: f64,
    /// Coefficient of variation of their lengths: 1 for memoryless arrivals.
    pub cv: f64,
    /// Autocorrelation of the logarithm of adjacent lengths.
    pub autocorrelation: f64,
    /// Share of idle time in the longest 1, 5 and 15 percent of intervals.
    pub longest: [f64; 3],
    /// Advice about waiting: `waiting_helps`, `waiting_cannot_help`, `no_history`.
    pub advice: &'static str,
    /// Mean remaining idle time after waits.
    pub remaining: Vec<Remaining>,
    /// Hazard rate by age.
    pub hazard: Vec<HazardAt>,
}

#[derive(Debug, Default)]
struct Sums {
    lengths: TimeCounts,
    n: f64,
    sum: f64,
    squares: f64,
    last_log: Option<f64>,
    /// Sums for the autocorrelation: x, y, xx, yy, xy, n.
    pairs: [f64; 6],
}

impl Sums {
    fn add(&mut self, idle: &Idle) {
        let length = idle.length();
        self.lengths.add(length);
        let seconds = length as f64 / 1e9;
        self.n += 1.0;
        self.sum += seconds;
        self.squares += seconds * seconds;
        let y = (length.max(1) as f64).ln();
        if let Some(x) = self.last_log.replace(y) {
            for (slot, value) in self.pairs.iter_mut().zip([x, y, x * x, y * y, x * y, 1.0]) {
                *slot += value;
            }
        }
    }

    fn autocorrelation(&self) -> f64 {
        let [x, y, xx, yy, xy, n] = self.pairs;
        let spread = ((n * xx - x * x) * (n * yy - y * y)).sqrt();
        if spread > 0.0 { (n * xy - x * y) / spread } else { 0.0 }
    }

    fn cv(&self) -> f64 {
        let mean = self.sum / self.n.max(1.0);
        let var = (self.squares / self.n.max(1.0) - mean * mean).max(0.0);
        if mean > 0.0 { var.sqrt() / mean } else { 0.0 }
    }

    /// Share of idle time in the longest `part` of the intervals.
    fn longest(&self, part: f64) -> f64 {
        let mut classes = Vec::new();
        self.lengths.each(|length, count| classes.push((length as f64, count as f64)));
        let (mut left, mut time, mut total) = (self.n * part, 0.0, 0.0);
        for (length, count) in classes.into_iter().rev() {
            time += length * count.min(left);
            left -= count.min(left);
            total += length * count;
        }
        if total > 0.0 { time / total } else { 0.0 }
    }

    /// Intervals that last longer than `wait` nanoseconds, and the sum of their rests up to
    /// `limit`.
    fn beyond(&self, wait: f64, limit: f64) -> (f64, f64) {
        let (mut count, mut rest) = (0.0, 0.0);
        self.lengths.each(|length, n| {
            if length as f64 > wait {
                count += n as f64;
                rest += n as f64 * (length as f64 - wait).min(limit);
            }
        });
        (count, rest)
    }
}

/// Takes the statistics of a device of a trace; the trace is gone through twice.
///
/// # Errors
/// Where the trace is damaged or has no such device.
pub fn trace_stats(
    path: &Path,
    format: Option<Format>,
    device: Option<&str>,
    drive: Option<Drive>,
) -> Result<TraceStats, StudyError> {
    let scan = Scan::of(path, format)?;
    let device = scan.choose(device)?;
    let drive = drive.unwrap_or_else(|| scan.fitting_drive(device));
    let seen = scan.seen[device as usize];
    let mut baseline = Baseline::new(drive, seen.capacity.max(1 << 30));
    let mut learner = Learner::new(1 << 16, 0, false);
    let (mut sums, mut reads, mut bytes) = (Sums::default(), 0_u64, 0.0);
    scan.each_request(device, |request| {
        let done: Nanos = baseline.complete(request);
        reads += u64::from(request.op == Op::Read);
        bytes += request.bytes as f64;
        if let Some(idle) = learner.request(request.at, done) {
            sums.add(&idle);
        }
    })?;
    let span = learner.end().max(1) as f64 / 1e9;
    let (n, requests) = (sums.n.max(1.0), learner.requests().max(1) as f64);
    let remaining = WAITS.map(|ms| {
        let (count, rest) = sums.beyond(ms * 1e6, f64::INFINITY);
        let mean_remaining_s = if count > 0.0 { rest / count / 1e9 } else { 0.0 };
        Remaining { waited_s: ms / 1e3, share: count / n, mean_remaining_s }
    });
    let hazard = (0..20).map(|power| f64::from(power).exp2() * 1e5).filter_map(|age| {
        let (count, time) = sums.beyond(age, age);
        let ends = count - sums.beyond(2.0 * age, 0.0).0;
        (time > 0.0).then(|| HazardAt { age_s: age / 1e9, per_s: ends / (time / 1e9) })
    });
    Ok(TraceStats {
        trace: path.display().to_string(),
        format: scan.format.name(),
        device: scan.devices.name(device),
        devices: scan.listed(),
        recorded_times: seen.recorded > 0,
        drive: drive.name(),
        requests: learner.requests(),
        reads: reads as f64 / requests,
        mean_bytes: bytes / requests,
        span_s: span,
        per_s: requests / span,
        idle_share: learner.idle() as f64 / 1e9 / span,
        intervals: sums.n as u64,
        mean_idle_s: sums.sum / n,
        median_idle_s: sums.lengths.quantile(0.5) as f64 / 1e9,
        cv: sums.cv(),
        autocorrelation: sums.autocorrelation(),
        longest: [0.01, 0.05, 0.15].map(|part| sums.longest(part)),
        advice: crate::scrub::advice_name(Advice::of(learner.history())),
        remaining: remaining.into_iter().filter(|r| r.share > 0.0).collect(),
        hazard: hazard.collect(),
    })
}
