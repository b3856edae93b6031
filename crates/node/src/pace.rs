//! The pace of background reads, drive by drive.
//!
//! Each drive has a [`Pacer`]. Those who serve the drive tell it of every foreground request when it comes in and when it is done; the parity engine asks it
//! before every background read and tells it afterwards. While nobody has asked for a pace, nothing is told and nothing is asked.

use pumice_blockdev::{ALIGNMENT, AlignedBuffer};
use pumice_offload::{DriveId, NodeError, PaceFigures, PacePolicy, PaceRequest};
use pumice_pacer::{Config, Decision, Family, Goal, Kind, Pacer, Policy, ServiceCurve, Windows};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime};

/// How long a background read sleeps at most before it looks whether it is still wanted.
const NAP: Duration = Duration::from_millis(100);
/// Bytes of a request that follows another one at once.
const BACK_TO_BACK: u64 = 1 << 20;
/// A first guess of bytes and nanoseconds, between a disk and a fast SSD; corrected by every read. A point for each size that a pacer grants: a read that lay between two
/// points would move one of them by what the other is wrong.
const GUESS: [(u64, u64); 7] = [
    (64 << 10, 1_000_000),
    (128 << 10, 1_200_000),
    (256 << 10, 1_600_000),
    (512 << 10, 2_400_000),
    (1 << 20, 4_000_000),
    (2 << 20, 6_700_000),
    (4 << 20, 12_000_000),
];
/// The share of the goal that is spent by what is measured here. The rest is for what is not, from the answer to when the host notices it.
const SEEN: f64 = 0.85;
/// The one kind of background work that there is.
const SCRUB: u8 = 0;
/// Bytes of buffers that are kept between commands, at most.
const KEPT: usize = 64 << 20;
/// What cores leave for a pacer whose lock is held, at most: then they wait for it.
const MOST_LEFT: usize = 4096;
/// Parts of a drive whose last check is remembered, at most, and the bytes of one at least.
const MAX_PARTS: u64 = 4096;
const PART: u64 = 1 << 20;

/// Who asks for a pace: the node's own configuration and the caller in this process are 0, a host is its controller's number.
pub(crate) type Asker = u16;

#[derive(Debug, Default)]
struct Requests {
    own: PaceRequest,
    asked: BTreeMap<Asker, PaceRequest>,
    effective: PaceRequest,
    /// The policy of the pacers that there are, parked ones too.
    policy: Option<PacePolicy>,
}

#[derive(Debug, Default)]
struct State {
    pacer: Option<Pacer>,
    /// The pacer while there is no pace, for what it has learned, and under which policy.
    parked: Option<Pacer>,
    readers: u32,
    /// What was told meanwhile and is being taken in: empty between two calls, kept for its memory.
    taken: Vec<Told>,
}

/// What those who serve tell a pacer.
#[derive(Debug, Clone, Copy)]
enum Told {
    Arrived { now: u64 },
    Completed { now: u64, request: Foreground, bytes: u64 },
}

impl State {
    fn take(&mut self, told: Told) {
        match (&mut self.pacer, told) {
            (Some(pacer), Told::Arrived { now }) => pacer.foreground_arrived(now),
            (Some(pacer), Told::Completed { now, request, bytes }) => {
                pacer.foreground_completed(now, request.seen, request.waited, bytes);
            }
            (None, _) => {}
        }
    }

    /// Tells the pacer whether anybody wants to read.
    fn tell_work(&mut self) {
        let kind = Kind::new(SCRUB).expect("there is a first kind");
        match &mut self.pacer {
            Some(pacer) if self.readers > 0 => pacer.begin_work(kind, 1),
            Some(pacer) => pacer.end_work(kind),
            None => {}
        }
    }
}

/// One drive.
///
/// Who reads in the background may lose its processor while it holds the lock, and a core that waited for the lock would wait for that too. So a core that does not
/// get it at once leaves what it has to say, and whoever gets it next takes that in first.
#[derive(Debug)]
struct Lane {
    state: Mutex<State>,
    changed: Condvar,
    /// Background reads that wait for something to change, or are about to.
    waiting: AtomicUsize,
    /// What was left, in order, and whether there is something.
    left: Mutex<Vec<Told>>,
    any_left: AtomicBool,
    /// A request is done since those who wait were woken.
    news: AtomicBool,
    checks: Checks,
}

impl Lane {
    fn new(size: u64) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            left: Mutex::default(),
            any_left: AtomicBool::new(false),
            news: AtomicBool::new(false),
            checks: Checks::new(size),
        }
    }

    /// The state as of now.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = locked(&self.state);
        self.catch_up(&mut state);
        state
    }

    /// The same, where nobody has the lock.
    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.catch_up(&mut state);
        Some(state)
    }

    /// Takes in what was left.
    fn catch_up(&self, state: &mut State) {
        // Acquire, with the Release in `tell`: what is seen to be left is there. A moment later is as good.
        if !self.any_left.load(Ordering::Acquire) {
            return;
        }
        let mut taken = std::mem::take(&mut state.taken);
        {
            let mut left = locked(&self.left);
            self.any_left.store(false, Ordering::Release);
            std::mem::swap(&mut *left, &mut taken);
        }
        taken.drain(..).for_each(|told| state.take(told));
        state.taken = taken;
    }

    /// Tells the pacer, or whoever has the lock.
    fn tell(&self, told: Told) {
        if let Some(mut state) = self.try_lock() {
            state.take(told);
            return;
        }
        let mut left = locked(&self.left);
        if left.len() < MOST_LEFT {
            left.push(told);
            self.any_left.store(true, Ordering::Release);
            return;
        }
        drop(left);
        self.lock().take(told);
    }
}

/// When the parts of a drive were checked last: seconds since the node's start, and one; 0 for never.
#[derive(Debug)]
struct Checks {
    part: u64,
    last: Vec<AtomicU32>,
}

impl Checks {
    fn new(size: u64) -> Self {
        let part = size.div_ceil(MAX_PARTS).max(PART).next_power_of_two();
        let count = usize::try_from(size.div_ceil(part)).expect("at most 4096");
        Self { part, last: (0..count).map(|_| AtomicU32::new(0)).collect() }
    }

    fn checked(&self, bytes: &Range<u64>, second: u32) {
        let first = (bytes.start / self.part) as usize;
        let end = (bytes.end.div_ceil(self.part) as usize).min(self.last.len());
        for part in self.last.get(first..end).unwrap_or_default() {
            // Relaxed: a time that is looked at alone.
            part.store(second, Ordering::Relaxed);
        }
    }

    /// The oldest check among the parts from the first to the last that was ever checked: around them lie superblocks, which no check reads.
    fn oldest(&self) -> Option<u32> {
        let times: Vec<u32> = self.last.iter().map(|part| part.load(Ordering::Relaxed)).collect();
        let first = times.iter().position(|time| *time != 0)?;
        let last = times.iter().rposition(|time| *time != 0)?;
        times[first..=last].iter().copied().min()
    }
}

/// The pacers of a node's drives.
#[derive(Debug)]
pub(crate) struct Pacing {
    began: Instant,
    /// Seconds of the day, UTC, when it began.
    second_of_day: u32,
    lanes: Vec<Lane>,
    requests: Mutex<Requests>,
    /// Buffers of paced commands that are done, for the next ones: to clear and map new ones took a quarter of the time of a command on a fast drive.
    buffers: Mutex<Vec<AlignedBuffer>>,
    /// Somebody has asked for a pace.
    active: AtomicBool,
    stopping: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pacing {
    /// Drives of these sizes, without a pace.
    pub(crate) fn new(sizes: impl IntoIterator<Item = u64>) -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            began: Instant::now(),
            second_of_day: (since_1970.as_secs() % u64::from(pumice_offload::DAY)) as u32,
            lanes: sizes.into_iter().map(Lane::new).collect(),
            requests: Mutex::default(),
            buffers: Mutex::default(),
            active: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// Nanoseconds since it began, never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// Whether there is a pace.
    pub(crate) fn is_active(&self) -> bool {
        // Acquire: whoever sees it sees the pacers that were made before.
        self.active.load(Ordering::Acquire)
    }

    /// The pace that the node's own configuration asks for.
    pub(crate) fn configure(&self, own: PaceRequest) -> Result<(), NodeError> {
        if !own.is_empty() {
            own.validate().map_err(|(field, why)| NodeError::invalid(field, why))?;
        }
        let mut requests = locked(&self.requests);
        requests.own = own;
        self.apply(&mut requests)
    }

    /// A pace that somebody asks for; an empty request takes the last one back. Figures begin anew.
    pub(crate) fn ask(&self, asker: Asker, request: PaceRequest) -> Result<(), NodeError> {
        let mut requests = locked(&self.requests);
        if request.is_empty() {
            requests.asked.remove(&asker);
        } else {
            request.validate().map_err(|(field, why)| NodeError::invalid(field, why))?;
            requests.asked.insert(asker, request);
        }
        self.apply(&mut requests)
    }

    /// Forgets what those have asked for who are gone.
    pub(crate) fn sweep(&self, stands: impl Fn(Asker) -> bool) {
        if !self.is_active() {
            return;
        }
        let mut requests = locked(&self.requests);
        let before = requests.asked.len();
        requests.asked.retain(|asker, _| *asker == 0 || stands(*asker));
        if requests.asked.len() != before {
            // What was valid together with more is valid without it.
            let _ = self.apply(&mut requests);
        }
    }

    fn apply(&self, requests: &mut Requests) -> Result<(), NodeError> {
        let effective = requests.asked.values().fold(requests.own.clone(), |all, one| all.and(one));
        let now = self.now();
        for lane in &self.lanes {
            let mut state = lane.lock();
            if effective.is_empty() {
                state.parked = state.pacer.take().or(state.parked.take());
                lane.changed.notify_all();
                continue;
            }
            // What was learned of the drive stays.
            let resumed = state.parked.take().map(|mut pacer| {
                pacer.rewind(now);
                pacer
            });
            let known = state.pacer.take().or(resumed);
            let pacer = match known.filter(|_| requests.policy == Some(effective.policy())) {
                Some(mut pacer) => {
                    pacer.set_goal(goal(&effective), now);
                    pacer.set_rate(bucket(&effective), now);
                    pacer.set_windows(self.windows(&effective)?);
                    pacer
                }
                None => self.pacer(&effective, now)?,
            };
            state.pacer = Some(pacer);
            state.tell_work();
            lane.changed.notify_all();
        }
        if !effective.is_empty() {
            requests.policy = Some(effective.policy());
        }
        self.active.store(!effective.is_empty(), Ordering::Release);
        if effective.is_empty() {
            locked(&self.buffers).clear();
        }
        requests.effective = effective;
        Ok(())
    }

    fn windows(&self, request: &PaceRequest) -> Result<Windows, NodeError> {
        Windows::daily(&request.windows, self.second_of_day)
            .map_err(|error| NodeError::invalid("window", error.to_string()))
    }

    fn pacer(&self, request: &PaceRequest, now: u64) -> Result<Pacer, NodeError> {
        let policy = match request.policy() {
            PacePolicy::Priced => Policy::Priced,
            PacePolicy::Waiting => Policy::Tuned(Family::Waiting),
            PacePolicy::Cfq => Policy::CFQ,
            PacePolicy::BackToBack => Policy::BackToBack { bytes: BACK_TO_BACK },
        };
        let curve = ServiceCurve::guess(&GUESS).expect("sizes and times grow");
        let mut config = Config::new(goal(request), policy, curve);
        config.rate = bucket(request);
        config.windows = self.windows(request)?;
        Ok(Pacer::new(config, now))
    }

    /// A foreground request for drive `index` is seen, `waited` after the machine had it. What is returned belongs to [`completed`](Self::completed).
    pub(crate) fn arrived(&self, index: usize, waited: Duration) -> Foreground {
        if !self.is_active() {
            return Foreground::default();
        }
        let now = self.now();
        self.lanes[index].tell(Told::Arrived { now });
        Foreground { seen: now, waited: u64::try_from(waited.as_nanos()).unwrap_or(0) }
    }

    /// A foreground request of so many bytes is done. Those who wait for that are woken by [`wake`](Self::wake).
    pub(crate) fn completed(&self, index: usize, request: Foreground, bytes: u64) {
        // One that came in before anybody asked for a pace was not told.
        if request.seen == 0 {
            return;
        }
        let now = self.now();
        let lane = &self.lanes[index];
        lane.tell(Told::Completed { now, request, bytes });
        lane.news.store(true, Ordering::Relaxed);
    }

    /// Wakes those who wait for a request to be done, when its answer is on its way: a background read that begins sooner takes the processor from it.
    pub(crate) fn wake(&self) {
        if !self.is_active() {
            return;
        }
        for lane in &self.lanes {
            if lane.news.load(Ordering::Relaxed)
                && lane.waiting.load(Ordering::Relaxed) > 0
                // Who has the lock may be about to wait: then they are woken the next time, or see for themselves what was left.
                && lane.try_lock().is_some()
            {
                lane.news.store(false, Ordering::Relaxed);
                lane.changed.notify_all();
            }
        }
    }

    /// A background reader of a drive, as long as it lives.
    pub(crate) fn reader(&self, index: usize) -> Reader<'_> {
        let mut state = self.lanes[index].lock();
        state.readers += 1;
        state.tell_work();
        Reader { pacing: self, index }
    }

    /// A buffer of `len` bytes, with anything in it.
    pub(crate) fn buffer(&self, len: usize) -> AlignedBuffer {
        let mut buffers = locked(&self.buffers);
        let fits = buffers.iter().position(|buffer| buffer.len() == len.next_multiple_of(ALIGNMENT));
        match fits {
            Some(fits) => buffers.swap_remove(fits),
            None => {
                drop(buffers);
                AlignedBuffer::new(len)
            }
        }
    }

    /// Keeps a buffer for the next command, as long as there is a pace.
    pub(crate) fn keep(&self, buffer: AlignedBuffer) {
        let mut buffers = locked(&self.buffers);
        let kept: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        if self.is_active() && kept + buffer.len() <= KEPT {
            buffers.push(buffer);
        }
    }

    /// Ends every wait: the node stops.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for lane in &self.lanes {
            lane.changed.notify_all();
        }
    }

    /// Bytes of a drive were checked.
    pub(crate) fn checked(&self, index: usize, bytes: &Range<u64>) {
        let second = u32::try_from(self.began.elapsed().as_secs()).unwrap_or(u32::MAX - 1);
        self.lanes[index].checks.checked(bytes, second + 1);
    }

    /// What was measured of each drive that has a pace.
    pub(crate) fn figures(&self) -> Vec<PaceFigures> {
        let now = self.now();
        let seconds = self.began.elapsed().as_secs();
        let of = |(index, lane): (usize, &Lane)| {
            let state = lane.lock();
            let figures = state.pacer.as_ref()?.figures();
            Some(PaceFigures {
                drive: DriveId(index as u32 + 1),
                elapsed_ns: now.saturating_sub(figures.since),
                bytes: figures.total_bytes(),
                requests: figures.background,
                foreground: figures.foreground,
                collisions: figures.collisions,
                clear: figures.clear.count,
                clear_mean_ns: figures.clear.mean() as u64,
                met: figures.met.count,
                met_mean_ns: figures.met.mean() as u64,
                slowdown_mean_ns: figures.mean_slowdown() as i64,
                oldest_check_s: lane
                    .checks
                    .oldest()
                    .map(|second| (seconds + 1).saturating_sub(u64::from(second))),
            })
        };
        self.lanes.iter().enumerate().filter_map(of).collect()
    }
}

/// A foreground request: when it was seen, 0 where nobody wanted to know, and for how many nanoseconds it had waited then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Foreground {
    seen: u64,
    waited: u64,
}

/// Something reads a drive in the background.
pub(crate) struct Reader<'p> {
    pacing: &'p Pacing,
    index: usize,
}

impl Reader<'_> {
    /// Waits until a background read of at most `want` bytes may start, and returns how long it may be. `None` where it is not wanted any more.
    pub(crate) fn start(&self, want: u64, wanted: &(dyn Fn() -> bool + Sync)) -> Option<u64> {
        let lane = &self.pacing.lanes[self.index];
        let mut state = lane.lock();
        let _waits = Waits::new(&lane.waiting);
        loop {
            if self.pacing.stopping.load(Ordering::Acquire) || !wanted() {
                return None;
            }
            lane.catch_up(&mut state);
            let now = self.pacing.now();
            let nap = match state.pacer.as_mut().map(|pacer| pacer.next(now)) {
                // Nobody wants a pace any more.
                None => return Some(want),
                Some(Decision::StartRequest { bytes, .. }) => return Some(bytes.min(want)),
                Some(Decision::WaitUntil(then)) => Duration::from_nanos(then.saturating_sub(now)).min(NAP),
                Some(Decision::WaitForEvent) => NAP,
            };
            if !lane.any_left.load(Ordering::Acquire) {
                state = lane.changed.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// It has ended.
    pub(crate) fn done(&self, bytes: u64) {
        let lane = &self.pacing.lanes[self.index];
        let now = self.pacing.now();
        if let Some(pacer) = &mut lane.lock().pacer {
            pacer.background_done(now, bytes);
        }
        if lane.waiting.load(Ordering::Relaxed) > 0 {
            lane.changed.notify_all();
        }
    }
}

/// Counts one who waits, as long as it lives.
struct Waits<'p>(&'p AtomicUsize);

impl<'p> Waits<'p> {
    fn new(count: &'p AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut state = self.pacing.lanes[self.index].lock();
        state.readers -= 1;
        state.tell_work();
    }
}

/// A goal; without one the policy does not ask for it.
fn goal(request: &PaceRequest) -> Goal {
    Goal::mean(request.slowdown_ns.map_or(0, |asked| (asked as f64 * SEEN) as u64))
}

/// The rate, with a tenth of a second saved up.
fn bucket(request: &PaceRequest) -> Option<(u64, u64)> {
    request.rate.map(|rate| (rate, (rate / 10).max(BACK_TO_BACK)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALWAYS: &(dyn Fn() -> bool + Sync) = &|| true;

    fn rate(rate: u64) -> PaceRequest {
        PaceRequest { rate: Some(rate), ..PaceRequest::default() }
    }

    #[test]
    fn a_rate_is_held() {
        let pacing = Pacing::new([1 << 30]);
        pacing.ask(1, rate(20 << 20)).unwrap();
        let reader = pacing.reader(0);
        let began = Instant::now();
        let mut bytes = 0;
        while began.elapsed() < Duration::from_millis(300) {
            let granted = reader.start(100_000, ALWAYS).unwrap();
            assert!(granted <= 100_000);
            bytes += granted;
            reader.done(granted);
        }
        let most = f64::from(20 << 20) * began.elapsed().as_secs_f64() + f64::from(2 << 20) + 100_000.0;
        assert!((bytes as f64) <= most, "{bytes} of {most}");
        assert_eq!(pacing.figures()[0].bytes, bytes);
    }

    #[test]
    fn a_core_waits_for_nobody_and_nothing_it_tells_is_lost() {
        let pacing = Pacing::new([1 << 30]);
        pacing.ask(1, rate(1 << 20)).unwrap();
        let held = locked(&pacing.lanes[0].state);
        for _ in 0..10 {
            let request = pacing.arrived(0, Duration::ZERO);
            pacing.completed(0, request, 4096);
            pacing.wake();
        }
        drop(held);
        assert_eq!(pacing.figures()[0].foreground, 10);
        assert_eq!(pacing.figures()[0].clear, 10);
        assert!(locked(&pacing.lanes[0].left).is_empty());
    }

    #[test]
    fn who_waits_for_a_request_is_woken_when_it_is_answered() {
        let pacing = Pacing::new([1 << 30]);
        let goal = PaceRequest { slowdown_ns: Some(1_000_000), ..PaceRequest::default() };
        pacing.ask(1, goal).unwrap();
        let request = pacing.arrived(0, Duration::ZERO);
        std::thread::scope(|scope| {
            let read = scope.spawn(|| pacing.reader(0).start(4096, ALWAYS));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!read.is_finished(), "somebody is served");
            pacing.completed(0, request, 4096);
            while !read.is_finished() {
                pacing.wake();
                std::thread::yield_now();
            }
            assert!(read.join().unwrap().is_some());
        });
    }

    #[test]
    fn what_several_ask_for_is_all_heeded_until_they_are_gone() {
        let pacing = Pacing::new([1 << 30]);
        assert!(!pacing.is_active() && pacing.figures().is_empty());
        pacing.ask(1, rate(1 << 20)).unwrap();
        pacing.ask(2, rate(8 << 20)).unwrap();
        assert_eq!(locked(&pacing.requests).effective.rate, Some(1 << 20));
        pacing.sweep(|asker| asker == 2);
        assert_eq!(locked(&pacing.requests).effective.rate, Some(8 << 20));
        pacing.sweep(|_| false);
        assert!(!pacing.is_active() && pacing.figures().is_empty());
        let wrong = PaceRequest { policy: Some(PacePolicy::Priced), ..PaceRequest::default() };
        assert!(pacing.ask(3, wrong).is_err());
    }

    #[test]
    fn buffers_are_kept_while_there_is_a_pace() {
        let pacing = Pacing::new([1 << 30]);
        let kept = |pacing: &Pacing| locked(&pacing.buffers).len();
        pacing.keep(pacing.buffer(8192));
        assert_eq!(kept(&pacing), 0);
        pacing.ask(1, rate(1 << 20)).unwrap();
        pacing.keep(pacing.buffer(8192));
        pacing.keep(pacing.buffer(KEPT));
        assert_eq!(kept(&pacing), 1, "more than is kept");
        assert_eq!((pacing.buffer(4096).len(), kept(&pacing)), (4096, 1));
        assert_eq!((pacing.buffer(8000).len(), kept(&pacing)), (8192, 0));
        pacing.keep(pacing.buffer(8192));
        pacing.sweep(|_| false);
        assert_eq!(kept(&pacing), 0);
    }

    #[test]
    fn a_read_that_nobody_wants_any_more_does_not_wait_for_its_window() {
        let pacing = Pacing::new([1 << 30]);
        let now = pacing.second_of_day;
        let later = ((now + 7200) % 86_400, (now + 7260) % 86_400);
        pacing.ask(1, PaceRequest { windows: vec![later], ..PaceRequest::default() }).unwrap();
        let wanted = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let read = scope.spawn(|| pacing.reader(0).start(4096, &|| wanted.load(Ordering::Relaxed)));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!read.is_finished());
            wanted.store(false, Ordering::Relaxed);
            assert_eq!(read.join().unwrap(), None);
            let read = scope.spawn(|| pacing.reader(0).start(4096, ALWAYS));
            pacing.stop();
            assert_eq!(read.join().unwrap(), None);
        });
    }

    #[test]
    fn the_oldest_check_is_that_of_the_part_checked_longest_ago() {
        let checks = Checks::new(100 << 20);
        assert_eq!(checks.oldest(), None);
        checks.checked(&(1 << 20..50 << 20), 7);
        checks.checked(&(60 << 20..90 << 20), 9);
        assert_eq!(checks.oldest(), Some(0), "a gap was never checked");
        checks.checked(&(50 << 20..60 << 20), 12);
        assert_eq!(checks.oldest(), Some(7));
        checks.checked(&(1 << 20..50 << 20), 20);
        assert_eq!(checks.oldest(), Some(9));
    }
}
