//! A node that serves its drives over NVMe/TCP.
//!
//! ```text
//! accept (core 0) ─▶ Core: one thread, its sockets, its share of connections
//!                      socket ─▶ nvme Connection ─▶ Blocks ─┬─ memory: done at once; what is read is lent to the gathered send
//!                                                           ├─ Direct: the kernel carries it (io_uring)
//!                                                           ├─ Lanes: one thread of each drive, for long commands
//!                      socket ◀─ send buffer ◀── completion ◀┴─ Workers: threads that wait for the medium
//! ```
//!
//! A connection stays on one core. A wake-up reads the received bytes, carries out every complete
//! command in them, and answers with one send. `docs/design/node.md` has the states, limits and
//! deadlines.

mod acceptor;
mod access;
mod backend;
mod background;
mod blocks;
mod budget;
mod budgets;
mod clearing;
mod config;
mod core;
mod direct;
mod done;
mod drive;
mod exposition;
mod faces;
mod failure;
mod fair;
mod faults;
mod flash_drive;
mod flushing;
mod handle;
mod lanes;
mod leases;
mod listen;
mod log;
mod made;
mod marks;
mod media_watch;
mod metrics;
mod newcomers;
mod offload;
mod order;
mod outgoing;
mod peers;
mod pool;
mod results;
mod rounds;
mod shared;
mod socket;
mod step_work;
mod stepping;
mod tagging;
mod turns;
mod updates;
mod visible;
mod withheld;
mod workers;

pub use access::{Faces, HostFaces};
pub use backend::{Backend, BackendError, DriveSource};
pub use config::{ConfigError, DriveConfig, NodeConfig, Peer, busy_poll, metrics_address};
pub use drive::Drive;
pub use listen::{can_listen, listen_address};
pub use made::MadeFiles;
pub use tagging::{TagFields, Tagging, TaggingError};

use self::access::HostTable;
use self::core::Core;
use self::flushing::{Flushed, flush_all};
use self::handle::CoreHandle;
use self::lanes::Lanes;
use self::offload::Offload;
use self::shared::{Gate, Shared};
use crate::NodeOptions;
use crate::watch::WriteWatch;
use mio::net::TcpListener;
use pumice_blockdev::raise_descriptor_limit;
use pumice_nvme::controller::{Access, Identity, Limits, Subsystem};
use pumice_nvme::spec::Nqn;
use pumice_offload::PaceRequest;
use pumice_remote::transport::{Plain, Transport};
use sha2::{Digest, Sha256};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::info;

/// The subsystem, which all cores share. Taken for admin commands and ten times a second, never for
/// reads and writes.
#[derive(Debug, Clone)]
pub(crate) struct SharedSubsystem(Arc<Mutex<Subsystem>>);

impl Access for SharedSubsystem {
    fn with<R>(&self, f: impl FnOnce(&mut Subsystem) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Longest time of a stop; and the part of it that is kept for making writes durable.
const STOP_TIME: Duration = Duration::from_secs(10);
const FLUSH_TIME: Duration = Duration::from_secs(2);
/// Time that commands to peers may take to end when the server stops: a peer may stand still.
const PEER_TIME: Duration = Duration::from_secs(1);

/// Descriptors that are kept for drives, files, other nodes and the threads of parity commands: so
/// many, or a quarter of all.
const OWN_DESCRIPTORS: u64 = 128;

/// The number of connections that there may be if so many are wanted: each needs a descriptor.
/// Without descriptors, connections that say nothing would keep a host waiting until they have
/// gone.
fn places(wanted: usize, descriptors: u64) -> usize {
    let left = descriptors - OWN_DESCRIPTORS.min(descriptors / 4);
    wanted.min(usize::try_from(left).unwrap_or(usize::MAX))
}

/// Errors at the start of a server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("{address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The machine refuses threads or descriptors.
    #[error("the server cannot start: {0}")]
    System(#[from] io::Error),
    /// The addresses make no sense.
    #[error("listen: {0}")]
    Addresses(String),
    /// The pace makes no sense.
    #[error("pacing: {0}")]
    Pacing(String),
    /// No drive was given.
    #[error("no drive: a node needs at least one")]
    NoDrives,
}

/// A service: its drives and its addresses.
pub struct Service {
    /// Addresses to listen on: port 0 picks one. Hosts reach the same namespaces by each of them.
    pub listen: Vec<SocketAddr>,
    /// The subsystem's name.
    pub nqn: Nqn,
    /// The number that tells it from another node with the same name, such as one of a cloned
    /// machine: it enters the serial number. `None` for what may move from machine to machine, and
    /// stays the same. The identities of drives are their own.
    pub instance: Option<[u8; 16]>,
    /// Namespaces 1, 2, …. The visible faces of drives with tags come after all of these.
    pub drives: Vec<Drive>,
    /// The faces of each host.
    pub faces: HostFaces,
    /// Limits of what hosts may ask for.
    pub limits: Limits,
    /// Threads that serve connections.
    pub cores: usize,
    /// Time that a core looks for work before it sleeps, if that has paid of late; zero for never.
    pub busy_poll: Duration,
    /// Resources of the parity engine.
    pub node: NodeOptions,
    /// The nodes that local memory may be sent to.
    pub peers: Vec<Peer>,
    /// The pace of parity work on its drives, whoever asks for it; windows in UTC.
    pub pacing: PaceRequest,
    /// Address at which the counters are served; `None` for none.
    pub metrics: Option<SocketAddr>,
}

/// A serial number from the subsystem's name and instance: 20 characters, the same after a restart.
fn serial(nqn: &Nqn, instance: Option<&[u8; 16]>) -> String {
    let digest = Sha256::new_with_prefix(nqn.as_str());
    let digest = digest.chain_update(instance.map_or(&[][..], |id| &id[..])).finalize();
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02X}")).collect();
    format!("PMC-{hex}")
}

/// A number that no start of a node had before, by far most probably: never 0.
fn epoch() -> u64 {
    // The standard library's hasher is keyed anew, from the system, each time.
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id()) | 1
}

/// A running server. Stops when told to, or when it is dropped.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<SocketAddr>,
    metrics: Option<SocketAddr>,
    nqn: Nqn,
    shared: Arc<Shared>,
    cores: Vec<CoreHandle>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts serving.
    ///
    /// # Errors
    /// Where there is no drive, the address cannot be listened on, or the machine refuses threads.
    pub fn start(service: Service) -> Result<Self, ServeError> {
        Self::start_over(Arc::new(Plain), service)
    }

    /// Starts serving, over connections whose streams `transport` makes.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_over(transport: Arc<dyn Transport>, mut service: Service) -> Result<Self, ServeError> {
        let access = Arc::new(HostTable::of_faces(std::mem::take(&mut service.faces)));
        Self::start_with(Gate { access, transport }, service)
    }

    fn start_with(gate: Gate, service: Service) -> Result<Self, ServeError> {
        let Service { listen, nqn, drives, limits, cores, busy_poll, node, .. } = service;
        let Service { peers, pacing, metrics, .. } = service;
        if drives.is_empty() {
            return Err(ServeError::NoDrives);
        }
        listen::check(&listen).map_err(ServeError::Addresses)?;
        let listeners = listen::open(&listen)?;
        let counters = metrics
            .map(|address| exposition::bind(address).map_err(|source| ServeError::Listen { address, source }))
            .transpose()?;
        let metrics = counters.as_ref().map(std::net::TcpListener::local_addr).transpose()?;
        let descriptors = raise_descriptor_limit().unwrap_or(u64::MAX);
        let limits = Limits { connections: places(limits.connections, descriptors), ..limits };
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
        let identity = Identity {
            nqn: nqn.clone(),
            serial: serial(&nqn, service.instance.as_ref()),
            model: "Pumice".to_owned(),
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let (namespaces, attachments) = faces::namespaces(&drives, Arc::clone(&gate.access));
        let mut subsystem = Subsystem::new(identity, limits, namespaces);
        subsystem.set_attachments(attachments);
        let devices: Vec<_> = drives.into_iter().map(|drive| drive.device).collect();
        let watch = WriteWatch::new(devices.iter().map(|device| device.size_bytes()), epoch());
        let offload = Offload::new(nqn.as_str(), devices.clone(), node, peers, Arc::clone(&watch));
        offload.pacing().configure(pacing).map_err(|error| ServeError::Pacing(error.to_string()))?;
        subsystem.set_vendor(offload.announcement());
        subsystem.set_ports(addresses.clone());
        let subsystem = SharedSubsystem(Arc::new(Mutex::new(subsystem)));
        let count = cores.max(1);
        let shared = Arc::new(Shared::new(count, subsystem, limits, devices, gate, offload, watch));
        let lanes = Arc::new(Lanes::start(&shared, count)?);
        let mut parts = Vec::with_capacity(count);
        for number in 0..count {
            parts.push(Core::new(number, Arc::clone(&shared), Arc::clone(&lanes), busy_poll)?);
        }
        drop(lanes);
        let handles: Vec<CoreHandle> = parts.iter().map(Core::handle).collect();
        shared.rounds().tell(handles.clone());
        let mut listeners = Some(listeners);
        let mut threads = Vec::with_capacity(count);
        for (i, mut core) in parts.into_iter().enumerate() {
            if let Some(listeners) = listeners.take() {
                core.listen(listeners, handles.clone())?;
            }
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(format!("core{i}")).spawn(move || {
                let why = match catch_unwind(AssertUnwindSafe(|| core.run())) {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(format!("core {i} failed: {error}")),
                    Err(_) => Some(format!("core {i} panicked")),
                };
                if let Some(why) = why {
                    shared.failure().fail(&why);
                }
            })?;
            threads.push(thread);
        }
        threads.push(media_watch::start(Arc::clone(&shared))?);
        threads.extend(background::start(&shared)?);
        if let Some(listener) = counters {
            threads.push(exposition::serve(listener, Arc::clone(&shared))?);
        }
        for address in &addresses {
            info!(%address, "listening");
        }
        Ok(Self { addresses, metrics, nqn, shared, cores: handles, threads })
    }

    /// The first address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// The addresses at which it listens, in the order given.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The address at which its counters are served.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Its counters, as OpenMetrics text.
    #[must_use]
    pub fn metrics(&self) -> String {
        exposition::render(&self.shared)
    }

    /// The subsystem's name.
    #[must_use]
    pub fn nqn(&self) -> &Nqn {
        &self.nqn
    }

    /// Has `failed` called, with the reason, if a core ends while the server should serve: the
    /// server is then half dead, and nobody should go on with it.
    pub fn on_failure(&self, failed: impl FnOnce(String) + Send + 'static) {
        self.shared.failure().tell(Box::new(failed));
    }

    /// Stops: no new connections, commands in flight end, every write is made durable. Parity
    /// commands are given up, and after 1 s connections to peers are cut. Takes 10 s at most,
    /// whatever the media and the peers do.
    ///
    /// # Errors
    /// If a drive could not be flushed, or a thread or a drive did not come back in time: the
    /// process should end then, without waiting for them.
    pub fn stop(mut self) -> io::Result<()> {
        let until = Instant::now() + STOP_TIME;
        let mut missing = self.end(until - FLUSH_TIME);
        let Flushed { result, missing: unflushed } = flush_all(self.shared.devices().to_vec(), until)?;
        missing.extend(unflushed);
        if missing.is_empty() {
            return result;
        }
        Err(io::Error::other(format!("not done after {} s: {}", STOP_TIME.as_secs(), missing.join(", "))))
    }

    /// Ends the threads, and tells which of them have not ended by `until`.
    fn end(&mut self, until: Instant) -> Vec<String> {
        self.shared.stop();
        for core in &self.cores {
            core.wake();
        }
        // The one that looks at the media may sleep.
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        let mut cut = Some(Instant::now() + PEER_TIME);
        while self.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
            if cut.take_if(|cut| Instant::now() >= *cut).is_some() {
                self.shared.offload().peers.cut();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let name = |thread: JoinHandle<()>| thread.thread().name().unwrap_or("a thread").to_owned();
        self.threads.drain(..).filter(|thread| !thread.is_finished()).map(name).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(Instant::now() + STOP_TIME);
    }
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn there_are_no_more_places_than_descriptors() {
        assert_eq!((places(4096, 1 << 20), places(4096, 4096)), (4096, 4096 - 128));
        assert_eq!((places(4096, 300), places(10, 300), places(4096, 0)), (225, 10, 0));
    }
}
