//! A tag file whose log and header hold anything, over a drive that holds anything: it is opened or
//! refused, and a drive that was opened keeps what is written to it. What opening it writes over is
//! a kept block.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_blockdev::{BlockDevice, MemoryDevice, Tagged};
use pumice_fuzz::{Bytes, metadata, take};
use pumice_tags::file::{SharedMedium, TagFile};
use pumice_tags::geometry::Geometry;
use pumice_tags::record::Record;
use pumice_tags::{DeviceMedium, TaggedDevice};
use std::sync::Arc;

const BLOCKS: u64 = 64;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    let choice = take(&mut rest);
    let metadata = metadata(choice >> 8);
    let size: u64 = if metadata.is_tuple() { 512 } else { 4096 };
    // A drive that tears its blocks has records with the data.
    let unit = if choice & 64 == 0 { size as u32 } else { 1 };
    let geometry = Geometry::new(BLOCKS * size, size as u32, unit, metadata, 64 << 10).expect("a drive");
    // A record by itself: what is read is written again as it was.
    if let Ok(record) = Record::decode(&geometry, rest) {
        assert_eq!(record.encode(&geometry), rest);
        assert!(record.blocks().end <= BLOCKS);
    }
    let drive: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("drive", BLOCKS * size));
    let tags = Arc::new(MemoryDevice::new("tags", geometry.file_bytes()));
    let medium = || SharedMedium(Arc::new(DeviceMedium(Arc::clone(&tags) as _)));
    TagFile::create(&medium(), geometry, 9, "").expect("a tag file");
    {
        let device = TaggedDevice::open(Arc::clone(&drive), medium(), "").expect("a new one");
        for block in 0..8_u64 {
            let (at, data) = (block * size * 7 % (BLOCKS * size), vec![block as u8; size as usize]);
            if choice >> 6 & 2 == 0 {
                device.write_at(at, &data).expect("written");
            } else {
                let beside = vec![block as u8; geometry.format().metadata_bytes()];
                device.write_with_metadata(at, &data, &beside).expect("written");
            }
        }
        // As a kill leaves it: the log holds the records.
        let mut left = vec![0; geometry.file_bytes() as usize];
        tags.read_at(0, &mut left).expect("memory");
        drop(device);
        tags.write_at(0, &left).expect("memory");
    }
    // Sparse changes: an offset, then a mask.
    let mut bytes = Bytes::new(rest);
    while !bytes.is_empty() {
        let part = bytes.take(5);
        let Ok([a, b, c, mask, what]) = <[u8; 5]>::try_from(part) else { break };
        let (device, bytes): (&dyn BlockDevice, u64) = match what & 1 {
            0 => (&*tags, geometry.file_bytes()),
            _ => (&*drive, BLOCKS * size),
        };
        let at = u64::from(u32::from_le_bytes([a, b, c, 0])) % bytes;
        let mut byte = [0];
        device.read_at(at, &mut byte).expect("memory");
        device.write_at(at, &[byte[0] ^ mask]).expect("memory");
    }
    let content = || {
        let mut bytes = vec![0; (BLOCKS * size) as usize];
        drive.read_at(0, &mut bytes).expect("memory");
        bytes
    };
    let before = content();
    let opened = TaggedDevice::open(Arc::clone(&drive), medium(), "");
    for ((block, old), new) in (0..).zip(before.chunks(size as usize)).zip(content().chunks(size as usize)) {
        if old != new {
            let contents = TagFile::look_kept(medium()).expect("it was opened so far");
            let mut copies = contents.kept.iter().filter(|kept| kept.block == block);
            let is_kept = copies.any(|kept| {
                matches!(TagFile::read_kept(medium(), kept.slot), Ok((_, bytes)) if bytes == old)
            });
            assert!(is_kept, "block {block} was written over, and is not kept");
        }
    }
    let Ok(device) = opened else { return };
    for block in [0, 7, BLOCKS - 1] {
        let content = vec![block as u8 ^ 0x5A; size as usize];
        device.write_at(block * size, &content).expect("memory takes it");
        let mut back = vec![0; size as usize];
        device.read_at(block * size, &mut back).expect("what was just written is not refused");
        assert_eq!(back, content);
    }
});
