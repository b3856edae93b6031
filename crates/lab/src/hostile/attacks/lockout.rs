//! Means of keeping others out: all the places there are, the hold, a pace that lets nothing
//! through.

use super::newcomer::Newcomer;
use super::{Attack, Attacker};
use crate::hostile::wire::{Session, Who, vendor};
use pumice_nvme::pdu::Digests;
use pumice_offload::PaceRequest;
use pumice_offload::wire::{NODE_HOST_ID, encode_pace, opcode};
use std::io;

/// Associations that an attacker wants: two of them want more than there are.
const WANTED: u16 = 60;
/// I/O queues of each of them.
const QUEUES: u16 = 4;

struct Lockout {
    held: Vec<Session>,
    /// Associations that were asked for.
    number: u16,
    queue: Session,
    newcomer: Newcomer,
}

/// Takes the pace that is the slowest there is: a rate, and a time of day that is over.
pub(super) fn begin(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    let (admin, mut queue) = Session::pair(&attacker.target, &attacker.who, 32)?;
    let slowest = PaceRequest { rate: Some(4096), windows: vec![(0, 1)], ..PaceRequest::default() };
    let bytes = encode_pace(&slowest);
    queue.run(vendor(opcode::PACE, 0, 0, bytes.len()), &bytes, 0)?;
    Ok(Box::new(Lockout { held: vec![admin], number: 0, queue, newcomer: Newcomer::new() }))
}

impl Attack for Lockout {
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        if self.number < WANTED {
            self.number += 1;
            let mut who = Who::new(2000 + attacker.number * WANTED + self.number);
            if attacker.number % 2 == 1 && self.number % 2 == 1 {
                // Nodes have places of their own.
                who.id = NODE_HOST_ID;
            }
            // Without a keep alive timeout; refused once there are too many from this address.
            if let Ok((admin, cntlid)) = Session::associate(&attacker.target, &who) {
                self.held.push(admin);
                for qid in 1..=QUEUES {
                    let which = (cntlid, qid, 32);
                    let (queue, _) = Session::connect(&attacker.target, &who, which, Digests::default())?;
                    self.held.push(queue);
                }
            }
        }
        let hold = self.queue.run(vendor(opcode::HOLD, 0, 1, 0), &[], 0)?;
        if hold.status.is_success() {
            attacker.breach("the hold on a node that others use".to_owned());
        }
        self.newcomer.look(attacker);
        Ok(())
    }
}
