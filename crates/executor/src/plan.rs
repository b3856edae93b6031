//! The bytes that a volume over nodes moves over the links, computed in advance: from a dry run of
//! the code that decides, and the sizes of what it sends. `docs/design/accounting.md` has the
//! rules.

use crate::carry::sent_between;
use crate::near::Nodes;
use crate::ranges::runs;
use pumice_base::units::Role;
use pumice_offload::wire;
use pumice_raid::geometry::Geometry;
use pumice_raid::layout::{Layout, Level};
use pumice_volume::dry::{DryError, DryRun, DrySpec};
use pumice_volume::near::NodeNumber;
use pumice_volume::rows::{BLOCK, Rows, WINDOW_ROWS, Windows};
use pumice_volume::{Command, Request};
use std::ops::AddAssign;

/// A command capsule without data.
const CAPSULE: u64 = 72;
/// A response capsule, and the headers of the other PDUs.
const HEADER: u64 = 24;
/// Most data in a capsule, as nodes announce it.
const IN_CAPSULE: u64 = 68 << 10;
/// The member that a degraded volume lacks.
const LOST: Role = Role(0);

/// A volume over nodes.
#[derive(Debug, Clone)]
pub struct PlanSpec {
    /// The level.
    pub level: Level,
    /// The layout; `None` for RAID-4.
    pub layout: Option<Layout>,
    /// Members, parities included.
    pub members: u16,
    /// Nodes; neighbouring roles are on different ones.
    pub nodes: u16,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// With the stripe log.
    pub log: bool,
    /// Nodes make parity, if that moves fewer bytes over the host's links.
    pub offload: bool,
}

/// The work of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Writes whole stripes: as many as members, each at once.
    FullStripes,
    /// Writes a block of 4096 bytes of each data chunk of as many stripes.
    Blocks,
    /// Reads a block of 4096 bytes of each data chunk that member 0, which is missing, has of as
    /// many stripes.
    DegradedReads,
    /// Restores member 0.
    Rebuild,
}

impl Work {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::FullStripes, Self::Blocks, Self::DegradedReads, Self::Rebuild];

    /// The requests, of an array with this geometry; none for a rebuild.
    #[must_use]
    pub fn requests(self, geometry: &Geometry) -> Vec<Request> {
        let stripes = u64::from(geometry.raid_disks());
        let (stripe, chunk) = (geometry.stripe_bytes(), geometry.chunk_bytes());
        let chunks = (0..stripes * stripe).step_by(chunk as usize);
        match self {
            Self::FullStripes => (0..stripes)
                .map(|number| Request::Write { offset: number * stripe, len: stripe, fua: false })
                .collect(),
            Self::Blocks => chunks.map(|offset| Request::Write { offset, len: BLOCK, fua: false }).collect(),
            Self::DegradedReads => chunks
                .filter(|offset| geometry.locate(*offset).is_some_and(|place| place.role == LOST))
                .map(|offset| Request::Read { offset, len: BLOCK })
                .collect(),
            Self::Rebuild => Vec::new(),
        }
    }
}

/// Bytes over links of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Blocks, records of the log, interims.
    pub payload: u64,
    /// Everything else: commands, descriptors, headers, responses.
    pub protocol: u64,
}

impl AddAssign for Moved {
    fn add_assign(&mut self, other: Self) {
        self.payload += other.payload;
        self.protocol += other.protocol;
    }
}

/// Bytes over links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Links {
    /// Bytes of users, or restored.
    pub user: u64,
    /// From the host to the nodes.
    pub sent: Moved,
    /// From the nodes to the host.
    pub received: Moved,
    /// From node to node: interims alone.
    pub between: u64,
}

impl Links {
    /// A command with data for the node. What does not fit a capsule is asked for by the node.
    fn send(&mut self, payload: u64, descriptor: u64) {
        let data = payload + descriptor;
        let asked = u64::from(data > IN_CAPSULE) * HEADER;
        self.sent += Moved { payload, protocol: CAPSULE + descriptor + asked };
        self.received += Moved { payload: 0, protocol: HEADER + asked };
    }

    /// A command with data for the host, and its response.
    fn receive(&mut self, payload: u64) {
        self.sent.protocol += CAPSULE;
        self.received += Moved { payload, protocol: 2 * HEADER };
    }

    /// The same so many times.
    fn times(self, factor: u64) -> Self {
        let times =
            |moved: Moved| Moved { payload: moved.payload * factor, protocol: moved.protocol * factor };
        Self {
            user: self.user * factor,
            sent: times(self.sent),
            received: times(self.received),
            between: self.between * factor,
        }
    }
}

/// The bytes that some work moves, on a volume that is dirty and has room in its log.
///
/// The time that this takes does not grow with the chunk, but for a rebuild: windows are written
/// independently of each other, so one window of each chunk stands for all of them.
///
/// # Errors
/// If there is no such volume.
pub fn plan(spec: &PlanSpec, work: Work) -> Result<Links, DryError> {
    const WINDOW: u64 = WINDOW_ROWS * BLOCK;
    let chunk = spec.chunk_bytes;
    let windows = chunk / WINDOW;
    // What is no volume is refused as it is.
    let is_volume = Geometry::new(spec.level, spec.layout, spec.members, chunk, chunk).is_ok();
    if windows <= 1 || work == Work::Rebuild || !is_volume {
        return plan_whole(spec, work);
    }
    let one = plan_whole(&PlanSpec { chunk_bytes: WINDOW, ..spec.clone() }, work)?;
    // Single blocks are as many as chunks, whatever their size.
    Ok(if work == Work::FullStripes { one.times(windows) } else { one })
}

/// The same, of whole chunks.
fn plan_whole(spec: &PlanSpec, work: Work) -> Result<Links, DryError> {
    let numbers: Vec<Option<NodeNumber>> =
        (0..spec.members).map(|role| Some(role % spec.nodes.max(1))).collect();
    let chunk = spec.chunk_bytes;
    let geometry = Geometry::new(spec.level, spec.layout, spec.members, chunk, chunk);
    let window = geometry.map_or(BLOCK, |geometry| Windows::new(&geometry).bytes());
    let mut nodes = Nodes::planned(numbers, window);
    let stripes = match work {
        // A whole number of stretches.
        Work::Rebuild => (nodes.for_volume().stretch_windows * window / chunk.max(1)).max(1),
        _ => u64::from(spec.members),
    };
    let mut dry = DryRun::new(&DrySpec {
        level: spec.level,
        layout: spec.layout,
        members: spec.members,
        chunk_bytes: spec.chunk_bytes,
        stripes,
        log: spec.log,
        nodes: spec.offload.then(|| nodes.for_volume()),
    })?;
    let geometry = *dry.geometry();
    let mut out = Links::default();
    if matches!(work, Work::DegradedReads | Work::Rebuild) {
        dry.lose(LOST);
    }
    for request in work.requests(&geometry) {
        out.user += match request {
            Request::Read { len, .. } | Request::Write { len, .. } => len,
            Request::Flush => 0,
        };
        let commands = dry.request(request);
        count(&commands, &mut nodes, &mut out);
    }
    if work == Work::Rebuild {
        out.user = geometry.stripes() * geometry.chunk_bytes();
        let commands: Vec<Command> = dry.rebuild(LOST).into_iter().filter(is_restoring).collect();
        count(&commands, &mut nodes, &mut out);
    }
    Ok(out)
}

/// Returns whether a command of a rebuild restores blocks: what else is done when a member joins
/// does not grow with it.
const fn is_restoring(command: &Command) -> bool {
    !matches!(command, Command::Put { .. } | Command::Flush { .. })
}

fn count(commands: &[Command], nodes: &mut Nodes, out: &mut Links) {
    for command in commands {
        match command {
            Command::Read { rows, .. } => {
                each_run(*rows).for_each(|bytes| out.receive(bytes));
            }
            Command::Log { record, .. } => out.send(record.bytes(), 0),
            Command::Write { rows, .. } => each_run(*rows).for_each(|bytes| out.send(bytes, 0)),
            Command::Update { op, role, step, .. } => {
                let update = nodes.update(*op, *role, step);
                let filled = u64::from(update.fills) * u64::from(update.len);
                // Numbers of a plan fit their fields.
                let descriptor = wire::encode_update(&update).map_or(0, |(_, bytes)| bytes.len() as u64);
                out.send(filled, descriptor);
                out.between += sent_between(&update);
            }
            Command::Fetch { rows, .. } => out.receive(u64::from(rows.count()) * BLOCK),
            Command::Gather { op, role, step } => {
                let update = nodes.stretch(*op, *role, step);
                let descriptor = wire::encode_update(&update).map_or(0, |(_, bytes)| bytes.len() as u64);
                out.send(0, descriptor);
                out.between += sent_between(&update);
            }
            Command::Store { .. } | Command::StoreStretch { .. } | Command::Flush { .. } => out.send(0, 0),
            Command::Put { bytes, .. } => out.send(bytes.len() as u64, 0),
            // From the log into place: only in recovery.
            Command::Copy { .. } | Command::Fold { .. } => {}
        }
    }
}

fn each_run(rows: Rows) -> impl Iterator<Item = u64> {
    runs(rows).into_iter().map(|run| run.len() as u64 * BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_chunks_are_planned_as_if_they_were_played_whole() {
        for (level, members, nodes) in
            [(Level::Raid5, 3, 1), (Level::Raid5, 5, 3), (Level::Raid6, 6, 4), (Level::Raid6, 9, 2)]
        {
            for (log, offload, chunk_bytes) in [
                (true, true, 128 << 10),
                (true, false, 128 << 10),
                (false, true, 512 << 10),
                (false, false, 1 << 20),
            ] {
                let layout = Some(Layout::LeftSymmetric);
                let spec = PlanSpec { level, layout, members, nodes, chunk_bytes, log, offload };
                for work in Work::ALL {
                    let (planned, played) = (plan(&spec, work).unwrap(), plan_whole(&spec, work).unwrap());
                    assert_eq!(planned, played, "{spec:?} {work:?}");
                }
            }
        }
    }
}
