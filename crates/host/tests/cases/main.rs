//! A model of repair under faults: every stripe is a case, and the oracle knows what is damaged.
//!
//! `docs/design/repair.md` has the rules. The short form runs here; `cargo xtask repair-cases` runs
//! more.

mod exhaustive;
mod faults;
mod judge;
mod random;
#[path = "../pass/world.rs"]
#[expect(dead_code, reason = "shared with the tests of whole passes, which use all of it")]
mod world;
