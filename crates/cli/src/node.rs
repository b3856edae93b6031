//! `pumice node`.

use crate::access::{NO_FOLDER, folder, is_another};
use crate::daytime::to_utc;
use crate::leaving;
use crate::log::{self, Lines, LogFormat, LogLevel};
use crate::system::on_signals;
use crate::text;
use clap::Args;
use pumice_blockdev::raise_descriptor_limit;
use pumice_host::instance::lock_name;
use pumice_node::NodeOptions;
use pumice_node::serve::{
    BackendError, Drive, DriveConfig, DriveSource, HostFaces, NodeConfig, Peer, Server, Service, busy_poll,
    listen_address, metrics_address,
};
use pumice_nvme::controller::Limits;
use pumice_nvme::spec::Nqn;
use pumice_offload::PaceRequest;
use pumice_protect::format::Type;
use pumice_remote::initiator::DigestPolicy;
use pumice_service::failure::Failure;
use pumice_service::identity::{default_state_dir, instance};
use pumice_service::say::say;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tracing::info;

/// The exit code of a node that failed, or whose drives did not all stop in time.
const NOT_DONE: u8 = 3;

/// Serves drives to any NVMe/TCP host: one subsystem with a namespace for each drive, in the order
/// given.
///
/// Prints `listening on ADDRESS nqn NQN` for each address when it is ready. SIGTERM and Ctrl-C stop
/// it: commands in flight are finished, and every write is made durable.
#[derive(Debug, Args)]
#[command(after_help = "\
All options can be given in a file instead, with --config:

    listen = \"127.0.0.1:4420\"           # or several: [\"192.0.2.1\", \"[2001:db8::1]:4420\"]
    nqn = \"nqn.2026-11.example:node1\"   # optional; else made from the machine and the drives
    block_size = 512                    # or 4096
    cores = 1
    connections = 4096
    busy_poll = \"100us\"                 # optional; \"0s\" for never
    state_dir = \"/var/lib/pumice\"       # optional; the default is the same
    metrics = \"9420\"                    # optional; a port of 127.0.0.1, or ADDRESS:PORT
    show_paths = false                  # optional; true shows hosts the full paths of drives
    [[drive]]
    backend = \"/dev/sdb\"                # a block device, an image file, mem:SIZE, or flash:PATH
    label = \"front left\"                # optional; for hosts, else the last part of the path
    pi = 16                             # optional; bits of the tag of each block
    tags = \"/var/lib/pumice/sdb.tags\"   # with pi: the tag file
    [[host]]                            # optional; hosts that see the tags of such drives
    nqn = \"nqn.2026-11.example:host\"
    faces = [\"hidden\", \"visible\"]       # or \"unchecked\" instead of \"hidden\"
    [[peer]]                            # nodes to which local memory may be sent
    address = \"127.0.0.1:4421\"
    digest = \"auto\"                     # optional; auto (not on the loopback), on, off
    [pacing]                            # optional; scrubs may ask for less, never for more
    slowdown = \"1ms\"                    # average delay of a foreground request
    rate = \"200MB\"                      # per second, from each drive
    window = [\"22:00-06:00\"]            # local time

Exit codes: 0 stopped, 2 could not run, 3 a part of the node, a drive or its tag file failed, a drive
did not come back, or a signal came before the node was ready.")]
pub(crate) struct NodeArgs {
    /// Read the complete configuration from this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "drive", "nqn", "block_size", "cores", "peer", "connections", "busy_poll", "state_dir", "show_paths", "metrics"])]
    config: Option<PathBuf>,
    /// Address to listen on, such as 192.0.2.1, 192.0.2.1:4420 or `[2001:db8::1]:4420`; port 0
    /// picks a free port; once for each address
    #[arg(long, value_name = "ADDRESS", required_unless_present = "config", value_parser = listen_address)]
    listen: Vec<SocketAddr>,
    /// A drive, once for each: a block device, an image file, mem:SIZE, or flash:PATH (see `pumice
    /// flash`). Append `,capacity=SIZE,op=7%,dedup=SCHEME` to create a flash drive. Append
    /// `,pi=16,tags=PATH` (`,pi=16` alone for mem:SIZE) to keep a tag for each block in the file
    /// PATH and to refuse blocks that differ from their tags. metadata=64 (with blocks of 4096
    /// bytes), pi-place=first and storage-tag=BITS choose the metadata of its visible face;
    /// atomic=4096 promises that a power cut never tears 4096 bytes of the drive
    #[arg(long, value_name = "DRIVE", required_unless_present = "config")]
    drive: Vec<DriveSource>,
    /// The subsystem's name [default: derived from the machine and the drives]
    #[arg(long)]
    nqn: Option<Nqn>,
    /// Bytes of a block: 512 or 4096
    #[arg(long, default_value = "512", value_parser = ["512", "4096"])]
    block_size: String,
    /// A node to which this one may send local memory, for scrubs across nodes; once for each
    #[arg(long, value_name = "ADDRESS")]
    peer: Vec<SocketAddr>,
    /// Threads that serve connections; each connection stays on one thread
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: u16,
    /// Most connections at a time; any more are closed at once
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    connections: u32,
    /// Time for which a core looks for work before it sleeps, if recent waits were short; 0s for
    /// never
    #[arg(long, value_name = "DURATION", default_value = "100us", value_parser = busy_poll)]
    busy_poll: Duration,
    /// Folder for the machine's instance, and the record of blocks that hosts have marked
    /// unreadable [default: /var/lib/pumice for root, else $XDG_STATE_HOME/pumice]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    state_dir: Option<PathBuf>,
    /// Address of counters for Prometheus: a port of 127.0.0.1, or ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,
    /// Least severe level that is logged to standard error [default: info]
    #[arg(long, value_name = "LEVEL", env = "PUMICE_LOG")]
    log_level: Option<LogLevel>,
    /// Format of log lines
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Bytes a second of each drive, for measurements
    #[arg(long, hide = true, value_parser = pumice_base::units::parse_size)]
    drive_rate: Option<u64>,
    /// Show the full paths of drives to hosts, not only the last parts
    #[arg(long)]
    show_paths: bool,
}

impl NodeArgs {
    /// Failure to serve drive `index`, from 0. A size has no path that would name the drive.
    fn refused(&self, index: usize, error: BackendError) -> Failure {
        match (&error, &self.config) {
            (BackendError::Size { .. }, Some(path)) => {
                Failure::new(format!("{}: drive {}: backend: {error}", path.display(), index + 1))
            }
            (BackendError::Size { .. }, None) => Failure::new(format!("--drive {error}")),
            _ => error.into(),
        }
    }

    fn config(&self) -> Result<NodeConfig, Failure> {
        if let Some(path) = &self.config {
            return Ok(NodeConfig::read(path)?);
        }
        let drive = |source: &DriveSource| DriveConfig {
            backend: source.backend.clone(),
            tagging: source.tagging.clone(),
            pi_type: Type::One,
            storage_tag_mask: u64::MAX,
            block_size: None,
            label: None,
        };
        Ok(NodeConfig {
            listen: self.listen.clone(),
            nqn: self.nqn.clone(),
            block_size: self.block_size.parse().expect("one of two"),
            cores: usize::from(self.cores),
            connections: self.connections as usize,
            busy_poll: self.busy_poll,
            state_dir: self.state_dir.clone(),
            drives: self.drive.iter().map(drive).collect(),
            metrics: self.metrics,
            show_paths: self.show_paths,
            faces: HostFaces::default(),
            pacing: PaceRequest::default(),
            peers: self
                .peer
                .iter()
                .map(|address| Peer { address: *address, nqn: None, digests: DigestPolicy::Auto })
                .collect(),
        })
    }
}

/// Runs the command.
pub(crate) fn run(args: &NodeArgs) -> Result<ExitCode, Failure> {
    let config = args.config()?;
    if let (Some(file), Some(folder)) =
        (&args.config, config.state_dir.as_ref().filter(|path| is_another(path)))
    {
        let (file, folder) = (file.display(), folder.display());
        return Err(Failure::new(format!("{file}: state_dir: {folder}: {NO_FOLDER}")));
    }
    let log = log::begin(args.log_level.unwrap_or(LogLevel::Info), args.log_format)?;
    let (stop, stopped) = mpsc::channel();
    let signal = stop.clone();
    let ready = Arc::new(AtomicBool::new(false));
    let is_ready = Arc::clone(&ready);
    on_signals(move || {
        if !is_ready.load(Ordering::SeqCst) {
            // Drives or tag files are being made, and nothing is served yet.
            leaving::leave();
        }
        // Only the first counts; the receiver may be gone already.
        let _ = signal.send(Ended::Signal);
    })?;
    let state = config.state_dir.clone().or_else(default_state_dir);
    let here = instance(state.as_deref(), &mut |note| log.say(note))?;
    if !here.is_kept() {
        log.say("hosts will see other namespaces after the next start: name a folder that can be written with --state-dir");
    }
    let nqn = config.nqn_or_made(&here.derive("node name", &[]));
    let _name = state.as_deref().map(|folder| lock_name(folder, nqn.as_str())).transpose();
    let _name = _name.map_err(|taken| Failure::new(taken.to_string()))?;
    let id = here.derive("node", nqn.as_str().as_bytes());
    let place: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let drives = open_all(args, &config, &place, state.as_deref())?;
    let made: Vec<_> = drives.iter().map(|drive| drive.made().clone()).collect();
    ready.store(true, Ordering::SeqCst);
    // One of each connection, and some of the node's own.
    let descriptors = raise_descriptor_limit().unwrap_or(0);
    if descriptors < config.connections as u64 + 256 {
        log.say(&format!(
            "{} connections are allowed, but only {descriptors} file descriptors can be open: see `ulimit -Hn`",
            config.connections
        ));
    }
    let started = Server::start(Service {
        listen: config.listen,
        metrics: config.metrics,
        nqn,
        instance: Some(id),
        drives,
        faces: config.faces,
        limits: Limits { connections: config.connections, ..Limits::default() },
        cores: config.cores,
        busy_poll: config.busy_poll,
        node: NodeOptions::default(),
        peers: config.peers,
        pacing: PaceRequest { windows: to_utc(&config.pacing.windows), ..config.pacing },
    });
    let server = match started {
        Ok(server) => server,
        Err(error) => {
            made.iter().for_each(|files| files.remove().unwrap_or_else(still_there));
            return Err(error.into());
        }
    };
    let line = |address| format!("listening on {address} nqn {}\n", server.nqn());
    let lines: String = server.addresses().iter().map(line).collect();
    // All lines at once: a reader that closes the pipe after the first does not end the node.
    if let Err(error) = text::write(&lines) {
        log.say(&format!("the addresses could not be written to standard output: {error}"));
    }
    server.on_failure(move |why| {
        // As above.
        let _ = stop.send(Ended::Failed(why));
    });
    let ended = stopped.recv().map_err(|_| Failure::new("the signal handler is gone"))?;
    end(server, &ended, &log)
}

/// Ends the node, and says what did not end well.
fn end(server: Server, ended: &Ended, log: &Lines) -> Result<ExitCode, Failure> {
    let stopped = server.stop();
    if let Err(error) = &stopped {
        log.say(&error.to_string());
    }
    if let Ended::Failed(why) = ended {
        log.say(&format!("the node stops: {why}"));
    }
    log.finish();
    match (ended, stopped) {
        (Ended::Signal, Ok(())) => Ok(ExitCode::SUCCESS),
        (Ended::Signal, Err(_)) | (Ended::Failed(_), _) => exit_now(),
    }
}

/// Time between two lines that say that drives are still being opened.
const WORD: Duration = Duration::from_secs(5);
/// Most drives that are opened at the same time.
const AT_ONCE: usize = 64;

/// Says that a file that was made for a drive which was not served is still there.
fn still_there((path, error): (PathBuf, std::io::Error)) {
    say(&format!("{}: it was made, and cannot be removed: {error}", path.display()));
}

/// Opens the drives, many at a time: each may have to recover from a crash first, on a disk of its
/// own. Those that were opened are closed again if one cannot be, and the files that were made for
/// them are removed.
fn open_all(
    args: &NodeArgs,
    config: &NodeConfig,
    place: &str,
    state: Option<&Path>,
) -> Result<Vec<Drive>, Failure> {
    let (done, ended) = mpsc::channel();
    let mut opened: Vec<Option<Result<Drive, Failure>>> = config.drives.iter().map(|_| None).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..opened.len().min(AT_ONCE) {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(drive) = config.drives.get(index) else { break };
                    // The other end waits for all of them.
                    let _ = done.send((index, open_one(args, config, place, state, index, drive)));
                }
            });
        }
        let begun = Instant::now();
        let mut left = opened.len();
        while left > 0 {
            match ended.recv_timeout(WORD) {
                Ok((index, drive)) => {
                    opened[index] = Some(drive);
                    left -= 1;
                }
                Err(_) => {
                    let seconds = begun.elapsed().as_secs();
                    let waiting = opened.iter().position(Option::is_none).unwrap_or(0);
                    let drive = config.label(waiting);
                    info!(seconds, left, drive, "drives are being opened: some may recover from a crash");
                }
            }
        }
    });
    let opened: Vec<_> = opened.into_iter().map(|drive| drive.expect("it was waited for")).collect();
    if opened.iter().any(Result::is_err) {
        let (opened, mut failed): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
        for drive in opened.into_iter().flatten() {
            drive.remove_made().unwrap_or_else(still_there);
        }
        return failed.swap_remove(0).map(|_| Vec::new());
    }
    opened.into_iter().collect()
}

/// Opens one drive, the `index`th from 0.
fn open_one(
    args: &NodeArgs,
    config: &NodeConfig,
    place: &str,
    state: Option<&Path>,
    index: usize,
    drive: &DriveConfig,
) -> Result<Drive, Failure> {
    let block_size = drive.block_size.unwrap_or(config.block_size);
    let (label, tagging) = (config.label(index), drive.tagging.as_ref());
    let opened = Drive::open_tagged(&drive.backend, tagging, block_size, place, index + 1, Some(&label));
    let opened = opened
        .map_err(|error| args.refused(index, error))?
        .with_type(drive.pi_type)
        .with_storage_mask(drive.storage_tag_mask);
    let opened = match state {
        Some(folder) => opened.keep_marks(folder)?,
        None => opened,
    };
    Ok(match args.drive_rate {
        Some(rate) => opened.limited(rate),
        None => opened,
    })
}

/// Reason for which the node ends.
enum Ended {
    /// By a signal.
    Signal,
    /// A part of it has failed.
    Failed(String),
}

/// Ends the process, whatever its other threads wait for.
fn exit_now() -> ! {
    std::process::exit(i32::from(NOT_DONE))
}
