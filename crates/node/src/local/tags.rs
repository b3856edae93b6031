//! Blocks of a drive, with the result of checking their tags.

use super::LocalNode;
use crate::engine::Permit;
use crate::operations::io_error;
use pumice_blockdev::{BlockDevice, Judgement, TagFault, Tagged};
use pumice_offload::{DriveId, MAX_TAGGED_BLOCKS, NodeError, TagFormat, TaggedDrives};
use pumice_protect::origin::{Judged, RestoredTag};

/// Bytes that one call reads, at most.
const MAX_BYTES: u64 = 1 << 20;

/// Bytes whose tags are vouched for before it is asked again whether anybody waits: whole blocks,
/// whatever their size.
const VOUCHED_AT_ONCE: u64 = 64 << 20;

/// The format of a drive's tags.
pub(super) fn format_of(device: &dyn BlockDevice) -> Option<TagFormat> {
    let format = device.tagged()?.format();
    Some(TagFormat { guard: format.metadata.guard(), block_bytes: format.block_bytes })
}

/// The tags of a drive, for a range of its whole blocks.
fn tags_of(device: &dyn BlockDevice, offset: u64, len: u64) -> Result<&dyn Tagged, NodeError> {
    let tagged = device.tagged().ok_or_else(|| NodeError::invalid("drive", "it has no tags"))?;
    let block = u64::from(tagged.format().block_bytes);
    if !offset.is_multiple_of(block) || !len.is_multiple_of(block) {
        return Err(NodeError::invalid(
            "offset",
            format!("{offset}+{len}: not whole blocks of {block} bytes"),
        ));
    }
    Ok(tagged)
}

/// Reads blocks, refused or not.
pub(super) fn read(device: &dyn BlockDevice, offset: u64, buf: &mut [u8]) -> Result<Vec<Judged>, NodeError> {
    let len = buf.len() as u64;
    let tagged = tags_of(device, offset, len)?;
    let blocks = len / u64::from(tagged.format().block_bytes);
    if blocks > MAX_TAGGED_BLOCKS || len > MAX_BYTES {
        return Err(NodeError::invalid("blocks", format!("{blocks}: more than one command can read")));
    }
    if buf.is_empty() { Ok(Vec::new()) } else { tagged.read_judged(offset, buf).map_err(io_error) }
}

/// Puts bytes back.
pub(super) fn restore(
    device: &dyn BlockDevice,
    offset: u64,
    data: &[u8],
    tag: RestoredTag,
) -> Result<(), NodeError> {
    tags_of(device, offset, data.len() as u64)?.restore(offset, data, tag).map_err(io_error)
}

/// Vouches for the adopted tags of blocks, while anybody waits for it.
pub(super) fn vouch(
    device: &dyn BlockDevice,
    offset: u64,
    len: u64,
    permit: &dyn Permit,
) -> Result<u64, NodeError> {
    let tagged = tags_of(device, offset, len)?;
    let mut count = 0;
    for at in (0..len).step_by(VOUCHED_AT_ONCE as usize) {
        permit.check()?;
        count += tagged.vouch(offset + at, (len - at).min(VOUCHED_AT_ONCE)).map_err(io_error)?;
    }
    Ok(count)
}

/// Returns whether a plain read that tags judge so is refused.
pub(super) fn refuses(device: &dyn BlockDevice, judgement: &Judgement) -> bool {
    let differs = judgement.faulty.iter().any(|faulty| matches!(faulty.fault, TagFault::Differs(_)));
    differs && device.tagged().is_some_and(|tagged| !tagged.counts().stale)
}

impl TaggedDrives for LocalNode {
    fn tag_format(&self, drive: DriveId) -> Result<Option<TagFormat>, NodeError> {
        Ok(format_of(&*self.drives[self.index(drive)?]))
    }

    fn read_tagged(&self, drive: DriveId, offset: u64, buf: &mut [u8]) -> Result<Vec<Judged>, NodeError> {
        read(self.checked(drive, offset, buf.len() as u64)?, offset, buf)
    }

    fn restores(&self) -> bool {
        true
    }

    fn restore(&self, drive: DriveId, offset: u64, data: &[u8], tag: RestoredTag) -> Result<(), NodeError> {
        restore(self.writable(drive, offset, data.len() as u64)?, offset, data, tag)
    }

    fn vouch(&self, drive: DriveId, offset: u64, len: u64) -> Result<u64, NodeError> {
        self.vouch_while(drive, offset, len, &|| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_blockdev::MemoryDevice;
    use pumice_protect::guard::Guard;
    use pumice_tags::adoption::adopt;
    use pumice_tags::file::{SharedMedium, TagFile};
    use pumice_tags::geometry::Geometry;
    use pumice_tags::{DeviceMedium, TaggedDevice};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A drive is vouched for at once, and can be as large as drives are: a host that is gone, or a
    /// node that stops, does not wait for its end.
    #[test]
    fn vouching_for_a_drive_is_given_up_if_nobody_waits_for_it() {
        const BLOCK: u64 = 4096;
        const BLOCKS: u64 = 2 * VOUCHED_AT_ONCE / BLOCK + 8;
        let size = BLOCKS * BLOCK;
        let geometry = Geometry::new(size, BLOCK as u32, 512, Guard::Crc16, 128 << 10).unwrap();
        let tags = Arc::new(MemoryDevice::new("tags", geometry.file_bytes()));
        let medium = || SharedMedium(Arc::new(DeviceMedium(tags.clone())));
        TagFile::create(&medium(), geometry, 1, "serial").unwrap();
        let drive = Arc::new(MemoryDevice::new("drive", size));
        let device = TaggedDevice::open(drive, medium(), "serial").unwrap();
        assert_eq!(adopt(&device, |_| true).unwrap().adopted, BLOCKS);
        let asked = AtomicU64::new(0);
        let after_one = || asked.fetch_add(1, Ordering::Relaxed) < 1;
        assert!(vouch(&device, 0, size, &after_one).is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 2, "it asked before the second part");
        let rest = vouch(&device, 0, size, &|| true).unwrap();
        assert_eq!(rest, BLOCKS - VOUCHED_AT_ONCE / BLOCK, "the first part was done");
    }
}
