//! Linux md on disk and in geometry: superblocks, bitmaps, layouts, assembly, scrub plan and
//! diagnosis, as pure logic.
//!
//! Bytes are read through [`ReadAt`]; nothing here opens or writes a device or reads a clock. The
//! steps:
//!
//! 1. [`probe()`] reads one device and returns its [`MemberRecord`], or an error that names the
//!    invalid field.
//! 2. [`assemble`] makes an [`Array`] from the records of all members, or says which contradict
//!    each other.
//! 3. [`Array::plan`] says which stripes can be checked and why the others cannot.
//! 4. [`geometry::Geometry`] says where in those stripes data and parity lie.
//! 5. [`InspectReport`] describes a set of devices, whole or broken, for people.
//!
//! The byte maps of everything read and written are in `docs/reference/on-disk/md.md`.

pub mod area;
pub mod arrangement;
pub mod assembly;
pub mod bad_blocks;
pub mod bitmap;
mod bytes;
pub mod copies;
pub mod diagnosis;
pub mod foreign;
pub mod geometry;
pub mod inspect;
pub mod invalid;
pub mod journal;
pub mod layout;
pub mod lvm;
mod metadata;
pub mod mirrors;
pub mod plan;
pub mod ppl;
pub mod probe;
mod read_at;
pub mod superblock;
mod uuid;
pub mod writer;

pub use assembly::{Array, AssemblyError, assemble};
pub use inspect::InspectReport;
pub use metadata::Metadata;
pub use probe::{Known, MemberRecord, ProbeError, probe, probe_at, probe_for, probe_together};
pub use read_at::ReadAt;
pub use uuid::Uuid;
pub use writer::FormatSpec;
