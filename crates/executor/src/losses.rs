//! The losses of a volume as its threads share them.

use pumice_blockdev::Asker;
use pumice_volume::losses::{Losses, Untold, Way};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The way of an answer: a connection.
#[derive(Debug, Clone)]
pub(crate) struct To(Asker);

impl Way for To {
    fn is_gone(&self) -> bool {
        self.0.is_gone()
    }
}

/// Losses, and who was told.
#[derive(Debug, Default)]
pub(crate) struct SharedLosses(Mutex<Losses<To>>);

impl SharedLosses {
    fn lock(&self) -> MutexGuard<'_, Losses<To>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> u64 {
        self.lock().count()
    }

    pub(crate) fn lose(&self) {
        self.lock().lose();
    }

    pub(crate) fn writes(&self, asker: &Asker) {
        self.lock().writes(asker.host);
    }

    pub(crate) fn flush_begins(&self, asker: &Asker) -> Result<u64, Untold> {
        self.lock().flush_begins(asker.host, &To(asker.clone()))
    }

    pub(crate) fn flush_ends(&self, asker: &Asker, began: u64) -> Result<(), Untold> {
        self.lock().flush_ends(asker.host, &To(asker.clone()), began)
    }
}
