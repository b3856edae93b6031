//! Orders to the process that serves the volume.

use crate::pairs::Failed;
use crate::pairs::call::CallResult;
use crate::pairs::clock::Clock;
use crate::pairs::feature::Feature;
use crate::pairs::world::{FOREIGN, SPARE, VOLUME, World};
use std::time::Duration;

/// Notes why an order was not carried out: the other feature is the reason, and it must be said.
fn unless_done(world: &World, what: &str, done: &CallResult) -> bool {
    if done.code == Some(0) {
        return true;
    }
    let said = done.said.replace('\n', " ");
    if said.is_empty() {
        world.trouble(format!("{what}: {:?}, without a word", done.code));
    } else {
        world.note(format!("{what}: {:?}: {said}", done.code));
    }
    false
}

/// The other of the two devices of a role.
fn other(world: &World, role: usize, drive: u32) -> Option<String> {
    let (_, device) = world.member(role)?;
    let (own, spare) = (world.name(role, 1), world.name(SPARE, drive));
    Some(if device == spare { own } else { spare })
}

/// Fails member 3 and has another device rebuilt in its place.
pub(super) fn rebuild(world: &World, clock: &Clock) -> Result<(), Failed> {
    while !clock.is_over() {
        let Some(device) = other(world, 3, 1) else {
            clock.rest(Duration::from_millis(200));
            continue;
        };
        let failed = world.volume_call(&["fail", VOLUME, "3"])?;
        unless_done(world, "volume fail", &failed);
        if let Some(added) = world.add(&device, true)? {
            unless_done(world, "volume add", &added);
        }
        world.wait_in_sync(3, || clock.is_over());
        clock.rest(Duration::from_millis(200));
    }
    Ok(())
}

/// Replaces member 4, to and fro.
pub(super) fn replace(world: &World, clock: &Clock) -> Result<(), Failed> {
    while !clock.is_over() {
        let Some(device) = other(world, 4, 2) else {
            clock.rest(Duration::from_millis(200));
            continue;
        };
        let done = world.volume_call(&["replace", VOLUME, "4", &device, "--force"])?;
        if unless_done(world, "volume replace", &done) {
            world.wait_in_sync(4, || clock.is_over());
        }
        clock.rest(Duration::from_millis(200));
    }
    Ok(())
}

/// Fails member 2, and takes it back.
pub(super) fn fail(world: &World, clock: &Clock) -> Result<(), Failed> {
    while let Some(stage) = clock.stage() {
        let done = world.volume_call(&["fail", VOLUME, "2"])?;
        unless_done(world, "volume fail", &done);
        std::thread::sleep(Duration::from_millis(500));
        world.bring_back(2)?;
        drop(stage);
        world.wait_in_sync(2, || clock.is_over());
        clock.rest(Duration::from_millis(300));
    }
    Ok(())
}

/// Adds devices that hold data: each is refused, and is free for others at once.
pub(super) fn add_refused(world: &World, clock: &Clock) -> Result<(), Failed> {
    let file = world.path("data");
    let wrong = |error: std::io::Error| Failed(format!("{}: {error}", file.display()));
    let mut bytes = crate::pairs::ledger::content(2, 2);
    bytes.resize(4 << 20, 0);
    std::fs::write(&file, bytes).map_err(wrong)?;
    let (device, node) = (file.display().to_string(), world.name(FOREIGN, 1));
    let tagged = format!("{device},pi=16,tags={device}.tags");
    while !clock.is_over() {
        for name in [&device, &node] {
            if !world.is_served() {
                continue;
            }
            let done = world.volume_call(&["add", VOLUME, name])?;
            if done.code == Some(0) {
                world.trouble(format!("a device with data was taken: {name}"));
            } else if !done.said.contains("not zero") {
                world.note(format!("volume add: {}", done.said.replace('\n', " ")));
            }
        }
        // What locks the file for itself must get it.
        let free = world.call(&["protect", &tagged])?;
        if free.code != Some(0) {
            world.trouble(format!("a refused file stays in use: {}", free.said));
        }
        let off = world.call(&["protect", "--off", &tagged])?;
        if free.code == Some(0) && off.code != Some(0) {
            world.trouble(format!("protect --off of a refused file: {}", off.said));
        }
        let free = world.call(&["drives", &node["nvme://".len()..node.len() - 2]])?;
        if free.code != Some(0) {
            world.trouble(format!("the node of a refused drive stays held: {}", free.said));
        }
        clock.rest(Duration::from_millis(200));
    }
    Ok(())
}

/// Asks for the state of the volume.
pub(super) fn status(world: &World, clock: &Clock) -> Result<(), Failed> {
    let is_away = world.pair.any(|f| matches!(f, Feature::ServeStop | Feature::ServeKill));
    while !clock.is_over() {
        for args in [&["status", VOLUME][..], &["list"]] {
            let done = world.volume_call(args)?;
            if done.code != Some(0) && !is_away {
                world.trouble(format!("{args:?}: {:?}: {}", done.code, done.said));
            }
        }
        clock.rest(Duration::from_millis(200));
    }
    Ok(())
}
