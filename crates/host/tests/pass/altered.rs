//! A node of this process that differs from others in the one thing that a test is about.

use crate::world::{UUID, World};
use pumice_blockdev::BlockDevice;
use pumice_buffer::AlignedBuffer;
use pumice_host::target::{Member, Target};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{
    Activity, AssociatedHost, DataNode, DriveId, Ended, ErrorKind, Hosts, MemoryAddress, NodeDescription,
    NodeError, OperationQueue, PaceFigures, PaceRequest, ParityCommand, ParityResult, Piece, PieceFailure,
    SuperblockSeen, TagFormat, Transfer, TransferResult, Writes,
};
use pumice_protect::origin::Judged;
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

impl DataNode for Altered {
    fn hosts(&self) -> Result<Option<Hosts>, NodeError> {
        let hosts = self.served.as_ref().map(|served| served.hosts.clone());
        Ok(hosts.map(|hosts| Hosts { epoch: 7, changes: 4, hosts }))
    }
    fn superblocks(&self) -> Result<Option<Vec<SuperblockSeen>>, NodeError> {
        let Some(served) = &self.served else { return Ok(None) };
        let offset = match served.saw_clean {
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
    fn parity(&self, command: &ParityCommand) -> Result<ParityResult, NodeError> {
        let mut result = self.local.parity(command)?;
        if self.served.is_some() {
            let still = Writes { started: 9, completed: 9 };
            result.activity = Some(Activity { epoch: 7, before: still, after: still });
        }
        Ok(result)
    }
    fn vouch(&self, drive: DriveId, offset: u64, len: u64) -> Result<u64, NodeError> {
        match self.drops.swap(false, Ordering::Relaxed) {
            true => Err(NodeError::new(ErrorKind::Unreachable, "the connection is lost")),
            false => self.local.vouch(drive, offset, len),
        }
    }
    fn reconnect(&self) -> Result<bool, NodeError> {
        Ok(true)
    }

    // All else is passed on.
    fn describe(&self) -> Result<NodeDescription, NodeError> {
        self.local.describe()
    }
    fn read(&self, drive: DriveId, offset: u64, buf: &mut [u8]) -> Result<(), NodeError> {
        self.local.read(drive, offset, buf)
    }
    fn tag_format(&self, drive: DriveId) -> Result<Option<TagFormat>, NodeError> {
        self.local.tag_format(drive)
    }
    fn read_tagged(&self, drive: DriveId, offset: u64, buf: &mut [u8]) -> Result<Vec<Judged>, NodeError> {
        self.local.read_tagged(drive, offset, buf)
    }
    fn gather(
        &self,
        pieces: &[Piece],
        buffer: AlignedBuffer,
    ) -> Result<(AlignedBuffer, Vec<PieceFailure>), NodeError> {
        self.local.gather(pieces, buffer)
    }
    fn write(&self, drive: DriveId, offset: u64, data: &[u8]) -> Result<(), NodeError> {
        self.local.write(drive, offset, data)
    }
    fn zero(&self, drive: DriveId, offset: u64, len: u64) -> Result<(), NodeError> {
        self.local.zero(drive, offset, len)
    }
    fn flush(&self, drive: DriveId) -> Result<(), NodeError> {
        self.local.flush(drive)
    }
    fn operations(&self, depth: usize, ended: Ended) -> Result<Box<dyn OperationQueue>, NodeError> {
        self.local.operations(depth, ended)
    }
    fn pace(&self, request: &PaceRequest) -> Result<(), NodeError> {
        self.local.pace(request)
    }
    fn pace_figures(&self) -> Result<Vec<PaceFigures>, NodeError> {
        self.local.pace_figures()
    }
    fn transfer(&self, transfer: &Transfer) -> Result<TransferResult, NodeError> {
        self.local.transfer(transfer)
    }
    fn memory_write(&self, address: MemoryAddress, data: &[u8]) -> Result<(), NodeError> {
        self.local.memory_write(address, data)
    }
    fn memory_read(&self, address: MemoryAddress, buf: &mut [u8]) -> Result<(), NodeError> {
        self.local.memory_read(address, buf)
    }
}
