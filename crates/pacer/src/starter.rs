//! Start policies that are not the pacer's own. Studies bring them, to be compared with its own.

use crate::{Goal, History, Nanos, ServiceCurve};
use std::fmt::Debug;

/// A drive on which a policy may start a background request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// The time, in nanoseconds.
    pub now: Nanos,
    /// Time at which the last foreground request was done.
    pub idle_since: Nanos,
    /// Background requests that were started since then.
    pub issued: u32,
    /// The end of the last background request; `None` before the first.
    pub last_done: Option<Nanos>,
}

/// The answer of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// A request of so many bytes starts now.
    Now(u64),
    /// Ask again at this time.
    At(Nanos),
    /// Nothing starts in this idle interval.
    Never,
}

/// A start policy. The pacer tells it of idle intervals, and holds rate, windows and, if the policy
/// wants it, the account.
pub trait Starter: Debug + Clone {
    /// Returns whether the slowdown account binds it.
    fn holds_goal(&self) -> bool;

    /// Returns whether it starts requests while the foreground is being served.
    fn ignores_foreground(&self) -> bool;

    /// Takes the goal, at first and whenever it changes.
    fn goal_set(&mut self, goal: Goal);

    /// Takes in that an idle interval begins; `history` has those that ended.
    fn idle_began(&mut self, history: &History, curve: &ServiceCurve);

    /// Takes in the length of an idle interval that ended, in nanoseconds.
    fn idle_ended(&mut self, length: Nanos);

    /// The expected length of the present idle interval, in nanoseconds; 0 if it expects nothing.
    fn expected(&self) -> f32;

    /// Decides whether a request starts.
    fn begin(&self, rest: Rest) -> Begin;
}

/// No further policy: there is no value of this type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoStarter {}

impl Starter for NoStarter {
    fn holds_goal(&self) -> bool {
        match *self {}
    }

    fn ignores_foreground(&self) -> bool {
        match *self {}
    }

    fn goal_set(&mut self, _: Goal) {
        match *self {}
    }

    fn idle_began(&mut self, _: &History, _: &ServiceCurve) {
        match *self {}
    }

    fn idle_ended(&mut self, _: Nanos) {
        match *self {}
    }

    fn expected(&self) -> f32 {
        match *self {}
    }

    fn begin(&self, _: Rest) -> Begin {
        match *self {}
    }
}
