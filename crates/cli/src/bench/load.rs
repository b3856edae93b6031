//! A load on a drive of a node, over the host library.

use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::identify::Namespace;
use pumice_nvme::spec::log::DiscoveryEntry;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Nqn, Sqe};
use pumice_remote::initiator::{ConnectOptions, Controller, Queue, discover};
use pumice_service::failure::Failure;
use pumice_service::identity::host_nqn;
use pumice_service::remote::DEADLINE;
use serde::Serialize;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The commands of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Writes, which destroy the data; otherwise reads.
    pub writes: bool,
    /// Each write is durable before it is answered.
    pub fua: bool,
    /// Random places; otherwise one after another.
    pub random: bool,
    /// Bytes of a command.
    pub bytes: u32,
    /// Commands in flight.
    pub depth: u16,
}

/// Latencies of commands in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// 99 % are at most this.
    pub p99: f64,
    /// 99.9 % are at most this.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Latency {
    /// Sums up latencies given in nanoseconds, and sorts them; zeros if there are none.
    #[must_use]
    pub fn of(took: &mut [u32]) -> Self {
        took.sort_unstable();
        let at = |part: f64| {
            let index = ((took.len() as f64 * part) as usize).min(took.len().saturating_sub(1));
            took.get(index).map_or(0.0, |ns| f64::from(*ns) / 1e3)
        };
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }
}

/// Refuses lengths of a load that make no sense.
///
/// # Errors
/// If they do not lie between 0.02 and 600 seconds.
pub fn check_seconds(seconds: f64) -> Result<(), Failure> {
    if (0.02..=600.0).contains(&seconds) {
        return Ok(());
    }
    Err(Failure::new(format!("--seconds is {seconds}: it must be from 0.02 to 600")))
}

/// Connects to the first subsystem of a node.
///
/// # Errors
/// If it cannot be reached, or lists none.
pub fn connect(address: SocketAddr, digests: bool) -> Result<Controller, Failure> {
    let mut options = ConnectOptions {
        subsystem: Nqn::discovery(),
        host: host_nqn(),
        hostid: *b"pumice bench....",
        digests: Digests { header: digests, data: digests },
        flow_control: false,
        deadline: DEADLINE,
    };
    let entries = discover(address, &ConnectOptions { digests: Digests::default(), ..options.clone() })?;
    options.subsystem = entries
        .iter()
        .filter(|entry| entry.subtype == DiscoveryEntry::NVM)
        .find_map(|entry| entry.subnqn.parse().ok())
        .ok_or_else(|| Failure::new(format!("{address}: its discovery service lists no subsystem")))?;
    Ok(Controller::connect(address, options)?)
}

/// A drive of the node; `option` names it in the error.
///
/// # Errors
/// If the node has no such drive, or does not answer.
pub fn drive(controller: &mut Controller, option: &str, nsid: u32) -> Result<Namespace, Failure> {
    let none = || Failure::new(format!("{option} is {nsid}: the node has no such drive"));
    controller.namespace(nsid)?.ok_or_else(none)
}

/// Loads a drive for some seconds. Returns commands a second, and the nanoseconds that each of them
/// took.
///
/// # Errors
/// If the node fails a command, or the drive is smaller than one.
pub fn load(
    queue: &mut Queue,
    (nsid, namespace): (u32, &Namespace),
    shape: &Shape,
    seconds: f64,
) -> Result<(f64, Vec<u32>), Failure> {
    let blocks = shape.bytes >> namespace.format.shift();
    let places = namespace.blocks / u64::from(blocks);
    if places == 0 {
        return Err(Failure::new(format!("the drive has less than {} bytes", shape.bytes)));
    }
    let data = if shape.writes { vec![0x5A; shape.bytes as usize] } else { Vec::new() };
    let opcode = if shape.writes { io::WRITE } else { io::READ };
    let expected = if shape.writes { 0 } else { shape.bytes };
    let (mut state, mut took) = (0x9E37_79B9_u64, Vec::new());
    let mut failed = None;
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(seconds);
    queue.stream(
        || {
            if Instant::now() >= end {
                return None;
            }
            // SplitMix64 (Steele, Lea, Flood, 2014), or one after another.
            state = state.wrapping_add(if shape.random { 0x9E37_79B9_7F4A_7C15 } else { 1 });
            let place = if shape.random { (state ^ state >> 31) % places } else { state % places };
            let mut sqe = Sqe::new(opcode, nsid);
            sqe.set_blocks(place * u64::from(blocks), blocks);
            if shape.writes && shape.fua {
                sqe.set_control(Sqe::FUA);
            }
            Some((sqe, data.as_slice(), expected))
        },
        |latency, status| {
            if !status.is_success() {
                failed = Some(status);
            }
            took.push(u32::try_from(latency.as_nanos()).unwrap_or(u32::MAX));
        },
    )?;
    if let Some(status) = failed {
        return Err(Failure::new(format!("the node failed a command: {status}")));
    }
    Ok((took.len() as f64 / began.elapsed().as_secs_f64(), took))
}
