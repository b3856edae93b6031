//! The tags of parity that follow from those of the data.
//!
//! If a check finds nothing in a stripe, its XOR parity is the sum of the data. A guard is linear,
//! so the guards of that parity follow from the guards of the data, which were computed anyway, and
//! only have to be compared with its tags. If the check finds something, the parity is read and
//! checked like every other source.

use super::{MediaJob, Share};
use crate::engine::Section;
use crate::engine::shape::Unit;
use pumice_base::buffer::AlignedBuffer;
use pumice_blockdev::{Gathered, Sum, read_judged};

impl MediaJob<'_> {
    /// The source that is the XOR of others if the fold finds nothing in a unit, which must be of
    /// one stripe.
    pub(super) fn sum(&self, unit: &Unit) -> Option<Sum> {
        let mut parts = self.shape.parts(unit);
        let part = parts.next().filter(|_| self.folding && parts.next().is_none())?;
        self.fold.sum(part.stripe).map(|(part, without)| Sum { part, without })
    }

    /// Returns whether a unit is done: the source whose tags were checked as those of a sum is one,
    /// and there is nothing to be found.
    pub(super) fn is_sum(&self, share: &mut Share, unit: &Unit, done: &mut Gathered) -> bool {
        let Some((index, judgement)) = done.if_sum.take() else { return false };
        let is_sum = done.failures.is_empty() && self.is_clean(unit, &done.buffer);
        if is_sum {
            self.heard(&self.shape, share, unit, (index, 0), &judgement);
        } else {
            self.read_again(share, unit, done, index);
        }
        is_sum
    }

    /// Returns whether there is nothing to be found in a unit of one stripe.
    fn is_clean(&self, unit: &Unit, buffer: &AlignedBuffer) -> bool {
        let (pitch, len) = (self.shape.pitch(), unit.len());
        let slices: Vec<&[u8]> = (0..self.sources.len()).map(|i| &buffer[i * pitch..][..len]).collect();
        self.shape.parts(unit).all(|part| {
            self.fold.is_clean(&Section { stripe: part.stripe, start: part.start, slices: &slices })
        })
    }

    /// Reads a source's part of a unit again and checks its tags, because it is not the sum by
    /// which they were checked.
    fn read_again(&self, share: &mut Share, unit: &Unit, done: &mut Gathered, index: usize) {
        let part = done.parts[index];
        let bytes = &mut done.buffer[part.at..part.at + part.len];
        share.read += part.len as u64;
        match read_judged(&*self.devices[part.device], part.offset, bytes) {
            Ok(Some(judgement)) => self.heard(&self.shape, share, unit, (index, 0), &judgement),
            Ok(None) => {}
            Err(error) => done.failures.push((index, error)),
        }
    }
}
