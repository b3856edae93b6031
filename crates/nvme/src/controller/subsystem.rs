//! The subsystem: namespaces, controllers, identity and limits; what all connections share.

use super::association::{Controller, ControllerKind, Life, stands};
use super::attached::{Attached, Attachments};
use crate::spec::ana::{self, AnaGroup, AnaLog, AnaState};
use crate::spec::identify::{Namespace, OAES_ANA, OAES_NAMESPACES};
use crate::spec::log::{Health, lid};
use crate::spec::{Nqn, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Bounds of a subsystem. Everything that a peer can ask for has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time, of all hosts and nodes; the caller counts them.
    pub connections: usize,
    /// Associations of hosts at a time. The discovery service, and other nodes, have as many of
    /// their own.
    pub controllers: usize,
    /// Of those, associations from one network address.
    pub controllers_of_address: usize,
    /// Of those, associations of one host identifier from one network address.
    pub controllers_of_host: usize,
    /// I/O queues of a controller.
    pub queues: u16,
    /// Entries of a queue: 2 to 1024.
    pub queue_depth: u16,
    /// Bytes of data in a capsule of an I/O queue: a multiple of 16, from 4096 on.
    pub capsule_data: u32,
    /// Bytes of data in one H2CData PDU.
    pub maxh2cdata: u32,
    /// Bytes of write data that a connection may have under way beside those in capsules.
    pub write_window: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            controllers: 64,
            controllers_of_address: 48,
            controllers_of_host: 16,
            queues: 64,
            queue_depth: 128,
            capsule_data: 68 << 10,
            maxh2cdata: 128 << 10,
            write_window: 8 << 20,
        }
    }
}

/// Identity of a subsystem. Stays the same over restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub nqn: Nqn,
    /// Serial number: at most 20 bytes of ASCII.
    pub serial: String,
    /// Model: at most 40 bytes of ASCII.
    pub model: String,
    /// Firmware revision: at most 8 bytes of ASCII.
    pub firmware: String,
}

/// Counters of all connections.
#[derive(Debug, Default)]
pub struct Counters {
    /// Read commands.
    pub reads: AtomicU64,
    /// Write commands.
    pub writes: AtomicU64,
    /// Bytes read.
    pub bytes_read: AtomicU64,
    /// Bytes written.
    pub bytes_written: AtomicU64,
    /// Commands that the medium failed.
    pub media_errors: AtomicU64,
}

/// The way to the subsystem that connections share.
pub trait Access {
    /// Runs `f` while nobody else has the subsystem.
    fn with<R>(&self, f: impl FnOnce(&mut Subsystem) -> R) -> R;
}

/// A subsystem, and the discovery service beside it.
#[derive(Debug)]
pub struct Subsystem {
    pub(super) identity: Identity,
    pub(super) limits: Limits,
    namespaces: Arc<[Namespace]>,
    pub(super) attachments: Attachments,
    /// Count of changes of namespaces, from 1: a connection that has seen none has seen 0.
    namespace_changes: Arc<AtomicU64>,
    /// Blocks in use, of namespaces that know it.
    used: BTreeMap<u32, u64>,
    pub(crate) controllers: BTreeMap<u16, Controller>,
    pub(super) next_cntlid: u16,
    counters: Arc<Counters>,
    pub(super) vendor: VendorSet,
    ana: AnaState,
    /// Count of changes of the access state, from 1: 0 would say that nobody counts.
    ana_changes: u64,
    /// Associations of hosts that began or ended, and queues that were lost.
    pub(super) changes: u64,
    /// The controller that keeps other hosts away.
    pub(super) holder: Option<u16>,
    /// Controllers that wait for other nodes to write local memory.
    pub(super) inviting: BTreeSet<u16>,
    /// Closed connections of which writes are still with the media, by host; never 0. While a host
    /// is here, it cannot associate, add an I/O queue, or become ready after it was enabled, and
    /// nobody can hold the drives: an old write must not come after a new one.
    pub(super) orphans: BTreeMap<[u8; 16], usize>,
    /// I/O queues of associations that have ended, while connections of them stand, by host.
    pub(super) ended: Vec<([u8; 16], Weak<Life>)>,
    /// Addresses at which it is reached: ports 1, 2, ….
    pub(super) ports: Vec<SocketAddr>,
    /// Critical warnings of the health page that are the media's.
    media_warnings: u8,
}

/// A host that is associated with the subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostInfo {
    /// Its controller.
    pub cntlid: u16,
    /// Its name.
    pub nqn: String,
    /// Its identifier.
    pub id: [u8; 16],
    /// Time of the last bytes from it: nanoseconds on the clock of the connections.
    pub heard: u64,
    /// It has said that it writes no namespace, and cannot.
    pub observer: bool,
}

/// Features of a subsystem beyond the specification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VendorSet {
    /// Bytes of Identify Controller from byte 3072 on: at most 1024.
    pub identify: Vec<u8>,
    /// I/O opcodes from 0x80 on, with their entries of the Commands Supported and Effects log.
    pub commands: Vec<(u8, u32)>,
    /// The host identifier of other nodes. A peer that connects under it can send vendor commands
    /// and no others, so it is not counted among the hosts.
    pub helper: Option<[u8; 16]>,
}

/// A refusal of Connect: the status, and dw0.
pub(crate) type Refusal = (Status, u32);

/// A parameter of Connect that is wrong: in the data, or in the command.
pub(crate) fn bad_parameter(at: usize, in_data: bool) -> Refusal {
    (Status::CONNECT_INVALID.dnr(), at as u32 | u32::from(in_data) << 16)
}

impl Subsystem {
    /// A subsystem with namespaces 1, 2, ….
    ///
    /// # Panics
    /// If a limit is outside its range.
    #[must_use]
    pub fn new(identity: Identity, limits: Limits, namespaces: Vec<Namespace>) -> Self {
        assert!((2..=1024).contains(&limits.queue_depth), "queue_depth is {}", limits.queue_depth);
        assert!(limits.capsule_data >= 4096 && limits.capsule_data.is_multiple_of(16), "capsule_data");
        assert!(limits.maxh2cdata >= 4096 && limits.maxh2cdata.is_multiple_of(4), "maxh2cdata");
        Self {
            identity,
            limits,
            attachments: Attachments::all(namespaces.len()),
            namespaces: namespaces.into(),
            namespace_changes: Arc::new(AtomicU64::new(1)),
            used: BTreeMap::new(),
            controllers: BTreeMap::new(),
            next_cntlid: 1,
            counters: Arc::default(),
            vendor: VendorSet::default(),
            ana: AnaState::default(),
            ana_changes: 1,
            changes: 0,
            holder: None,
            inviting: BTreeSet::new(),
            orphans: BTreeMap::new(),
            ended: Vec::new(),
            ports: Vec::new(),
            media_warnings: 0,
        }
    }

    /// Its identity.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Its bounds.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Its namespaces; the first is nsid 1.
    #[must_use]
    pub fn namespaces(&self) -> &Arc<[Namespace]> {
        &self.namespaces
    }

    /// Sets the namespaces of hosts that associate from now on. Without it every host has all.
    pub fn set_attachments(&mut self, attachments: Attachments) {
        self.attachments = attachments;
    }

    /// The namespaces, and how often they had changed.
    pub(super) fn seen_namespaces(&self) -> (Arc<[Namespace]>, u64) {
        (Arc::clone(&self.namespaces), self.namespace_changes.load(Ordering::Acquire))
    }

    /// Counter by which connections notice that namespaces have changed.
    pub(super) fn namespace_changes(&self) -> &Arc<AtomicU64> {
        &self.namespace_changes
    }

    /// Says what it has beyond the specification.
    ///
    /// # Panics
    /// If the identify part has more than 1024 bytes.
    pub fn set_vendor(&mut self, vendor: VendorSet) {
        assert!(vendor.identify.len() <= 1024, "the vendor's part of Identify Controller has 1024 bytes");
        self.vendor = vendor;
    }

    pub(crate) fn vendor(&self) -> &VendorSet {
        &self.vendor
    }

    /// Counters of all connections.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Number of associations of hosts, without those of other nodes and of the discovery service's
    /// readers.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.controllers.values().filter(|c| Self::counts(c)).count()
    }

    pub(super) fn counts(controller: &Controller) -> bool {
        controller.proven && controller.kind() == ControllerKind::Host
    }

    /// The hosts that may write, but for the one of controller `but`.
    #[must_use]
    pub fn other_hosts(&self, but: u16) -> Vec<HostInfo> {
        let others = self.controllers.values().filter(|c| c.cntlid != but && Self::counts(c));
        others
            .map(|c| HostInfo {
                cntlid: c.cntlid,
                nqn: c.hostnqn.clone(),
                id: c.hostid,
                heard: c.heard.load(Ordering::Relaxed),
                observer: c.observer.load(Ordering::Relaxed),
            })
            .collect()
    }

    /// Count of associations of hosts that may write which began or ended, or lost a queue.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn note_change(&mut self, cntlid: u16) {
        if self.controllers.get(&cntlid).is_some_and(Self::counts) {
            self.changes += 1;
        }
    }

    /// Returns whether a controller stands.
    #[must_use]
    pub fn stands(&self, cntlid: u16) -> bool {
        self.controllers.contains_key(&cntlid)
    }

    /// The namespaces attached to the host of a controller, if that stands.
    #[must_use]
    pub fn attached(&self, cntlid: u16) -> Option<Attached> {
        self.controllers.get(&cntlid).map(|controller| controller.attached.clone())
    }

    /// Returns whether a controller is another node's: it may write local memory that a host has
    /// granted, and nothing else.
    #[must_use]
    pub fn is_helper(&self, cntlid: u16) -> bool {
        self.controllers.get(&cntlid).is_some_and(|controller| controller.helper)
    }

    /// The host of a controller writes no namespace from now on: the subsystem refuses it. Nobody
    /// takes that back.
    pub fn observe(&mut self, cntlid: u16) {
        if let Some(controller) = self.controllers.get(&cntlid) {
            controller.observer.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether the host of a controller writes no namespace.
    #[must_use]
    pub fn is_observer(&self, cntlid: u16) -> bool {
        // Relaxed: it is raised by a command of this host, and never lowered.
        self.controllers.get(&cntlid).is_some_and(|c| c.observer.load(Ordering::Relaxed))
    }

    /// Returns whether a controller keeps others away.
    #[must_use]
    pub fn is_holder(&self, cntlid: u16) -> bool {
        self.holder == Some(cntlid)
    }

    /// Says whether a controller waits for other nodes to write local memory. While one holds the
    /// subsystem, other nodes are let in for that alone.
    pub fn set_inviting(&mut self, cntlid: u16, inviting: bool) {
        if inviting && self.stands(cntlid) {
            self.inviting.insert(cntlid);
        } else {
            self.inviting.remove(&cntlid);
        }
    }

    /// Keeps hosts other than that of controller `cntlid` away until it ends or
    /// [`release`](Self::release)s. False where one is associated, where something of an
    /// association that has ended can still be carried out, or where writes of a closed connection
    /// are with the media.
    pub fn hold(&mut self, cntlid: u16) -> bool {
        self.ended.retain(|(_, life)| stands(life));
        let free = self.holder.is_none_or(|holder| holder == cntlid)
            && self.stands(cntlid)
            && !self.is_helper(cntlid)
            && self.orphans.is_empty()
            && self.ended.is_empty()
            && self.other_hosts(cntlid).is_empty();
        if free {
            self.holder = Some(cntlid);
        }
        free
    }

    /// A connection of a host is closed, and writes of it are still with the media. Until they have
    /// ended, the host cannot associate again: it would write anew what it got no answer for, and
    /// then other data, and an old write must not come after that.
    pub fn orphan(&mut self, host: [u8; 16]) {
        *self.orphans.entry(host).or_default() += 1;
    }

    /// The writes of a closed connection have ended.
    pub fn orphan_ended(&mut self, host: [u8; 16]) {
        if let Some(count) = self.orphans.get_mut(&host) {
            *count -= 1;
            if *count == 0 {
                self.orphans.remove(&host);
            }
        }
    }

    /// Returns whether controller `cntlid` is ready for more than Fabrics commands. One that its
    /// host has enabled becomes so when nothing can be carried out any more that came over the
    /// host's former queues (of ended associations, or of before a reset): other cores see the end
    /// of those later, and what lies in their sockets is older than what the host sends now.
    pub(crate) fn is_ready(&mut self, cntlid: u16) -> bool {
        let Some(controller) = self.controllers.get(&cntlid) else { return false };
        if controller.starting {
            let host = controller.hostid;
            self.ended.retain(|(_, life)| stands(life));
            let quiet = !self.orphans.contains_key(&host)
                && !controller.former.iter().any(stands)
                && !self.ended.iter().any(|(of, _)| *of == host);
            if !quiet && Self::counts(controller) {
                return false;
            }
        }
        self.controllers.get_mut(&cntlid).is_some_and(|controller| {
            controller.start();
            controller.is_ready()
        })
    }

    /// Lets other hosts in again, where `cntlid` kept them away.
    pub fn release(&mut self, cntlid: u16) {
        if self.holder == Some(cntlid) {
            self.holder = None;
        }
    }

    /// A namespace has changed, in its size for one: tells every host that wants to know.
    ///
    /// # Panics
    /// If there is no such namespace.
    pub fn change_namespace(&mut self, nsid: u32, namespace: Namespace) {
        let mut all = self.namespaces.to_vec();
        all[nsid as usize - 1] = namespace;
        self.namespaces = all.into();
        // Under the subsystem's lock, as every reader of both: the count fits the namespaces.
        self.namespace_changes.fetch_add(1, Ordering::Release);
        for controller in self.controllers.values_mut().filter(|c| !c.discovery && c.attached.has(nsid)) {
            controller.changed.insert(nsid);
            // Notice: namespaces changed, log page 04.
            controller.event(OAES_NAMESPACES, 2 | u32::from(lid::CHANGED_NAMESPACES) << 16);
        }
    }

    /// Says how many blocks of a namespace are in use. A host that is not told otherwise sees that
    /// all are.
    pub fn set_used(&mut self, nsid: u32, blocks: u64) {
        self.used.insert(nsid, blocks);
    }

    pub(crate) fn used(&self, nsid: u32) -> Option<u64> {
        self.used.get(&nsid).copied()
    }

    /// Says how well the namespaces are reached here: tells every host that wants to know, where
    /// that changes.
    pub fn set_access(&mut self, state: AnaState) {
        if state == self.ana {
            return;
        }
        self.ana = state;
        self.ana_changes += 1;
        for controller in self.controllers.values_mut().filter(|c| !c.discovery) {
            // Notice: asymmetric access changed, log page 0C.
            controller.event(OAES_ANA, 2 | 3 << 8 | u32::from(lid::ANA) << 16);
        }
    }

    /// The log page 0C of a controller to which these namespaces are attached.
    pub(crate) fn ana_log(&self, attached: &Attached, groups_only: bool) -> AnaLog {
        let namespaces = attached.above(if groups_only { u32::MAX } else { 0 });
        let group = AnaGroup {
            group: ana::GROUP,
            changes: self.ana_changes,
            state: self.ana as u8,
            namespaces: namespaces.collect(),
        };
        AnaLog { changes: self.ana_changes, groups: vec![group] }
    }

    /// Says which critical warnings of the health page the media give: tells every host that wants
    /// to know of those that are new.
    pub fn set_media_warnings(&mut self, warnings: u8) {
        let new = u32::from(warnings & !self.media_warnings);
        self.media_warnings = warnings;
        for controller in self.controllers.values_mut().filter(|c| !c.discovery && new != 0) {
            // Health: the subsystem's reliability.
            controller.event(new, 1 | u32::from(lid::HEALTH) << 16);
        }
    }

    pub(crate) fn media_warnings(&self) -> u8 {
        self.media_warnings
    }

    pub(crate) fn health(&self, errors: u64, seconds: u64) -> Health {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Health {
            bytes_read: value(&self.counters.bytes_read),
            bytes_written: value(&self.counters.bytes_written),
            reads: value(&self.counters.reads),
            writes: value(&self.counters.writes),
            seconds,
            media_errors: value(&self.counters.media_errors),
            error_entries: errors,
            ..Health::default()
        }
    }
}
