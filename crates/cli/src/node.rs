//! `pumice node`.

use crate::daytime::to_utc;
use crate::failure::Failure;
use crate::scrub::default_state_dir;
use clap::Args;
use pumice_blockdev::raise_descriptor_limit;
use pumice_initiator::DigestPolicy;
use pumice_node::NodeOptions;
use pumice_node::serve::{Backend, Drive, DriveConfig, NodeConfig, Peer, Server, Service, busy_poll};
use pumice_nvme::spec::Nqn;
use pumice_nvme::target::Limits;
use pumice_offload::PaceRequest;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

/// Serves drives to any NVMe/TCP host: one subsystem, a namespace for each drive, in the order given.
///
/// Prints `listening on ADDRESS nqn NQN` when it is ready. SIGTERM and Ctrl-C stop it: commands in flight end, every write is made
/// durable.
#[derive(Debug, Args)]
#[command(after_help = "\
The whole can be written down in a file, for --config:

    listen = \"127.0.0.1:4420\"
    nqn = \"nqn.2026-11.example:node1\"      # optional; made from the machine and the drives where it is left out
    block_size = 512                       # or 4096
    cores = 1
    connections = 4096
    busy_poll = \"100us\"                    # optional; how long a core looks for work before it sleeps, \"0s\" for never
    state_dir = \"/var/lib/pumice\"          # optional; the default is the same
    [[drive]]
    backend = \"/dev/sdb\"                   # a block device, an image file, or mem:SIZE
    [[peer]]                               # nodes that local memory may be sent to
    address = \"127.0.0.1:4421\"
    digest = \"auto\"                        # optional; of what is sent there: auto (unless it is on the loopback), on, off
    [pacing]                               # optional; scrubs may ask for less, never for more
    slowdown = \"1ms\"                       # of a foreground request, in the mean
    rate = \"200MB\"                         # a second, from each drive
    window = [\"22:00-06:00\"]              # local time

Exit codes: 0 stopped, 2 could not run.")]
pub(crate) struct NodeArgs {
    /// A file that says all this
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "drive", "nqn", "block_size", "cores", "peer", "connections", "busy_poll", "state_dir"])]
    config: Option<PathBuf>,
    /// Where to listen; port 0 picks one
    #[arg(long, value_name = "ADDRESS", required_unless_present = "config")]
    listen: Option<SocketAddr>,
    /// A drive: a block device, an image file, or mem:SIZE; once for each
    #[arg(long, value_name = "DRIVE", required_unless_present = "config")]
    drive: Vec<Backend>,
    /// The subsystem's name [default: made from the machine and the drives]
    #[arg(long)]
    nqn: Option<Nqn>,
    /// Bytes of a block: 512 or 4096
    #[arg(long, default_value = "512", value_parser = ["512", "4096"])]
    block_size: String,
    /// A node that this one may send local memory to, for scrubs across nodes; once for each
    #[arg(long, value_name = "ADDRESS")]
    peer: Vec<SocketAddr>,
    /// Threads that serve connections; each connection lives on one
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: u16,
    /// Connections at a time; more are closed at once
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    connections: u32,
    /// How long a core looks for work before it sleeps, where that has paid of late; 0s for never
    #[arg(long, value_name = "DURATION", default_value = "100us", value_parser = busy_poll)]
    busy_poll: Duration,
    /// Where it is kept which blocks hosts have made unreadable [default: /var/lib/pumice for root, else $XDG_STATE_HOME/pumice]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl NodeArgs {
    fn config(&self) -> Result<NodeConfig, Failure> {
        if let Some(path) = &self.config {
            return Ok(NodeConfig::read(path)?);
        }
        let drive = |backend: &Backend| DriveConfig { backend: backend.clone(), block_size: None };
        Ok(NodeConfig {
            listen: self.listen.expect("clap asks for it"),
            nqn: self.nqn.clone(),
            block_size: self.block_size.parse().expect("one of two"),
            cores: usize::from(self.cores),
            connections: self.connections as usize,
            busy_poll: self.busy_poll,
            state_dir: self.state_dir.clone(),
            drives: self.drive.iter().map(drive).collect(),
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
    let nqn = config.nqn_or_made();
    let state = config.state_dir.clone().or_else(default_state_dir);
    let mut drives = Vec::with_capacity(config.drives.len());
    for (i, drive) in config.drives.iter().enumerate() {
        let block_size = drive.block_size.unwrap_or(config.block_size);
        let drive = Drive::open(&drive.backend, block_size, nqn.as_str(), i + 1)?;
        drives.push(match &state {
            Some(folder) => drive.keep_marks(folder)?,
            None => drive,
        });
    }
    // One of each connection, and some of the node's own.
    let descriptors = raise_descriptor_limit().unwrap_or(0);
    if descriptors < config.connections as u64 + 256 {
        eprintln!(
            "pumice: {} connections are allowed, but only {descriptors} open descriptors: see `ulimit -Hn`",
            config.connections
        );
    }
    let (stop, stopped) = mpsc::channel();
    ctrlc::set_handler(move || {
        // Only the first counts; the receiver may be gone already.
        let _ = stop.send(());
    })?;
    let server = Server::start(Service {
        address: config.listen,
        nqn,
        drives,
        limits: Limits { connections: config.connections, ..Limits::default() },
        cores: config.cores,
        busy_poll: config.busy_poll,
        node: NodeOptions::default(),
        peers: config.peers,
        pacing: PaceRequest { windows: to_utc(&config.pacing.windows), ..config.pacing },
    })?;
    let mut out = std::io::stdout();
    writeln!(out, "listening on {} nqn {}", server.address(), server.nqn())?;
    out.flush()?;
    stopped.recv().map_err(|_| Failure::new("the signal handler is gone"))?;
    server.stop()?;
    Ok(ExitCode::SUCCESS)
}
