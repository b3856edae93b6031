//! The node's other hosts: their list, the superblocks that they wrote, and holds against them.

use crate::RemoteNode;
use crate::answer::refused;
use crate::numbers::{asker, put_number};
use pumice_nvme::spec::Sqe;
use pumice_offload::wire::{self, opcode};
use pumice_offload::{ErrorKind, Hosts, NodeError, Presence, SuperblockSeen};
use std::sync::atomic::Ordering;

impl Presence for RemoteNode {
    fn hosts(&self) -> Result<Hosts, NodeError> {
        let mut bytes = vec![0; wire::HOSTS_HEADER + wire::MAX_HOSTS * wire::HOST_BYTES];
        let mut sqe = Sqe::new(opcode::HOSTS_READ, 0);
        sqe.set_dword(12, bytes.len() as u32);
        put_number(&mut sqe, [10, 11, 13, 14], &asker()?);
        let done = self.ask(sqe, &[], &mut bytes)?;
        if !done.status.is_success() {
            return Err(refused(self.name(), opcode::name(opcode::HOSTS_READ), done.status, ""));
        }
        bytes.truncate(done.received as usize);
        let hosts = wire::decode_hosts(&bytes);
        hosts.map_err(|e| NodeError::new(ErrorKind::Unreachable, format!("{}: {e}", self.name())))
    }

    fn superblocks(&self) -> Result<Option<Vec<SuperblockSeen>>, NodeError> {
        let mut seen = Vec::new();
        for page in 0.. {
            let mut bytes =
                vec![0; wire::SUPERBLOCKS_HEADER + 4 * wire::SUPERBLOCKS_PAGE * wire::SUPERBLOCK_BYTES];
            let mut sqe = Sqe::new(opcode::SUPERBLOCKS_READ, 0);
            sqe.set_dword(10, page);
            sqe.set_dword(12, bytes.len() as u32);
            let done = self.ask(sqe, &[], &mut bytes)?;
            // A node that is older does not know the command.
            if !done.status.is_success() {
                return Ok(None);
            }
            bytes.truncate(done.received as usize);
            let (entries, drives) = wire::decode_superblocks(&bytes)
                .map_err(|e| NodeError::new(ErrorKind::Unreachable, format!("{}: {e}", self.name())))?;
            seen.extend(entries);
            if (u64::from(page) + 1) * wire::SUPERBLOCKS_PAGE as u64 >= u64::from(drives) {
                break;
            }
        }
        Ok(Some(seen))
    }

    fn hold(&self) -> Result<(), NodeError> {
        let mut sqe = Sqe::new(opcode::HOLD, 0);
        sqe.set_dword(10, wire::HOLD_TAKE);
        self.plain(sqe, &[])?;
        self.held.store(true, Ordering::Relaxed);
        self.to_hold.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn observe(&self) -> Result<(), NodeError> {
        let mut sqe = Sqe::new(opcode::HOLD, 0);
        sqe.set_dword(10, wire::HOLD_OBSERVE);
        self.plain(sqe, &[])?;
        self.observes.store(true, Ordering::Relaxed);
        Ok(())
    }
}
