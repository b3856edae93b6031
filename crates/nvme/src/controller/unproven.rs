//! Associations of hosts that have not proven their names yet: few, and nobody's.

use super::association::Controller;
use super::subsystem::Subsystem;
use crate::spec::Status;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Associations without proof at a time, of an address, and of all.
const OF_ADDRESS: usize = 16;
const OF_ALL: usize = 256;
/// Bits of an IPv6 address that are one network's.
const NETWORK: u128 = !0 << 64;

/// The address by which strangers are counted: of IPv6 the network, because a host has all the
/// addresses of one.
#[must_use]
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & NETWORK).into(),
    }
}

impl Subsystem {
    /// Makes room for one more association without proof from an address: the oldest of the address
    /// that has most gives way.
    pub(crate) fn make_way(&mut self, peer: IpAddr) {
        loop {
            let mut of: BTreeMap<IpAddr, Vec<(u64, u16)>> = BTreeMap::new();
            for Controller { came, cntlid, peer, .. } in self.controllers.values().filter(|c| !c.proven) {
                of.entry(network(*peer)).or_default().push((*came, *cntlid));
            }
            let own = of.get(&network(peer)).filter(|own| own.len() >= OF_ADDRESS);
            let all: usize = of.values().map(Vec::len).sum();
            let most = || of.values().max_by_key(|of| (of.len(), Reverse(of.iter().min())));
            let fullest = if own.is_some() || all < OF_ALL { own } else { most() };
            let Some((_, cntlid)) = fullest.and_then(|of| of.iter().min()).copied() else { return };
            self.end(cntlid);
        }
    }

    /// The host of a controller has proven its name: the association counts from now on.
    ///
    /// # Errors
    /// The status of the command that ended the authentication, if there is no place, or the host
    /// is kept out.
    pub(crate) fn prove(&mut self, cntlid: u16) -> Result<(), Status> {
        let Some(controller) = self.controllers.get(&cntlid) else { return Err(Status::SEQUENCE.dnr()) };
        let (kind, hostid, peer) = (controller.kind(), controller.hostid, controller.peer);
        if !self.has_room(kind, hostid, peer) || self.is_kept_out(kind, hostid) {
            return Err(Status::CONNECT_BUSY);
        }
        if let Some(controller) = self.controllers.get_mut(&cntlid) {
            controller.proven = true;
        }
        self.note_change(cntlid);
        Ok(())
    }

    /// An I/O queue of a controller is proven: it takes its number.
    ///
    /// # Errors
    /// The status of the command that ended the authentication, if the association or the number is
    /// gone, or an old write of the host is under way.
    pub(crate) fn prove_queue(&mut self, cntlid: u16, qid: u16) -> Result<(), Status> {
        let ready = self.is_ready(cntlid);
        let orphaned = |c: &Controller| self.orphans.contains_key(&c.hostid) && !c.helper;
        if self.controllers.get(&cntlid).is_some_and(orphaned) {
            return Err(Status::CONNECT_BUSY);
        }
        let controller = self.controllers.get_mut(&cntlid).filter(|_| ready);
        match controller.is_some_and(|controller| controller.queues.insert(qid)) {
            true => Ok(()),
            false => Err(Status::SEQUENCE.dnr()),
        }
    }
}
