//! Members that fail, come back, are replaced, and an array that grows, with scrubs one after
//! another.

use super::{Bench, MIB};
use crate::e2e::scrub::{self, Judged};
use crate::run::Failed;
use std::time::Duration;

const CHANGE: &str = include_str!("../../../guest/change.sh");
/// Six members, one that replaces another, one to grow by.
const DRIVES: usize = 8;

/// RAID-6 on one node, with a bitmap, under a light load.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let drives: Vec<String> =
        (0..DRIVES).map(|n| bench.drive(&format!("member{n}"), 32 * MIB)).collect::<Result<_, _>>()?;
    let node = bench.node("change", 512, drives.clone())?;
    let variables =
        [("ports", node.port.to_string()), ("nqns", Bench::nqn("change")), ("each", DRIVES.to_string())];
    let mut guest = bench.guest(&bench.machine(true, 500), CHANGE, &variables)?;
    guest.reach("changing")?;
    let state = bench.folder.join("state");
    scrub::is_refused_here(bench.binary, &state, &drives[..6])?;
    let (mut far, mut here) = (Judged::default(), Judged::default());
    while !guest.listen(Duration::from_millis(20), "whole")? {
        let pass = scrub::attempt(bench.binary, &state, &[node.port])?;
        if let Err(said) = &pass
            && said.contains("out of date")
        {
            return Err(Failed(said.clone()));
        }
        far.take(pass, "members change, over the node")?;
        here.take(scrub::attempt_here(bench.binary, &state, &drives[..6])?, "members change, by the files")?;
    }
    bench.steps.done(&format!("over the node: {}", far.words()));
    bench.steps.done(&format!("by the files: {}", here.words()));
    far.at_least(50)?;
    // Nobody counts writes to files, and bits do not clear while a member is missing.
    here.at_least(25)?;
    let pass = scrub::live(bench.binary, &state, &[node.port])?;
    if pass.result != "clean" || pass.checked != pass.stripes {
        let (checked, all) = (pass.checked, pass.stripes);
        return Err(Failed(format!("afterwards: {}, {checked} of {all} stripes checked", pass.result)));
    }
    bench.steps.done(&format!("scrubbed clean, {} of {} stripes checked", pass.checked, pass.stripes));
    guest.go()?;
    let mismatches = guest.finish()?.number("mismatches")?;
    if mismatches != 0 {
        return Err(Failed(format!("the kernel counts {mismatches} sectors that do not match")));
    }
    node.stop()
}
