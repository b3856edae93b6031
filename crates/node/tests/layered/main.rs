//! The server over streams that are no sockets: tests of sessions, over a layer that buffers, that
//! writes in order to read and reads in order to write. A layer for TLS meets the same callers.

#[path = "../serve/deallocate.rs"]
mod deallocate;
#[path = "../serve/durability.rs"]
mod durability;
#[path = "../serve/lanes.rs"]
mod lanes;
#[path = "../serve/lost_writes.rs"]
mod lost_writes;
#[path = "../serve/memory.rs"]
mod memory;
#[path = "../serve/orphans.rs"]
mod orphans;
#[path = "../serve/panics.rs"]
mod panics;
mod session;
#[path = "../serve/starving.rs"]
mod starving;
#[path = "../serve/superblocks.rs"]
mod superblocks;
#[path = "../serve/tags.rs"]
mod tags;
#[path = "../../../remote/tests/layered/toy.rs"]
mod toy;
#[path = "../serve/unreadable.rs"]
mod unreadable;
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../serve/world.rs"]
mod world;

/// The transport of the connections in these tests.
mod over {
    use crate::toy::Toys;
    use pumice_remote::transport::Transport;
    use std::sync::Arc;

    /// A layer.
    pub(crate) fn transport() -> Arc<dyn Transport> {
        Arc::new(Toys)
    }
}
