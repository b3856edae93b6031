//! Writing an md array: decisions as pure steps.
//!
//! ```text
//! requests, completions, ticks ──▶ Volume ──▶ actions (read, fold, log, write, …), answers
//!                                    │
//!          plan        one row: which blocks are read, how the new ones follow
//!          sequencer   who works on a window
//!          intent      md's bitmap: set before a write, cleared lazily after
//!          log         the stripe log: records, room, replay
//!          member      md's superblocks and bad blocks of one member
//!          assemble    what a crash left, and what is done about it
//!          losses      which hosts were told of writes that were lost
//! ```
//!
//! Nothing here has a thread, a clock or a device, and user data never pass through: an executor
//! holds the bytes, on this machine or where the drives are. `docs/design/volumes.md` says what is
//! promised and why the steps keep it, `docs/reference/on-disk/stripe-log.md` what lies on the
//! members.

pub mod action;
pub mod assemble;
pub mod choice;
pub mod dry;
mod intent;
pub mod log;
pub mod losses;
pub mod member;
pub mod near;
mod older;
pub mod plan;
mod refusal;
pub mod rows;
pub mod sequencer;
pub mod token;
mod volume;

pub use action::{
    Action, ActionId, ClaimId, Command, Effect, Event, Outcome, Request, RequestError, RequestId,
};
pub use assemble::{Assembly, MemberLook, Refusal, Report, assemble};
pub use member::MemberPlace;
pub use volume::Volume;
