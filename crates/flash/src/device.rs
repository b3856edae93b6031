//! A flash drive in a file or on a device. `docs/reference/on-disk/flash.md` has the byte map.
//!
//! ```text
//! FlashDrive (a BlockDevice) ── Ftl (crate ftl, pure: map, streams, garbage collection, dedup)
//!        │                        │
//!        │ reads of known pages   └── Coded (tags, sums) ── FileNand (blocks, footers)
//!        │                                                     │
//!        │                  Queued: writes wait here (Outbox) ─┘ and are made without the lock
//!        └──────────────── file or device ─────┘
//! ```

mod ahead;
mod behind;
mod check;
mod drive;
mod error;
mod flushes;
mod layer;
mod layout;
mod nand;
mod outbox;
mod overlay;
mod page;
mod place;
mod queued;
mod spec;
mod spin;
mod superblock;

pub use crate::ftl::Progress;
pub use check::{DamagedPage, Examined, Repaired, examine, repair};
pub use drive::FlashDrive;
pub use error::FlashError;
pub use layout::{Layout, LayoutError, OOB_BYTES, PAGE_BYTES};
pub use nand::FileNand;
pub use outbox::{Job, Outbox};
pub use overlay::Overlay;
pub use page::Page;
pub use place::{check_place, format, in_memory, is_drive, open, open_telling, plan};
pub use spec::{FlashSpec, bare, format_op};
pub use superblock::{Superblock, SuperblockError};
