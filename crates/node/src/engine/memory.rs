//! Commands whose sources are local memory: they combine interims.

use super::{Fold, Permit, Section};
use crate::memory::{MemoryAccess, further};
use pumice_base::telemetry::Ledger;
use pumice_offload::{MemoryAddress, NodeError, ParityCommand, ParityResult};

/// Bytes of a section over all sources. A command may have 1920 of them, and each as long as the
/// memory of a drive.
const SECTION: usize = 8 << 20;
/// A section's length is a multiple of this: the kernels' lines, by far.
const GRAIN: usize = 4096;

/// Bytes of a section of one source.
fn section_bytes(window: usize, sources: usize) -> usize {
    window.min((SECTION / sources.max(1) / GRAIN).max(1) * GRAIN)
}

/// Executes a command over memory sources.
pub(crate) fn fold_memory(
    command: &ParityCommand,
    addresses: &[MemoryAddress],
    fold: &Fold<'_>,
    memory: &dyn MemoryAccess,
    permit: &dyn Permit,
) -> Result<ParityResult, NodeError> {
    let len = u64::from(command.window.len);
    for address in addresses {
        memory.check("sources", *address, len * command.count())?;
    }
    let mut partial = fold.start();
    let most = section_bytes(command.window.len as usize, addresses.len());
    let mut buffers = vec![vec![0; most]; addresses.len()];
    for (repetition, stripe) in command.stripes.clone().enumerate() {
        for start in (0..command.window.len).step_by(most) {
            if permit.must_yield() {
                buffers = Vec::new();
                permit.yield_turn();
                buffers.resize_with(addresses.len(), || vec![0; most]);
            }
            permit.check()?;
            let here = most.min((command.window.len - start) as usize);
            for (buffer, address) in buffers.iter_mut().zip(addresses) {
                let at = repetition as u64 * len + u64::from(start);
                memory.read(further(*address, at), &mut buffer[..here])?;
            }
            let slices: Vec<&[u8]> = buffers.iter().map(|buffer| &buffer[..here]).collect();
            fold.section(&mut partial, &Section { stripe, start, slices: &slices })?;
        }
    }
    let mut result = fold.finish(partial)?;
    let folded = len * command.count() * addresses.len() as u64;
    result.moved = Ledger { node_cpu: folded, ..Ledger::default() };
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_bounded_and_hold_whole_lines() {
        assert_eq!(section_bytes(512, 1), 512);
        for (window, sources) in [(32 << 20, 1), (32 << 20, 3), (32 << 20, 1920), (1 << 20, 24), (5000, 1920)]
        {
            let bytes = section_bytes(window, sources);
            assert!(bytes > 0 && bytes * sources <= SECTION, "{window} {sources}: {bytes}");
            assert!(bytes == window || bytes.is_multiple_of(GRAIN));
        }
    }
}
