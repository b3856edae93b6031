//! The ledger: every byte counted by the place it crosses.
//!
//! The rules of accounting, and what each place means, are in `docs/design/accounting.md`.

mod ledger;

pub use ledger::{Ledger, Place};
