//! The reasons why a RAID volume is not read.

use crate::geometry::GeometryError;
use crate::invalid::Invalid;
use thiserror::Error;

use crate::lvm::kind::RaidKind;
use crate::lvm::pieces::PiecesError;

/// The reason why a RAID volume is not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Other hosts may write; the word that says so.
    #[error("the group is shared ({0}): another host may write")]
    Shared(String),
    /// A word of state that is not known.
    #[error("{volume}: status {word} is not known")]
    Status {
        /// The volume, or the group.
        volume: String,
        /// The word.
        word: String,
    },
    /// More than one segment.
    #[error("it has {0} segments; a RAID volume has one")]
    Segments(usize),
    /// A suffix of its type.
    #[error("its type says {0}")]
    Suffix(String),
    /// Extents that do not fit its images.
    #[error("{extents} extents cannot be those of {kind} with {images} images")]
    Size {
        /// The type.
        kind: RaidKind,
        /// Images.
        images: u16,
        /// Extents of the volume.
        extents: u64,
    },
    /// An image of another length.
    #[error("image {role} has {found} extents; must have {needed}")]
    ImageLength {
        /// The role.
        role: u16,
        /// Its extents.
        found: u64,
        /// The extents of every image.
        needed: u64,
    },
    /// Chunks that do not fill an image. The kernel cannot run such a volume to its end.
    #[error("an image's data are {bytes} bytes; must be a multiple of the chunk, {chunk}")]
    Chunk {
        /// Data of an image.
        bytes: u64,
        /// Bytes of a chunk.
        chunk: u64,
    },
    /// An arrangement that is not supported.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A part that cannot be followed to physical volumes.
    #[error("{volume}: {why}")]
    Pieces {
        /// The part.
        volume: String,
        /// The reason.
        why: PiecesError,
    },
    /// An rmeta of zeros, or of an image that was never part of the array.
    #[error("rmeta of image {0} holds no RAID superblock")]
    NoSuperblock(u16),
    /// A superblock that cannot be read.
    #[error("rmeta of image {role}: {error}")]
    Superblock {
        /// The role.
        role: u16,
        /// The field.
        error: Invalid,
    },
    /// A reshape.
    #[error("a reshape is under way: {field} in rmeta of image {role}")]
    Reshape {
        /// The role.
        role: u16,
        /// The field, and its value.
        field: String,
    },
    /// A superblock that says other than the text.
    #[error("rmeta of image {role}: {field} is {found}; must be {text}, as the text says")]
    Text {
        /// The role.
        role: u16,
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// The value in the text.
        text: String,
    },
    /// Superblocks that contradict each other.
    #[error("images {} and {} disagree on {field}: {} and {}", .roles.0, .roles.1, .found.0, .found.1)]
    Images {
        /// Two roles.
        roles: (u16, u16),
        /// The field.
        field: &'static str,
        /// Their values.
        found: (String, String),
    },
    /// No image with a superblock.
    #[error("none of its images is there")]
    NoImage,
}
