//! The subsystem: namespaces, controllers, identity and limits; what all connections share.

use super::controller::{Controller, Life, stands};
use crate::spec::ana::{self, AnaGroup, AnaLog, AnaState};
use crate::spec::connect::{DYNAMIC, Data, Fields, offset};
use crate::spec::identify::{Namespace, OAES_ANA, OAES_NAMESPACES};
use crate::spec::log::{Health, lid};
use crate::spec::{DISCOVERY_NQN, Nqn, Status};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Bounds of a target. Everything that a peer can ask for has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time, whoever they belong to; the caller counts them.
    pub connections: usize,
    /// Associations at a time, those with the discovery service not counted.
    pub controllers: usize,
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

/// Associations with the discovery service at a time: some hosts keep one.
const DISCOVERIES: usize = 64;

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            controllers: 64,
            queues: 64,
            queue_depth: 128,
            capsule_data: 16 << 10,
            maxh2cdata: 128 << 10,
            write_window: 8 << 20,
        }
    }
}

/// Who a subsystem is. Stays the same over restarts.
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

/// What all connections count.
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
    identity: Identity,
    limits: Limits,
    namespaces: Arc<[Namespace]>,
    pub(crate) controllers: BTreeMap<u16, Controller>,
    next_cntlid: u16,
    counters: Arc<Counters>,
    vendor: VendorSet,
    ana: AnaState,
    /// How often the access state has changed, from 1: 0 would say that nobody counts.
    ana_changes: u64,
    /// Associations of hosts that began or ended, and queues that were lost.
    changes: u64,
    /// The controller that keeps other hosts away.
    holder: Option<u16>,
    /// Closed connections of which writes are still with the media, by host.
    orphans: BTreeMap<[u8; 16], usize>,
    /// I/O queues of associations that have ended, while connections of them stand, by host.
    ended: Vec<([u8; 16], Weak<Life>)>,
    /// Where it is reached: ports 1, 2, ….
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
    /// When anything came from it last: nanoseconds on the clock of the connections.
    pub heard: u64,
}

/// What a subsystem has beyond the specification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VendorSet {
    /// What stands in Identify Controller from byte 3072 on: at most 1024 bytes.
    pub identify: Vec<u8>,
    /// I/O opcodes from 0x80 on, with their entries of the Commands Supported and Effects log.
    pub commands: Vec<(u8, u32)>,
    /// The host identifier of machines that never write a medium, and are not counted among the hosts.
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
    /// Where a limit is outside its range.
    #[must_use]
    pub fn new(identity: Identity, limits: Limits, namespaces: Vec<Namespace>) -> Self {
        assert!((2..=1024).contains(&limits.queue_depth), "queue_depth is {}", limits.queue_depth);
        assert!(limits.capsule_data >= 4096 && limits.capsule_data.is_multiple_of(16), "capsule_data");
        assert!(limits.maxh2cdata >= 4096 && limits.maxh2cdata.is_multiple_of(4), "maxh2cdata");
        Self {
            identity,
            limits,
            namespaces: namespaces.into(),
            controllers: BTreeMap::new(),
            next_cntlid: 1,
            counters: Arc::default(),
            vendor: VendorSet::default(),
            ana: AnaState::default(),
            ana_changes: 1,
            changes: 0,
            holder: None,
            orphans: BTreeMap::new(),
            ended: Vec::new(),
            ports: Vec::new(),
            media_warnings: 0,
        }
    }

    /// Who it is.
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

    /// Says what it has beyond the specification.
    ///
    /// # Panics
    /// Where the identify part has more than 1024 bytes.
    pub fn set_vendor(&mut self, vendor: VendorSet) {
        assert!(vendor.identify.len() <= 1024, "the vendor's part of Identify Controller has 1024 bytes");
        self.vendor = vendor;
    }

    pub(crate) fn vendor(&self) -> &VendorSet {
        &self.vendor
    }

    /// What connections count.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// How many hosts are associated with it, the discovery service's readers not counted.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.controllers.values().filter(|c| !c.discovery).count()
    }

    fn counts(&self, controller: &Controller) -> bool {
        !controller.discovery && self.vendor.helper != Some(controller.hostid)
    }

    /// The hosts that may write, but for the one of controller `but`.
    #[must_use]
    pub fn other_hosts(&self, but: u16) -> Vec<HostInfo> {
        let others = self.controllers.values().filter(|c| c.cntlid != but && self.counts(c));
        others
            .map(|c| HostInfo {
                cntlid: c.cntlid,
                nqn: c.hostnqn.clone(),
                id: c.hostid,
                heard: c.heard.load(Ordering::Relaxed),
            })
            .collect()
    }

    /// How often an association of a host that may write began or ended, or lost a queue.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn note_change(&mut self, cntlid: u16) {
        if self.controllers.get(&cntlid).is_some_and(|controller| self.counts(controller)) {
            self.changes += 1;
        }
    }

    /// Whether a controller stands.
    #[must_use]
    pub fn stands(&self, cntlid: u16) -> bool {
        self.controllers.contains_key(&cntlid)
    }

    /// Keeps hosts other than that of controller `cntlid` away until it ends or [`release`](Self::release)s; false where one is associated.
    pub fn hold(&mut self, cntlid: u16) -> bool {
        let free = self.holder.is_none_or(|holder| holder == cntlid)
            && self.stands(cntlid)
            && self.other_hosts(cntlid).is_empty();
        if free {
            self.holder = Some(cntlid);
        }
        free
    }

    /// A connection of a host is closed, and writes of it are still with the media. Until they have ended, the host cannot associate again: it would write anew what
    /// it got no answer for, and then other data, and an old write must not come after that.
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

    /// Whether controller `cntlid` is ready for more than Fabrics commands. One that its host has enabled becomes so when nothing can be carried out any more that came over the
    /// host's former queues (of ended associations, or of before a reset): other cores see the end of those later, and what lies in their sockets is older than
    /// what the host sends now.
    pub(crate) fn is_ready(&mut self, cntlid: u16) -> bool {
        let Some(controller) = self.controllers.get(&cntlid) else { return false };
        if controller.starting {
            let host = controller.hostid;
            self.ended.retain(|(_, life)| stands(life));
            let quiet = !self.orphans.contains_key(&host)
                && !controller.former.iter().any(stands)
                && !self.ended.iter().any(|(of, _)| *of == host);
            if !quiet && self.counts(controller) {
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
    /// Where there is no such namespace.
    pub fn change_namespace(&mut self, nsid: u32, namespace: Namespace) {
        let mut all = self.namespaces.to_vec();
        all[nsid as usize - 1] = namespace;
        self.namespaces = all.into();
        for controller in self.controllers.values_mut().filter(|c| !c.discovery) {
            controller.changed.insert(nsid);
            // Notice: namespaces changed, log page 04.
            controller.event(OAES_NAMESPACES, 2 | u32::from(lid::CHANGED_NAMESPACES) << 16);
        }
    }

    /// Says how well the namespaces are reached here: tells every host that wants to know, where that changes.
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

    /// The log page 0C: the same for every controller.
    pub(crate) fn ana_log(&self, groups_only: bool) -> AnaLog {
        let namespaces = if groups_only { 0 } else { self.namespaces.len() as u32 };
        let group = AnaGroup {
            group: ana::GROUP,
            changes: self.ana_changes,
            state: self.ana as u8,
            namespaces: (1..=namespaces).collect(),
        };
        AnaLog { changes: self.ana_changes, groups: vec![group] }
    }

    /// Says which critical warnings of the health page the media give: tells every host that wants to know of those that are new.
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

    /// The admin queue's Connect: makes a controller.
    pub(crate) fn associate(
        &mut self,
        fields: &Fields,
        data: &Data,
        now: u64,
    ) -> Result<&mut Controller, Refusal> {
        let discovery = data.subnqn == DISCOVERY_NQN;
        if !discovery && data.subnqn != self.identity.nqn.as_str() {
            return Err(bad_parameter(offset::SUBNQN, true));
        }
        // Some hosts give no name; they are told apart by their id.
        if !data.hostnqn.is_empty() && data.hostnqn.parse::<Nqn>().is_err() {
            return Err(bad_parameter(offset::HOSTNQN, true));
        }
        // Hosts are told apart by it: none of them is 0.
        if !discovery && data.hostid == [0; 16] {
            return Err(bad_parameter(offset::HOSTID, true));
        }
        if data.cntlid != DYNAMIC {
            return Err(bad_parameter(offset::CNTLID, true));
        }
        // Each kind by itself: readers of the discovery service do not keep hosts out, nor hosts them.
        let most = if discovery { DISCOVERIES } else { self.limits.controllers };
        if self.controllers.values().filter(|c| c.discovery == discovery).count() >= most {
            return Err((Status::CONNECT_BUSY, 0));
        }
        let cntlid = self.free_cntlid();
        let controller = Controller::new(cntlid, data, discovery, fields.kato_ms, now);
        let counts = self.counts(&controller);
        let orphaned = self.orphans.contains_key(&data.hostid);
        if counts && (self.holder.is_some() || orphaned) {
            // Not for ever: the host may try again.
            return Err((Status::CONNECT_BUSY, 0));
        }
        self.changes += u64::from(counts);
        Ok(self.controllers.entry(cntlid).or_insert(controller))
    }

    /// The next id that nobody has: ids come again as late as they can.
    fn free_cntlid(&mut self) -> u16 {
        loop {
            let id = self.next_cntlid;
            self.next_cntlid = if id >= 0xFFEF { 1 } else { id + 1 };
            if !self.controllers.contains_key(&id) {
                return id;
            }
        }
    }

    /// An I/O queue's Connect: finds its controller.
    pub(crate) fn join(&mut self, fields: &Fields, data: &Data) -> Result<&mut Controller, Refusal> {
        if data.subnqn != self.identity.nqn.as_str() {
            return Err(bad_parameter(offset::SUBNQN, true));
        }
        let limits = self.limits;
        let ready = self.is_ready(data.cntlid);
        // As for an association: an old write must not come after what this queue brings.
        let orphaned = self.orphans.contains_key(&data.hostid) && self.vendor.helper != Some(data.hostid);
        let Some(controller) = self.controllers.get_mut(&data.cntlid).filter(|c| !c.discovery) else {
            return Err(bad_parameter(offset::CNTLID, true));
        };
        if controller.hostid != data.hostid {
            return Err(bad_parameter(offset::HOSTID, true));
        }
        if controller.hostnqn != data.hostnqn {
            return Err(bad_parameter(offset::HOSTNQN, true));
        }
        if !ready {
            return Err((Status::SEQUENCE.dnr(), 0));
        }
        if orphaned {
            return Err((Status::CONNECT_BUSY, 0));
        }
        // A queue here is one of each kind; what was granted is less one.
        let granted = controller
            .settings
            .queues
            .map_or(limits.queues, |both| (both as u16).min((both >> 16) as u16) + 1);
        if fields.qid > granted {
            return Err((Status::INVALID_QUEUE.dnr(), 0));
        }
        if !controller.queues.insert(fields.qid) {
            return Err((Status::SEQUENCE.dnr(), 0));
        }
        Ok(controller)
    }

    /// Ends an association: its queues see it at their next receive or tick.
    pub(crate) fn end(&mut self, cntlid: u16) {
        self.note_change(cntlid);
        self.release(cntlid);
        if let Some(controller) = self.controllers.remove(&cntlid) {
            controller.life.end();
            controller.io_life.end();
            let host = controller.hostid;
            self.ended.retain(|(_, life)| stands(life));
            self.ended.push((host, Arc::downgrade(&controller.io_life)));
            self.ended.extend(controller.former.iter().map(|life| (host, Weak::clone(life))));
        }
    }
}
