//! Processes that end, are killed, or stand still.

use crate::pairs::Failed;
use crate::pairs::clock::Clock;
use crate::pairs::feature::Feature;
use crate::pairs::process::{PATIENCE, Process};
use crate::pairs::world::{VOLUME, World};
use nix::sys::signal::Signal;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time for which a node stands still: longer than a volume waits for it.
const PAUSE: Duration = Duration::from_secs(12);

/// Ends a node in order, and starts it again.
pub(super) fn restart(world: &World, clock: &Clock) -> Result<(), Failed> {
    let node = world.pair.hit(Feature::NodeRestart);
    while let Some(stage) = clock.stage() {
        world.stop_node(node);
        std::thread::sleep(Duration::from_millis(300));
        world.start_node(node)?;
        std::thread::sleep(Duration::from_millis(700));
        world.bring_back(node)?;
        drop(stage);
        clock.rest(Duration::from_secs(2));
    }
    Ok(())
}

/// Has a node stand still for longer than anybody waits for it.
pub(super) fn pause(world: &World, clock: &Clock) -> Result<(), Failed> {
    let node = world.pair.hit(Feature::NodePause);
    while let Some(stage) = clock.stage() {
        world.with_node(node, |process| process.signal(Signal::SIGSTOP));
        std::thread::sleep(PAUSE);
        world.with_node(node, |process| process.signal(Signal::SIGCONT));
        std::thread::sleep(Duration::from_millis(700));
        world.bring_back(node)?;
        drop(stage);
        clock.rest(Duration::from_secs(4));
    }
    Ok(())
}

/// Kills a node, and starts it again.
pub(super) fn kill(world: &World, clock: &Clock) -> Result<(), Failed> {
    let node = world.pair.hit(Feature::NodeKill);
    while let Some(stage) = clock.stage() {
        world.kill_node(node);
        std::thread::sleep(Duration::from_millis(500));
        world.start_node(node)?;
        std::thread::sleep(Duration::from_millis(700));
        world.bring_back(node)?;
        drop(stage);
        clock.rest(Duration::from_secs(2));
    }
    Ok(())
}

/// Stops the volume, and serves it again. Images are served for a while.
pub(super) fn stop_serving(world: &World, clock: &Clock) -> Result<(), Failed> {
    while let Some(stage) = clock.stage() {
        let asked = world.served().as_ref().map(Process::id);
        if asked.is_some() {
            let done = world.volume_call(&["stop", VOLUME])?;
            // Another one may serve by now, if this one was killed meanwhile.
            let process = world.served().take_if(|process| Some(process.id()) == asked);
            if let Some(mut process) = process {
                let ended = process.wait(PATIENCE);
                match ended.map(|status| status.code()) {
                    Some(Some(0)) if done.code == Some(0) => {}
                    Some(Some(0 | 3)) if !done.said.is_empty() => {
                        world.note(format!("volume stop: {:?}: {}", done.code, done.said.replace('\n', " ")));
                    }
                    _ => world.trouble(format!("volume stop: {:?}, {ended:?}: {}", done.code, done.said)),
                }
            }
        }
        std::thread::sleep(Duration::from_millis(500));
        world.serve_again()?;
        drop(stage);
        clock.rest(Duration::from_secs(2));
    }
    Ok(())
}

/// Kills the process that serves the volume, and starts it again.
pub(super) fn kill_serving(world: &World, clock: &Clock) -> Result<(), Failed> {
    while let Some(stage) = clock.stage() {
        world.load.kills.fetch_add(1, Ordering::AcqRel);
        let process = world.served().take();
        if let Some(mut process) = process {
            process.kill();
        }
        std::thread::sleep(Duration::from_millis(500));
        world.serve_again()?;
        drop(stage);
        clock.rest(Duration::from_secs(2));
    }
    Ok(())
}
