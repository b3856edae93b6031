//! Negotiate: what a host offers.

use super::Malformed;
use super::bytes::{Reader, begin};
use crate::auth::group::Group;
use crate::auth::hash::Hash;

/// The protocol number of DH-HMAC-CHAP.
const DH_HMAC_CHAP: u8 = 1;
/// Places for numbers in each list of a descriptor.
const PLACES: usize = 30;

/// The first message of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiate {
    /// Secure channel concatenation: 0 for none.
    pub concatenation: u8,
    /// Offer of DH-HMAC-CHAP, if there is one.
    pub offer: Option<Offer>,
}

/// Hashes and groups, in the host's order, at most 30 of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The hashes that are known here.
    pub hashes: Vec<Hash>,
    /// The groups that are known here.
    pub groups: Vec<Group>,
}

impl Negotiate {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let concatenation = reader.u8("sc_c")?;
        let descriptors = reader.u8("napd")?;
        let mut offer = None;
        for _ in 0..descriptors {
            let protocol = reader.u8("descriptor")?;
            reader.skip(1)?;
            let hashes = usize::from(reader.u8("halen")?);
            let groups = usize::from(reader.u8("dhlen")?);
            let hash_ids = reader.take(PLACES, "hashes")?;
            let group_ids = reader.take(PLACES, "groups")?;
            if protocol == DH_HMAC_CHAP && offer.is_none() {
                let hash_ids = hash_ids.get(..hashes).ok_or(Malformed::Field("halen"))?;
                let group_ids = group_ids.get(..groups).ok_or(Malformed::Field("dhlen"))?;
                offer = Some(Offer {
                    hashes: hash_ids.iter().filter_map(|id| Hash::from_id(*id)).collect(),
                    groups: group_ids.iter().filter_map(|id| Group::from_id(*id)).collect(),
                });
            }
        }
        Ok(Self { concatenation, offer })
    }

    /// The bytes, with one descriptor or none. Of each list at most 30 entries are written.
    #[must_use]
    pub fn encode(&self, transaction: u16) -> Vec<u8> {
        let mut out = begin((0x00, 0x00), transaction, 72);
        out.extend([self.concatenation, u8::from(self.offer.is_some())]);
        if let Some(offer) = &self.offer {
            let hashes: Vec<u8> = offer.hashes.iter().map(|hash| hash.id()).take(PLACES).collect();
            let groups: Vec<u8> = offer.groups.iter().map(|group| group.id()).take(PLACES).collect();
            out.extend([DH_HMAC_CHAP, 0, hashes.len() as u8, groups.len() as u8]);
            for list in [hashes, groups] {
                let mut places = [0; PLACES];
                places[..list.len()].copy_from_slice(&list);
                out.extend(places);
            }
        }
        out
    }
}
