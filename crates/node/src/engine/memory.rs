//! Commands whose sources are local memory: interims that meet.

use super::{Fold, Section};
use crate::memory::{LocalMemory, further};
use pumice_offload::{MemoryAddress, NodeError, ParityCommand, ParityResult};
use pumice_telemetry::Ledger;

/// Executes a command over memory sources.
pub(crate) fn fold_memory(
    command: &ParityCommand,
    addresses: &[MemoryAddress],
    fold: &Fold<'_>,
    memory: &LocalMemory,
) -> Result<ParityResult, NodeError> {
    let len = u64::from(command.window.len);
    for address in addresses {
        memory.range("sources", *address, len * command.count())?;
    }
    let mut partial = fold.start();
    let mut buffers = vec![vec![0; command.window.len as usize]; addresses.len()];
    for (repetition, stripe) in command.stripes.clone().enumerate() {
        for (buffer, address) in buffers.iter_mut().zip(addresses) {
            memory.read(further(*address, repetition as u64 * len), buffer)?;
        }
        let slices: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
        fold.section(&mut partial, &Section { stripe, start: 0, slices: &slices })?;
    }
    let mut result = fold.finish(partial)?;
    let folded = len * command.count() * addresses.len() as u64;
    result.moved = Ledger { node_cpu: folded, ..Ledger::default() };
    Ok(result)
}
