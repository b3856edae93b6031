//! Checkpoints: write pages to their places, and make room in the log.

use super::{Action, Machine};
use crate::group::StoredGroup;
use crate::rules::Rule;

/// The step of a checkpoint.
#[derive(Debug)]
enum Step {
    Idle,
    /// The drive is flushed; these pages hold only what was written before.
    Flushing {
        settles: u64,
        pages: Vec<StoredGroup>,
    },
    /// The pages are written.
    Storing {
        settles: u64,
    },
    /// The log is released.
    Releasing {
        settles: u64,
    },
}

/// The checkpoint under way, and whether one is wanted.
#[derive(Debug)]
pub(super) struct Checkpoint {
    step: Step,
    /// One is to begin as soon as it brings anything.
    pub(super) wanted: bool,
    /// The log takes no record before one has ended.
    pub(super) full: bool,
    /// Up to here the log is released, or had nothing to free.
    released: u64,
}

impl Checkpoint {
    pub(super) const fn new(released: u64) -> Self {
        Self { step: Step::Idle, wanted: false, full: false, released }
    }

    pub(super) const fn is_idle(&self) -> bool {
        matches!(self.step, Step::Idle)
    }

    /// Returns whether every record up to this one was released, or had nothing to free.
    pub(super) const fn has_released(&self, last: u64) -> bool {
        last <= self.released
    }

    /// Returns whether nothing may be appended to the log now: it is full, or being released.
    pub(super) const fn holds_log(&self) -> bool {
        self.full || matches!(self.step, Step::Releasing { .. })
    }

    pub(super) fn fail(&mut self) {
        *self = Self { step: Step::Idle, wanted: false, full: false, released: self.released };
    }
}

impl Machine {
    pub(super) fn begin_wanted_checkpoint(&mut self) {
        let wanted = self.checkpoint.wanted || self.cache.is_full_of_changes();
        if !wanted || !self.checkpoint.is_idle() {
            return;
        }
        let settles = self.settles_now();
        if settles <= self.checkpoint.released && !self.cache.has_dirty() {
            // It would bring nothing now. A log that is full waits for a command that is under way.
            self.checkpoint.wanted = self.checkpoint.full;
            return;
        }
        self.checkpoint.wanted = false;
        let pages = self.copy_pages();
        self.checkpoint.step = Step::Flushing { settles, pages };
        self.actions.push(Action::Flush(None));
    }

    /// Copies the changed pages.
    fn copy_pages(&mut self) -> Vec<StoredGroup> {
        assert!(
            !self.rules.are_asserted() || self.checkpoint.is_idle(),
            "T13: the pages of a checkpoint are copied before the drive is flushed"
        );
        self.cache.begin_store()
    }

    pub(super) fn checkpoint_flushed(&mut self, done: bool) {
        let Step::Flushing { settles, pages } = &mut self.checkpoint.step else { return };
        let (settles, mut pages) = (*settles, std::mem::take(pages));
        if !done {
            // The data may be anywhere: the log keeps its records, and cannot be emptied.
            self.checkpoint.step = Step::Idle;
            self.cache.undo_store();
            self.tags_failed();
            return;
        }
        if !self.rules.keep(Rule::CopyFirst) {
            self.cache.undo_store();
            pages = self.copy_pages();
        }
        self.settled = self.settled.max(settles);
        if pages.is_empty() {
            self.release(settles);
        } else {
            self.checkpoint.step = Step::Storing { settles };
            self.actions.push(Action::Store(std::mem::take(&mut pages)));
        }
    }

    /// The pages of a checkpoint are home, durably.
    pub fn stored(&mut self) {
        self.cache.end_store();
        if let Step::Storing { settles } = self.checkpoint.step {
            self.release(settles);
        }
    }

    fn release(&mut self, settles: u64) {
        if settles <= self.checkpoint.released {
            // Pages came home, and the log is as full as before: it still waits for a command.
            self.checkpoint.wanted |= self.checkpoint.full;
            self.checkpoint.step = Step::Idle;
            self.go_on();
            return;
        }
        assert!(settles <= self.settled, "T10: the log is released when a flush of the drive has settled it");
        let first = self.commands.values().filter_map(|command| command.number).min();
        assert!(
            first.is_none_or(|first| settles < first),
            "T11: the log keeps the record of a command until its data are written: {settles}"
        );
        self.checkpoint.step = Step::Releasing { settles };
        if self.committing.is_empty() {
            self.actions.push(Action::Release(settles));
        }
    }

    /// The commit is done that the release of the log had to wait for.
    pub(super) fn release_after_commit(&mut self) {
        if let Step::Releasing { settles } = self.checkpoint.step {
            self.actions.push(Action::Release(settles));
        }
    }

    /// The log is released; false if the records still count, because there was nothing to free
    /// before later ones are released too.
    pub fn released(&mut self, done: bool) {
        if let Step::Releasing { settles } = std::mem::replace(&mut self.checkpoint.step, Step::Idle) {
            assert!(settles > self.checkpoint.released, "T12: the end of what is released only rises");
            self.checkpoint.released = settles;
            if done {
                self.refused.retain(|number| *number > settles);
            }
            self.checkpoint.full = false;
        }
        self.go_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::group::Group;
    use crate::machine::{Outcome, Request};
    use crate::record::Change;
    use pumice_protect::guard::Guard;

    /// The drive, the log and the pages, but for data that are held back.
    struct Carried {
        machine: Machine,
        last: u64,
        done: Vec<u64>,
    }

    impl Carried {
        /// Carries out everything. The log takes `takes` records, and the data of `held` are not
        /// written yet.
        fn run(&mut self, mut takes: u64, held: &[u64]) {
            loop {
                let actions = self.machine.take_actions();
                let mut any = false;
                for action in actions {
                    any = true;
                    match action {
                        Action::Load { id, groups } => {
                            self.machine.loaded(id, groups.into_iter().map(Group::fresh).collect());
                        }
                        Action::Commit(records) => {
                            let taken = takes.min(records.len() as u64);
                            takes -= taken;
                            let numbers: Vec<u64> = (self.last + 1..=self.last + taken).collect();
                            self.last += taken;
                            self.machine.committed(&numbers, taken < records.len() as u64, true);
                        }
                        Action::Write(id) if held.contains(&id) => {}
                        Action::Write(id) => self.machine.data_written(id, true),
                        Action::Read(id) => self.machine.data_read(id, Some(&[0])),
                        Action::Flush(id) => self.machine.flushed(id, true),
                        Action::Store(_) => self.machine.stored(),
                        Action::Release(_) => {
                            takes = 100;
                            self.machine.released(true);
                        }
                        Action::SeeAgain(_) => unreachable!("no write fails"),
                        Action::Done { id, outcome } => {
                            assert!(matches!(
                                outcome,
                                Outcome::Done | Outcome::Read(_) | Outcome::Adopted(..)
                            ));
                            self.done.push(id);
                        }
                    }
                }
                if !any {
                    return;
                }
            }
        }
    }

    /// The log is full because of a command under way, and meanwhile pages of others come home.
    #[test]
    fn a_full_log_is_emptied_after_a_checkpoint_that_could_release_nothing() {
        let geometry = Geometry::new(1 << 20, 512, 512, Guard::Crc16, 64 << 10).expect("a drive");
        let mut world = Carried { machine: Machine::new(geometry, 0, 100), last: 0, done: Vec::new() };
        world.machine.begin(1, 0..1, Request::Write(Change::Zeros(1).into()));
        world.run(1, &[1]);
        world.machine.begin(2, 100..101, Request::Adopt);
        world.machine.begin(3, 200..201, Request::Write(Change::Zeros(1).into()));
        world.run(0, &[1]);
        assert_eq!(world.done, [2], "the log has no room before the first command ends");
        world.machine.data_written(1, true);
        world.run(0, &[]);
        assert_eq!(world.done, [2, 1, 3]);
    }
}
