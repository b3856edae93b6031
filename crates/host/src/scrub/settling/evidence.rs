//! Evidence about an array and its hosts, and conclusions from that evidence alone.

use super::Moment;
use crate::finding::Clause;
use pumice_base::units::Rules;
use pumice_offload::{AssociatedHost, Hosts};
use std::collections::BTreeMap;
use std::time::Duration;

/// The hosts of an array's nodes at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostsSeen {
    /// Before the first node was asked.
    pub(crate) asked: Moment,
    /// By node; `None` for a node that cannot know.
    pub(crate) nodes: Vec<Option<Hosts>>,
    /// Every member's node remembers a clean superblock of an association that still exists (S10).
    pub(crate) saw_clean: bool,
}

impl HostsSeen {
    /// Hosts that may write, on each node.
    fn writers(&self) -> impl Iterator<Item = &AssociatedHost> {
        self.nodes.iter().flatten().flat_map(|node| &node.hosts).filter(|host| !host.observer)
    }

    /// Returns whether every node can tell, and none has a host that may write.
    fn has_no_writer(&self) -> bool {
        self.nodes.iter().all(Option::is_some) && self.writers().next().is_none()
    }

    /// Returns whether every node reports that no other host is associated.
    pub(crate) fn is_nobody(&self) -> bool {
        self.nodes.iter().all(|node| node.as_ref().is_some_and(|hosts| hosts.hosts.is_empty()))
    }

    /// Returns whether no association began or ended between this and `later`.
    pub(crate) fn stayed_until(&self, later: &Self) -> bool {
        self.nodes.len() == later.nodes.len()
            && self.nodes.iter().zip(&later.nodes).all(|pair| match pair {
                (Some(a), Some(b)) => (a.epoch, a.changes) == (b.epoch, b.changes) && a.same_hosts(b),
                (None, None) => true,
                _ => false,
            })
    }

    /// Returns whether the same hosts are associated with every node.
    pub(crate) fn is_same_everywhere(&self) -> bool {
        let mut nodes = self.nodes.iter().flatten();
        nodes.next().is_none_or(|first| nodes.all(|node| first.same_hosts(node)))
    }

    /// Longest silence on a node of a host that may write.
    pub(crate) fn longest_silence(&self) -> Duration {
        Duration::from_millis(self.writers().map(|host| u64::from(host.silent_ms)).max().unwrap_or(0))
    }

    /// Returns whether each host that may write was heard of on each node after `moment`.
    pub(crate) fn heard_since(&self, moment: Moment) -> bool {
        let since = self.asked.saturating_sub(moment).as_millis();
        self.writers().all(|host| u128::from(host.silent_ms) < since)
    }
}

/// Place where an array records writes under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Records {
    /// Nowhere.
    None,
    /// In a bitmap.
    Bitmap,
    /// In partial parity logs.
    Ppl,
    /// In a journal.
    Journal,
}

/// A record that names a stripe as possibly half written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HeldBy {
    /// The journal.
    Journal,
    /// A partial parity log.
    Ppl,
    /// A bitmap, in some member's copy.
    Bitmap,
    /// A condition that did not exist when the pass began: a bad block, a member being rebuilt.
    Changed,
}

/// The evidence at one moment: md's own records about the array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArrayNow {
    /// Every superblock could be read, and gives each member the same role, state and extent as
    /// before.
    pub(crate) same: bool,
    /// The authoritative superblock is clean: parity is whole, and no write is under way.
    pub(crate) clean: bool,
    /// Its event count.
    pub(crate) events: u64,
    /// The place where writes under way are recorded.
    pub(crate) records: Records,
    /// The stripes, among those in question, that are named by a record.
    pub(crate) held: BTreeMap<u64, HeldBy>,
}

/// Evidence that parity was whole earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// The event count of the clean superblock that was read; `None` for `--assume-settled`.
    pub(crate) events: Option<u64>,
    /// The hosts from before that on.
    pub(crate) hosts: HostsSeen,
}

/// The conditions that apply to a whole pass.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// Somebody else may be writing the drives (S12).
    pub(crate) in_use: bool,
    /// The settle time (S2).
    pub(crate) settle: Duration,
    /// Hosts probably ran the array when the pass began.
    pub(crate) run_by_hosts: bool,
    /// The array was not clean when the pass began, and was assumed to be running.
    pub(crate) running: bool,
    /// Every node counts writes.
    pub(crate) counted: bool,
    /// The newest observation of hosts.
    pub(crate) word: Option<Word>,
    /// The clauses that are in force.
    pub(crate) clauses: Rules<Clause>,
}

impl Standing {
    /// Returns whether a clause is in force: each is, but for one that a test leaves out.
    pub(crate) fn heeds(&self, clause: Clause) -> bool {
        self.clauses.keep(clause)
    }

    /// Takes note of a clean superblock, read after `hosts` were asked. A journal's array says the
    /// same while it is written.
    pub(crate) fn note(&mut self, hosts: &HostsSeen, now: &ArrayNow) {
        let operator = self.word.as_ref().is_some_and(|word| word.events.is_none());
        if now.same && now.clean && now.records != Records::Journal && !operator {
            self.word = Some(Word { events: Some(now.events), hosts: hosts.clone() });
        }
    }

    /// Returns whether the hosts that ran the array are gone (S5). Hosts that only read do not
    /// replace them.
    pub(crate) fn is_abandoned(&self, hosts: &HostsSeen) -> bool {
        self.heeds(Clause::Stay) && self.run_by_hosts && hosts.has_no_writer()
    }

    /// The reason against a finding in a stripe, if any, by the evidence of `now` (read between the
    /// looks), the hosts `heard` before it, and the hosts at the `end`.
    pub(crate) fn against(
        &self,
        stripe: u64,
        heard: &HostsSeen,
        now: &ArrayNow,
        end: &HostsSeen,
    ) -> Option<Clause> {
        let held = now.held.get(&stripe);
        let fails = |clause, fails: bool| (self.heeds(clause) && fails).then_some(clause);
        fails(Clause::Same, !now.same || held == Some(&HeldBy::Changed))
            .or_else(|| fails(Clause::Logs, matches!(held, Some(HeldBy::Journal | HeldBy::Ppl))))
            .or_else(|| fails(Clause::Bitmap, !now.clean && held == Some(&HeldBy::Bitmap)))
            .or_else(|| fails(Clause::Whole, !self.was_whole(heard, now, end)))
            .or_else(|| fails(Clause::Timely, !self.is_timely(now)))
    }

    /// S10. The memory of the nodes counts only as it was before the second look: a resync that
    /// ends after that look says nothing about the bytes that it saw.
    fn was_whole(&self, heard: &HostsSeen, now: &ArrayNow, end: &HostsSeen) -> bool {
        if now.clean || now.records == Records::Bitmap {
            return true;
        }
        let stayed = |word: &&Word| !self.heeds(Clause::Stay) || word.hosts.stayed_until(end);
        match self.word.as_ref().filter(stayed) {
            Some(Word { events: None, .. }) => true,
            Some(Word { events: Some(clean), .. }) if now.records != Records::Journal => {
                now.events <= clean + 1 || heard.saw_clean
            }
            _ => now.records != Records::Journal && heard.saw_clean,
        }
    }

    /// S11: on uncounted drives, evidence from before the second look counts only if it would show
    /// a write that both looks saw half done.
    fn is_timely(&self, now: &ArrayNow) -> bool {
        let operator = || self.word.as_ref().is_some_and(|word| word.events.is_none());
        self.counted || now.clean || now.records == Records::Bitmap || operator()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(asked: u64, nodes: &[(u64, &[(&str, u32)])]) -> HostsSeen {
        let node = |(changes, hosts): &(u64, &[(&str, u32)])| {
            let host = |(name, silent_ms): &(&str, u32)| AssociatedHost {
                mark: [name.as_bytes()[0]; 32],
                silent_ms: *silent_ms,
                observer: false,
            };
            Some(Hosts { epoch: 1, changes: *changes, hosts: hosts.iter().map(host).collect() })
        };
        let nodes = nodes.iter().map(node).collect();
        HostsSeen { asked: Duration::from_millis(asked), nodes, saw_clean: false }
    }

    #[test]
    fn clauses_are_numbered_as_on_the_page() {
        assert_eq!(Clause::Consistent.to_string(), "S1");
        assert_eq!(Clause::Shared.to_string(), "S12");
        assert_eq!(serde_json::to_string(&Clause::Whole).unwrap(), "\"S10\"");
        let page = include_str!("../../../../../docs/design/settling.md");
        for clause in [Clause::Consistent, Clause::Stay, Clause::Timely, Clause::Shared] {
            assert!(page.contains(&format!("| {clause} | **")), "{clause}");
        }
    }

    #[test]
    fn a_host_must_be_there_and_heard_of_everywhere() {
        let first = seen(0, &[(1, &[("a", 100)]), (1, &[("a", 100)])]);
        let good = seen(3000, &[(1, &[("a", 2000)]), (1, &[("a", 2999)])]);
        let holds = |first: &HostsSeen, last: &HostsSeen| {
            first.stayed_until(last) && last.is_same_everywhere() && last.heard_since(first.asked)
        };
        assert!(holds(&first, &good));
        let silent = seen(3000, &[(1, &[("a", 2000)]), (1, &[("a", 3000)])]);
        assert!(!holds(&first, &silent), "one node has not heard of it since");
        let gone = seen(3000, &[(1, &[("a", 2000)]), (2, &[])]);
        assert!(!holds(&first, &gone), "it lost one of its nodes");
        let came_back = seen(3000, &[(1, &[("a", 0)]), (3, &[("a", 0)])]);
        assert!(!holds(&first, &came_back), "it lost one of its nodes for a moment");
        let apart = seen(0, &[(1, &[("a", 0)]), (1, &[])]);
        let still_apart = seen(3000, &[(1, &[("a", 0)]), (1, &[])]);
        assert!(!holds(&apart, &still_apart), "it has no way to one of the nodes");
    }

    #[test]
    fn nobody_is_nobody_only_where_every_node_can_tell() {
        assert!(seen(0, &[(5, &[]), (9, &[])]).is_nobody());
        assert!(!seen(0, &[(5, &[]), (9, &[("a", 0)])]).is_nobody());
        assert!(!HostsSeen { asked: Duration::ZERO, nodes: vec![None], saw_clean: false }.is_nobody());
    }
}
