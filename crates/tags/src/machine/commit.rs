//! Records that go to the log.

use super::{Action, Command, Machine, Request};
use crate::record::Record;
use crate::rules::Rule;

impl Machine {
    /// Records were appended, and the log synced: the first so many of them, with these numbers.
    /// `full` is whether the log had no room for the rest, `low` whether it is half full.
    pub fn committed(&mut self, numbers: &[u64], full: bool, low: bool) {
        if self.failed {
            // Those who waited for it were told.
            return;
        }
        let batch = std::mem::take(&mut self.committing);
        assert!(numbers.len() <= batch.len(), "T3: the log takes no more records than it was given");
        for (number, before) in numbers.iter().zip([self.last].iter().chain(numbers)) {
            assert!(before < number, "T4: the number of a record is past all before it: {number}");
        }
        self.last = numbers.last().copied().unwrap_or(self.last);
        self.checkpoint.wanted |= full || low;
        self.checkpoint.full |= full;
        self.release_after_commit();
        for id in batch[numbers.len()..].iter().rev() {
            self.queue.push_front(*id);
        }
        for (id, number) in batch.iter().zip(numbers) {
            let command = self.commands.get_mut(id).expect("a command that is logged");
            command.number = Some(*number);
            self.actions.push(Action::Write(*id));
        }
        self.go_on();
    }

    /// Commits the records of all commands that wait for it: one commit at a time, so that the next
    /// is for many.
    pub(super) fn commit_next(&mut self) {
        if self.failed || !self.committing.is_empty() || self.queue.is_empty() || self.checkpoint.holds_log()
        {
            return;
        }
        self.committing = self.queue.drain(..).collect();
        let refused = self.refused.first().filter(|_| self.rules.keep(Rule::RefusedIsOpen));
        let settled = refused.map_or(self.settled, |first| self.settled.min(first - 1));
        assert!(!self.closed, "T7: nothing is logged in a file that was closed");
        assert!(
            !self.rules.are_asserted() || self.refused.first().is_none_or(|first| settled < *first),
            "T8: no record calls a write settled that the drive refused"
        );
        assert!(settled <= self.last, "T9: what is settled has a record: {settled}");
        let record = |id: &u64| {
            let Command { blocks, request, .. } = &self.commands[id];
            let Request::Write(change) = request else { panic!("a write") };
            Record { first: blocks.start, change: change.clone(), settled }
        };
        self.actions.push(Action::Commit(self.committing.iter().map(record).collect()));
    }
}
