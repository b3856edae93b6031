//! Members that are older than the others: copies that were taken while the array was in service.

use crate::log::{Head, LoggedBlocks};
use pumice_base::units::Role;
use std::collections::BTreeSet;

/// The members whose head lacks what the others prove to have been on all members, of an array
/// whose heads know its newest superblocks, with the count `events`. A crash leaves none:
///
/// * Superblocks with a count are written when heads that announce it are durable on all members.
/// * A record says which horizon, and which generation, was durable in the heads of all members
///   when it was written.
pub(crate) fn are_older(logs: &[(Role, Head, &[LoggedBlocks])], events: u64) -> BTreeSet<Role> {
    let proven = logs
        .iter()
        .flat_map(|(_, _, records)| *records)
        .map(|found| (found.record.generation, found.record.released))
        .max()
        .unwrap_or_default();
    let is_older = |head: &Head| {
        head.last.events.max(head.next.events) < events || (head.generation, head.released) < proven
    };
    logs.iter().filter(|(_, head, _)| is_older(head)).map(|(role, ..)| *role).collect()
}
