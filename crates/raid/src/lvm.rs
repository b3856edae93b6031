//! LVM on disk, as pure logic: labels, metadata areas, the text of volume groups, and RAID volumes
//! as arrays whose images lie in pieces on physical volumes.
//!
//! Bytes are read through [`crate::ReadAt`]; nothing here opens or writes a device. The
//! steps:
//!
//! 1. [`label::read`] finds the label of a device, and [`area::read`] the text of each of its
//!    metadata areas.
//! 2. [`text::parse`] reads the grammar, [`group::Group::of`] makes typed volumes of it.
//! 3. [`pieces::pieces`] follows a logical volume to bytes of physical volumes.
//! 4. [`volume::RaidVolume`] joins the text with the superblocks of the images
//!    ([`dm_raid::Superblock`]), and has the arrangement that an md array of this kind has.
//! 5. [`survey()`] does all of this for a set of devices, and says which text counts.
//!
//! Formats and rules are in `docs/reference/on-disk/lvm.md`.

pub mod area;
mod bytes;
pub mod dm_raid;
pub mod group;
pub mod id;
pub mod kind;
pub mod label;
pub mod pieces;
mod survey;
pub mod text;
pub mod volume;

pub use id::Id;
pub use survey::{
    Assembled, Candidate, Device, DeviceProblem, FoundDevice, FoundGroup, GroupProblem, Survey, UnknownText,
    survey,
};
pub use volume::{RaidVolume, Refusal};
