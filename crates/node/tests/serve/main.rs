//! The server from outside: a host on loopback, a real server, and devices that say what became of
//! what was asked of them.

mod bounds;
mod budgets;
mod deallocate;
mod durability;
mod flash;
mod lanes;
mod listen;
mod lost_files;
mod lost_writes;
mod memory;
mod orphans;
mod panics;
mod starving;
mod superblocks;
mod tags;
mod unreadable;
mod visibility;
mod visible;
mod world;

/// The transport of the connections in these tests.
mod over {
    use pumice_remote::transport::{Plain, Transport};
    use std::sync::Arc;

    /// TCP itself.
    pub(crate) fn transport() -> Arc<dyn Transport> {
        Arc::new(Plain)
    }
}
