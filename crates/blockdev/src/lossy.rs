//! Devices that may lose what they have answered, and go on.

use crate::IoError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The sender of a request.
#[derive(Debug, Clone)]
pub struct Asker {
    /// Identifier of this host among all others; zeros for this process itself.
    pub host: [u8; 32],
    /// True once the connection is gone over which the answer goes.
    pub gone: Arc<AtomicBool>,
}

impl Asker {
    /// This process.
    #[must_use]
    pub fn own() -> Self {
        Self { host: [0; 32], gone: Arc::default() }
    }

    /// Returns whether its connection is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        // Relaxed: it is only ever raised.
        self.gone.load(Ordering::Relaxed)
    }
}

/// A device that may lose writes which it has answered and not flushed, and goes on: the caches of
/// its drives lost power, and it did not. Each host is told by a Flush of its own that fails.
pub trait Lossy: Send + Sync {
    /// Number of times that it has lost writes, as far as it knows. Data written before the count
    /// rose may be lost. Data answered after that are there.
    fn losses(&self) -> u64;

    /// A host writes: losses from now on concern it.
    fn writes(&self, asker: &Asker);

    /// The flush of a host.
    ///
    /// # Errors
    /// As [`flush`](crate::BlockDevice::flush). And if writes were lost of which the host was not
    /// told yet: once for each loss, and again if the connection of the answer is lost.
    fn flush_of(&self, asker: &Asker) -> Result<(), IoError>;

    /// Makes everything durable that was answered, as part of something else. A caller that relies
    /// on it compares [`losses`](Self::losses) before the first write and after this.
    ///
    /// # Errors
    /// If the medium fails. Never for what was lost before: that is told to a Flush.
    fn settle(&self) -> Result<(), IoError>;
}
