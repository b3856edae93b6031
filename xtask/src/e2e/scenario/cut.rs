//! A power cut in the middle of writes, and a slow resync over the drives of nodes: what the cut
//! left torn is no finding before or during the resync, and whole after it.

use super::{Bench, MIB, Node};
use crate::e2e::damage::{Damage, Member};
use crate::e2e::scrub::{self, Judged, Pass};
use crate::run::Failed;
use std::time::{Duration, Instant};

const LOAD: &str = include_str!("../../../guest/cut.sh");
const RESYNC: &str = include_str!("../../../guest/resync.sh");
const DRIVES: usize = 6;
const NODES: usize = 2;
/// Stripes that are written at random before the cut: what cut.sh gives fio.
const WRITTEN: u64 = 80;
/// Stripes that are torn by hand: a cut leaves few, and not each time.
const TEARS: u64 = 4;
/// Of random writes before the cut.
const WRITING: Duration = Duration::from_secs(4);
/// Scrubs during the resync, at least; and for how long, at most.
const PASSES: u64 = 2;
const RESYNCING: Duration = Duration::from_secs(90);

/// Without a bitmap.
pub(crate) fn bare(bench: &Bench<'_>) -> Result<(), Failed> {
    run(bench, "--bitmap=none")
}

/// With a bitmap.
pub(crate) fn with_bitmap(bench: &Bench<'_>) -> Result<(), Failed> {
    run(bench, "--bitmap=internal --bitmap-chunk=1M")
}

fn run(bench: &Bench<'_>, bitmap: &str) -> Result<(), Failed> {
    let drives: Vec<String> =
        (0..DRIVES).map(|n| bench.drive(&format!("member{n}"), 24 * MIB)).collect::<Result<_, _>>()?;
    let parts = drives.chunks(DRIVES / NODES).enumerate();
    let nodes: Vec<Node> = parts
        .map(|(n, part)| bench.node(&format!("cut{n}"), 512, part.to_vec()))
        .collect::<Result<_, _>>()?;
    let ports: Vec<u16> = nodes.iter().map(|node| node.port).collect();
    let words = |list: &[u16]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let nqns: Vec<String> = (0..NODES).map(|n| Bench::nqn(&format!("cut{n}"))).collect();
    let variables = [
        ("ports", words(&ports)),
        ("nqns", nqns.join(" ")),
        ("each", (DRIVES / NODES).to_string()),
        ("bitmap", bitmap.to_owned()),
    ];
    let state = bench.folder.join("state");

    let mut guest = bench.guest(&bench.machine(true, 300), LOAD, &variables)?;
    guest.reach("load")?;
    std::thread::sleep(WRITING);
    drop(guest);
    bench.steps.done("the power is cut");
    tear(&drives)?;
    let torn = scrub::as_they_are(bench.binary, &state, &drives)?;
    bench.steps.done(&format!(
        "{TEARS} stripes torn besides: {} places inconsistent, {} stripes skipped",
        torn.findings.len(),
        torn.stripes - torn.checked
    ));
    no_finding(scrub::attempt(bench.binary, &state, &ports)?.as_ref(), "nobody has the array")?;

    let mut guest = bench.guest(&bench.machine(false, 400), RESYNC, &variables)?;
    guest.reach("resyncing")?;
    let began = Instant::now();
    scrub::is_refused_here(bench.binary, &state, &drives)?;
    let (mut far, mut here) = (Judged::default(), Judged::default());
    while far.passes < PASSES && began.elapsed() < RESYNCING {
        // A checkpoint in the superblocks is refused by name.
        far.take(scrub::attempt(bench.binary, &state, &ports)?, "it resyncs, over the nodes")?;
        // Nothing counts writes to the files, and what the cut left dirty is skipped.
        here.take(scrub::attempt_here(bench.binary, &state, &drives)?, "it resyncs, by the files")?;
    }
    far.at_least(80)?;
    bench.steps.done(&format!("during the resync, over the nodes: {}", far.words()));
    bench.steps.done(&format!("by the files: {}", here.words()));
    guest.go()?;
    guest.reach("whole")?;
    let pass = scrub::live(bench.binary, &state, &ports)?;
    if pass.result != "clean" || pass.checked != pass.stripes {
        let (checked, all) = (pass.checked, pass.stripes);
        return Err(Failed(format!("after the resync: {}, {checked} of {all} stripes checked", pass.result)));
    }
    bench.steps.done("scrubbed clean");
    guest.go()?;
    let mismatches = guest.finish()?.number("mismatches")?;
    if mismatches != 0 {
        return Err(Failed(format!("the kernel counts {mismatches} sectors that do not match")));
    }
    nodes.into_iter().try_for_each(Node::stop)
}

/// Makes stripes of what was being written look as the cut may have left them: one block is not
/// what parity takes it for.
fn tear(drives: &[String]) -> Result<(), Failed> {
    let mut members: Vec<Member> =
        drives.iter().map(|path| Member::read(path, path)).collect::<Result<_, _>>()?;
    members.iter_mut().for_each(|member| member.stripes = WRITTEN);
    for number in 0..TEARS {
        let tear = Damage::choose(&members, 0, number);
        tear.ok_or_else(|| Failed("no room for so many tears".to_owned()))?.plant()?;
    }
    Ok(())
}

fn no_finding(pass: Result<&Pass, &String>, when: &str) -> Result<(), Failed> {
    match pass {
        Ok(pass) if !pass.findings.is_empty() => {
            Err(Failed(format!("a false finding while {when}: {:?}", pass.findings[0])))
        }
        _ => Ok(()),
    }
}
