//! GF(2^8) parity kernels, erasure codes, bit-plane fingerprints and diagnosis of syndromes.
//!
//! Pure: no clock, no file, no thread.

pub mod array_layout;
pub mod check_matrix;
pub mod class_plan;
pub mod code;
pub mod evidence;
pub mod fingerprint;
pub mod gf;
pub mod gf64;
pub mod isa;
pub mod kernels;
mod linear;
pub mod locate;
pub mod matrix;
pub mod patterns;
pub mod planes;
pub mod seed;
mod self_test;
mod shuffle;
pub mod weights;

pub use self_test::SelfTestError;
