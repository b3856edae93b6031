//! Traces, models of drives, and studies of background work under virtual time.
//!
//! The policies are those of `pumice-pacer`, the very code that a data node runs; only the upper
//! bounds that know the future live here. `docs/design/pacing.md` says what the studies mean.

mod drive;
mod engine;
mod error;
pub mod flash;
mod learner;
pub mod live;
pub mod offload;
mod player;
pub mod plot;
mod scan;
pub mod scrub;
mod slowdown;
pub mod stagger;
pub mod stats;
pub mod trace;

pub use drive::{Baseline, Disk, Drive, Nvme};
pub use engine::Engine;
pub use error::StudyError;
pub use learner::Learner;
pub use player::{Oracle, Player};
pub use scan::{Scan, Seen};
pub use slowdown::{Slowdowns, TimeCounts};
