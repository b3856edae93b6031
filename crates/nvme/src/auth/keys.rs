//! Keys as texts, and what is derived from them. `docs/reference/keys.md` has the forms and the
//! formulas.

pub mod chap;
pub mod identity;
pub mod psk;
mod text;

pub use text::KeyError;
