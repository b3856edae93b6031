//! How long a thread looks for what it waits for before it sleeps.

/// Looks before it sleeps: they take as long as a short write, and sleep costs as much.
const LOOKS: u32 = 16;
/// Turns of an idle loop between two looks; 16 take less than a microsecond.
const TURNS: u32 = 16;

/// Looks of a thread for one event.
#[derive(Debug, Default)]
pub(crate) struct Looks(u32);

impl Looks {
    /// Whether it is time to sleep.
    pub(crate) fn are_over(&self) -> bool {
        self.0 == LOOKS
    }

    /// Lets a moment pass before the next look.
    pub(crate) fn pass(&mut self) {
        self.0 = (self.0 + 1).min(LOOKS);
        (0..TURNS).for_each(|_| std::hint::spin_loop());
    }
}
