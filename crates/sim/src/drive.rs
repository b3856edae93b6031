//! Models of drives: how long foreground and background requests take.

mod disk;
mod nvme;
mod table;

pub use disk::Disk;
pub use nvme::Nvme;
pub use table::Drive;

use crate::trace::Request;
use pumice_pacer::Nanos;

/// The foreground alone: when each request would be done without background work.
#[derive(Debug, Clone)]
pub struct Baseline {
    model: Model,
}

#[derive(Debug, Clone)]
enum Model {
    Disk(Disk),
    Nvme(Nvme),
}

impl Baseline {
    /// A drive at rest, with `capacity` bytes.
    #[must_use]
    pub fn new(drive: Drive, capacity: u64) -> Self {
        let model = match drive {
            Drive::Nvme => Model::Nvme(Nvme::new()),
            _ => Model::Disk(Disk::new(capacity)),
        };
        Self { model }
    }

    /// Time at which a request is done: as recorded, if the trace says it, or else by the model.
    /// Requests come by growing arrival time.
    pub fn complete(&mut self, request: &Request) -> Nanos {
        if let Some(response) = request.response {
            return request.at.saturating_add(response);
        }
        match &mut self.model {
            Model::Disk(disk) => disk.complete(request),
            Model::Nvme(nvme) => nvme.complete(request),
        }
    }
}
