//! Configuration of pacing for one drive.

use crate::{Goal, Nanos, NoStarter, Policy, ServiceCurve, Windows};

/// Cost of a collision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// The wait of the one request that met the background request, as *Practical scrubbing*
    /// counts.
    Collision,
    /// That wait for every request until the drive falls idle again: those behind the first wait as
    /// well. The strict way, for live use.
    Queued,
    /// Time that each foreground request near background work took in excess of its like without:
    /// for drives that serve requests side by side, and for any other. `Priced` starts beside
    /// foreground requests too, where that buys more bytes for the slowdown than waiting for
    /// idleness.
    Measured,
}

/// Configuration of pacing for one drive.
#[derive(Debug, Clone)]
pub struct Config<S = NoStarter> {
    /// Bound on the slowdown of the foreground.
    pub goal: Goal,
    /// Rule for starting.
    pub policy: Policy<S>,
    /// Service times of background requests, from measurement or a model; corrected by
    /// `background_done` if `learn_service`.
    pub curve: ServiceCurve,
    /// True if `curve` follows what is measured.
    pub learn_service: bool,
    /// Cost of a collision.
    pub charge: Charge,
    /// Background requests in progress at once, at most. Above 1 under [`Charge::Measured`] only.
    pub in_flight: usize,
    /// Idle intervals that are remembered, 40 bytes each.
    pub history: usize,
    /// Foreground requests whose earnings can be saved up.
    pub depth: u32,
    /// After how many nanoseconds an observation counts half.
    pub half_life: Nanos,
    /// Bytes a second and burst in bytes, if limited.
    pub rate: Option<(u64, u64)>,
    /// Times of day.
    pub windows: Windows,
}

impl<S> Config<S> {
    /// A drive with a goal and a policy, and everything else as a data node wants it.
    #[must_use]
    pub fn new(goal: Goal, policy: Policy<S>, curve: ServiceCurve) -> Self {
        Self {
            goal,
            policy,
            curve,
            learn_service: true,
            charge: Charge::Measured,
            in_flight: 1,
            history: 4_096,
            depth: 100_000,
            half_life: 6 * 3_600 * 1_000_000_000,
            rate: None,
            windows: Windows::default(),
        }
    }
}
