//! Commands that are carried in steps, by users who wait for none of them.
//!
//! ```text
//! begin ─▶ machine ─▶ actions ─┬─ the log, the data, a flush, pages: requests for the kernel ─▶ carried ─┐
//!                              ├─ what waits for media: a thread ─▶ aside ───────────────────────────────┤
//!                              └─ done                                                                   │
//!             ▲──────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

use super::{Carrier, Held, Payload, Shared};
use crate::file::Appended;
use crate::group::Group;
use crate::machine::{Action, Outcome, Request};
use crate::record::{Change, Record};
use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use pumice_blockdev::{
    BlockDevice, DirectMemory, DirectOperation, DirectRequest, IoError, Operation, Step, SteppedCommand,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, PoisonError};

/// Low bits of a command's number: whose it is.
pub(super) const USER_BITS: u32 = 10;
/// Most users at a time.
const USERS: usize = (1 << USER_BITS) - 2;

/// Tells a user that there are steps for it.
pub(super) type Wake = Arc<dyn Fn() + Send + Sync>;

/// The user whose command has a number; `None` for a thread's.
pub(super) fn user_of(id: u64) -> Option<usize> {
    (id as usize & ((1 << USER_BITS) - 1)).checked_sub(1)
}

/// Somebody who carries commands in steps.
pub(super) struct User {
    wake: Wake,
    /// It was told since it last looked.
    told: bool,
    ready: VecDeque<Action>,
    commands: BTreeMap<u64, Command>,
    carried: BTreeMap<u64, Carried>,
}

/// A command under way.
struct Command {
    token: u64,
    blocks: Range<u64>,
    /// The bytes that are written; `None` for a flush.
    data: Option<SharedBuffer>,
    /// A flush follows the write.
    durable: bool,
    error: Option<IoError>,
}

/// The purpose of a step.
enum Carried {
    /// A write of the commit.
    Log,
    /// The data of a command.
    Data(u64),
    /// A flush, for a command and others.
    Flush(u64),
    /// Pages, from this group on.
    Load {
        id: u64,
        groups: Vec<u64>,
    },
    Aside(Action),
}

/// A commit under way.
pub(super) struct UnderWay {
    appended: Appended,
    /// Writes of it that have not ended.
    left: usize,
}

impl Shared {
    fn user(&mut self, user: usize) -> &mut User {
        self.users[user].as_mut().expect("a user that has not left")
    }

    /// Gives an action to a user, and tells it, unless it asks itself.
    pub(super) fn give(&mut self, user: usize, action: Action, by: Option<usize>) {
        // One that was dismissed has left its commands.
        let Some(to) = self.users[user].as_mut() else { return };
        to.ready.push_back(action);
        if by != Some(user) && !to.told {
            to.told = true;
            let wake = Arc::clone(&to.wake);
            self.to_tell.push(wake);
        }
    }

    fn carries(&mut self, user: usize, what: Carried) -> u64 {
        let step = self.next_id(None);
        self.user(user).carried.insert(step, what);
        step
    }
}

impl Carrier {
    /// Returns whether commands can be carried in steps.
    pub(crate) fn has_steps(&self) -> bool {
        self.tags.is_some()
    }

    pub(crate) fn join(&self, wake: Wake) -> Option<usize> {
        let mut shared = self.shared();
        let free = shared.users.iter().position(Option::is_none);
        let number = free.unwrap_or(shared.users.len());
        if number >= USERS {
            return None;
        }
        let (ready, commands, carried) = (VecDeque::new(), BTreeMap::new(), BTreeMap::new());
        let user = Some(User { wake, told: false, ready, commands, carried });
        match free {
            Some(free) => shared.users[free] = user,
            None => shared.users.push(user),
        }
        Some(number)
    }

    /// Returns whether whole grains of the drive begin and end there, and in memory for direct I/O.
    fn is_direct(&self, offset: u64, data: &SharedBuffer) -> bool {
        let whole = |grain: u64| offset.is_multiple_of(grain) && (data.len() as u64).is_multiple_of(grain);
        self.drive.direct_fd().is_some_and(|target| whole(target.grain.into())) && data.is_aligned()
    }

    /// Begins a write. Returns false, and nothing has begun, if it is not for this way.
    pub(crate) fn begin_write(
        &self,
        (user, token): (usize, u64),
        (offset, data, durable): (u64, &SharedBuffer, bool),
        change: impl FnOnce(&Range<u64>) -> Change,
    ) -> bool {
        let Ok(blocks) = self.geometry.whole_blocks(offset, data.len() as u64) else { return false };
        let count = blocks.end - blocks.start;
        if !self.is_direct(offset, data) || count == 0 || count > self.geometry.max_record_blocks() {
            return false;
        }
        let change = Arc::new(change(&blocks));
        let mut shared = self.shared();
        if !shared.machine.takes_writes() {
            return false;
        }
        let id = shared.next_id(Some(user));
        let data = Some(data.clone());
        let command = Command { token, blocks: blocks.clone(), data, durable, error: None };
        shared.user(user).commands.insert(id, command);
        shared.machine.begin(id, blocks, Request::Write(change));
        true
    }

    /// Begins a flush.
    pub(crate) fn begin_flush(&self, user: usize, token: u64) {
        let mut shared = self.shared();
        let id = shared.next_id(Some(user));
        let command = Command { token, blocks: 0..0, data: None, durable: false, error: None };
        shared.user(user).commands.insert(id, command);
        shared.machine.begin_flush(id);
    }

    /// Adds what a user is to do now.
    pub(crate) fn steps(&self, user: usize, steps: &mut Vec<Step>) {
        let mut shared = self.shared();
        shared.user(user).told = false;
        loop {
            let Some(action) = shared.user(user).ready.pop_front() else {
                shared.distribute(Some(user));
                if shared.user(user).ready.is_empty() {
                    return;
                }
                continue;
            };
            match action {
                Action::Done { id, outcome } => steps.extend(self.done(&mut shared, user, id, outcome)),
                Action::Commit(records) => {
                    // There is one at a time, and others need not wait until it has its bytes.
                    drop(shared);
                    let (appended, writes) = self.prepare(&records);
                    shared = self.shared();
                    if writes.is_empty() {
                        shared.machine.committed(&appended.numbers, appended.full, appended.low);
                        continue;
                    }
                    shared.commit = Some(UnderWay { appended, left: writes.len() });
                    for write in writes {
                        steps.push(Step::Carry(shared.carries(user, Carried::Log), write));
                    }
                }
                Action::Write(id) => {
                    let Command { blocks, data, .. } = &shared.user(user).commands[&id];
                    let offset = blocks.start * self.geometry.block_bytes() as u64;
                    let data = data.clone().expect("the data of a write");
                    let (len, memory) = (data.len(), DirectMemory::Bytes(data));
                    let operation = DirectOperation::Write { durable: false };
                    let device = Arc::clone(&self.drive);
                    let request = DirectRequest { device, operation, offset, len, memory };
                    steps.push(Step::Carry(shared.carries(user, Carried::Data(id)), request));
                }
                Action::Flush(Some(id)) => {
                    let (operation, memory) = (DirectOperation::Flush, DirectMemory::None);
                    let device = Arc::clone(&self.drive);
                    let request = DirectRequest { device, operation, offset: 0, len: 0, memory };
                    steps.push(Step::Carry(shared.carries(user, Carried::Flush(id)), request));
                }
                Action::Load { id, groups } => match self.load(&groups) {
                    Some(request) => {
                        let carried = Carried::Load { id, groups };
                        steps.push(Step::Carry(shared.carries(user, carried), request));
                    }
                    None => {
                        let aside = Carried::Aside(Action::Load { id, groups });
                        steps.push(Step::Aside(shared.carries(user, aside)));
                    }
                },
                other => steps.push(Step::Aside(shared.carries(user, Carried::Aside(other)))),
            }
        }
    }

    /// The end of a command, or of its write, if it is to be durable.
    fn done(&self, shared: &mut Held<'_>, user: usize, id: u64, outcome: Outcome) -> Option<Step> {
        let command = shared.user(user).commands.get_mut(&id).expect("a command that ends");
        if command.durable && outcome == Outcome::Done {
            command.durable = false;
            shared.machine.begin_flush(id);
            return None;
        }
        let Command { token, blocks, data, error, .. } =
            shared.user(user).commands.remove(&id).expect("it was there");
        let result = match (outcome, error) {
            (Outcome::Done, _) => Ok(()),
            (Outcome::DriveFailed, Some(error)) => Err(error),
            (outcome, _) => {
                let operation = if data.is_some() { Operation::Write } else { Operation::Flush };
                let at = blocks.start * self.geometry.block_bytes() as u64;
                let len = data.map_or(0, |data| data.len());
                let why = match outcome {
                    Outcome::DriveFailed => "the drive failed to flush".to_owned(),
                    _ => format!("tag file: {}", shared.failure.as_deref().unwrap_or("it has failed before")),
                };
                Err(IoError::new(self.drive.name(), operation, at, len, std::io::Error::other(why)))
            }
        };
        Some(Step::Done { token, result })
    }

    fn tags(&self) -> Arc<dyn BlockDevice> {
        Arc::clone(self.tags.as_ref().expect("commands are carried in steps"))
    }

    /// The writes of a commit.
    fn prepare(&self, records: &[Record]) -> (Appended, Vec<DirectRequest>) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let (appended, runs) = log.prepare(records);
        let writes = runs.iter().map(|run| {
            let mut bytes = log.memory(run.len);
            log.fill(run, records, &mut bytes[..run.len]);
            DirectRequest {
                device: self.tags(),
                operation: DirectOperation::Write { durable: true },
                offset: run.at,
                len: run.len,
                memory: DirectMemory::Bytes(SharedBuffer::new(bytes, run.len)),
            }
        });
        let writes = writes.collect();
        (appended, writes)
    }

    /// The read of groups of pages; `None` if it is not one read of whole grains.
    fn load(&self, groups: &[u64]) -> Option<DirectRequest> {
        let (first, last) = (*groups.first()?, *groups.last()?);
        let tags = self.tags();
        let offset = self.geometry.page_at(self.geometry.pages_of(first).start);
        let end = self.geometry.page_at(self.geometry.pages_of(last).end);
        let len = (end - offset).next_multiple_of(tags.direct_fd()?.grain.into()) as usize;
        if last - first >= groups.len() as u64 || offset + len as u64 > tags.size_bytes() {
            return None;
        }
        let memory = DirectMemory::Room(AlignedBuffer::new(len));
        Some(DirectRequest { device: tags, operation: DirectOperation::Read, offset, len, memory })
    }

    /// A request of a user has ended.
    pub(crate) fn carried(
        &self,
        user: usize,
        step: u64,
        request: DirectRequest,
        result: Result<(), IoError>,
    ) {
        let mut shared = self.shared();
        let carried = shared.user(user).carried.remove(&step).expect("a step under way");
        let done = result.is_ok();
        match carried {
            Carried::Log => {
                if let Err(error) = result {
                    shared.machine.tags_failed();
                    shared.failure.get_or_insert(error.to_string());
                }
                let commit = shared.commit.as_mut().expect("the commit under way");
                commit.left -= 1;
                let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
                if let DirectMemory::Bytes(memory) = request.memory {
                    memory.into_buffer().into_iter().for_each(|memory| log.give_back(memory));
                }
                if commit.left == 0 {
                    let UnderWay { appended, .. } = shared.commit.take().expect("it was there");
                    log.synced();
                    drop(log);
                    shared.machine.committed(&appended.numbers, appended.full, appended.low);
                }
            }
            Carried::Data(id) => {
                shared.fails(user, id, result);
                shared.machine.data_written(id, done);
            }
            Carried::Flush(id) => {
                shared.fails(user, id, result);
                shared.machine.flushed(Some(id), done);
            }
            Carried::Load { id, groups } => match request.memory {
                DirectMemory::Room(room) if done => {
                    let loaded = self.decode(&groups, &room);
                    shared.machine.loaded(id, loaded);
                }
                // One of them may be lost.
                _ => shared.give(user, Action::Load { id, groups }, Some(user)),
            },
            Carried::Aside(_) => unreachable!("it is no request"),
        }
    }

    fn decode(&self, groups: &[u64], bytes: &[u8]) -> Vec<Group> {
        let sectors = bytes.as_chunks().0;
        let mut at = 0;
        let decode = |group: &u64| {
            let count = self.geometry.pages_of(*group).count();
            at += count;
            Group::decode(&self.geometry, self.identity, *group, &sectors[at - count..at])
        };
        groups.iter().map(decode).collect()
    }

    /// Carries out a step of a user that waits for media.
    pub(crate) fn aside(&self, user: usize, step: u64) {
        let mut shared = self.shared();
        let carried = shared.user(user).carried.remove(&step).expect("a step under way");
        let Carried::Aside(action) = carried else { unreachable!("it is a request") };
        let id = match action {
            Action::Load { id, .. } | Action::SeeAgain(id) => id,
            common => {
                drop(shared);
                self.carry_common(common);
                self.shared().distribute(None);
                return;
            }
        };
        let blocks = shared.user(user).commands[&id].blocks.clone();
        drop(shared);
        let mut payload = Payload::Zero { discard: false };
        let event = self.carry_own(&action, &blocks, &mut payload, &mut None);
        let mut shared = self.shared();
        event.tell(&mut shared.machine, id);
        shared.distribute(None);
    }

    pub(crate) fn is_busy(&self, user: usize) -> bool {
        let mut shared = self.shared();
        let user = shared.user(user);
        !(user.commands.is_empty() && user.carried.is_empty())
    }

    /// Removes all users. Returns false if some have commands under way, which never end.
    pub(crate) fn dismiss(&self) -> bool {
        let users = self.shared().users.len();
        (0..users).for_each(|user| self.leave(user));
        self.shared().machine.is_idle()
    }

    pub(crate) fn leave(&self, user: usize) {
        let mut shared = self.shared();
        let Some(gone) = shared.users[user].take() else { return };
        // Common work that it has not carried out is for others.
        let asides = gone.carried.into_values().filter_map(|carried| match carried {
            Carried::Aside(action) => Some(action),
            _ => None,
        });
        let next = shared.users.iter().position(Option::is_some);
        for action in asides.chain(gone.ready) {
            match (next, action) {
                (_, Action::Done { .. } | Action::Load { .. } | Action::SeeAgain(_)) => {}
                (_, Action::Write(_) | Action::Read(_) | Action::Flush(Some(_))) => {}
                (Some(next), action) => shared.give(next, action, None),
                (None, action) => shared.common.push_back(action),
            }
        }
        shared.wake();
    }
}

impl Shared {
    /// Keeps the error of a request for its command.
    fn fails(&mut self, user: usize, id: u64, result: Result<(), IoError>) {
        if let (Err(error), Some(command)) = (result, self.user(user).commands.get_mut(&id)) {
            command.error = Some(error);
        }
    }
}

impl Carrier {
    /// Begins a command.
    ///
    /// # Errors
    /// Returns the command if it is not for this way.
    pub(crate) fn begin_stepped(
        &self,
        user: usize,
        token: u64,
        command: SteppedCommand,
        change: impl FnOnce(&Range<u64>, &[u8]) -> Change,
    ) -> Result<(), SteppedCommand> {
        match &command {
            SteppedCommand::Flush => self.begin_flush(user, token),
            SteppedCommand::Write { offset, data, durable } => {
                let change = |blocks: &Range<u64>| change(blocks, data);
                if !self.begin_write((user, token), (*offset, data, *durable), change) {
                    return Err(command);
                }
            }
        }
        Ok(())
    }
}
