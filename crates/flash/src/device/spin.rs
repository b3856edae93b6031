//! The time for which a thread looks for what it waits for before it sleeps.

/// Looks before it sleeps. With nobody else to run, they take as long as a few short writes.
const LOOKS: u32 = 16;

/// Looks of a thread for one event.
#[derive(Debug, Default)]
pub(crate) struct Looks(u32);

impl Looks {
    /// Returns whether it is time to sleep.
    pub(crate) fn are_over(&self) -> bool {
        self.0 == LOOKS
    }

    /// Lets others run before the next look. A thread that ran on instead would take the processor
    /// from the one that it waits for, and one that sleeps returns long after it is woken.
    pub(crate) fn pass(&mut self) {
        self.0 = (self.0 + 1).min(LOOKS);
        std::thread::yield_now();
    }
}
