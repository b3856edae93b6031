//! Carries out the actions of the machine.
//!
//! A command that a thread waits for is carried out by that thread. Common work (a commit, a step
//! of a checkpoint) is done by any waiting thread. Commands of users who wait for none are carried
//! [in steps](steps); where there is such a user, it has the common work too.

mod steps;
mod sweep;

use crate::file::{Log, TagError, TagFile};
use crate::geometry::Geometry;
use crate::group::Group;
use crate::machine::{Action, Machine, Outcome, Request};
use pumice_blockdev::{BlockDevice, IoError};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::Thread;
use steps::{USER_BITS, UnderWay, User, Wake, user_of};

/// The next carrier's number; 0 is nobody's.
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// Room for guards.
    static GUARDS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The data of a command.
pub(crate) enum Payload<'b> {
    Read(&'b mut [u8]),
    /// For [`Request::ReadMetadata`].
    ReadMetadata(&'b mut [u8]),
    Write(&'b [u8]),
    Zero {
        discard: bool,
    },
}

/// The outcome of a command, from the machine, and the drive's error if there was one.
pub(crate) struct Carried {
    pub(crate) outcome: Outcome,
    pub(crate) error: Option<IoError>,
}

struct Shared {
    machine: Machine,
    next: u64,
    /// Actions for one command each. They are few: as many as there are threads.
    own: Vec<(u64, Action)>,
    /// Actions for all.
    common: VecDeque<Action>,
    outcomes: Vec<(u64, Outcome)>,
    /// The reason why the tag file accepts no more writes.
    failure: Option<String>,
    /// Threads that wait, each for its command, or for none.
    waiting: Vec<(Option<u64>, Thread)>,
    /// Users that carry commands in steps, by number.
    users: Vec<Option<User>>,
    /// The commit that one of them carries: how far it is.
    commit: Option<UnderWay>,
    /// Threads that are to be woken when the lock is released, and users that are to be told then.
    to_wake: Vec<Thread>,
    to_tell: Vec<Wake>,
}

/// The shared state, locked. Whoever was to be woken is woken after the lock is released: a thread
/// that wakes up needs the lock first, and would wait for it again.
struct Held<'s>(Option<MutexGuard<'s, Shared>>);

impl Deref for Held<'_> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.0.as_ref().expect("it is locked until it is dropped")
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Shared {
        self.0.as_mut().expect("it is locked until it is dropped")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let threads = std::mem::take(&mut self.to_wake);
        let users = std::mem::take(&mut self.to_tell);
        self.0 = None;
        threads.iter().for_each(Thread::unpark);
        users.iter().for_each(|wake| wake());
    }
}

/// The machine with the drive and the tag file.
pub(crate) struct Carrier {
    pub(crate) drive: Arc<dyn BlockDevice>,
    geometry: Geometry,
    pub(crate) file: RwLock<TagFile>,
    log: Mutex<Log>,
    /// The device of the tag file, if commands can be carried in steps.
    tags: Option<Arc<dyn BlockDevice>>,
    identity: u64,
    shared: Mutex<Shared>,
    /// No other in this process has it.
    number: u64,
    /// Of the tags: see [`Machine::tag_version`].
    version: Arc<AtomicU64>,
    #[cfg(test)]
    viewed: AtomicU64,
}

impl Carrier {
    pub(crate) fn new(drive: Arc<dyn BlockDevice>, file: TagFile, mut log: Log, machine: Machine) -> Self {
        let tags = file.device().filter(|tags| {
            let unit = tags.direct_fd().map(|target| target.grain);
            unit.is_some_and(|unit| log.set_unit(unit)) && drive.direct_fd().is_some()
        });
        let version = machine.tag_version();
        let shared = Shared {
            machine,
            next: 1,
            own: Vec::new(),
            common: VecDeque::new(),
            outcomes: Vec::new(),
            failure: None,
            waiting: Vec::new(),
            users: Vec::new(),
            commit: None,
            to_wake: Vec::new(),
            to_tell: Vec::new(),
        };
        Self {
            drive,
            geometry: file.header().geometry,
            identity: file.header().identity,
            tags,
            file: RwLock::new(file),
            log: Mutex::new(log),
            shared: Mutex::new(shared),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            version,
            #[cfg(test)]
            viewed: AtomicU64::new(0),
        }
    }

    fn shared(&self) -> Held<'_> {
        Held(Some(self.shared.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Waits until there is something to do: for a command, or for anybody.
    fn wait<'s>(&'s self, mut shared: Held<'s>, id: Option<u64>) -> Held<'s> {
        let me = std::thread::current();
        let my = me.id();
        shared.waiting.push((id, me));
        drop(shared);
        // It may also end by itself: callers look again.
        std::thread::park();
        let mut shared = self.shared();
        shared.waiting.retain(|(_, thread)| thread.id() != my);
        shared
    }

    /// The reason why the tag file accepts no more writes, if so.
    pub(crate) fn failure(&self) -> Option<String> {
        self.shared().failure.clone()
    }

    /// The number of pages that were found lost.
    pub(crate) fn lost_pages(&self) -> u64 {
        self.shared().machine.lost_pages().len() as u64
    }

    /// Carries out a command completely.
    pub(crate) fn carry(&self, blocks: Range<u64>, request: Request, mut payload: Payload<'_>) -> Carried {
        let mut shared = self.shared();
        let id = shared.next_id(None);
        if shared.machine.begin_now(id, blocks.clone(), &request) {
            drop(shared);
            return self.read_now(id, &blocks, &mut payload);
        }
        shared.machine.begin(id, blocks.clone(), request);
        self.until_done(shared, id, blocks, &mut payload)
    }

    /// Carries out a read that waits for nothing.
    fn read_now(&self, id: u64, blocks: &Range<u64>, payload: &mut Payload<'_>) -> Carried {
        self.read(blocks, payload, |read, guards| {
            let mut shared = self.shared();
            let outcome = shared.machine.read_now(id, read.is_ok().then_some(guards));
            shared.distribute(None);
            Carried { outcome, error: read.err() }
        })
    }

    /// Reads the blocks of a command, computes their guards if they are to be checked, and calls
    /// `then` with these.
    fn read<T>(
        &self,
        blocks: &Range<u64>,
        payload: &mut Payload<'_>,
        then: impl FnOnce(Result<(), IoError>, &[u64]) -> T,
    ) -> T {
        let (buffer, judged) = match payload {
            Payload::Read(buffer) => (buffer, true),
            Payload::ReadMetadata(buffer) => (buffer, false),
            Payload::Write(_) | Payload::Zero { .. } => unreachable!("it reads"),
        };
        match self.drive.read_at(blocks.start * self.geometry.block_bytes() as u64, buffer) {
            Ok(()) if judged => self.with_guards(buffer, |guards| then(Ok(()), guards)),
            read => then(read, &[]),
        }
    }

    /// Calls `then` with the guards of whole blocks.
    fn with_guards<T>(&self, data: &[u8], then: impl FnOnce(&[u64]) -> T) -> T {
        let count = data.len() / self.geometry.block_bytes();
        // Taken out, so that nothing that is called here can meet it in use.
        let mut guards = GUARDS.take();
        if guards.len() < count {
            guards.resize(count, 0);
        }
        self.geometry.guards_into(data, &mut guards[..count]);
        let result = then(&guards[..count]);
        GUARDS.set(guards);
        result
    }

    /// Flushes the drive.
    pub(crate) fn flush(&self) -> Carried {
        let mut shared = self.shared();
        let id = shared.next_id(None);
        shared.machine.begin_flush(id);
        self.until_done(shared, id, 0..0, &mut Payload::Zero { discard: false })
    }

    /// Records that the tag file was closed. From now on it takes no writes.
    pub(crate) fn close(&self) -> Result<(), TagError> {
        if !self.rest(true) {
            let why = self.failure().unwrap_or_else(|| "it has failed before".to_owned());
            return Err(io::Error::other(why).into());
        }
        let mut file = self.file.write().unwrap_or_else(PoisonError::into_inner);
        file.close(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes every page to its place. False if the tag file fails.
    pub(crate) fn bring_home(&self) -> bool {
        self.rest(false)
    }

    /// The same; if it is the last time, nothing more is written after it.
    fn rest(&self, is_last: bool) -> bool {
        let mut shared = self.shared();
        shared.machine.begin_checkpoint();
        loop {
            shared.distribute(None);
            if shared.machine.has_failed() {
                return false;
            }
            if let Some(action) = shared.common.pop_front() {
                drop(shared);
                self.carry_common(action);
                shared = self.shared();
            } else if shared.machine.is_at_rest() {
                if is_last {
                    shared.machine.close();
                    shared.failure.get_or_insert_with(|| "it was closed".to_owned());
                }
                return true;
            } else if shared.machine.is_idle() {
                shared.machine.begin_checkpoint();
            } else {
                shared = self.wait(shared, None);
            }
        }
    }

    fn until_done<'s>(
        &'s self,
        mut shared: Held<'s>,
        id: u64,
        blocks: Range<u64>,
        payload: &mut Payload<'_>,
    ) -> Carried {
        let mut error = None;
        loop {
            shared.distribute(None);
            if let Some(outcome) = take(&mut shared.outcomes, id) {
                // It may have been woken for what is for all.
                shared.wake();
                return Carried { outcome, error };
            }
            if let Some(action) = take(&mut shared.own, id) {
                drop(shared);
                let event = self.carry_own(&action, &blocks, payload, &mut error);
                shared = self.shared();
                event.tell(&mut shared.machine, id);
            } else if let Some(action) = shared.common.pop_front() {
                drop(shared);
                self.carry_common(action);
                shared = self.shared();
            } else {
                shared = self.wait(shared, Some(id));
            }
        }
    }

    /// Carries out an action of one command.
    fn carry_own(
        &self,
        action: &Action,
        blocks: &Range<u64>,
        payload: &mut Payload<'_>,
        error: &mut Option<IoError>,
    ) -> Event {
        let size = self.geometry.block_bytes();
        let at = blocks.start * size as u64;
        match action {
            Action::Load { groups, .. } => {
                let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
                Event::Loaded(file.load_groups(groups).ok())
            }
            Action::Read(_) => {
                let (read, guards) = self.read(blocks, payload, |read, guards| {
                    let guards = read.is_ok().then(|| guards.to_vec());
                    (read, guards)
                });
                *error = read.err();
                Event::Read(guards)
            }
            Action::Write(_) => {
                let len = (blocks.end - blocks.start) * size as u64;
                let written = match payload {
                    Payload::Write(data) => self.drive.write_at(at, data),
                    Payload::Zero { discard: true } => self.drive.discard(at, len),
                    Payload::Zero { discard: false } => self.drive.zero(at, len),
                    Payload::Read(_) | Payload::ReadMetadata(_) => unreachable!("it writes"),
                };
                let done = written.is_ok();
                *error = written.err();
                Event::Written(done)
            }
            Action::SeeAgain(_) => {
                let see = |block: u64| {
                    let mut bytes = vec![0; size];
                    self.drive.read_at(block * size as u64, &mut bytes).is_ok().then_some(bytes)
                };
                Event::SeenAgain(blocks.clone().map(see).collect())
            }
            Action::Flush(Some(_)) => {
                let flushed = self.drive.flush();
                let done = flushed.is_ok();
                *error = flushed.err();
                Event::Flushed(done)
            }
            other => unreachable!("{other:?} is for all"),
        }
    }

    fn carry_common(&self, action: Action) {
        let file = || self.file.read().unwrap_or_else(PoisonError::into_inner);
        let log = || self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |why: String| {
            let mut shared = self.shared();
            shared.machine.tags_failed();
            shared.failure.get_or_insert(why);
        };
        match action {
            Action::Commit(records) => {
                let mut log = log();
                let appended = log.append(&records).and_then(|appended| log.sync().map(|()| appended));
                drop(log);
                match appended {
                    Ok(done) => self.shared().machine.committed(&done.numbers, done.full, done.low),
                    Err(error) => failed(error.to_string()),
                }
            }
            Action::Flush(None) => {
                let flushed = self.drive.flush();
                if let Err(error) = &flushed {
                    failed(error.to_string());
                }
                self.shared().machine.flushed(None, flushed.is_ok());
            }
            Action::Store(pages) => {
                let stored = {
                    let file = file();
                    file.store(&pages).and_then(|()| file.sync())
                };
                match stored {
                    Ok(()) => self.shared().machine.stored(),
                    Err(error) => failed(error.to_string()),
                }
            }
            Action::Release(upto) => {
                let released = log().release(upto);
                match released {
                    Ok(done) => self.shared().machine.released(done),
                    Err(error) => failed(error.to_string()),
                }
            }
            other => unreachable!("{other:?} is for one command"),
        }
    }
}

/// The outcome of an action of one command.
enum Event {
    /// `None` if the tag file failed.
    Loaded(Option<Vec<Group>>),
    /// The guards; `None` if the drive refused.
    Read(Option<Vec<u64>>),
    Written(bool),
    SeenAgain(Vec<Option<Vec<u8>>>),
    Flushed(bool),
}

impl Event {
    fn tell(self, machine: &mut Machine, id: u64) {
        match self {
            Self::Loaded(Some(groups)) => machine.loaded(id, groups),
            Self::Loaded(None) => machine.load_failed(id),
            Self::Read(guards) => machine.data_read(id, guards.as_deref()),
            Self::Written(done) => machine.data_written(id, done),
            Self::SeenAgain(seen) => machine.seen_again(id, &seen),
            Self::Flushed(done) => machine.flushed(Some(id), done),
        }
    }
}

/// Takes out the first entry of a command.
fn take<T>(entries: &mut Vec<(u64, T)>, id: u64) -> Option<T> {
    let at = entries.iter().position(|(of, _)| *of == id)?;
    Some(entries.remove(at).1)
}

impl Shared {
    /// A number for a command of a user, or of a thread.
    fn next_id(&mut self, user: Option<usize>) -> u64 {
        self.next += 1;
        self.next << USER_BITS | user.map_or(0, |user| user as u64 + 1)
    }

    /// Distributes new actions, and wakes those who are to do them, except the user who asks.
    fn distribute(&mut self, by: Option<usize>) {
        for action in self.machine.take_actions() {
            let id = match &action {
                Action::Done { id, .. } | Action::Load { id, .. } => Some(*id),
                Action::Write(id) | Action::Read(id) | Action::SeeAgain(id) => Some(*id),
                Action::Flush(id) => *id,
                Action::Commit(_) | Action::Store(_) | Action::Release(_) => None,
            };
            let user = match id {
                Some(id) => user_of(id),
                // Whoever asks has it at hand.
                None => by.or_else(|| self.users.iter().position(Option::is_some)),
            };
            match (user, id, action) {
                (Some(user), _, action) => self.give(user, action, by),
                (None, Some(id), Action::Done { outcome, .. }) => self.outcomes.push((id, outcome)),
                (None, Some(id), action) => self.own.push((id, action)),
                (None, None, action) => self.common.push_back(action),
            }
        }
        self.wake();
    }

    /// Has the threads woken that have something to do: with an action or an outcome of their own,
    /// as many others as there are actions for all, and those who wait for no command of their own.
    fn wake(&mut self) {
        let Self { own, outcomes, waiting, common, to_wake, .. } = self;
        let mut common = common.len();
        let woken = waiting.extract_if(.., |(id, _)| {
            let concerned = id.is_none_or(|id| {
                own.iter().any(|(of, _)| *of == id) || outcomes.iter().any(|(of, _)| *of == id)
            });
            let wakes = concerned || common > 0;
            if wakes {
                common = common.saturating_sub(usize::from(!concerned));
            }
            wakes
        });
        to_wake.extend(woken.map(|(_, thread)| thread));
    }
}
