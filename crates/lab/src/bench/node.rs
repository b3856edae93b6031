//! `pumice-lab bench node`: a load generator over the host library.

mod beside;

use clap::Args;
use pumice::bench::load::{Latency, Shape, check_seconds, connect, drive, load};
use pumice::bench::median;
use pumice::text::{print, print_json, table};
use pumice_nvme::spec::identify::Namespace;
use pumice_remote::initiator::{BusyPoll, Controller, PollingStream};
use pumice_remote::transport::prepare;
use pumice_service::failure::Failure;
use pumice_service::place::RemotePlace;
use pumice_service::remote::DEADLINE;
use serde::Serialize;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Loads one namespace of a node with reads and writes of several sizes and depths. Shows rates and
/// latencies, beside those of a bare echo of messages of the same sizes over loopback. Writes
/// destroy data on the drive, so they need --write.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// HOST:PORT
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// The drive
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    nsid: u32,
    /// Measure writes too. Destroys the data on the drive
    #[arg(long)]
    write: bool,
    /// With --write: only writes, each of them durable before it is answered (FUA)
    #[arg(long, requires = "write")]
    fua: bool,
    /// Header and data digests
    #[arg(long)]
    digests: bool,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds, of which the median is shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=999))]
    rounds: u32,
    /// The node's process, on this machine: also show its processor time for a command
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Another drive of the same node, such as the same without tags: the two are loaded in turn,
    /// and compared pair by pair. Without the echo, and with at least 32 commands in flight
    #[arg(long, value_name = "NSID", value_parser = clap::value_parser!(u32).range(1..))]
    beside: Option<u32>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    cases: Vec<Case>,
}

#[derive(Debug, Serialize)]
struct Case {
    io: &'static str,
    block_bytes: u32,
    queue_depth: u16,
    iops: f64,
    gb_per_s: f64,
    /// Commands a second over round trips a second of a bare echo, median of the rounds' own
    /// ratios.
    ratio_to_echo: f64,
    /// Processor time of the node for a command, in nanoseconds, median; with `--pid`. It contains
    /// the time in which the node looks for work.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_cpu_ns: Option<f64>,
    latency_us: Latency,
}

/// Cases to measure: name, whether it writes, whether places are random, bytes, depth.
const CASES: [(&str, bool, bool, u32, u16); 10] = [
    ("random read", false, true, 4096, 1),
    ("random read", false, true, 4096, 32),
    ("random read", false, true, 4096, 127),
    ("random write", true, true, 4096, 1),
    ("random write", true, true, 4096, 32),
    ("random write", true, true, 4096, 127),
    ("sequential read", false, false, 131_072, 1),
    ("sequential read", false, false, 131_072, 32),
    ("sequential write", true, false, 131_072, 1),
    ("sequential write", true, false, 131_072, 32),
];

/// Runs the command.
pub(crate) fn run(args: &NodeArgs) -> Result<ExitCode, Failure> {
    check_seconds(args.seconds)?;
    let address = RemotePlace::parse(&args.address)?.address;
    let mut controller = connect(address, args.digests)?;
    let namespace = drive(&mut controller, "--nsid", args.nsid)?;
    if let Some(nsid) = args.beside {
        let drives = [(args.nsid, namespace), (nsid, drive(&mut controller, "--beside", nsid)?)];
        return beside::run(args, &controller, &drives);
    }
    let mut cases = Vec::new();
    for (io, shape) in shapes(args) {
        cases.push(measure(args, &controller, &namespace, io, &shape)?);
    }
    let document = Document { cases };
    if args.json {
        print_json(&document);
    } else {
        print(&human(&document));
    }
    Ok(ExitCode::SUCCESS)
}

/// Cases that the arguments ask for.
fn shapes(args: &NodeArgs) -> impl Iterator<Item = (&'static str, Shape)> {
    let asked = move |writes: bool| if writes { args.write } else { !args.fua };
    CASES.into_iter().filter(move |case| asked(case.1)).map(move |(io, writes, random, bytes, depth)| {
        let io = match (io, args.fua) {
            ("random write", true) => "random write, FUA",
            ("sequential write", true) => "sequential write, FUA",
            _ => io,
        };
        (io, Shape { writes, fua: args.fua, random, bytes, depth })
    })
}

fn measure(
    args: &NodeArgs,
    controller: &Controller,
    namespace: &Namespace,
    io: &'static str,
    shape: &Shape,
) -> Result<Case, Failure> {
    let (mut rates, mut ratios, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
    let mut times = Vec::new();
    for _ in 0..args.rounds {
        let mut queue = controller.queue(1, shape.depth)?;
        let before = args.pid.map(process_ns).transpose()?;
        let (rate, mut took) = load(&mut queue, (args.nsid, namespace), shape, args.seconds)?;
        drop(queue);
        if let (Some(pid), Some(before)) = (args.pid, before) {
            times.push(process_ns(pid)?.saturating_sub(before) as f64 / took.len().max(1) as f64);
        }
        rates.push(rate);
        ratios.push(rate / echo(shape, args.seconds)?);
        latencies.append(&mut took);
    }
    let iops = median(rates);
    Ok(Case {
        io,
        block_bytes: shape.bytes,
        queue_depth: shape.depth,
        iops,
        gb_per_s: iops * f64::from(shape.bytes) / 1e9,
        ratio_to_echo: median(ratios),
        node_cpu_ns: (!times.is_empty()).then(|| median(times)),
        latency_us: Latency::of(&mut latencies),
    })
}

/// Nanoseconds of processor time that the threads of a process have used.
fn process_ns(pid: u32) -> Result<u64, Failure> {
    let folder = format!("/proc/{pid}/task");
    let wrong = |error: std::io::Error| Failure::new(format!("--pid is {pid}: {error}"));
    let mut sum = 0;
    for thread in std::fs::read_dir(&folder).map_err(wrong)? {
        let text = std::fs::read_to_string(thread.map_err(wrong)?.path().join("schedstat"));
        // A thread may have ended.
        let Ok(text) = text else { continue };
        sum += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}

/// Round trips a second of messages of the same sizes, as many in flight, between two threads that
/// do nothing else.
fn echo(shape: &Shape, seconds: f64) -> Result<f64, Failure> {
    const CAPSULE: usize = 72;
    const COMPLETION: usize = 24;
    let bytes = shape.bytes as usize;
    let (ask, answer) =
        if shape.writes { (CAPSULE + bytes, COMPLETION) } else { (CAPSULE, COMPLETION + bytes) };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || -> std::io::Result<()> {
        let (stream, peer) = listener.accept()?;
        prepare(&stream, peer)?;
        let mut stream = PollingStream::new(stream, BusyPoll::USUAL);
        let mut buffer = vec![0; (256 << 10).max(ask)];
        let answers = vec![0; answer * 256];
        let mut pending = 0;
        loop {
            let n = stream.read(&mut buffer)?;
            if n == 0 {
                return Ok(());
            }
            pending += n;
            let mut whole = pending / ask;
            pending %= ask;
            while whole > 0 {
                let now = whole.min(256);
                stream.write_all(&answers[..now * answer])?;
                whole -= now;
            }
        }
    });
    let stream = TcpStream::connect(address)?;
    prepare(&stream, address)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let mut stream = PollingStream::new(stream, BusyPoll::USUAL);
    let asks = vec![0; ask * usize::from(shape.depth)];
    let mut buffer = vec![0; (256 << 10).max(answer)];
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(seconds);
    let (mut in_flight, mut pending, mut done) = (usize::from(shape.depth), 0, 0_u64);
    stream.write_all(&asks)?;
    while in_flight > 0 {
        pending += stream.read(&mut buffer)?;
        let whole = pending / answer;
        pending %= answer;
        done += whole as u64;
        in_flight -= whole;
        if Instant::now() < end {
            stream.write_all(&asks[..whole * ask])?;
            in_flight += whole;
        }
    }
    let rate = done as f64 / began.elapsed().as_secs_f64();
    drop(stream);
    server.join().map_err(|_| Failure::new("the echo's thread panicked"))??;
    Ok(rate)
}

fn human(document: &Document) -> String {
    let mut rows = vec![
        [
            "",
            "bytes",
            "depth",
            "commands/s",
            "GB/s",
            "of a bare echo",
            "node CPU ns",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "max us",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for case in &document.cases {
        let latency = &case.latency_us;
        rows.push(vec![
            case.io.to_owned(),
            case.block_bytes.to_string(),
            case.queue_depth.to_string(),
            format!("{:.0}", case.iops),
            format!("{:.2}", case.gb_per_s),
            format!("{:.0} %", case.ratio_to_echo * 100.0),
            case.node_cpu_ns.map_or_else(String::new, |ns| format!("{ns:.0}")),
            format!("{:.1}", latency.p50),
            format!("{:.1}", latency.p99),
            format!("{:.1}", latency.p999),
            format!("{:.1}", latency.max),
        ]);
    }
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_and_a_process_that_is_not_there_is_named() {
        let before = process_ns(std::process::id()).unwrap();
        let began = pumice::system::thread_seconds();
        while pumice::system::thread_seconds() - began < 0.02 {
            std::hint::spin_loop();
        }
        assert!(process_ns(std::process::id()).unwrap() >= before + 10_000_000);
        // Above the largest process id of Linux.
        assert!(process_ns(u32::MAX).unwrap_err().to_string().contains("--pid"));
    }
}
