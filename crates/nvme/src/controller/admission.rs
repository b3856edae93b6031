//! Admission of hosts: associations, their queues, and their end.

use super::association::{Controller, ControllerKind, stands};
use super::subsystem::{Refusal, Subsystem, bad_parameter};
use crate::spec::connect::{DYNAMIC, Data, Fields, offset};
use crate::spec::{DISCOVERY_NQN, Nqn, Status};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

/// Associations with the discovery service at a time, and as many of other nodes: some hosts keep
/// one.
const OTHERS: usize = 64;

/// Counts of places that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Places {
    /// Associations of hosts.
    pub hosts: usize,
    /// Of those, from the address that has most.
    pub of_address: usize,
    /// Of those, of the host that has most: an identifier at an address.
    pub of_host: usize,
    /// Associations of other nodes, and with the discovery service.
    pub others: [usize; 2],
    /// Bound on each of these.
    pub most_others: usize,
    /// I/O queues of the association that has most.
    pub queues: usize,
}

/// Count of the most frequent one.
fn most<T: Ord>(all: impl Iterator<Item = T>) -> usize {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts.into_values().max().unwrap_or(0)
}

impl Subsystem {
    /// Counts of places that are taken.
    #[must_use]
    pub fn places(&self) -> Places {
        let of = |kind: ControllerKind| self.proven().filter(move |c| c.kind() == kind);
        Places {
            hosts: of(ControllerKind::Host).count(),
            of_address: most(of(ControllerKind::Host).map(|c| c.peer)),
            of_host: most(of(ControllerKind::Host).map(|c| (c.hostid, c.peer))),
            others: [of(ControllerKind::Helper).count(), of(ControllerKind::Discovery).count()],
            most_others: OTHERS,
            queues: self.controllers.values().map(|c| c.queues.len()).max().unwrap_or(0),
        }
    }

    fn proven(&self) -> impl Iterator<Item = &Controller> {
        self.controllers.values().filter(|c| c.proven)
    }

    /// The admin queue's Connect: makes a controller. If its host has to prove its name first, it
    /// is nobody's until [`prove`](Self::prove).
    pub(crate) fn associate(
        &mut self,
        fields: &Fields,
        data: &Data,
        peer: IpAddr,
        now: u64,
        proven: bool,
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
        let kind = if discovery {
            ControllerKind::Discovery
        } else if self.vendor.helper == Some(data.hostid) {
            ControllerKind::Helper
        } else {
            ControllerKind::Host
        };
        if !proven {
            self.make_way(peer);
        } else if !self.has_room(kind, data.hostid, peer) || self.is_kept_out(kind, data.hostid) {
            // Not for ever: the host may try again.
            return Err((Status::CONNECT_BUSY, 0));
        }
        let cntlid = self.free_cntlid();
        let attached = self.attachments.of(&data.hostnqn);
        let mut controller = Controller::new(cntlid, data, kind, attached, peer, fields.kato_ms, now);
        controller.proven = proven;
        let counts = Self::counts(&controller);
        self.changes += u64::from(counts);
        Ok(self.controllers.entry(cntlid).or_insert(controller))
    }

    /// Returns whether one more association is within the bounds. Each kind has its own: readers of
    /// the discovery service do not keep hosts out, nor hosts them. No address and no host takes
    /// all the places; a host is an identifier at an address, for anybody can claim the identifier.
    pub(super) fn has_room(&self, kind: ControllerKind, hostid: [u8; 16], peer: IpAddr) -> bool {
        let of_kind = || self.proven().filter(|c| c.kind() == kind);
        let most = if kind == ControllerKind::Host { self.limits.controllers } else { OTHERS };
        of_kind().count() < most
            && of_kind().filter(|c| c.peer == peer).count() < self.limits.controllers_of_address
            && (kind != ControllerKind::Host
                || of_kind().filter(|c| (c.hostid, c.peer) == (hostid, peer)).count()
                    < self.limits.controllers_of_host)
    }

    /// Returns whether another host's hold, or an old write of this host, is in the way of an
    /// association.
    pub(super) fn is_kept_out(&self, kind: ControllerKind, hostid: [u8; 16]) -> bool {
        match kind {
            ControllerKind::Discovery => false,
            ControllerKind::Host => self.holder.is_some() || self.orphans.contains_key(&hostid),
            ControllerKind::Helper => self.holder.is_some_and(|holder| !self.inviting.contains(&holder)),
        }
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

    /// An I/O queue's Connect: finds its controller. A queue that has to be proven first takes its
    /// number in [`prove_queue`](Self::prove_queue).
    pub(crate) fn join(
        &mut self,
        fields: &Fields,
        data: &Data,
        peer: IpAddr,
        proven: bool,
    ) -> Result<&mut Controller, Refusal> {
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
        if controller.peer != peer {
            // Names can be known; an address that a connection has been made from is harder to
            // have.
            return Err((Status::CONNECT_HOST.dnr(), 0));
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
        let taken = if proven {
            !controller.queues.insert(fields.qid)
        } else {
            controller.queues.contains(&fields.qid)
        };
        if taken {
            return Err((Status::SEQUENCE.dnr(), 0));
        }
        Ok(controller)
    }

    /// Ends an association: its queues see it at their next receive or tick.
    pub(crate) fn end(&mut self, cntlid: u16) {
        self.note_change(cntlid);
        self.release(cntlid);
        self.inviting.remove(&cntlid);
        if let Some(controller) = self.controllers.remove(&cntlid) {
            controller.life.end();
            controller.io_life.end();
            let host = controller.hostid;
            self.ended.retain(|(_, life)| stands(life));
            if Self::counts(&controller) {
                self.ended.push((host, Arc::downgrade(&controller.io_life)));
                self.ended.extend(controller.former.iter().map(|life| (host, Weak::clone(life))));
            }
        }
    }
}
