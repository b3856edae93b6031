//! Carries out the actions of the machine, on the threads of the callers.
//!
//! Each command is carried out by the thread that submitted it. Common work (a commit, a step of a
//! checkpoint) is done by any waiting thread.

use crate::file::{Log, TagFile};
use crate::machine::{Action, Machine, Outcome, Request};
use pumice_blockdev::{BlockDevice, IoError};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

/// The data of a command.
pub(crate) enum Payload<'b> {
    Read(&'b mut [u8]),
    /// For [`Request::ReadTags`].
    ReadTags(&'b mut [u8]),
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
    /// Actions for one command each.
    own: HashMap<u64, VecDeque<Action>>,
    /// Actions for all.
    common: VecDeque<Action>,
    outcomes: HashMap<u64, Outcome>,
    /// The reason why the tag file accepts no more writes.
    failure: Option<String>,
    /// Threads that wait to be woken. To wake nobody costs a system call.
    waiting: u32,
}

/// The machine with the drive and the tag file.
pub(crate) struct Carrier {
    pub(crate) drive: Arc<dyn BlockDevice>,
    pub(crate) file: RwLock<TagFile>,
    log: Mutex<Log>,
    shared: Mutex<Shared>,
    wake: Condvar,
}

impl Carrier {
    pub(crate) fn new(drive: Arc<dyn BlockDevice>, file: TagFile, log: Log, machine: Machine) -> Self {
        let shared = Shared {
            machine,
            next: 1,
            own: HashMap::new(),
            common: VecDeque::new(),
            outcomes: HashMap::new(),
            failure: None,
            waiting: 0,
        };
        Self {
            drive,
            file: RwLock::new(file),
            log: Mutex::new(log),
            shared: Mutex::new(shared),
            wake: Condvar::new(),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, mut shared: MutexGuard<'s, Shared>) -> MutexGuard<'s, Shared> {
        shared.waiting += 1;
        shared = self.wake.wait(shared).unwrap_or_else(PoisonError::into_inner);
        shared.waiting -= 1;
        shared
    }

    /// Wakes every thread that waits. A thread waits only with `shared`, so none is missed.
    fn wake_all(&self, shared: &Shared) {
        if shared.waiting > 0 {
            self.wake.notify_all();
        }
    }

    /// The reason why the tag file accepts no more writes, if so.
    pub(crate) fn failure(&self) -> Option<String> {
        self.shared().failure.clone()
    }

    /// How many pages were found lost.
    pub(crate) fn lost_pages(&self) -> u64 {
        self.shared().machine.lost_pages().len() as u64
    }

    /// Carries out a command completely.
    pub(crate) fn carry(&self, blocks: Range<u64>, request: Request, mut payload: Payload<'_>) -> Carried {
        let mut shared = self.shared();
        let id = shared.next_id();
        shared.machine.begin(id, blocks.clone(), request);
        self.until_done(shared, id, blocks, &mut payload)
    }

    /// Flushes the drive.
    pub(crate) fn flush(&self) -> Carried {
        let mut shared = self.shared();
        let id = shared.next_id();
        shared.machine.begin_flush(id);
        self.until_done(shared, id, 0..0, &mut Payload::Zero { discard: false })
    }

    /// Writes every page to its place. False if the tag file fails.
    pub(crate) fn bring_home(&self) -> bool {
        let mut shared = self.shared();
        shared.machine.begin_checkpoint();
        loop {
            shared.distribute();
            if shared.machine.has_failed() {
                return false;
            }
            if let Some(action) = shared.common.pop_front() {
                drop(shared);
                self.carry_common(action);
                shared = self.shared();
                self.wake_all(&shared);
            } else if shared.machine.is_at_rest() {
                return true;
            } else if shared.machine.is_idle() {
                shared.machine.begin_checkpoint();
            } else {
                shared = self.wait(shared);
            }
        }
    }

    fn until_done<'s>(
        &'s self,
        mut shared: MutexGuard<'s, Shared>,
        id: u64,
        blocks: Range<u64>,
        payload: &mut Payload<'_>,
    ) -> Carried {
        let mut error = None;
        loop {
            if shared.distribute() {
                self.wake_all(&shared);
            }
            if let Some(outcome) = shared.outcomes.remove(&id) {
                shared.own.remove(&id);
                return Carried { outcome, error };
            }
            let own = shared.own.get_mut(&id).and_then(VecDeque::pop_front);
            if let Some(action) = own {
                drop(shared);
                let event = self.carry_own(&action, &blocks, payload, &mut error);
                shared = self.shared();
                event(&mut shared.machine);
            } else if let Some(action) = shared.common.pop_front() {
                drop(shared);
                self.carry_common(action);
                shared = self.shared();
                // Who waits for a checkpoint gets no action when it ends.
                self.wake_all(&shared);
            } else {
                shared = self.wait(shared);
            }
        }
    }

    /// Carries out an action of one command. Returns the event for the machine.
    fn carry_own(
        &self,
        action: &Action,
        blocks: &Range<u64>,
        payload: &mut Payload<'_>,
        error: &mut Option<IoError>,
    ) -> Box<dyn FnOnce(&mut Machine)> {
        let file = || self.file.read().unwrap_or_else(PoisonError::into_inner);
        let geometry = file().header().geometry;
        let size = geometry.block_bytes();
        let at = blocks.start * size as u64;
        match action {
            Action::Load { id, pages } => {
                let id = *id;
                let file = file();
                match file.load_all(pages) {
                    Ok(pages) => Box::new(move |machine| machine.loaded(id, pages)),
                    Err(_) => Box::new(move |machine| machine.load_failed(id)),
                }
            }
            Action::Read(id) => {
                let id = *id;
                let (buffer, judged) = match payload {
                    Payload::Read(buffer) => (buffer, true),
                    Payload::ReadTags(buffer) => (buffer, false),
                    Payload::Write(_) | Payload::Zero { .. } => unreachable!("it reads"),
                };
                match self.drive.read_at(at, buffer) {
                    Ok(()) => {
                        let guards = if judged { geometry.guards(buffer) } else { Vec::new() };
                        Box::new(move |machine| machine.data_read(id, Some(&guards)))
                    }
                    Err(why) => {
                        *error = Some(why);
                        Box::new(move |machine| machine.data_read(id, None))
                    }
                }
            }
            Action::Write(id) => {
                let id = *id;
                let len = (blocks.end - blocks.start) * size as u64;
                let written = match payload {
                    Payload::Write(data) => self.drive.write_at(at, data),
                    Payload::Zero { discard: true } => self.drive.discard(at, len),
                    Payload::Zero { discard: false } => self.drive.zero(at, len),
                    Payload::Read(_) | Payload::ReadTags(_) => unreachable!("it writes"),
                };
                let done = written.is_ok();
                *error = written.err();
                Box::new(move |machine| machine.data_written(id, done))
            }
            Action::SeeAgain(id) => {
                let id = *id;
                let see = |block: u64| {
                    let mut bytes = vec![0; size];
                    self.drive.read_at(block * size as u64, &mut bytes).is_ok().then_some(bytes)
                };
                let seen: Vec<_> = blocks.clone().map(see).collect();
                Box::new(move |machine| machine.seen_again(id, &seen))
            }
            Action::Flush(Some(id)) => {
                let id = *id;
                let flushed = self.drive.flush();
                let done = flushed.is_ok();
                *error = flushed.err();
                Box::new(move |machine| machine.flushed(Some(id), done))
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
                    Ok(()) => self.shared().machine.released(),
                    Err(error) => failed(error.to_string()),
                }
            }
            other => unreachable!("{other:?} is for one command"),
        }
    }
}

impl Shared {
    fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Distributes new actions; returns whether there were any.
    fn distribute(&mut self) -> bool {
        let actions = self.machine.take_actions();
        let any = !actions.is_empty();
        for action in actions {
            let id = match action {
                Action::Done { id, outcome } => {
                    self.outcomes.insert(id, outcome);
                    continue;
                }
                Action::Load { id, .. } => Some(id),
                Action::Write(id) | Action::Read(id) | Action::SeeAgain(id) => Some(id),
                Action::Flush(id) => id,
                Action::Commit(_) | Action::Store(_) | Action::Release(_) => None,
            };
            match id {
                Some(id) => self.own.entry(id).or_default().push_back(action),
                None => self.common.push_back(action),
            }
        }
        any
    }
}
