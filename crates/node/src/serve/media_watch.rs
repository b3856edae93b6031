//! A thread that looks whether the media are still what they were: that can take long where one hangs, so no core does it.

use super::shared::Shared;
use pumice_nvme::controller::Access;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tracing::error;

/// How often it looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Critical warnings of the health page: the reliability is degraded, and the media are read only.
const WARNINGS: u8 = 1 << 2 | 1 << 3;

/// Starts it. It ends when the server stops; to unpark it saves the pause.
pub(super) fn start(shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    Builder::new().name("media-watch".to_owned()).spawn(move || {
        let mut failed = vec![false; shared.devices().len()];
        while !shared.is_stopping() {
            look(&shared, &mut failed);
            std::thread::park_timeout(PAUSE);
        }
    })
}

fn look(shared: &Shared, failed: &mut [bool]) {
    for (index, device) in shared.devices().iter().enumerate() {
        if failed[index] {
            continue;
        }
        if let Some(why) = device.failing() {
            failed[index] = true;
            error!(drive = index + 1, name = device.name(), why, "drive failed");
            shared.metrics().drive_failed(index);
            shared.subsystem().with(|subsystem| subsystem.set_media_warnings(WARNINGS));
        }
    }
}
