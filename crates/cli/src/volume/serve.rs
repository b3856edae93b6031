//! `pumice volume assemble` and `serve`.

use super::create::ConsistencyArg;
use super::report::show;
use crate::access::{RunDir, metadata};
use crate::log::{self, LogFormat, LogLevel};
use crate::scrub::FORMS;
use crate::system::on_signals;
use crate::text::print;
use clap::Args;
use pumice_base::units::{Role, parse_duration, parse_size};
use pumice_blockdev::raise_descriptor_limit;
use pumice_executor::{Consistency, Offload};
use pumice_node::serve::listen_address;
use pumice_nvme::spec::Nqn;
use pumice_raid::Metadata;
use pumice_remote::initiator::DigestPolicy;
use pumice_service::api::{Event, STOP_TIME};
use pumice_service::failure::Failure;
use pumice_service::open::{OpenSpec, OpenVolume, open_volume};
use pumice_service::serve::{Left, ServeSpec, serve};
use pumice_service::status::document;
use pumice_service::stopping::stopper;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The exit code of a volume that could not be left clean.
const NOT_CLEAN: u8 = 3;

/// The devices and how to open them.
#[derive(Debug, Args)]
struct OpenArgs {
    /// The devices of the volume: block devices, image files, nvme://HOST:PORT/DRIVE, or
    /// nvme://HOST:PORT for all drives of a node that have a superblock
    #[arg(value_name = "DEVICE", required = true)]
    devices: Vec<PathBuf>,
    /// The version of the superblocks that count: 0.90, 1.0, 1.1 or 1.2. Needed if users of the
    /// array have written superblocks of other versions into it, on all members
    #[arg(long, value_name = "VERSION", value_parser = metadata)]
    metadata: Option<Metadata>,
    /// Protection of rows against a crash
    #[arg(long, value_enum, default_value = "log")]
    consistency: ConsistencyArg,
    /// Continue without members that are active according to the superblocks but not named; they
    /// are recorded as failed
    #[arg(long)]
    degraded: bool,
    /// Go on without these members, by role, such as 1,3, and with no more than half of the others
    /// on nodes: no other machine has run the array without the members that are named as devices.
    /// All members that are missing must be given, and no other
    #[arg(long, value_name = "ROLES", value_delimiter = ',')]
    without: Vec<u16>,
    /// Place where parity and lost blocks are computed: on: by the nodes of the drives, if that
    /// moves fewer bytes over this machine's links; off: by this machine; auto: where it is
    /// faster, which is measured while the volume works
    #[arg(long, value_enum, default_value = "on")]
    offload: Switch,
    /// Digests of connections to nodes: auto, on or off
    #[arg(long, default_value = "auto")]
    digest: DigestPolicy,
    /// Time for which requests wait while more members are missing than the volume survives
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = duration)]
    hold_timeout: Duration,
}

/// Recovers an array from a crash, and leaves it clean, so that Linux can assemble it.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 clean, 2 could not run (nothing is written if a device or a field is refused), 3 could
not be made clean.")]
pub(crate) struct AssembleArgs {
    #[command(flatten)]
    open: OpenArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Serves a volume to any NVMe/TCP host, as one namespace.
///
/// Prints `listening on ADDRESS nqn NQN` for each address when it is ready. SIGTERM, SIGHUP (the
/// terminal is closed; not under nohup), Ctrl-C and `pumice volume stop` end it: the array is left
/// clean. After a crash the same command first replays interrupted writes, and then listens.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 stopped and clean, 2 could not run (nothing is written if a device or a field is
refused), 3 stopped, and not clean.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    open: OpenArgs,
    /// Address to listen on; port 0 picks a free port; once for each address
    #[arg(long, value_name = "ADDRESS", required = true, value_parser = listen_address)]
    listen: Vec<SocketAddr>,
    /// The subsystem's name [default: derived from the array's UUID]
    #[arg(long)]
    nqn: Option<Nqn>,
    /// Most bytes a second that a rebuild writes to a member, such as 50MB; at least 4096
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    rebuild_rate: Option<u64>,
    #[command(flatten)]
    run: RunDir,
    /// Least severe level that is logged to standard error
    #[arg(long, value_name = "LEVEL", env = "PUMICE_LOG", default_value = "info")]
    log_level: LogLevel,
    /// Format of log lines
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

/// Place where parity is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    Auto,
    On,
    Off,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map(Duration::from_nanos).map_err(|error| error.to_string())
}

fn rate(text: &str) -> Result<u64, String> {
    let rate = parse_size(text).map_err(|error| error.to_string())?;
    if rate < 4096 { Err(format!("{rate} bytes a second: at least 4096")) } else { Ok(rate) }
}

impl OpenArgs {
    fn spec(&self, rebuild_rate: Option<u64>) -> OpenSpec {
        OpenSpec {
            devices: self.devices.clone(),
            metadata: self.metadata,
            consistency: match self.consistency {
                ConsistencyArg::Log => Consistency::Log,
                ConsistencyArg::Bitmap => Consistency::Bitmap,
            },
            degraded: self.degraded,
            without: self.without.iter().copied().map(Role).collect(),
            offload: match self.offload {
                Switch::Auto => Offload::Auto,
                Switch::On => Offload::On,
                Switch::Off => Offload::Off,
            },
            digests: self.digest,
            hold_timeout: self.hold_timeout,
            rebuild_rate,
        }
    }
}

/// Runs `pumice volume assemble`.
pub(super) fn assemble(args: &AssembleArgs) -> Result<ExitCode, Failure> {
    let OpenVolume { volume, devices: _devices } = open_volume(&args.open.spec(None))?;
    let mut status = volume.status()?;
    let clean = volume.stop(STOP_TIME);
    status.clean = clean;
    show(&document(&status, None), args.json);
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::from(NOT_CLEAN) })
}

/// Runs `pumice volume serve`.
pub(super) fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let log = log::begin(args.log_level, args.log_format)?;
    let tell = |event: &Event| log.say(&event.to_string());
    let spec = ServeSpec {
        open: args.open.spec(args.rebuild_rate),
        listen: args.listen.clone(),
        nqn: args.nqn.clone(),
        folder: args.run.folder()?,
        forms: FORMS,
    };
    // One of each connection, and some of the process's own.
    raise_descriptor_limit().unwrap_or(0);
    let (stop, stops) = stopper();
    let signal = stop.clone();
    on_signals(move || signal.stop())?;
    let serving = serve(&spec, (&stop, stops), &tell)?;
    let line = |address| format!("listening on {address} nqn {}\n", serving.nqn());
    print(&serving.addresses().iter().map(line).collect::<String>());
    let left = serving.wait(&tell)?;
    log.finish();
    match left {
        Left::Clean => Ok(ExitCode::SUCCESS),
        // Threads may be waiting for devices for ever.
        Left::Unclean => std::process::exit(i32::from(NOT_CLEAN)),
    }
}
