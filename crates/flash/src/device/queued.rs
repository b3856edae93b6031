//! A medium whose writes are made by the threads that wait for them, side by side.

use crate::device::behind::Behind;
use crate::device::outbox::{Job, Outbox};
use crate::device::spin::Looks;
use pumice_base::durable::{Held, Medium};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// Bytes that wait for their turn, at most.
const BYTES: usize = 8 << 20;

/// A medium over another one. [`Medium::write_at`] and [`Medium::write_soon`] only accept a write;
/// [`Queued::carry`] makes it, by [`Medium::write_soon`]. [`Medium::sync`] makes all of them first.
/// After a failure nothing is written any more. Clones are the same medium.
#[derive(Debug)]
pub(crate) struct Queued<M>(Arc<Inner<M>>);

#[derive(Debug)]
struct Inner<M> {
    medium: M,
    state: Mutex<State>,
    /// Held during a sync: of two at a time the kernel might report a failure to one only.
    syncing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    outbox: Outbox,
    behind: Behind,
    /// Threads that wait, and the number of the write that each waits for.
    waiting: Vec<(u64, Thread)>,
    failure: Option<String>,
}

impl State {
    fn check(&self) -> io::Result<()> {
        self.failure.as_ref().map_or(Ok(()), |why| Err(io::Error::other(why.clone())))
    }

    /// Wakes those whose writes were made, and one of the others, as a write may begin now.
    fn wake(&mut self) {
        let (outbox, failed) = (&self.outbox, self.failure.is_some());
        for (_, thread) in self.waiting.extract_if(.., |(number, _)| failed || outbox.is_done(*number)) {
            thread.unpark();
        }
        if self.outbox.waits()
            && let Some((_, thread)) = self.waiting.pop()
        {
            thread.unpark();
        }
    }
}

impl<M> Clone for Queued<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Medium> Queued<M> {
    pub(crate) fn new(medium: M) -> Self {
        Self(Arc::new(Inner { medium, state: Mutex::default(), syncing: Mutex::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reason why nothing is written any more, if that is so.
    pub(crate) fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    fn fail(&self, doing: &str, error: &io::Error) {
        let mut state = self.state();
        state.failure.get_or_insert_with(|| format!("{doing}: {error}"));
        state.wake();
    }

    /// The number of the last write that was accepted.
    pub(crate) fn accepted(&self) -> u64 {
        self.state().outbox.accepted()
    }

    /// Makes the writes up to this number, or waits for others that make them.
    ///
    /// # Errors
    /// If some write or sync failed.
    pub(crate) fn carry(&self, number: u64) -> io::Result<()> {
        let (mut state, mut looks) = (self.state(), Looks::default());
        loop {
            state.check()?;
            if state.outbox.is_done(number) {
                return Ok(());
            }
            if let Some(job) = state.outbox.begin_joined() {
                drop(state);
                self.make(job)?;
                looks = Looks::default();
                state = self.state();
            } else if !looks.are_over() {
                drop(state);
                looks.pass();
                state = self.state();
            } else {
                state.waiting.push((number, std::thread::current()));
                drop(state);
                std::thread::park();
                state = self.state();
                let me = std::thread::current().id();
                state.waiting.retain(|(_, thread)| thread.id() != me);
            }
        }
    }

    /// Makes one write.
    fn make(&self, mut job: Job) -> io::Result<()> {
        let medium = &self.0.medium;
        // On an error it stays in the outbox: reads still see it.
        medium.write_soon(job.offset(), job.bytes()).inspect_err(|error| self.fail("writing", error))?;
        let range = job.offset()..job.offset() + job.len() as u64;
        let mut state = self.state();
        state.outbox.end(job);
        let steps = state.behind.wrote(&range);
        state.wake();
        drop(state);
        let begin = steps.begin.iter().map(|range| (range, false));
        for (range, wait) in begin.chain(steps.wait.iter().map(|range| (range, true))) {
            let written = medium.write_back(range.start, range.end - range.start, wait);
            written.inspect_err(|error| self.fail("writing back", error))?;
        }
        Ok(())
    }

    /// Makes the writes up to this number durable.
    ///
    /// # Errors
    /// If some write or sync failed.
    pub(crate) fn sync_upto(&self, number: u64) -> io::Result<()> {
        self.carry(number)?;
        let _turn = self.0.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        state.check()?;
        assert!(state.outbox.is_done(number), "O1: a sync begins when all writes that it covers were made");
        state.behind.clear();
        drop(state);
        self.0.medium.sync().inspect_err(|error| self.fail("making writes durable", error))
    }

    /// Returns whether a write that has not been made touches these bytes.
    pub(crate) fn holds(&self, offset: u64, len: usize) -> bool {
        self.state().outbox.touches(offset, len)
    }

    fn accept(&self, len: usize, take: impl FnOnce(&mut Outbox)) -> io::Result<()> {
        loop {
            let mut state = self.state();
            state.check()?;
            match state.outbox.oldest() {
                Some(oldest) if state.outbox.bytes() + len > BYTES => {
                    drop(state);
                    self.carry(oldest)?;
                }
                _ => {
                    take(&mut state.outbox);
                    return Ok(());
                }
            }
        }
    }
}

impl<M: Medium> Medium for Queued<M> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        if !state.outbox.touches(offset, buf.len()) {
            drop(state);
            return self.0.medium.read_at(offset, buf);
        }
        // No write ends meanwhile, so none is missed by both.
        self.0.medium.read_at(offset, buf)?;
        state.outbox.cover(offset, buf);
        Ok(())
    }

    fn read_cached(&self, offset: u64, buf: &mut [u8]) -> bool {
        !self.holds(offset, buf.len()) && self.0.medium.read_cached(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.accept(data.len(), |outbox| outbox.accept(offset, data))
    }

    fn write_soon(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(offset, data)
    }

    fn write_held(&self, offset: u64, data: &Held) -> io::Result<()> {
        self.accept(data.len(), |outbox| outbox.accept_held(offset, data.clone()))
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_upto(self.accepted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[derive(Debug, Default)]
    struct Slow {
        bytes: Mutex<Vec<u8>>,
        writes: AtomicUsize,
        fails: AtomicBool,
    }

    impl Medium for Slow {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            let at = offset as usize;
            buf.copy_from_slice(&self.bytes.lock().unwrap()[at..at + buf.len()]);
            Ok(())
        }

        fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            std::thread::yield_now();
            self.writes.fetch_add(1, Ordering::Relaxed);
            let at = offset as usize;
            self.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            if self.fails.load(Ordering::Relaxed) { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
        }
    }

    fn queued() -> Queued<Slow> {
        Queued::new(Slow { bytes: Mutex::new(vec![0; 32 << 20]), ..Slow::default() })
    }

    #[test]
    fn what_a_thread_carried_is_there_whatever_others_do() {
        let medium = queued();
        let turn = Mutex::new(0_u64);
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (medium, turn) = (&medium, &turn);
                scope.spawn(move || {
                    for round in 0..100_u64 {
                        let place = (thread * 100 + round) * 1024;
                        let guard = turn.lock().unwrap();
                        // A place of its own, and one that all write to.
                        medium.write_soon(place, &[thread as u8 + 1; 1024]).unwrap();
                        medium.write_soon(1_000_000, &(*guard + 1).to_le_bytes()).unwrap();
                        let number = medium.accepted();
                        drop(guard);
                        medium.carry(number).unwrap();
                        let mut back = [0; 1024];
                        medium.0.medium.read_at(place, &mut back).unwrap();
                        assert_eq!(back, [thread as u8 + 1; 1024]);
                    }
                });
            }
        });
        medium.sync().unwrap();
        assert_eq!(medium.state().outbox.bytes(), 0);
        assert!(medium.0.medium.writes.load(Ordering::Relaxed) <= 1600);
    }

    #[test]
    fn after_a_failed_sync_nothing_is_written_and_reads_see_what_was_accepted() {
        let medium = queued();
        medium.write_at(0, &[1; 512]).unwrap();
        medium.0.medium.fails.store(true, Ordering::Relaxed);
        assert!(medium.sync().is_err());
        medium.0.medium.fails.store(false, Ordering::Relaxed);
        assert!(medium.sync().is_err(), "what it should have made durable may be lost for good");
        assert!(medium.write_at(512, &[2; 512]).is_err() && medium.carry(1).is_err());
        let mut back = [0; 512];
        medium.read_at(0, &mut back).unwrap();
        assert_eq!(back, [1; 512]);
        assert!(medium.failure().unwrap().contains("durable"));
    }

    #[test]
    fn a_medium_takes_more_than_may_wait() {
        let medium = queued();
        for number in 0..100 {
            medium.write_at(number * 300_000, &vec![number as u8; 250_000]).unwrap();
            assert!(medium.state().outbox.bytes() <= BYTES);
        }
        assert!(medium.0.medium.writes.load(Ordering::Relaxed) > 0);
    }
}
