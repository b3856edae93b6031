//! The command from outside.

mod connections;
mod contract;
mod network;
mod small_array;
mod wrong_inputs;
