//! Other activity on a node's drives: counters of writes, and the associated hosts.
//!
//! For each region, a drive counts the commands that change its medium: *started* before the first
//! byte is changed, *completed* after the last. Because counters never decrease, sums over regions
//! are enough: if a sum is unchanged, each counter is unchanged, and if `started = completed` holds
//! for the sums, it holds for each region. `docs/design/settling.md` has the rule that uses them.

use crate::DriveId;
use std::collections::BTreeSet;

/// Commands that change a medium, over the regions that a command read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Writes {
    /// Begun since the node's start.
    pub started: u64,
    /// Ended since then.
    pub completed: u64,
}

/// The counters before and after a command read its media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Activity {
    /// Drawn at random when the node started, never 0. Counters of different epochs cannot be
    /// compared.
    pub epoch: u64,
    /// Before the first read.
    pub before: Writes,
    /// After the last.
    pub after: Writes,
}

impl Activity {
    /// Returns whether nothing was written from before this command to after `later`.
    #[must_use]
    pub fn is_quiet_until(&self, later: &Self) -> bool {
        self.epoch == later.epoch
            && self.before.started == self.before.completed
            && self.before == later.after
    }
}

/// A host that is associated with a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssociatedHost {
    /// The mark by which it is recognised: the SHA-256 of a number chosen by the asking host,
    /// followed by the host's identifier. With the same number, the same host has the same mark on
    /// every node; its identifier is not disclosed.
    pub mark: [u8; 32],
    /// Milliseconds since the host was last heard; if it has several controllers, the longest
    /// silence.
    pub silent_ms: u32,
    /// It has promised not to write, which the node enforces: so it runs no array.
    pub observer: bool,
}

/// The hosts of a node, without the asking host and other nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hosts {
    /// The node's epoch, as in [`Activity`].
    pub epoch: u64,
    /// Associations that began or ended, and I/O queues that were lost, since the node's start.
    pub changes: u64,
    /// The hosts, each once.
    pub hosts: Vec<AssociatedHost>,
}

impl Hosts {
    /// Returns whether the same hosts are associated with two nodes that were asked with the same
    /// number.
    #[must_use]
    pub fn same_hosts(&self, other: &Self) -> bool {
        let marks = |of: &Self| of.hosts.iter().map(|host| host.mark).collect::<BTreeSet<_>>();
        marks(self) == marks(other)
    }
}

/// A node's record of the superblock of one of its drives: `docs/design/offload.md`, *Superblocks*.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuperblockSeen {
    /// The drive.
    pub drive: DriveId,
    /// The byte of the drive at which the superblock begins; `None` if the node does not tell, as
    /// an older one. What is there may be a user's data, unless it is the place that the array
    /// itself uses.
    pub offset: Option<u64>,
    /// The array that the superblock names, its UUID as stored.
    pub array: [u8; 16],
    /// The association that wrote it last still exists, and has written a clean superblock,
    /// followed by no change except to active.
    pub clean: bool,
    /// Event count of that clean one; 0 where there is none.
    pub events: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_means_that_nothing_began_was_under_way_or_ended() {
        let writes = |started, completed| Writes { started, completed };
        let at = |epoch, w: Writes| Activity { epoch, before: w, after: w };
        let first = at(7, writes(5, 5));
        assert!(first.is_quiet_until(&at(7, writes(5, 5))));
        assert!(!first.is_quiet_until(&at(8, writes(5, 5))), "the node was started anew");
        assert!(!first.is_quiet_until(&at(7, writes(6, 5))), "a write began");
        assert!(!first.is_quiet_until(&at(7, writes(6, 6))), "a write came and went");
        let under_way = at(7, writes(6, 5));
        assert!(!under_way.is_quiet_until(&under_way), "a write is under way all the time");
        // Two that overlap would make one odd and even number look unchanged; two counters do not.
        assert!(!at(7, writes(2, 0)).is_quiet_until(&at(7, writes(2, 0))));
    }
}
