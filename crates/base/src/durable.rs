//! Small records that survive a crash.
//!
//! ```text
//! Store (a folder of small files)        Medium (bytes at offsets)
//!   ├── Folder: the file system            ├── StoreFile: one file of a store
//!   └── FaultyStore: faults from a seed    └── whatever a caller has, such as part of a drive
//!   replace, remove, sweep                 Slots: a record replaced in place
//!   Envelope: magic, version, checksum     Ring: a bounded log
//! ```
//!
//! `docs/reference/on-disk/durable.md` has the byte maps and the fault model. This crate depends on
//! no other crate of Pumice.

mod envelope;
mod faulty;
mod folder;
mod held;
mod medium;
mod ring;
mod slots;
mod store;
mod unfinished;
mod whole;

pub use envelope::{BadEnvelope, Envelope};
pub use faulty::FaultyStore;
pub use folder::{Folder, Lock};
pub use held::Held;
pub use medium::{Medium, StoreFile};
pub use ring::{Entry, Prepared, Ring, RingError, Run};
pub use slots::{SlotRecord, Slots};
pub use store::Store;
pub use unfinished::{Unfinished, remove_unfinished};
pub use whole::{remove, replace, sweep};
