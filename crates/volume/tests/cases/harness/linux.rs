//! The same members as Linux would see and run them.

use super::{BLOCK, DATA, SUPERBLOCK, World};
use pumice_base::units::StripeIndex;
use pumice_parity::gf;
use pumice_raid::Metadata;
use pumice_raid::superblock::v1::{RESYNC_DONE, V1};
use pumice_volume::MemberLook;
use std::collections::BTreeSet;

impl World {
    /// The state that Linux would rely on: torn rows lie in regions whose bit is set, under a dirty
    /// superblock. Rows of which blocks are listed as bad have no parity.
    pub(crate) fn check_for_linux(&self) {
        let looks: Vec<MemberLook> = self.disks.iter().filter_map(|disk| self.look(disk)).collect();
        let newest = looks.iter().max_by_key(|look| look.superblock.events).unwrap();
        let listed: BTreeSet<u64> = looks.iter().flat_map(|look| look.bad.iter().copied()).collect();
        for block in self.torn_rows().into_iter().filter(|block| !listed.contains(block)) {
            assert_ne!(
                newest.superblock.resync_offset, RESYNC_DONE,
                "row {block} is torn under a clean superblock"
            );
            for look in &looks {
                let region = block * BLOCK / self.region;
                let byte = look.bitmap_bytes[256 + region as usize / 8];
                assert!(byte & (1 << (region % 8)) != 0, "row {block} is torn and has no bit");
            }
        }
    }

    /// Linux runs the array: it resyncs, and writes a block of data with its parity, and stops.
    pub(crate) fn linux_runs(&mut self) {
        let rows_per_chunk = self.geometry.chunk_bytes() / BLOCK;
        self.model.no_replay = true;
        let resync: Vec<u64> = self.torn_rows();
        let mut write = self.random.next(self.windows.count * self.windows.rows);
        // One that is written now was perhaps being written before the crash as well.
        if let (Some(row), true) = (resync.first(), self.random.chance(50)) {
            write = *row;
        }
        for block in resync.into_iter().chain([write]) {
            let stripe = StripeIndex(block / rows_per_chunk);
            let map = self.geometry.stripe(stripe);
            if block == write {
                let at =
                    self.geometry.array_offset(stripe, map.data[0], block % rows_per_chunk * BLOCK).unwrap();
                let bytes = self.model.written_by_another(at);
                self.disks[map.data[0].index()].put(DATA + block * BLOCK, &bytes);
            }
            let (mut p, mut q) = (vec![0; BLOCK as usize], vec![0; BLOCK as usize]);
            for (i, role) in map.data.iter().enumerate() {
                let data = self.disks[role.index()].read(DATA + block * BLOCK, BLOCK as usize);
                gf::add_scaled(&mut p, data, 1);
                gf::add_scaled(&mut q, data, map.exponents.get(i).map_or(0, |e| gf::exp(usize::from(*e))));
            }
            self.disks[map.p.index()].put(DATA + block * BLOCK, &p);
            if let Some(role) = map.q {
                self.disks[role.index()].put(DATA + block * BLOCK, &q);
            }
        }
        for disk in &mut self.disks {
            let mut sb = V1::decode(&disk.now[SUPERBLOCK as usize..], Metadata::V1_2).unwrap();
            sb.events += 2;
            sb.utime += 1000;
            sb.resync_offset = RESYNC_DONE;
            let events = sb.events;
            disk.put(SUPERBLOCK, &sb.encode());
            disk.put(SUPERBLOCK * 2 + 24, &events.to_le_bytes());
        }
    }

    /// Says that the array is clean, as `mdadm --force` does.
    pub(crate) fn force_clean(&mut self) {
        for disk in &mut self.disks {
            let mut sb = V1::decode(&disk.now[SUPERBLOCK as usize..], Metadata::V1_2).unwrap();
            sb.resync_offset = RESYNC_DONE;
            disk.put(SUPERBLOCK, &sb.encode());
        }
    }
}
