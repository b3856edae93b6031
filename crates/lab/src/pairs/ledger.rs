//! A client's knowledge of its blocks: the version of each that must be there, and those that may.

use crate::pairs::random::Random;

/// Bytes of a block: what is written, stamped and compared as one.
pub(crate) const BLOCK: usize = 4096;

/// The versions of a block. Version 0 is zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Known {
    /// The last that a Flush, or a write with FUA, has made durable.
    durable: u64,
    /// The oldest that a read may return.
    least: u64,
    /// The last that was sent.
    sent: u64,
}

/// The blocks of a client, all of which only it writes.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The first of them on the volume.
    pub(crate) first: u64,
    blocks: Vec<Known>,
    version: u64,
}

/// The content of a block: its stamp, and what follows from it.
pub(crate) fn content(block: u64, version: u64) -> Vec<u8> {
    if version == 0 {
        return vec![0; BLOCK];
    }
    let mut random = Random::new(block << 40 ^ version);
    let mut out = Vec::with_capacity(BLOCK);
    out.extend_from_slice(&block.to_le_bytes());
    out.extend_from_slice(&version.to_le_bytes());
    while out.len() < BLOCK {
        out.extend_from_slice(&random.next().to_le_bytes());
    }
    out
}

/// The version in a block's stamp.
fn stamp(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[8 + i]))
}

impl Ledger {
    pub(crate) fn new(first: u64, count: usize) -> Self {
        Self { first, blocks: vec![Known::default(); count], version: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The bytes of the next version of some blocks, which counts as sent.
    pub(crate) fn write(&mut self, start: usize, count: usize) -> Vec<u8> {
        self.version += 1;
        let version = self.version;
        self.blocks[start..start + count].iter_mut().for_each(|known| known.sent = version);
        (start..start + count).flat_map(|block| content(self.first + block as u64, version)).collect()
    }

    /// Some blocks were written as they were sent last; for good if `durable`.
    pub(crate) fn acknowledged(&mut self, start: usize, count: usize, durable: bool) {
        for known in &mut self.blocks[start..start + count] {
            known.least = known.sent;
            if durable {
                known.durable = known.sent;
            }
        }
    }

    /// A Flush succeeded.
    pub(crate) fn flushed(&mut self) {
        self.blocks.iter_mut().for_each(|known| known.durable = known.least);
    }

    /// Allows that unflushed writes are lost: the process that served was killed, or a Flush has
    /// failed.
    pub(crate) fn unsure(&mut self) {
        self.blocks.iter_mut().for_each(|known| known.least = known.durable);
    }

    /// Compares blocks that were read. From now on each stays what it is.
    ///
    /// # Errors
    /// What is wrong with the first of them that is wrong.
    pub(crate) fn compare(&mut self, start: usize, bytes: &[u8]) -> Result<(), String> {
        for (i, bytes) in bytes.chunks(BLOCK).enumerate() {
            let (block, known) = (self.first + (start + i) as u64, &mut self.blocks[start + i]);
            let is = stamp(bytes);
            if bytes != content(block, is) {
                return Err(format!("block {block} is torn or of another: stamp {is}, {known:?}"));
            }
            if is < known.least {
                return Err(format!("block {block} is older than acknowledged: {is}, {known:?}"));
            }
            if is > known.sent {
                return Err(format!("block {block} was never sent so: {is}, {known:?}"));
            }
            known.least = is;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_torn_or_rewound_is_seen() {
        let mut ledger = Ledger::new(100, 4);
        let one = ledger.write(0, 4);
        assert!(ledger.compare(0, &vec![0; 4 * BLOCK]).is_ok(), "it had no answer");
        ledger.acknowledged(0, 4, false);
        assert!(ledger.compare(0, &vec![0; BLOCK]).is_err(), "lost");
        assert!(ledger.compare(0, &one).is_ok());
        assert!(ledger.compare(1, &one[..BLOCK]).is_err(), "of another block");
        ledger.flushed();
        let two = ledger.write(0, 1);
        ledger.acknowledged(0, 1, false);
        assert!(ledger.compare(0, &one[..BLOCK]).is_err(), "rewound");
        ledger.unsure();
        assert!(ledger.compare(0, &one[..BLOCK]).is_ok(), "it was not flushed");
        assert!(ledger.compare(0, &vec![0; BLOCK]).is_err(), "what was before was flushed");
        let mut torn = two;
        torn[2048..].copy_from_slice(&one[2048..BLOCK]);
        assert!(ledger.compare(0, &torn).is_err(), "torn");
        let future = content(100, 9);
        assert!(ledger.compare(0, &future).is_err(), "never sent");
    }
}
