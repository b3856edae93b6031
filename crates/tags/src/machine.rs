//! The state machine between hosts, a drive and its tag file.
//!
//! Pure: events go in, actions come out. `docs/reference/on-disk/tags.md` has the order of the
//! actions, and the reasons.

mod cache;
mod checkpoint;

use crate::geometry::Geometry;
use crate::locks::Locks;
use crate::page::{Found, Judged, Opinion, Origin, Page, Tag};
use crate::record::{Change, Record};
use cache::Cache;
use checkpoint::Checkpoint;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// The operation on a range of blocks.
#[derive(Debug, Clone)]
pub enum Request {
    /// Read and check.
    Read,
    /// Read, with the tags. Nothing is checked.
    ReadTags,
    /// Write.
    Write(Change),
    /// Read; blocks of unknown origin get tags for their present contents.
    Adopt,
    /// Read; blocks that differ from their tags get tags for their present contents.
    Release,
    /// Vouch for their adopted tags: nothing is read, no tuple changes.
    Vouch,
}

/// An action. For each there is a method of [`Machine`] that accepts its outcome.
#[derive(Debug, Clone)]
pub enum Action {
    /// Read pages of the tag file: [`Machine::loaded`].
    Load {
        /// For this command.
        id: u64,
        /// Which.
        pages: Vec<u64>,
    },
    /// Append records to the log, in this order, and sync it: [`Machine::committed`].
    Commit(Vec<Record>),
    /// Write the data of a command: [`Machine::data_written`].
    Write(u64),
    /// Read the blocks of a command: [`Machine::data_read`].
    Read(u64),
    /// Read the blocks of a command whose write failed: [`Machine::seen_again`].
    SeeAgain(u64),
    /// Flush the drive, for a command or (`None`) a checkpoint: [`Machine::flushed`].
    Flush(Option<u64>),
    /// Write pages to their places and sync the tag file: [`Machine::stored`].
    Store(Vec<(u64, Page)>),
    /// Release the log up to a number: [`Machine::released`].
    Release(u64),
    /// A command has ended.
    Done {
        /// Which.
        id: u64,
        /// How.
        outcome: Outcome,
    },
}

/// The outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was read, with the result of checking each block.
    Read(Vec<Judged>),
    /// It was read, with the tag of each block.
    Tags(Vec<Tag>),
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
    /// Flushes for commands, with the records that they settle.
    flushes: BTreeMap<u64, u64>,
    checkpoint: Checkpoint,
    /// Pages that were lost.
    lost: BTreeSet<u64>,
    failed: bool,
    zero_guard: u64,
    zero_sum: u32,
    actions: Vec<Action>,
    #[cfg(test)]
    pub(crate) mutation: Option<crate::mutation::Mutation>,
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
            queue: VecDeque::new(),
            committing: Vec::new(),
            last,
            settled: last,
            refused: BTreeSet::new(),
            flushes: BTreeMap::new(),
            checkpoint: Checkpoint::new(last),
            lost: BTreeSet::new(),
            failed: false,
            zero_guard: geometry.zero_guard(),
            zero_sum: crc32c::crc32c(&vec![0; geometry.block_bytes()]),
            actions: Vec::new(),
            #[cfg(test)]
            mutation: None,
        }
    }

    /// The new actions since the last call. Actions of one call may be done in any order, and at
    /// the same time.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Pages that were found lost, by number.
    #[must_use]
    pub const fn lost_pages(&self) -> &BTreeSet<u64> {
        &self.lost
    }

    /// Whether the tag file has failed: writes are refused.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether nothing is under way and every page is in its place.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.is_idle() && !self.cache.has_dirty()
    }

    /// Whether no command and no checkpoint is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.commands.is_empty() && self.flushes.is_empty() && self.checkpoint.is_idle()
    }

    /// A command begins. `id` must be unique among those under way.
    ///
    /// # Panics
    /// If there are no blocks, some are outside the drive, or they do not match the change.
    pub fn begin(&mut self, id: u64, blocks: Range<u64>, request: Request) {
        assert!(blocks.start < blocks.end && blocks.end <= self.geometry.blocks(), "{blocks:?}");
        if let Request::Write(change) = &request {
            let record = Record { first: blocks.start, change: change.clone(), settled: 0 };
            assert_eq!(record.blocks(), blocks, "a change of other blocks");
            if self.failed {
                self.actions.push(Action::Done { id, outcome: Outcome::TagsFailed });
                return;
            }
        }
        let exclusive = !matches!(request, Request::Read | Request::ReadTags);
        #[cfg(test)]
        let exclusive = exclusive && self.mutation != Some(crate::mutation::Mutation::NoLocks);
        let granted = self.locks.ask(id, blocks.clone(), exclusive);
        self.commands.insert(id, Command { blocks, request, number: None });
        if granted {
            self.start(id);
        }
    }

    /// A flush for a host begins: earlier acknowledged writes are durable when it ends.
    pub fn begin_flush(&mut self, id: u64) {
        self.flushes.insert(id, self.settles_now());
        self.actions.push(Action::Flush(Some(id)));
    }

    /// Requests a checkpoint, so that every page is written to its place.
    pub fn begin_checkpoint(&mut self) {
        self.checkpoint.wanted = true;
        self.go_on();
    }

    fn start(&mut self, id: u64) {
        let command = &self.commands[&id];
        let pages = self.geometry.pages_of(&command.blocks);
        let missing = self.cache.pin(pages);
        if missing.is_empty() {
            self.go(id);
        } else {
            self.actions.push(Action::Load { id, pages: missing });
        }
    }

    /// Pages were read.
    pub fn loaded(&mut self, id: u64, pages: Vec<(u64, Found)>) {
        for (number, found) in pages {
            if found == Found::Lost && !self.cache.has(number) {
                self.lost.insert(number);
            }
            self.cache.insert(number, found.page());
        }
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
            Request::Read | Request::ReadTags | Request::Adopt | Request::Release => {
                self.actions.push(Action::Read(id));
            }
            Request::Vouch => self.vouch(id),
            // It has failed while the pages were read: nothing takes the command from the queue.
            Request::Write(_) if self.failed => self.end(id, Outcome::TagsFailed),
            Request::Write(_) => {
                #[cfg(test)]
                if self.mutation == Some(crate::mutation::Mutation::DataBeforeLog) {
                    self.actions.push(Action::Write(id));
                    return;
                }
                self.queue.push_back(id);
                self.go_on();
            }
        }
    }

    /// Records were appended, and the log synced: the first so many of them, with these numbers.
    /// `full` is whether the log had no room for the rest, `low` whether it is half full.
    pub fn committed(&mut self, numbers: &[u64], full: bool, low: bool) {
        if self.failed {
            // Those who waited for it were told.
            return;
        }
        let batch = std::mem::take(&mut self.committing);
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
        if !done {
            self.actions.push(Action::SeeAgain(id));
            return;
        }
        let Request::Write(change) = &command.request else { panic!("a write") };
        let (first, change) = (command.blocks.start, change.clone());
        self.put(first, &change);
        self.end(id, Outcome::Done);
    }

    /// The blocks of a failed write were read again, each by itself; `None` for those that cannot
    /// be read.
    pub fn seen_again(&mut self, id: u64, seen: &[Option<Vec<u8>>]) {
        let command = &self.commands[&id];
        let Request::Write(change) = &command.request else { panic!("a write") };
        let guard = self.geometry.format().guard();
        let (first, change) = (command.blocks.start, change.clone());
        // As long as its record is in the log, nothing may call it settled.
        self.refused.extend(command.number);
        for (at, bytes) in seen.iter().enumerate() {
            let (new, new_sum) = self.version(&change, first, at);
            let (page, place) = self.geometry.place(first + at as u64);
            let old = self.cache.page(page).tag(&self.geometry, place);
            let is_old = bytes.as_deref().is_some_and(|bytes| {
                crc32c::crc32c(bytes) != new_sum && !matches!(old.judge(guard.of(bytes)), Opinion::Differs(_))
            });
            if !is_old {
                self.cache.change(page).set(&self.geometry, place, &new);
            }
        }
        self.end(id, Outcome::DriveFailed);
    }

    /// The blocks of a command were read: the guard of each, or `None` if the drive refused. For
    /// [`Request::ReadTags`] the guards are not used.
    pub fn data_read(&mut self, id: u64, guards: Option<&[u64]>) {
        let command = &self.commands[&id];
        let Some(guards) = guards else {
            self.end(id, Outcome::DriveFailed);
            return;
        };
        let (blocks, request) = (command.blocks.clone(), command.request.clone());
        if matches!(request, Request::ReadTags) {
            let tag = |block| {
                let (page, place) = self.geometry.place(block);
                self.cache.page(page).tag(&self.geometry, place)
            };
            let outcome = Outcome::Tags(blocks.map(tag).collect());
            self.end(id, outcome);
            return;
        }
        let mut judged = Vec::with_capacity(guards.len());
        let mut block = blocks.start;
        while block < blocks.end {
            let (number, place) = self.geometry.place(block);
            let count = (self.geometry.blocks_of_page() - place as u64).min(blocks.end - block) as usize;
            let guards = &guards[judged.len()..judged.len() + count];
            let page = self.cache.page(number);
            let begin = judged.len();
            page.judge(&self.geometry, place, guards, &mut judged);
            if self.lost.contains(&number) {
                for (place, judged) in (place..).zip(&mut judged[begin..]) {
                    if page.origin(place) == Origin::Unknown {
                        judged.opinion = Opinion::Lost;
                    }
                }
            }
            block += count as u64;
        }
        if !self.failed {
            self.adopt(&request, blocks, guards, &judged);
        }
        self.end(id, Outcome::Read(judged));
    }

    /// Makes tags of what a command read, if it asks for that.
    fn adopt(&mut self, request: &Request, blocks: Range<u64>, guards: &[u64], judged: &[Judged]) {
        for (block, (guard, judged)) in blocks.zip(guards.iter().zip(judged)) {
            let (number, place) = self.geometry.place(block);
            let adopts = match request {
                Request::Adopt => self.cache.page(number).origin(place) == Origin::Unknown,
                Request::Release => matches!(judged.opinion, Opinion::Differs(_)),
                Request::Read | Request::ReadTags | Request::Write(_) | Request::Vouch => return,
            };
            if adopts {
                let tag = Tag { origin: Origin::Adopted, tuple: self.geometry.tuple(block, *guard) };
                self.cache.change(number).set(&self.geometry, place, &tag);
            }
        }
    }

    /// Makes the adopted tags of a command's blocks vouched ones.
    fn vouch(&mut self, id: u64) {
        if self.failed {
            self.end(id, Outcome::TagsFailed);
            return;
        }
        let mut count = 0;
        for block in self.commands[&id].blocks.clone() {
            let (page, place) = self.geometry.place(block);
            let tag = self.cache.page(page).tag(&self.geometry, place);
            if tag.origin == Origin::Adopted {
                let tag = Tag { origin: Origin::Vouched, ..tag };
                self.cache.change(page).set(&self.geometry, place, &tag);
                count += 1;
            }
        }
        self.end(id, Outcome::Vouched(count));
    }

    /// The drive was flushed, for a command or a checkpoint.
    pub fn flushed(&mut self, id: Option<u64>, done: bool) {
        let Some(id) = id else {
            self.checkpoint_flushed(done);
            return;
        };
        let settles = self.flushes.remove(&id).expect("a flush that is under way");
        if done {
            self.settled = self.settled.max(settles);
        }
        let outcome = if done { Outcome::Done } else { Outcome::DriveFailed };
        self.actions.push(Action::Done { id, outcome });
    }

    /// Up to this number, the data of every record are written.
    fn settles_now(&self) -> u64 {
        let under_way = self.commands.values().filter_map(|command| command.number).min();
        under_way.map_or(self.last, |first| first - 1)
    }

    /// The tag and the sum that a change gives to one of its blocks.
    fn version(&self, change: &Change, first: u64, at: usize) -> (Tag, u32) {
        match change {
            Change::Tags { tags, sums, .. } => (tags[at], sums[at]),
            Change::Zeros(_) => {
                let tuple = self.geometry.tuple(first + at as u64, self.zero_guard);
                (Tag::written(tuple), self.zero_sum)
            }
        }
    }

    /// Puts the tags of a change into the pages.
    fn put(&mut self, first: u64, change: &Change) {
        let record = Record { first, change: change.clone(), settled: 0 };
        for (at, block) in record.blocks().enumerate() {
            let (tag, _) = self.version(change, first, at);
            let (page, place) = self.geometry.place(block);
            self.cache.change(page).set(&self.geometry, place, &tag);
        }
    }

    /// A command ends: its blocks and pages are for others.
    fn end(&mut self, id: u64, outcome: Outcome) {
        let command = self.commands.remove(&id).expect("a command that is under way");
        self.cache.unpin(self.geometry.pages_of(&command.blocks));
        self.actions.push(Action::Done { id, outcome });
        for next in self.locks.give_back(id) {
            if self.failed && matches!(self.commands[&next].request, Request::Write(_)) {
                self.cache.pin(self.geometry.pages_of(&self.commands[&next].blocks.clone()));
                self.end(next, Outcome::TagsFailed);
            } else {
                self.start(next);
            }
        }
        self.go_on();
    }

    /// Begins what can begin: a commit, a checkpoint.
    fn go_on(&mut self) {
        if self.failed {
            return;
        }
        if self.committing.is_empty() && !self.queue.is_empty() && !self.checkpoint.holds_log() {
            self.committing = self.queue.drain(..).collect();
            let settled = self.refused.first().map_or(self.settled, |first| self.settled.min(first - 1));
            #[cfg(test)]
            let settled = match self.mutation {
                Some(crate::mutation::Mutation::RefusedIsSettled) => self.settled,
                _ => settled,
            };
            let record = |id: &u64| {
                let Command { blocks, request, .. } = &self.commands[id];
                let Request::Write(change) = request else { panic!("a write") };
                Record { first: blocks.start, change: change.clone(), settled }
            };
            self.actions.push(Action::Commit(self.committing.iter().map(record).collect()));
        }
        self.begin_wanted_checkpoint();
    }
}

#[cfg(test)]
mod tests;
