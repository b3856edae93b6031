//! A scrub over the socket.

use pumice_host::Method;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::PathBuf;

/// The options of a scrub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubOrder {
    /// The method; `None` for the best one.
    pub method: Option<Method>,
    /// Stripes of a batch; `None` for about 1 MiB of each member.
    pub batch: Option<u64>,
    /// 64 hexadecimal digits; `None` for a new seed.
    pub seed: Option<String>,
    /// The stripes; `None` for all.
    pub range: Option<Range<u64>>,
    /// Several ranges within it, in the order in which they are checked; empty for all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Range<u64>>,
    /// The order of the stripes: `sequential` or `staggered`.
    pub order: Option<String>,
    /// The policy; `None` for no repair.
    pub repair: Option<String>,
    /// A repair that writes nothing.
    pub dry_run: bool,
    /// Adopted tags become vouched ones where parity holds.
    pub vouch: bool,
    /// An interrupted scrub is continued.
    pub resume: bool,
    /// Missing members do not make the scrub incomplete.
    pub accept_degraded: bool,
    /// Seconds for which replaced bytes are kept.
    pub keep_repairs: u64,
    /// Bytes a second of each drive.
    pub rate: Option<u64>,
    /// Hours of reads: seconds of the day in UTC.
    pub windows: Vec<(u32, u32)>,
    /// Folder of progress, journal and archive.
    pub state_dir: Option<PathBuf>,
    /// The operator named that folder.
    pub state_named: bool,
    /// The report is a JSON document, else text.
    pub json: bool,
}

/// The progress of a scrub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubProgress {
    /// Stripes done.
    pub stripes: u64,
    /// Stripes of the pass.
    pub of_stripes: u64,
    /// Bytes that were checked.
    pub bytes: u64,
    /// Findings so far.
    pub findings: usize,
}

/// The end of a scrub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubDone {
    /// The report.
    pub output: String,
    /// The exit code of the command.
    pub exit: u8,
    /// The reason if it ended early.
    pub stopped: Option<String>,
    /// The report as a JSON document, if `output` is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
}
