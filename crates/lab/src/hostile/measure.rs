//! One class of attack against a node with clients that verify, and what is measured meanwhile.

use crate::hostile::attacks::{Attackers, Class};
use crate::hostile::bound::{Load, bound};
use crate::hostile::good::{self, Good, Outcome};
use crate::hostile::many::Crowd;
use crate::hostile::node::{Node, TO_END};
use crate::hostile::{Failed, Options, say};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Largest ratio of the clients' waits with the attackers on their own node to those with the
/// attackers on another.
pub(crate) const RATIO: f64 = 5.0;
/// Longest time for one of their commands, also while attackers begin and end.
pub(crate) const LONGEST: Duration = Duration::from_secs(5);
/// Bytes of memory that a node may keep more after the last alternations than after the first.
const GROWTH: u64 = 64 << 20;
/// Descriptors that a node may have open beyond that.
const MORE_OPEN: u64 = 32;
/// Time for connections of attackers to come and go.
const SETTLE: Duration = Duration::from_millis(300);
/// Interval between the commands of a client that verifies.
pub(crate) const PERIOD: Duration = Duration::from_millis(1);

/// Measurements of one class.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) outcome: Outcome,
    /// Of each alternation: with the attackers on this node, and on another.
    pub(crate) pairs: Vec<[Measured; 2]>,
    /// Bytes that the node had resident after each alternation, without the attackers.
    pub(crate) kept: Vec<Option<u64>>,
    /// Descriptors that it had open then.
    pub(crate) open: Vec<Option<u64>>,
    pub(crate) largest: Option<u64>,
    pub(crate) bound: u64,
    /// Time in which the node ended, and the manner of its end.
    pub(crate) ended: Option<(Duration, String)>,
    pub(crate) breaches: Vec<String>,
    /// Reason for not doing it; `None` if it was done.
    pub(crate) skipped: Option<String>,
}

/// Result of one measurement.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    /// Of the commands of the clients; `None` if none came through.
    pub(crate) times: Option<Times>,
    /// Rounds of the attackers a second.
    pub(crate) rounds: f64,
    /// Attackers that made none.
    pub(crate) idle: usize,
}

/// Times of commands, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// 99 of 100 took no longer.
    pub(crate) p99: u64,
    pub(crate) longest: u64,
}

/// The value at the middle of several; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The times of commands, if there were any.
fn times(mut of: Vec<u64>) -> Option<Times> {
    of.sort_unstable();
    let longest = of.last().copied()?;
    Some(Times { p99: of[(of.len() * 99 / 100).min(of.len() - 1)], longest })
}

/// Memory that a node keeps after its last alternations in excess of that after its first: of
/// thirds, the least of the last and the most of the first, so that one look does not decide.
fn growth(kept: &[u64]) -> u64 {
    let third = kept.len() / 3;
    let first = kept[..third].iter().max().copied().unwrap_or(0);
    let last = kept[kept.len() - third..].iter().min().copied().unwrap_or(0);
    last.saturating_sub(first)
}

impl Row {
    /// The median of the quotients of both latencies; `None` where they were not measured.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let quotient =
            |[here, there]: &[Measured; 2]| Some(here.times?.p99 as f64 / there.times?.p99.max(1) as f64);
        let quotients: Vec<f64> = self.pairs.iter().filter_map(quotient).collect();
        (!quotients.is_empty()).then(|| median(quotients))
    }

    /// The bounds that were missed. In the short form latencies are not judged, because they are
    /// measured too seldom to mean something; nor whether each attacker had time for a round.
    pub(crate) fn faults(&self, full: bool) -> Vec<String> {
        let Outcome { verified, wrong, lost, refused, why } = &self.outcome;
        let mut faults = Vec::new();
        for (count, what) in
            [(wrong, "wrong reads"), (lost, "lost connections"), (refused, "failed commands")]
        {
            if *count != 0 {
                faults.push(format!("{count} {what} of clients that verify: {}", why.join("; ")));
            }
        }
        if *verified == 0 {
            faults.push("nothing was verified".to_owned());
        }
        if let Some(why) = self.skipped.as_ref().filter(|_| full) {
            faults.push(format!("it was not done: {why}"));
        }
        if let Some(ratio) = self.ratio().filter(|ratio| full && *ratio > RATIO) {
            faults.push(format!("latency {ratio:.1} times what it is elsewhere, more than {RATIO}"));
        }
        for (what, measured) in
            self.pairs.iter().flat_map(|[here, there]| [("its", here), ("the other", there)])
        {
            if measured.times.is_none() {
                faults.push(format!("with the attackers on {what} node, no command came through"));
            }
            if measured.rounds <= 0.0 {
                faults.push(format!("with the attackers on {what} node, they made no round"));
            } else if full && measured.idle > 0 {
                faults.push(format!("with the attackers on {what} node, {} made no round", measured.idle));
            }
        }
        let longest = self.pairs.iter().flatten().filter_map(|measured| Some(measured.times?.longest)).max();
        if let Some(longest) = longest.filter(|ns| full && u128::from(*ns) > LONGEST.as_nanos()) {
            faults.push(format!("a command took {:.1} s", longest as f64 / 1e9));
        }
        match self.largest {
            None => faults.push("its memory cannot be read".to_owned()),
            Some(largest) if largest > self.bound => {
                faults.push(format!("{} MiB resident, more than {}", largest >> 20, self.bound >> 20));
            }
            Some(_) => {}
        }
        let grown =
            |all: &[Option<u64>]| all.iter().copied().collect::<Option<Vec<u64>>>().map(|all| growth(&all));
        match grown(&self.kept) {
            None => faults.push("its memory cannot be read after each alternation".to_owned()),
            Some(more) if more > GROWTH => {
                faults.push(format!("it keeps {} MiB more than before", more >> 20));
            }
            Some(_) => {}
        }
        match grown(&self.open) {
            None => faults.push("its descriptors cannot be counted after each alternation".to_owned()),
            Some(more) if more > MORE_OPEN => faults.push(format!("{more} descriptors stay open")),
            Some(_) => {}
        }
        match &self.ended {
            None => faults.push("the node did not end on SIGTERM".to_owned()),
            Some((time, _)) if *time > TO_END => faults.push(format!("{:.1} s to end", time.as_secs_f64())),
            Some((_, status)) if status != "exit status: 0" => faults.push(status.clone()),
            Some(_) => {}
        }
        faults.extend(self.breaches.iter().map(|what| format!("breach: {what}")));
        faults
    }

    /// All of it as a JSON object.
    pub(crate) fn to_json(&self, full: bool) -> Value {
        let micros = |of: Option<u64>| of.map(|ns| ns as f64 / 1e3);
        let pair = |both: &[Measured; 2]| {
            json!({
                "p99_us": both.map(|one| micros(one.times.map(|times| times.p99))),
                "longest_us": both.map(|one| micros(one.times.map(|times| times.longest))),
                "rounds_per_second": both.map(|one| one.rounds),
            })
        };
        json!({
            "class": self.name,
            "verified": self.outcome.verified,
            "wrong": self.outcome.wrong,
            "lost": self.outcome.lost,
            "failed": self.outcome.refused,
            "alternations": self.pairs.iter().map(pair).collect::<Vec<_>>(),
            "latency_ratio": self.ratio(),
            "resident_bytes": self.largest,
            "kept_bytes": self.kept,
            "open_descriptors": self.open,
            "skipped": self.skipped,
            "resident_bound_bytes": self.bound,
            "seconds_to_end": self.ended.as_ref().map(|(time, _)| time.as_secs_f64()),
            "faults": self.faults(full),
        })
    }
}

/// Attacks a node for a while, or another one, and tells the latency of the clients and the
/// attackers' rate.
fn attack(
    class: &Class,
    on: &Node,
    good: &Good,
    time: Duration,
    breaches: &Arc<Mutex<Vec<String>>>,
) -> Measured {
    // What comes while attackers begin and end counts too.
    good.begin_measurement();
    let attackers = Attackers::start(class, &on.target, breaches);
    std::thread::sleep(time + time / 4);
    let rounds = attackers.stop();
    std::thread::sleep(SETTLE);
    Measured {
        times: times(good.take_latencies()),
        rounds: rounds.iter().sum::<u64>() as f64 / (time.as_secs_f64() * 1.25),
        idle: rounds.iter().filter(|rounds| **rounds == 0).count(),
    }
}

/// The fault in the end of a node that is asked to end, if there is one.
fn how_it_ended_badly(node: Node) -> Option<String> {
    match end_of(node) {
        None => Some("it did not end on SIGTERM".to_owned()),
        Some((time, status)) => {
            let good = time <= TO_END && status == "exit status: 0";
            (!good).then(|| format!("{status}, after {:.1} s", time.as_secs_f64()))
        }
    }
}

pub(crate) fn end_of(node: Node) -> Option<(Duration, String)> {
    let (time, status, said) = node.stop()?;
    let said = if status.success() { String::new() } else { format!(": {said}") };
    Some((time, format!("{status}{said}")))
}

/// Measures one class.
///
/// # Errors
/// Where nodes or clients do not start, or the node ends by itself.
pub(crate) fn measure(class: &Class, options: &Options, folder: &Path) -> Result<Row, Failed> {
    let mut node = Node::start(&options.binary, folder, &format!("{}-attacked", class.name), options.cores)?;
    let mut other = Node::start(&options.binary, folder, &format!("{}-other", class.name), options.cores)?;
    let good = Good::start(&node.target, PERIOD)?;
    let breaches = Arc::default();
    let (mut pairs, mut kept, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for alternation in 0..options.alternations {
        let mut pair = [Measured::default(); 2];
        // Which comes first changes, so that what changes on the machine meanwhile meets both.
        let order = if alternation % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            let on = [&node, &other][which];
            pair[which] = attack(class, on, &good, options.seconds, &breaches);
        }
        for node in [&mut node, &mut other] {
            if let Some(why) = node.has_ended() {
                return Err(Failed(format!("{}: a node ended: {why}", class.name)));
            }
        }
        pairs.push(pair);
        kept.push(node.resident());
        open.push(node.descriptors());
    }
    let attackers = Attackers::start(class, &node.target, &breaches);
    std::thread::sleep(options.seconds.min(Duration::from_secs(3)));
    let outcome = good.stop();
    let largest = node.largest();
    attackers.node_ends();
    let ended = end_of(node);
    attackers.stop();
    let mut breaches = breaches.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let hosts = u64::from(class.attackers) * class.hosts_each;
    let load = Load {
        hosts: hosts + u64::from(good::HOSTS),
        connections: hosts * 70 + 2000,
        queues: hosts * 64,
        cores: u64::from(options.cores),
        parity: class.parity,
    };
    let bound = bound(&load);
    // The other was attacked as much: its bounds are the same, and it has to end as well.
    let others = other.largest();
    if others.is_none_or(|largest| largest > bound) {
        breaches.push(format!("the other node: {others:?} bytes resident, bound {bound}"));
    }
    if let Some(why) = how_it_ended_badly(other) {
        breaches.push(format!("the other node: {why}"));
    }
    Ok(Row { name: class.name, outcome, pairs, kept, open, largest, bound, ended, breaches, skipped: None })
}

/// Measures a node with as many hostile connections as there may be.
///
/// # Errors
/// As [`measure`]; and if the connections cannot be made.
pub(crate) fn measure_crowd(options: &Options, folder: &Path) -> Result<Row, Failed> {
    let node = Node::start(&options.binary, folder, "crowd", options.cores)?;
    let good = Good::start(&node.target, PERIOD)?;
    let crowd = Crowd::gather(&node.target, options.connections.saturating_sub(good::CONNECTIONS))?;
    say(&format!("{} hostile connections, {} of them queues", crowd.connections(), crowd.queues()));
    std::thread::sleep(options.seconds);
    let (resident, open) = (node.resident(), node.descriptors());
    if let Some(resident) = resident {
        say(&format!("{} MiB resident with all of them", resident >> 20));
    }
    let outcome = good.stop();
    let largest = node.largest();
    let load = Load {
        hosts: 64,
        connections: options.connections as u64,
        queues: crowd.queues() as u64,
        cores: u64::from(options.cores),
        parity: false,
    };
    let ended = end_of(node);
    drop(crowd);
    Ok(Row {
        name: "crowd",
        outcome,
        pairs: Vec::new(),
        kept: vec![resident],
        open: vec![open],
        largest,
        bound: bound(&load),
        ended,
        breaches: Vec::new(),
        skipped: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_medians_are_those_of_the_values() {
        let of = |values: Vec<u64>| times(values).map(|times| (times.p99, times.longest));
        assert_eq!(of((1..=1000).rev().collect()), Some((991, 1000)));
        assert_eq!(of(vec![7]), Some((7, 7)));
        assert_eq!(of(Vec::new()), None, "no command came through");
        assert_eq!(growth(&[1, 9, 2, 5, 7, 12, 30, 11, 40]), 2, "11 at least, 9 at most");
        assert_eq!((growth(&[5, 50]), growth(&[])), (0, 0), "too few to tell");
        assert!((median(vec![9.0, 1.0, 5.0]) - 5.0).abs() < 1e-9);
    }

    fn measured(p99: u64) -> Measured {
        Measured { times: Some(Times { p99, longest: p99 }), rounds: 1.0, idle: 0 }
    }

    #[test]
    fn every_bound_that_is_missed_is_a_fault() {
        let good = || Row {
            name: "x",
            outcome: Outcome { verified: 1, ..Outcome::default() },
            pairs: vec![[measured(50), measured(10)]],
            kept: vec![Some(1 << 20), Some(1 << 20), Some((1 << 20) + GROWTH)],
            open: vec![Some(20), Some(500), Some(20 + MORE_OPEN)],
            largest: Some(1 << 20),
            bound: 1 << 20,
            ended: Some((TO_END, "exit status: 0".to_owned())),
            breaches: Vec::new(),
            skipped: None,
        };
        assert!(good().faults(true).is_empty());
        let bad: [fn(&mut Row); 21] = [
            |row| row.pairs[0][1].idle = 1,
            |row| row.open[2] = Some(21 + MORE_OPEN),
            |row| row.open[0] = None,
            |row| row.skipped = Some("no rights".to_owned()),
            |row| row.pairs[0][0].times = None,
            |row| row.pairs[0][1].times = None,
            |row| row.pairs[0][0].rounds = 0.0,
            |row| row.pairs[0][1].rounds = 0.0,
            |row| row.kept[2] = Some((1 << 20) + GROWTH + 1),
            |row| row.kept[1] = None,
            |row| row.largest = None,
            |row| row.pairs[0][0].times.as_mut().unwrap().longest = 5_000_000_001,
            |row| row.outcome.wrong = 1,
            |row| row.outcome.lost = 1,
            |row| row.outcome.refused = 1,
            |row| row.outcome.verified = 0,
            |row| row.pairs[0][0] = measured(51),
            |row| row.largest = Some((1 << 20) + 1),
            |row| row.ended = None,
            |row| row.ended = Some((TO_END, "exit status: 3".to_owned())),
            |row| row.breaches.push("memory".to_owned()),
        ];
        for (i, change) in bad.iter().enumerate() {
            let mut row = good();
            change(&mut row);
            assert_eq!(row.faults(true).len(), 1, "{i}");
        }
        let mut slow = good();
        slow.ended = Some((TO_END + Duration::from_millis(1), "exit status: 0".to_owned()));
        assert_eq!(slow.faults(true).len(), 1);
        slow = good();
        slow.pairs[0][0] = measured(500);
        slow.pairs[0][0].times.as_mut().unwrap().longest = u64::MAX;
        (slow.pairs[0][0].idle, slow.skipped) = (1, Some("no rights".to_owned()));
        assert!(slow.faults(false).is_empty(), "the short form judges no latency");
    }
}
