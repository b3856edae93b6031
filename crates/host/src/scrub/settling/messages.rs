//! The actions and events of the machine.

use super::{ArrayNow, HostsSeen, Moment};
use crate::finding::Clause;
use pumice_offload::Activity;

/// An action of the machine. Each is answered by one event, except a decision, which needs no
/// answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action<D> {
    /// Ask every node for its hosts.
    AskHosts,
    /// Look at a stripe.
    Look(u64),
    /// Read the evidence of these stripes: superblocks, and the records beside them.
    ReadArray(Vec<u64>),
    /// Wait until this time.
    WaitUntil(Moment),
    /// A stripe is decided.
    Decide(u64, Decision<D>),
    /// Nothing is left.
    Done,
}

/// The decision about a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision<D> {
    /// Its equations hold (S1).
    Consistent,
    /// Damaged, with the state that was seen.
    Finding(D),
    /// Not decided, with the last state that was seen, and the reason against a finding.
    Busy(D, Clause),
}

/// One look at a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look<D> {
    /// After the last byte was read.
    pub(crate) ended: Moment,
    /// The counters of each node, from before the first read to after the last.
    pub(crate) activity: Vec<Option<Activity>>,
    /// The state that was seen; `None` if the equations hold.
    pub(crate) seen: Option<D>,
}

impl<D> Look<D> {
    /// Returns whether nothing was written to the regions of both looks, from before this one to
    /// after `later`. Nodes that do not count writes are ignored.
    pub(super) fn is_quiet_until(&self, later: &Self) -> bool {
        self.activity.len() == later.activity.len()
            && self.activity.iter().zip(&later.activity).all(|pair| match pair {
                (Some(first), Some(second)) => Activity::is_quiet_until(first, second),
                (None, None) => true,
                _ => false,
            })
    }
}

/// An event.
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
