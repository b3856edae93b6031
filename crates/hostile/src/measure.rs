//! One class of attack against a node with clients that verify, and what is measured meanwhile.

use crate::attacks::{Attackers, Class};
use crate::bound::{Load, bound};
use crate::good::{Good, Outcome};
use crate::many::Crowd;
use crate::node::{Node, TO_END};
use crate::{Failed, Options, say};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What the clients may wait longer with the attackers on their own node than with them on another.
pub(crate) const RATIO: f64 = 5.0;
/// Time for connections of attackers to come and go.
const SETTLE: Duration = Duration::from_millis(300);
/// How often a client that verifies sends a command.
pub(crate) const PERIOD: Duration = Duration::from_millis(1);

/// What was measured of one class.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) outcome: Outcome,
    /// Of each alternation: 99 % latency in nanoseconds with the attackers on this node, and on
    /// another; and their rounds a second.
    pub(crate) pairs: Vec<[(u64, f64); 2]>,
    pub(crate) largest: u64,
    pub(crate) bound: u64,
    /// How long the node took to end, and how it ended.
    pub(crate) ended: Option<(Duration, String)>,
    pub(crate) breaches: Vec<String>,
}

/// The value at the middle of several; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The time that 99 of 100 commands did not take longer than.
fn percentile_99(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    // Of no command: none came through at all.
    times.get((times.len() * 99 / 100).min(times.len().saturating_sub(1))).copied().unwrap_or(u64::MAX)
}

impl Row {
    /// The median of the quotients of both latencies; `None` where they were not measured.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let quotient = |[here, there]: &[(u64, f64); 2]| here.0 as f64 / there.0.max(1) as f64;
        (!self.pairs.is_empty()).then(|| median(self.pairs.iter().map(quotient).collect()))
    }

    /// What missed its bound. The latency is judged only where it was measured often enough to mean
    /// something.
    pub(crate) fn faults(&self, judges_latency: bool) -> Vec<String> {
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
        if let Some(ratio) = self.ratio().filter(|ratio| judges_latency && *ratio > RATIO) {
            faults.push(format!("latency {ratio:.1} times what it is elsewhere, more than {RATIO}"));
        }
        if self.largest > self.bound {
            faults.push(format!("{} MiB resident, more than {}", self.largest >> 20, self.bound >> 20));
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
    pub(crate) fn to_json(&self, judges_latency: bool) -> Value {
        let pair = |[here, there]: &[(u64, f64); 2]| {
            json!({
                "p99_us": [here.0 as f64 / 1e3, there.0 as f64 / 1e3],
                "rounds_per_second": [here.1, there.1],
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
            "resident_bound_bytes": self.bound,
            "seconds_to_end": self.ended.as_ref().map(|(time, _)| time.as_secs_f64()),
            "faults": self.faults(judges_latency),
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
) -> (u64, f64) {
    let attackers = Attackers::start(class, &on.target, breaches);
    std::thread::sleep(time / 4);
    good.take_latencies();
    std::thread::sleep(time);
    let times = good.take_latencies();
    let rounds = attackers.stop() as f64 / (time.as_secs_f64() * 1.25);
    std::thread::sleep(SETTLE);
    (percentile_99(times), rounds)
}

pub(crate) fn ended(node: Node) -> Option<(Duration, String)> {
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
    let other = Node::start(&options.binary, folder, &format!("{}-other", class.name), options.cores)?;
    let good = Good::start(&node.target, PERIOD)?;
    let breaches = Arc::default();
    let mut pairs = Vec::new();
    for alternation in 0..options.alternations {
        let mut pair = [(0, 0.0); 2];
        // Which comes first changes, so that what changes on the machine meanwhile meets both.
        let order = if alternation % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            let on = [&node, &other][which];
            pair[which] = attack(class, on, &good, options.seconds, &breaches);
        }
        if let Some(why) = node.has_ended() {
            return Err(Failed(format!("{}: the node ended: {why}", class.name)));
        }
        pairs.push(pair);
    }
    let attackers = Attackers::start(class, &node.target, &breaches);
    std::thread::sleep(options.seconds.min(Duration::from_secs(3)));
    let outcome = good.stop();
    let largest = node.largest();
    let ended = ended(node);
    attackers.stop();
    let hosts = u64::from(class.attackers) * class.hosts_each;
    let load = Load {
        hosts: hosts + 2,
        connections: hosts * 70 + 2000,
        queues: hosts * 64,
        cores: u64::from(options.cores),
        parity: class.parity,
    };
    let breaches = breaches.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Row { name: class.name, outcome, pairs, largest, bound: bound(&load), ended, breaches })
}

/// Measures a node with as many hostile connections as there may be.
///
/// # Errors
/// As [`measure`]; and if the connections cannot be made.
pub(crate) fn measure_crowd(options: &Options, folder: &Path) -> Result<Row, Failed> {
    let node = Node::start(&options.binary, folder, "crowd", options.cores)?;
    let good = Good::start(&node.target, PERIOD)?;
    // The clients that verify have an admin queue and an I/O queue each.
    let crowd = Crowd::gather(&node.target, options.connections.saturating_sub(4))?;
    say(&format!("{} hostile connections, {} of them queues", crowd.connections(), crowd.queues()));
    std::thread::sleep(options.seconds);
    say(&format!("{} MiB resident with all of them", node.resident() >> 20));
    let outcome = good.stop();
    let largest = node.largest();
    let load = Load {
        hosts: 64,
        connections: options.connections as u64,
        queues: crowd.queues() as u64,
        cores: u64::from(options.cores),
        parity: false,
    };
    let ended = ended(node);
    drop(crowd);
    Ok(Row {
        name: "crowd",
        outcome,
        pairs: Vec::new(),
        largest,
        bound: bound(&load),
        ended,
        breaches: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_medians_are_those_of_the_values() {
        assert_eq!(percentile_99((1..=1000).rev().collect()), 991);
        assert_eq!(percentile_99(vec![7]), 7);
        assert_eq!(percentile_99(Vec::new()), u64::MAX, "no command came through");
        assert!((median(vec![9.0, 1.0, 5.0]) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn every_bound_that_is_missed_is_a_fault() {
        let good = || Row {
            name: "x",
            outcome: Outcome { verified: 1, ..Outcome::default() },
            pairs: vec![[(50, 1.0), (10, 1.0)]],
            largest: 1 << 20,
            bound: 1 << 20,
            ended: Some((TO_END, "exit status: 0".to_owned())),
            breaches: Vec::new(),
        };
        assert!(good().faults(true).is_empty());
        let bad: [fn(&mut Row); 9] = [
            |row| row.outcome.wrong = 1,
            |row| row.outcome.lost = 1,
            |row| row.outcome.refused = 1,
            |row| row.outcome.verified = 0,
            |row| row.pairs[0][0].0 = 51,
            |row| row.largest += 1,
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
        slow.pairs[0][0].0 = 500;
        assert!(slow.faults(false).is_empty(), "the short form judges no latency");
    }
}
