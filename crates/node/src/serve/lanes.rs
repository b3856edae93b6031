//! A lane for each drive: one thread that carries out the long commands of all hosts, Write Zeroes,
//! Dataset Management and Verify, a call at a time. `docs/design/node.md`, *Long commands*.
//!
//! A call that zeroes part of a file has the file to itself: reads and writes wait until it
//! returns, and it waits until those under way have ended. So there is one such call on a drive at
//! a time, it is short, and if other commands use the drive, the lane rests after its turn.

use super::fair::{Fair, HostKey};
use super::metrics::{Class, Metrics, Sum};
use super::pool::carried;
use super::shared::Shared;
use super::workers::Job;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// Time that a lane works before it looks whether others use the drive; at least one call.
const TURN: Duration = Duration::from_millis(2);
/// A lane rests this many times as long as its turn took, and at most so long, if others use the
/// drive: its share is a quarter.
const RESTS: u32 = 3;
const LONGEST_REST: Duration = Duration::from_millis(100);

/// The number of bytes that one call may zero.
///
/// A call on a file system or a device costs something by itself, sometimes milliseconds, so small
/// calls would take hours for a large drive. Large ones would hold up others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CallSize(u64);

impl CallSize {
    /// To begin with, and the smallest: no smaller than the largest grain of a device, because
    /// parts of a grain keep their space.
    const LEAST: u64 = MIB;
    /// While others use the drive.
    const SHARED: u64 = 8 * MIB;
    /// While nobody does.
    const ALONE: u64 = 64 * MIB;

    /// A power of two.
    fn bytes(self) -> u64 {
        self.0
    }

    /// The size of the next call after one that took so long: larger after a short one, smaller
    /// after a long one.
    fn after(self, took: Duration, others: bool) -> Self {
        let (most, short) = if others { (Self::SHARED, 2) } else { (Self::ALONE, 50) };
        let short = Duration::from_millis(short);
        let next = if took < short {
            self.0 * 2
        } else if took > 4 * short {
            self.0 / 2
        } else {
            self.0
        };
        Self(next.clamp(Self::LEAST, most))
    }
}

/// Returns the time that a lane rests after a turn.
fn rest(turn: Duration, others: bool) -> Duration {
    if others { (turn * RESTS).min(LONGEST_REST) } else { Duration::ZERO }
}

/// Reads, writes and flushes of a drive that have ended.
fn ended_on(metrics: &Metrics, drive: usize) -> u64 {
    let mut sum = Sum::default();
    for core in metrics.cores() {
        [Class::Read, Class::Write, Class::Flush]
            .iter()
            .for_each(|class| core.add_to(drive, *class, &mut sum));
    }
    sum.commands
}

#[derive(Default)]
struct State {
    /// Each with the number of its core.
    jobs: Fair<(usize, Job)>,
    stopping: bool,
}

#[derive(Default)]
struct Lane {
    state: Mutex<State>,
    ready: Condvar,
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next command, of the next host; `None` if the lane ends.
    fn next(&self) -> Option<(HostKey, (usize, Job))> {
        let mut state = self.lock();
        loop {
            if let Some(next) = state.jobs.take(|_| true) {
                return Some(next);
            }
            if state.stopping {
                return None;
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Rests, unless the lane is to end.
    fn rest(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.lock();
        while !state.stopping {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.ready.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Commands in all lanes, by core.
#[derive(Default)]
struct UnderWay {
    of_core: Mutex<Vec<usize>>,
    ended: Condvar,
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.of_core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, core: usize) {
        self.lock()[core] += 1;
    }

    fn end(&self, core: usize) {
        self.lock()[core] -= 1;
        self.ended.notify_all();
    }
}

/// The lanes of all drives, which all cores share. Dropping them ends their threads after the
/// commands that wait.
pub(super) struct Lanes {
    lanes: Vec<Arc<Lane>>,
    under_way: Arc<UnderWay>,
    threads: Vec<JoinHandle<()>>,
}

impl Lanes {
    /// Lanes for all drives of a server with so many cores.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(super) fn start(shared: &Arc<Shared>, cores: usize) -> io::Result<Self> {
        let under_way = Arc::new(UnderWay { of_core: Mutex::new(vec![0; cores]), ..UnderWay::default() });
        let mut lanes = Self { lanes: Vec::new(), under_way, threads: Vec::new() };
        for drive in 0..shared.devices().len() {
            let lane = Arc::new(Lane::default());
            let (mine, under_way, shared) =
                (Arc::clone(&lane), Arc::clone(&lanes.under_way), Arc::clone(shared));
            let thread = std::thread::Builder::new().name(format!("long{drive}")).spawn(move || {
                work(&mine, &under_way, || ended_on(shared.metrics(), drive));
            })?;
            lanes.lanes.push(lane);
            lanes.threads.push(thread);
        }
        Ok(lanes)
    }

    /// Puts a command of a core at the end of its host's line in the lane of its drive.
    pub(super) fn submit(&self, core: usize, drive: usize, job: Job) {
        self.under_way.begin(core);
        let lane = &self.lanes[drive];
        lane.lock().jobs.push(job.host, (core, job));
        lane.ready.notify_one();
    }

    /// Waits until no command of a core is under way.
    pub(super) fn wait_for(&self, core: usize) {
        let mut of_core = self.under_way.lock();
        while of_core[core] > 0 {
            of_core = self.under_way.ended.wait(of_core).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        for lane in &self.lanes {
            lane.lock().stopping = true;
            lane.ready.notify_all();
        }
        for thread in self.threads.drain(..) {
            // Its panic has been logged.
            let _ = thread.join();
        }
    }
}

/// Carries out the commands of a lane. `ended` counts the commands of others that have ended.
fn work(lane: &Lane, under_way: &UnderWay, ended: impl Fn() -> u64) {
    let mut size = CallSize(CallSize::LEAST);
    let (mut others, mut seen) = (false, ended());
    while let Some(mut next) = lane.next() {
        // Those that ended since the turn before began, its rest included: during a call that has
        // the file to itself, none can.
        let before = std::mem::replace(&mut seen, ended());
        let began = Instant::now();
        loop {
            let (host, (core, mut job)) = next;
            job.at_once = size.bytes();
            let clears = job.clears();
            let called = Instant::now();
            match carried(job) {
                Some(job) => {
                    lane.lock().jobs.push(host, (core, job));
                }
                None => under_way.end(core),
            }
            if clears {
                size = size.after(called.elapsed(), others);
            }
            if began.elapsed() >= TURN {
                break;
            }
            match lane.lock().jobs.take(|_| true) {
                Some(more) => next = more,
                None => break,
            }
        }
        others = ended() != before;
        lane.rest(rest(began.elapsed(), others));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn calls_are_small_while_others_use_the_drive() {
        let after = |calls: &[u64], others: bool, mut size: CallSize| {
            calls.iter().for_each(|took| size = size.after(ms(*took), others));
            size.bytes() / MIB
        };
        let least = CallSize(CallSize::LEAST);
        assert_eq!(after(&[0, 0, 0], true, least), 8);
        assert_eq!(after(&[0; 20], true, least), 8, "no larger");
        assert_eq!(after(&[0; 20], false, least), 64);
        assert_eq!(after(&[4; 5], true, CallSize(4 * MIB)), 4, "long enough to be worth it, and no longer");
        assert_eq!(after(&[9, 9, 9, 9], true, CallSize(8 * MIB)), 1, "no smaller than a grain may be");
        // Whatever it was while nobody else was there.
        assert_eq!(after(&[5], true, CallSize(64 * MIB)), 8);
        assert_eq!(after(&[201, 201], false, CallSize(64 * MIB)), 16);
    }

    #[test]
    fn a_lane_rests_while_others_use_the_drive() {
        assert_eq!(rest(ms(2), false), Duration::ZERO);
        assert_eq!(rest(ms(2), true), ms(6));
        assert_eq!(rest(ms(900), true), LONGEST_REST);
    }
}
