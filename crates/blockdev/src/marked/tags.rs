//! Tags of a device with marks.

use super::MarkedDevice;
use crate::error::Operation;
use crate::{IoError, Judgement, Reader, TagCounts, TagFormat, Tagged};
use pumice_protect::origin::{Judged, RestoredTag};

/// A mark is looked at before a tag: what is marked is unreadable, whatever its tag says.
impl Tagged for MarkedDevice {
    fn format(&self) -> TagFormat {
        self.tags().format()
    }

    fn counts(&self) -> TagCounts {
        self.tags().counts()
    }

    fn read_judged(&self, offset: u64, buf: &mut [u8]) -> Result<Vec<Judged>, IoError> {
        self.refuse_marked(offset, buf.len())?;
        self.tags().read_judged(offset, buf)
    }

    fn read_checked(&self, offset: u64, buf: &mut [u8], reader: &mut Reader) -> Result<Judgement, IoError> {
        self.refuse_marked(offset, buf.len())?;
        self.tags().read_checked(offset, buf, reader)
    }

    fn guards<'r>(&self, offset: u64, len: usize, reader: &'r mut Reader) -> Option<&'r [u64]> {
        self.tags().guards(offset, len, reader)
    }

    fn read_expecting(
        &self,
        offset: u64,
        buf: &mut [u8],
        guards: &[u64],
        reader: &mut Reader,
    ) -> Result<Option<Judgement>, IoError> {
        self.refuse_marked(offset, buf.len())?;
        self.tags().read_expecting(offset, buf, guards, reader)
    }

    fn read_with_metadata(&self, offset: u64, data: &mut [u8], metadata: &mut [u8]) -> Result<(), IoError> {
        self.refuse_marked(offset, data.len())?;
        self.tags().read_with_metadata(offset, data, metadata)
    }

    fn write_with_metadata(&self, offset: u64, data: &[u8], metadata: &[u8]) -> Result<(), IoError> {
        let write = || self.tags().write_with_metadata(offset, data, metadata);
        self.over_marks(Operation::Write, offset, data.len() as u64, write)
    }

    fn zero_with_metadata(&self, offset: u64, metadata: &[u8], frees_room: bool) -> Result<(), IoError> {
        let blocks = (metadata.len() / self.format().metadata.bytes()) as u64;
        let len = blocks * u64::from(self.format().block_bytes);
        let zero = || self.tags().zero_with_metadata(offset, metadata, frees_room);
        self.over_marks(Operation::Zero, offset, len, zero)
    }

    fn vouch(&self, offset: u64, len: u64) -> Result<u64, IoError> {
        self.tags().vouch(offset, len)
    }

    fn restore(&self, offset: u64, data: &[u8], tag: RestoredTag) -> Result<(), IoError> {
        let write = || self.tags().restore(offset, data, tag);
        self.over_marks(Operation::Write, offset, data.len() as u64, write)
    }
}
