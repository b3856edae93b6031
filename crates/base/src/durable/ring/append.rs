//! Appending in one step, for tests: places, bytes and writes as programs make them.

use super::{Prepared, Ring, RingError};
use crate::durable::Medium;

impl<M: Medium> Ring<M> {
    /// Appends a record and returns its number. It is durable after the next [`sync`](Self::sync).
    ///
    /// # Errors
    /// [`RingError::Full`] if there is no room, or the medium fails. Then nothing more may be
    /// appended.
    pub(super) fn append(&mut self, body: &[u8]) -> Result<u64, RingError> {
        match self.append_all(&[body])?[..] {
            [number] => Ok(number),
            _ => Err(RingError::Full(body.len())),
        }
    }

    /// Appends records in their order, as many as there is room for, and returns the numbers of
    /// these. All are durable after the next [`sync`](Self::sync), and before it any of them may
    /// be.
    ///
    /// # Errors
    /// If the medium fails. Then nothing more may be appended.
    pub(super) fn append_all(&mut self, bodies: &[impl AsRef<[u8]>]) -> Result<Vec<u64>, RingError> {
        let Prepared { numbers, runs } = self.prepare(bodies.iter().map(|body| body.as_ref().len()));
        for run in &runs {
            let mut bytes = vec![0; run.len];
            self.fill(run, &mut bytes, |at, into| into.copy_from_slice(bodies[at].as_ref()));
            self.medium.write_at(run.at, &bytes)?;
        }
        Ok(numbers)
    }
}
