//! The policies of a pacer: when background requests start.

use crate::starter::{NoStarter, Starter};

/// A start policy. `S` is the type of further ones, which only studies have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Policy<S = NoStarter> {
    /// One request after the other, whatever the foreground does.
    BackToBack {
        /// Bytes of each.
        bytes: u64,
    },
    /// The size that is worth most at each moment, by a learned hazard rate and a price for
    /// slowdown.
    Priced,
    /// Somebody else's policy.
    Other(S),
}

impl<S: Starter> Policy<S> {
    /// Returns whether it starts requests while the foreground is being served.
    #[must_use]
    pub fn ignores_foreground(&self) -> bool {
        match self {
            Self::BackToBack { .. } => true,
            Self::Priced => false,
            Self::Other(starter) => starter.ignores_foreground(),
        }
    }

    /// Returns whether the slowdown account binds it.
    #[must_use]
    pub fn holds_goal(&self) -> bool {
        match self {
            Self::BackToBack { .. } => false,
            Self::Priced => true,
            Self::Other(starter) => starter.holds_goal(),
        }
    }
}
