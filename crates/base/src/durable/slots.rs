//! A small record that is replaced in place: of its two slots, one always holds a complete record.

use crate::durable::Medium;
use std::io::{self, ErrorKind};

const MAGIC: [u8; 8] = *b"PUMSLOT1";
const HEADER: usize = 28;
const CRC_AT: usize = 24;

/// The place of a two-slot record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// Start of the first slot, in bytes. The second follows it.
    pub offset: u64,
    /// Bytes of a slot: more than 28, and a multiple of the medium's block, so that writing one
    /// slot cannot harm the other.
    pub slot_bytes: u32,
    /// The version of the body.
    pub version: u32,
}

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRecord {
    /// Its number, from 1.
    pub sequence: u64,
    /// The caller's bytes.
    pub body: Vec<u8>,
}

impl Slots {
    /// The bytes of both slots with a first record; a new file begins with them.
    ///
    /// # Errors
    /// If the body does not fit into a slot (kind `InvalidInput`).
    pub fn first(&self, body: &[u8]) -> io::Result<Vec<u8>> {
        let record = self.encode(1, body)?;
        let mut both = vec![0; self.slot_bytes as usize];
        both.extend_from_slice(&record);
        Ok(both)
    }

    /// The newest whole record of this version; `None` if there is none.
    ///
    /// # Errors
    /// If the medium cannot be read.
    pub fn load(&self, medium: &dyn Medium) -> io::Result<Option<SlotRecord>> {
        let mut newest: Option<SlotRecord> = None;
        for slot in 0..2 {
            let mut bytes = vec![0; self.slot_bytes as usize];
            medium.read_at(self.place(slot), &mut bytes)?;
            let record = self.decode(&bytes).filter(|record| record.sequence % 2 == slot);
            if let Some(record) = record
                && newest.as_ref().is_none_or(|other| other.sequence < record.sequence)
            {
                newest = Some(record);
            }
        }
        Ok(newest)
    }

    /// Replaces the record: after a crash, either the previous record or this one is valid. Returns
    /// its number.
    ///
    /// # Errors
    /// If the body does not fit into a slot, or the medium fails; then it is one or the other.
    pub fn store(&self, medium: &dyn Medium, body: &[u8]) -> io::Result<u64> {
        let sequence = self.load(medium)?.map_or(1, |record| record.sequence + 1);
        medium.write_at(self.place(sequence % 2), &self.encode(sequence, body)?)?;
        medium.sync()?;
        Ok(sequence)
    }

    fn place(&self, slot: u64) -> u64 {
        self.offset + slot * u64::from(self.slot_bytes)
    }

    fn encode(&self, sequence: u64, body: &[u8]) -> io::Result<Vec<u8>> {
        if HEADER + body.len() > self.slot_bytes as usize {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the record does not fit into its slot"));
        }
        let mut slot = Vec::with_capacity(self.slot_bytes as usize);
        slot.extend_from_slice(&MAGIC);
        slot.extend_from_slice(&sequence.to_le_bytes());
        slot.extend_from_slice(&self.version.to_le_bytes());
        slot.extend_from_slice(&(body.len() as u32).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&slot), body);
        slot.extend_from_slice(&crc.to_le_bytes());
        slot.extend_from_slice(body);
        slot.resize(self.slot_bytes as usize, 0);
        Ok(slot)
    }

    fn decode(&self, slot: &[u8]) -> Option<SlotRecord> {
        let dword = |at: usize| Some(u32::from_le_bytes(slot.get(at..at + 4)?.try_into().ok()?));
        if slot.get(..8)? != MAGIC || dword(16)? != self.version {
            return None;
        }
        let body = slot.get(HEADER..HEADER.checked_add(dword(20)? as usize)?)?;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&slot[..CRC_AT]), body);
        let sequence = u64::from_le_bytes(slot[8..16].try_into().ok()?);
        (dword(CRC_AT)? == crc && sequence > 0).then(|| SlotRecord { sequence, body: body.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::{FaultyStore, Store, StoreFile};

    const SLOTS: Slots = Slots { offset: 512, slot_bytes: 1024, version: 3 };

    #[test]
    fn after_a_cut_at_any_operation_the_record_is_the_old_one_or_the_new() {
        let mut seen = [0; 2];
        for seed in 0..200_u64 {
            let store = FaultyStore::new(seed);
            let mut file = vec![0; 512];
            file.extend(SLOTS.first(b"first").unwrap());
            store.create("r", &file).unwrap();
            store.sync("r").unwrap();
            store.sync_folder().unwrap();
            let record = StoreFile { store: &store, name: "r" };
            // Longer than a sector: it can be torn.
            let bodies: Vec<Vec<u8>> = (0..8).map(|i| vec![i; 900]).collect();
            let mut durable = b"first".to_vec();
            store.cut_power_after(seed % 40);
            let mut tried = durable.clone();
            for body in &bodies {
                tried.clone_from(body);
                if SLOTS.store(&record, body).is_err() {
                    break;
                }
                durable.clone_from(body);
            }
            store.crash();
            let found = SLOTS.load(&record).unwrap().unwrap().body;
            assert!(found == durable || found == tried, "seed {seed}");
            seen[usize::from(found == durable)] += 1;
            // And it can be replaced again.
            SLOTS.store(&record, b"after").unwrap();
            assert_eq!(SLOTS.load(&record).unwrap().unwrap().body, b"after");
        }
        assert!(seen.iter().all(|n| *n > 5), "{seen:?}");
    }

    #[test]
    fn a_damaged_slot_leaves_the_other_and_other_versions_are_no_records() {
        let store = FaultyStore::new(1);
        store.create("r", &[0; 2560]).unwrap();
        let record = StoreFile { store: &store, name: "r" };
        assert_eq!(SLOTS.load(&record).unwrap(), None);
        assert_eq!(SLOTS.store(&record, b"one").unwrap(), 1);
        assert_eq!(SLOTS.store(&record, b"two").unwrap(), 2);
        let whole = store.read("r", 4096).unwrap().unwrap();
        // The second record lies in the first slot.
        for bit in 0..(HEADER + 3) * 8 {
            let mut byte = [0];
            store.read_at("r", 512 + bit as u64 / 8, &mut byte).unwrap();
            store.write_at("r", 512 + bit as u64 / 8, &[byte[0] ^ (1 << (bit % 8))]).unwrap();
            assert_eq!(SLOTS.load(&record).unwrap().unwrap().body, b"one", "bit {bit}");
            store.write_at("r", 0, &whole).unwrap();
        }
        assert_eq!(Slots { version: 4, ..SLOTS }.load(&record).unwrap(), None);
        assert!(SLOTS.store(&record, &[0; 1000]).is_err(), "it does not fit");
    }
}
