//! Arrays that change while a pass reads them. A pass may call an array clean only if it read every
//! byte of every member that the kernel relies on when it ends (`docs/design/premises.md`).

use super::{Bench, MIB, Node};
use crate::e2e::damage::{data_area, turn_round};
use crate::e2e::guest::Guest;
use crate::e2e::protocol::Report;
use crate::e2e::scrub::{Pass, ReadMember, Running};
use crate::run::Failed;
use std::time::{Duration, Instant};

const SCRIPT: &str = include_str!("../../../guest/changes-under.sh");
/// Four members and one more, for each case.
const DRIVES: usize = 5;
const SIZE: u64 = 6 * MIB;
/// Place of the damage on a member that joined, from the start of its data: in a stripe that a pass
/// has read by then.
const EARLY: u64 = 3 * 65536;

/// A change of an array while a pass goes on.
struct Case {
    name: &'static str,
    /// Words that the report must have; none if the array stays the same to a pass.
    says: &'static [&'static str],
    /// The drive that takes a role meanwhile.
    joins: Option<usize>,
}

/// In the order of the script. The first three are no changes.
const CASES: [Case; 7] = [
    Case { name: "a spare is added", says: &[], joins: None },
    Case { name: "growing is refused", says: &[], joins: None },
    Case { name: "the array is stopped", says: &[], joins: None },
    Case { name: "a spare takes over", says: &["member 2"], joins: Some(4) },
    Case {
        name: "a member fails and comes back",
        says: &["member 1", "changed and changed back"],
        joins: None,
    },
    Case { name: "a member is replaced", says: &["member 0"], joins: Some(4) },
    Case { name: "a reshape begins", says: &["reshape", "level, layout, chunk or size"], joins: None },
];
const UNCHANGED: usize = 3;
const RESHAPED: usize = 6;

/// Seven arrays of one guest, a pass over each at the same time.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let (mut nodes, mut drives) = (Vec::new(), Vec::new());
    for case in 0..CASES.len() {
        let files: Vec<String> =
            (0..DRIVES).map(|n| bench.drive(&format!("case{case}-{n}"), SIZE)).collect::<Result<_, _>>()?;
        nodes.push(bench.counting_node(&format!("case{case}"), 512, files.clone())?);
        drives.push(files);
    }
    let ports: Vec<String> = nodes.iter().map(|node| node.port.to_string()).collect();
    let nqns: Vec<String> = (0..CASES.len()).map(|case| Bench::nqn(&format!("case{case}"))).collect();
    let variables = [("ports", ports.join(" ")), ("nqns", nqns.join(" ")), ("each", DRIVES.to_string())];
    let mut guest = bench.guest(&bench.machine(false, 120), SCRIPT, &variables)?;
    let booted = Instant::now();
    guest.reach("made")?;
    let passes = watched(bench, &nodes, &drives, &mut guest, booted.elapsed())?;
    guest.reach("reshaped")?;
    let again = afterwards(bench, &nodes)?;
    guest.go()?;
    let report = guest.finish()?;
    for (case, pass) in passes.iter().enumerate() {
        let truth = truth(&report, case, nodes[case].port, pass.stripes)?;
        judge(case, pass, &again[case], &truth).map_err(|Failed(why)| {
            Failed(format!("{}: {why} ({}, {:?})", CASES[case].name, pass.result, pass.stopped))
        })?;
        let words = pass.stopped.as_deref().unwrap_or("every stripe and member");
        bench.steps.done(&format!("{}: {}, {words}", CASES[case].name, pass.result));
    }
    nodes.into_iter().try_for_each(Node::stop)
}

/// The passes, over arrays that change meanwhile. `took`: to boot the guest and make the arrays,
/// which says how fast this machine is.
fn watched(
    bench: &Bench<'_>,
    nodes: &[Node],
    drives: &[Vec<String>],
    guest: &mut Guest,
    took: Duration,
) -> Result<Vec<Pass>, Failed> {
    // Long enough for the changes, which take a quarter of that time.
    let seconds = (took.as_secs_f64() / 2.0).max(4.0);
    let rate = format!("{:.0}", SIZE as f64 / seconds);
    let state = bench.folder.join("passes");
    let begin =
        |node: &Node| Running::begin(bench.binary, &state, &["--rate", &rate, "--batch", "8"], node.port);
    let mut passes: Vec<Running> = nodes.iter().map(begin).collect::<Result<_, _>>()?;
    for node in nodes {
        let until = Instant::now() + Duration::from_secs(60);
        while node.counter("pumice_parity_stripes_total")? == 0.0 {
            if Instant::now() > until {
                return Err(Failed("a pass reads nothing".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    bench.steps.done(&format!("every pass has begun, and takes {seconds:.1} s or more"));
    guest.go()?;
    guest.reach("unchanged")?;
    for (pass, case) in passes.iter_mut().zip(&CASES[..UNCHANGED]) {
        if !pass.goes_on() {
            return Err(Failed(format!("{}: the pass had ended before", case.name)));
        }
    }
    guest.go()?;
    guest.reach("changed")?;
    for (case, drives) in CASES.iter().zip(drives) {
        if let Some(drive) = case.joins.map(|drive| &drives[drive]) {
            turn_round(drive, data_area(drive)?.0 + EARLY)?;
        }
    }
    let passes = passes.into_iter().map(Running::finish).collect::<Result<_, _>>();
    bench.steps.done("every pass has ended");
    guest.go()?;
    passes
}

/// A pass over each array as it is afterwards.
fn afterwards(bench: &Bench<'_>, nodes: &[Node]) -> Result<Vec<Pass>, Failed> {
    let state = bench.folder.join("afterwards");
    let begin = |node: &Node| Running::begin(bench.binary, &state, &[], node.port);
    let passes: Vec<Running> = nodes.iter().map(begin).collect::<Result<_, _>>()?;
    let passes = passes.into_iter().map(Running::finish).collect();
    bench.steps.done("every array scrubbed again");
    passes
}

/// The members that the kernel has in sync at the end, as a pass would name them.
fn truth(report: &Report, case: usize, port: u16, stripes: u64) -> Result<Vec<ReadMember>, Failed> {
    let list = report.get(&format!("members{case}"))?;
    let member = |word: &str| {
        let (role, nsid) = word.split_once(':')?;
        let device = format!("nvme://127.0.0.1:{port}/{nsid}");
        Some(ReadMember { role: role.parse().ok()?, device, stripes })
    };
    let members: Option<Vec<ReadMember>> =
        list.split(' ').filter(|word| !word.is_empty()).map(member).collect();
    let mut members = members.ok_or_else(|| Failed(format!("the guest's members of case {case}: {list}")))?;
    members.sort();
    Ok(members)
}

/// That a pass is clean only of what it read, and that it was no more cautious than it must be.
fn judge(case: usize, pass: &Pass, again: &Pass, truth: &[ReadMember]) -> Result<(), Failed> {
    let fail = |why: String| Err(Failed(why));
    if pass.result == "clean" && (pass.read != truth || pass.checked != pass.stripes) {
        return fail(format!("clean, and it read {:?} of {truth:?}", pass.read));
    }
    if pass.result == "clean" && again.result != "clean" {
        return fail(format!("clean, and then {}", again.result));
    }
    if case == RESHAPED {
        if again.read.len() != DRIVES {
            return fail(format!("grown to {} members", again.read.len()));
        }
    } else if again.read != truth {
        return fail(format!("the next pass read {:?} of {truth:?}", again.read));
    }
    let Case { says, joins, .. } = &CASES[case];
    let found = if joins.is_some() { "findings" } else { "clean" };
    if again.result != found {
        return fail(format!("the next pass is {}, not {found}", again.result));
    }
    if says.is_empty() {
        return if pass.result == "clean" { Ok(()) } else { fail("nothing changed".to_owned()) };
    }
    let stopped = pass.stopped.as_deref().unwrap_or_default();
    if pass.result != "incomplete" || !says.iter().any(|words| stopped.contains(words)) {
        return fail("the report does not name the change".to_owned());
    }
    Ok(())
}
