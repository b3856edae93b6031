//! Parts that all crates use: units, memory for direct I/O, the ledger of bytes, and small records
//! that survive a crash.

pub mod buffer;
pub mod durable;
pub mod telemetry;
pub mod units;
