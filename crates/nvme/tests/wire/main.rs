//! The protocol from outside: golden bytes, both ends against each other in virtual time, and what
//! breaks a connection.

mod admin;
mod announced;
mod budgets;
mod discovery;
mod documented;
mod faces;
mod golden;
mod host_violations;
mod identity;
mod pages;
mod pair;
mod ports;
mod proving;
mod refused;
mod replay;
mod silence;
mod violations;
mod warnings;
mod world;
