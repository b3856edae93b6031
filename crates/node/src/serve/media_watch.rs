//! A thread that checks whether the media have changed, and returns memory to the system. Both can
//! take long, so no core does them.

use super::budget::Ebb;
use super::shared::Shared;
use pumice_blockdev::{BlockDevice, give_memory_back};
use pumice_nvme::controller::Access;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tracing::error;

/// How often it looks.
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
        // Whoever opened the drives has told of those that were stale then.
        let mut stale: Vec<bool> = shared.devices().iter().map(|device| has_stale_tags(&**device)).collect();
        let (mut ebb, mut looks) = (Ebb::default(), 0_u32);
        while !shared.is_stopping() {
            look(&shared, &mut failed);
            tell_use(&shared, &mut used);
            tell_stale(shared.devices(), &mut stale);
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

fn has_stale_tags(device: &dyn BlockDevice) -> bool {
    device.tagged().is_some_and(|tagged| tagged.counts().stale)
}

/// Says, once for each drive, that its tags have become stale.
fn tell_stale(devices: &[Arc<dyn BlockDevice>], told: &mut [bool]) {
    for (index, (device, told)) in devices.iter().zip(told).enumerate() {
        if !*told && has_stale_tags(&**device) {
            *told = true;
            error!(drive = index + 1, name = device.name(), "the tags are stale: nothing is refused");
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

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_blockdev::MemoryDevice;
    use pumice_protect::guard::Guard;
    use pumice_tags::{TaggedDevice, make_in_memory};
    use std::sync::atomic::{AtomicU64, Ordering};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    /// Counts errors that say that tags are stale.
    #[derive(Clone, Default)]
    struct Lines(Arc<AtomicU64>);

    impl Visit for &Lines {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            let is_it = field.name() == "message" && format!("{value:?}").contains("the tags are stale");
            self.0.fetch_add(u64::from(is_it), Ordering::Relaxed);
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, about: &Metadata<'_>) -> bool {
            *about.level() == Level::ERROR
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            event.record(&mut &*self);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn tags_that_become_stale_while_the_node_runs_are_logged_once() {
        const BLOCKS: u64 = 1000;
        let drive = Arc::new(MemoryDevice::new("d", BLOCKS * 512));
        let tags = make_in_memory(&*drive, 512, Guard::Crc16).unwrap();
        let tagged = Arc::new(TaggedDevice::open(drive.clone(), tags, "").unwrap());
        tagged.write_at(0, &[1; BLOCKS as usize * 512]).unwrap();
        let devices: [Arc<dyn BlockDevice>; 2] = [Arc::new(MemoryDevice::new("plain", 512)), tagged.clone()];
        let (lines, mut told) = (Lines::default(), [false; 2]);
        let mut lines_now = || {
            tracing::subscriber::with_default(lines.clone(), || tell_stale(&devices, &mut told));
            lines.0.load(Ordering::Relaxed)
        };
        assert_eq!(lines_now(), 0);
        // Somebody writes past the node, and hosts read.
        drive.write_at(0, &[2; 100 * 512]).unwrap();
        let mut block = [0; 512];
        let refused = (0..100).filter(|at| tagged.read_at(at * 512, &mut block).is_err()).count();
        assert!(refused > 0 && tagged.is_stale());
        assert_eq!([lines_now(), lines_now()], [1, 1]);
    }
}
