//! `pumice-lab bench volume`: a volume over drives in memory, in this process or in node processes.

mod human;
mod load;

use clap::{Args, ValueEnum};
use human::human;
use load::{Places, Shape, load};
use pumice::bench::median;
use pumice::node_processes::{NodePlace, NodeProcess, start_nodes_at};
use pumice::text::{print, print_json};
use pumice_base::units::{Role, parse_size};
use pumice_blockdev::{BlockDevice, LimitedDevice, MemoryDevice, check_memory};
use pumice_executor::{
    Consistency, CreateSpec, MemberDrive, Offload, OpenOptions, ServedVolume, Status, VolumeDevice, create,
    open,
};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{DataNode, DriveId};
use pumice_raid::layout::{Layout, Level};
use pumice_remote::RemoteNode;
use pumice_remote::initiator::DigestPolicy;
use pumice_service::failure::Failure;
use pumice_service::remote::connect;
use serde::Serialize;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The member that is lost.
const LOST: Role = Role(0);
const BLOCK: u64 = 4096;
/// Longest time for a change of members.
const PATIENCE: Duration = Duration::from_secs(600);

/// Measures a volume over drives in memory: full stripes, single blocks at depth 1 and 32, reads
/// while a member is missing, and its rebuild. For each, shows rates, latencies, and the bytes that
/// crossed the links of this host and those between nodes, for each byte of the user.
#[derive(Debug, Args)]
pub(crate) struct VolumeArgs {
    /// Data drives
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=100))]
    data: u16,
    /// Parity drives: 1 (RAID-5) or 2 (RAID-6)
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=2))]
    parity: u16,
    /// Bytes of a drive
    #[arg(long, default_value = "64MiB", value_parser = parse_size)]
    drive: u64,
    /// Bytes of a chunk
    #[arg(long, default_value = "64KiB", value_parser = parse_size)]
    chunk: u64,
    /// Node processes that have the drives; 0: the drives are in this process
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=16))]
    nodes: u16,
    /// Place of the parity computation: on: by the nodes, if that moves fewer bytes over this
    /// machine's links; off: by this machine; auto: where it is faster, by measurement
    #[arg(long, value_enum, default_value = "on")]
    offload: Switch,
    /// Protection of rows against a crash
    #[arg(long, value_enum, default_value = "log")]
    consistency: Mode,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds, of which the median rate is shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// Requests in flight of full stripes
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    depth: u16,
    /// Bytes a second of each drive; 0: as fast as memory
    #[arg(long, default_value = "0", value_parser = parse_size)]
    drive_rate: u64,
    /// Network namespace in which nodes are started, whose links the caller has shaped; they
    /// listen on --node-address
    #[arg(long, hide = true, requires = "node_address")]
    namespace: Option<String>,
    #[arg(long, hide = true)]
    node_address: Option<IpAddr>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Switch {
    Auto,
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Log,
    Bitmap,
}

#[derive(Debug, Serialize)]
struct Document {
    data: u16,
    parity: u16,
    chunk_bytes: u64,
    nodes: u16,
    offload: Switch,
    consistency: Mode,
    cases: Vec<Case>,
}

#[derive(Debug, Serialize)]
struct Case {
    work: &'static str,
    request_bytes: u64,
    depth: usize,
    /// Requests a second, median of the rounds; of a rebuild and the initialisation, chunks
    /// a second of a drive.
    per_second: f64,
    gb_per_s: f64,
    /// Of all rounds; null for a rebuild and the initialisation.
    latency_us: Option<Latency>,
    /// Bytes for each byte of the user, or for each byte rebuilt.
    per_byte: Traffic,
    near_writes: u64,
    far_writes: u64,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    max: f64,
}

/// Bytes for each byte of the user.
#[derive(Debug, Default, Serialize)]
struct Traffic {
    /// Read from members by this host.
    host_read: f64,
    /// Written to members by this host: data, parity, log, superblocks.
    host_written: f64,
    /// Over the sockets of the volume's connections, headers included; null without nodes.
    host_sent: Option<f64>,
    host_received: Option<f64>,
    /// Over the sockets between nodes, headers included; null without nodes.
    node_to_node: Option<f64>,
}

/// A volume, and what its drives are on.
struct World {
    volume: ServedVolume,
    device: Arc<VolumeDevice>,
    spare: MemberDrive,
    /// Bytes of each drive that were made zeros, and seconds that this took.
    initialised: (u64, f64),
    remote: Vec<Arc<RemoteNode>>,
    // Held until the end.
    _processes: Vec<NodeProcess>,
}

impl World {
    fn new(args: &VolumeArgs) -> Result<Self, Failure> {
        let members = usize::from(args.data + args.parity);
        let mut remote = Vec::new();
        let mut processes = Vec::new();
        let nodes: Vec<Arc<dyn DataNode>> = if args.nodes == 0 {
            let device = |i: usize| -> Arc<dyn BlockDevice> {
                let device = Arc::new(MemoryDevice::new(&format!("memory{i}"), args.drive));
                match args.drive_rate {
                    0 => device,
                    rate => Arc::new(LimitedDevice::new(device, rate)),
                }
            };
            let devices = (0..=members).map(device).collect();
            let options = NodeOptions { memory_bytes: 0, ..NodeOptions::default() };
            vec![Arc::new(LocalNode::new("here", devices, &Peers::new(), options))]
        } else {
            let nodes = usize::from(args.nodes);
            // Each has a spare one.
            let count = |node: usize| (node..members).step_by(nodes).count() + 1;
            let drive = format!("mem:{}", args.drive);
            let drives: Vec<Vec<_>> = (0..nodes).map(|i| vec![drive.clone().into(); count(i)]).collect();
            let namespace = args.namespace.clone().zip(args.node_address);
            let rate = Some(args.drive_rate).filter(|rate| *rate > 0);
            processes = start_nodes_at(&drives, &NodePlace { namespace, rate })?;
            for process in &processes {
                remote.push(connect(process.address, DigestPolicy::Off)?);
            }
            remote.iter().map(|node| Arc::clone(node) as Arc<dyn DataNode>).collect()
        };
        let member = |role: usize| {
            let (node, number) = (role % nodes.len(), role / nodes.len() + 1);
            let name = format!("node{node}/{number}");
            MemberDrive::new(name, Arc::clone(&nodes[node]), DriveId(number as u32))
        };
        let drives = (0..members).map(member).collect::<Result<Vec<_>, _>>()?;
        let first = if nodes.len() == 1 { members } else { (0..members).step_by(nodes.len()).count() };
        let spare = MemberDrive::new("spare", Arc::clone(&nodes[0]), DriveId(first as u32 + 1))?;
        let spec = CreateSpec {
            level: if args.parity == 1 { Level::Raid5 } else { Level::Raid6 },
            layout: Some(Layout::LeftSymmetric),
            chunk_bytes: args.chunk,
            name: "bench".to_owned(),
            component_bytes: None,
            now: 0,
            force: false,
            log: true,
        };
        let (began, mut zeroed) = (Instant::now(), 0);
        create(&drives, &spec, |done, _| zeroed = done)?;
        let initialised = (zeroed / drives.len() as u64, began.elapsed().as_secs_f64());
        let consistency = match args.consistency {
            Mode::Log => Consistency::Log,
            Mode::Bitmap => Consistency::Bitmap,
        };
        let offload = match args.offload {
            Switch::Auto => Offload::Auto,
            Switch::On => Offload::On,
            Switch::Off => Offload::Off,
        };
        let volume = open(&drives, &OpenOptions { consistency, offload, ..OpenOptions::default() })?;
        let status = volume.status()?;
        if let (Err(why), true, true) = (&status.near, offload != Offload::Off, args.nodes > 0) {
            return Err(Failure::new(format!("the nodes make no parity: {why}")));
        }
        let device = volume.device();
        Ok(Self { volume, device, spare, initialised, remote, _processes: processes })
    }

    fn counts(&self) -> Result<Counts, Failure> {
        let status = self.volume.status()?;
        let mut sockets = 0;
        for node in &self.remote {
            let bytes = node.socket_bytes()?;
            sockets += bytes.sent + bytes.received;
        }
        Ok(Counts { status, sockets })
    }

    /// Bytes moved since `before`, for each of `bytes`.
    fn traffic_since(&self, before: &Counts, bytes: u64) -> Result<(Traffic, u64, u64), Failure> {
        let after = self.counts()?;
        let (now, then) = (&after.status, &before.status);
        let each = |now: u64, then: u64| (now - then) as f64 / bytes.max(1) as f64;
        let far = |value: f64| (!self.remote.is_empty()).then_some(value);
        let (sent, received) =
            (each(now.link_sent, then.link_sent), each(now.link_received, then.link_received));
        let all = each(after.sockets, before.sockets);
        let moved = Traffic {
            host_read: each(now.member_read, then.member_read),
            host_written: each(now.member_written, then.member_written),
            host_sent: far(sent),
            host_received: far(received),
            // Every byte is counted where the connection was accepted.
            node_to_node: far((all - sent - received).max(0.0)),
        };
        Ok((moved, now.near_writes - then.near_writes, now.far_writes - then.far_writes))
    }
}

struct Counts {
    status: Status,
    sockets: u64,
}

/// Runs the command.
pub(crate) fn run(args: &VolumeArgs) -> Result<ExitCode, Failure> {
    if !(0.05..=600.0).contains(&args.seconds) {
        return Err(Failure::new(format!("--seconds is {}: it must be from 0.05 to 600", args.seconds)));
    }
    if args.nodes > args.data + args.parity {
        let drives = args.data + args.parity;
        return Err(Failure::new(format!("--nodes is {}: there are only {drives} drives", args.nodes)));
    }
    if !(8 << 20..=1 << 36).contains(&args.drive) {
        return Err(Failure::new(format!(
            "--drive is {} bytes: it must be from 8 MiB to 64 GiB",
            args.drive
        )));
    }
    // Each node has a spare drive. All are on this machine.
    let drives = u64::from(args.data + args.parity + args.nodes.max(1));
    check_memory(drives.saturating_mul(args.drive))
        .map_err(|error| Failure::new(format!("--drive, of {drives} drives: {error}")))?;
    let world = World::new(args)?;
    let stripe = world.volume.facts().geometry.stripe_bytes();
    let write =
        |work, places, bytes, depth| Shape { work, writes: true, places, bytes, depth, flush_every: 0 };
    let flushed = Shape { flush_every: 32, ..write("random write, Flush/32", Places::Random, BLOCK, 32) };
    let read = |work, places| Shape { writes: false, ..write(work, places, BLOCK, 32) };
    let (bytes, seconds) = world.initialised;
    let mut cases = vec![
        whole("initialisation", args.chunk, bytes / args.chunk, seconds),
        measure(args, &world, &write("full stripe write", Places::InOrder, stripe, args.depth.into()))?,
        measure(args, &world, &write("random write", Places::Random, BLOCK, 1))?,
        measure(args, &world, &write("random write", Places::Random, BLOCK, 32))?,
        measure(args, &world, &flushed)?,
        measure(args, &world, &read("read", Places::Random))?,
    ];
    world.volume.control().fail(LOST)?;
    wait(&world.volume, |status| status.missing == [LOST])?;
    world.device.flush()?;
    let geometry = world.volume.facts().geometry;
    let is_lost = |at: &u64| geometry.locate(*at).is_some_and(|place| place.role == LOST);
    let lost: Vec<u64> = (0..world.device.size_bytes()).step_by(BLOCK as usize).filter(is_lost).collect();
    cases.push(measure(args, &world, &read("degraded read", Places::Random))?);
    cases.push(measure(args, &world, &read("read of the lost drive", Places::Of(&lost)))?);
    cases.push(rebuild(&world, args.chunk)?);
    if !world.volume.stop(PATIENCE) {
        return Err(Failure::new("the volume could not be left clean"));
    }
    let document = Document {
        data: args.data,
        parity: args.parity,
        chunk_bytes: args.chunk,
        nodes: args.nodes,
        offload: args.offload,
        consistency: args.consistency,
        cases,
    };
    if args.json {
        print_json(&document);
    } else {
        print(&human(&document));
    }
    Ok(ExitCode::SUCCESS)
}

fn wait(volume: &ServedVolume, is: impl Fn(&Status) -> bool) -> Result<(), Failure> {
    let until = Instant::now() + PATIENCE;
    while !is(&volume.status()?) {
        if Instant::now() >= until {
            return Err(Failure::new("the volume did not reach the expected state in time"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn measure(args: &VolumeArgs, world: &World, shape: &Shape<'_>) -> Result<Case, Failure> {
    // The first requests make the superblocks dirty, and set bits.
    load(&world.device, shape, 0.02, 0)?;
    let before = world.counts()?;
    let (mut rates, mut took) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        let (rate, mut times) = load(&world.device, shape, args.seconds, u64::from(round))?;
        rates.push(rate);
        took.append(&mut times);
    }
    let bytes = took.len() as u64 * shape.bytes;
    let (per_byte, near_writes, far_writes) = world.traffic_since(&before, bytes)?;
    world.device.flush()?;
    took.sort_unstable();
    let at = |part: f64| {
        let index = ((took.len() as f64 * part) as usize).min(took.len().saturating_sub(1));
        took.get(index).map_or(0.0, |ns| *ns as f64 / 1e3)
    };
    let per_second = median(rates);
    Ok(Case {
        work: shape.work,
        request_bytes: shape.bytes,
        depth: shape.depth,
        per_second,
        gb_per_s: per_second * shape.bytes as f64 / 1e9,
        latency_us: Some(Latency { p50: at(0.5), p99: at(0.99), max: at(1.0) }),
        per_byte,
        near_writes,
        far_writes,
    })
}

fn rebuild(world: &World, chunk: u64) -> Result<Case, Failure> {
    let before = world.counts()?;
    let began = Instant::now();
    world.volume.control().add(world.spare.clone(), true)?;
    wait(&world.volume, |status| status.missing.is_empty())?;
    let seconds = began.elapsed().as_secs_f64();
    let chunks = world.volume.facts().geometry.stripes();
    let (per_byte, near_writes, far_writes) = world.traffic_since(&before, chunks * chunk)?;
    Ok(Case { per_byte, near_writes, far_writes, ..whole("rebuild", chunk, chunks, seconds) })
}

/// A case of work on a whole drive.
fn whole(work: &'static str, chunk: u64, chunks: u64, seconds: f64) -> Case {
    Case {
        work,
        request_bytes: chunk,
        depth: 1,
        per_second: chunks as f64 / seconds,
        gb_per_s: (chunks * chunk) as f64 / seconds / 1e9,
        latency_us: None,
        per_byte: Traffic::default(),
        near_writes: 0,
        far_writes: 0,
    }
}
