//! The state machine between hosts, a drive and its tag file.
//!
//! Pure: events go in, actions come out. `docs/design/tags.md` has the order of the actions, and
//! the reasons.

mod cache;
mod checkpoint;
mod commit;
mod flushes;
mod reads;
mod rest;
mod restore;
mod views;

use crate::geometry::Geometry;
use crate::group::{Group, StoredGroup};
use crate::locks::Locks;
use crate::page::{Judged, Opinion, Tag};
use crate::record::{Change, Record};
use crate::rules::Rule;
use crate::sum::Sum;
use cache::Cache;
use checkpoint::Checkpoint;
use pumice_base::units::Rules;
use pumice_blockdev::Judgement;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Groups of pages that are read at once for a sweep.
const SWEPT: u64 = 8;

/// The operation on a range of blocks.
#[derive(Debug, Clone)]
pub enum Request {
    /// Read and check.
    Read,
    /// The same for a reader of most of the drive in order: pages are read ahead, and not kept.
    Sweep,
    /// Read and check, with what is said of each block.
    Judge {
        /// As [`Sweep`](Self::Sweep) does with pages.
        sweeps: bool,
    },
    /// Read, with the metadata. Nothing is checked.
    ReadMetadata,
    /// Write.
    Write(Arc<Change>),
    /// The same with the tags and the other metadata that the blocks have, in place of those of
    /// the change.
    Restore(Arc<Change>),
    /// Read; blocks of unknown origin get tags for their present contents.
    Adopt,
    /// Read; blocks that differ from their tags get tags for their present contents.
    Release,
    /// Vouch for their adopted tags: nothing is read, no tuple changes.
    Vouch,
}

impl Request {
    /// Returns whether it changes neither blocks nor tags.
    const fn is_of_reading(&self) -> bool {
        matches!(self, Self::Read | Self::Sweep | Self::Judge { .. } | Self::ReadMetadata)
    }
}

/// An action. For each there is a method of [`Machine`] that accepts its outcome.
#[derive(Debug, Clone)]
pub enum Action {
    /// Read groups of pages of the tag file: [`Machine::loaded`].
    Load {
        /// For this command.
        id: u64,
        /// The groups.
        groups: Vec<u64>,
    },
    /// Append records to the log, in this order, and sync it: [`Machine::committed`].
    Commit(Vec<Record>),
    /// Write the data of a command: [`Machine::data_written`].
    Write(u64),
    /// Read the blocks of a command: [`Machine::data_read`].
    Read(u64),
    /// Read the blocks of a command whose write failed: [`Machine::seen_again`].
    SeeAgain(u64),
    /// Flush the drive, for commands (the first of them) or (`None`) a checkpoint:
    /// [`Machine::flushed`].
    Flush(Option<u64>),
    /// Write pages to their places and sync the tag file: [`Machine::stored`].
    Store(Vec<StoredGroup>),
    /// Release the log up to a number: [`Machine::released`].
    Release(u64),
    /// A command has ended.
    Done {
        /// The command.
        id: u64,
        /// The outcome.
        outcome: Outcome,
    },
}

/// The outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was read and checked.
    Checked(Judgement),
    /// It was read, with the result of checking each block.
    Read(Vec<Judged>),
    /// The same before adoption, and how many blocks got a tag.
    Adopted(Vec<Judged>, u64),
    /// It was read, with the metadata of each block: all FFh, an escape, if it has no tag.
    Metadata(Vec<u8>),
    /// The number of adopted tags that are now vouched for.
    Vouched(u64),
    /// It was written, or flushed.
    Done,
    /// The drive failed.
    DriveFailed,
    /// The tag file has failed, or had failed before.
    TagsFailed,
}

/// A command under way.
#[derive(Debug)]
struct Command {
    blocks: Range<u64>,
    request: Request,
    /// The groups that are kept for it.
    pinned: Range<u64>,
    /// The number of its record, which is durable. Its data is not known to be written.
    number: Option<u64>,
}

/// The state machine of one drive.
#[derive(Debug)]
pub struct Machine {
    geometry: Geometry,
    locks: Locks,
    commands: BTreeMap<u64, Command>,
    cache: Cache,
    /// The groups that were last loaded for a sweep.
    swept: Range<u64>,
    /// Commands that wait for a commit, in the order of their records.
    queue: VecDeque<u64>,
    /// Commands of the commit that is under way.
    committing: Vec<u64>,
    /// The number of the last record that is durable.
    last: u64,
    /// The data of every record up to this number is durable, except those in `refused`.
    settled: u64,
    /// Records in the log whose data the drive refused: their blocks may be old.
    refused: BTreeSet<u64>,
    /// The flush under way for commands: the records that it settles, and the commands.
    flushing: Option<(u64, Vec<u64>)>,
    /// Commands that wait for the next flush.
    to_flush: Vec<u64>,
    checkpoint: Checkpoint,
    /// Pages that were lost.
    lost: BTreeSet<u64>,
    failed: bool,
    /// It takes no writes any more: nothing is in the log, or will be.
    closed: bool,
    zero_guard: u64,
    zero_sum: Sum,
    actions: Vec<Action>,
    pub(crate) rules: Rules<Rule>,
}

impl Machine {
    /// Before the first command. `last` is the number of the last record of the log (0 if there is
    /// none), all of whose tags are in their pages. `cached_pages` is the most pages to keep.
    #[must_use]
    pub fn new(geometry: Geometry, last: u64, cached_pages: usize) -> Self {
        Self {
            geometry,
            locks: Locks::default(),
            commands: BTreeMap::new(),
            cache: Cache::new(cached_pages),
            swept: 0..0,
            queue: VecDeque::new(),
            committing: Vec::new(),
            last,
            settled: last,
            refused: BTreeSet::new(),
            flushing: None,
            to_flush: Vec::new(),
            checkpoint: Checkpoint::new(last),
            lost: BTreeSet::new(),
            failed: false,
            closed: false,
            zero_guard: geometry.zero_guard(),
            zero_sum: geometry.zero_sums(1).of(0),
            actions: Vec::new(),
            rules: Rules::all(),
        }
    }

    /// The new actions since the last call. Actions of one call may be done in any order, and at
    /// the same time. A commit and a flush are for all commands that wait for one by now.
    pub fn take_actions(&mut self) -> Vec<Action> {
        self.commit_next();
        self.flush_next();
        std::mem::take(&mut self.actions)
    }

    /// Pages that were found lost, by number.
    #[must_use]
    pub const fn lost_pages(&self) -> &BTreeSet<u64> {
        &self.lost
    }

    /// Returns whether the tag file has failed: writes are refused.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.failed
    }

    /// A command begins. `id` must be unique among those under way.
    ///
    /// # Panics
    /// If there are no blocks, some are outside the drive, or they do not match the change.
    pub fn begin(&mut self, id: u64, blocks: Range<u64>, request: Request) {
        assert!(blocks.start < blocks.end && blocks.end <= self.geometry.blocks(), "{blocks:?}");
        if let Request::Write(change) | Request::Restore(change) = &request {
            assert_eq!(change.blocks(), blocks.end - blocks.start, "a change of other blocks");
            if !self.takes_writes() {
                self.actions.push(Action::Done { id, outcome: Outcome::TagsFailed });
                return;
            }
        }
        let exclusive = !request.is_of_reading();
        let request = self.with_early_tags(&blocks, request);
        let exclusive = exclusive && self.rules.keep(Rule::Locks);
        let granted = self.locks.ask(id, blocks.clone(), exclusive);
        let pinned = self.geometry.groups_of(&blocks);
        let before = self.commands.insert(id, Command { blocks, request, pinned, number: None });
        assert!(before.is_none(), "T2: no two commands under way have one number: {id}");
        if granted {
            self.start(id);
        }
    }

    /// A read begins that has all that it needs: its blocks are free, and its pages are in memory.
    /// Its blocks are to be read now, and [`read_now`](Self::read_now) follows. Returns false, and
    /// nothing has begun, if it would have to wait, or changes something.
    ///
    /// # Panics
    /// As [`begin`](Self::begin).
    pub fn begin_now(&mut self, id: u64, blocks: Range<u64>, request: &Request) -> bool {
        assert!(blocks.start < blocks.end && blocks.end <= self.geometry.blocks(), "{blocks:?}");
        let pinned = self.geometry.groups_of(&blocks);
        if !request.is_of_reading() || !self.locks.ask_now(id, blocks.clone()) {
            return false;
        }
        if !self.cache.pin_present(pinned.clone()) {
            self.locks.give_back(id);
            return false;
        }
        // Their tuples are wanted when the blocks have been read.
        for part in self.geometry.parts(&blocks) {
            self.cache.page(part.page).prefetch();
        }
        let (request, number) = (request.clone(), None);
        let before = self.commands.insert(id, Command { blocks, request, pinned, number });
        assert!(before.is_none(), "T2: no two commands under way have one number: {id}");
        true
    }

    /// Requests a checkpoint, so that every page is written to its place.
    pub fn begin_checkpoint(&mut self) {
        self.checkpoint.wanted = true;
        self.go_on();
    }

    fn start(&mut self, id: u64) {
        let command = self.commands.get_mut(&id).expect("a command that begins");
        let mut missing = self.cache.pin(command.pinned.clone());
        if missing.is_empty() {
            self.go(id);
            return;
        }
        if matches!(command.request, Request::Sweep | Request::Judge { sweeps: true }) {
            let ahead = command.pinned.end..self.geometry.groups().min(command.pinned.start + SWEPT);
            // Kept from now on, so that none of them is newer than what is read.
            missing.extend(self.cache.pin(ahead.clone()));
            command.pinned.end = command.pinned.end.max(ahead.end);
            let before = std::mem::replace(&mut self.swept, command.pinned.clone());
            self.cache.forget(before);
        }
        self.actions.push(Action::Load { id, groups: missing });
    }

    /// Groups of pages were read.
    pub fn loaded(&mut self, id: u64, groups: Vec<Group>) {
        for group in groups {
            if !self.cache.has(group.number) {
                self.lost.extend(&group.lost);
            }
            self.cache.insert(group);
        }
        let command = self.commands.get_mut(&id).expect("a command whose pages were loaded");
        let needed = self.geometry.groups_of(&command.blocks);
        let ahead = needed.end..command.pinned.end;
        command.pinned = needed;
        self.cache.unpin(ahead);
        self.go(id);
    }

    /// Pages could not be read, because the tag file fails as a whole.
    pub fn load_failed(&mut self, id: u64) {
        self.tags_failed();
        self.end(id, Outcome::TagsFailed);
    }

    /// The pages of a command are in memory.
    fn go(&mut self, id: u64) {
        match &self.commands[&id].request {
            Request::Read
            | Request::Sweep
            | Request::Judge { .. }
            | Request::ReadMetadata
            | Request::Adopt
            | Request::Release => self.actions.push(Action::Read(id)),
            Request::Vouch => self.vouch(id),
            Request::Restore(_) => self.restore(id),
            // It has failed while the pages were read: nothing takes the command from the queue.
            Request::Write(_) if self.failed => self.end(id, Outcome::TagsFailed),
            Request::Write(_) => {
                if !self.rules.keep(Rule::LogFirst) {
                    self.actions.push(Action::Write(id));
                    return;
                }
                self.queue.push_back(id);
                self.go_on();
            }
        }
    }

    /// The tag file could not be written or synced: from now on it accepts no writes.
    pub fn tags_failed(&mut self) {
        self.failed = true;
        self.checkpoint.fail();
        let mut waiting: Vec<u64> = self.queue.drain(..).collect();
        waiting.append(&mut self.committing);
        for id in waiting {
            self.end(id, Outcome::TagsFailed);
        }
    }

    /// The data of a command were written, or the drive refused.
    pub fn data_written(&mut self, id: u64, done: bool) {
        let command = &self.commands[&id];
        assert!(
            !self.rules.are_asserted() || command.number.is_some(),
            "T5: data are written when their record is durable"
        );
        if !done {
            self.actions.push(Action::SeeAgain(id));
            return;
        }
        let Request::Write(change) = &command.request else { panic!("a write") };
        let (first, change) = (command.blocks.start, change.clone());
        assert!(
            !self.rules.are_asserted() || self.locks.has_alone(id),
            "T6: tags are changed by a command that has their blocks alone"
        );
        self.put(first, &change);
        self.end(id, Outcome::Done);
    }

    /// The blocks of a failed write were read again, each by itself; `None` for those that cannot
    /// be read.
    pub fn seen_again(&mut self, id: u64, seen: &[Option<Vec<u8>>]) {
        let command = &self.commands[&id];
        let Request::Write(change) = &command.request else { panic!("a write") };
        let (geometry, guard) = (self.geometry, self.geometry.format().guard());
        let (first, change) = (command.blocks.start, change.clone());
        // As long as its record is in the log, nothing may call it settled.
        self.refused.extend(command.number);
        for (at, bytes) in seen.iter().enumerate() {
            let (new, new_sum) = self.version(&change, first, at);
            let (page, place) = self.geometry.place(first + at as u64);
            let old = self.cache.page(page).entry(&geometry, place);
            let is_old = bytes.as_deref().is_some_and(|bytes| {
                let opinion = || old.judge(&geometry, guard.of(bytes));
                !geometry.has_sum(bytes, new_sum) && !matches!(opinion(), Opinion::Differs(_))
            });
            if !is_old {
                let others = change.others_of(&geometry, at);
                self.cache.change(page).set_with(&geometry, place, &new, others);
            }
        }
        self.end(id, Outcome::DriveFailed);
    }

    /// The tag and the sum that a change gives to one of its blocks.
    fn version(&self, change: &Change, first: u64, at: usize) -> (Tag, Sum) {
        match change {
            Change::Tags { tags, sums, .. } => (tags[at], sums.of(at)),
            Change::Zeros(_) => {
                let tuple = self.geometry.tuple(first + at as u64, self.zero_guard);
                (Tag::written(tuple), self.zero_sum)
            }
        }
    }

    /// Puts the tags of a change into the pages.
    fn put(&mut self, first: u64, change: &Change) {
        let geometry = self.geometry;
        for part in geometry.parts(&(first..first + change.blocks())) {
            let page = self.cache.change(part.page);
            match change {
                Change::Tags { tags, .. } => {
                    let others = change.others_in(&geometry, &part.at);
                    page.set_all(&geometry, part.place, &tags[part.at], others);
                }
                Change::Zeros(_) => {
                    let zeros = |at| Tag::written(geometry.tuple(first + at as u64, self.zero_guard));
                    let tags: Vec<Tag> = part.at.map(zeros).collect();
                    page.set_all(&geometry, part.place, &tags, &[]);
                }
            }
        }
    }

    /// A command ends, with an outcome.
    fn end(&mut self, id: u64, outcome: Outcome) {
        self.actions.push(Action::Done { id, outcome });
        self.leave(id);
    }

    /// A command has ended: its blocks and pages are for others.
    fn leave(&mut self, id: u64) {
        let command = self.commands.remove(&id).expect("a command that is under way");
        self.cache.unpin(command.pinned);
        for next in self.locks.give_back(id) {
            if self.failed && matches!(self.commands[&next].request, Request::Write(_)) {
                self.cache.pin(self.commands[&next].pinned.clone());
                self.end(next, Outcome::TagsFailed);
            } else {
                self.start(next);
            }
        }
        self.go_on();
    }

    /// Begins what can begin.
    fn go_on(&mut self) {
        if !self.failed {
            self.begin_wanted_checkpoint();
        }
    }
}

#[cfg(test)]
mod tests;
