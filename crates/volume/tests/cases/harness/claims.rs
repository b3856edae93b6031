//! Claims of stripes: what lies on the members when one is granted, and that it stays.

use super::{DATA, World};
use pumice_base::units::{Role, StripeIndex};
use pumice_parity::gf;
use pumice_volume::rows::BLOCK;
use pumice_volume::{ClaimId, Event, RequestError};
use std::collections::BTreeMap;
use std::ops::Range;

struct Granted {
    stripes: Range<u64>,
    /// The bytes that lay there on the members that had them.
    content: BTreeMap<Role, Vec<u8>>,
}

#[derive(Default)]
pub(crate) struct Claims {
    next: u64,
    waiting: BTreeMap<ClaimId, Range<u64>>,
    granted: BTreeMap<ClaimId, Granted>,
    pub(crate) refused: Vec<RequestError>,
    /// Grants with every member, and with fewer.
    pub(crate) whole: u64,
    pub(crate) partial: u64,
    /// Claims that found or saw what they must not.
    pub(crate) wrong: u64,
}

impl World {
    pub(crate) fn claim(&mut self, stripes: Range<u64>, alone: bool) -> ClaimId {
        let id = ClaimId(self.claims.next);
        self.claims.next += 1;
        self.claims.waiting.insert(id, stripes.clone());
        self.event(Event::Claim { id, stripes, alone });
        id
    }

    pub(crate) fn is_granted(&self, id: ClaimId) -> bool {
        self.claims.granted.contains_key(&id)
    }

    pub(super) fn claimed(&mut self, id: ClaimId, result: Result<Vec<Role>, RequestError>) {
        let stripes = self.claims.waiting.remove(&id).expect("nothing is granted twice");
        let roles = match result {
            Ok(roles) => roles,
            Err(why) => return self.claims.refused.push(why),
        };
        if roles.len() == self.disks.len() {
            self.claims.whole += 1;
            let rows = self.geometry.chunk_bytes() / BLOCK;
            self.claims.wrong += u64::from(!self.torn(stripes.start * rows..stripes.end * rows).is_empty());
        } else {
            self.claims.partial += 1;
        }
        let content = roles.iter().map(|role| (*role, self.content(*role, &stripes))).collect();
        self.claims.granted.insert(id, Granted { stripes, content });
    }

    fn content(&self, role: Role, stripes: &Range<u64>) -> Vec<u8> {
        let chunk = self.geometry.chunk_bytes();
        let len = (stripes.end - stripes.start) * chunk;
        self.disks[role.index()].read(DATA + stripes.start * chunk, len as usize).to_vec()
    }

    /// Gives the oldest claim back that was granted.
    pub(crate) fn give_back(&mut self) {
        let Some((id, granted)) = self.claims.granted.pop_first() else { return };
        let same = |(role, then): (&Role, &Vec<u8>)| self.content(*role, &granted.stripes) == *then;
        self.claims.wrong += u64::from(!granted.content.iter().all(same));
        self.event(Event::Unclaim(id));
    }

    /// Rows whose equations do not hold on the members that are here, by block of the members' data
    /// areas.
    pub(crate) fn torn_rows(&self) -> Vec<u64> {
        self.torn(0..self.windows.count * self.windows.rows)
    }

    fn torn(&self, blocks: Range<u64>) -> Vec<u64> {
        let mut torn = Vec::new();
        let rows_per_chunk = self.geometry.chunk_bytes() / BLOCK;
        for block in blocks {
            let stripe = StripeIndex(block / rows_per_chunk);
            let holds = self.geometry.check_rows(stripe).iter().all(|row| {
                let mut sum = vec![0; BLOCK as usize];
                for (disk, c) in self.disks.iter().zip(row) {
                    gf::add_scaled(&mut sum, disk.read(DATA + block * BLOCK, BLOCK as usize), *c);
                }
                sum.iter().all(|byte| *byte == 0)
            });
            if !holds {
                torn.push(block);
            }
        }
        torn
    }
}
