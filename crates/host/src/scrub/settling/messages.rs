//! The actions and events of the machine.

use super::{ArrayNow, HostsSeen, Moment};
use crate::finding::Clause;
use pumice_offload::Activity;

/// What the machine wants done. Each is answered by one event, but for a decision, which needs
/// none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action<D> {
    /// Ask every node for its hosts.
    AskHosts,
    /// Look at a stripe.
    Look(u64),
    /// Read the evidence of these stripes: superblocks, and the records beside them.
    ReadArray(Vec<u64>),
    /// Let the time come.
    WaitUntil(Moment),
    /// A stripe is decided.
    Decide(u64, Decision<D>),
    /// Nothing is left.
    Done,
}

/// What a stripe is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision<D> {
    /// Its equations hold (S1).
    Consistent,
    /// Damaged: what was seen.
    Finding(D),
    /// Not decided: what was seen last, and what stood against a finding.
    Busy(D, Clause),
}

/// One look at a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look<D> {
    /// After the last byte was read.
    pub(crate) ended: Moment,
    /// The counters of each node, from before the first read to after the last.
    pub(crate) activity: Vec<Option<Activity>>,
    /// What was seen; `None` where the equations hold.
    pub(crate) seen: Option<D>,
}

impl<D> Look<D> {
    /// Whether nothing was written to what both looks read, from before this one to after
    /// `later`. Nodes that do not count writes say nothing against it.
    pub(super) fn is_quiet_until(&self, later: &Self) -> bool {
        self.activity.len() == later.activity.len()
            && self.activity.iter().zip(&later.activity).all(|pair| match pair {
                (Some(first), Some(second)) => Activity::is_quiet_until(first, second),
                (None, None) => true,
                _ => false,
            })
    }
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event<D> {
    /// The answer to [`Action::AskHosts`].
    Hosts(HostsSeen),
    /// The answer to [`Action::Look`].
    Looked(Look<D>),
    /// The answer to [`Action::ReadArray`].
    Array(ArrayNow),
    /// The answer to [`Action::WaitUntil`]: what time it is.
    Time(Moment),
}
