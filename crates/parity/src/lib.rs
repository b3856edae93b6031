//! GF(2^8) parity kernels, erasure codes, bit-plane fingerprints and diagnosis of syndromes.

pub mod gf;
pub mod planes;
