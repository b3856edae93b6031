//! Checks: of the array, of drives by their tags, and tags themselves.

use crate::pairs::Failed;
use crate::pairs::call::CallResult;
use crate::pairs::clock::Clock;
use crate::pairs::feature::Feature;
use crate::pairs::ledger::{BLOCK, content};
use crate::pairs::load::{CHUNK, PART, STRIPE};
use crate::pairs::random::Random;
use crate::pairs::world::{World, held};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Stripes that no client writes while the cell goes on.
pub(crate) const QUIET: std::ops::Range<u64> = 2 * PART.end / STRIPE..3 * PART.end / STRIPE;
/// The member whose bytes the cell damages: no feature orders it out, and it has no tags.
const DAMAGED: [&str; 2] = ["d3", "d4"];

fn strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|&arg| arg.to_owned()).collect()
}

/// The arguments of a scrub of the array.
pub(crate) fn scrub_args(world: &World, options: &[&str], devices: &[String]) -> Vec<String> {
    let (run, state) = (world.path("run").display().to_string(), world.path("state").display().to_string());
    let mut args = strings(&["scrub", "--json", "--run-dir", &run, "--state-dir", &state]);
    args.extend(strings(options));
    args.extend_from_slice(devices);
    args
}

/// The places at which a report has findings: role, and byte of the member.
pub(crate) fn findings(done: &CallResult) -> Vec<(usize, u64)> {
    let report = done.json();
    let found = report["findings"].as_array().cloned().unwrap_or_default();
    let place = |finding: &serde_json::Value| {
        let member = finding["member"].as_u64().map_or(usize::MAX, |role| role as usize);
        (member, finding["device_offset"].as_u64().unwrap_or(0) / BLOCK as u64 * BLOCK as u64)
    };
    found.iter().map(place).collect()
}

/// Judges a scrub that found something, or could not say.
fn judge(world: &World, done: &CallResult) {
    let why = done.said.lines().next().unwrap_or_default();
    match done.code {
        Some(0) | None => {}
        Some(1) => {
            let damage = held(&world.damage).clone();
            let is_known = |place: &(usize, u64)| damage.contains(place);
            let found = findings(done);
            if found.is_empty() || !found.iter().all(is_known) {
                let said = done.said.replace('\n', " ");
                world.trouble(format!("a false finding: {found:?}, damaged {damage:?}: {said}"));
            }
        }
        Some(code) if why.is_empty() => world.trouble(format!("a scrub ended with {code}, without a word")),
        Some(code) => world.note(format!("a scrub ended with {code}: {why}")),
    }
}

/// Scrubs again and again.
pub(super) fn scrub(world: &World, clock: &Clock, options: &[&str]) -> Result<(), Failed> {
    let args = scrub_args(world, options, &world.members()[..1]);
    let all = scrub_args(world, options, &world.members());
    while !clock.is_over() {
        let args = if world.is_served() { &args } else { &all };
        let done = world.call_until(args, || clock.is_over())?;
        judge(world, &done);
        clock.rest(Duration::from_millis(100));
    }
    Ok(())
}

/// Start of the data of a member: a field of its superblock.
fn data_offset(file: &File) -> std::io::Result<u64> {
    let mut sectors = [0; 8];
    file.read_exact_at(&mut sectors, 4096 + 128)?;
    Ok(u64::from_le_bytes(sectors) * 512)
}

/// Damages a block of a member where no client writes. Each row has one member that is damaged: of
/// two in one row nobody can say which they are, and no repair may touch them.
fn damage(world: &World, random: &mut Random) -> std::io::Result<(usize, u64)> {
    let stripe = QUIET.start + random.below(QUIET.end - QUIET.start);
    let block = stripe * CHUNK + random.below(CHUNK);
    let which = block as usize % DAMAGED.len();
    let file = File::options().read(true).write(true).open(world.path(DAMAGED[which]))?;
    let at = data_offset(&file)? + block * BLOCK as u64;
    let place = (3 + which, at);
    held(&world.damage).push(place);
    file.write_all_at(&content(1 << 30, random.next())[..1000], at + 100)?;
    file.sync_all()?;
    Ok(place)
}

/// Damages a block, and repairs it, again and again.
pub(super) fn repair(world: &World, clock: &Clock) -> Result<(), Failed> {
    let mut random = Random::new(world.seed ^ 0xDA);
    // With a member away, damage of another cannot be told from what is right, and may be read.
    let is_whole = !world.pair.any(Feature::loses_members);
    let args = scrub_args(world, &["--repair"], &world.members()[..1]);
    let all = scrub_args(world, &["--repair"], &world.members());
    while !clock.is_over() {
        if is_whole {
            damage(world, &mut random).map_err(|error| Failed(format!("damage: {error}")))?;
        }
        let args = if world.is_served() { &args } else { &all };
        let done = world.call_until(args, || clock.is_over())?;
        judge(world, &done);
        clock.rest(Duration::from_millis(300));
    }
    Ok(())
}

/// Asks for a heal: of an array that Linux does not run it is refused, whatever else goes on.
pub(super) fn heal(world: &World, clock: &Clock) -> Result<(), Failed> {
    let args = scrub_args(world, &["--heal"], &world.members());
    while !clock.is_over() {
        let done = world.call_until(&args, || clock.is_over())?;
        let is_refused = ["takes one md array", "not possible for a volume", "no member of vault"]
            .iter()
            .any(|w| done.said.contains(w));
        if !done.stopped && (done.code != Some(2) || !is_refused) {
            world.trouble(format!("--heal of no running array: {:?}: {}", done.code, done.said));
        }
        clock.rest(Duration::from_millis(100));
    }
    Ok(())
}

/// Checks the tagged member by its tags. While the volume is served, its node is held.
pub(super) fn drives(world: &World, clock: &Clock) -> Result<(), Failed> {
    let mut args = strings(&["scrub", "--drives"]);
    args.push(world.name(0, 1));
    while !clock.is_over() {
        let done = world.call_until(&args, || clock.is_over())?;
        let is_said = !done.said.is_empty();
        match done.code {
            Some(1) => world.trouble(format!("a drive without damage: {}", done.said)),
            Some(2 | 3) if !is_said => world.trouble("scrub --drives failed without a word".to_owned()),
            Some(code @ (2 | 3)) => {
                world.note(format!("scrub --drives ended with {code}: {}", done.said.replace('\n', " ")));
            }
            _ => {}
        }
        clock.rest(Duration::from_millis(100));
    }
    Ok(())
}

/// Looks at the tags in use, and makes and removes those of another drive beside them.
pub(super) fn protect(world: &World, clock: &Clock) -> Result<(), Failed> {
    let (drive, tags) = (world.path("small/free"), world.path("small/free.tags"));
    let name = format!("{},pi=16,tags={}", drive.display(), tags.display());
    let wrong = |error: std::io::Error| Failed(format!("{}: {error}", drive.display()));
    while !clock.is_over() {
        let status = world.call(&["protect", "--block-size", "4096", "--status", &world.tagged()])?;
        if status.code != Some(0) {
            world.trouble(format!("protect --status: {:?}: {}", status.code, status.said));
        }
        File::create(&drive).and_then(|file| file.set_len(1 << 20)).map_err(wrong)?;
        let made = world.call(&["protect", "--block-size", "4096", &name])?;
        if made.code == Some(0) {
            let off = world.call(&["protect", "--block-size", "4096", "--off", &name])?;
            if off.code != Some(0) || tags.exists() {
                world.trouble(format!("protect --off: {:?}: {}", off.code, off.said));
            }
        } else if !world.pair.has(Feature::FullDisk) {
            world.trouble(format!("protect: {:?}: {}", made.code, made.said));
        } else {
            world.note(format!("protect: {:?}: {}", made.code, made.said.replace('\n', " ")));
            if tags.exists() && fs::metadata(&tags).is_ok_and(|meta| meta.len() > 0) {
                // What was begun before the disk was full is gone on with, or removed.
                world.call(&["protect", "--block-size", "4096", "--off", "--force", &name])?;
            }
        }
        for path in [&drive, &tags] {
            // The tags are gone already unless something failed.
            let _ = fs::remove_file(path);
        }
        clock.rest(Duration::from_millis(50));
    }
    Ok(())
}
