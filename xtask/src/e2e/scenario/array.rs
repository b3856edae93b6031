//! md over drives of nodes: made and written to by the kernel while the host scrubs; damaged,
//! found, repaired, and judged by the kernel again.

use super::{Bench, MIB, Node};
use crate::e2e::damage::{Damage, Member};
use crate::e2e::guest::Guest;
use crate::e2e::scrub::{self, Pass};
use crate::run::Failed;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const ARRAY: &str = include_str!("../../../guest/array.sh");
const REASSEMBLE: &str = include_str!("../../../guest/reassemble.sh");
const DRIVES: usize = 6;
/// Time by which the load may last longer than it should on a slow machine, until all damage is
/// found.
const PATIENCE: Duration = Duration::from_secs(300);
/// Of a bitmap's bit, in stripes: damage keeps this far from what is written to.
const MARGIN: u64 = 16;

/// A shape of array, and where its drives are.
struct Shape {
    level: u32,
    nodes: usize,
    /// Argument of mdadm for the bitmap.
    bitmap: &'static str,
    /// Else the drives' files are repaired where they are, with the nodes stopped.
    repair_over_nodes: bool,
}

/// RAID-5 on one node, with a write-intent bitmap whose bits are small enough for the last quarter
/// to stay clean.
pub(crate) fn raid5(bench: &Bench<'_>) -> Result<(), Failed> {
    run(
        bench,
        &Shape {
            level: 5,
            nodes: 1,
            bitmap: "--bitmap=internal --bitmap-chunk=1M",
            repair_over_nodes: false,
        },
    )
}

/// RAID-6 across three nodes.
pub(crate) fn raid6(bench: &Bench<'_>) -> Result<(), Failed> {
    run(bench, &Shape { level: 6, nodes: 3, bitmap: "--bitmap=none", repair_over_nodes: true })
}

fn run(bench: &Bench<'_>, shape: &Shape) -> Result<(), Failed> {
    let (size, seconds, damages) = if bench.options.full {
        (48 * MIB, u64::from(bench.options.minutes) * 60, bench.options.damages)
    } else {
        (24 * MIB, 12, 2)
    };
    let drives: Vec<String> =
        (0..DRIVES).map(|n| bench.drive(&format!("member{n}"), size)).collect::<Result<_, _>>()?;

    let nodes = start(bench, shape, &drives)?;
    let mut variables = place(&nodes, shape);
    variables.push(("bitmap", shape.bitmap.to_owned()));
    let mut guest =
        bench.guest(&bench.machine(true, seconds + 400 + PATIENCE.as_secs()), ARRAY, &variables)?;
    guest.reach("load")?;
    let load = under_load(bench, &mut guest, &nodes, &drives, seconds, damages)?;
    let report = guest.finish()?;
    load.right(bench, &drives)?;
    let planted = load.planted;

    let remote = scrub::urls(&ports(&nodes));
    if shape.repair_over_nodes {
        mend(bench, shape, &remote, &planted)?;
    }
    nodes.into_iter().try_for_each(Node::stop)?;
    if !shape.repair_over_nodes {
        mend(bench, shape, &drives, &planted)?;
    }

    let nodes = start(bench, shape, &drives)?;
    let mut variables = place(&nodes, shape);
    for key in ["quiet_from", "quiet_sum", "busy_sum"] {
        variables.push((key, report.get(key)?.to_owned()));
    }
    let report = bench.guest(&bench.machine(false, 300), REASSEMBLE, &variables)?.finish()?;
    let mismatches = report.number("mismatches")?;
    if mismatches != 0 {
        return Err(Failed(format!(
            "after the repair the kernel counts {mismatches} sectors that do not match"
        )));
    }
    nodes.into_iter().try_for_each(Node::stop)
}

fn start(bench: &Bench<'_>, shape: &Shape, drives: &[String]) -> Result<Vec<Node>, Failed> {
    let each = drives.len() / shape.nodes;
    let parts = drives.chunks(each).enumerate();
    parts.map(|(n, drives)| bench.node(&format!("array{n}"), 512, drives.to_vec())).collect()
}

fn ports(nodes: &[Node]) -> Vec<u16> {
    nodes.iter().map(|node| node.port).collect()
}

/// Settings for both scripts.
fn place(nodes: &[Node], shape: &Shape) -> Vec<(&'static str, String)> {
    let ports: Vec<String> = nodes.iter().map(|node| node.port.to_string()).collect();
    let nqns: Vec<String> = (0..nodes.len()).map(|n| Bench::nqn(&format!("array{n}"))).collect();
    vec![
        ("ports", ports.join(" ")),
        ("nqns", nqns.join(" ")),
        ("each", (DRIVES / nodes.len()).to_string()),
        ("level", shape.level.to_string()),
    ]
}

/// Scrubs one after another while the guest writes; damage is planted between them, and found from
/// then on. The guest writes for `seconds`, and until a pass under load has found everything.
fn under_load(
    bench: &Bench<'_>,
    guest: &mut Guest,
    nodes: &[Node],
    drives: &[String],
    seconds: u64,
    damages: u32,
) -> Result<Load, Failed> {
    let ports = ports(nodes);
    let each = drives.len() / nodes.len();
    let served = |n: usize| format!("nvme://127.0.0.1:{}/{}", ports[n / each], n % each + 1);
    let members = drives.iter().enumerate().map(|(n, path)| Member::read(path, &served(n)));
    let members: Vec<Member> = members.collect::<Result<_, _>>()?;
    let state = bench.folder.join("state");
    let quiet_from = members.first().map_or(0, |member| member.stripes * 3 / 4);
    let mut planted: Vec<Damage> = Vec::new();
    let (mut passes, mut undecided, mut time) = (0u32, 0, Duration::ZERO);
    let (mut checked, mut stripes) = (0, 0);
    let mut wrong: BTreeMap<String, Wrong> = BTreeMap::new();
    let start = Instant::now();
    let load = Duration::from_secs(seconds);
    let pause = load * 7 / 10 / (damages + 1);
    let found = loop {
        let begun = Instant::now();
        let pass = scrub::live(bench.binary, &state, &ports)?;
        for words in judge(&pass, &planted, quiet_from) {
            let now = start.elapsed();
            let seen = wrong.entry(words).or_insert(Wrong { times: 0, first: now, last: now });
            seen.times += 1;
            seen.last = now;
        }
        time += begun.elapsed();
        passes += 1;
        undecided += pass.undecided;
        checked += pass.checked;
        stripes += pass.stripes;
        let number = planted.len();
        let complete = number == damages as usize && pass.findings.len() >= number || !wrong.is_empty();
        if start.elapsed() >= load && complete || start.elapsed() >= load + PATIENCE {
            // No pass is under way when the array is stopped: what it finds then is busy.
            guest.go()?;
            guest.reach("loaded")?;
            break pass.findings.len();
        }
        if number < damages as usize
            && start.elapsed() >= pause * u32::try_from(number + 1).unwrap_or(u32::MAX)
        {
            let damage = Damage::choose(&members, quiet_from + MARGIN, number as u64)
                .ok_or_else(|| Failed("no room for so many damages".to_owned()))?;
            damage.plant()?;
            bench.steps.done(&format!("planted: {}", damage.words()));
            planted.push(damage);
        }
    };
    if wrong.is_empty() && (planted.len() < damages as usize || found < planted.len()) {
        return Err(Failed(format!(
            "{passes} passes were too few to plant {damages} damages and find each: {} planted, {found} found",
            planted.len()
        )));
    }
    bench.steps.done(&format!(
        "{passes} scrubs under load, {:.1} s each, {found} findings, {} things wrong, {undecided} undecided, \
         {checked} of {stripes} stripes checked",
        time.as_secs_f64() / f64::from(passes),
        wrong.len()
    ));
    Ok(Load { planted, passes, wrong })
}

/// Result of scrubbing under load.
struct Load {
    planted: Vec<Damage>,
    passes: u32,
    wrong: BTreeMap<String, Wrong>,
}

/// Number of passes that reported a wrong thing, and the times of the first and the last, from the
/// start of the load.
struct Wrong {
    times: u32,
    first: Duration,
    last: Duration,
}

impl Load {
    /// That nothing was wrong. What was may be the scrub's error, or the drives': with everything
    /// stopped, the drives are scrubbed again, to tell the one from the other.
    fn right(&self, bench: &Bench<'_>, drives: &[String]) -> Result<(), Failed> {
        if self.wrong.is_empty() {
            return Ok(());
        }
        let mut lines = vec![format!("{} things wrong in {} passes:", self.wrong.len(), self.passes)];
        for (words, wrong) in self.wrong.iter().take(8) {
            let (first, last) = (wrong.first.as_secs_f64(), wrong.last.as_secs_f64());
            lines.push(format!("{} times, {first:.1} s to {last:.1} s: {words}", wrong.times));
        }
        let rest = scrub::still(bench.binary, &bench.folder.join("state"), drives)?;
        let left = judge(&rest, &self.planted, 0);
        lines.push(format!("with the array stopped, {} things are wrong", left.len()));
        lines.extend(left.into_iter().take(8));
        Err(Failed(lines.join("\n    ")))
    }
}

/// A pass must find every damage that was there before it, name it as far as can be, and find
/// nothing else. Gives what is wrong with it.
fn judge(pass: &Pass, planted: &[Damage], quiet_from: u64) -> Vec<String> {
    let mut wrong = Vec::new();
    for finding in &pass.findings {
        if !planted.iter().any(|damage| damage.is_named_by(finding)) {
            let place =
                if finding.stripe < quiet_from { "in what is written to" } else { "in what is quiet" };
            wrong.push(format!("a false finding, or a wrong verdict, {place}: {finding:?}"));
        }
    }
    for damage in planted {
        if !pass.findings.iter().any(|finding| damage.is_at(finding)) {
            let (words, result) = (damage.words(), &pass.result);
            wrong.push(format!(
                "not found: {words} ({result}, {} of {} stripes checked)",
                pass.checked, pass.stripes
            ));
        }
    }
    wrong
}

/// Repairs the drives, which nobody uses, and checks them once more.
fn mend(bench: &Bench<'_>, shape: &Shape, drives: &[String], planted: &[Damage]) -> Result<(), Failed> {
    let state = bench.folder.join("state");
    // Stripes that are empty but for a file keep members from being strong evidence against each
    // other.
    let policy = if shape.level == 5 { "parity" } else { "likely" };
    let pass = scrub::repair(bench.binary, &state, policy, drives)?;
    if let Some(wrong) = judge(&pass, planted, 0).first() {
        return Err(Failed(format!("while repairing, {wrong}")));
    }
    if let Some(left) = pass.findings.iter().find(|finding| !finding.repaired) {
        return Err(Failed(format!("not repaired: {left:?}")));
    }
    let pass = scrub::still(bench.binary, &state, drives)?;
    if pass.result != "clean" || pass.checked != pass.stripes {
        let (checked, all) = (pass.checked, pass.stripes);
        return Err(Failed(format!("after the repair: {}, {checked} of {all} stripes checked", pass.result)));
    }
    let place = if shape.repair_over_nodes { "over the nodes" } else { "in the files" };
    bench.steps.done(&format!("{} damages repaired {place}, scrubbed clean", planted.len()));
    Ok(())
}
