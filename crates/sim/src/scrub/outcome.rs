//! Results of a study.

use super::contender::PolicyName;
use serde::Serialize;

/// One policy, measured on one part of the trace.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its name.
    pub policy: &'static str,
    /// Idle time before the first request, in seconds, where the policy has such a thing.
    pub threshold_s: Option<f64>,
    /// Least predicted idle length in seconds, where it asks a predictor.
    pub cutoff_s: Option<f64>,
    /// Bytes of its (largest) requests; of policies that choose each time, the mean of those made.
    pub request_bytes: Option<u64>,
    /// Background throughput over the measured part; MB is 2^20 bytes.
    pub scrub_mb_per_s: f64,
    /// Mean slowdown over all foreground requests, by the accounting of the goal.
    pub mean_slowdown_ms: f64,
    /// Its 99th percentile.
    pub p99_slowdown_ms: f64,
    /// The largest slowdown of any request.
    pub max_slowdown_ms: f64,
    /// Mean slowdown where requests that queue behind a slowed one count as well.
    pub mean_slowdown_queued_ms: f64,
    /// Foreground requests that met a background request.
    pub collisions: u64,
    /// Foreground requests measured.
    pub foreground: u64,
    /// Throughput over that of the `cfq` row of the same part.
    pub ratio_to_cfq: Option<f64>,
    /// Throughput over that of the `oracle` row of the same part.
    pub ratio_to_oracle: Option<f64>,
    /// Tuned on the very part that it is measured on.
    pub in_sample: bool,
    /// True if it is asked to hold the goal.
    pub holds_goal: bool,
    /// True if the mean, and the percentile where there is one, are within the goal plus a tenth.
    pub goal_held: bool,
    /// The load's period in seconds, where the policy found one.
    pub period_s: Option<f64>,
    /// Largest slowdown, in milliseconds, of all requests but those that may exceed the
    /// percentile's limit and a tenth as many.
    #[serde(skip)]
    pub(crate) share_ms: Option<f64>,
    #[serde(skip)]
    pub(crate) name: PolicyName,
}

/// A point of a curve of throughput against slowdown, out of sample where there is a part for
/// tuning.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    /// The policy.
    pub policy: &'static str,
    /// The goal in milliseconds, where there is one.
    pub goal_ms: Option<f64>,
    /// Request size in bytes, where it is what changes along the curve.
    pub request_bytes: Option<u64>,
    /// Background throughput, 2^20 bytes a second.
    pub scrub_mb_per_s: f64,
    /// Mean slowdown.
    pub mean_slowdown_ms: f64,
}

/// The best policy at the throughput of the `cfq` row.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Equal {
    /// The policy.
    pub policy: &'static str,
    /// That throughput, 2^20 bytes a second.
    pub scrub_mb_per_s: f64,
    /// Mean slowdown of `cfq`.
    pub cfq_slowdown_ms: f64,
    /// Mean slowdown of the policy, between the two nearest points of its curve.
    pub mean_slowdown_ms: f64,
    /// Factor by which it is less.
    pub times_less: f64,
}

/// A study's result.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The trace's path as given.
    pub trace: String,
    /// Its format.
    pub format: &'static str,
    /// The device.
    pub device: String,
    /// All devices with their numbers of requests.
    pub devices: Vec<(String, u64)>,
    /// The drive's model.
    pub drive: &'static str,
    /// True if completion times are the trace's own.
    pub recorded_times: bool,
    /// Mean slowdown asked for, in milliseconds.
    pub goal_ms: f64,
    /// `collision`: the wait of requests that meet a background request; `queued`: of those behind
    /// them too.
    pub accounting: &'static str,
    /// Share of the time that was for tuning.
    pub train: f64,
    /// Foreground requests of the device.
    pub requests: u64,
    /// From the trace's first arrival to the device's last completion, in seconds.
    pub span_s: f64,
    /// Share of it in which the device had no request.
    pub idle_share: f64,
    /// Squared coefficient of variation of idle times.
    pub variability: f64,
    /// Advice about waiting: `waiting_helps`, `waiting_cannot_help`, `no_history`.
    pub advice: &'static str,
    /// The policies: first out of sample (where there is a part for tuning), then in sample.
    pub policies: Vec<Row>,
    /// Throughput against slowdown.
    pub curves: Vec<Point>,
    /// At the baseline's throughput.
    pub equal_throughput: Option<Equal>,
    /// Notes for the reader: choices that were made, goals that were missed and the reasons.
    pub notes: Vec<String>,
}
