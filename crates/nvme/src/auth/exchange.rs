//! Common parts of both ends: deadlines, sequence numbers, computations, proofs.

use crate::auth::failure::Failure;
use crate::auth::group::{Agreement, Exponent, Group};
use crate::auth::hash::Hash;
use crate::auth::secret::Secret;

/// The time for a step without a keep-alive timeout, in nanoseconds.
const WITHOUT_KATO: u64 = 120_000_000_000;

/// The time for a step of a queue in nanoseconds: its keep-alive timeout, given in milliseconds, or
/// 120 s if that is 0.
#[must_use]
pub fn step_limit(kato_ms: u32) -> u64 {
    if kato_ms == 0 { WITHOUT_KATO } else { u64::from(kato_ms) * 1_000_000 }
}

/// Result of a successful exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// The hash of the responses.
    pub hash: Hash,
    /// The group.
    pub group: Group,
    /// True if the controller has proven itself too.
    pub mutual: bool,
    /// Key that the peer proved: 0 the current one, 1 the next one. At a controller it is the
    /// key of the host. At a host it is the key of the controller, or 0 if the controller did not
    /// prove itself.
    pub key: usize,
}

/// The time until the next step has to come. Times are in nanoseconds from any start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    limit: u64,
    deadline: Option<u64>,
}

impl Patience {
    /// No deadline yet; `limit` for each step.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, deadline: None }
    }

    /// The next step has the whole limit from now on.
    pub(crate) fn renew(&mut self, now: u64) {
        self.deadline = Some(now.saturating_add(self.limit));
    }

    /// Nothing is waited for.
    pub(crate) fn rest(&mut self) {
        self.deadline = None;
    }

    /// Deadline of the next step.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    /// Returns whether the step is late.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }
}

/// The sequence numbers of a queue: ours, and the last one of the peer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sequences {
    own: Option<u32>,
    peer: Option<u32>,
}

impl Sequences {
    /// Our next number: a random one at first, then one more. Never 0.
    pub(crate) fn next(&mut self, random: u32) -> u32 {
        let next = self.own.map_or(random, |own| own.wrapping_add(1));
        let next = if next == 0 { 1 } else { next };
        self.own = Some(next);
        next
    }

    /// Takes a number of the peer's.
    pub(crate) fn take(&mut self, peer: u32) -> Result<u32, Failure> {
        if peer == 0 {
            return Err(Failure::SequenceZero);
        }
        if self.peer.replace(peer) == Some(peer) {
            return Err(Failure::SequenceRepeated(peer));
        }
        Ok(peer)
    }
}

/// Checks that a message belongs to the exchange.
pub(crate) fn same_transaction(expected: u16, found: u16) -> Result<(), Failure> {
    if expected == found { Ok(()) } else { Err(Failure::Transaction { expected, found }) }
}

/// Powers in a group, to be computed by [`Job::run`] on any thread. One power takes about 0.4 to
/// 30 ms, by the size of the group; a host's job has two.
#[derive(Debug)]
pub struct Job {
    /// The computation of its queue that it is.
    pub(crate) number: u64,
    pub(crate) work: Work,
}

/// Computation of a [`Job`].
#[derive(Debug)]
pub(crate) enum Work {
    /// Our public value.
    Public(Exponent),
    /// The shared value.
    Shared(Agreement),
    /// Both.
    Both(Agreement),
}

/// Result of a [`Job`].
#[derive(Debug)]
pub struct Computed {
    pub(crate) number: u64,
    pub(crate) values: Values,
}

/// The values of a [`Job`].
#[derive(Debug)]
pub(crate) enum Values {
    Public(Vec<u8>),
    Shared(Secret),
    Both(Vec<u8>, Secret),
}

impl Job {
    /// Computes. The time depends on the group only.
    #[must_use]
    pub fn run(self) -> Computed {
        let values = match self.work {
            Work::Public(exponent) => Values::Public(exponent.public()),
            Work::Shared(agreement) => Values::Shared(agreement.shared()),
            Work::Both(agreement) => Values::Both(agreement.public(), agreement.shared()),
        };
        Computed { number: self.number, values }
    }
}
