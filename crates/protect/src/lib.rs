//! NVMe protection information: guards, tuples, checks, and streams that insert and strip them.
//!
//! Pure: no clock, no file, no thread. `docs/protection-information.md` has the byte maps, the rules and the algebra.

mod algebra;
pub mod guard;
pub mod isa;
pub mod kernels;
