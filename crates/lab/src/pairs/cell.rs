//! A cell: two features in one room, and the verdict.

use crate::pairs::Failed;
use crate::pairs::acts::{act, findings, scrub_args};
use crate::pairs::clock::Clock;
use crate::pairs::feature::{Feature, Kind, Pair};
use crate::pairs::load::Client;
use crate::pairs::process::PATIENCE;
use crate::pairs::reasons;
use crate::pairs::world::{MEMBERS, VOLUME, World, held};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Settings of a cell's run.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) binary: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// The first of its ports.
    pub(crate) ports: u16,
    /// Files are kept whatever the verdict.
    pub(crate) keep: bool,
}

/// Result of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) pair: Pair,
    pub(crate) took: Duration,
    pub(crate) troubles: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) verified: u64,
    pub(crate) written: u64,
    /// Flushes that told of a loss.
    pub(crate) told: usize,
    /// Reason for skipping it; `None` if it was run.
    pub(crate) skipped: Option<String>,
}

/// Runs a cell. Its files are kept if it fails.
pub(crate) fn run(setup: &Setup, pair: Pair) -> Outcome {
    let began = Instant::now();
    let folder = setup.folder.join(pair.name().replace([':', ','], "-"));
    let mut outcome = Outcome {
        pair,
        took: Duration::ZERO,
        troubles: Vec::new(),
        notes: Vec::new(),
        verified: 0,
        written: 0,
        told: 0,
        skipped: None,
    };
    // What is left of an earlier run, if anything is.
    let _ = std::fs::remove_dir_all(&folder);
    match World::new(&setup.binary, &folder, pair, setup.seed, setup.ports) {
        Ok(world) if pair.has(Feature::FullDisk) && !world.is_small => {
            outcome.skipped = Some("the system lets nobody mount a file system of their own".to_owned());
        }
        Ok(world) => {
            if let Err(Failed(why)) = inside(&world, setup) {
                world.trouble(why);
            }
            world.stop_nodes();
            outcome.troubles.clone_from(&held(&world.troubles));
            outcome.troubles.extend(held(&world.load.wrong).iter().cloned());
            outcome.notes.clone_from(&held(&world.notes));
            outcome.notes.extend(held(&world.load.told).iter().map(|what| format!("told: {what}")));
            outcome.verified = world.load.verified.load(Ordering::Acquire);
            outcome.written = world.load.written.load(Ordering::Acquire);
            outcome.told = held(&world.load.told).len();
        }
        Err(Failed(why)) => outcome.troubles.push(why),
    }
    let is_kept = setup.keep || !outcome.troubles.is_empty();
    clear(&folder, is_kept);
    outcome.took = began.elapsed();
    outcome
}

/// Unmounts what the cell has mounted, and removes its drives; all of it if nothing is kept.
fn clear(folder: &Path, is_kept: bool) {
    let small = folder.join("small");
    // Without a mount there is nothing to unmount.
    let _ = std::process::Command::new("umount").arg(&small).output();
    if !is_kept {
        let _ = std::fs::remove_dir_all(folder);
        return;
    }
    for name in ["small", "d3", "d4", "spare1", "spare2", "foreign", "flash", "data"] {
        let path = folder.join(name);
        let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
    }
}

/// Makes the volume, and fills what the clients verify.
fn prepare(world: &World, clients: &mut [Client<'_>]) -> Result<(), Failed> {
    let expect = |args: &[&str]| -> Result<(), Failed> {
        let done = world.call(args)?;
        if done.code == Some(0) { Ok(()) } else { Err(Failed(format!("{args:?}: {}", done.said))) }
    };
    let flash = format!("{},capacity=16MiB,dedup=live", world.path("flash").display());
    expect(&["flash", "format", &flash])?;
    expect(&["protect", "--block-size", "4096", &world.tagged()])?;
    world.start_nodes()?;
    let members = world.members();
    let mut args = vec!["volume", "create", "--level", "6", "--name", VOLUME, "--force"];
    args.extend(members.iter().map(String::as_str));
    expect(&args)?;
    if world.pair.any(Feature::is_condition) {
        world.stop_nodes();
        world.set_paced(true);
        world.start_nodes()?;
    }
    world.serve(&members)?;
    for client in clients.iter_mut() {
        client.fill().map_err(Failed)?;
        client.leave();
    }
    if world.pair.kind == Kind::Images {
        end_serving(world);
    }
    Ok(())
}

/// Asks the process that serves the volume to end, and looks at what it leaves.
fn end_serving(world: &World) {
    let Some(mut process) = world.served().take() else { return };
    let began = Instant::now();
    match process.terminate() {
        None => {
            world.trouble(format!("the serving process is still there {PATIENCE:?} after SIGTERM"));
            world.load.kills.fetch_add(1, Ordering::AcqRel);
            process.kill();
        }
        Some(status) => match status.code() {
            Some(0) => {}
            Some(3) if !process.log.between(began, Instant::now()).is_empty() => {
                world.note("serve ended with 3".to_owned());
                world.load.kills.fetch_add(1, Ordering::AcqRel);
            }
            _ => world.trouble(format!("the serving process ended with {status}")),
        },
    }
    // Volumes have sockets in the run folder, scrubs in `scrubs` below it. The folder stays.
    let left: Vec<_> = ["run", "run/scrubs"]
        .into_iter()
        .filter_map(|folder| std::fs::read_dir(world.path(folder)).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| !path.is_dir())
        .collect();
    if !left.is_empty() {
        world.trouble(format!("sockets are left when nothing is served: {left:?}"));
    }
}

/// Two features side by side, under load.
fn both(world: &World, clients: &mut [Client<'_>], seconds: u64) -> Result<(), Failed> {
    let length = Duration::from_secs(seconds);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in clients.iter_mut().take(2) {
            scope.spawn(move || client.work());
        }
        let watcher = scope.spawn(|| reasons::watch(world, || ended.load(Ordering::Acquire)));
        let clock = Clock::new(length);
        let features = [world.pair.first, world.pair.second];
        let results: Vec<Result<(), Failed>> = std::thread::scope(|scope| {
            let clock = &clock;
            let begin = |(i, feature): (usize, Feature)| {
                let late =
                    if i == 1 && !world.pair.first.is_condition() { length / 4 } else { Duration::ZERO };
                scope.spawn(move || {
                    let stage = clock.stage();
                    std::thread::sleep(late);
                    drop(stage);
                    act(feature, world, clock)
                })
            };
            let threads: Vec<_> = features.into_iter().enumerate().map(begin).collect();
            // A pair of conditions, or of those that end early, lasts as long as any.
            while !clock.is_over() {
                std::thread::sleep(Duration::from_millis(10));
            }
            threads.into_iter().map(|thread| thread.join().expect("a feature does not panic")).collect()
        });
        world.load.stop.store(true, Ordering::Release);
        drain(world);
        ended.store(true, Ordering::Release);
        watcher.join().expect("it does not panic");
        results.into_iter().collect()
    })
}

/// Waits until no request is under way: as long as one may wait without a reason, or, with one, for
/// as long as a volume is held. Then whoever serves is killed, and the cell has failed.
fn drain(world: &World) {
    let began = Instant::now();
    let is_pending = || held(&world.load.pending).iter().any(Option::is_some);
    while is_pending() {
        std::thread::sleep(Duration::from_millis(20));
        let is_troubled = !held(&world.troubles).is_empty();
        if began.elapsed() > 5 * PATIENCE
            || is_troubled && began.elapsed() > PATIENCE + Duration::from_secs(1)
        {
            world.trouble("requests are still under way when all is over".to_owned());
            end_serving(world);
            return;
        }
    }
}

/// All that was acknowledged is there.
fn verify(world: &World, clients: &mut [Client<'_>], when: &str) {
    for client in clients {
        if let Err(why) = client.verify() {
            world.trouble(format!("{when}: {why}"));
        }
        client.leave();
    }
}

/// A rebuild was under way when the volume was stopped, and nothing else is in the way.
fn is_recovering(report: &serde_json::Value) -> bool {
    let absent = report["absent"].as_array().cloned().unwrap_or_default();
    let skipped = report["skipped"].as_object().cloned().unwrap_or_default();
    report["incomplete"] == serde_json::json!(["skipped"])
        && absent.iter().any(|member| member["reason"] == "recovering")
        && skipped.keys().all(|reason| reason == "recovering")
}

/// The members are consistent, but for what the cell itself has damaged.
fn scrub_members(world: &World, when: &str) -> Result<(), Failed> {
    let damage = held(&world.damage).clone();
    let options: &[&str] = if damage.is_empty() { &["--degraded"] } else { &["--degraded", "--repair"] };
    let mut last = String::new();
    for devices in world.candidates() {
        let done = world.call_until(&scrub_args(world, options, &devices), || false)?;
        let found = findings(&done);
        match done.code {
            Some(0) => return Ok(()),
            Some(1) if !found.is_empty() && found.iter().all(|place| damage.contains(place)) => return Ok(()),
            Some(3) if found.is_empty() && is_recovering(&done.json()) => return Ok(()),
            // Not the devices that are its members now.
            Some(2) if last.is_empty() => last = done.said,
            Some(2) => {}
            _ => {
                let said = done.said.replace('\n', " ");
                world.trouble(format!(
                    "{when}: a scrub ended with {:?}: {found:?}, damaged {damage:?}: {said}",
                    done.code
                ));
                return Ok(());
            }
        }
    }
    world.trouble(format!("{when}: no scrub of the members: {last}"));
    Ok(())
}

/// Nothing is in use any more.
fn look_at_rest(world: &World) -> Result<(), Failed> {
    let tags = world.call(&["protect", "--block-size", "4096", "--status", &world.tagged()])?;
    if tags.code != Some(0) || tags.said.contains("not closed") {
        world.trouble(format!("the tags at the end: {}", tags.said.replace('\n', " ")));
    }
    let flash = world.call(&["flash", "check", &world.path("flash").display().to_string()])?;
    if flash.code != Some(0) {
        world.trouble(format!("the flash drive at the end: {}", flash.said.replace('\n', " ")));
    }
    Ok(())
}

fn inside(world: &World, setup: &Setup) -> Result<(), Failed> {
    let client = |number| Client::new(number, world.volume(), &world.load, setup.seed);
    let mut clients: Vec<Client<'_>> = (0..3).map(client).collect();
    prepare(world, &mut clients)?;
    let done = both(world, &mut clients, setup.seconds);
    reasons::judge_calls(world);
    held(&world.calls).clear();
    done?;
    if world.is_served() {
        verify(world, &mut clients[..2], "in service");
    }
    end_serving(world);
    world.stop_nodes();
    world.set_paced(false);
    world.start_nodes()?;
    scrub_members(world, "stopped")?;
    world.serve_again()?;
    verify(world, &mut clients, "served again");
    let until = Instant::now() + 2 * PATIENCE;
    (0..MEMBERS).for_each(|role| world.wait_rebuilt(role, until));
    end_serving(world);
    scrub_members(world, "at the end")?;
    world.stop_nodes();
    reasons::judge_calls(world);
    look_at_rest(world)
}
