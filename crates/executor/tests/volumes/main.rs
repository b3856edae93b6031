//! Volumes over drives that are real parts: nodes of this process, drives in memory that fail from
//! a seed, nodes behind sockets.

mod crash;
mod near;
mod network;
mod plain;
mod refusals;
mod world;
mod writer;
