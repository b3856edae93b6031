//! A scrub in the process that serves the volume: the pass of `pumice scrub`, under the volume's
//! own locks.

use crate::api::{Answer, Code, Event, ScrubDone, ScrubOrder, ScrubProgress};
use crate::events::EventLog;
use crate::failure::Failure;
use crate::lines::Reply;
use crate::state::{fresh_seed, open_state};
use pumice_base::units::Role;
use pumice_executor::{Control, MemberDrive};
use pumice_host::error::HostError;
use pumice_host::finding::Finding;
use pumice_host::locks::{Purpose, StripeLock, StripeLocks};
use pumice_host::pass::{Observer, Progress, StopReason};
use pumice_host::report::Report;
use pumice_host::scrub::{Options, Outcome, run as run_pass};
use pumice_host::stop::Stop;
use pumice_host::target::{Member, Target};
use pumice_offload::{DataNode, PaceRequest};
use pumice_pacer::{Nanos, TokenBucket, Windows};
use pumice_raid::{Array, AssemblyError, Known, MemberRecord, assemble, probe_for};
use std::io::Read;
use std::net::Shutdown;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of each member that a batch has, about: so long writes wait.
const BATCH: u64 = 1 << 20;
/// Findings after which a scrub stops: its report goes through the socket.
const MOST_FINDINGS: usize = 10_000;
/// Attempts to read superblocks that do not fit together: they are written one by one.
const AGAIN: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// Time between two lines of progress.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// Time that the end of the volume gives a scrub. A repair that has begun takes one stripe; one
/// that takes longer waits for a drive or a node that does not answer, and is told in its journal.
const CLOSE_TIME: Duration = Duration::from_secs(5);
/// Time between two looks at the scrub that is to end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Text of a report for people: of the array, its outcome and its report, and whether repairs were
/// asked for. The program that serves the volume has the words.
pub type Words = fn(&Target, &Outcome, &Report, bool) -> String;
/// Text of a report as a JSON document.
pub type Document = fn(&Report) -> String;

/// Forms in which a report is written.
#[derive(Debug, Clone, Copy)]
pub struct Forms {
    /// For people.
    pub words: Words,
    /// For programs.
    pub document: Document,
}

impl Forms {
    /// The report of a scrub, and the exit code of its command.
    #[must_use]
    pub fn report(&self, target: &Target, outcome: &Outcome, json: bool, repairing: bool) -> (String, u8) {
        let report = Report::new(target, outcome);
        let output = match json {
            true => (self.document)(&report),
            false => (self.words)(target, outcome, &report, repairing),
        };
        (output, report.result.exit_code())
    }
}

/// The scrub of a volume, if one is under way.
pub(crate) struct Scrubs {
    forms: Forms,
    events: Arc<EventLog>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    stop: Option<Arc<Stop>>,
    thread: Option<JoinHandle<()>>,
    /// True once the scrub reads and writes no more. Its thread may still tell the client.
    ended: Arc<AtomicBool>,
    closed: bool,
}

impl Scrubs {
    /// None yet. Reports are written in these forms.
    pub(crate) fn new(forms: Forms, events: Arc<EventLog>) -> Self {
        Self { forms, events, running: Mutex::default() }
    }

    /// Begins a scrub, which answers by `reply`, and ends when its client goes.
    pub(crate) fn begin(&self, control: Control, order: ScrubOrder, reply: Reply) -> Result<(), Failure> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.closed {
            return Err(Failure::coded(Code::Stopped, "the volume is being stopped"));
        }
        // A thread may still tell its client the result: that is no scrub any more.
        let over = running.ended.load(Ordering::Acquire);
        if running.thread.as_ref().is_some_and(|thread| !thread.is_finished() && !over) {
            return Err(Failure::coded(Code::ScrubRunning, "a scrub of the volume is under way"));
        }
        let stop = Arc::new(Stop::new());
        let (gone, mut watched) = (Arc::clone(&stop), reply.stream.try_clone()?);
        watched.set_read_timeout(None)?;
        std::thread::Builder::new().name("scrub-client".to_owned()).spawn(move || {
            // Nothing is to come: a byte, or the end, means that the scrub is to stop.
            let _ = watched.read(&mut [0]);
            gone.raise();
        })?;
        let (ours, forms, log) = (Arc::clone(&stop), self.forms, Arc::clone(&self.events));
        let now_over = Arc::new(AtomicBool::new(false));
        running.ended = Arc::clone(&now_over);
        let thread = std::thread::Builder::new().name("scrub".to_owned()).spawn(move || {
            let mut teller = Teller { reply, stop: Arc::clone(&ours), told: Instant::now() };
            log.emit(Event::ScrubBegun { repairs: order.repair.is_some() && !order.dry_run });
            let end = scrub(&control, &order, forms, &ours, &mut teller).map(|(outcome, done)| {
                log.emit(ended(&outcome));
                done
            });
            if let Err(failure) = &end {
                log.emit(Event::ScrubFailed { why: failure.to_string() });
            }
            // Before its client hears of it: whoever has the result may begin the next scrub.
            now_over.store(true, Ordering::Release);
            teller.tell(&end.map_or_else(|failure| Answer::Error(failure.fault()), Answer::Done));
            // The client may have gone.
            let _ = teller.reply.stream.shutdown(Shutdown::Both);
        })?;
        (running.stop, running.thread) = (Some(stop), Some(thread));
        Ok(())
    }

    /// Ends the scrub that is under way, and lets no other begin. A repair that has begun is
    /// finished. Returns whether the scrub ended within [`CLOSE_TIME`]; if not, it still waits for
    /// a drive or a node.
    pub(crate) fn close(&self) -> bool {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.closed = true;
        if let Some(stop) = running.stop.take() {
            stop.raise();
        }
        let Some(thread) = running.thread.take() else { return true };
        let until = Instant::now() + CLOSE_TIME;
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        thread.is_finished()
    }
}

/// Tells the client what happens. Never while stripes are locked: it may wait.
struct Teller {
    reply: Reply,
    stop: Arc<Stop>,
    told: Instant,
}

impl Teller {
    fn tell(&mut self, answer: &Answer) {
        if self.reply.send(answer).is_err() {
            // Nobody waits for the result.
            self.stop.raise();
        }
    }
}

impl Observer for Teller {
    fn progress(&mut self, progress: &Progress) {
        if self.told.elapsed() >= TELL_EVERY || progress.stripes == 0 {
            self.told = Instant::now();
            let Progress { stripes, of_stripes, bytes, findings } = *progress;
            self.tell(&Answer::Progress(ScrubProgress { stripes, of_stripes, bytes, findings }));
        }
    }

    fn finding(&mut self, _: &Finding) {
        // The report has them.
    }

    fn note(&mut self, note: &str) {
        self.tell(&Answer::Note(note.to_owned()));
    }
}

fn scrub(
    control: &Control,
    order: &ScrubOrder,
    forms: Forms,
    stop: &Arc<Stop>,
    teller: &mut Teller,
) -> Result<(Outcome, ScrubDone), Failure> {
    let chunk = control.facts().geometry.chunk_bytes();
    let mut options = options(order, chunk)?;
    let pace = PaceRequest { rate: order.rate, windows: order.windows.clone(), ..PaceRequest::default() };
    pace.validate().map_err(|(field, why)| Failure::new(format!("--{field}: {why}")))?;
    let locks = Locks { control: control.clone(), chunk, pace: Mutex::new(Pace::new(&pace, chunk)?) };
    let target = target_of(control, stop)?.with_locks(Arc::new(locks));
    if !target.nodes().all(|node| node.reads_unpaced()) {
        // An older node may read a longer command at its own pace, while users wait for the
        // stripes.
        options.batch = Some(1);
    }
    options.check(&target)?;
    let needed = options.repair.is_some() && !options.dry_run || options.resume;
    let state =
        open_state(order.state_dir.as_deref(), (order.state_named, needed), control.facts().uuid, |note| {
            teller.note(note);
        })?;
    let outcome = run_pass(&target, state.as_ref(), &options, teller, stop)?;
    let stopped = match &outcome.stopped {
        Some(StopReason::Failed(why)) => Some(why.clone()),
        _ => None,
    };
    let (output, exit) = forms.report(&target, &outcome, order.json, options.repair.is_some());
    let document = (!order.json).then(|| (forms.document)(&Report::new(&target, &outcome)));
    Ok((outcome, ScrubDone { output, exit, stopped, document }))
}

/// The end of a scrub as an event. A busy stripe is no finding.
fn ended(outcome: &Outcome) -> Event {
    let why = outcome.stopped.as_ref().map(|stopped| match stopped {
        StopReason::Interrupted => "it was to end".to_owned(),
        StopReason::Failed(why) | StopReason::ArrayChanged(why) | StopReason::TakenIntoUse(why) => {
            why.clone()
        }
        StopReason::TooManyFindings => "too many findings".to_owned(),
    });
    let findings = || outcome.findings.iter().filter(|finding| !finding.is_busy());
    let repaired = findings().filter(|finding| finding.repaired).count() as u64;
    match findings().count() as u64 {
        0 => Event::ScrubEnded { stripes: outcome.stripes_checked, of_stripes: outcome.stripes_asked, why },
        findings => Event::ScrubFound { findings, repaired, why },
    }
}

fn options(order: &ScrubOrder, chunk: u64) -> Result<Options, Failure> {
    let parsed = |text: &Option<String>| text.as_deref().map(str::parse).transpose();
    Ok(Options {
        method: order.method,
        batch: Some(order.batch.unwrap_or((BATCH / chunk).max(1))),
        seed: order.seed.as_deref().map(str::parse).transpose()?,
        range: order.range.clone(),
        parts: order.parts.clone(),
        order: order.order.as_deref().map(str::parse).transpose().map_err(Failure::new)?,
        repair: parsed(&order.repair).map_err(Failure::new)?,
        dry_run: order.dry_run,
        vouch: order.vouch,
        resume: order.resume,
        accept_degraded: order.accept_degraded,
        keep_repairs: order.keep_repairs,
        max_findings: MOST_FINDINGS,
        ..Options::with_seed(fresh_seed()?)
    })
}

/// The array as its superblocks describe it now, on the nodes that the volume uses.
fn target_of(control: &Control, stop: &Stop) -> Result<Target, Failure> {
    let known = control.facts().known();
    let mut left = AGAIN;
    let (members, array) = loop {
        let members = control.members().map_err(crate::failure::refused)?;
        match assembled(&members, known) {
            Ok(array) => break (members, array),
            Err(Unfit::For(why)) if left > 0 => {
                tracing::debug!(why, "superblocks are being written");
                left -= 1;
                stop.wait(PAUSE).map_err(|_| Failure::from(HostError::Interrupted))?;
            }
            Err(Unfit::For(why)) => return Err(Failure::new(why)),
        }
    };
    let mut nodes: Vec<&Arc<dyn DataNode>> = Vec::new();
    let mut out = vec![None; usize::from(array.geometry().raid_disks())];
    for (role, drive) in &members {
        let Some(info) = array.member(*role) else { continue };
        let known = nodes.iter().position(|node| Arc::ptr_eq(node, drive.node()));
        let number = known.unwrap_or(nodes.len());
        if known.is_none() {
            nodes.push(drive.node());
        }
        out[role.index()] = Some(Member {
            node: Arc::clone(drive.node()),
            node_name: format!("node{}", number + 1),
            drive: drive.id(),
            device: info.device.clone(),
            data_offset: info.data_offset_bytes(),
            valid_stripes: info.valid_stripes(array.geometry()),
        });
    }
    Ok(Target::new(array, out))
}

/// Superblocks that make no array now.
enum Unfit {
    For(String),
}

fn assembled(members: &[(Role, MemberDrive)], known: Known) -> Result<Array, Unfit> {
    let record = |(_, drive): &(Role, MemberDrive)| -> Result<(String, MemberRecord), Unfit> {
        let name = drive.name().to_owned();
        let found = probe_for(drive, known).map_err(|error| Unfit::For(format!("{name}: {error}")))?;
        let found = found.ok_or_else(|| Unfit::For(format!("{name}: no md superblock")))?;
        Ok((name, found))
    };
    let records = members.iter().map(record).collect::<Result<Vec<_>, _>>()?;
    let mut array = assemble(records).map_err(|error: AssemblyError| Unfit::For(error.to_string()))?;
    // Its writes under way end, and the locks keep them out of what is looked at.
    array.assume_running();
    Ok(array)
}

/// Times at which batches may begin.
struct Pace {
    zero: Instant,
    bucket: Option<TokenBucket>,
    windows: Windows,
}

impl Pace {
    fn new(pace: &PaceRequest, chunk: u64) -> Result<Self, Failure> {
        let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() % 86_400);
        Ok(Self {
            zero: Instant::now(),
            bucket: pace.rate.map(|rate| TokenBucket::new(rate, (rate / 10).max(chunk), 0)),
            windows: Windows::daily(&pace.windows, day as u32)?,
        })
    }

    /// Time that a batch of `bytes` of each drive has to wait; `None` if it may begin now. Then it
    /// is counted.
    fn wait(&mut self, bytes: u64) -> Option<Duration> {
        let now = Nanos::try_from(self.zero.elapsed().as_nanos()).unwrap_or(Nanos::MAX);
        let paid = self.bucket.as_mut().map_or(now, |bucket| bucket.ready_at(now, bytes));
        let at = self.windows.open_at(paid);
        if at > now {
            return Some(Duration::from_nanos(at - now));
        }
        if let Some(bucket) = &mut self.bucket {
            bucket.take(now, bytes);
        }
        None
    }
}

/// The locks of a volume.
struct Locks {
    control: Control,
    chunk: u64,
    pace: Mutex<Pace>,
}

impl StripeLocks for Locks {
    fn lock(&self, stripes: Range<u64>, purpose: Purpose, stop: &Stop) -> Result<StripeLock, HostError> {
        let gone = |error: pumice_executor::ControlError| HostError::Locks(error.to_string());
        if purpose == Purpose::Check {
            // Before the lock: whoever waits for it does not wait for the pace.
            let bytes = (stripes.end - stripes.start).saturating_mul(self.chunk);
            let wait = || self.pace.lock().unwrap_or_else(PoisonError::into_inner).wait(bytes);
            while let Some(wait) = wait() {
                stop.wait(wait).map_err(|_| HostError::Interrupted)?;
            }
        }
        let asked = self.control.claim(stripes, purpose == Purpose::Repair).map_err(gone)?;
        let _listening = stop.listen(asked.give_up());
        let claim = asked.wait().map_err(gone)?.ok_or(HostError::Interrupted)?;
        if purpose == Purpose::Repair {
            // From here on the stripe log names none of the stripes: no replay overwrites a repair.
            self.control.flush().map_err(gone)?;
        }
        Ok(StripeLock::new(claim.members().clone(), Box::new(claim)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_wait_for_their_rate_and_their_hours() {
        let rate = PaceRequest { rate: Some(1000), ..PaceRequest::default() };
        let mut pace = Pace::new(&rate, 4096).unwrap();
        assert_eq!(pace.wait(8192), None, "a full bucket lets one begin");
        let wait = pace.wait(4096).unwrap();
        assert!(wait > Duration::from_secs(7) && wait <= Duration::from_secs(9), "{wait:?}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32 % 86_400;
        let later = (now + 7200) % 86_400;
        let closed = vec![(later, (later + 60) % 86_400)];
        let hours = PaceRequest { windows: closed, ..PaceRequest::default() };
        let wait = Pace::new(&hours, 4096).unwrap().wait(1).unwrap();
        assert!(wait > Duration::from_secs(7000) && wait <= Duration::from_secs(7200), "{wait:?}");
    }
}
