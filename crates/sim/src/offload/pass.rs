//! A pass over an array by one of the methods, as tasks of the machine.

use super::machine::{LineId, Machine, SlotsId, Step, Task, TaskId, Work};
use super::platform::Platform;
use pumice_pacer::Nanos;
use serde::Serialize;
use std::collections::BTreeSet;
use thiserror::Error;

/// Stripes that are simulated at most, for each drive.
const ROUNDS: u64 = 96;
/// Batches that are simulated at most.
const BATCHES: u64 = 12;
/// Stripes in progress for each drive and thread, or batches in all: enough that none waits for the
/// next one.
pub const AHEAD: u64 = 4;

/// Place where stripes are folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// By the host.
    Host,
    /// By one drive of each node, stripe by stripe.
    Stripe,
    /// By each drive over its own segments, a batch of stripes at a time.
    Aggregate,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Host, Self::Stripe, Self::Aggregate];

    /// As it is printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Stripe => "stripe",
            Self::Aggregate => "aggregate",
        }
    }
}

/// A machine that cannot check at all.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlatformError {
    /// A setting that must be above 0 is 0.
    #[error("{0} is 0")]
    Zero(&'static str),
    /// The segments of one request do not fit.
    #[error("cmb: {cmb} bytes hold no request of {drives} segments of {segment} bytes")]
    Cmb {
        /// Bytes of the buffer.
        cmb: u64,
        /// Segments of a request.
        drives: u64,
        /// Bytes of each.
        segment: u64,
    },
    /// The drive is smaller than a segment.
    #[error("segment: {segment} bytes are more than a drive of {drive} bytes has")]
    Segment {
        /// Bytes of a segment.
        segment: u64,
        /// Bytes of a drive.
        drive: u64,
    },
    /// An array of fewer than two drives.
    #[error("drives: {0} are no array")]
    Drives(u64),
}

/// Time of a pass, and the part that bounds it.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The method.
    pub method: Method,
    /// Drives of the array.
    pub drives: u64,
    /// Duration of the pass.
    pub seconds: f64,
    /// Bytes checked a second, of all drives.
    pub checked_per_s: f64,
    /// Bytes that leave drives over PCIe, in the pass.
    pub pcie_bytes: f64,
    /// Bytes that leave nodes over the network, in the pass.
    pub network_bytes: f64,
    /// Bytes a second through host memory.
    pub memory_per_s: f64,
    /// Threads of the host that are busy, in the mean.
    pub threads_busy: f64,
    /// The part with the highest load.
    pub limit: &'static str,
    /// Its load, from 0 to 1.
    pub limit_load: f64,
    /// Units that were simulated: stripes, or batches.
    pub simulated: u64,
}

#[derive(Debug, Clone, Copy)]
struct DriveParts {
    node: usize,
    medium: LineId,
    out: LineId,
    into: LineId,
    engine: LineId,
    slots: SlotsId,
}

struct Pass<'a> {
    platform: &'a Platform,
    method: Method,
    machine: Machine,
    drives: Vec<DriveParts>,
    /// Drives of each node.
    members: Vec<Vec<usize>>,
    /// Network of each node: out, and in.
    ports: Vec<(LineId, LineId)>,
    host_port: LineId,
}

/// Result of simulating a pass.
struct Played {
    /// Times at which units ended, in order.
    ends: Vec<Nanos>,
    /// Units that were begun.
    begun: u64,
    /// For how long each line had been passing bytes when the last unit that counts ended.
    busy: Vec<Nanos>,
}

/// Simulates a pass over `drives` drives.
///
/// # Errors
/// If a rate or count is 0, or a request does not fit.
pub fn run(platform: &Platform, method: Method, drives: u64) -> Result<Outcome, PlatformError> {
    checked(platform, method, drives)?;
    let mut pass = Pass::new(platform, method, drives);
    let stripes = platform.drive_bytes / platform.segment;
    let unit_stripes = if method == Method::Aggregate { platform.batch.min(stripes) } else { 1 };
    let units = stripes as f64 / unit_stripes as f64;
    let rounds = if method == Method::Aggregate { BATCHES } else { ROUNDS * drives };
    let simulated = rounds.min(units.ceil() as u64);
    let goes_on = units > simulated as f64;
    let played = pass.play(simulated, goes_on, unit_stripes);
    let at = |unit: u64| played.ends.get(unit as usize - 1).map_or(0.0, |end| *end as f64 / 1e9);
    let span = at(simulated);
    let half = (simulated / 2).max(1);
    let seconds = if goes_on {
        let steady = (span - at(half)) / (simulated - half) as f64;
        span + (units - simulated as f64) * steady
    } else {
        span
    };
    Ok(pass.outcome(&played, seconds, units, simulated))
}

/// Segments that a request of a drive holds in its CMB.
fn segments_held(platform: &Platform, method: Method, drives: u64) -> u64 {
    match method {
        Method::Host | Method::Aggregate => 1,
        Method::Stripe => platform.drives_per_node.unwrap_or(drives).min(drives),
    }
}

/// Requests that a drive can have in progress: those whose segments fit into its CMB.
fn slots(platform: &Platform, method: Method, drives: u64) -> u64 {
    let bytes = segments_held(platform, method, drives) * platform.segment;
    platform.requests.min(platform.cmb / bytes.max(1))
}

fn checked(platform: &Platform, method: Method, drives: u64) -> Result<(), PlatformError> {
    let p = platform;
    let rates = [
        ("segment", p.segment),
        ("parity", p.parity),
        ("batch", p.batch),
        ("medium", p.medium),
        ("pcie", p.pcie),
        ("engine", p.engine),
        ("requests", p.requests),
        ("drives_per_node", p.drives_per_node.unwrap_or(1)),
        ("network", p.network),
        ("host_network", p.host_network),
        ("memory", p.memory),
        ("threads", p.threads),
    ];
    if let Some((name, _)) = rates.into_iter().find(|(_, value)| *value == 0) {
        return Err(PlatformError::Zero(name));
    }
    if drives < 2 {
        return Err(PlatformError::Drives(drives));
    }
    if p.segment > p.drive_bytes {
        return Err(PlatformError::Segment { segment: p.segment, drive: p.drive_bytes });
    }
    if method != Method::Host && slots(p, method, drives) == 0 {
        let held = segments_held(p, method, drives);
        return Err(PlatformError::Cmb { cmb: p.cmb, drives: held, segment: p.segment });
    }
    Ok(())
}

fn task(work: Work, waits_for: u32) -> Task {
    Task { work, waits_for, takes: None, gives: None, then: Vec::new() }
}

impl<'a> Pass<'a> {
    fn new(platform: &'a Platform, method: Method, count: u64) -> Self {
        let p = platform;
        let mut machine = Machine::new(p.threads, p.memory);
        let nodes = p.nodes(count);
        let slots = slots(p, method, count);
        let mut members = vec![Vec::new(); nodes as usize];
        let drives = (0..count).map(|drive| {
            let node = (drive / p.drives_per_node.unwrap_or(count)) as usize;
            members[node].push(drive as usize);
            DriveParts {
                node,
                medium: machine.line(p.medium, p.medium_latency_ns),
                out: machine.line(p.pcie, 0),
                into: machine.line(p.pcie, 0),
                engine: machine.line(p.engine, 0),
                slots: machine.slots(slots),
            }
        });
        let drives = drives.collect();
        let mut port = || machine.line(p.network, p.network_latency_ns);
        let ports = (0..nodes).map(|_| (port(), port())).collect();
        let host_port = machine.line(p.host_network, 0);
        Self { platform, method, machine, drives, members, ports, host_port }
    }

    /// Plays so many units. If the pass `goes_on` after them, others are begun as they end, so that
    /// the
    /// last ones do not have the machine for themselves.
    fn play(&mut self, units: u64, goes_on: bool, unit_stripes: u64) -> Played {
        let each = match self.method {
            Method::Aggregate => 1,
            Method::Host | Method::Stripe => self.drives.len() as u64 + self.platform.threads,
        };
        let ahead = AHEAD * each;
        let most = if goes_on { units + ahead } else { units };
        let mut played = Played { ends: Vec::new(), begun: 0, busy: Vec::new() };
        let mut last = BTreeSet::new();
        while played.begun < most.min(ahead) {
            last.insert(self.unit(played.begun, unit_stripes));
            played.begun += 1;
        }
        // To the end of all that was begun: bytes are counted by whole units.
        while let Some(step) = self.machine.step() {
            let Step::Ended(task) = step else { continue };
            if !last.remove(&task) {
                continue;
            }
            played.ends.push(self.machine.now());
            if played.ends.len() as u64 == units {
                played.busy = self.machine.busy();
            }
            if played.begun < most && (played.ends.len() as u64) < units {
                last.insert(self.unit(played.begun, unit_stripes));
                played.begun += 1;
            }
        }
        played
    }

    /// Starts a unit of work. Returns the task with which it ends.
    fn unit(&mut self, number: u64, stripes: u64) -> TaskId {
        match self.method {
            Method::Host => self.by_host(),
            Method::Stripe => self.by_stripe(number),
            Method::Aggregate => self.by_batch(number, stripes),
        }
    }

    fn by_host(&mut self) -> TaskId {
        let p = self.platform;
        let count = self.drives.len() as f64;
        let cost = (p.thread_per_stripe_ns + count * p.thread_per_segment_ns) as Nanos;
        let memory = (count * p.segment as f64 * p.memory_per_byte) as u64;
        let fold = self.machine.task(task(Work::Thread { cost, memory }, self.drives.len() as u32));
        for drive in self.drives.clone() {
            let mut lines = vec![drive.medium, drive.out];
            if p.drives_per_node.is_some() {
                lines.extend([self.ports[drive.node].0, self.host_port]);
            }
            self.read(lines, p.segment, fold, None);
        }
        fold
    }

    fn read(&mut self, lines: Vec<LineId>, bytes: u64, then: TaskId, after: Option<&mut Vec<TaskId>>) {
        let work = Work::Route { lines, bytes };
        let waits_for = u32::from(after.is_some());
        let read = self.machine.task(Task { then: vec![then], ..task(work, waits_for) });
        match after {
            Some(list) => list.push(read),
            None => self.machine.start(read),
        }
    }

    /// The host's work to issue a unit: a task that has not been started.
    fn issue(&mut self, segments: u64, then: Vec<TaskId>) -> TaskId {
        let cost = self.platform.thread_per_stripe_ns as Nanos;
        let memory = (segments as f64 * self.platform.memory_per_segment_offloaded) as u64;
        self.machine.task(Task { then, ..task(Work::Thread { cost, memory }, 0) })
    }

    fn by_stripe(&mut self, number: u64) -> TaskId {
        let p = self.platform;
        let interim = p.parity * p.segment;
        let nodes = self.members.len();
        let homes: Vec<usize> =
            self.members.iter().map(|m| m[((number / nodes as u64) % m.len() as u64) as usize]).collect();
        let last = homes[(number % nodes as u64) as usize];
        // With one node its fold is the last task. With more, the interims are folded after it.
        let total = (nodes > 1).then(|| {
            let work = Work::Route { lines: vec![self.drives[last].engine], bytes: interim * nodes as u64 };
            self.machine.task(task(work, nodes as u32))
        });
        let mut starts = Vec::new();
        let mut folds = Vec::new();
        for &home in &homes {
            let (node, at) = (self.drives[home].node, self.drives[home]);
            let members = self.members[node].clone();
            let bytes = members.len() as u64 * p.segment;
            let then = total.map(|total| self.interim(home, last, total)).into_iter().collect();
            let work = Work::Route { lines: vec![at.engine], bytes };
            let fold = Task { gives: Some(at.slots), then, ..task(work, members.len() as u32) };
            let fold = self.machine.task(fold);
            folds.push(fold);
            let mut reads = Vec::new();
            for member in members {
                let from = self.drives[member];
                let lines =
                    if member == home { vec![from.medium] } else { vec![from.medium, from.out, at.into] };
                self.read(lines, p.segment, fold, Some(&mut reads));
            }
            let takes = Task { takes: Some(at.slots), then: reads, ..task(Work::Nothing, 1) };
            starts.push(self.machine.task(takes));
        }
        let issue = self.issue(self.drives.len() as u64, starts);
        self.machine.start(issue);
        total.unwrap_or(folds[0])
    }

    /// A task that takes a drive's interim to the drive `last`: nothing if that is the same one.
    fn interim(&mut self, from: usize, last: usize, then: TaskId) -> TaskId {
        let (a, b) = (self.drives[from], self.drives[last]);
        let work = if from == last {
            Work::Nothing
        } else {
            let mut lines = vec![a.out];
            if a.node != b.node {
                lines.extend([self.ports[a.node].0, self.ports[b.node].1]);
            }
            lines.push(b.into);
            Work::Route { lines, bytes: self.platform.parity * self.platform.segment }
        };
        self.machine.task(Task { then: vec![then], ..task(work, 1) })
    }

    fn by_batch(&mut self, number: u64, stripes: u64) -> TaskId {
        let p = self.platform;
        let count = self.drives.len();
        let last = (number % count as u64) as usize;
        let bytes = p.parity * p.segment * count as u64;
        let work = Work::Route { lines: vec![self.drives[last].engine], bytes };
        let total = self.machine.task(task(work, count as u32));
        let mut starts = Vec::new();
        for (number, drive) in self.drives.clone().into_iter().enumerate() {
            let interim = self.interim(number, last, total);
            let own = self.machine.task(Task { then: vec![interim], ..task(Work::Nothing, stripes as u32) });
            for _ in 0..stripes {
                let fold = Work::Route { lines: vec![drive.engine], bytes: p.segment };
                let fold = Task { gives: Some(drive.slots), then: vec![own], ..task(fold, 1) };
                let fold = self.machine.task(fold);
                let read = Work::Route { lines: vec![drive.medium], bytes: p.segment };
                let read = Task { takes: Some(drive.slots), then: vec![fold], ..task(read, 1) };
                starts.push(self.machine.task(read));
            }
        }
        let issue = self.issue(stripes * count as u64, starts);
        self.machine.start(issue);
        total
    }

    /// The figures of the whole pass, from the simulated part of it.
    fn outcome(&self, played: &Played, seconds: f64, units: f64, simulated: u64) -> Outcome {
        let machine = &self.machine;
        let span = played.ends.get(simulated as usize - 1).map_or(1.0, |end| *end as f64 / 1e9);
        let sum =
            |lines: &mut dyn Iterator<Item = LineId>| lines.map(|l| machine.line_at(l).bytes).sum::<u64>();
        let whole = units / played.begun as f64;
        let busiest = |name, lines: &mut dyn Iterator<Item = LineId>| {
            let most = lines.map(|l| played.busy[l.number()]).max().unwrap_or(0);
            (name, most as f64 / 1e9 / span)
        };
        let threads = machine.threads_busy as f64 / 1e9 * whole / seconds;
        let of = |part: fn(&DriveParts) -> LineId| self.drives.iter().map(part);
        let loads = [
            busiest("medium", &mut of(|d| d.medium)),
            busiest("pcie", &mut of(|d| d.out).chain(of(|d| d.into))),
            busiest("engine", &mut of(|d| d.engine)),
            busiest("network", &mut self.ports.iter().flat_map(|p| [p.0, p.1])),
            busiest("host network", &mut std::iter::once(self.host_port)),
            // A thread that waits for memory is busy: with one thread memory is named first.
            busiest("memory", &mut std::iter::once(machine.memory())),
            ("threads", threads / self.platform.threads as f64),
        ];
        let (mut limit, mut limit_load) = loads[0];
        for (name, load) in loads {
            if load > limit_load * 1.005 {
                (limit, limit_load) = (name, load);
            }
        }
        let drives = self.drives.len() as u64;
        let checked = self.platform.drive_bytes as f64 * drives as f64;
        Outcome {
            method: self.method,
            drives,
            seconds,
            checked_per_s: checked / seconds,
            pcie_bytes: sum(&mut of(|d| d.out)) as f64 * whole,
            network_bytes: sum(&mut self.ports.iter().map(|p| p.0)) as f64 * whole,
            memory_per_s: sum(&mut std::iter::once(machine.memory())) as f64 * whole / seconds,
            threads_busy: threads,
            limit,
            limit_load,
            simulated,
        }
    }
}

#[cfg(test)]
mod tests;
