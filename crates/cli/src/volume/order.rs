//! What is said over the socket of a volume when it is scrubbed.

use crate::failure::Failure;
use crate::identity::default_state_dir;
use crate::scrub::{ScrubArgs, fresh_seed};
use pumice_host::Method;
use pumice_host::scrub::Options;
use pumice_offload::PaceRequest;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::PathBuf;

/// A scrub that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScrubOrder {
    pub(super) method: Option<Method>,
    pub(super) batch: Option<u64>,
    /// 64 hexadecimal digits.
    pub(super) seed: Option<String>,
    pub(super) range: Option<Range<u64>>,
    pub(super) order: Option<String>,
    /// The policy; `null` for no repair.
    pub(super) repair: Option<String>,
    pub(super) dry_run: bool,
    pub(super) vouch: bool,
    pub(super) resume: bool,
    pub(super) accept_degraded: bool,
    /// Seconds.
    pub(super) keep_repairs: u64,
    /// Bytes a second of each drive.
    pub(super) rate: Option<u64>,
    /// Seconds of the day in UTC.
    pub(super) windows: Vec<(u32, u32)>,
    pub(super) state_dir: Option<PathBuf>,
    /// Whether the operator named that folder.
    pub(super) state_named: bool,
    /// The report is a JSON document.
    pub(super) json: bool,
}

impl ScrubOrder {
    pub(super) fn of(args: &ScrubArgs) -> Result<Self, Failure> {
        if let Some(option) = args.not_in_service() {
            return Err(Failure::new(format!("{option}: not possible for a volume that is being served")));
        }
        let options: Options = args.options(fresh_seed()?)?;
        let PaceRequest { policy: None, slowdown_ns: None, rate, windows } = options.pace else {
            let what =
                "--slowdown and --policy: a volume that is being served is paced by --rate and --window";
            return Err(Failure::new(what));
        };
        let folder = args.state_dir.clone().or_else(default_state_dir);
        Ok(Self {
            method: options.method,
            batch: options.batch,
            seed: options.seed.as_ref().map(ToString::to_string),
            range: options.range,
            order: options.order.map(|order| order.to_string()),
            repair: options.repair.map(|policy| policy.to_string()),
            dry_run: options.dry_run,
            vouch: options.vouch,
            resume: options.resume,
            accept_degraded: options.accept_degraded,
            keep_repairs: options.keep_repairs,
            rate,
            windows,
            state_dir: folder.map(std::path::absolute).transpose()?,
            state_named: args.state_dir.is_some(),
            json: args.json,
        })
    }
}

/// What the serving process tells during a scrub: one line of JSON each. The last is `Done` or
/// `Error`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    Progress { stripes: u64, of_stripes: u64, bytes: u64, findings: usize },
    Note(String),
    Done { output: String, exit: u8, stopped: Option<String> },
    Error(String),
}
