//! An array in memory, made by the md writer, with content made up from a seed.

use pumice_blockdev::{BlockDevice, FaultyDevice};
use pumice_host::Method;
use pumice_host::finding::Finding;
use pumice_host::scrub::{Observer, Options, Outcome, Progress, run};
use pumice_host::state::StateFiles;
use pumice_host::target::{Member, Target};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{DataNode, DriveId};
use pumice_parity::gf;
use pumice_parity::seed::Seed;
use pumice_raid::geometry::Geometry;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::{Array, FormatSpec, Metadata, Uuid, assemble, probe};
use pumice_units::{Role, StripeIndex};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What an array is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) level: Level,
    pub(crate) layout: Option<Layout>,
    pub(crate) disks: u16,
    pub(crate) chunk: u64,
    pub(crate) stripes: u64,
    pub(crate) bitmap: bool,
}

pub(crate) const UUID: Uuid = Uuid([7; 16]);

pub(crate) const RAID6: Kind = Kind {
    level: Level::Raid6,
    layout: Some(Layout::LeftSymmetric),
    disks: 6,
    chunk: 16384,
    stripes: 20,
    bitmap: false,
};

pub(crate) const RAID5: Kind = Kind { level: Level::Raid5, disks: 5, ..RAID6 };

pub(crate) struct World {
    pub(crate) geometry: Geometry,
    pub(crate) data_offset: u64,
    pub(crate) devices: Vec<Arc<FaultyDevice>>,
}

pub(crate) fn noise(seed: u64) -> impl FnMut() -> u64 {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x >> 11
    }
}

impl World {
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        let component = kind.chunk * kind.stripes;
        let device = (1 << 20) + component;
        let format = FormatSpec {
            metadata: Metadata::V1_2,
            level: kind.level,
            layout: kind.layout,
            chunk_bytes: kind.chunk,
            component_bytes: Some(component),
            device_bytes: vec![device; usize::from(kind.disks)],
            array_uuid: UUID,
            device_uuids: (0..kind.disks).map(|i| Uuid([i as u8 + 1; 16])).collect(),
            name: "test:array".to_owned(),
            ctime: 1_700_000_000,
            bitmap: kind.bitmap,
            bad_block_log: true,
            data_offset: Some(1 << 20),
        }
        .format()
        .unwrap();
        let geometry = format.geometry;
        let mut contents: Vec<Vec<u8>> = vec![vec![0; device as usize]; usize::from(kind.disks)];
        for (content, member) in contents.iter_mut().zip(&format.members) {
            for (offset, bytes) in &member.writes {
                content[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        let mut next = noise(seed);
        let base = format.members[0].data_offset as usize;
        for stripe in 0..kind.stripes {
            let map = geometry.stripe(StripeIndex(stripe));
            for at in 0..kind.chunk as usize {
                let place = base + stripe as usize * kind.chunk as usize + at;
                let (mut p, mut q) = (0, 0);
                for (i, role) in map.data.iter().enumerate() {
                    let byte = next() as u8;
                    contents[role.index()][place] = byte;
                    p ^= byte;
                    q ^= map.exponents.get(i).map_or(0, |e| gf::mul(gf::exp(usize::from(*e)), byte));
                }
                contents[map.p.index()][place] = p;
                if let Some(role) = map.q {
                    contents[role.index()][place] = q;
                }
            }
        }
        let devices = contents
            .into_iter()
            .enumerate()
            .map(|(i, content)| Arc::new(FaultyDevice::new(&format!("d{i}"), content, seed + i as u64)))
            .collect();
        Self { geometry, data_offset: base as u64, devices }
    }

    pub(crate) fn place(&self, stripe: u64, at: u64) -> u64 {
        self.data_offset + stripe * self.geometry.chunk_bytes() + at
    }

    /// Changes `len` bytes of a member's chunk; every one becomes another.
    pub(crate) fn damage(&self, role: Role, stripe: u64, at: u64, len: usize, e: u8) {
        let device = &self.devices[role.index()];
        let mut bytes = vec![0; len];
        device.read_at(self.place(stripe, at), &mut bytes).unwrap();
        bytes.iter_mut().for_each(|byte| *byte ^= e);
        device.write_at(self.place(stripe, at), &bytes).unwrap();
        device.flush().unwrap();
    }

    pub(crate) fn contents(&self) -> Vec<Vec<u8>> {
        self.devices.iter().map(|d| d.content()).collect()
    }

    pub(crate) fn array(&self, without: &[u16]) -> Array {
        let records = self.devices.iter().enumerate().filter(|(i, _)| !without.contains(&(*i as u16)));
        let records = records.map(|(_, d)| (d.name().to_owned(), probe(&d.content()).unwrap().unwrap()));
        assemble(records.collect()).unwrap()
    }

    /// The array over `nodes` nodes, without some members.
    pub(crate) fn target(&self, nodes: usize, without: &[u16]) -> Target {
        let devices = self.devices.iter().map(|device| Arc::clone(device) as Arc<dyn BlockDevice>);
        self.target_over(&devices.collect::<Vec<_>>(), nodes, without)
    }

    /// The same, over other devices with the same content.
    pub(crate) fn target_over(
        &self,
        devices: &[Arc<dyn BlockDevice>],
        nodes: usize,
        without: &[u16],
    ) -> Target {
        let array = self.array(without);
        let n = self.devices.len();
        let peers = Peers::new();
        let mut members: Vec<Option<Member>> = (0..n).map(|_| None).collect();
        for node in 0..nodes {
            let roles: Vec<usize> =
                (0..n).filter(|r| r * nodes / n == node && !without.contains(&(*r as u16))).collect();
            let devices = roles.iter().map(|r| Arc::clone(&devices[*r])).collect();
            let name = format!("n{node}");
            let options = NodeOptions { workers: 2, ..NodeOptions::default() };
            let local: Arc<dyn DataNode> = Arc::new(LocalNode::new(&name, devices, &peers, options));
            for (i, role) in roles.iter().enumerate() {
                members[*role] = Some(Member {
                    node: Arc::clone(&local),
                    node_name: name.clone(),
                    drive: DriveId(i as u32 + 1),
                    device: format!("d{role}"),
                    data_offset: self.data_offset,
                    valid_stripes: self.geometry.stripes(),
                });
            }
        }
        Target::new(array, members)
    }

    pub(crate) fn scrub(&self, nodes: usize, method: Method, seed: u64) -> Outcome {
        let options = Options { method: Some(method), ..options(seed) };
        pass(&self.target(nodes, &[]), None, &options)
    }
}

pub(crate) fn options(seed: u64) -> Options {
    Options { batch: Some(8), ..Options::with_seed(Seed::from_number(seed)) }
}

pub(crate) struct Notes(pub(crate) Vec<String>);

impl Observer for Notes {
    fn progress(&mut self, _: &Progress) {}
    fn finding(&mut self, _: &Finding) {}
    fn note(&mut self, note: &str) {
        self.0.push(note.to_owned());
    }
}

pub(crate) fn pass(target: &Target, state: Option<&StateFiles>, options: &Options) -> Outcome {
    run(target, state, options, &mut Notes(Vec::new()), &AtomicBool::new(false)).unwrap()
}
