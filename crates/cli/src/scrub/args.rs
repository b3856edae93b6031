//! The arguments of `pumice scrub`, and the options that they mean.

use crate::access::folder;
use crate::access::metadata;
use crate::daytime::to_utc;
use crate::devices::Placement;
use clap::{Args, ValueEnum};
use pumice_base::units::{parse_duration, parse_size};
use pumice_host::Method;
use pumice_host::order::Order;
use pumice_host::pass::RECONNECT;
use pumice_host::repair::RepairPolicy;
use pumice_host::repair::archive::KEPT_FOR;
use pumice_host::scrub::{Options, SETTLE};
use pumice_offload::{MAX_STRIPES, PaceRequest, parse_window};
use pumice_parity::seed::Seed;
use pumice_raid::Metadata;
use pumice_remote::initiator::DigestPolicy;
use pumice_service::failure::Failure;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// Checks an md array. For each inconsistency, reports the place, the member that is probably
/// wrong, and how certain that is.
///
/// Without --repair, devices are opened read-only and nothing is written to them. With --repair,
/// devices are opened exclusively.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pumice scrub /dev/sd[b-g]                      check a stopped array
  pumice scrub --allow-in-use /dev/md0           check a running one
  pumice scrub --rate 50MB --window 22:00-06:00 /dev/sd[b-g]
                                                 at most 50 MB/s, and only at night
  pumice scrub --repair --dry-run /dev/sd[b-g]   what would a repair rewrite?
  pumice scrub nvme://10.0.0.1:4420 nvme://10.0.0.2:4420
                                                 check an array whose drives are on two nodes
  pumice scrub --drives nvme://10.0.0.1:4420     check drives by their tags, without an array
  pumice scrub --heal /dev/md0 nvme://10.0.0.1:4420
                                                 have md rewrite the blocks that drives refuse

Memory: at most 4 reads of 8 MiB in flight per processor core, and 8 chunks of local memory per node
for interims. A pass over 24 members with 64 KiB chunks on two cores stays under 200 MiB. `pumice
plan` shows how many bytes a pass moves.

Environment: PUMICE_IO_ENGINE=uring|threads|inline selects how reads are issued.

Exit codes: 0 clean, 1 findings (also when repaired), 2 could not run or could not write its report,
3 interrupted or incomplete, 4 nothing but copies of a mirror that differ, which may be so without
damage.")]
pub struct ScrubArgs {
    /// Members of the array: block devices or image files, written as DRIVE,pi=BITS,tags=PATH if
    /// they have tags; /dev/mdX for all members of a running array; nvme://HOST:PORT/NSID for one
    /// drive of a data node; nvme://HOST:PORT for all drives of the node that have a superblock
    #[arg(required = true, value_name = "DEVICE")]
    pub(crate) devices: Vec<PathBuf>,

    /// Check only stripes A to B-1; the result, exit code and report cover these stripes alone
    #[arg(long, value_name = "A..B", value_parser = parse_range, help_heading = WHAT)]
    range: Option<Range<u64>>,
    /// Order of the stripes; `staggered` visits every region of the array early [default:
    /// sequential]
    #[arg(long, value_name = "ORDER", value_parser = ["sequential", "staggered"], help_heading = WHAT)]
    order: Option<String>,
    /// Accept that members of the array are not named: the others are checked with the remaining
    /// equations, and the result may be clean. Without this, such a check is incomplete (exit 3).
    /// Not needed for a member that md itself reports as missing
    #[arg(long, help_heading = WHAT)]
    degraded: bool,

    /// The version of the superblocks that count: 0.90, 1.0, 1.1 or 1.2. Needed if users of the
    /// array have written superblocks of other versions into it, on all members
    #[arg(long, value_name = "VERSION", value_parser = metadata, help_heading = WHAT)]
    pub(crate) metadata: Option<Metadata>,

    /// Have md check the stripes in which drives refuse blocks, so that md rewrites those blocks.
    /// Name the running array, such as /dev/md0, and the nodes of its drives
    #[arg(long, conflicts_with_all = ["drives", "repair", "dry_run", "resume", "range"], help_heading = REPAIR)]
    pub(crate) heal: bool,
    /// Check drives by their tags alone, whatever they hold: drives of nodes, or devices of this
    /// machine written as DRIVE,pi=BITS,tags=PATH
    #[arg(
        long,
        conflicts_with_all = ["range", "order", "degraded", "repair", "dry_run", "vouch", "resume", "allow_in_use"],
        help_heading = TAGS
    )]
    pub(crate) drives: bool,
    /// Turn adopted tags into vouched ones, which count as witnesses, in stripes whose parity holds
    #[arg(long, help_heading = TAGS)]
    vouch: bool,

    /// Check devices that are in use. Not needed for drives of nodes: nodes count every write
    #[arg(long, help_heading = IN_USE)]
    pub(crate) allow_in_use: bool,
    /// Time for which an inconsistency must stay unchanged if others may be writing [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = IN_USE)]
    settle: Option<u64>,
    /// Treat an array without a bitmap that was not stopped cleanly as if it had been
    #[arg(long, help_heading = IN_USE)]
    pub(crate) assume_settled: bool,

    /// Repair damage. Each place is read again before the write, journalled, and read back after
    /// it; the old bytes are kept
    #[arg(long, help_heading = REPAIR)]
    pub(crate) repair: bool,
    /// Report what --repair would rewrite; devices are opened read-only, and nothing is written
    #[arg(long, help_heading = REPAIR)]
    pub(crate) dry_run: bool,
    /// Readable bytes that a repair rewrites. Sectors that a drive refuses are rebuilt under every
    /// policy but `none`
    #[arg(long, value_enum, default_value_t = PolicyArg::Strong, help_heading = REPAIR)]
    repair_policy: PolicyArg,
    /// Time for which replaced bytes are kept for `pumice repairs undo`; older ones are deleted
    /// when a repair begins [default: 90d]
    #[arg(long, value_name = "AGE", value_parser = parse_duration, requires = "repair", help_heading = REPAIR)]
    keep_repairs: Option<u64>,

    /// Average delay that requests of other users may suffer, such as 1ms. For drives of nodes
    /// only: nowhere else are the requests of others visible
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = PACE)]
    slowdown: Option<u64>,
    /// Most bytes a second from each drive, such as 50MB; at least 4096
    #[arg(long, value_name = "BYTES", value_parser = parse_size, help_heading = PACE)]
    rate: Option<u64>,
    /// Hours in which reads may start, in local time, such as 22:00-06:00; may be repeated
    #[arg(long, value_name = "FROM-TO", value_parser = parse_window, help_heading = PACE)]
    window: Vec<(u32, u32)>,
    /// Times at which background reads start. `priced`: when --slowdown allows it; `back-to-back`:
    /// at once [default: priced with --slowdown, else back-to-back]
    #[arg(long, value_name = "POLICY", value_parser = ["priced", "back-to-back"], help_heading = PACE)]
    policy: Option<String>,

    /// Continue the interrupted scrub of this array
    #[arg(long, help_heading = STATE)]
    pub(crate) resume: bool,
    /// Folder for progress, the repair journal and replaced bytes [default: /var/lib/pumice for
    /// root, else $XDG_STATE_HOME/pumice]
    #[arg(long, value_name = "DIR", value_parser = folder(), help_heading = STATE)]
    pub(crate) state_dir: Option<PathBuf>,
    /// Folder of the sockets of served volumes, as of `pumice volume`: a volume that is being
    /// served is scrubbed by the process that serves it
    #[arg(long, value_name = "DIR", value_parser = folder(), help_heading = STATE)]
    pub(crate) run_dir: Option<PathBuf>,

    /// Digests (CRC-32C) of headers and data on connections to nodes. `auto`: for every node that
    /// offers them and is not on the loopback; `on`: required of every node; `off`: none
    #[arg(long, value_name = "WHEN", default_value_t = DigestPolicy::Auto, help_heading = NODES)]
    pub(crate) digest: DigestPolicy,
    /// Time to try to reconnect to a node before the scrub stops, such as 10m; 0s: no attempt
    /// [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = NODES)]
    reconnect: Option<u64>,

    /// Method by which stripes are checked. `auto`: `stripe` if all members are on one node, else
    /// `fingerprint`. `host` reads every byte to this machine, at no pace
    #[arg(long, value_enum, default_value_t = MethodArg::Auto, help_heading = METHOD)]
    method: MethodArg,
    /// Stripes per batch, 1 to 4194304 [default: 255]
    #[arg(long, value_name = "STRIPES", value_parser = clap::value_parser!(u64).range(1..=MAX_STRIPES), help_heading = METHOD)]
    batch: Option<u64>,
    /// Seed of the random weights and keys: 64 hexadecimal digits, or a number [default: new for
    /// each pass]
    #[arg(long, help_heading = METHOD)]
    seed: Option<Seed>,

    /// Print one JSON document
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
    /// Print no progress and no notes
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,

    /// The choices of a study; no option sets them.
    #[arg(skip)]
    pub study: Study,
}

/// The parts of a scrub that only studies choose.
#[derive(Debug, Clone, Default)]
pub struct Study {
    /// The nodes of this process over which the devices of this machine are spread.
    pub placement: Placement,
    /// Independent accumulators, from 1 to 8, of `aggregate`, and of `stripe` over several nodes;
    /// one by default.
    pub accumulators: Option<u8>,
}

/// The groups of the help text.
const WHAT: &str = "What is checked";
const TAGS: &str = "Tags beside drives";
const IN_USE: &str = "Arrays in use";
const REPAIR: &str = "Repair";
const PACE: &str = "Pace";
const STATE: &str = "State";
const NODES: &str = "Nodes";
const METHOD: &str = "Method";
const OUTPUT: &str = "Output";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodArg {
    Auto,
    Host,
    Stripe,
    Aggregate,
    Fingerprint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PolicyArg {
    /// The member that a verdict names, if the evidence is strong
    #[value(alias = "locate")]
    Strong,
    /// The member that a verdict names, even if the evidence is weak
    Likely,
    /// P and Q, computed from the present data, as md does it. Damage in the data becomes
    /// permanent. On mirrors nothing is rewritten
    Parity,
    /// Nothing
    None,
}

impl ScrubArgs {
    /// Returns whether the members are written to.
    pub(crate) fn repairs(&self) -> bool {
        self.repair && !self.dry_run
    }

    /// The options of the pass.
    pub(crate) fn options(&self, fresh_seed: Seed) -> Result<Options, Failure> {
        let method = match self.method {
            MethodArg::Auto => None,
            MethodArg::Host => Some(Method::Host),
            MethodArg::Stripe => Some(Method::Stripe),
            MethodArg::Aggregate => Some(Method::Aggregate),
            MethodArg::Fingerprint => Some(Method::Fingerprint),
        };
        let policy = match self.repair_policy {
            PolicyArg::Strong => RepairPolicy::Strong,
            PolicyArg::Likely => RepairPolicy::Likely,
            PolicyArg::Parity => RepairPolicy::Parity,
            PolicyArg::None => RepairPolicy::None,
        };
        let order: Option<Order> = self.order.as_deref().map(str::parse).transpose().map_err(Failure::new)?;
        Ok(Options {
            method,
            batch: self.batch,
            accumulators: self.study.accumulators,
            seed: self.seed.clone(),
            range: self.range.clone(),
            order,
            repair: (self.repair || self.dry_run).then_some(policy),
            dry_run: self.dry_run,
            vouch: self.vouch,
            resume: self.resume,
            in_use: self.allow_in_use,
            settle: self.settle.map_or(SETTLE, Duration::from_nanos),
            pace: self.pace()?,
            accept_degraded: self.degraded,
            reconnect: self.reconnect.map_or(RECONNECT, Duration::from_nanos),
            keep_repairs: self.keep_repairs.map_or(KEPT_FOR, |ns| Duration::from_nanos(ns).as_secs()),
            ..Options::with_seed(fresh_seed)
        })
    }

    /// The option that means nothing for a volume that is being served, if one is given.
    pub(crate) fn not_in_service(&self) -> Option<&'static str> {
        let given = [
            ("--heal", self.heal),
            ("--drives", self.drives),
            ("--nodes and --node", !matches!(self.study.placement, Placement::One)),
            ("--accumulators", self.study.accumulators.is_some()),
            ("--settle", self.settle.is_some()),
            ("--reconnect", self.reconnect.is_some()),
        ];
        given.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
    }

    /// The pace that is asked for.
    pub(crate) fn pace(&self) -> Result<PaceRequest, Failure> {
        let pace = PaceRequest {
            policy: self.policy.as_deref().map(str::parse).transpose().map_err(Failure::new)?,
            slowdown_ns: self.slowdown,
            rate: self.rate,
            windows: to_utc(&self.window),
        };
        if !pace.is_empty() {
            if matches!(self.method, MethodArg::Host) {
                let named = match pace {
                    PaceRequest { rate: Some(_), .. } => "rate",
                    PaceRequest { slowdown_ns: Some(_), .. } => "slowdown",
                    PaceRequest { policy: Some(_), .. } => "policy",
                    _ => "window",
                };
                return Err(Failure::new(format!(
                    "--{named}: --method host reads every byte itself, and nothing paces that; choose another method"
                )));
            }
            pace.validate().map_err(|(field, why)| Failure::new(format!("--{field}: {why}")))?;
        }
        Ok(pace)
    }
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("'{text}' is not a range of stripes: write A..B; B is not included");
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    let range = start.trim().parse().map_err(|_| wrong())?..end.trim().parse().map_err(|_| wrong())?;
    if range.start >= range.end { Err(format!("{text} is empty")) } else { Ok(range) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        scrub: ScrubArgs,
    }

    #[test]
    fn the_choices_of_a_study_mean_nothing_for_a_volume_in_service() {
        let typed = || Typed::parse_from(["scrub", "device"]).scrub;
        assert_eq!(typed().not_in_service(), None);
        let mut args = typed();
        args.study.placement = Placement::Runs(2);
        assert!(args.not_in_service().unwrap().contains("--nodes"));
        let mut args = typed();
        args.study.accumulators = Some(1);
        assert_eq!(args.not_in_service(), Some("--accumulators"));
    }
}
