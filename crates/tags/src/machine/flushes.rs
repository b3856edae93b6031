//! Flushes of the drive, for commands and for checkpoints.

use super::{Action, Machine, Outcome};

impl Machine {
    /// A flush for a host begins: earlier acknowledged writes are durable when it ends.
    pub fn begin_flush(&mut self, id: u64) {
        self.to_flush.push(id);
    }

    /// Flushes for all commands that wait for it: one flush at a time, so that the next is for
    /// many.
    pub(super) fn flush_next(&mut self) {
        if self.flushing.is_none()
            && let Some(first) = self.to_flush.first().copied()
        {
            self.flushing = Some((self.settles_now(), std::mem::take(&mut self.to_flush)));
            self.actions.push(Action::Flush(Some(first)));
        }
    }

    /// The drive was flushed, for a command or a checkpoint.
    pub fn flushed(&mut self, id: Option<u64>, done: bool) {
        if id.is_none() {
            self.checkpoint_flushed(done);
            return;
        }
        let (settles, ids) = self.flushing.take().expect("a flush that is under way");
        if done {
            self.settled = self.settled.max(settles);
        }
        let outcome = if done { Outcome::Done } else { Outcome::DriveFailed };
        self.actions.extend(ids.into_iter().map(|id| Action::Done { id, outcome: outcome.clone() }));
    }

    /// Up to this number, the data of every record are written.
    pub(super) fn settles_now(&self) -> u64 {
        let under_way = self.commands.values().filter_map(|command| command.number).min();
        under_way.map_or(self.last, |first| first - 1)
    }
}
