//! Threads for the internal work of drives while hosts leave them idle: garbage collection and
//! deduplication of flash drives.

use super::shared::Shared;
use pumice_blockdev::{Background, IoError};
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tracing::error;

/// Interval at which a drive without work is looked at.
const PAUSE: Duration = Duration::from_millis(50);
/// Time that hosts must have left a drive alone, if nobody asked for a pace.
const QUIET: Duration = Duration::from_millis(20);

/// Starts a thread for each drive that has work of its own. They end when the server stops; to
/// unpark one saves the pause.
pub(super) fn start(shared: &Arc<Shared>) -> io::Result<Vec<JoinHandle<()>>> {
    let with_work = |index: &usize| shared.devices()[*index].background().is_some();
    let spawn = |index: usize| {
        let shared = Arc::clone(shared);
        Builder::new().name(format!("background{}", index + 1)).spawn(move || run(&shared, index))
    };
    (0..shared.devices().len()).filter(with_work).map(spawn).collect()
}

fn run(shared: &Shared, index: usize) {
    let device = &shared.devices()[index];
    let Some(work) = device.background() else { return };
    while !shared.is_stopping() {
        match piece(shared, index, work) {
            Ok(true) => {}
            Ok(false) => std::thread::park_timeout(PAUSE),
            Err(error) => {
                // What the drive does for hosts says the same, if it is more than this.
                error!(drive = index + 1, name = device.name(), %error, "background work ends");
                return;
            }
        }
    }
}

/// Does a piece of work, if there is one and it is time; whether it did.
fn piece(shared: &Shared, index: usize, work: &dyn Background) -> Result<bool, IoError> {
    let wanted = work.wanted();
    if wanted == 0 {
        return Ok(false);
    }
    let pacing = shared.pacing();
    if !pacing.is_active() {
        let quiet = work.quiet() >= QUIET;
        if quiet {
            work.work(wanted)?;
        }
        return Ok(quiet);
    }
    let reader = pacing.reader(index, 0);
    let Some(granted) = reader.start(wanted, &|| !shared.is_stopping()) else { return Ok(false) };
    let done = work.work(granted);
    reader.done(*done.as_ref().unwrap_or(&0));
    done.map(|_| true)
}
