//! Timing and size of background requests to a drive.
//!
//! After *Practical scrubbing: Getting to the bad sector at the right time* (Amvrosiadis, Oprea,
//! Schroeder, DSN 2012): background work waits for idleness that will probably last, and its
//! requests are as large as a stated slowdown of the foreground allows.
//!
//! Everything here is pure: time is an argument, in nanoseconds since any fixed moment. The
//! simulator and the data node drive the same [`Pacer`]. `docs/design/pacing.md` has the policies
//! and how they are tuned.

mod account;
mod answers;
mod baseline;
mod bucket;
mod config;
mod cost;
mod echo;
mod figures;
mod goal;
mod hazard;
mod history;
mod latency;
mod live;
mod log_counts;
mod mood;
mod pacer;
mod period;
mod policy;
mod price;
mod pricing;
mod service;
mod starter;
mod window;
mod work;

pub use account::Account;
pub use bucket::TokenBucket;
pub use config::{Charge, Config};
pub use figures::{Figures, Times};
pub use goal::{Goal, Percentile};
pub use hazard::Hazard;
pub use history::{History, Idle};
pub use latency::Latency;
pub use log_counts::LogCounts;
pub use pacer::{Decision, Pacer};
pub use policy::Policy;
pub use service::{CurveError, SIZES, ServiceCurve};
pub use starter::{Begin, NoStarter, Rest, Starter};
pub use window::{WindowError, Windows};
pub use work::{KINDS, Kind, Works};

/// Nanoseconds, of a duration or since a fixed moment.
pub type Nanos = u64;
