//! The command from outside.

mod contract;
mod network;
mod small_array;
mod wrong_inputs;
