//! Looking at a drive that nobody serves, and what can be repaired of it.

use crate::device::error::FlashError;
use crate::device::layer::mount;
use crate::device::layout::copy_at;
use crate::device::overlay::Overlay;
use crate::device::place::{at_path, copy_of, open_device, superblock_of};
use crate::device::superblock::{Superblock, SuperblockError};
use crate::ftl::{Census, FtlError, Stats};
use pumice_blockdev::{BlockDevice, DeviceMedium, FileDevice, OpenMode, Options};
use std::path::Path;
use std::sync::Arc;

/// A logical page that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedPage {
    /// The logical page.
    pub lpn: u32,
    /// The reason.
    pub error: FtlError,
}

/// The contents of a drive.
#[derive(Debug)]
pub struct Examined {
    /// The fixed facts of it.
    pub superblock: Superblock,
    /// Slots of the superblock that are not as they should be: two at the start, two at the end.
    pub damaged_slots: [bool; 4],
    /// The counts of its contents.
    pub census: Census,
    /// The counts of its work since it was formatted.
    pub stats: Stats,
    /// Fewest, mean and most erases of the blocks that hold data.
    pub wear: (u32, f64, u32),
    /// Logical pages that were read.
    pub pages_read: u32,
    /// Those of them that cannot be read.
    pub damaged: Vec<DamagedPage>,
    /// Tables that contradict each other; none in a sound drive.
    pub contradictions: Vec<String>,
    /// It was closed. If not, what was flushed last cannot be told from what a cut took, should its
    /// tags be lost: nothing shows then that older versions stand.
    pub was_closed: bool,
    /// The durable data that are lost: tags, and contents of logical pages. The drive can be
    /// recovered only without them.
    pub lost: Vec<FtlError>,
}

impl Examined {
    /// Returns whether anything is wrong with it.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty()
            && self.contradictions.is_empty()
            && self.lost.is_empty()
            && self.damaged_slots == [false; 4]
    }
}

fn slots_of(path: &Path, device: &Arc<FileDevice>, superblock: &Superblock) -> Result<[bool; 4], FlashError> {
    let medium = DeviceMedium(Arc::clone(device) as _);
    let start = at_path(path, superblock.damaged_slots(&medium, 0))?;
    let end = at_path(path, superblock.damaged_slots(&medium, copy_at(device.size_bytes())))?;
    Ok([start[0], start[1], end[0], end[1]])
}

/// The superblock, or its copy.
fn either_superblock(path: &Path, device: &Arc<FileDevice>) -> Result<Superblock, FlashError> {
    match superblock_of(path, device) {
        Err(FlashError::CopyLeft(_)) => copy_of(path, device)?.ok_or_else(|| FlashError::Superblock {
            path: path.display().to_string(),
            source: SuperblockError::None,
        }),
        other => other,
    }
}

/// Recovers a drive in memory, and looks at it; nothing is written. If `every_page` says so, every
/// mapped page is read. `accept_lost_tags`: what was durable and is lost is passed over and named.
///
/// # Errors
/// If somebody has the drive open for writing, or it cannot be recovered.
pub fn examine(path: &Path, every_page: bool, accept_lost_tags: bool) -> Result<Examined, FlashError> {
    let device = Arc::new(FileDevice::open(path, OpenMode::ReadOnly, Options::default())?);
    if device.locked_by_another()? || device.held_by_kernel()? {
        return Err(FlashError::InUse(path.display().to_string()));
    }
    let superblock = either_superblock(path, &device)?;
    let damaged_slots = slots_of(path, &device, &superblock)?;
    let medium = Overlay::new(DeviceMedium(Arc::clone(&device) as _));
    let mut layer = mount(medium, &superblock, superblock.scheme, accept_lost_tags, &mut |_| {})
        .map_err(|source| FlashError::Ftl { path: path.display().to_string(), source })?;
    let (mut damaged, mut pages_read) = (Vec::new(), 0);
    let wanted = if every_page { superblock.logical } else { 0 };
    for lpn in 0..wanted {
        if layer.map().lookup(lpn).is_some() {
            pages_read += 1;
            damaged.extend(layer.read(lpn, 0).err().map(|error| DamagedPage { lpn, error }));
        }
    }
    let contradictions = if every_page { layer.contradictions() } else { Vec::new() };
    let lost = layer.passed_over();
    let (census, stats, wear) = (layer.census(), layer.stats(), layer.wear());
    let was_closed = layer.was_closed();
    Ok(Examined {
        superblock,
        damaged_slots,
        census,
        stats,
        wear,
        pages_read,
        damaged,
        contradictions,
        was_closed,
        lost,
    })
}

/// The repairs that were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repaired {
    /// Slots of the superblock that were written again.
    pub slots: usize,
    /// The drive was recovered without durable pages whose tags are lost.
    pub accepted_lost_tags: bool,
}

/// Writes damaged superblocks again; with `accept_lost_tags` also recovers the drive without
/// durable pages whose tags are lost: logical pages that a record or the checkpoint names cannot be
/// read then, and of others an older version stands.
///
/// # Errors
/// If somebody has the drive open, or it cannot be repaired.
pub fn repair(path: &Path, accept_lost_tags: bool) -> Result<Repaired, FlashError> {
    let device = Arc::new(open_device(path)?);
    let superblock = either_superblock(path, &device)?;
    let damaged = slots_of(path, &device, &superblock)?;
    let medium = DeviceMedium(Arc::clone(&device) as _);
    for (slots, at) in damaged.chunks(2).zip([0, copy_at(device.size_bytes())]) {
        if slots.contains(&true) {
            at_path(path, superblock.write(&medium, at))?;
        }
    }
    if accept_lost_tags {
        // Mounting ends with a checkpoint, which is durable.
        mount(medium, &superblock, superblock.scheme, true, &mut |_| {})
            .map_err(|source| FlashError::Ftl { path: path.display().to_string(), source })?;
    }
    let slots = damaged.iter().filter(|damaged| **damaged).count();
    Ok(Repaired { slots, accepted_lost_tags: accept_lost_tags })
}
