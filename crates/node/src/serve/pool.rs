//! A pool of threads for commands, shared between hosts in turn.

use super::fair::{Fair, HostKey};
use super::workers::{Carried, Job, carry_out, carry_out_together};
use pumice_nvme::spec::Status;
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tracing::error;

/// Commands that are carried out together, at most.
const TOGETHER: usize = 8;

/// Limits of the number of commands that are carried out at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// The name of its threads.
    pub(super) name: &'static str,
    /// Threads, and commands of all hosts at a time.
    pub(super) threads: usize,
    /// Commands of one host at a time: fewer than there are threads, so that another one finds one.
    pub(super) of_host: usize,
    /// The first command of every host has a thread, also beyond `threads`: for commands that can
    /// take long.
    pub(super) one_for_each: bool,
}

#[derive(Debug, Default)]
struct Running {
    of: HashMap<HostKey, usize>,
    all: usize,
}

impl Running {
    /// Returns whether one more command of a host may begin.
    fn may(&self, policy: &Policy, host: &HostKey) -> bool {
        let mine = self.of.get(host).copied().unwrap_or(0);
        mine < policy.of_host && (self.all < policy.threads || policy.one_for_each && mine == 0)
    }

    fn begin(&mut self, host: HostKey) {
        *self.of.entry(host).or_default() += 1;
        self.all += 1;
    }

    fn end(&mut self, host: HostKey) {
        self.all -= 1;
        if let Some(mine) = self.of.get_mut(&host) {
            *mine -= 1;
            if *mine == 0 {
                self.of.remove(&host);
            }
        }
    }
}

struct State {
    jobs: Fair<Job>,
    running: Running,
    /// Threads that wait, and how many of them were woken and have not come yet.
    idle: usize,
    woken: usize,
    /// All threads, busy or not.
    threads: usize,
    stopping: bool,
}

impl State {
    /// Returns whether a thread has to be woken: one that was and has not come yet wakes the next
    /// one for what it leaves. So commands that go together gather meanwhile.
    fn wakes(&mut self) -> bool {
        let wakes = self.woken == 0 && self.idle > 0;
        self.woken += usize::from(wakes);
        wakes
    }

    /// Returns whether one more command could begin.
    fn may_begin(&self, policy: &Policy) -> bool {
        self.jobs.hosts().any(|host| self.running.may(policy, host))
    }
}

/// Returns whether another thread is needed: more hosts wait with nothing under way than threads
/// are free. A command that has begun keeps its thread, so nobody else will come to serve them
/// soon.
fn is_short<T>(policy: &Policy, jobs: &Fair<T>, running: &Running, threads: usize) -> bool {
    let waiting = jobs.hosts().filter(|host| !running.of.contains_key(host)).count();
    policy.one_for_each && waiting > threads.saturating_sub(running.all)
}

struct Shared {
    policy: Policy,
    state: Mutex<State>,
    ready: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pool of threads.
pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Pool {
    /// A pool with all of its threads but those that hosts bring with them.
    pub(super) fn start(policy: Policy) -> io::Result<Self> {
        let (jobs, running) = (Fair::default(), Running::default());
        let state = State { jobs, running, idle: 0, woken: 0, threads: 0, stopping: false };
        let shared = Arc::new(Shared { policy, state: Mutex::new(state), ready: Condvar::new() });
        let pool = Self { shared, threads: Mutex::default() };
        for _ in 0..policy.threads {
            pool.one_more()?;
        }
        Ok(pool)
    }

    fn one_more(&self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        let name = format!("{}{}", shared.policy.name, threads.len());
        // Before it starts: a fast one leaves by this number.
        self.shared.lock().threads += 1;
        match std::thread::Builder::new().name(name).spawn(move || work(&shared)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                self.shared.lock().threads -= 1;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Puts a command at the end of its host's line.
    pub(super) fn submit(&self, job: Job) {
        let mut state = self.shared.lock();
        state.jobs.push(job.host, job);
        let grows = is_short(&self.shared.policy, &state.jobs, &state.running, state.threads);
        let wakes = state.wakes();
        drop(state);
        if grows {
            // Where the system has none to give, the command waits for one of the others.
            let _ = self.one_more();
        }
        if wakes {
            self.shared.ready.notify_one();
        }
    }

    /// Ends the threads after the commands that are waiting.
    pub(super) fn stop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.ready.notify_all();
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // Its panic has been logged.
            let _ = thread.join();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Cores wait for the lock to submit commands, so nobody is woken while it is held: whoever wakes
/// up may take the processor from the thread that holds it.
fn work(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        let State { jobs, running, stopping, .. } = &mut *state;
        let Some((host, job)) = jobs.take(|host| running.may(&shared.policy, host)) else {
            // What may not begin yet is begun by the thread that it waits for.
            if *stopping {
                return;
            }
            if state.threads > shared.policy.threads {
                // A host brought it with it, and that command is done. Under the lock: whoever
                // brings the next command knows.
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            state = shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            // Nobody may have woken it: then one more than is needed is woken the next time.
            state.woken = state.woken.saturating_sub(1);
            continue;
        };
        let more = if job.sends() { jobs.take_more(&host, TOGETHER - 1, Job::sends) } else { Vec::new() };
        running.begin(host);
        // This thread goes on by itself: another one is woken only for what it leaves.
        let wakes = state.may_begin(&shared.policy) && state.wakes();
        drop(state);
        if wakes {
            shared.ready.notify_one();
        }
        let in_part = if more.is_empty() {
            carried(job)
        } else {
            carried_together([job].into_iter().chain(more).collect());
            None
        };
        state = shared.lock();
        state.running.end(host);
        if let Some(job) = in_part {
            // Behind those that wait: a long one does not keep them waiting.
            state.jobs.push(host, job);
        }
    }
}

/// Carries out a command, or a slice of it, and answers it unless there is more of it to do.
pub(super) fn carried(job: Job) -> Option<Job> {
    let core = job.core.clone();
    // All that the job holds goes with it, and locks that were held are taken over as they are:
    // nothing is left that others could trip over.
    let panicked = job.outcome(Status::INTERNAL, None);
    match catch_unwind(AssertUnwindSafe(|| carry_out(job))) {
        Ok(Carried::Done(done)) => core.done(done),
        Ok(Carried::Step) => {}
        Ok(Carried::InPart(job)) => return Some(*job),
        Err(_) => {
            // Before it is logged: whoever logs may fail too.
            core.done(panicked);
            error!("a command panicked");
        }
    }
    None
}

/// Carries out commands that go together, and answers them.
fn carried_together(jobs: Vec<Job>) {
    let end = |job: &Job| (job.core.clone(), job.outcome(Status::INTERNAL, None));
    let panicked: Vec<_> = jobs.iter().map(end).collect();
    match catch_unwind(AssertUnwindSafe(|| carry_out_together(jobs))) {
        Ok(all) => panicked.iter().zip(all).for_each(|((core, _), done)| core.done(done)),
        Err(_) => {
            panicked.into_iter().for_each(|(core, done)| core.done(done));
            error!("a command panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::workers::tests::read;
    use pumice_blockdev::{BlockDevice, HookedDevice, MemoryDevice};
    use std::net::Ipv4Addr;
    use std::time::{Duration, Instant};

    /// Hosts that come and go leave no threads behind.
    #[test]
    fn threads_that_hosts_brought_end_with_their_commands() {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let waits = Arc::clone(&gate);
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", 4096));
        let device: Arc<dyn BlockDevice> = Arc::new(HookedDevice::over(device).at_reads(move |_, _| {
            let mut open = waits.0.lock().unwrap();
            while !*open {
                open = waits.1.wait(open).unwrap();
            }
        }));
        let pool = Pool::start(Policy { name: "t", threads: 2, of_host: 2, one_for_each: true }).unwrap();
        let within_patience = |what: &str, is: &dyn Fn(&State) -> bool| {
            let until = Instant::now() + Duration::from_secs(60);
            while !is(&pool.shared.lock()) {
                assert!(Instant::now() < until, "{what}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        for round in 0..3 {
            *gate.0.lock().unwrap() = false;
            for n in 0..8 {
                let host = HostKey::new(Ipv4Addr::LOCALHOST.into(), [10 * round + n; 16]);
                pool.submit(read(host, Arc::clone(&device)));
            }
            within_patience("every host has a thread", &|state| state.running.all == 8);
            *gate.0.lock().unwrap() = true;
            gate.1.notify_all();
            within_patience("they end", &|state| state.running.all == 0 && state.threads == 2);
        }
        assert!(pool.threads.lock().unwrap().len() <= 8 + 2, "and nobody keeps count of them");
    }

    #[test]
    fn no_host_has_all_threads_and_every_host_has_one() {
        let host = |n: u8| HostKey::new(Ipv4Addr::LOCALHOST.into(), [n; 16]);
        let begin = |running: &mut Running, policy: &Policy, n: u8| {
            let may = running.may(policy, &host(n));
            if may {
                running.begin(host(n));
            }
            may
        };
        let media = Policy { name: "", threads: 4, of_host: 3, one_for_each: false };
        let mut running = Running::default();
        let begun = (0..10).filter(|_| begin(&mut running, &media, 1)).count();
        assert_eq!(begun, 3);
        assert!(begin(&mut running, &media, 2) && !begin(&mut running, &media, 3));
        running.end(host(1));
        assert!(begin(&mut running, &media, 3));
        let long = Policy { one_for_each: true, ..media };
        assert!(begin(&mut running, &long, 4) && !begin(&mut running, &long, 4));
        (0..3).for_each(|_| running.end(if running.of.contains_key(&host(1)) { host(1) } else { host(2) }));
        assert_eq!(running.all, running.of.values().sum::<usize>());
    }

    #[test]
    fn two_hosts_that_come_at_once_do_not_share_the_last_free_thread() {
        let host = |n: u8| HostKey::new(Ipv4Addr::LOCALHOST.into(), [n; 16]);
        let engine = Policy { name: "", threads: 4, of_host: 4, one_for_each: true };
        let (mut jobs, mut running) = (Fair::default(), Running::default());
        (0..3).for_each(|_| running.begin(host(1)));
        // One thread is free, and has not woken yet when the second host comes.
        jobs.push(host(2), ());
        assert!(!is_short(&engine, &jobs, &running, 4));
        jobs.push(host(3), ());
        assert!(is_short(&engine, &jobs, &running, 4));
        assert!(!is_short(&engine, &jobs, &running, 5), "it has its own now");
        // More of a host that is served waits for that host's own threads.
        jobs.push(host(1), ());
        assert!(!is_short(&engine, &jobs, &running, 5));
        assert!(!is_short(&Policy { one_for_each: false, ..engine }, &jobs, &running, 3));
    }
}
