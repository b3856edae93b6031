//! The command from outside.

mod bad_network;
mod connections;
mod contract;
mod degraded;
mod documented;
mod flash;
mod identity;
mod kills;
mod leaving;
mod mirrors;
mod network;
mod nodes;
mod online;
mod orders;
mod output;
mod pacing;
mod program;
mod protect;
mod repairs;
mod signals;
mod small_array;
mod stale;
mod witness;
mod wrong_inputs;
