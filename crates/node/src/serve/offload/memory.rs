//! Commands on local memory.

use super::{Answered, MAX_MOVE, plain};
use crate::memory::MemoryAccess;
use crate::serve::SharedSubsystem;
use crate::serve::leases::{Active, NoLease};
use pumice_nvme::controller::Access;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::wire::{self, opcode};
use pumice_offload::{ErrorKind, MemoryAddress, NodeError};

/// Carries out a command on local memory.
pub(super) fn of_memory(
    active: &Active<'_>,
    (sqe, address, data): (&Sqe, MemoryAddress, &[u8]),
    (subsystem, cntlid): (&SharedSubsystem, u16),
) -> Answered {
    let len = u64::from(sqe.dword(12));
    let stands = |cntlid| subsystem.with(|s| s.stands(cntlid));
    match sqe.opcode() {
        opcode::MEMORY_LEASE => match active.lease(sqe.nsid(), len, stands) {
            Ok(start) => Answered { result: start / wire::LEASE_UNIT, ..Answered::default() },
            Err(NoLease::Senseless) => Answered::refused(Status::INVALID_FIELD.dnr()),
            Err(NoLease::Full) => Answered::refused(Status(wire::STATUS_NO_MEMORY)),
        },
        opcode::MEMORY_GRANT => plain(grant(active, address, data, subsystem, cntlid)),
        opcode::MEMORY_WRITE => plain(active.write(address, data)),
        opcode::MEMORY_FILL => plain(fill(active, address, len, sqe.dword(13) as u8)),
        opcode::MEMORY_READ => {
            let mut out = vec![0; len as usize];
            match active.read(address, &mut out) {
                Ok(()) => Answered::data(out, len),
                Err(error) => plain(Err(error)),
            }
        }
        _ => Answered::refused(Status::INVALID_OPCODE.dnr()),
    }
}

/// Fills memory. What ends past the memory, or past what is leased, is refused before a part of it
/// is done.
fn fill(memory: &Active<'_>, address: MemoryAddress, len: u64, value: u8) -> Result<(), NodeError> {
    memory.check("address", address, len)?;
    let piece = vec![value; len.min(MAX_MOVE) as usize];
    let mut done = 0;
    while done < len {
        let part = (len - done).min(MAX_MOVE) as usize;
        let at = MemoryAddress { offset: address.offset.saturating_add(done), ..address };
        memory.write(at, &piece[..part])?;
        done += part as u64;
    }
    Ok(())
}

/// Gives a grant, or takes it back.
fn grant(
    active: &Active<'_>,
    address: MemoryAddress,
    data: &[u8],
    subsystem: &SharedSubsystem,
    cntlid: u16,
) -> Result<(), NodeError> {
    let (grant, len) = wire::decode_grant(data).map_err(|e| NodeError::invalid(e.field, e.to_string()))?;
    let (done, any) = active.grant(grant, address, len);
    subsystem.with(|s| s.set_inviting(cntlid, any));
    if done {
        return Ok(());
    }
    let what = "only leased memory can be granted, at most 64 times";
    Err(NodeError::new(ErrorKind::Busy, what))
}
