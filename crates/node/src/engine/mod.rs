//! The parity engine: a command in, folded rows out.

mod fingerprint;
mod fold;
mod media;
mod memory;
mod paced;
mod permit;
mod section;
mod shape;
mod tags;
mod unreadable;

pub(crate) use fold::Fold;
pub(crate) use media::{MediaJob, MediaSource, Worker};
pub(crate) use memory::fold_memory;
pub(crate) use permit::Permit;
use section::Section;
use shape::Shape;
