//! The policies by name, and how each becomes a player.

use crate::player::{Oracle, Player};
use crate::replay::{Sizing, Start};
use crate::starts::{CFQ, Studied};
use crate::tuner::{Family, Tuned, Tuner};
use pumice_pacer::{Charge, Config, Goal, History, Nanos, Pacer, Policy, ServiceCurve};
use std::fmt;
use std::str::FromStr;

/// A policy as the command line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyName {
    /// Request after request.
    BackToBack,
    /// 64 KiB, then 16 ms of pause.
    FixedDelay,
    /// 64 KiB requests after 10 ms of idleness, at most 4 MB/s.
    Rate,
    /// 64 KiB requests after 10 ms of idleness.
    Cfq,
    /// A tuned threshold and size.
    Waiting,
    /// A tuned threshold; sizes that grow.
    Growing,
    /// A tuned least predicted length.
    Ar,
    /// Both.
    ArWaiting,
    /// Threshold and size tuned again all the time, bound by the account.
    WaitingLive,
    /// Hazard and price, bound by the account.
    Priced,
    /// Waiting that loses no time; knows the future.
    Lossless,
    /// Knows the future.
    Oracle,
}

impl PolicyName {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 12] = [
        Self::BackToBack,
        Self::FixedDelay,
        Self::Rate,
        Self::Cfq,
        Self::Ar,
        Self::ArWaiting,
        Self::Waiting,
        Self::Growing,
        Self::WaitingLive,
        Self::Priced,
        Self::Lossless,
        Self::Oracle,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BackToBack => "back-to-back",
            Self::FixedDelay => "fixed-delay",
            Self::Rate => "rate",
            Self::Cfq => "cfq",
            Self::Waiting => "waiting",
            Self::Growing => "waiting-growing",
            Self::Ar => "ar",
            Self::ArWaiting => "ar-waiting",
            Self::WaitingLive => "waiting-live",
            Self::Priced => "priced",
            Self::Lossless => "lossless-waiting",
            Self::Oracle => "oracle",
        }
    }

    /// Returns whether it is tuned on what a predictor expected of idle intervals.
    pub(super) fn asks_predictor(self) -> bool {
        matches!(self.family(), Some(Family::Predicted | Family::PredictedWaiting))
    }

    fn family(self) -> Option<Family> {
        match self {
            Self::Waiting | Self::Lossless => Some(Family::Waiting),
            Self::Growing => Some(Family::Growing),
            Self::Ar => Some(Family::Predicted),
            Self::ArWaiting => Some(Family::PredictedWaiting),
            _ => None,
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PolicyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|p| p.name() == text);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|p| p.name()).collect();
            format!("'{text}' is none of {}; 'all' stands alone", names.join(", "))
        })
    }
}

/// Everything that a choice of parameters may look at.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// The goal.
    pub goal: Goal,
    /// Service times.
    pub curve: &'a ServiceCurve,
    /// Idle intervals of the tuning part.
    pub past: &'a History,
    /// Idle intervals of the measured part: for the oracle alone.
    pub future: &'a History,
    /// True if requests behind a slowed one count.
    pub queued: bool,
    /// Idle intervals that a pacer remembers.
    pub history: usize,
}

impl Choice<'_> {
    pub(super) fn pacer(&self, policy: Policy<Studied>) -> Pacer<Studied> {
        let charge = if self.queued { Charge::Queued } else { Charge::Collision };
        // A policy that is not tuned while it runs remembers nothing.
        let history = if policy.holds_goal() { self.history } else { 1 };
        let config = Config {
            charge,
            learn_service: false,
            history,
            ..Config::new(self.goal, policy, self.curve.clone())
        };
        Pacer::new(config, 0)
    }

    /// A player that has not seen anything, and what was tuned for it.
    #[must_use]
    pub fn player(&self, name: PolicyName) -> (Player, Option<Tuned>) {
        let live = |policy| (Player::Pacer(Box::new(self.pacer(policy))), None);
        let size = 64 << 10;
        match name {
            PolicyName::BackToBack => live(Policy::BackToBack { bytes: size }),
            PolicyName::FixedDelay => {
                live(Policy::Other(Studied::FixedDelay { delay: 16_000_000, bytes: size }))
            }
            PolicyName::Cfq => live(Policy::Other(Studied::fixed(CFQ))),
            PolicyName::Rate => {
                let mut pacer = self.pacer(Policy::Other(Studied::fixed(CFQ)));
                pacer.set_rate(Some((4_000_000, 256 << 10)), 0);
                (Player::Pacer(Box::new(pacer)), None)
            }
            PolicyName::WaitingLive => live(Policy::Other(Studied::tuned(Family::Waiting))),
            PolicyName::Priced => live(Policy::Priced),
            PolicyName::Oracle => (Player::Oracle(Oracle::new(self.goal, self.curve, self.future)), None),
            PolicyName::Waiting
            | PolicyName::Growing
            | PolicyName::Ar
            | PolicyName::ArWaiting
            | PolicyName::Lossless => {
                let family = name.family().unwrap_or(Family::Waiting);
                let tuned = Tuner::new(family, self.goal, 1.0).run(self.past, self.curve);
                // Without a candidate that holds the goal nothing is ever started.
                let never = Start { threshold: Nanos::MAX, cutoff: 0, sizing: Sizing::fixed(size) };
                let start = tuned.start.unwrap_or(never);
                let player = if name == PolicyName::Lossless {
                    Player::Lossless(start, self.curve.clone())
                } else {
                    Player::Pacer(Box::new(self.pacer(Policy::Other(Studied::fixed(start)))))
                };
                (player, Some(tuned))
            }
        }
    }
}
