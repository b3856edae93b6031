//! Flash drives of a node: ext4 with copies, fstrim, fio with check sums while the node is killed;
//! md over three of them.

use super::{Bench, MIB, Node};
use crate::e2e::guest::Guest;
use crate::e2e::json::Json;
use crate::e2e::scrub;
use crate::run::Failed;
use std::process::Command;
use std::time::{Duration, Instant};

const SCRIPT: &str = include_str!("../../../guest/flash.sh");
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes of a file of the guest, of which there is a copy.
const FILE: u64 = 16 * MIB;
/// Pages that ext4's journal may take meanwhile.
const LITTLE: u64 = 1024;
/// Capacity of the drive with ext4, and of each drive of the array.
const DISK: u64 = 96 * MIB;
const MEMBER: u64 = 32 * MIB;
/// Schemes of the drives: of the one with ext4, then of the array's.
const SCHEMES: [&str; 4] = ["live", "none", "offline", "measured"];
/// Kills that each load must see.
const LEAST_KILLS: u32 = 2;
/// Time for which the node is away.
const AWAY: Duration = Duration::from_millis(700);
/// Time for its idle work on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let kills: u32 = if bench.options.full { 5 } else { 2 };
    let paths: Vec<String> = (0..SCHEMES.len())
        .map(|n| bench.folder.join(format!("flash{n}.drive")).to_string_lossy().into_owned())
        .collect();
    let drive = |(n, path): (usize, &String)| {
        let capacity = if n == 0 { DISK } else { MEMBER };
        format!("flash:{path},capacity={capacity},op=7%,dedup={}", SCHEMES[n])
    };
    let drives = paths.iter().enumerate().map(drive).collect();
    let mut node = bench.counting_node("flash", 4096, drives)?;
    let seconds = 4 + 6 * u64::from(kills);
    let variables = [
        ("port", node.port.to_string()),
        ("nqn", Bench::nqn("flash")),
        ("megabytes", (FILE / MIB).to_string()),
        ("seconds", seconds.to_string()),
    ];
    let mut guest = bench.guest(&bench.machine(true, 2 * seconds + 500), SCRIPT, &variables)?;
    copies_and_trim(bench, &mut guest, &node)?;
    let mut away = kill_under_load(bench, &mut guest, &mut node, "ext4", kills)?;
    check(bench, &mut guest, &mut node, &paths[0], "unmounted")?;
    away += 1 + kill_under_load(bench, &mut guest, &mut node, "md", kills)?;
    guest.reach("verified")?;
    let members: Vec<String> =
        (2..=SCHEMES.len()).map(|nsid| format!("nvme://127.0.0.1:{}/{nsid}", node.port)).collect();
    let pass = scrub::still(bench.binary, &bench.folder.join("state"), &members)?;
    if pass.result != "clean" || pass.checked != pass.stripes {
        let (checked, all) = (pass.checked, pass.stripes);
        return Err(Failed(format!("the scrub: {}, {checked} of {all} stripes checked", pass.result)));
    }
    bench.steps.done(&format!("scrubbed clean, {} of {} stripes checked", pass.checked, pass.stripes));
    guest.go()?;
    let report = guest.finish()?;
    let mismatches = report.number("mismatches")?;
    if mismatches != 0 {
        return Err(Failed(format!("the kernel counts {mismatches} sectors that do not match")));
    }
    let reconnects = report.number("reconnects")?;
    if reconnects < away {
        return Err(Failed(format!("the kernel reconnected {reconnects} times, not {away}")));
    }
    node.stop()?;
    for path in &paths {
        sound(bench, path)?;
    }
    bench.steps.done("every page of the four drives is sound");
    Ok(())
}

/// Pages of the first drive that a counter counts.
fn pages(node: &Node, what: &str) -> Result<u64, Failed> {
    Ok(node.counter(&format!("pumice_flash_{what}_pages{{drive=\"1\"}}"))? as u64)
}

/// Room of the guest's files on the drive: a file and its copy take the room of one, and none after
/// fstrim.
fn copies_and_trim(bench: &Bench<'_>, guest: &mut Guest, node: &Node) -> Result<(), Failed> {
    let file = FILE / PAGE;
    guest.reach("made")?;
    let made = pages(node, "mapped")?;
    guest.go()?;
    guest.reach("filled")?;
    let filled = pages(node, "mapped")?;
    if filled < made + 2 * file {
        return Err(Failed(format!("{} pages were written, mapped are {made}, then {filled}", 2 * file)));
    }
    let until = Instant::now() + PATIENCE;
    while pages(node, "waiting")? > 0 {
        if Instant::now() > until {
            return Err(Failed("the drive does not look at what was written".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let live = pages(node, "live")?;
    if live + file > filled {
        return Err(Failed(format!("{filled} pages are mapped to {live}: the copy takes room")));
    }
    guest.go()?;
    guest.reach("trimmed")?;
    let trimmed = pages(node, "mapped")?;
    if trimmed + 2 * file > filled + LITTLE {
        return Err(Failed(format!("{trimmed} pages are mapped after fstrim, {filled} before")));
    }
    bench.steps.done(&format!(
        "pages mapped: {made} after mkfs, {filled} with a file and its copy, of which {live} live, {trimmed} after fstrim"
    ));
    guest.go()
}

/// Kills the node so often, or until the load ends; gives how often it was killed.
fn kill_under_load(
    bench: &Bench<'_>,
    guest: &mut Guest,
    node: &mut Node,
    what: &str,
    kills: u32,
) -> Result<u64, Failed> {
    guest.reach(&format!("{what} load"))?;
    for kill in 1..=kills {
        if guest.listen(Duration::from_secs(2), &format!("{what} done"))? {
            // On a busy machine the node is away for longer.
            if kill > LEAST_KILLS {
                return Ok(u64::from(kill) - 1);
            }
            return Err(Failed(format!("the load ended before the node was killed for the {kill}. time")));
        }
        node.await_host()?;
        node.kill();
        std::thread::sleep(AWAY);
        node.restart()?;
        bench.steps.done(&format!("{what}: node killed and started again, {kill} of {kills}"));
    }
    Ok(kills.into())
}

/// The same with nobody writing: the drive that a kill leaves is sound before anybody recovers it.
fn check(
    bench: &Bench<'_>,
    guest: &mut Guest,
    node: &mut Node,
    path: &str,
    mark: &str,
) -> Result<(), Failed> {
    guest.reach(mark)?;
    node.await_host()?;
    node.kill();
    let words = sound(bench, path)?;
    node.restart()?;
    bench.steps.done(&format!("node killed at rest: {words}"));
    guest.go()
}

/// That `pumice flash check` finds nothing wrong with a drive that nobody serves.
fn sound(bench: &Bench<'_>, path: &str) -> Result<String, Failed> {
    let out = Command::new(bench.binary).args(["flash", "check", path, "--json"]).output();
    let out = out.map_err(|error| Failed(format!("pumice flash check: {error}")))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let wrong = || {
        let said = String::from_utf8_lossy(&out.stderr);
        Failed(format!("pumice flash check {path}: {} {text}{said}", out.status))
    };
    let document = Json::parse(&text).ok_or_else(wrong)?;
    let result = document.field("check").and_then(|check| check.text("result"));
    if result != Some("sound") || !out.status.success() {
        return Err(wrong());
    }
    let number = |name| document.number(name).ok_or_else(wrong);
    Ok(format!("sound, {} pages mapped to {}", number("mapped_pages")?, number("live_pages")?))
}
