//! When to start, as the operator names it.

use crate::replay::Start;
use crate::tuner::Family;
use crate::{Nanos, Sizing};

/// A start policy. Those that look at idleness go on from their start until a foreground request
/// arrives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Policy {
    /// One request after the other, whatever the foreground does.
    BackToBack {
        /// Bytes of each.
        bytes: u64,
    },
    /// One request, then a pause, whatever the foreground does.
    FixedDelay {
        /// The pause after each request, in nanoseconds.
        delay: Nanos,
        /// Bytes of each.
        bytes: u64,
    },
    /// Given threshold, cutoff and sizes; nothing is tuned.
    Fixed(Start),
    /// Threshold, cutoff and size from the last idle intervals, tuned again all the time.
    Tuned(Family),
    /// The size that is worth most at each moment, by a learned hazard rate and a price for
    /// slowdown.
    Priced,
}

impl Policy {
    /// The idle class of Linux's CFQ: after 10 ms of idleness, 64 KiB at a time. *Practical
    /// scrubbing*, section III.B.
    pub const CFQ: Self =
        Self::Fixed(Start { threshold: 10_000_000, cutoff: 0, sizing: Sizing::fixed(64 << 10) });

    /// Whether it starts requests while the foreground is being served.
    #[must_use]
    pub fn ignores_foreground(&self) -> bool {
        matches!(self, Self::BackToBack { .. } | Self::FixedDelay { .. })
    }

    /// Whether it asks how long an idle interval will be.
    #[must_use]
    pub fn asks_predictor(&self) -> bool {
        match self {
            Self::Fixed(start) => start.cutoff > 0,
            Self::Tuned(family) => matches!(family, Family::Predicted | Family::PredictedWaiting),
            _ => false,
        }
    }

    /// Whether the slowdown account binds it.
    #[must_use]
    pub fn holds_goal(&self) -> bool {
        matches!(self, Self::Tuned(_) | Self::Priced)
    }
}
