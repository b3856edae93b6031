//! The pace of background reads, drive by drive.
//!
//! Drives that share no disk with others have a [`Pacer`] each, those that do have one together. Those who serve a drive tell its pacer of every foreground request when it comes in and when it is
//! done; the parity engine asks it before every background read and tells it afterwards. A rate is held for each drive by itself. While nobody has asked for a pace, nothing is told and nothing is asked.

mod checks;
mod lane;

use pumice_buffer::{ALIGNMENT, AlignedBuffer};
use pumice_offload::{DriveId, NodeError, PaceFigures, PacePolicy, PaceRequest};
use pumice_pacer::{Config, Decision, Family, Goal, Pacer, Policy, ServiceCurve, TokenBucket, Windows};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use checks::Checks;
pub(crate) use lane::Foreground;
use lane::{Lane, State, Told, Turn, locked};

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
/// The share of the goal that is spent by what is measured here, at most. The rest is for what is not, from the answer to when the host notices it.
const SEEN: f64 = 0.75;
/// What a host waits longer for its processor, in nanoseconds: where it runs on this machine, beside a scrub, about so much was measured. Half of the goal is spent in any case.
const UNSEEN: f64 = 40_000.0;
/// Bytes of buffers that are kept between commands, at most.
const KEPT: usize = 64 << 20;

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

/// A drive: what is its own, whoever it shares disks with.
#[derive(Debug)]
struct Drive {
    /// The pacer that it has, perhaps with others.
    lane: usize,
    /// What holds its rate, where there is one.
    bucket: Mutex<Option<TokenBucket>>,
    /// Background bytes and requests since somebody asked for a pace.
    bytes: AtomicU64,
    requests: AtomicU64,
    checks: Checks,
}

impl Drive {
    /// How long it must be waited for a rate; nothing where a read may start.
    fn rate_wait(&self, now: u64, want: u64) -> Option<Duration> {
        let mut bucket = locked(&self.bucket);
        let ready = bucket.as_mut()?.ready_at(now, want.min(BACK_TO_BACK));
        (ready > now).then(|| Duration::from_nanos(ready - now))
    }

    /// A read of so many bytes starts.
    fn take(&self, now: u64, bytes: u64) {
        if let Some(bucket) = &mut *locked(&self.bucket) {
            bucket.take(now, bytes);
        }
    }
}

/// Which drives share disks, directly or through others: for each drive the number of its group, and the disks of each group.
fn groups(disks: &[BTreeSet<String>]) -> (Vec<usize>, Vec<BTreeSet<String>>) {
    let mut of: Vec<usize> = (0..disks.len()).collect();
    for (i, mine) in disks.iter().enumerate() {
        for (j, theirs) in disks[..i].iter().enumerate() {
            if !mine.is_disjoint(theirs) {
                let (from, to) = (of[i].max(of[j]), of[i].min(of[j]));
                of[..=i].iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
            }
        }
    }
    let heads: Vec<usize> = (0..of.len()).filter(|i| of[*i] == *i).collect();
    let number = |group: usize| heads.binary_search(&group).expect("a group begins with its first drive");
    let mut all = vec![BTreeSet::new(); heads.len()];
    for (disks, group) in disks.iter().zip(&of) {
        all[number(*group)].extend(disks.iter().cloned());
    }
    (of.into_iter().map(number).collect(), all)
}

/// The pacers of a node's drives.
#[derive(Debug)]
pub(crate) struct Pacing {
    began: Instant,
    /// Seconds of the day, UTC, when it began.
    second_of_day: u32,
    lanes: Vec<Lane>,
    drives: Vec<Drive>,
    requests: Mutex<Requests>,
    /// Buffers of paced commands that are done, for the next ones: to clear and map new ones took a quarter of the time of a command on a fast drive.
    buffers: Mutex<Vec<AlignedBuffer>>,
    /// Somebody has asked for a pace.
    active: AtomicBool,
    stopping: AtomicBool,
}

impl Pacing {
    /// Drives of these sizes on these disks, without a pace.
    pub(crate) fn new(drives: impl IntoIterator<Item = (u64, BTreeSet<String>)>) -> Self {
        let (sizes, disks): (Vec<u64>, Vec<BTreeSet<String>>) = drives.into_iter().unzip();
        let (groups, disks) = groups(&disks);
        let members = |lane: usize| groups.iter().filter(|group| **group == lane).count();
        let lanes =
            disks.iter().enumerate().map(|(lane, disks)| Lane::new(members(lane), disks.len())).collect();
        let drive = |(size, lane): (u64, &usize)| Drive {
            lane: *lane,
            bucket: Mutex::default(),
            bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            checks: Checks::new(size),
        };
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            began: Instant::now(),
            second_of_day: (since_1970.as_secs() % u64::from(pumice_offload::DAY)) as u32,
            lanes,
            drives: sizes.into_iter().zip(&groups).map(drive).collect(),
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
        for drive in &self.drives {
            *locked(&drive.bucket) =
                bucket(&effective).map(|(rate, burst)| TokenBucket::new(rate, burst, now));
            // Relaxed: figures, which nothing else follows from.
            drive.bytes.store(0, Ordering::Relaxed);
            drive.requests.store(0, Ordering::Relaxed);
        }
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
                    pacer.set_windows(self.windows(&effective)?);
                    pacer
                }
                None => self.pacer(&effective, lane, now)?,
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

    fn pacer(&self, request: &PaceRequest, lane: &Lane, now: u64) -> Result<Pacer, NodeError> {
        let policy = match request.policy() {
            PacePolicy::Priced => Policy::Priced,
            PacePolicy::Waiting => Policy::Tuned(Family::Waiting),
            PacePolicy::Cfq => Policy::CFQ,
            PacePolicy::BackToBack => Policy::BackToBack { bytes: BACK_TO_BACK },
        };
        let curve = ServiceCurve::guess(&GUESS).expect("sizes and times grow");
        let mut config = Config::new(goal(request), policy, curve);
        config.in_flight = match policy {
            // Where nobody heeds the others, each drive is read as if it were alone.
            Policy::BackToBack { .. } => lane.drives,
            _ => lane.disks.clamp(1, lane.drives),
        };
        config.windows = self.windows(request)?;
        Ok(Pacer::new(config, now))
    }

    fn lane(&self, index: usize) -> &Lane {
        &self.lanes[self.drives[index].lane]
    }

    /// A foreground request for drive `index` is seen, `waited` after the machine had it. What is returned belongs to [`completed`](Self::completed).
    pub(crate) fn arrived(&self, index: usize, waited: Duration) -> Foreground {
        if !self.is_active() {
            return Foreground::default();
        }
        let now = self.now();
        self.lane(index).tell(Told::Arrived { now });
        Foreground { seen: now, waited: u64::try_from(waited.as_nanos()).unwrap_or(0) }
    }

    /// A foreground request of so many bytes is done. Those who wait for that are woken by [`wake`](Self::wake).
    pub(crate) fn completed(&self, index: usize, request: Foreground, bytes: u64) {
        // One that came in before anybody asked for a pace was not told.
        if request.seen == 0 {
            return;
        }
        let now = self.now();
        let lane = self.lane(index);
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
        let mut state = self.lane(index).lock();
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
            lane.free.notify_all();
        }
    }

    /// Whether the node stops.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Bytes of a drive were checked.
    pub(crate) fn checked(&self, index: usize, bytes: &Range<u64>) {
        let second = u32::try_from(self.began.elapsed().as_secs()).unwrap_or(u32::MAX - 1);
        self.drives[index].checks.checked(bytes, second + 1);
    }

    /// For each drive how many seconds ago the part was checked that was not for longest, between the first and the last that ever were; `None` where none was.
    pub(crate) fn unchecked_seconds(&self) -> Vec<Option<u64>> {
        let now = self.began.elapsed().as_secs() + 1;
        let age = |drive: &Drive| drive.checks.oldest().map(|second| now.saturating_sub(u64::from(second)));
        self.drives.iter().map(age).collect()
    }

    /// What was measured of each drive that has a pace.
    pub(crate) fn figures(&self) -> Vec<PaceFigures> {
        let now = self.now();
        let seconds = self.began.elapsed().as_secs();
        let first = |lane: usize| self.drives.iter().position(|drive| drive.lane == lane).unwrap_or(0);
        let of = |(index, drive): (usize, &Drive)| {
            let state = self.lanes[drive.lane].lock();
            let figures = state.pacer.as_ref()?.figures();
            let oldest = drive.checks.oldest().map(|second| (seconds + 1).saturating_sub(u64::from(second)));
            Some(PaceFigures {
                drive: DriveId(index as u32 + 1),
                paced_with: DriveId(first(drive.lane) as u32 + 1),
                elapsed_ns: now.saturating_sub(figures.since),
                bytes: drive.bytes.load(Ordering::Relaxed),
                requests: drive.requests.load(Ordering::Relaxed),
                foreground: figures.foreground,
                collisions: figures.collisions,
                clear: figures.clear.count,
                clear_mean_ns: figures.clear.mean() as u64,
                met: figures.met.count,
                met_mean_ns: figures.met.mean() as u64,
                slowdown_mean_ns: figures.mean_slowdown() as i64,
                oldest_check_s: oldest,
            })
        };
        self.drives.iter().enumerate().filter_map(of).collect()
    }
}

/// Something reads a drive in the background.
pub(crate) struct Reader<'p> {
    pacing: &'p Pacing,
    index: usize,
}

impl Reader<'_> {
    /// Waits until a background read of at most `want` bytes may start, and returns how long it may be. `None` where it is not wanted any more.
    pub(crate) fn start(&self, want: u64, wanted: &(dyn Fn() -> bool + Sync)) -> Option<u64> {
        let (pacing, drive) = (self.pacing, &self.pacing.drives[self.index]);
        let over = || pacing.stopping.load(Ordering::Acquire) || !wanted();
        // The rate first: whoever waits for it keeps nobody else.
        while let Some(wait) = drive.rate_wait(pacing.now(), want) {
            if over() {
                return None;
            }
            std::thread::sleep(wait.min(NAP));
        }
        let lane = &pacing.lanes[drive.lane];
        let mut state = lane.lock();
        let turn = loop {
            if over() {
                return None;
            }
            match Turn::take(lane) {
                Some(turn) => break turn,
                None => state = lane.free.wait_timeout(state, NAP).unwrap_or_else(PoisonError::into_inner).0,
            }
        };
        let (state, granted) = self.ask(lane, state, want, &over);
        // Given back under the lock: who has just seen that it is taken would miss that.
        drop(turn);
        drop(state);
        granted
    }

    /// Asks the pacer until it lets a read start, or nobody wants it.
    fn ask<'s>(
        &self,
        lane: &'s Lane,
        mut state: MutexGuard<'s, State>,
        want: u64,
        over: &dyn Fn() -> bool,
    ) -> (MutexGuard<'s, State>, Option<u64>) {
        let _waits = Waits::new(&lane.waiting);
        loop {
            if over() {
                return (state, None);
            }
            lane.catch_up(&mut state);
            let now = self.pacing.now();
            let nap = match state.pacer.as_mut().map(|pacer| pacer.next(now)) {
                // Nobody wants a pace any more.
                None => return (state, Some(want)),
                Some(Decision::StartRequest { bytes, .. }) => {
                    let granted = bytes.min(want);
                    self.pacing.drives[self.index].take(now, granted);
                    return (state, Some(granted));
                }
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
        let drive = &self.pacing.drives[self.index];
        let lane = &self.pacing.lanes[drive.lane];
        let now = self.pacing.now();
        drive.bytes.fetch_add(bytes, Ordering::Relaxed);
        drive.requests.fetch_add(1, Ordering::Relaxed);
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
        let mut state = self.pacing.lane(self.index).lock();
        state.readers -= 1;
        state.tell_work();
    }
}

/// A goal; without one the policy does not ask for it.
fn goal(request: &PaceRequest) -> Goal {
    let seen = |asked: f64| (asked * SEEN).min(asked - UNSEEN).max(asked / 2.0);
    Goal::mean(request.slowdown_ns.map_or(0, |asked| seen(asked as f64) as u64))
}

/// The rate, with a tenth of a second saved up.
fn bucket(request: &PaceRequest) -> Option<(u64, u64)> {
    request.rate.map(|rate| (rate, (rate / 10).max(BACK_TO_BACK)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALWAYS: &(dyn Fn() -> bool + Sync) = &|| true;

    /// One drive, and nothing beside it.
    fn alone() -> Pacing {
        Pacing::new([(1 << 30, BTreeSet::new())])
    }

    fn on(disks: &[&str]) -> BTreeSet<String> {
        disks.iter().map(|disk| (*disk).to_owned()).collect()
    }

    #[test]
    fn drives_that_share_disks_have_one_pacer() {
        let disks = [on(&["a"]), on(&[]), on(&["b"]), on(&["a", "c"]), on(&["c", "b"]), on(&[]), on(&["d"])];
        let (of, all) = groups(&disks);
        assert_eq!(of, [0, 1, 0, 0, 0, 2, 3]);
        assert_eq!(all, [on(&["a", "b", "c"]), on(&[]), on(&[]), on(&["d"])]);
    }

    #[test]
    fn drives_on_one_disk_are_read_in_turn_and_one_foreground_is_seen_by_all() {
        let pacing = Pacing::new([(1 << 30, on(&["a"])), (1 << 30, on(&["a"])), (1 << 30, on(&["b"]))]);
        let goal = PaceRequest { slowdown_ns: Some(1_000_000), ..PaceRequest::default() };
        pacing.ask(1, goal).unwrap();
        let (one, other, apart) = (pacing.reader(0), pacing.reader(1), pacing.reader(2));
        let granted = one.start(4096, ALWAYS).unwrap();
        assert!(apart.start(4096, ALWAYS).is_some(), "another disk");
        let next = pacing.lanes[0].lock().pacer.as_mut().map(|pacer| pacer.next(pacing.now()));
        assert_eq!(next, Some(Decision::WaitForEvent), "the disk is read");
        one.done(granted);
        let granted = other.start(4096, ALWAYS).unwrap();
        other.done(granted);
        let request = pacing.arrived(1, Duration::ZERO);
        pacing.completed(1, request, 4096);
        let figures = pacing.figures();
        let of = |i: usize| (figures[i].paced_with.0, figures[i].requests, figures[i].foreground);
        assert_eq!([of(0), of(1), of(2)], [(1, 1, 1), (1, 1, 1), (3, 0, 0)]);
    }

    #[test]
    fn who_waits_for_a_turn_can_be_let_go() {
        let pacing = Pacing::new([(1 << 30, on(&["a"])), (1 << 30, on(&["a"]))]);
        let goal = PaceRequest { slowdown_ns: Some(1_000_000), ..PaceRequest::default() };
        pacing.ask(1, goal).unwrap();
        // Somebody is served all the time: the first to ask keeps its turn.
        let request = pacing.arrived(0, Duration::ZERO);
        let wanted = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| pacing.reader(0).start(4096, ALWAYS));
            while pacing.lanes[0].waiting.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            let second = scope.spawn(|| pacing.reader(1).start(4096, &|| wanted.load(Ordering::Relaxed)));
            // Longer than a nap.
            std::thread::sleep(Duration::from_millis(250));
            assert_eq!(pacing.lanes[0].waiting.load(Ordering::Relaxed), 1, "one asks at a time");
            wanted.store(false, Ordering::Relaxed);
            assert_eq!(second.join().unwrap(), None);
            assert!(!first.is_finished());
            pacing.completed(0, request, 4096);
            while !first.is_finished() {
                pacing.wake();
                std::thread::yield_now();
            }
            assert!(first.join().unwrap().is_some());
        });
    }

    fn rate(rate: u64) -> PaceRequest {
        PaceRequest { rate: Some(rate), ..PaceRequest::default() }
    }

    #[test]
    fn a_rate_is_held() {
        let pacing = alone();
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
        let pacing = alone();
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
        let pacing = alone();
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
        let pacing = alone();
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
        let pacing = alone();
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
        let pacing = alone();
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
}
