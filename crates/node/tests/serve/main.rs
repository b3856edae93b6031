//! The server from outside: a host on loopback, a real server, and devices that say what became of what was asked of them.

mod bounds;
mod deallocate;
mod durability;
mod memory;
mod orphans;
mod panics;
mod superblocks;
mod unreadable;
mod world;
