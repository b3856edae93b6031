//! Volumes over drives that are real parts: nodes of this process, drives in memory that fail from
//! a seed, nodes behind sockets.

mod back;
mod crash;
mod erase;
mod forged;
mod half;
mod near;
mod network;
mod plain;
#[path = "../../../remote/tests/network/proxy.rs"]
#[expect(dead_code, reason = "shared with the tests of remote nodes, which use all of it")]
mod proxy;
mod refusals;
mod returns;
mod strangers;
mod world;
mod writer;
