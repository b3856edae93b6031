//! The end marker: a log that was closed, and need not be read.

use super::{Ahead, HEADER, Head, MARKER, Placed, Ring, RingError};
use crate::durable::Medium;

impl<M: Medium> Ring<M> {
    /// Opens a log that begins with an end marker with this note; `None` if it does not. Only this
    /// marker is read: the caller knows from elsewhere that nothing was appended after it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_ended(
        medium: M,
        (start, size): (u64, u64),
        align: u32,
        identity: u64,
        note: &[u8],
    ) -> Result<Option<Self>, RingError> {
        let mut ring = Self::new(medium, start, size, align, identity)?;
        ring.medium.sync()?;
        // Nothing beyond it is wanted.
        let mut ahead = Ahead { small_until: size, ..Ahead::default() };
        let Some(found) = ring.record_at(0, &mut ahead)? else { return Ok(None) };
        let Placed { sequence, len, is_marker, .. } = found.placed;
        if !is_marker || found.oldest != sequence || found.body != note || note.is_empty() {
            return Ok(None);
        }
        ring.live.push_back(found.placed);
        ring.next_sequence = sequence + 1;
        ring.synced = sequence;
        ring.write_at = len % size;
        Ok(Some(ring))
    }

    /// Writes the end marker, with a note for [`open_ended`](Self::open_ended). Durable when it
    /// returns. Returns false, and nothing has changed, if a record counts.
    ///
    /// # Errors
    /// If the medium fails.
    ///
    /// # Panics
    /// If the note is empty, or does not fit into an alignment with the head of a record.
    pub fn end(&mut self, note: &[u8]) -> Result<bool, RingError> {
        assert!(!note.is_empty() && HEADER + note.len() <= self.align as usize, "a note");
        if self.live.iter().any(|placed| !placed.is_marker) {
            return Ok(false);
        }
        // The first unit may be torn. The marker of an empty log must lie elsewhere.
        if self.live.back().is_some_and(|last| last.at < self.unit) {
            let oldest = self.next_sequence;
            let marker = self.place(MARKER, 0, Some(oldest)).ok_or(RingError::Full(0))?;
            self.put_marker(marker, &[])?;
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let previous = self.live.back().map_or(0, |last| last.sequence);
        self.put_marker(
            Head {
                placed: Placed { sequence, at: 0, len: self.align, is_marker: true },
                previous,
                oldest: sequence,
                synced: self.synced,
                kind: MARKER,
                body: note.len(),
            },
            note,
        )?;
        Ok(true)
    }

    /// Writes a marker that is to be all that counts, durably.
    fn put_marker(&mut self, marker: Head, note: &[u8]) -> Result<(), RingError> {
        self.write_marker(marker, note)?;
        self.live.drain(..self.live.len() - 1);
        Ok(())
    }

    /// Writes a marker, and makes it and all before it durable.
    pub(super) fn write_marker(&mut self, marker: Head, note: &[u8]) -> Result<(), RingError> {
        let placed = marker.placed;
        let mut run = self.run(0, marker);
        run.len = run.len.next_multiple_of(self.unit as usize);
        let mut bytes = vec![0; run.len];
        self.fill(&run, &mut bytes, |_, body| body.copy_from_slice(note));
        self.medium.write_at(run.at, &bytes)?;
        self.take(placed);
        self.end_run();
        self.sync()
    }
}
