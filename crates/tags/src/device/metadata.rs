//! Access to tags and metadata for others.

use super::TaggedDevice;
use crate::carrier::Payload;
use crate::machine::{Outcome, Request};
use crate::page::Judged;
use crate::record::{Change, MAX_ZEROS, apart};
use crate::view::View;
use pumice_blockdev::{BlockDevice, IoError, Judgement, Operation, Reader, TagCounts, TagFormat, Tagged};
use pumice_protect::origin::RestoredTag;
use std::sync::Arc;

impl Tagged for TaggedDevice {
    fn format(&self) -> TagFormat {
        let metadata = self.geometry.format().metadata();
        TagFormat { metadata, block_bytes: self.geometry.block_bytes() as u32 }
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

    fn read_checked(&self, offset: u64, buf: &mut [u8], reader: &mut Reader) -> Result<Judgement, IoError> {
        let len = buf.len();
        let blocks = self.whole_blocks(Operation::Read, offset, len as u64)?;
        self.checked(self.carrier.sweep(blocks, buf, reader.state()), offset, len)
    }

    fn guards<'r>(&self, offset: u64, len: usize, reader: &'r mut Reader) -> Option<&'r [u64]> {
        let blocks = self.whole_blocks(Operation::Read, offset, len as u64).ok()?;
        reader.state::<View>().guards(self.carrier.number(), &blocks)
    }

    fn read_expecting(
        &self,
        offset: u64,
        buf: &mut [u8],
        guards: &[u64],
        reader: &mut Reader,
    ) -> Result<Option<Judgement>, IoError> {
        let blocks = self.whole_blocks(Operation::Read, offset, buf.len() as u64)?;
        if guards.len() as u64 != blocks.end - blocks.start || guards.is_empty() {
            return Ok(None);
        }
        self.carrier.read_expecting(&blocks, buf, guards, reader.state())
    }

    fn read_with_metadata(&self, offset: u64, data: &mut [u8], metadata: &mut [u8]) -> Result<(), IoError> {
        let len = data.len();
        let blocks = self.whole_blocks(Operation::Read, offset, len as u64)?;
        let each = self.geometry.format().metadata_bytes() as u64;
        assert_eq!(metadata.len() as u64, (blocks.end - blocks.start) * each, "metadata of each block");
        if blocks.is_empty() {
            return Ok(());
        }
        let carried = self.carrier.carry(blocks, Request::ReadMetadata, Payload::ReadMetadata(data));
        match (carried.outcome, carried.error) {
            (Outcome::Metadata(read), _) => metadata.copy_from_slice(&read),
            (_, Some(error)) => return Err(error),
            _ => return Err(IoError::new(self.name(), Operation::Read, offset, len, self.tags_error())),
        }
        Ok(())
    }

    fn write_with_metadata(&self, offset: u64, data: &[u8], metadata: &[u8]) -> Result<(), IoError> {
        let blocks = self.whole_blocks(Operation::Write, offset, data.len() as u64)?;
        let (block, each) = (self.geometry.block_bytes(), self.geometry.format().metadata_bytes());
        assert_eq!(data.len() / block * each, metadata.len(), "metadata for each block");
        let most = self.geometry.max_record_blocks() as usize;
        let pieces = data.chunks(most * block).zip(metadata.chunks(most * each));
        for (first, (data, metadata)) in blocks.step_by(most).zip(pieces) {
            let piece = first..first + (data.len() / block) as u64;
            let (tags, others) = apart(&self.geometry, metadata);
            let sums = self.geometry.sums(data);
            let logged = self.geometry.carries_data().then(|| data.to_vec());
            let change = Change::Tags { tags, others, sums, data: logged };
            self.carry_write(Operation::Write, piece, change, Payload::Write(data))?;
        }
        Ok(())
    }

    fn zero_with_metadata(&self, offset: u64, metadata: &[u8], frees_room: bool) -> Result<(), IoError> {
        let (block, each) = (self.geometry.block_bytes(), self.geometry.format().metadata_bytes());
        assert!(metadata.len().is_multiple_of(each), "metadata of whole blocks");
        let len = (metadata.len() / each * block) as u64;
        let blocks = self.whole_blocks(Operation::Zero, offset, len)?;
        let most = self.geometry.max_record_blocks() as usize;
        for (first, metadata) in blocks.step_by(most).zip(metadata.chunks(most * each)) {
            let count = metadata.len() / each;
            let (tags, others) = apart(&self.geometry, metadata);
            let data = self.geometry.carries_data().then(|| vec![0; count * block]);
            let change = Change::Tags { tags, others, sums: self.geometry.zero_sums(count), data };
            let piece = first..first + count as u64;
            self.carry_write(Operation::Zero, piece, change, Payload::Zero { discard: frees_room })?;
        }
        Ok(())
    }

    fn restore(&self, offset: u64, data: &[u8], tag: RestoredTag) -> Result<(), IoError> {
        let blocks = self.whole_blocks(Operation::Write, offset, data.len() as u64)?;
        let most = self.geometry.max_record_blocks();
        let pieces = data.chunks(most as usize * self.geometry.block_bytes());
        for (first, data) in blocks.step_by(most as usize).zip(pieces) {
            let piece = first..first + (data.len() / self.geometry.block_bytes()) as u64;
            let change = Arc::new(self.adopted(first, data));
            let request = match tag {
                RestoredTag::Adopted => Request::Write(change),
                RestoredTag::Stays => Request::Restore(change),
            };
            self.carry_change(Operation::Write, piece, request, Payload::Write(data))?;
        }
        Ok(())
    }

    fn vouch(&self, offset: u64, len: u64) -> Result<u64, IoError> {
        let blocks = self.whole_blocks(Operation::Write, offset, len)?;
        self.check_writable(Operation::Write, offset, len as usize)?;
        let mut count = 0;
        for first in blocks.clone().step_by(MAX_ZEROS as usize) {
            let piece = first..blocks.end.min(first + MAX_ZEROS);
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
