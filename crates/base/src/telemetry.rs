//! The ledger: counts of bytes for each place that they cross.
//!
//! The rules of accounting, and what each place means, are in `docs/design/accounting.md`.

mod ledger;

pub use ledger::{Ledger, Place};
