//! `pumice volume assemble` and `serve`.

use super::control::{Answer, Ask, PATIENCE, RunDir, STOP_TIME, Socket, SocketPlace};
use super::create::ConsistencyArg;
use super::members::{Devices, is_same};
use super::report::{Served, Shown, show};
use super::scrubbing::Scrubs;
use crate::access::metadata;
use crate::failure::Failure;
use crate::identity::writer;
use crate::log::{self, Lines, LogFormat, LogLevel};
use crate::system::on_signals;
use crate::text::print;
use clap::Args;
use pumice_blockdev::raise_descriptor_limit;
use pumice_executor::{Consistency, Control, ControlError, Offload, OpenOptions, ServedVolume, Status, open};
use pumice_initiator::{BusyPoll, DigestPolicy};
use pumice_node::NodeOptions;
use pumice_node::serve::{Drive, HostFaces, Server, Service, can_listen, listen_address};
use pumice_nvme::controller::Limits;
use pumice_nvme::spec::Nqn;
use pumice_offload::PaceRequest;
use pumice_raid::Metadata;
use pumice_units::{Role, parse_duration, parse_size};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The exit code of a volume that could not be left clean.
const NOT_CLEAN: u8 = 3;
/// How long the volume has to say how it stands before it is stopped.
const LAST_STATUS: Duration = Duration::from_secs(1);
/// Local memory for the volume's own namespace: parity commands go to the members instead.
const MEMORY: u64 = 1 << 20;

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
    /// How rows are protected against a crash
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
    /// Where parity and lost blocks are computed: on: by the nodes of the drives, if that moves
    /// fewer bytes over this machine's links; off: by this machine; auto: where it is faster,
    /// which is measured while the volume works
    #[arg(long, value_enum, default_value = "on")]
    offload: Switch,
    /// Digests of connections to nodes: auto, on or off
    #[arg(long, default_value = "auto")]
    digest: DigestPolicy,
    /// How long requests wait while more members are missing than the volume survives
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

/// Where parity is computed.
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
    fn open(&self, rebuild_rate: Option<u64>) -> Result<(ServedVolume, Devices), Failure> {
        let mut devices = Devices::new(self.digest).with_metadata(self.metadata);
        let drives = devices.open(&self.devices, true)?;
        let (writer, formerly) = writer()?;
        let mut options = OpenOptions {
            metadata: self.metadata,
            consistency: match self.consistency {
                ConsistencyArg::Log => Consistency::Log,
                ConsistencyArg::Bitmap => Consistency::Bitmap,
            },
            degraded: self.degraded,
            offload: match self.offload {
                Switch::Auto => Offload::Auto,
                Switch::On => Offload::On,
                Switch::Off => Offload::Off,
            },
            majority: devices.any_far(),
            without: self.without.iter().copied().map(Role).collect(),
            hold_timeout: self.hold_timeout,
            writer,
            rebuild_rate,
            ..OpenOptions::default()
        };
        let mut opened = open(&drives, &options);
        if let Err(error) = &opened
            && formerly != 0
            && error.held_by() == Some(formerly)
        {
            // An earlier version of this program has left it open here.
            options.writer = formerly;
            opened = open(&drives, &options);
        }
        Ok((opened?, devices))
    }
}

/// Runs `pumice volume assemble`.
pub(super) fn assemble(args: &AssembleArgs) -> Result<ExitCode, Failure> {
    let (volume, _devices) = args.open.open(None)?;
    let mut status = volume.status()?;
    let clean = volume.stop(STOP_TIME);
    status.clean = clean;
    show(&Shown::of(&status, None), args.json);
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::from(NOT_CLEAN) })
}

/// Why a served volume ends.
enum Ended {
    Signal,
    /// By a request over its socket.
    Asked(Asker),
    Failed(String),
}

/// Who has asked the volume to stop.
struct Asker {
    /// Takes whether it is clean.
    reply: Sender<bool>,
    /// Ends when the answer is sent.
    told: Receiver<()>,
}

impl Asker {
    /// Tells whether the volume is clean. The client may have gone.
    fn tell(&self, clean: bool) {
        if self.reply.send(clean).is_ok() {
            // The process must not end before the answer is sent.
            let _ = self.told.recv_timeout(PATIENCE);
        }
    }
}

/// Runs `pumice volume serve`.
pub(super) fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let log = log::begin(args.log_level, args.log_format)?;
    let folder = args.run.folder()?;
    // One of each connection, and some of the process's own.
    raise_descriptor_limit().unwrap_or(0);
    let (stop, stopped) = mpsc::channel();
    let signal = stop.clone();
    on_signals(move || {
        // Only the first counts; the receiver may be gone already.
        let _ = signal.send(Ended::Signal);
    })?;
    // Opening writes to the members: what can be refused is refused before.
    can_listen(&args.listen)?;
    Socket::check(&folder)?;
    let (volume, devices) = args.open.open(args.rebuild_rate)?;
    match serve(args, &volume, &folder, devices, &stop, &log) {
        Ok(serving) => {
            let ended = stopped.recv().map_err(|_| Failure::new("the signal handler is gone"))?;
            end(volume, serving, &ended, &stopped, &log)
        }
        Err(failure) => {
            // It was not served, so nobody wrote to it: it is left as it was found, but clean.
            if !volume.stop(STOP_TIME) {
                log.say("the volume could not be left clean");
            }
            Err(failure)
        }
    }
}

/// The parts that serve a volume.
struct Serving {
    server: Server,
    /// The place of the socket.
    socket: SocketPlace,
    scrubs: Arc<Scrubs>,
}

fn serve(
    args: &ServeArgs,
    volume: &ServedVolume,
    folder: &Path,
    devices: Devices,
    stop: &Sender<Ended>,
    log: &Lines,
) -> Result<Serving, Failure> {
    let uuid = volume.facts().uuid;
    let name = format!("nqn.2014-08.org.nvmexpress:uuid:{}", dashed(&uuid.0));
    let nqn = match &args.nqn {
        Some(nqn) => nqn.clone(),
        None => name.parse()?,
    };
    let socket = Socket::make(folder, &uuid.to_string())?;
    let drive = Drive::with_uuid(volume.device(), volume.facts().block, uuid.0)?;
    let server = Server::start(Service {
        listen: args.listen.clone(),
        metrics: None,
        nqn,
        instance: None,
        drives: vec![drive],
        faces: HostFaces::default(),
        limits: Limits::default(),
        cores: 1,
        busy_poll: BusyPoll::USUAL,
        node: NodeOptions { memory_bytes: MEMORY, ..NodeOptions::default() },
        peers: Vec::new(),
        pacing: PaceRequest::default(),
    })?;
    let served = Served {
        addresses: server.addresses().iter().map(ToString::to_string).collect(),
        nqn: server.nqn().to_string(),
        pid: std::process::id(),
    };
    for line in Shown::of(&volume.status()?, None).recovery_words() {
        log.say(&line);
    }
    let scrubs = Arc::new(Scrubs::default());
    let control = volume.control();
    let devices = Mutex::new(devices);
    let asked = Asked { control, served, devices, scrubs: Arc::clone(&scrubs), stop: stop.clone() };
    let place = socket.place().clone();
    std::thread::Builder::new()
        .name("socket".to_owned())
        .spawn(move || socket.serve(move |ask, stream| asked.answer(ask, stream)))?;
    let line = |address| format!("listening on {address} nqn {}\n", server.nqn());
    print(&server.addresses().iter().map(line).collect::<String>());
    let failed = stop.clone();
    server.on_failure(move |why| {
        // It ends already.
        let _ = failed.send(Ended::Failed(why));
    });
    Ok(Serving { server, socket: place, scrubs })
}

/// A UUID in the usual notation, which mdadm does not use.
fn dashed(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn end(
    volume: ServedVolume,
    serving: Serving,
    ended: &Ended,
    later: &Receiver<Ended>,
    log: &Lines,
) -> Result<ExitCode, Failure> {
    let Serving { server, socket, scrubs } = serving;
    if !scrubs.close() {
        log.say("a scrub of the volume waits for a drive or a node, and is left behind");
    }
    // Hosts are disconnected first, so that no new requests arrive.
    let stopped = server.stop();
    if let Err(error) = &stopped {
        log.say(&error.to_string());
    }
    let status = volume.control().status_within(LAST_STATUS);
    let clean = volume.stop(STOP_TIME);
    if !clean {
        let why = match status {
            Ok(status) if status.held => "more members are missing than it survives",
            Err(ControlError::Unanswered) => "it waits for a drive or a node that does not answer",
            _ => "it took too long, or members have failed",
        };
        log.say(&format!("the volume could not be left clean: {why}"));
    }
    for ended in [ended].into_iter().chain(later.try_iter().collect::<Vec<_>>().iter()) {
        if let Ended::Asked(asker) = ended {
            asker.tell(clean);
        }
    }
    // It may be gone already, and another process may have made one.
    socket.remove();
    if let Ended::Failed(why) = ended {
        log.say(&format!("the server stops: {why}"));
    }
    log.finish();
    if clean && stopped.is_ok() && !matches!(ended, Ended::Failed(_)) {
        return Ok(ExitCode::SUCCESS);
    }
    // Threads may be waiting for devices for ever.
    std::process::exit(i32::from(NOT_CLEAN))
}

/// Answers the requests over the socket.
struct Asked {
    control: Control,
    served: Served,
    /// Locked while an order is carried out: one at a time changes the members.
    devices: Mutex<Devices>,
    scrubs: Arc<Scrubs>,
    stop: Sender<Ended>,
}

/// Dropped when an answer is sent.
type UntilSent = Option<Sender<()>>;

impl Asked {
    fn answer(&self, ask: Ask, stream: &UnixStream) -> Option<(Answer, UntilSent)> {
        let done = match ask {
            Ask::Scrub { order } => {
                let stream = stream.try_clone().map_err(Failure::from);
                let begun = stream.and_then(|stream| self.scrubs.begin(self.control.clone(), *order, stream));
                match begun {
                    Ok(()) => return None,
                    Err(failure) => Err(failure),
                }
            }
            Ask::Stop => {
                let (sent, told) = mpsc::channel();
                let done = self.stop(told);
                return Some((Self::said(done), Some(sent)));
            }
            ask => self.carry_out(ask),
        };
        Some((Self::said(done), None))
    }

    fn said(done: Result<Shown, Failure>) -> Answer {
        match done {
            Ok(shown) => Answer::Volume(Box::new(shown)),
            Err(failure) => Answer::Error(failure.to_string()),
        }
    }

    fn stop(&self, told: Receiver<()>) -> Result<Shown, Failure> {
        // A volume that waits for a node is stopped all the same.
        let shown = self.shown();
        let (reply, stopped) = mpsc::channel();
        let asked = self.stop.send(Ended::Asked(Asker { reply, told }));
        asked.map_err(|_| Failure::new("it is already stopping"))?;
        match stopped.recv_timeout(STOP_TIME) {
            Ok(true) => {
                let mut shown = shown?;
                (shown.state, shown.served) = ("clean".to_owned(), None);
                Ok(shown)
            }
            _ => Err(Failure::new("the volume has stopped, and could not be left clean")),
        }
    }

    /// The devices, for an order: orders wait for one another.
    fn devices(&self) -> MutexGuard<'_, Devices> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> Result<Shown, Failure> {
        Ok(Shown::of(&self.control.status()?, Some(self.served.clone())))
    }

    fn carry_out(&self, ask: Ask) -> Result<Shown, Failure> {
        // A node that is opened for it could not be held by the volume when it comes back.
        if matches!(ask, Ask::Add { .. } | Ask::Replace { .. }) && self.control.status()?.held {
            return Err(ControlError::Held.into());
        }
        let control = &self.control;
        match ask {
            Ask::Status | Ask::Scrub { .. } | Ask::Stop => {}
            Ask::Fail { member } => {
                let _alone = self.devices();
                control.fail(self.role(&member)?)?;
            }
            Ask::Add { device, force } => {
                let mut devices = self.devices();
                let role = devices.open_for(&device, |drive| Ok(control.add(drive, force)?))?;
                self.wait_for_join(role)?;
            }
            Ask::Replace { member, device, force } => {
                let mut devices = self.devices();
                let role = self.role(&member)?;
                devices.open_for(&device, |drive| Ok(control.replace(role, drive, force)?))?;
                self.wait_for_join(role)?;
            }
        }
        self.shown()
    }

    fn role(&self, member: &str) -> Result<Role, Failure> {
        if let Ok(number) = member.parse() {
            return Ok(Role(number));
        }
        let status = self.control.status()?;
        let found = status
            .devices
            .iter()
            .find(|(_, device)| device.as_deref().is_some_and(|device| is_same(device, member)));
        let none = || Failure::new(format!("{member}: no member has that role or device"));
        found.map(|(role, _)| *role).ok_or_else(none)
    }

    fn wait_for_join(&self, role: Role) -> Result<(), Failure> {
        self.wait(|status| {
            status.rebuilding.iter().any(|(other, ..)| *other == role) || !status.missing.contains(&role)
        })
    }

    /// Waits until a condition is recorded in the superblocks.
    fn wait(&self, is: impl Fn(&Status) -> bool) -> Result<(), Failure> {
        for _ in 0..500 {
            let status = self.control.status()?;
            if is(&status) {
                return Ok(());
            }
            if status.held {
                // Another member failed meanwhile.
                return Err(ControlError::Held.into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(Failure::new("it is still under way; see `pumice volume status`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_dashes() {
        let uuid: [u8; 16] = std::array::from_fn(|i| i as u8);
        assert_eq!(dashed(&uuid), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
