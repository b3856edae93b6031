//! A flash translation layer: logical pages on flash, with deduplication and recovery.
//! `docs/design/ftl.md` explains it.
//!
//! [`Ftl`] works on any [`crate::chip::Nand`] whose pages carry a [`Tag`]: on bytes through
//! [`Coded`], with a [`NandJournal`], for a drive; or on [`ContentId`]s, without a journal, for
//! simulations. It is pure: times and idle periods are arguments.

mod blocks;
mod coded;
mod content;
mod dedup;
mod error;
mod fingerprint;
mod journal;
mod layer;
mod map;
mod progress;
mod stats;
mod sums;
mod table;
mod tag;
mod victim;

pub use coded::Coded;
pub use content::{Bytes, Content, ContentId, weak_hash};
pub use dedup::{Lookup, Placement, Plan, Scheme, Stream, Way};
pub use error::FtlError;
pub use fingerprint::Fingerprint;
pub use journal::{Image, Journal, LogPlace, NandJournal, NoJournal, Record};
pub use layer::{BlockCount, Census, Config, Flush, Ftl, HashTimes, recover, recover_telling};
pub use map::{Map, Owner};
pub use progress::Progress;
pub use stats::Stats;
pub use sums::{DataSum, Keyed, Secret, Sums};
pub use tag::{Kind, Tag, Tails};
pub use victim::{BlockFacts, Greedy, Victim};
