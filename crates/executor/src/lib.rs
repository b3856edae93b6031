//! Carries out the steps of volumes.
//!
//! ```text
//! users ─▶ VolumeDevice ─▶ engine: one thread ─▶ volume::Volume decides
//!                            │  ▲                     │ actions
//!                            ▼  │ ended               ▼
//!                          queues of operations on the members' nodes
//! ```
//!
//! `volume` decides every step and holds no bytes; here are the bytes, the drives and the clock.
//! Members may be drives of this process or of nodes far away: both are a
//! [`DataNode`](pumice_offload::DataNode). `docs/design/volumes.md` has the promises and the rules.

mod absent;
mod answers;
mod back;
mod buffers;
mod carry;
mod claim;
mod clock;
mod control;
mod create;
mod device;
mod drive;
mod ends;
mod engine;
mod erase;
mod error;
mod joining;
mod kept;
mod look;
mod losses;
mod message;
mod near;
mod pace;
mod plan;
mod pool;
mod random;
mod ranges;
mod release;
mod reply;
mod return_times;
mod served;
mod slab;
mod state;

pub use absent::{Absence, Cause, MemberError};
pub use answers::{Answers, Ended, ReadBytes};
pub use claim::{Claim, ClaimAsked};
pub use control::Control;
pub use create::{CreateError, CreateSpec, create};
pub use device::VolumeDevice;
pub use drive::MemberDrive;
pub use erase::erase;
pub use error::OpenError;
pub use look::{Found, find, find_all};
pub use plan::{Links, Moved, PlanSpec, Work, plan};
pub use pumice_volume::choice::{Class, Standing, Way};
pub use release::{Released, release};
pub use return_times::ReturnTimes;
pub use served::{OpenOptions, ServedVolume, open, opens_without};
pub use state::{Consistency, ControlError, Facts, Offload, Status};
