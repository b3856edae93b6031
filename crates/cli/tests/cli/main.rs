//! The command from outside.

mod connections;
mod contract;
mod degraded;
mod network;
mod online;
mod pacing;
mod small_array;
mod wrong_inputs;
