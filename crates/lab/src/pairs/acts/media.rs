//! Media: their background work, and faults in them.

use crate::pairs::Failed;
use crate::pairs::clock::Clock;
use crate::pairs::world::World;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Busy and idle in turn: a flash drive does its work when it is left alone for 20 ms.
pub(super) fn flash_idle(world: &World, clock: &Clock) -> Result<(), Failed> {
    while !clock.is_over() {
        world.load.heavy.store(true, Ordering::Release);
        clock.rest(Duration::from_millis(300));
        world.load.rest.store(true, Ordering::Release);
        clock.rest(Duration::from_millis(400));
        world.load.rest.store(false, Ordering::Release);
    }
    world.load.heavy.store(false, Ordering::Release);
    Ok(())
}

/// Writes without a pause, so that the log of the tags goes around.
pub(super) fn tag_checkpoint(world: &World, clock: &Clock) -> Result<(), Failed> {
    world.load.heavy.store(true, Ordering::Release);
    while !clock.is_over() {
        clock.rest(Duration::from_millis(100));
    }
    world.load.heavy.store(false, Ordering::Release);
    Ok(())
}

/// Fills a file system to its last byte.
fn fill(path: &std::path::Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    for len in [1 << 16, 4096, 512, 1] {
        loop {
            match file.write(&vec![1; len]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The file system of a member that has holes, of tags and of their log has no room for a while.
pub(super) fn full_disk(world: &World, clock: &Clock) -> Result<(), Failed> {
    let path = world.path("small/full");
    let wrong = |error: std::io::Error| Failed(format!("{}: {error}", path.display()));
    while let Some(stage) = clock.stage() {
        fill(&path).map_err(wrong)?;
        std::thread::sleep(Duration::from_millis(1500));
        fs::remove_file(&path).map_err(wrong)?;
        std::thread::sleep(Duration::from_millis(300));
        for role in [0, 2] {
            world.bring_back(role)?;
        }
        drop(stage);
        clock.rest(Duration::from_secs(1));
    }
    Ok(())
}
