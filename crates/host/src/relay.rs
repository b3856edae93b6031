//! Moves local memory from one node to another.

use pumice_base::telemetry::Ledger;
use pumice_offload::{DriveMemory, ErrorKind, NodeError, Transfer};

/// Has `from` send to `to`. If the two may not, or cannot, connect to each other, the bytes pass
/// through this host and are counted there in the ledger.
pub(crate) fn bring(
    from: &dyn DriveMemory,
    to: &dyn DriveMemory,
    transfer: &Transfer,
) -> Result<Ledger, NodeError> {
    let to_address = to.absolute(transfer.to)?;
    let grant = to.grant(to_address, transfer.len)?;
    let done = from.transfer(&Transfer { to: to_address, grant, ..transfer.clone() });
    // Before the memory is used: what is still under way must not be written over what comes next.
    to.revoke(to_address, &grant)?;
    match done {
        Ok(done) => return Ok(done.moved),
        Err(error) if error.kind() == ErrorKind::Unreachable => {}
        Err(error) => return Err(error),
    }
    let mut bytes = vec![0; usize::try_from(transfer.len).expect("local memory fits memory")];
    from.memory_read(transfer.from, &mut bytes)?;
    to.memory_write(transfer.to, &bytes)?;
    Ok(Ledger::arrived_at_host(transfer.len))
}
