//! Records that are found in the bytes of a log.

use super::head::{Head, MOST};
use crate::rows::BLOCK;

pub use pumice_offload::record::{Kind, Record};

/// A record that was found whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedBlocks {
    /// The record.
    pub record: Record,
    /// The place of its first block, from the start of the device.
    pub blocks_at: u64,
}

/// Every whole record that a head vouches for in the bytes of its region.
#[must_use]
pub fn scan(log: &[u8], head: &Head) -> Vec<LoggedBlocks> {
    let places = (0..log.len() as u64).step_by(BLOCK as usize);
    places
        .filter_map(|position| {
            let record = Record::decode(log, position, head.nonce, head.sums)?;
            let ours = record.role == head.role && record.generation == head.generation;
            let counted = [record.sequence, record.committed, record.released].iter().all(|n| *n <= MOST);
            (ours && counted)
                .then_some(LoggedBlocks { record, blocks_at: head.region.start + position + BLOCK })
        })
        .collect()
}

#[cfg(test)]
mod tests;
