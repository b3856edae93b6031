//! The ledger: every byte counted by the place it crosses.
