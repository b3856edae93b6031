//! Traces, models of drives, and studies of background work under virtual time.
//!
//! The pacer is that of `pumice-pacer`, the very code that a data node runs. The policies that it
//! is compared with, and the upper bounds that know the future, live here. `docs/design/pacing.md`
//! says what the studies mean.

mod drive;
mod engine;
mod error;
pub mod flash;
mod learner;
pub mod live;
pub mod offload;
pub mod order;
mod player;
pub mod plot;
mod predictor;
mod replay;
mod scan;
pub mod scrub;
mod slowdown;
pub mod stagger;
mod starts;
pub mod stats;
pub mod trace;
mod tuner;

pub use drive::{Baseline, Disk, Drive, Nvme};
pub use engine::Engine;
pub use error::StudyError;
pub use learner::Learner;
pub use player::{Oracle, Player};
pub use predictor::Predictor;
pub use replay::{Outcome, Sizing, Start};
pub use scan::{DeviceFacts, Scan};
pub use slowdown::{Slowdowns, TimeCounts};
pub use starts::{CFQ, Expectation, Studied, Tuning};
pub use tuner::{Advice, CUTOFFS, ENOUGH, Family, THRESHOLDS, Tuned, Tuner, WAITING_HELPS_ABOVE};
