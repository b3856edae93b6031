//! The command from outside.

mod contract;
mod network;
mod online;
mod small_array;
mod wrong_inputs;
