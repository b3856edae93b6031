//! The live pacer on drives that serve requests side by side: the goal is held by the true slowdown, and what the goal allows is used.

use pumice_pacer::{Charge, Config, Goal, Nanos, Pacer, Policy};
use pumice_sim::Drive;
use pumice_sim::live::{Background, Load, Seen, play};

const MICRO: Nanos = 1_000;
const MILLI: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;

fn pacer(load: &Load, goal: Nanos) -> Pacer {
    let mut config = Config::new(Goal::mean(goal), Policy::Priced, load.drive.curve());
    assert_eq!(config.charge, Charge::Measured, "what a data node gets");
    config.learn_service = true;
    Pacer::new(config, 0)
}

fn paced(load: &Load, goal: Nanos) -> (Seen, Pacer) {
    let mut background = Background::Pacer(Box::new(pacer(load, goal)));
    let seen = play(load, &mut background);
    let Background::Pacer(pacer) = background else { unreachable!("it comes back") };
    (seen, *pacer)
}

/// The most bytes of 64 KiB requests at a fixed rate that slow the foreground by no more than `slowdown`.
fn fixed(load: &Load, alone: f64, slowdown: f64) -> (u64, f64) {
    let (mut low, mut high) = ((1e4_f64).ln(), (1e11_f64).ln());
    let mut best = (0, 0.0);
    for _ in 0..14 {
        let every = f64::midpoint(low, high);
        let seen = play(load, &mut Background::Fixed(64 << 10, every.exp() as Nanos));
        if seen.mean - alone <= slowdown {
            best = if seen.bytes >= best.0 { (seen.bytes, seen.mean - alone) } else { best };
            high = every;
        } else {
            low = every;
        }
    }
    best
}

fn report(name: &str, load: &Load, goal: Nanos) -> (f64, f64) {
    let alone = play(load, &mut Background::None);
    let (seen, pacer) = paced(load, goal);
    let slowdown = seen.mean - alone.mean;
    let (bytes, fixed_slowdown) = fixed(load, alone.mean, slowdown.max(0.0));
    let (clear, met) = pacer.latencies();
    let mb = |b: u64| b as f64 / 1e6 / (load.span as f64 / 1e9);
    println!(
        "{name:24} alone {:8.1} us {:8} req; goal {:6.0} slowed {:8.1} believed {:8.1} us; {:8.2} MB/s, fixed {:8.2} @ {:6.1}; clear {} met {} p99 {:.0}/{:.0}; size {:.0} KiB",
        alone.mean / 1e3,
        alone.requests,
        goal as f64 / 1e3,
        slowdown / 1e3,
        pacer.figures().mean_slowdown() / 1e3,
        mb(seen.bytes),
        mb(bytes),
        fixed_slowdown / 1e3,
        clear.count(),
        met.count(),
        clear.quantile(0.99) as f64 / 1e3,
        met.quantile(0.99) as f64 / 1e3,
        pacer.figures().total_bytes() as f64 / 1024.0 / pacer.figures().background.max(1) as f64,
    );
    (slowdown / goal as f64, seen.bytes as f64 / bytes.max(1) as f64)
}

fn nvme(clients: u32) -> Load {
    Load {
        drive: Drive::Nvme,
        clients,
        bytes: 4 << 10,
        think: 0,
        on: SECOND,
        off: 0,
        span: 2 * SECOND,
        seed: 7,
    }
}

#[test]
fn explore() {
    for clients in [1, 8, 32] {
        for goal in [50 * MICRO, 200 * MICRO, MILLI] {
            report(&format!("nvme {clients}"), &nvme(clients), goal);
        }
    }
    for goal in [50 * MICRO, 200 * MICRO, MILLI] {
        let load = Load { on: 500 * MILLI, off: 500 * MILLI, span: 10 * SECOND, ..nvme(8) };
        report("nvme bursty", &load, goal);
    }
    for (clients, think) in [(1, 0), (8, 0), (32, 0), (1, 50 * MILLI), (8, 100 * MILLI)] {
        for goal in [50 * MICRO, 200 * MICRO, MILLI, 4 * MILLI] {
            let load = Load { drive: Drive::Ultrastar, think, span: 600 * SECOND, ..nvme(clients) };
            report(&format!("disk {clients} {}", think / MILLI), &load, goal);
        }
    }
}
