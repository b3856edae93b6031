//! Property of another host: its controller, its memory, its name, and the name of a node.

use super::{Attack, Attacker};
use crate::hostile::wire::{Session, Who, blocks, vendor};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::io as code;
use pumice_offload::wire::{NODE_HOST_ID, opcode};
use std::io;
use std::net::Ipv4Addr;

/// Bytes that are leased, and those that are touched in them.
const LEASE: usize = 4096;

struct Identity {
    _admin: Session,
    cntlid: u16,
    owner: Session,
    lease: u32,
}

pub(super) fn begin(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    let (admin, cntlid) = Session::associate(&attacker.target, &attacker.who)?;
    let (mut owner, _) =
        Session::connect(&attacker.target, &attacker.who, (cntlid, 1, 32), Digests::default())?;
    let leased = owner.run(vendor(opcode::MEMORY_LEASE, 1, 0, LEASE), &[], 0)?;
    if !leased.status.is_success() {
        return Err(io::Error::other("no lease"));
    }
    let lease = leased.result as u32 * 4096;
    owner.run(vendor(opcode::MEMORY_WRITE, 1, lease, LEASE), &[0xA5; LEASE], 0)?;
    Ok(Box::new(Identity { _admin: admin, cntlid, owner, lease }))
}

impl Identity {
    /// The attacker's other self: the same name, from another place.
    fn join(&self, attacker: &Attacker) {
        let elsewhere = Who { from: Ipv4Addr::new(127, 0, 0, 3), ..attacker.who.clone() };
        for (who, cntlid) in [(elsewhere, self.cntlid), (Who::new(9999), self.cntlid)] {
            if Session::connect(&attacker.target, &who, (cntlid, 2, 32), Digests::default()).is_ok() {
                attacker.breach(format!("a queue of another host's controller, as {}", who.nqn));
            }
        }
    }

    /// Memory that another host has leased.
    fn touch(&mut self, attacker: &Attacker) -> io::Result<()> {
        let stranger = Who::new(1000 + attacker.number);
        let (_admin, mut queue) = Session::pair(&attacker.target, &stranger, 32)?;
        let write = queue.run(vendor(opcode::MEMORY_WRITE, 1, self.lease, 512), &[1; 512], 0)?;
        let read = queue.run(vendor(opcode::MEMORY_READ, 1, self.lease, 512), &[], 512)?;
        let fill = queue.run(vendor(opcode::MEMORY_FILL, 1, self.lease, 512), &[], 0)?;
        if [write, read, fill].iter().any(|done| done.status.is_success()) {
            attacker.breach("local memory that another host has leased".to_owned());
        }
        Ok(())
    }

    /// The name that nodes have among each other.
    fn as_a_node(&self, attacker: &Attacker) -> io::Result<()> {
        let node = Who { id: NODE_HOST_ID, ..attacker.who.clone() };
        let (_admin, mut queue) = Session::pair(&attacker.target, &node, 32)?;
        // The block behind the part that is verified; and the memory of another host.
        let first = crate::hostile::node::GOOD / 512;
        let write = queue.run(blocks(code::WRITE, 1, first, 1), &[2; 512], 0)?;
        let read = queue.run(blocks(code::READ, 1, first, 1), &[], 512)?;
        let memory = queue.run(vendor(opcode::MEMORY_WRITE, 1, self.lease, 512), &[3; 512], 0)?;
        let hold = queue.run(vendor(opcode::HOLD, 0, 1, 0), &[], 0)?;
        if [write, read, memory, hold].iter().any(|done| done.status.is_success()) {
            attacker.breach("rights by the name of a node".to_owned());
        }
        Ok(())
    }
}

impl Attack for Identity {
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        match attacker.random.below(3) {
            0 => self.join(attacker),
            1 => self.touch(attacker)?,
            _ => self.as_a_node(attacker)?,
        }
        let own = self.owner.run(vendor(opcode::MEMORY_READ, 1, self.lease, LEASE), &[], LEASE as u32)?;
        if !own.status.is_success() {
            attacker.breach(format!("a host's own lease is out of its reach: {}", own.status));
        }
        Ok(())
    }
}
