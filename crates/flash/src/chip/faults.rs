//! Faults that a model of flash plays, all from one seed.

use crate::chip::Random;

/// Damage to a content by a fault.
pub trait Tear: Clone {
    /// The content half programmed. `random` decides how.
    #[must_use]
    fn torn(&self, random: u64) -> Self;
    /// The content after one bit of it changed. `random` decides which.
    #[must_use]
    fn rotten(&self, random: u64) -> Self;
}

impl Tear for Vec<u8> {
    fn torn(&self, random: u64) -> Self {
        let mut torn = self.clone();
        let from = (random % (self.len() as u64).max(1)) as usize;
        torn[from..].fill(0xff);
        torn
    }

    fn rotten(&self, random: u64) -> Self {
        let mut rotten = self.clone();
        if !rotten.is_empty() {
            let bit = random % (self.len() as u64 * 8);
            rotten[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        rotten
    }
}

/// Kinds and rates of the faults that a model plays. All is off by default.
#[derive(Debug, Clone)]
pub struct Faults {
    /// Decides every fault.
    pub random: Random,
    /// One program operation in so many fails; 0: none.
    pub program_odds: u64,
    /// One erase operation in so many fails; 0: none.
    pub erase_odds: u64,
    /// True if the power may be cut: the model then remembers what is not durable yet.
    pub cuts: bool,
    /// The power is cut in the program, erase or sync operation after so many others.
    pub cut_after: Option<u64>,
}

impl Faults {
    /// No faults, until something is changed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self { random: Random::new(seed), program_odds: 0, erase_odds: 0, cuts: false, cut_after: None }
    }
}
