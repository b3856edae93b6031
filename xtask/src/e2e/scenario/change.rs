//! Members that fail, come back, are replaced, and an array that grows, with scrubs one after another.

use super::{Bench, MIB};
use crate::e2e::scrub;
use crate::run::Failed;
use std::time::Duration;

const CHANGE: &str = include_str!("../../../guest/change.sh");
/// Six members, one that replaces another, one to grow by.
const DRIVES: usize = 8;

/// RAID-6 on one node, with a bitmap, under a light load.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let drives: Vec<String> =
        (0..DRIVES).map(|n| bench.drive(&format!("member{n}"), 32 * MIB)).collect::<Result<_, _>>()?;
    let node = bench.node("change", 512, drives)?;
    let variables =
        [("ports", node.port.to_string()), ("nqns", Bench::nqn("change")), ("each", DRIVES.to_string())];
    let mut guest = bench.guest(&bench.machine(true, 500), CHANGE, &variables)?;
    guest.reach("changing")?;
    let state = bench.folder.join("state");
    let (mut passes, mut refused, mut checked, mut stripes, mut undecided) = (0, 0, 0, 0, 0);
    while !guest.listen(Duration::from_millis(20), "whole")? {
        match scrub::attempt(bench.binary, &state, &[node.port])? {
            Ok(pass) => {
                if let Some(finding) = pass.findings.first() {
                    return Err(Failed(format!("a false finding: {finding:?}")));
                }
                passes += 1;
                (checked, stripes) = (checked + pass.checked, stripes + pass.stripes);
                undecided += pass.undecided;
            }
            Err(said) if said.contains("out of date") => return Err(Failed(said)),
            Err(_) => refused += 1,
        }
    }
    bench.steps.done(&format!(
        "{passes} scrubs, {refused} refused: no finding, {undecided} undecided, {checked} of {stripes} stripes checked"
    ));
    if passes == 0 {
        return Err(Failed("no scrub judged anything".to_owned()));
    }
    let pass = scrub::live(bench.binary, &state, &[node.port])?;
    if pass.result != "clean" {
        return Err(Failed(format!("afterwards: {}", pass.result)));
    }
    bench.steps.done(&format!("scrubbed clean, {} of {} stripes checked", pass.checked, pass.stripes));
    guest.go()?;
    let mismatches = guest.finish()?.number("mismatches")?;
    if mismatches != 0 {
        return Err(Failed(format!("the kernel counts {mismatches} sectors that do not match")));
    }
    node.stop()
}
