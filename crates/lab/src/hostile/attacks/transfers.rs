//! Data of writes: others than were asked for.

use super::{Attack, Attacker};
use crate::hostile::node::{DRIVES, GOOD};
use crate::hostile::wire::{Session, blocks};
use pumice_nvme::spec::opcode::io as opcode;
use std::io;

/// Bytes of a write whose data must be asked for.
const BYTES: usize = 64 << 10;

struct Transfers {
    _admin: Session,
    queue: Session,
}

pub(super) fn begin(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    let (admin, queue) = Session::pair(&attacker.target, &attacker.who, 32)?;
    Ok(Box::new(Transfers { _admin: admin, queue }))
}

impl Attack for Transfers {
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        let random = &mut attacker.random;
        let nsid = 1 + random.below(u64::from(DRIVES)) as u32;
        let first = GOOD / 512 + random.below(1024) * 128;
        let write = blocks(opcode::WRITE, nsid, first, (BYTES / 512) as u32);
        self.queue.submit(write, &[7; BYTES], 0)?;
        self.queue.send()?;
        // The data that the node asks for come into what is to be sent.
        while self.queue.out.is_empty() {
            self.queue.receive()?;
        }
        let out = &mut self.queue.out;
        // H2CData: cccid at 8, ttag at 10, offset at 12, length at 16, flags at 1.
        let (at, len) = random.pick(&[(8, 2), (10, 2), (12, 4), (16, 4), (1, 1), (4, 4)]);
        let bytes = match random.below(4) {
            0 => 0_u32,
            1 => u32::MAX,
            2 => random.next() as u32,
            _ => u32::from(out[at]) ^ 1 << random.below(8 * len as u64),
        };
        let was = out[at..at + len].to_vec();
        out[at..at + len].copy_from_slice(&bytes.to_le_bytes()[..len]);
        let is_bent = out[at..at + len] != was;
        if random.once_in(3) {
            // The same once more: past the end of what was asked for.
            let again = out.clone();
            out.extend_from_slice(&again);
        }
        self.queue.send()?;
        // A term request, most times; the rare good one is completed. A length that says too much
        // is waited for in vain.
        let done = self.queue.wait()?;
        if is_bent && done.status.is_success() {
            attacker.breach(format!("a write whose data had {len} other bytes at {at} of their header"));
        }
        Ok(())
    }
}
