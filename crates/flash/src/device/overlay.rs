//! A medium whose writes stay in memory: what it lies on is only read.

use pumice_base::durable::Medium;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Bytes that are kept as one.
const UNIT: u64 = 4096;

/// A medium over another one, which stays as it is.
#[derive(Debug)]
pub struct Overlay<M> {
    under: M,
    written: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl<M: Medium> Overlay<M> {
    /// Nothing is written yet.
    pub fn new(under: M) -> Self {
        Self { under, written: Mutex::default() }
    }

    /// The medium that it lies on.
    pub fn under(&self) -> &M {
        &self.under
    }
}

/// The units that a range touches: the place of each, and the parts of the unit and of the range
/// that meet.
fn units(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let end = offset + len as u64;
    (offset / UNIT..end.div_ceil(UNIT)).map(move |unit| {
        let start = offset.max(unit * UNIT);
        let stop = end.min((unit + 1) * UNIT);
        (unit, (start - unit * UNIT) as usize, (start - offset) as usize..(stop - offset) as usize)
    })
}

impl<M: Medium> Medium for Overlay<M> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |unit: u64| written.get(&unit);
        if units(offset, buf.len()).any(|(unit, ..)| known(unit).is_none()) {
            self.under.read_at(offset, buf)?;
        }
        for (unit, at, part) in units(offset, buf.len()) {
            if let Some(bytes) = known(unit) {
                let len = part.len();
                buf[part].copy_from_slice(&bytes[at..at + len]);
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for (unit, at, part) in units(offset, data.len()) {
            if part.len() < UNIT as usize && !written.contains_key(&unit) {
                let mut bytes = vec![0; UNIT as usize];
                self.under.read_at(unit * UNIT, &mut bytes)?;
                written.insert(unit, bytes);
            }
            let bytes = written.entry(unit).or_insert_with(|| vec![0; UNIT as usize]);
            bytes[at..at + part.len()].copy_from_slice(&data[part]);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_blockdev::{BlockDevice, DeviceMedium, MemoryDevice};
    use std::sync::Arc;

    #[test]
    fn writes_are_read_back_and_what_is_under_them_stays() {
        let content: Vec<u8> = (0..40_960_u32).map(|i| i as u8 ^ (i >> 8) as u8).collect();
        let device = Arc::new(MemoryDevice::with_content("m", content.clone()));
        let overlay = Overlay::new(DeviceMedium(Arc::clone(&device) as _));
        let mut model = content.clone();
        for (at, len) in [(4096, 4096), (100, 10), (8000, 9000), (40_000, 960), (12_288, 1), (4090, 20)] {
            let data = vec![(at % 251) as u8 + 1; len];
            overlay.write_at(at as u64, &data).unwrap();
            model[at..at + len].copy_from_slice(&data);
            for (at, len) in [(0, 40_960), (at.saturating_sub(7), 30), (4096, 4096)] {
                let mut back = vec![0; len];
                overlay.read_at(at as u64, &mut back).unwrap();
                assert_eq!(back, model[at..at + len]);
            }
        }
        let mut under = vec![0; content.len()];
        device.read_at(0, &mut under).unwrap();
        assert_eq!(under, content);
    }
}
