//! Appending at once, for those who have the bytes and wait.

use super::{Prepared, Ring, RingError};
use crate::Medium;

impl<M: Medium> Ring<M> {
    /// Appends a record and returns its number. It is durable after the next [`sync`](Self::sync).
    ///
    /// # Errors
    /// [`RingError::Full`] if there is no room, or the medium fails; then it is not there.
    pub fn append(&mut self, body: &[u8]) -> Result<u64, RingError> {
        match self.append_all([body])?[..] {
            [number] => Ok(number),
            _ => Err(RingError::Full(body.len())),
        }
    }

    /// Appends records in their order, as many as there is room for, and returns the numbers of
    /// these. Records that lie side by side are written at once; all are durable after the next
    /// [`sync`](Self::sync), and before it any of them may be.
    ///
    /// # Errors
    /// If the medium fails; then none of them is there.
    pub fn append_all<B: AsRef<[u8]>>(
        &mut self,
        bodies: impl IntoIterator<Item = B>,
    ) -> Result<Vec<u64>, RingError> {
        let bodies: Vec<B> = bodies.into_iter().collect();
        let (live, write_at) = (self.live.len(), self.write_at);
        let Prepared { numbers, runs } = self.prepare(bodies.iter().map(|body| body.as_ref().len()));
        for run in &runs {
            let mut bytes = vec![0; run.len];
            self.fill(run, &mut bytes, |at, into| into.copy_from_slice(bodies[at].as_ref()));
            if let Err(error) = self.medium.write_at(run.at, &bytes) {
                self.live.truncate(live);
                self.write_at = write_at;
                return Err(error.into());
            }
        }
        Ok(numbers)
    }
}
