//! The pace of background reads, drive by drive.
//!
//! A drive that shares no disk with others has its own [`Pacer`]; drives that share disks have one
//! together. The server reports every foreground request of a drive to its pacer, on arrival and on
//! completion; the parity engine asks the pacer before every background read and reports the read
//! afterwards. A rate applies to each drive separately. Without a pace, the pacer is not used.

mod checks;
mod floor;
mod groups;
mod lane;
mod reader;

use pumice_base::buffer::{ALIGNMENT, AlignedBuffer};
use pumice_offload::{DriveId, NEVER, NodeError, PaceFigures, PacePolicy, PaceRequest};
use pumice_pacer::{Config, Goal, Pacer, Policy, ServiceCurve, TokenBucket, Windows};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use checks::Checks;
use groups::groups;
pub(crate) use lane::Foreground;
use lane::{Lane, Told, locked};
pub(crate) use reader::Reader;

/// Bytes of a request that follows another one at once.
const BACK_TO_BACK: u64 = 1 << 20;
/// A first guess of bytes and nanoseconds, between a disk and a fast SSD; corrected by every read.
/// A point for each size that a pacer grants: a read that lay between two points would move one of
/// them by what the other is wrong.
const GUESS: [(u64, u64); 7] = [
    (64 << 10, 1_000_000),
    (128 << 10, 1_200_000),
    (256 << 10, 1_600_000),
    (512 << 10, 2_400_000),
    (1 << 20, 4_000_000),
    (2 << 20, 6_700_000),
    (4 << 20, 12_000_000),
];
/// The share of the goal that is spent by what is measured here, at most. The rest is for what is
/// not, from the answer to when the host notices it.
const SEEN: f64 = 0.75;
/// Time that a host waits longer for its processor, in nanoseconds: where it runs on this machine,
/// beside a scrub, about so much was measured. Half of the goal is spent in any case.
const UNSEEN: f64 = 40_000.0;
/// Bytes of buffers that are kept between commands, at most.
const KEPT: usize = 64 << 20;

/// Asker for a pace: the node's own configuration and the caller in this process are 0, a host is
/// its controller's number.
pub(crate) type Asker = u16;

#[derive(Debug, Default)]
struct Requests {
    own: PaceRequest,
    asked: BTreeMap<Asker, PaceRequest>,
    effective: PaceRequest,
}

impl Requests {
    /// The pace that the node's configuration and one asker have asked for, without the others'.
    fn of(&self, asker: Asker) -> PaceRequest {
        self.asked.get(&asker).map_or_else(|| self.own.clone(), |asked| self.own.and(asked))
    }
}

/// A drive: what is its own, whoever it shares disks with.
#[derive(Debug)]
struct Drive {
    /// The pacer that it has, perhaps with others.
    lane: usize,
    /// The bucket of its rate, if there is one.
    bucket: Mutex<Option<TokenBucket>>,
    /// The rate that is left to commands that another host's pace holds up.
    floor: Mutex<TokenBucket>,
    /// Background bytes and requests since somebody asked for a pace.
    bytes: AtomicU64,
    requests: AtomicU64,
    checks: Checks,
}

impl Drive {
    /// Returns the time to wait for a rate; nothing if a read may start.
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

/// The pacers of a node's drives.
///
/// Locks are taken in this order: `changing`, a lane, one of the others. Nobody takes a second of
/// the others, or a lane, with one of the others held.
#[derive(Debug)]
pub(crate) struct Pacing {
    began: Instant,
    /// Seconds of the day, UTC, when it began.
    second_of_day: u32,
    lanes: Vec<Lane>,
    drives: Vec<Drive>,
    requests: Mutex<Requests>,
    /// Held while a pace changes. The policy of the pacers that there are, parked ones too.
    changing: Mutex<Option<PacePolicy>>,
    /// Buffers of paced commands that are done, for the next ones: to clear and map new ones took a
    /// quarter of the time of a command on a fast drive.
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
            floor: Mutex::new(floor::bucket()),
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
            changing: Mutex::default(),
            buffers: Mutex::default(),
            active: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// Nanoseconds since it began, never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// Returns whether there is a pace.
    pub(crate) fn is_active(&self) -> bool {
        // Acquire: whoever sees it sees the pacers that were made before.
        self.active.load(Ordering::Acquire)
    }

    /// The pace that the node's own configuration asks for.
    pub(crate) fn configure(&self, own: PaceRequest) -> Result<(), NodeError> {
        if !own.is_empty() {
            own.validate().map_err(|(field, why)| NodeError::invalid(field, why))?;
        }
        let mut policy = locked(&self.changing);
        locked(&self.requests).own = own;
        self.apply(&mut policy)
    }

    /// A pace that somebody asks for; an empty request takes the last one back. Figures begin anew.
    pub(crate) fn ask(&self, asker: Asker, request: PaceRequest) -> Result<(), NodeError> {
        if !request.is_empty() {
            request.validate().map_err(|(field, why)| NodeError::invalid(field, why))?;
        }
        let mut policy = locked(&self.changing);
        {
            let mut requests = locked(&self.requests);
            if requests.own.and(&request).windows == [NEVER] {
                let why = "the node's own hours have none in common with these";
                return Err(NodeError::invalid("window", why));
            }
            if request.is_empty() {
                requests.asked.remove(&asker);
            } else {
                requests.asked.insert(asker, request);
            }
        }
        self.apply(&mut policy)
    }

    /// The number of askers for a pace.
    pub(crate) fn askers(&self) -> usize {
        locked(&self.requests).asked.len()
    }

    /// Forgets what those have asked for who are gone.
    pub(crate) fn sweep(&self, stands: impl Fn(Asker) -> bool) {
        if !self.is_active() {
            return;
        }
        let mut policy = locked(&self.changing);
        // `stands` takes locks of its own.
        let askers: Vec<Asker> = locked(&self.requests).asked.keys().copied().collect();
        let gone: Vec<Asker> = askers.into_iter().filter(|asker| *asker != 0 && !stands(*asker)).collect();
        if !gone.is_empty() {
            locked(&self.requests).asked.retain(|asker, _| !gone.contains(asker));
            // What was valid together with more is valid without it.
            let _ = self.apply(&mut policy);
        }
    }

    /// Gives the pacers the pace that all have asked for. The requests are not held meanwhile:
    /// whoever has a lane may ask for them ([`Reader::by_floor`]).
    fn apply(&self, policy: &mut Option<PacePolicy>) -> Result<(), NodeError> {
        let effective = {
            let requests = locked(&self.requests);
            requests.asked.values().fold(requests.own.clone(), |all, one| all.and(one))
        };
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
            let pacer = match known.filter(|_| *policy == Some(effective.policy())) {
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
            *policy = Some(effective.policy());
        }
        self.active.store(!effective.is_empty(), Ordering::Release);
        if effective.is_empty() {
            locked(&self.buffers).clear();
        }
        locked(&self.requests).effective = effective;
        Ok(())
    }

    fn windows(&self, request: &PaceRequest) -> Result<Windows, NodeError> {
        if request.windows == [NEVER] {
            return Ok(Windows::never());
        }
        Windows::daily(&request.windows, self.second_of_day)
            .map_err(|error| NodeError::invalid("window", error.to_string()))
    }

    fn pacer(&self, request: &PaceRequest, lane: &Lane, now: u64) -> Result<Pacer, NodeError> {
        let policy = match request.policy() {
            PacePolicy::Priced => Policy::Priced,
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

    /// A foreground request for drive `index` is seen, `waited` after the machine had it. What is
    /// returned belongs to [`completed`](Self::completed).
    pub(crate) fn arrived(&self, index: usize, waited: Duration) -> Foreground {
        if !self.is_active() {
            return Foreground::default();
        }
        let now = self.now();
        self.lane(index).tell(Told::Arrived { now });
        Foreground { seen: now, waited: u64::try_from(waited.as_nanos()).unwrap_or(0) }
    }

    /// A foreground request of so many bytes is done. Those who wait for that are woken by
    /// [`wake`](Self::wake).
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

    /// Wakes those who wait for a request to be done, when its answer is on its way: a background
    /// read that begins sooner takes the processor from it.
    pub(crate) fn wake(&self) {
        if !self.is_active() {
            return;
        }
        for lane in &self.lanes {
            if lane.news.load(Ordering::Relaxed)
                && lane.waiting.load(Ordering::Relaxed) > 0
                // Who has the lock may be about to wait: then they are woken the next time, or see
                // for themselves what was left.
                && lane.try_lock().is_some()
            {
                lane.news.store(false, Ordering::Relaxed);
                lane.changed.notify_all();
            }
        }
    }

    /// A background reader of a drive, as long as it lives, for a command of `asker`.
    pub(crate) fn reader(&self, index: usize, asker: Asker) -> Reader<'_> {
        let mut state = self.lane(index).lock();
        state.readers += 1;
        state.tell_work();
        Reader { pacing: self, index, asker, past_pacer: Cell::new(false) }
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

    /// Bytes of a drive were read without asking: what is read at the pace waits for that.
    pub(crate) fn owe(&self, index: usize, bytes: u64) {
        if self.is_active() {
            let drive = &self.drives[index];
            drive.take(self.now(), bytes);
            drive.bytes.fetch_add(bytes, Ordering::Relaxed);
            drive.requests.fetch_add(1, Ordering::Relaxed);
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

    /// Returns whether the node stops.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Bytes of a drive were checked.
    pub(crate) fn checked(&self, index: usize, bytes: &Range<u64>) {
        let second = u32::try_from(self.began.elapsed().as_secs()).unwrap_or(u32::MAX - 1);
        self.drives[index].checks.checked(bytes, second + 1);
    }

    /// For each drive how many seconds ago the part was checked that was not for longest, between
    /// the first and the last that ever were; `None` where none was.
    pub(crate) fn unchecked_seconds(&self) -> Vec<Option<u64>> {
        let now = self.began.elapsed().as_secs() + 1;
        let age = |drive: &Drive| drive.checks.oldest().map(|second| now.saturating_sub(u64::from(second)));
        self.drives.iter().map(age).collect()
    }

    /// For each drive, the share of it that a check has read since the start: 0 to 1.
    pub(crate) fn checked_shares(&self) -> Vec<f64> {
        self.drives.iter().map(|drive| drive.checks.share()).collect()
    }

    /// Measurements of each drive that has a pace, and the time that a read for `asker` would wait.
    pub(crate) fn figures(&self, asker: Asker) -> Vec<PaceFigures> {
        let now = self.now();
        let own = locked(&self.requests).of(asker);
        let opens = self.windows(&own).map_or(u64::MAX, |windows| windows.open_at(now));
        let closed_ns = if opens == u64::MAX { opens } else { opens.saturating_sub(now) };
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
                closed_ns,
                owed_ns: drive.rate_wait(now, BACK_TO_BACK).map_or(0, |wait| wait.as_nanos() as u64),
            })
        };
        self.drives.iter().enumerate().filter_map(of).collect()
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
mod tests;
