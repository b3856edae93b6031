//! Drives, and a volume over them.

use pumice_base::units::{Role, StripeIndex};
use pumice_blockdev::{BlockDevice, FaultyDevice};
use pumice_executor::{
    Consistency, CreateSpec, MemberDrive, Offload, OpenError, OpenOptions, ServedVolume, create, open,
};
use pumice_node::serve::{Drive, HostFaces, Server, Service};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_nvme::controller::Limits;
use pumice_offload::{DataNode, DriveId, PaceRequest};
use pumice_parity::gf;
use pumice_raid::geometry::Geometry;
use pumice_raid::layout::{Layout, Level};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const BLOCK: u64 = 4096;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next(100) < percent
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next(u64::MAX).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// Drives by role, and what was made of them.
pub(crate) struct World {
    pub(crate) disks: Vec<Arc<FaultyDevice>>,
    pub(crate) geometry: Geometry,
    pub(crate) data_offset: u64,
    pub(crate) options: OpenOptions,
    seed: u64,
}

pub(crate) fn spec(level: Level, layout: Option<Layout>, chunk: u64) -> CreateSpec {
    CreateSpec {
        level,
        layout,
        chunk_bytes: chunk,
        name: "volume".to_owned(),
        component_bytes: None,
        now: 1,
        force: false,
        log: true,
    }
}

pub(crate) fn member(disk: &Arc<FaultyDevice>) -> MemberDrive {
    let device: Arc<dyn BlockDevice> = Arc::clone(disk) as _;
    let name = device.name().to_owned();
    let node: Arc<dyn DataNode> =
        Arc::new(LocalNode::new(&name, vec![device], &Peers::new(), NodeOptions::default()));
    MemberDrive::new(name, node, DriveId(1)).unwrap()
}

impl World {
    /// A new volume of `stripes` stripes.
    pub(crate) fn new(
        seed: u64,
        (level, layout, disks): (Level, Option<Layout>, u16),
        chunk: u64,
        stripes: u64,
        consistency: Consistency,
    ) -> Self {
        let bytes = (3 << 20) + stripes * chunk;
        let disk = |i| Arc::new(FaultyDevice::new(&format!("disk{i}"), vec![0; bytes as usize], seed + i));
        let disks: Vec<_> = (0..u64::from(disks)).map(disk).collect();
        let drives: Vec<MemberDrive> = disks.iter().map(member).collect();
        let mut told = (0, 0);
        let spec = CreateSpec { component_bytes: Some(stripes * chunk), ..spec(level, layout, chunk) };
        create(&drives, &spec, |done, all| told = (done, all)).unwrap();
        assert_eq!((told.0, told.0 > 0), (told.1, true));
        let record = pumice_raid::probe(&disks[0].content()).unwrap().unwrap();
        let options = OpenOptions {
            metadata: None,
            consistency,
            degraded: false,
            offload: Offload::On,
            writer: 0,
            majority: false,
            without: Default::default(),
            tick: Duration::from_millis(20),
            hold_timeout: Duration::from_millis(50),
            rebuild_rate: None,
        };
        let geometry = record.superblock.geometry().unwrap();
        assert_eq!(geometry.stripes(), stripes);
        let data_offset = record.superblock.data_offset_bytes();
        Self { disks, geometry, data_offset, options, seed: seed + 1000 }
    }

    pub(crate) fn open(&self) -> ServedVolume {
        self.try_open(&(0..self.disks.len()).collect::<Vec<_>>()).unwrap()
    }

    /// Opens it with some of its drives.
    pub(crate) fn try_open(&self, which: &[usize]) -> Result<ServedVolume, OpenError> {
        let drives: Vec<MemberDrive> = which.iter().map(|i| member(&self.disks[*i])).collect();
        open(&drives, &self.options)
    }

    /// A new drive in a role's place, full of noise.
    pub(crate) fn replace(&mut self, role: Role) -> MemberDrive {
        self.seed += 1;
        let mut content = vec![0; self.disks[role.index()].content().len()];
        Random(self.seed).fill(&mut content);
        let name = format!("{}new{}", self.disks[role.index()].name(), self.seed);
        self.disks[role.index()] = Arc::new(FaultyDevice::new(&name, content, self.seed));
        member(&self.disks[role.index()])
    }

    /// Stripes of which some equation does not hold.
    pub(crate) fn torn(&self) -> Vec<u64> {
        let chunk = self.geometry.chunk_bytes();
        let contents: Vec<Vec<u8>> = self.disks.iter().map(|disk| disk.content()).collect();
        let holds = |stripe: &u64| {
            self.geometry.check_rows(StripeIndex(*stripe)).iter().all(|row| {
                let mut sum = vec![0; chunk as usize];
                for (content, factor) in contents.iter().zip(row) {
                    let at = (self.data_offset + stripe * chunk) as usize;
                    gf::add_scaled(&mut sum, &content[at..at + chunk as usize], *factor);
                }
                sum.iter().all(|byte| *byte == 0)
            })
        };
        (0..self.geometry.stripes()).filter(|stripe| !holds(stripe)).collect()
    }
}

/// A node behind sockets. It does not know others.
pub(crate) fn served(name: &str, drives: Vec<Drive>, listen: SocketAddr) -> Server {
    Server::start(Service {
        listen: vec![listen],
        metrics: None,
        nqn: name.parse().unwrap(),
        instance: None,
        drives,
        faces: HostFaces::default(),
        limits: Limits::default(),
        cores: 1,
        busy_poll: Duration::ZERO,
        node: NodeOptions { memory_bytes: 1 << 20, ..NodeOptions::default() },
        peers: Vec::new(),
        pacing: PaceRequest::default(),
    })
    .unwrap()
}

/// Waits for something that takes as long as it takes.
pub(crate) fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(300);
    while !is() {
        assert!(Instant::now() < until, "{what} never comes");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn stop(volume: ServedVolume) {
    assert!(volume.stop(Duration::from_secs(300)), "it is made clean");
}
