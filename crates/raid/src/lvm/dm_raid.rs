//! The superblock of dm-raid, which lies at the start of each rmeta volume.
//!
//! Layout: `docs/reference/on-disk/lvm.md`, read off volumes that Linux 6.12 wrote.

use crate::invalid::Invalid;
use pumice_base::units::Sectors;

use crate::lvm::bytes::{check, i32_at, u32_at, u64_at};

/// Bytes that are read of it.
pub const BYTES: usize = 512;
/// Start of the bitmap in the rmeta volume.
pub const BITMAP_START: u64 = 4096;
/// The position of an image that was never part of the array.
const NO_POSITION: u32 = u32::MAX;

const STRUCTURE: &str = "RAID superblock";

/// Content of a superblock. It has no checksum, so each field is believed only where the text, or
/// the other superblocks, say the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Images.
    pub num_devices: u32,
    /// The image's role; `None` if it was never part of the array.
    pub position: Option<u32>,
    /// Counts the changes of state.
    pub events: u64,
    /// Bit i: image i is out.
    pub failed: u64,
    /// Bits of images beyond 63.
    pub failed_beyond: bool,
    /// The image is good below; `None`: everywhere.
    pub recovery: Option<Sectors>,
    /// Redundancy is whole below; `None`: everywhere. Sectors of an image, for raid10 of the array.
    pub resync: Option<Sectors>,
    /// md's number of the level.
    pub level: u32,
    /// md's number of the layout.
    pub layout: u32,
    /// Sectors of a chunk; 0 for raid1.
    pub chunk_sectors: u32,
    /// Sectors of the image in front of its data.
    pub data_offset: Sectors,
    /// The first field by which a reshape shows, as text.
    pub reshape: Option<String>,
}

impl Superblock {
    /// Reads a superblock; `None` for bytes that are all zero: the image is new.
    ///
    /// # Errors
    /// If it is none, or has features that are not known.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Invalid> {
        check(bytes.len() >= BYTES, STRUCTURE, "length", bytes.len(), "at least 512")?;
        if bytes[..BYTES].iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        check(bytes.starts_with(b"DmRd"), STRUCTURE, "magic", bytes[..4].escape_ascii(), "DmRd")?;
        let (compat, incompat) = (u32_at(bytes, 4), u32_at(bytes, 144));
        check(compat == 1, STRUCTURE, "compat_features", compat, 1)?;
        check(incompat == 0, STRUCTURE, "incompat_features", incompat, 0)?;
        let position = u32_at(bytes, 12);
        let until = |at| Some(u64_at(bytes, at)).filter(|sector| *sector != u64::MAX).map(Sectors);
        Ok(Some(Self {
            num_devices: u32_at(bytes, 8),
            position: (position != NO_POSITION).then_some(position),
            events: u64_at(bytes, 16),
            failed: u64_at(bytes, 24),
            failed_beyond: (120..144).step_by(8).any(|at| u64_at(bytes, at) != 0),
            recovery: until(32),
            resync: until(40),
            level: u32_at(bytes, 48),
            layout: u32_at(bytes, 52),
            chunk_sectors: u32_at(bytes, 56),
            data_offset: Sectors(u64_at(bytes, 96)),
            reshape: reshape(bytes),
        }))
    }
}

/// The first field by which a reshape shows.
fn reshape(bytes: &[u8]) -> Option<String> {
    let word = |at| u64::from(u32_at(bytes, at));
    let fields = [
        ("flags", word(60), 0),
        ("reshape_position", u64_at(bytes, 64), u64::MAX),
        ("new_level", word(72), word(48)),
        ("new_layout", word(76), word(52)),
        ("new_stripe_sectors", word(80), word(56)),
        ("new_data_offset", u64_at(bytes, 104), u64_at(bytes, 96)),
    ];
    let delta = i32_at(bytes, 84);
    let differs = fields.into_iter().find(|(_, found, rest)| found != rest);
    let differs = differs.map(|(name, found, _)| format!("{name} is {found}"));
    differs.or_else(|| (delta != 0).then(|| format!("delta_disks is {delta}")))
}
