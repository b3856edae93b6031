//! An array in memory, made by the md writer, with content made up from a seed.

use pumice_base::units::{Role, StripeIndex};
use pumice_blockdev::{BlockDevice, FaultyDevice};
use pumice_host::Method;
use pumice_host::finding::Finding;
use pumice_host::pass::{Observer, Progress};
use pumice_host::scrub::{Options, Outcome, run};
use pumice_host::state::StateFiles;
use pumice_host::stop::Stop;
use pumice_host::target::{JournalDrive, Member, Target};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{DataNode, DriveId};
use pumice_parity::gf;
use pumice_parity::seed::Seed;
use pumice_raid::geometry::Geometry;
use pumice_raid::journal::{data_entry, meta_block};
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::v1::{ROLE_FAULTY, ROLE_JOURNAL, V1};
use pumice_raid::{Array, FormatSpec, Metadata, Uuid, assemble, probe};
use std::sync::Arc;

/// Shape of an array.
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
    /// Bytes of local memory of each drive, by node; the last stands for the rest.
    pub(crate) memory_bytes: Vec<u64>,
    journal: Option<Arc<FaultyDevice>>,
}

/// Place of a superblock.
pub(crate) const SUPERBLOCK: u64 = 4096;
/// Sectors of a journal's ring.
const RING: u64 = 512;

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
    /// An array with noise for content; `seed` decides what crashes do.
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        let world = Self::empty(kind, seed);
        (0..kind.stripes).for_each(|stripe| world.recontent(stripe, 0));
        world
    }

    /// The same with zeros.
    pub(crate) fn empty(kind: Kind, seed: u64) -> Self {
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
        let base = format.members[0].data_offset as usize;
        let devices = contents
            .into_iter()
            .enumerate()
            .map(|(i, content)| Arc::new(FaultyDevice::new(&format!("d{i}"), content, seed + i as u64)))
            .collect();
        Self { geometry, data_offset: base as u64, devices, memory_bytes: vec![32 << 20], journal: None }
    }

    /// Gives the array a write journal, on a device of its own.
    pub(crate) fn add_journal(&mut self) -> Arc<FaultyDevice> {
        let number = self.devices.len();
        let mut of_first = None;
        for device in &self.devices {
            let superblock = patch(device, |s| {
                s.feature_map |= Features::JOURNAL;
                s.dev_roles[number] = ROLE_JOURNAL;
            });
            of_first.get_or_insert(superblock);
        }
        let superblock = V1 {
            dev_number: number as u32,
            device_uuid: [0xEE; 16],
            data_size: RING,
            recovery_offset: 0,
            ..of_first.unwrap()
        };
        let mut content = vec![0; (self.data_offset + RING * 512) as usize];
        let bytes = superblock.encode();
        content[SUPERBLOCK as usize..][..bytes.len()].copy_from_slice(&bytes);
        let journal = Arc::new(FaultyDevice::new("journal", content, 1));
        self.journal = Some(Arc::clone(&journal));
        journal
    }

    /// Makes the journal hold one block of data of each of some stripes.
    pub(crate) fn journal_names(&self, stripes: &[u64]) {
        let sector = |stripe: &u64| stripe * self.geometry.stripe_bytes() / 512;
        let list: Vec<u8> = stripes.iter().flat_map(|stripe| data_entry(sector(stripe))).collect();
        let block = meta_block(UUID, 1, 0, &list);
        self.journal.as_ref().unwrap().write_at(self.data_offset, &block).unwrap();
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

    /// Marks members as failed in the superblocks of the others: md holds them missing.
    pub(crate) fn fail(&self, missing: &[u16]) {
        for (_, device) in self.devices.iter().enumerate().filter(|(i, _)| !missing.contains(&(*i as u16))) {
            if !missing.is_empty() {
                patch(device, |s| {
                    missing.iter().for_each(|role| s.dev_roles[usize::from(*role)] = ROLE_FAULTY);
                });
            }
        }
    }

    /// Gives a stripe other content, with the parity that belongs to it: 0 noise, 1 zeros, 2 zeros
    /// but for one member, 3 two equal members, 4 a short pattern on each.
    pub(crate) fn recontent(&self, stripe: u64, kind: u64) {
        let map = self.geometry.stripe(StripeIndex(stripe));
        let chunk = self.geometry.chunk_bytes() as usize;
        let mut next = noise(stripe.wrapping_mul(7).wrapping_add(kind + 1));
        let mut fresh = |_: &Role| (0..chunk / 4).flat_map(|_| (next() as u32).to_le_bytes()).collect();
        let mut data: Vec<Vec<u8>> = map.data.iter().map(&mut fresh).collect();
        match kind {
            1 => data.iter_mut().for_each(|bytes| bytes.fill(0)),
            2 => {
                let lone = stripe as usize % data.len();
                data.iter_mut().enumerate().filter(|(i, _)| *i != lone).for_each(|(_, bytes)| bytes.fill(0));
            }
            3 => data[1] = data[0].clone(),
            4 => data.iter_mut().for_each(|bytes| {
                let period = 1 + (next() % 16) as usize;
                (period..chunk).for_each(|i| bytes[i] = bytes[i - period]);
            }),
            _ => {}
        }
        let (mut p, mut q) = (vec![0; chunk], vec![0; chunk]);
        for (i, bytes) in data.iter().enumerate() {
            gf::add_scaled(&mut p, bytes, 1);
            gf::add_scaled(&mut q, bytes, map.exponents.get(i).map_or(0, |e| gf::exp(usize::from(*e))));
        }
        let parity = [Some((map.p, p)), map.q.map(|role| (role, q))];
        for (role, bytes) in map.data.iter().copied().zip(data).chain(parity.into_iter().flatten()) {
            let device = &self.devices[role.index()];
            device.write_at(self.place(stripe, 0), &bytes).unwrap();
            device.flush().unwrap();
        }
    }

    pub(crate) fn contents(&self) -> Vec<Vec<u8>> {
        self.devices.iter().map(|d| d.content()).collect()
    }

    pub(crate) fn array(&self, without: &[u16]) -> Array {
        let members = self.devices.iter().enumerate().filter(|(i, _)| !without.contains(&(*i as u16)));
        let devices = members.map(|(_, d)| d).chain(&self.journal);
        let records = devices.map(|d| (d.name().to_owned(), probe(&d.content()).unwrap().unwrap()));
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
            let memory_bytes = self.memory_bytes[node.min(self.memory_bytes.len() - 1)];
            let options = NodeOptions { workers: 2, memory_bytes, ..NodeOptions::default() };
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
        let journal = self.journal.as_ref().map(|device| {
            let device: Arc<dyn BlockDevice> = Arc::clone(device) as _;
            let node = LocalNode::new("journal", vec![device], &Peers::new(), NodeOptions::default());
            JournalDrive { node: Arc::new(node), drive: DriveId(1) }
        });
        Target::new(array, members).with_journal(journal)
    }

    pub(crate) fn scrub(&self, nodes: usize, method: Method, seed: u64) -> Outcome {
        let options = Options { method: Some(method), ..options(seed) };
        pass(&self.target(nodes, &[]), None, &options)
    }
}

/// Rewrites the superblock of a device, with a checksum that fits.
pub(crate) fn patch(device: &FaultyDevice, change: impl Fn(&mut V1)) -> V1 {
    let mut bytes = vec![0; 4096];
    device.read_at(SUPERBLOCK, &mut bytes).unwrap();
    let mut superblock = V1::decode(&bytes, Metadata::V1_2).unwrap();
    change(&mut superblock);
    device.write_at(SUPERBLOCK, &superblock.encode()).unwrap();
    superblock
}

pub(crate) fn options(seed: u64) -> Options {
    Options { batch: Some(8), ..Options::with_seed(Seed::from_number(seed)) }
}

#[derive(Debug)]
pub(crate) struct Notes(pub(crate) Vec<String>);

impl Observer for Notes {
    fn progress(&mut self, _: &Progress) {}
    fn finding(&mut self, _: &Finding) {}
    fn note(&mut self, note: &str) {
        self.0.push(note.to_owned());
    }
}

pub(crate) fn pass(target: &Target, state: Option<&StateFiles>, options: &Options) -> Outcome {
    run(target, state, options, &mut Notes(Vec::new()), &Stop::new()).unwrap()
}
