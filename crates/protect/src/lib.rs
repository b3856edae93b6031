//! NVMe protection information: guards, tuples, checks, and streams that insert and strip them.
//!
//! Pure: no clock, no file, no thread. `docs/design/protection-information.md` has the byte maps,
//! the rules and the algebra.

mod algebra;
pub mod block_format;
pub mod blocks;
pub mod command;
pub mod digest;
pub mod face;
pub mod format;
pub mod guard;
pub mod isa;
pub mod kernels;
pub mod keyed;
pub mod metadata;
pub mod misdirected;
pub mod origin;
mod self_test;
pub mod stream;
pub mod tuple;
pub mod verdict;

pub use self_test::SelfTestError;
