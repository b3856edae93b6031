//! Two drives of a node in turn: what one costs beside the other.

use super::{Failure, Namespace, NodeArgs, Shape, load, process_ns, shapes};
use pumice::text::{print, print_json, table};
use pumice_remote::initiator::{Controller, Queue};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;

/// The least depth: below it a node mostly waits.
const DEPTH: u16 = 32;
/// Time in which an idle node goes to sleep, so that its CPU time is complete.
const REST: Duration = Duration::from_millis(1);

#[derive(Debug, Serialize)]
struct Document {
    nsid: u32,
    beside: u32,
    cases: Vec<Case>,
}

#[derive(Debug, Serialize)]
struct Case {
    io: &'static str,
    block_bytes: u32,
    queue_depth: u16,
    /// Commands a second, medians.
    iops: f64,
    iops_beside: f64,
    /// Of the rounds' own ratios of `iops` to `iops_beside`.
    ratio: Quartiles,
    /// With `--pid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_cpu_ns: Option<Times>,
}

/// Processor time of the node for a command, in nanoseconds. It contains the time in which the node
/// looks for work.
#[derive(Debug, Serialize)]
struct Times {
    /// Medians.
    each: f64,
    beside: f64,
    /// Of the rounds' own differences.
    added: Quartiles,
    /// Least of all rounds less least of all rounds beside.
    added_to_least: f64,
}

#[derive(Debug, Serialize, Clone, Copy)]
struct Quartiles {
    lower: f64,
    median: f64,
    upper: f64,
}

impl Quartiles {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = |quarter: usize| {
            let (place, part) = ((values.len() - 1) * quarter / 4, (values.len() - 1) * quarter % 4);
            let next = values[(place + 1).min(values.len() - 1)];
            values[place] + (next - values[place]) * part as f64 / 4.0
        };
        Self { lower: at(1), median: at(2), upper: at(3) }
    }
}

/// Commands a second and, if it is asked for, processor time of the node for each.
struct Turn {
    rate: f64,
    cpu: f64,
}

/// Runs the comparison: the first drive beside the second.
pub(super) fn run(
    args: &NodeArgs,
    controller: &Controller,
    drives: &[(u32, Namespace); 2],
) -> Result<ExitCode, Failure> {
    let mut cases = Vec::new();
    for (io, shape) in shapes(args).filter(|(_, shape)| shape.depth >= DEPTH) {
        let mut queue = controller.queue(1, shape.depth)?;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for round in 0..args.rounds {
            // Whoever comes second finds caches and clocks as the first left them.
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for which in order {
                let turn = turn(&mut queue, args, &drives[which], &shape)?;
                if which == 0 { first.push(turn) } else { second.push(turn) }
            }
        }
        cases.push(case(io, &shape, args.pid.is_some(), &first, &second));
    }
    let document = Document { nsid: drives[0].0, beside: drives[1].0, cases };
    if args.json {
        print_json(&document);
    } else {
        print(&human(&document));
    }
    Ok(ExitCode::SUCCESS)
}

fn turn(
    queue: &mut Queue,
    args: &NodeArgs,
    (nsid, namespace): &(u32, Namespace),
    shape: &Shape,
) -> Result<Turn, Failure> {
    let time = || {
        std::thread::sleep(REST);
        args.pid.map_or(Ok(0), process_ns)
    };
    let before = time()?;
    let (rate, took) = load(queue, (*nsid, namespace), shape, args.seconds)?;
    let cpu = time()?.saturating_sub(before) as f64 / took.len().max(1) as f64;
    Ok(Turn { rate, cpu })
}

fn case(io: &'static str, shape: &Shape, timed: bool, first: &[Turn], second: &[Turn]) -> Case {
    let pairs = || first.iter().zip(second);
    let median = |turns: &[Turn], of: fn(&Turn) -> f64| Quartiles::of(turns.iter().map(of)).median;
    let least = |turns: &[Turn]| turns.iter().map(|turn| turn.cpu).fold(f64::INFINITY, f64::min);
    Case {
        io,
        block_bytes: shape.bytes,
        queue_depth: shape.depth,
        iops: median(first, |turn| turn.rate),
        iops_beside: median(second, |turn| turn.rate),
        ratio: Quartiles::of(pairs().map(|(first, second)| first.rate / second.rate)),
        node_cpu_ns: timed.then(|| Times {
            each: median(first, |turn| turn.cpu),
            beside: median(second, |turn| turn.cpu),
            added: Quartiles::of(pairs().map(|(first, second)| first.cpu - second.cpu)),
            added_to_least: least(first) - least(second),
        }),
    }
}

fn human(document: &Document) -> String {
    let head = ["", "bytes", "depth", "commands/s", "beside", "ratio", "(quartiles)"];
    let timed = ["node CPU ns", "beside", "added", "(quartiles)", "to the least"];
    let with_times = document.cases.iter().any(|case| case.node_cpu_ns.is_some());
    let timed = if with_times { &timed[..] } else { &[] };
    let mut rows = vec![head.iter().chain(timed).map(|text| (*text).to_owned()).collect::<Vec<_>>()];
    for case in &document.cases {
        let Quartiles { lower, median, upper } = case.ratio;
        let mut row = vec![
            case.io.to_owned(),
            case.block_bytes.to_string(),
            case.queue_depth.to_string(),
            format!("{:.0}", case.iops),
            format!("{:.0}", case.iops_beside),
            format!("{median:.3}"),
            format!("{lower:.3} to {upper:.3}"),
        ];
        if let Some(Times { each, beside, added, added_to_least }) = &case.node_cpu_ns {
            row.extend([
                format!("{each:.0}"),
                format!("{beside:.0}"),
                format!("{:+.0}", added.median),
                format!("{:+.0} to {:+.0}", added.lower, added.upper),
                format!("{added_to_least:+.0}"),
            ]);
        }
        rows.push(row);
    }
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_values() {
        let Quartiles { lower, median, upper } = Quartiles::of([4.0, 1.0, 2.0, 3.0].into_iter());
        assert_eq!((lower, median, upper), (1.75, 2.5, 3.25));
        let one = Quartiles::of([7.0].into_iter());
        assert_eq!((one.lower, one.median, one.upper), (7.0, 7.0, 7.0));
    }

    /// A machine that is twice as slow for a while changes both of a pair.
    #[test]
    fn pairs_are_compared_with_each_other() {
        let turns = |cpu: [f64; 3]| cpu.map(|cpu| Turn { rate: 1e9 / cpu, cpu });
        let shape = Shape { writes: false, fua: false, random: true, bytes: 4096, depth: 32 };
        let case = case(
            "random read",
            &shape,
            true,
            &turns([1100.0, 2100.0, 1120.0]),
            &turns([1000.0, 2000.0, 1000.0]),
        );
        let times = case.node_cpu_ns.unwrap();
        assert_eq!(times.added.median, 100.0);
        assert_eq!(times.added_to_least, 100.0);
        assert!((case.ratio.median - 1000.0 / 1100.0).abs() < 1e-9);
    }
}
