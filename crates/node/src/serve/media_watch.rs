//! A thread that checks whether the media have changed, and returns memory to the system. Both can
//! take long, so no core does them.

use super::budget::Ebb;
use super::shared::Shared;
use pumice_blockdev::give_memory_back;
use pumice_nvme::controller::Access;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tracing::error;

/// Interval between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Looks between two of which memory may be given back: a second.
const LOOKS: u32 = 10;
/// Critical warnings of the health page: the reliability is degraded, and the media are read only.
const WARNINGS: u8 = 1 << 2 | 1 << 3;

/// Starts it. It ends when the server stops; to unpark it saves the pause.
pub(super) fn start(shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    Builder::new().name("media-watch".to_owned()).spawn(move || {
        let mut failed = vec![false; shared.devices().len()];
        let mut used = vec![None; failed.len()];
        let (mut ebb, mut looks) = (Ebb::default(), 0_u32);
        while !shared.is_stopping() {
            look(&shared, &mut failed);
            tell_use(&shared, &mut used);
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) && ebb.has_come(shared.accounts().all()) {
                give_memory_back();
            }
            std::thread::park_timeout(PAUSE);
        }
    })
}

/// Keeps how much of each namespace is in use, for drives that know it.
fn tell_use(shared: &Shared, told: &mut [Option<u64>]) {
    for (drive, (device, told)) in shared.devices().iter().zip(told).enumerate() {
        let nsids = shared.nsids_of(drive);
        let used = device.used_bytes().map(|bytes| shared.format(nsids[0]).blocks_in(bytes));
        if used.is_some() && used != *told {
            *told = used;
            shared.subsystem().with(|subsystem| {
                nsids.into_iter().for_each(|nsid| subsystem.set_used(nsid, used.unwrap_or(0)));
            });
        }
    }
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
