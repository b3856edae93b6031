//! A node of this process that differs from others in the one thing that a test is about.

use crate::world::{UUID, World};
use pumice_base::buffer::AlignedBuffer;
use pumice_blockdev::BlockDevice;
use pumice_host::target::{Member, Target};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{
    Activity, AssociatedHost, DataNode, DriveId, DriveMemory, Drives, Ended, ErrorKind, Hosts, Link,
    LinkFigures, MemoryAddress, NodeDescription, NodeError, OperationQueue, PaceFigures, PaceRequest, Paced,
    ParityCommand, ParityEngine, ParityResult, Piece, PieceFailure, Presence, SuperblockSeen, TagFormat,
    TaggedDrives, Transfer, TransferResult, Writes,
};
use pumice_protect::origin::{Judged, RestoredTag};
use pumice_raid::Array;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Answers of a node that serves hosts which write nothing.
pub(crate) struct Served {
    pub(crate) hosts: Vec<AssociatedHost>,
    /// It saw a clean superblock at this byte of each of its first six drives.
    pub(crate) saw_clean: Option<Seen>,
}

/// Place at which a node saw a superblock, if it tells the place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seen {
    At(u64),
    Somewhere,
}

pub(crate) struct Altered {
    pub(crate) local: LocalNode,
    /// It serves hosts, and counts their writes.
    pub(crate) served: Option<Served>,
    /// It loses its connection when it is asked to vouch for the next time.
    pub(crate) drops: AtomicBool,
}

impl Altered {
    /// A node like any other.
    pub(crate) fn over(devices: Vec<Arc<dyn BlockDevice>>) -> Self {
        let local = LocalNode::new("n", devices, &Peers::new(), NodeOptions::default());
        Self { local, served: None, drops: AtomicBool::new(false) }
    }
}

impl World {
    /// The array with all of its members on one node.
    pub(crate) fn on(&self, node: Altered, array: Array) -> Target {
        let node: Arc<dyn DataNode> = Arc::new(node);
        let member = |role: u32| Member {
            node: Arc::clone(&node),
            node_name: "n".to_owned(),
            drive: DriveId(role + 1),
            device: format!("d{role}"),
            data_offset: self.data_offset,
            valid_stripes: self.geometry.stripes(),
        };
        let roles = 0..u32::from(self.geometry.raid_disks());
        Target::new(array, roles.map(|role| Some(member(role))).collect())
    }
}

/// Passes methods on to the local node.
macro_rules! passed_on {
    ($(fn $name:ident($($arg:ident: $of:ty),*) -> $out:ty;)*) => {
        $(fn $name(&self, $($arg: $of),*) -> $out {
            self.local.$name($($arg),*)
        })*
    };
}

impl DataNode for Altered {
    fn tagged(&self) -> Option<&dyn TaggedDrives> {
        self.local.tagged().map(|_| self as &dyn TaggedDrives)
    }
    fn presence(&self) -> Option<&dyn Presence> {
        self.served.as_ref().map(|served| served as &dyn Presence)
    }
    fn link(&self) -> Option<&dyn Link> {
        Some(self)
    }
    passed_on! {
        fn describe() -> Result<NodeDescription, NodeError>;
    }
}

impl Presence for Served {
    fn hosts(&self) -> Result<Hosts, NodeError> {
        Ok(Hosts { epoch: 7, changes: 4, hosts: self.hosts.clone() })
    }
    fn superblocks(&self) -> Result<Option<Vec<SuperblockSeen>>, NodeError> {
        let offset = match self.saw_clean {
            None => return Ok(Some(Vec::new())),
            Some(Seen::At(offset)) => Some(offset),
            Some(Seen::Somewhere) => None,
        };
        let seen = |drive| {
            let drive = DriveId(drive);
            SuperblockSeen { drive, offset, array: UUID.0, clean: true, events: 1 }
        };
        Ok(Some((1..7).map(seen).collect()))
    }
    fn hold(&self) -> Result<(), NodeError> {
        Ok(())
    }
    fn observe(&self) -> Result<(), NodeError> {
        Ok(())
    }
}

impl Link for Altered {
    fn reconnect(&self) -> Result<bool, NodeError> {
        Ok(true)
    }
    fn retake(&self) -> Result<bool, NodeError> {
        Ok(false)
    }
    fn link_figures(&self) -> LinkFigures {
        LinkFigures { bytes: 0, pdus: 0, digests: false, loopback: true }
    }
}

impl ParityEngine for Altered {
    fn parity(&self, command: &ParityCommand) -> Result<ParityResult, NodeError> {
        let mut result = self.local.parity(command)?;
        if self.served.is_some() {
            let still = Writes { started: 9, completed: 9 };
            result.activity = Some(Activity { epoch: 7, before: still, after: still });
        }
        Ok(result)
    }
    passed_on! {
        fn reads_unpaced() -> bool;
        fn give_up() -> ();
    }
}

impl TaggedDrives for Altered {
    fn vouch(&self, drive: DriveId, offset: u64, len: u64) -> Result<u64, NodeError> {
        match self.drops.swap(false, Ordering::Relaxed) {
            true => Err(NodeError::new(ErrorKind::Unreachable, "the connection is lost")),
            false => self.local.vouch(drive, offset, len),
        }
    }
    /// It is of an earlier version.
    fn restores(&self) -> bool {
        false
    }
    passed_on! {
        fn tag_format(drive: DriveId) -> Result<Option<TagFormat>, NodeError>;
        fn read_tagged(drive: DriveId, offset: u64, buf: &mut [u8]) -> Result<Vec<Judged>, NodeError>;
        fn restore(drive: DriveId, offset: u64, data: &[u8], tag: RestoredTag) -> Result<(), NodeError>;
    }
}

impl Drives for Altered {
    passed_on! {
        fn read(drive: DriveId, offset: u64, buf: &mut [u8]) -> Result<(), NodeError>;
        fn gather(pieces: &[Piece], buffer: AlignedBuffer) -> Result<(AlignedBuffer, Vec<PieceFailure>), NodeError>;
        fn write(drive: DriveId, offset: u64, data: &[u8]) -> Result<(), NodeError>;
        fn zero(drive: DriveId, offset: u64, len: u64) -> Result<(), NodeError>;
        fn flush(drive: DriveId) -> Result<(), NodeError>;
        fn operations(depth: usize, ended: Ended) -> Result<Box<dyn OperationQueue>, NodeError>;
    }
}

impl Paced for Altered {
    passed_on! {
        fn pace(request: &PaceRequest) -> Result<(), NodeError>;
        fn pace_figures() -> Result<Vec<PaceFigures>, NodeError>;
    }
}

impl DriveMemory for Altered {
    passed_on! {
        fn transfer(transfer: &Transfer) -> Result<TransferResult, NodeError>;
        fn memory_write(address: MemoryAddress, data: &[u8]) -> Result<(), NodeError>;
        fn memory_read(address: MemoryAddress, buf: &mut [u8]) -> Result<(), NodeError>;
    }
}
