//! `pumice-lab bench pace`: how much a paced scrub slows the foreground, and how fast it reads,
//! compared with a scrub at a fixed rate.
//!
//! Clients of our own keep the node busy, steadily or by turns. Their mean response without any
//! scrub is measured before and after each scrub, so that a drift of the machine does not count as
//! slowdown. The paced scrub comes first. Then a bisection finds the highest fixed rate that slows
//! the clients no more than the paced scrub did.

mod human;

use clap::{Args, ValueEnum};
use pumice::bench::load::connect;
use pumice::text::{print, print_json};
use pumice_base::units::parse_duration;
use pumice_nvme::spec::Sqe;
use pumice_nvme::spec::identify::Namespace;
use pumice_nvme::spec::opcode::io;
use pumice_offload::{
    Mode, NodeError, PaceFigures, PacePolicy, PaceRequest, Paced, ParityCommand, ParityEngine, Rule, Source,
    Window,
};
use pumice_parity::seed::Seed;
use pumice_remote::RemoteNode;
use pumice_remote::initiator::{Controller, DigestPolicy, Queue};
use pumice_service::failure::Failure;
use pumice_service::place::RemotePlace;
use pumice_service::remote;
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Measures how much scrubs of a node's drives slow other users: a paced scrub, and a scrub at the
/// fixed rate that slows them equally. Reads only.
#[derive(Debug, Args)]
pub(crate) struct PaceArgs {
    /// HOST:PORT
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Largest mean slowdown of a foreground request
    #[arg(long, default_value = "1ms", value_parser = parse_duration)]
    slowdown: u64,
    /// Clients, each with its own queue and one request in progress
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=16))]
    clients: u16,
    /// Mean pause between a client's requests
    #[arg(long, default_value = "2ms", value_parser = parse_duration)]
    think: u64,
    /// Time for which clients of the bursty load work
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    on: u64,
    /// Time for which they rest
    #[arg(long, default_value = "4s", value_parser = parse_duration)]
    off: u64,
    /// Seconds of each measurement; there are about twenty of each load
    #[arg(long, default_value_t = 18.0)]
    seconds: f64,
    /// Only these loads
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Load::Steady, Load::Bursty])]
    load: Vec<Load>,
    /// Leave out the scrubs at fixed rates
    #[arg(long)]
    no_fixed: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Load {
    /// Clients that never rest
    Steady,
    /// Clients that work and rest in turn
    Bursty,
}

#[derive(Debug, Serialize)]
struct Document {
    goal_ms: f64,
    loads: Vec<LoadCase>,
}

#[derive(Debug, Serialize)]
struct LoadCase {
    load: &'static str,
    foreground_per_s: f64,
    clear_mean_ms: f64,
    paced: Measured,
    /// The fixed rate that slows the foreground no more than the paced scrub.
    fixed: Option<Measured>,
    ratio_to_fixed: Option<f64>,
    /// Seconds after the clients fell silent until the scrub ran at four fifths of its speed on an
    /// idle drive, at most. Bursty only.
    full_speed_after_s: Option<f64>,
    /// Longest time, in seconds, from the return of the clients until the scrub was slower than
    /// half of that. Bursty only.
    yields_after_s: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
struct Measured {
    /// The fixed rate asked for, in bytes a second from each drive; `None` without one.
    rate: Option<u64>,
    bytes_per_s: f64,
    mean_slowdown_ms: f64,
    p99_ms: f64,
    /// The mean slowdown as the node measures it, from a request's arrival there to its answer.
    node_slowdown_ms: Option<f64>,
}

/// A chunk, md's default, and a batch of the commands that read.
const CHUNK: u32 = 512 << 10;
const BATCH: u64 = 256;
/// Interval at which the scrub's progress is written down.
const SAMPLE: Duration = Duration::from_millis(100);
/// Fixed rates that are tried, at most; the lowest, in bytes a second from each drive; and two that
/// are near enough to each other.
const RATES: u32 = 10;
const LEAST_RATE: f64 = 1e6;
const CLOSE: f64 = 1.1;

/// Times of the clients' work: nanoseconds on, and off (0 for always).
#[derive(Debug, Clone, Copy)]
struct Turns {
    on: u64,
    off: u64,
}

impl Turns {
    fn works(self, at: Duration) -> bool {
        let period = self.on + self.off;
        self.off == 0 || (at.as_nanos() as u64) % period < self.on
    }
}

/// The result of a run.
struct Run {
    /// Response times of the foreground, in nanoseconds.
    responses: Vec<u32>,
    seconds: f64,
    /// Background bytes in each stretch of [`SAMPLE`], all drives together.
    progress: Vec<u64>,
    /// The mean slowdown that the node itself measured, in milliseconds.
    by_node: Option<f64>,
}

impl Run {
    fn mean_ms(&self) -> f64 {
        let sum: f64 = self.responses.iter().map(|ns| f64::from(*ns)).sum();
        sum / (self.responses.len().max(1)) as f64 / 1e6
    }

    fn p99_ms(&self) -> f64 {
        let mut sorted = self.responses.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() * 99 / 100).map_or(0.0, |ns| f64::from(*ns) / 1e6)
    }

    fn bytes_per_s(&self) -> f64 {
        self.progress.iter().sum::<u64>() as f64 / self.seconds
    }
}

/// Runs the command.
pub(crate) fn run(args: &PaceArgs) -> Result<ExitCode, Failure> {
    if !(1.0..=600.0).contains(&args.seconds) {
        return Err(Failure::new(format!("--seconds is {}: 1 to 600", args.seconds)));
    }
    if args.slowdown == 0 {
        return Err(Failure::new("--slowdown is 0: it must be greater"));
    }
    let address = RemotePlace::parse(&args.address)?.address;
    let mut controller = connect(address, false)?;
    let node = remote::connect(address, DigestPolicy::Auto)?;
    let mut namespaces = Vec::new();
    for drive in node.drives() {
        namespaces
            .push(controller.namespace(drive.id.0)?.ok_or_else(|| Failure::new("a drive is no namespace"))?);
    }
    let bench = Bench { args, controller: &controller, node: &node, namespaces: &namespaces };
    let loads = args.load.iter().map(|load| match load {
        Load::Steady => bench.case("steady", Turns { on: 1, off: 0 }),
        Load::Bursty => bench.case("bursty", Turns { on: args.on.max(1), off: args.off.max(1) }),
    });
    let document = Document { goal_ms: args.slowdown as f64 / 1e6, loads: loads.collect::<Result<_, _>>()? };
    if args.json {
        print_json(&document);
    } else {
        print(&human::human(&document));
    }
    Ok(ExitCode::SUCCESS)
}

struct Bench<'a> {
    args: &'a PaceArgs,
    controller: &'a Controller,
    node: &'a RemoteNode,
    namespaces: &'a [Namespace],
}

impl Bench<'_> {
    fn case(&self, load: &'static str, turns: Turns) -> Result<LoadCase, Failure> {
        let goal = PaceRequest { slowdown_ns: Some(self.args.slowdown), ..PaceRequest::default() };
        let first = self.measure(turns, None)?;
        // What is learned at first is part of a long scrub, not of its cost later on.
        self.measure(turns, Some(&goal))?;
        let mut alone = self.measure(turns, None)?.mean_ms();
        let (paced, seen) = self.beside(turns, &goal, &mut alone)?;
        let fixed = if self.args.no_fixed { None } else { Some(self.fixed(turns, &paced, alone)?) };
        let follows = (turns.off > 0).then(|| self.follows(turns, &seen));
        Ok(LoadCase {
            load,
            foreground_per_s: first.responses.len() as f64 / first.seconds,
            clear_mean_ms: first.mean_ms(),
            ratio_to_fixed: fixed.as_ref().map(|fixed| paced.bytes_per_s / fixed.bytes_per_s.max(1.0)),
            paced,
            fixed,
            full_speed_after_s: follows.and_then(|(up, _)| up),
            yields_after_s: follows.and_then(|(_, down)| down),
        })
    }

    /// The highest fixed rate found that slows the clients no more than the paced scrub did: a
    /// factor of two at a time until it is between two rates, then by bisection.
    fn fixed(&self, turns: Turns, paced: &Measured, mut alone: f64) -> Result<Measured, Failure> {
        let target = paced.mean_slowdown_ms.max(0.0);
        let drives = self.namespaces.len() as f64;
        let mut at = |rate: f64| -> Result<Measured, Failure> {
            let request = PaceRequest {
                policy: Some(PacePolicy::BackToBack),
                rate: Some(rate as u64),
                ..PaceRequest::default()
            };
            let (measured, _) = self.beside(turns, &request, &mut alone)?;
            Ok(Measured { rate: Some(rate as u64), ..measured })
        };
        let mut best = Measured {
            rate: Some(0),
            bytes_per_s: 0.0,
            mean_slowdown_ms: 0.0,
            p99_ms: 0.0,
            node_slowdown_ms: None,
        };
        let (mut low, mut high) = (None::<f64>, None::<f64>);
        let mut rate = (paced.bytes_per_s / drives / 2.0).max(LEAST_RATE);
        for _ in 0..RATES {
            let measured = at(rate)?;
            // A rate that the drives do not reach is no limit: a higher one is the same.
            let unlimited = measured.bytes_per_s < 0.8 * rate * drives;
            if measured.mean_slowdown_ms > target {
                high = Some(rate);
            } else {
                low = Some(rate);
                if measured.bytes_per_s > best.bytes_per_s {
                    best = measured;
                }
                if unlimited {
                    break;
                }
            }
            rate = match (low, high) {
                (Some(low), Some(high)) if high < low * CLOSE => break,
                (Some(low), Some(high)) => (low * high).sqrt(),
                (_, None) => rate * 2.0,
                (None, Some(_)) if rate <= LEAST_RATE => break,
                (None, Some(_)) => (rate / 2.0).max(LEAST_RATE),
            };
        }
        Ok(best)
    }

    /// A run with a scrub, and one without after it; `alone` is the clients' mean response of the
    /// one before it, and then of the one after it, in milliseconds.
    fn beside(
        &self,
        turns: Turns,
        request: &PaceRequest,
        alone: &mut f64,
    ) -> Result<(Measured, Run), Failure> {
        let with = self.measure(turns, Some(request))?;
        let after = self.measure(turns, None)?.mean_ms();
        let before = std::mem::replace(alone, after);
        let measured = Measured {
            rate: None,
            bytes_per_s: with.bytes_per_s(),
            mean_slowdown_ms: with.mean_ms() - f64::midpoint(before, after),
            p99_ms: with.p99_ms(),
            node_slowdown_ms: with.by_node,
        };
        Ok((measured, with))
    }

    /// The worst times from a turn of the clients until the scrub has followed it.
    fn follows(&self, turns: Turns, seen: &Run) -> (Option<f64>, Option<f64>) {
        // The median, because a drive's own speed may double for a while.
        let rests = |i: usize| !turns.works(SAMPLE * i as u32);
        let mut resting: Vec<u64> =
            seen.progress.iter().enumerate().filter(|(i, _)| rests(*i)).map(|(_, bytes)| *bytes).collect();
        resting.sort_unstable();
        let full = resting.get(resting.len() / 2).copied().unwrap_or(0) as f64;
        // One sample says little: three together.
        let speed = |i: usize| {
            let part = &seen.progress[i..(i + 3).min(seen.progress.len())];
            part.iter().sum::<u64>() as f64 / part.len() as f64
        };
        let (mut up, mut down) = (None::<f64>, None::<f64>);
        for turn in 1..seen.progress.len() {
            let (was, is) = (turns.works(SAMPLE * (turn as u32 - 1)), turns.works(SAMPLE * turn as u32));
            let rest = turn..seen.progress.len().saturating_sub(3);
            if was && !is {
                let reached = rest.clone().find(|i| speed(*i) >= 0.8 * full).map(|i| (i - turn) as f64 * 0.1);
                up = longer(up, reached);
            } else if !was && is {
                let reached = rest.clone().find(|i| speed(*i) <= 0.5 * full).map(|i| (i - turn) as f64 * 0.1);
                down = longer(down, reached);
            }
        }
        (up, down)
    }

    /// Lets the clients work for the time of a measurement, with a scrub beside them if one is
    /// given.
    fn measure(&self, turns: Turns, request: Option<&PaceRequest>) -> Result<Run, Failure> {
        self.node.pace(request.unwrap_or(&PaceRequest::default()))?;
        let mut queues = Vec::new();
        for qid in 1..=self.args.clients {
            let mut queue = self.controller.queue(qid, 1)?;
            // As hosts are: they sleep until they are woken.
            queue.set_busy_poll(Duration::ZERO)?;
            queues.push(queue);
        }
        let (stop, failed) = (AtomicBool::new(false), Mutex::new(None::<Failure>));
        let fail = |failure: Failure| {
            let mut failed = failed.lock().expect("nobody panics with it");
            failed.get_or_insert(failure);
            stop.store(true, Ordering::Relaxed);
        };
        let began = Instant::now();
        let (mut responses, mut progress, mut by_node) = (Vec::new(), Vec::new(), None);
        std::thread::scope(|scope| {
            let clients: Vec<_> = queues
                .iter_mut()
                .enumerate()
                .map(|(i, queue)| {
                    let (stop, fail) = (&stop, &fail);
                    scope.spawn(move || {
                        self.client(i as u64, queue, turns, began, stop).unwrap_or_else(|failure| {
                            fail(failure);
                            Vec::new()
                        })
                    })
                })
                .collect();
            if request.is_some() {
                let (stop, fail) = (&stop, &fail);
                scope.spawn(move || {
                    if let Err(error) = self.scrub(stop) {
                        fail(Failure::from(error));
                    }
                });
            }
            let mut last = 0;
            while began.elapsed().as_secs_f64() < self.args.seconds && !stop.load(Ordering::Relaxed) {
                let next = SAMPLE * (progress.len() as u32 + 1);
                std::thread::sleep(next.saturating_sub(began.elapsed()));
                match self.node.pace_figures() {
                    Ok(figures) => {
                        let bytes = figures.iter().map(|drive| drive.bytes).sum::<u64>();
                        progress.push(bytes.saturating_sub(last));
                        last = bytes;
                        by_node = mean_slowdown(&figures).filter(|_| request.is_some());
                    }
                    Err(error) => fail(Failure::from(error)),
                }
            }
            stop.store(true, Ordering::Relaxed);
            for client in clients {
                responses.extend(client.join().expect("a client does not panic"));
            }
            // A scrub that waits for its turn is let go.
            if let Err(error) = self.node.pace(&PaceRequest::default()) {
                fail(Failure::from(error));
            }
        });
        let seconds = progress.len() as f64 * SAMPLE.as_secs_f64();
        match failed.into_inner().expect("nobody panics with it") {
            Some(failure) => Err(failure),
            None => Ok(Run { responses, seconds, progress, by_node }),
        }
    }

    /// Reads 4 KiB at random places, one after another, with pauses; response times in nanoseconds.
    fn client(
        &self,
        seed: u64,
        queue: &mut Queue,
        turns: Turns,
        began: Instant,
        stop: &AtomicBool,
    ) -> Result<Vec<u32>, Failure> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 88_172_645_463_325_252;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut buffer = vec![0; 4096];
        let mut responses = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            if !turns.works(began.elapsed()) {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            }
            let nsid = next() as usize % self.namespaces.len();
            let namespace = &self.namespaces[nsid];
            let blocks = 4096_u32 >> namespace.format.shift();
            let mut sqe = Sqe::new(io::READ, nsid as u32 + 1);
            sqe.set_blocks(next() % (namespace.blocks / u64::from(blocks)) * u64::from(blocks), blocks);
            let asked = Instant::now();
            let done = queue.execute(sqe, &[], &mut buffer)?;
            if !done.status.is_success() {
                return Err(Failure::new(format!("the node failed a read: {}", done.status)));
            }
            responses.push(u32::try_from(asked.elapsed().as_nanos()).unwrap_or(u32::MAX));
            // An exponential pause: -ln(1 - u) of the mean.
            let uniform = (next() >> 11) as f64 / (1_u64 << 53) as f64;
            std::thread::sleep(Duration::from_nanos((-(1.0 - uniform).ln() * self.args.think as f64) as u64));
        }
        Ok(responses)
    }

    /// Reads all drives from the first byte to the last, again and again, as a scrub would: what
    /// the sums come to does not matter.
    fn scrub(&self, stop: &AtomicBool) -> Result<(), NodeError> {
        let drives = self.node.drives();
        let smallest = drives.iter().map(|drive| drive.size_bytes).min().unwrap_or(0);
        let stripes = smallest / u64::from(CHUNK);
        let mut first = 0;
        while !stop.load(Ordering::Relaxed) {
            let end = (first + BATCH).min(stripes);
            self.node.parity(&ParityCommand {
                unpaced: false,
                sources: drives.iter().map(|drive| Source::Media { drive: drive.id, base: 0 }).collect(),
                chunk: CHUNK,
                window: Window { start: 0, len: CHUNK },
                stripes: first..end,
                rule: Rule::sum(drives.len()),
                mode: Mode::Fingerprint { seed: Seed::from_number(1), powers: 2 },
            })?;
            first = if end == stripes { 0 } else { end };
        }
        Ok(())
    }
}

/// The mean slowdown of all foreground requests that the node's pacers have seen, in milliseconds.
fn mean_slowdown(figures: &[PaceFigures]) -> Option<f64> {
    let requests: u64 = figures.iter().map(|drive| drive.foreground).sum();
    let sum: f64 = figures.iter().map(|drive| drive.slowdown_mean_ns as f64 * drive.foreground as f64).sum();
    (requests > 0).then(|| sum / requests as f64 / 1e6)
}

/// The longer of two times that are known.
fn longer(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}
