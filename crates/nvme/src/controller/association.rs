//! A controller: what one host's association has of the subsystem.

use super::attached::Attached;
use super::notice::Totals;
use super::settings::Settings;
use crate::spec::connect::Data;
use crate::spec::log::{ErrorEntry, lid};
use crate::spec::property::{cc, csts};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Weak};

/// Entries of the error log that are kept.
const ERRORS: usize = crate::spec::identify::ELPE as usize + 1;

/// Tells the queues of a controller whether it still stands: they compare the number that they
/// connected under.
#[derive(Debug, Default)]
pub(crate) struct Life(AtomicU32);

impl Life {
    /// The number now.
    pub(crate) fn epoch(&self) -> u32 {
        // Relaxed: the queue looks again with every receive; nothing else is published with it.
        self.0.load(Ordering::Relaxed)
    }

    /// Ends every queue that connected before.
    pub(crate) fn end(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns whether a connection of a queue that connected under this life is there still.
pub(crate) fn stands(life: &Weak<Life>) -> bool {
    let stands = life.strong_count() != 0;
    // Acquire, with the release of the connection's end: what it has written comes before what is
    // done now.
    fence(Ordering::Acquire);
    stands
}

/// Purpose of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControllerKind {
    /// A host that uses namespaces.
    Host,
    /// A reader of the discovery service.
    Discovery,
    /// Another node, which moves local memory.
    Helper,
}

/// A controller and its state.
#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) cntlid: u16,
    pub(crate) hostnqn: String,
    pub(crate) hostid: [u8; 16],
    pub(crate) discovery: bool,
    /// It is another node's.
    pub(crate) helper: bool,
    /// Its host has proven its name, or need not.
    pub(crate) proven: bool,
    /// Its host has said that it writes no namespace.
    pub(crate) observer: Arc<AtomicBool>,
    /// The namespaces attached to its host. They do not change during the association.
    pub(crate) attached: Attached,
    /// Network address of its host.
    pub(crate) peer: IpAddr,
    pub(crate) cc: u32,
    pub(crate) csts: u32,
    /// The I/O queues that are connected.
    pub(crate) queues: BTreeSet<u16>,
    /// Ends when the association ends.
    pub(crate) life: Arc<Life>,
    /// Ends when the controller is reset: its I/O queues only.
    pub(crate) io_life: Arc<Life>,
    /// Those of before the resets, while connections of them stand.
    pub(crate) former: Vec<Weak<Life>>,
    /// The host has enabled it, and it is not ready yet.
    pub(crate) starting: bool,
    /// Settings made by the host.
    pub(crate) settings: Settings,
    pub(crate) kato_ms: u32,
    /// Time of its Connect, in nanoseconds.
    pub(crate) came: u64,
    /// Time of the last bytes over any of its queues, in nanoseconds.
    pub(crate) heard: Arc<AtomicU64>,
    /// Events that wait for an AER command, as its dw0.
    pub(crate) events: VecDeque<u32>,
    /// Events that were reported and whose log page was not read since, by log page.
    pub(crate) masked: BTreeSet<u8>,
    /// Namespaces that changed since the log was read.
    pub(crate) changed: BTreeSet<u32>,
    /// Sums of its queues that have ended.
    pub(crate) totals: Arc<Totals>,
    pub(crate) errors: VecDeque<ErrorEntry>,
    pub(crate) error_count: u64,
}

/// Task of the controller after a write of CC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Configured {
    /// Nothing more.
    Done,
    /// All writes must become durable; then the shutdown is complete.
    Shutdown,
}

impl Controller {
    pub(crate) fn new(
        cntlid: u16,
        host: &Data,
        kind: ControllerKind,
        attached: Attached,
        peer: IpAddr,
        kato_ms: u32,
        now: u64,
    ) -> Self {
        Self {
            cntlid,
            hostnqn: host.hostnqn.clone(),
            hostid: host.hostid,
            discovery: kind == ControllerKind::Discovery,
            helper: kind == ControllerKind::Helper,
            proven: true,
            observer: Arc::default(),
            attached,
            peer,
            cc: 0,
            csts: 0,
            queues: BTreeSet::new(),
            life: Arc::default(),
            io_life: Arc::default(),
            former: Vec::new(),
            starting: false,
            settings: Settings::new(now),
            kato_ms,
            came: now,
            heard: Arc::default(),
            events: VecDeque::new(),
            masked: BTreeSet::new(),
            changed: BTreeSet::new(),
            totals: Arc::default(),
            errors: VecDeque::new(),
            error_count: 0,
        }
    }

    /// Its purpose.
    pub(crate) fn kind(&self) -> ControllerKind {
        match (self.discovery, self.helper) {
            (true, _) => ControllerKind::Discovery,
            (_, true) => ControllerKind::Helper,
            _ => ControllerKind::Host,
        }
    }

    /// Something came from the host.
    pub(crate) fn hear(&self, now: u64) {
        // Relaxed: a time that is looked at alone.
        self.heard.store(now, Ordering::Relaxed);
    }

    /// Returns whether commands other than Fabrics ones may come.
    pub(crate) fn is_ready(&self) -> bool {
        self.csts & csts::READY != 0
    }

    /// Returns whether it is ready, and neither shuts down nor is shut down.
    pub(crate) fn is_at_work(&self) -> bool {
        self.is_ready() && self.cc & cc::SHUTDOWN == 0 && self.csts & csts::SHUTDOWN == 0
    }

    /// Writes CC.
    pub(crate) fn configure(&mut self, value: u32, now: u64) -> Configured {
        let (was, enabled) = (self.cc & cc::ENABLE != 0, value & cc::ENABLE != 0);
        let shuts_down = value & cc::SHUTDOWN != 0 && self.cc & cc::SHUTDOWN == 0;
        self.cc = value;
        if enabled && !was {
            let sizes = value & cc::ENTRY_SIZES;
            let fits = value & cc::MUST_BE_ZERO == 0
                && matches!(value & cc::COMMAND_SET, 0 | cc::ALL_COMMAND_SETS)
                && (sizes == cc::ENTRY_SIZES_64_16 || self.discovery);
            self.csts = if fits { 0 } else { csts::FATAL };
            self.starting = fits;
        } else if was && !enabled {
            // A reset: the I/O queues are gone and the settings the defaults; the admin queue
            // stays.
            self.csts = 0;
            self.starting = false;
            self.settings = Settings::new(now);
            self.events.clear();
            self.masked.clear();
            self.drop_queues();
        }
        if shuts_down {
            // It may be the second since the reset.
            self.csts = self.csts & !csts::SHUTDOWN | csts::SHUTDOWN_OCCURRING;
            return Configured::Shutdown;
        }
        Configured::Done
    }

    /// The shutdown is complete, unless a reset has ended it; a failure, where not every write is
    /// durable.
    pub(crate) fn shut_down(&mut self, durable: bool) {
        if self.csts & csts::SHUTDOWN == csts::SHUTDOWN_OCCURRING {
            let failed = if durable { 0 } else { csts::FATAL };
            self.csts = self.csts & !csts::SHUTDOWN | csts::SHUTDOWN_COMPLETE | failed;
        }
    }

    /// Becomes ready, where the host waits for that.
    pub(crate) fn start(&mut self) {
        if std::mem::take(&mut self.starting) {
            self.csts |= csts::READY;
        }
    }

    fn drop_queues(&mut self) {
        self.io_life.end();
        self.former.retain(stands);
        self.former.push(Arc::downgrade(&self.io_life));
        self.io_life = Arc::default();
        self.queues.clear();
    }

    /// Notes an error; the newest come first in the log.
    pub(crate) fn log_error(&mut self, mut entry: ErrorEntry) {
        self.error_count += 1;
        entry.count = self.error_count;
        self.errors.push_front(entry);
        self.errors.truncate(ERRORS);
    }

    /// Queues an event, where the host wants it and has read the last one of its kind.
    pub(crate) fn event(&mut self, bit: u32, dw0: u32) {
        let page = (dw0 >> 16) as u8;
        if self.settings.events & bit != 0 && !self.masked.contains(&page) && !self.events.contains(&dw0) {
            self.events.push_back(dw0);
        }
    }

    /// A log page was read: events of its kind may be reported again, and changes begin anew.
    pub(crate) fn was_read(&mut self, page: u8) {
        self.masked.remove(&page);
        if page == lid::CHANGED_NAMESPACES {
            self.changed.clear();
        }
    }

    /// The next event, which masks its kind until its log page is read.
    pub(crate) fn take_event(&mut self) -> Option<u32> {
        let dw0 = self.events.pop_front()?;
        self.masked.insert((dw0 >> 16) as u8);
        Some(dw0)
    }
}
