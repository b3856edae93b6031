//! State shared by all cores.

use super::SharedSubsystem;
use super::access::HostTable;
use super::budget::{Accounts, FLIGHT, WINDOWS};
use super::faces::Face;
use super::failure::Failure;
use super::log::Log;
use super::metrics::Metrics;
use super::newcomers::Newcomers;
use super::offload::Offload;
use super::rounds::Rounds;
use super::turns::Turns;
use crate::pace::Pacing;
use crate::watch::WriteWatch;
use pumice_blockdev::BlockDevice;
use pumice_nvme::controller::{Access, Limits};
use pumice_protect::block_format::BlockFormat;
use pumice_remote::transport::Transport;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Parity commands that work at a time, for each core.
const TURNS: usize = 4;
/// Parity commands whose reads keep a pace, at a time: each has up to 33 threads and 64 MiB.
const PACED_TURNS: usize = 4;

/// The table and the transport that let hosts in.
#[derive(Debug)]
pub(super) struct Gate {
    /// The table of who may do what.
    pub(super) access: Arc<HostTable>,
    /// Makes the streams of connections.
    pub(super) transport: Arc<dyn Transport>,
}

/// The subsystem, its drives, and what the cores count together.
pub(super) struct Shared {
    subsystem: SharedSubsystem,
    limits: Limits,
    devices: Vec<Arc<dyn BlockDevice>>,
    gate: Gate,
    offload: Offload,
    watch: Arc<WriteWatch>,
    rounds: Rounds,
    kinds: Vec<DriveKind>,
    newcomers: Newcomers,
    metrics: Metrics,
    log: Log,
    stopping: AtomicBool,
    failure: Failure,
    accounts: Accounts,
    /// Of parity commands, and of those whose reads keep a pace.
    turns: [Turns; 2],
    began: Instant,
}

/// Properties of a drive that every command needs.
#[derive(Debug, Clone, Copy)]
struct DriveKind {
    /// It answers at once.
    immediate: bool,
    /// Its content lies in memory.
    resident: bool,
    /// Its blocks, as those hosts see them that see no tuples.
    format: BlockFormat,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("drives", &self.devices.len()).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(
        cores: usize,
        subsystem: SharedSubsystem,
        limits: Limits,
        devices: Vec<Arc<dyn BlockDevice>>,
        gate: Gate,
        offload: Offload,
        watch: Arc<WriteWatch>,
    ) -> Self {
        let formats = subsystem.with(|s| s.namespaces().iter().map(|n| n.format).collect::<Vec<_>>());
        let kind = |(device, format): (&Arc<dyn BlockDevice>, BlockFormat)| DriveKind {
            immediate: device.is_immediate(),
            resident: device.resident().is_some(),
            format,
        };
        let kinds = devices.iter().zip(formats).map(kind).collect();
        let metrics = Metrics::new(devices.len());
        Self {
            subsystem,
            limits,
            devices,
            gate,
            offload,
            watch,
            rounds: Rounds::new(cores),
            kinds,
            newcomers: Newcomers::new(limits.connections),
            metrics,
            log: Log::default(),
            stopping: AtomicBool::new(false),
            failure: Failure::default(),
            accounts: Accounts::new(FLIGHT, WINDOWS),
            turns: [Turns::new(TURNS * cores), Turns::new(PACED_TURNS)],
            began: Instant::now(),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// The places of connections.
    pub(super) fn newcomers(&self) -> &Newcomers {
        &self.newcomers
    }

    pub(super) fn connections(&self) -> usize {
        self.newcomers.connections()
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    pub(super) fn subsystem(&self) -> &SharedSubsystem {
        &self.subsystem
    }

    pub(super) fn devices(&self) -> &[Arc<dyn BlockDevice>] {
        &self.devices
    }

    pub(super) fn offload(&self) -> &Offload {
        &self.offload
    }

    /// The table of who may do what.
    pub(super) fn access(&self) -> &HostTable {
        &self.gate.access
    }

    /// The maker of streams.
    pub(super) fn transport(&self) -> &dyn Transport {
        &*self.gate.transport
    }

    /// The drive, counted from 0, of a namespace.
    pub(super) fn drive_of(&self, nsid: u32) -> Option<usize> {
        Face::of(nsid, self.devices.len()).map(|face| face.drive)
    }

    /// The NSIDs of a drive: hidden and visible face, attached to a host or not.
    pub(super) fn nsids_of(&self, drive: usize) -> [u32; 2] {
        [false, true].map(|visible| Face { drive, visible }.nsid(self.devices.len()))
    }

    fn kind(&self, nsid: u32) -> Option<DriveKind> {
        self.kinds.get(self.drive_of(nsid)?).copied()
    }

    pub(super) fn is_immediate(&self, nsid: u32) -> bool {
        self.kind(nsid).is_some_and(|kind| kind.immediate)
    }

    /// Returns whether every drive answers at once.
    pub(super) fn all_immediate(&self) -> bool {
        self.kinds.iter().all(|kind| kind.immediate)
    }

    /// Returns whether a drive that does not answer at once has tags.
    pub(super) fn has_tags_beside(&self) -> bool {
        self.devices.iter().any(|device| !device.is_immediate() && device.tagged().is_some())
    }

    pub(super) fn is_resident(&self, nsid: u32) -> bool {
        self.kind(nsid).is_some_and(|kind| kind.resident)
    }

    pub(super) fn format(&self, nsid: u32) -> BlockFormat {
        self.kind(nsid).map_or(BlockFormat::SMALLEST, |kind| kind.format)
    }

    /// Accounts of the memory that hosts make the node hold.
    pub(super) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The notice of a core that ends too soon.
    pub(super) fn failure(&self) -> &Failure {
        &self.failure
    }

    /// The turns of parity commands.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns[0]
    }

    /// The turns of those whose reads keep a pace.
    pub(super) fn paced_turns(&self) -> &Turns {
        &self.turns[1]
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.pacing().stop();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn pacing(&self) -> &Pacing {
        self.offload.pacing()
    }

    pub(super) fn watch(&self) -> &Arc<WriteWatch> {
        &self.watch
    }

    pub(super) fn rounds(&self) -> &Rounds {
        &self.rounds
    }

    /// Nanoseconds since the server's start.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
