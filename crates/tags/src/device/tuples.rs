//! Access to tags and tuples for others.

use super::{TaggedDevice, ZEROS_AT_ONCE};
use crate::carrier::Payload;
use crate::machine::{Outcome, Request};
use crate::page::{Judged, Origin, Tag};
use crate::record::Change;
use pumice_blockdev::{BlockDevice, IoError, Judgement, Operation, TagCounts, TagFormat, Tagged};
use pumice_protect::digest::crc32c;
use pumice_protect::tuple::Tuple;

impl TaggedDevice {
    /// The *written* tags with these tuples.
    fn tags_of(&self, tuples: &[u8]) -> Vec<Tag> {
        let format = self.geometry.format();
        let tuples = tuples.chunks_exact(format.tuple_bytes());
        tuples.map(|tuple| Tag::written(Tuple::decode(format, tuple))).collect()
    }
}

impl Tagged for TaggedDevice {
    fn format(&self) -> TagFormat {
        let guard = self.geometry.format().guard();
        TagFormat { guard, block_bytes: self.geometry.block_bytes() as u32 }
    }

    fn counts(&self) -> TagCounts {
        let (refused, served) = self.refused_and_served();
        TagCounts { refused, served, lost_pages: self.lost_pages(), stale: self.is_stale() }
    }

    fn read_judged(&self, offset: u64, buf: &mut [u8]) -> Result<Vec<Judged>, IoError> {
        let len = buf.len() as u64;
        let blocks = self.whole_blocks(Operation::Read, offset, len)?;
        let carried = self.carrier.carry(blocks, Request::Judge { sweeps: true }, Payload::Read(buf));
        self.judged(carried, offset, len as usize)
    }

    fn read_checked(&self, offset: u64, buf: &mut [u8]) -> Result<Judgement, IoError> {
        let len = buf.len();
        let blocks = self.whole_blocks(Operation::Read, offset, len as u64)?;
        let carried = self.carrier.carry(blocks, Request::Sweep, Payload::Read(buf));
        self.checked(carried, offset, len)
    }

    fn read_with_tuples(&self, offset: u64, data: &mut [u8], tuples: &mut [u8]) -> Result<(), IoError> {
        let len = data.len();
        let blocks = self.whole_blocks(Operation::Read, offset, len as u64)?;
        let format = *self.geometry.format();
        assert_eq!(
            tuples.len() as u64,
            (blocks.end - blocks.start) * format.tuple_bytes() as u64,
            "a tuple of each block"
        );
        if blocks.is_empty() {
            return Ok(());
        }
        let carried = self.carrier.carry(blocks, Request::ReadTags, Payload::ReadTags(data));
        let tags = match (carried.outcome, carried.error) {
            (Outcome::Tags(tags), _) => tags,
            (_, Some(error)) => return Err(error),
            _ => return Err(IoError::new(self.name(), Operation::Read, offset, len, self.tags_error())),
        };
        for (tag, tuple) in tags.iter().zip(tuples.chunks_exact_mut(format.tuple_bytes())) {
            match tag.origin {
                // An escape: no check is made against it.
                Origin::Unknown => tuple.fill(0xFF),
                _ => tuple.copy_from_slice(tag.tuple.encode(&format).as_slice()),
            }
        }
        Ok(())
    }

    fn write_with_tuples(&self, offset: u64, data: &[u8], tuples: &[u8]) -> Result<(), IoError> {
        let blocks = self.whole_blocks(Operation::Write, offset, data.len() as u64)?;
        let (block, tuple) = (self.geometry.block_bytes(), self.geometry.format().tuple_bytes());
        assert_eq!(data.len() / block * tuple, tuples.len(), "a tuple for each block");
        let most = self.geometry.max_record_blocks() as usize;
        let pieces = data.chunks(most * block).zip(tuples.chunks(most * tuple));
        for (first, (data, tuples)) in blocks.step_by(most).zip(pieces) {
            let piece = first..first + (data.len() / block) as u64;
            let change = Change::Tags {
                tags: self.tags_of(tuples),
                sums: data.chunks_exact(block).map(crc32c).collect(),
                data: self.geometry.carries_data().then(|| data.to_vec()),
            };
            self.carry_write(Operation::Write, piece, change, Payload::Write(data))?;
        }
        Ok(())
    }

    fn zero_with_tuples(&self, offset: u64, tuples: &[u8], frees_room: bool) -> Result<(), IoError> {
        let (block, tuple) = (self.geometry.block_bytes(), self.geometry.format().tuple_bytes());
        assert!(tuples.len().is_multiple_of(tuple), "whole tuples");
        let len = (tuples.len() / tuple * block) as u64;
        let blocks = self.whole_blocks(Operation::Zero, offset, len)?;
        let most = self.geometry.max_record_blocks() as usize;
        let sum = crc32c(&vec![0; block]);
        for (first, tuples) in blocks.step_by(most).zip(tuples.chunks(most * tuple)) {
            let count = tuples.len() / tuple;
            let change = Change::Tags {
                tags: self.tags_of(tuples),
                sums: vec![sum; count],
                data: self.geometry.carries_data().then(|| vec![0; count * block]),
            };
            let piece = first..first + count as u64;
            self.carry_write(Operation::Zero, piece, change, Payload::Zero { discard: frees_room })?;
        }
        Ok(())
    }

    fn vouch(&self, offset: u64, len: u64) -> Result<u64, IoError> {
        let blocks = self.whole_blocks(Operation::Write, offset, len)?;
        let mut count = 0;
        for first in blocks.clone().step_by(ZEROS_AT_ONCE as usize) {
            let piece = first..blocks.end.min(first + ZEROS_AT_ONCE);
            let carried = self.carrier.carry(piece, Request::Vouch, Payload::Zero { discard: false });
            match carried.outcome {
                Outcome::Vouched(some) => count += some,
                _ => {
                    let why = self.tags_error();
                    return Err(IoError::new(self.name(), Operation::Write, offset, len as usize, why));
                }
            }
        }
        Ok(count)
    }
}
