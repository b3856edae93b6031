//! Findings on drives that others may be writing: what is read again before they count, and what becomes of them where the array has changed.

use crate::world::{Kind, RAID6, World, options, pass};
use pumice_blockdev::{BlockDevice, FaultyDevice, IoError};
use pumice_host::scrub::Options;
use pumice_raid::Metadata;
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::v1::V1;
use pumice_units::Role;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SUPERBLOCK: u64 = 4096;

/// A device that counts the reads before its data.
struct Watched {
    inner: Arc<FaultyDevice>,
    data_offset: u64,
    reads: AtomicUsize,
}

impl BlockDevice for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn logical_block(&self) -> u32 {
        self.inner.logical_block()
    }

    fn read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.reads.fetch_add(usize::from(offset < self.data_offset), Ordering::Relaxed);
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.inner.write_at(offset, data)
    }

    fn flush(&self) -> Result<(), IoError> {
        self.inner.flush()
    }
}

/// Drives that others may be writing, and no patience.
fn in_use() -> Options {
    Options { in_use: true, settle: Duration::from_millis(1), ..options(1) }
}

fn damaged(kind: Kind, stripes: u64) -> World {
    let world = World::new(kind, 3);
    (0..stripes).for_each(|stripe| world.damage(Role(1), stripe, 100, 30, 0x5A));
    world
}

#[test]
fn a_round_reads_each_superblock_once_however_many_findings_it_has() {
    for stripes in [1, 8] {
        let world = damaged(Kind { bitmap: true, ..RAID6 }, stripes);
        let watch = |device: &Arc<FaultyDevice>| {
            let (inner, data_offset) = (Arc::clone(device), world.data_offset);
            Arc::new(Watched { inner, data_offset, reads: AtomicUsize::new(0) })
        };
        let watched: Vec<Arc<Watched>> = world.devices.iter().map(watch).collect();
        let devices: Vec<Arc<dyn BlockDevice>> = watched.iter().map(|w| Arc::clone(w) as _).collect();
        let outcome = pass(&world.target_over(&devices, 2, &[]), None, &in_use());
        assert_eq!(outcome.findings.len() as u64, stripes);
        assert!(outcome.is_complete(), "{:?}", outcome.findings);
        for device in watched {
            assert_eq!(device.reads.load(Ordering::Relaxed), 1, "{stripes} stripes, {}", device.name());
        }
    }
}

#[test]
fn what_has_changed_meanwhile_leaves_its_findings_busy() {
    type Change = fn(&mut V1);
    let changes: [(&str, Change); 4] = [
        ("the first write", |s| s.resync_offset = 0),
        ("a member fails", |s| s.dev_roles[2] = 0xFFFE),
        ("a member is rebuilt", |s| {
            if s.dev_number == 2 {
                s.feature_map |= Features::RECOVERY_OFFSET;
                s.recovery_offset = 8;
            }
        }),
        ("another array", |s| s.set_uuid[0] ^= 1),
    ];
    for (what, change) in changes {
        let world = damaged(RAID6, 2);
        let target = world.target(2, &[]);
        for device in &world.devices {
            let mut bytes = vec![0; 4096];
            device.read_at(SUPERBLOCK, &mut bytes).unwrap();
            let mut superblock = V1::decode(&bytes, Metadata::V1_2).unwrap();
            change(&mut superblock);
            device.write_at(SUPERBLOCK, &superblock.encode()).unwrap();
        }
        let outcome = pass(&target, None, &in_use());
        assert_eq!(outcome.findings.len(), 2, "{what}");
        assert!(outcome.findings.iter().all(pumice_host::finding::Finding::is_busy), "{what}");
        assert!(!outcome.is_complete());
    }
}
