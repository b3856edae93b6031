//! The demo's array: real superblocks, made-up data, parity.

use pumice_base::units::{Role, StripeIndex};
use pumice_parity::kernels::Kernels;
use pumice_raid::geometry::Geometry;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::writer::FormatSpec;
use pumice_raid::{Metadata, Uuid};
use pumice_service::failure::Failure;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const DRIVES: u16 = 24;
/// Stripes of the small array.
pub(super) const STRIPES: u64 = 192;
pub(super) const CHUNK: usize = 64 << 10;
/// Beginning of the data area.
const DATA_OFFSET: u64 = 1 << 20;

/// The array's UUID.
pub(super) const ARRAY: Uuid = Uuid(*b"pumice demo raid");

/// The array's files.
pub(super) struct World {
    paths: Vec<PathBuf>,
    files: Vec<File>,
    geometry: Geometry,
    stripes: u64,
}

/// The data of a chunk: made up from its place, so that it can be made up again. (SplitMix64, for
/// the looks of it.)
fn data(stripe: u64, index: usize) -> Vec<u8> {
    let mut state = stripe << 32 | index as u64;
    let mut out = Vec::with_capacity(CHUNK);
    while out.len() < CHUNK {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        out.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    out
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_secs())
}

impl World {
    /// Makes an array of so many stripes in a folder.
    pub(super) fn make(folder: &Path, stripes: u64) -> Result<Self, Failure> {
        let component = stripes * CHUNK as u64;
        let device = DATA_OFFSET + component;
        let mut number = 0_u8;
        let mut uuid = || {
            number += 1;
            Uuid([number; 16])
        };
        let format = FormatSpec {
            metadata: Metadata::V1_2,
            level: Level::Raid6,
            layout: Some(Layout::LeftSymmetric),
            chunk_bytes: CHUNK as u64,
            component_bytes: Some(component),
            device_bytes: vec![device; usize::from(DRIVES)],
            array_uuid: ARRAY,
            device_uuids: (0..DRIVES).map(|_| uuid()).collect(),
            name: "demo:pumice".to_owned(),
            ctime: now(),
            bitmap: false,
            bad_block_log: true,
            data_offset: Some(DATA_OFFSET),
        }
        .format()?;
        let mut paths = Vec::new();
        let mut files = Vec::new();
        for (role, member) in format.members.iter().enumerate() {
            let path = folder.join(format!("drive{role:02}.img"));
            let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
            file.set_len(device)?;
            for (offset, bytes) in &member.writes {
                file.write_all_at(bytes, *offset)?;
            }
            paths.push(path);
            files.push(file);
        }
        let world = Self { paths, files, geometry: format.geometry, stripes };
        for stripe in 0..stripes {
            for (role, chunk) in world.content(stripe) {
                world.write(role, stripe, 0, &chunk)?;
            }
        }
        Ok(world)
    }

    /// Contents of a stripe while nothing is wrong with it, by role.
    pub(super) fn content(&self, stripe: u64) -> Vec<(Role, Vec<u8>)> {
        let map = self.geometry.stripe(StripeIndex(stripe));
        let data: Vec<Vec<u8>> = (0..map.data.len()).map(|index| data(stripe, index)).collect();
        // The kernel counts exponents from 0 on: sources in the order of their exponents.
        let mut order: Vec<usize> = (0..data.len()).collect();
        order.sort_by_key(|index| map.exponents[*index]);
        let sources: Vec<&[u8]> = order.iter().map(|index| data[*index].as_slice()).collect();
        let (mut p, mut q) = (vec![0; CHUNK], vec![0; CHUNK]);
        Kernels::best().pq_generate(&sources, &mut p, &mut q);
        let parity = [(map.p, p), (map.q.expect("RAID-6 has Q"), q)];
        map.data.into_iter().zip(data).chain(parity).collect()
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    pub(super) fn members(&self) -> u16 {
        DRIVES
    }

    pub(super) fn stripes(&self) -> u64 {
        self.stripes
    }

    pub(super) fn bytes(&self) -> u64 {
        u64::from(DRIVES) * self.stripes * CHUNK as u64
    }

    /// Place of a byte of a stripe's chunk on a drive.
    pub(super) fn place(stripe: u64, at: usize) -> u64 {
        DATA_OFFSET + stripe * CHUNK as u64 + at as u64
    }

    pub(super) fn read(&self, role: Role, stripe: u64, at: usize, len: usize) -> Result<Vec<u8>, Failure> {
        let mut out = vec![0; len];
        self.files[role.index()].read_exact_at(&mut out, Self::place(stripe, at))?;
        Ok(out)
    }

    pub(super) fn write(&self, role: Role, stripe: u64, at: usize, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.files[role.index()].write_all_at(bytes, Self::place(stripe, at))?)
    }
}
