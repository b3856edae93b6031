//! Faults of a stripe.

use crate::world::{World, noise};
use pumice_base::units::StripeIndex;
use pumice_blockdev::BlockDevice;
use pumice_parity::gf;
use std::collections::BTreeSet;

/// Bytes of a sector of the test devices.
pub(crate) const SECTOR: u64 = 512;

/// Change of the bytes of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Every byte becomes another, at random.
    Noise,
    /// The same bits are flipped in every byte.
    Flip(u8),
    /// Overwritten by one value.
    Fill(u8),
    /// Overwritten by a pattern of this many bytes.
    Period(u8),
    /// Overwritten by the bytes of another member at the same place.
    CopyOf(u16),
}

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Bytes of one member change, and read well.
    Silent { role: u16, at: u64, len: u64, how: How },
    /// Two members exchange their bytes.
    Exchange { a: u16, b: u16, at: u64, len: u64 },
    /// Sectors that are refused until they are written.
    Lost { role: u16, sector: u64, sectors: u64 },
    /// Sectors that are refused for so many reads.
    Transient { role: u16, sector: u64, sectors: u64, reads: u32 },
    /// A data block was damaged, then overwritten by read-modify-write: its data is good, P and Q
    /// are not.
    Overwritten { slot: u16, at: u64, len: u64 },
    /// A read-modify-write of which not every part arrived: bit 0 data, bit 1 P, bit 2 Q.
    Torn { slot: u16, at: u64, len: u64, arrived: u8 },
}

/// Faults planted in a stripe, and their effects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Planted {
    pub(crate) faults: Vec<Fault>,
    /// Sectors refused for good: role, and number from the start of the chunk.
    pub(crate) lost: BTreeSet<(u16, u64)>,
    /// The stripe with all of a torn write: as right as the one without it.
    pub(crate) torn: Option<Vec<Vec<u8>>>,
    pub(crate) overwritten: bool,
}

impl World {
    pub(crate) fn chunk(&self) -> u64 {
        self.geometry.chunk_bytes()
    }

    pub(crate) fn stripe_bytes(&self, stripe: u64) -> Vec<Vec<u8>> {
        let place = self.place(stripe, 0);
        self.devices.iter().map(|device| device.peek(place, self.chunk() as usize)).collect()
    }

    fn get(&self, role: u16, stripe: u64, at: u64, len: u64) -> Vec<u8> {
        self.devices[usize::from(role)].peek(self.place(stripe, at), len as usize)
    }

    pub(crate) fn put(&self, role: u16, stripe: u64, at: u64, bytes: &[u8]) {
        let device = &self.devices[usize::from(role)];
        device.write_at(self.place(stripe, at), bytes).unwrap();
        device.flush().unwrap();
    }

    fn xor(&self, role: u16, stripe: u64, at: u64, error: &[u8]) {
        let mut bytes = self.get(role, stripe, at, error.len() as u64);
        gf::add_scaled(&mut bytes, error, 1);
        self.put(role, stripe, at, &bytes);
    }

    /// Plants faults in a stripe: first all that changes bytes, then all that refuses them.
    pub(crate) fn plant(&self, stripe: u64, faults: &[Fault], seed: u64) -> Planted {
        let mut out = Planted { faults: faults.to_vec(), ..Planted::default() };
        let mut next = noise(seed);
        for fault in faults {
            match *fault {
                Fault::Silent { role, at, len, how } => {
                    let mut bytes = self.get(role, stripe, at, len);
                    match how {
                        How::Noise => {
                            bytes.iter_mut().for_each(|byte| *byte ^= (next() % 255 + 1) as u8);
                        }
                        How::Flip(bits) => bytes.iter_mut().for_each(|byte| *byte ^= bits),
                        How::Fill(value) => bytes.fill(value),
                        How::Period(period) => {
                            let pattern: Vec<u8> = (0..period).map(|_| next() as u8).collect();
                            for (i, byte) in bytes.iter_mut().enumerate() {
                                *byte = pattern[i % pattern.len()];
                            }
                        }
                        How::CopyOf(other) => bytes = self.get(other, stripe, at, len),
                    }
                    self.put(role, stripe, at, &bytes);
                }
                Fault::Exchange { a, b, at, len } => {
                    let (x, y) = (self.get(a, stripe, at, len), self.get(b, stripe, at, len));
                    self.put(a, stripe, at, &y);
                    self.put(b, stripe, at, &x);
                }
                Fault::Overwritten { slot, at, len } => {
                    out.overwritten = true;
                    let error: Vec<u8> = (0..len).map(|_| (next() % 255 + 1) as u8).collect();
                    self.update(stripe, slot, at, &error, 0b110);
                }
                Fault::Torn { slot, at, len, arrived } => {
                    let error: Vec<u8> = (0..len).map(|_| (next() % 255 + 1) as u8).collect();
                    self.update(stripe, slot, at, &error, 0b111);
                    out.torn = Some(self.stripe_bytes(stripe));
                    // Takes the parts back that did not arrive.
                    self.update(stripe, slot, at, &error, 0b111 ^ arrived);
                }
                Fault::Lost { .. } | Fault::Transient { .. } => {}
            }
        }
        for fault in faults {
            match *fault {
                Fault::Lost { role, sector, sectors } => {
                    let place = self.place(stripe, sector * SECTOR);
                    self.devices[usize::from(role)].lose(place..place + sectors * SECTOR);
                    out.lost.extend((sector..sector + sectors).map(|sector| (role, sector)));
                }
                Fault::Transient { role, sector, sectors, reads } => {
                    let place = self.place(stripe, sector * SECTOR);
                    self.devices[usize::from(role)].lose_for(place..place + sectors * SECTOR, reads);
                }
                _ => {}
            }
        }
        out
    }

    /// XORs an error into a data slot (bit 0 of `parts`), and what follows from it into P (bit 1)
    /// and Q (bit 2).
    fn update(&self, stripe: u64, slot: u16, at: u64, error: &[u8], parts: u8) {
        let map = self.geometry.stripe(StripeIndex(stripe));
        let slot = usize::from(slot) % map.data.len();
        if parts & 1 != 0 {
            self.xor(map.data[slot].0, stripe, at, error);
        }
        if parts & 2 != 0 {
            self.xor(map.p.0, stripe, at, error);
        }
        if let Some(q) = map.q.filter(|_| parts & 4 != 0) {
            let mut scaled = vec![0; error.len()];
            gf::add_scaled(&mut scaled, error, gf::exp(usize::from(map.exponents[slot])));
            self.xor(q.0, stripe, at, &scaled);
        }
    }
}
