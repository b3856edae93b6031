//! Rest: nothing is under way; and the end.

use super::Machine;

impl Machine {
    /// Returns whether it takes writes: the tag file has not failed, and was not closed.
    #[must_use]
    pub const fn takes_writes(&self) -> bool {
        !(self.failed || self.closed)
    }

    /// Refuses writes from now on.
    ///
    /// # Panics
    /// If it is not [at rest](Self::is_at_rest).
    pub fn close(&mut self) {
        assert!(self.is_at_rest(), "something is under way");
        self.closed = true;
    }

    /// Returns whether nothing is under way, every page is in its place, and every record is
    /// released.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.is_idle() && !self.cache.has_dirty() && self.checkpoint.has_released(self.last)
    }

    /// Returns whether no command and no checkpoint is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.commands.is_empty()
            && self.flushing.is_none()
            && self.to_flush.is_empty()
            && self.checkpoint.is_idle()
    }
}
