//! The watch over a volume in service: looks at it twice a second, and tells what has changed.

use crate::api::{Event, Volume};
use crate::changes::Seen;
use crate::events::EventLog;
use crate::status::document;
use pumice_executor::{Control, ControlError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The interval of looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The time that the volume has to answer one: it may wait for a silent node.
const LOOK_TIME: Duration = Duration::from_secs(5);

/// The last look at a volume, for those who must not wait for it.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    seen: Mutex<Seen>,
    /// Reasons why drives that answer again have not their roles back.
    kept_out: Mutex<BTreeMap<u16, String>>,
    ended: AtomicBool,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Latest {
    /// The last look.
    pub(crate) fn volume(&self) -> Option<Volume> {
        lock(&self.seen).volume().cloned()
    }

    /// Adds what the volume itself does not know.
    pub(crate) fn complete(&self, volume: &mut Volume) {
        let mut kept_out = lock(&self.kept_out);
        let gone = |role: &u16| volume.members.iter().any(|m| m.role == *role && m.absent.is_some());
        kept_out.retain(|role, _| gone(role));
        for member in &mut volume.members {
            if let Some(absent) = &mut member.absent {
                absent.kept_out = kept_out.get(&member.role).cloned();
            }
        }
    }

    /// A drive that answers again has not its role back. Returns whether this is news.
    pub(crate) fn keep_out(&self, role: u16, why: &str) -> bool {
        lock(&self.kept_out).insert(role, why.to_owned()).as_deref() != Some(why)
    }

    /// The drive of a role is not kept out any more.
    pub(crate) fn let_in(&self, role: u16) {
        lock(&self.kept_out).remove(&role);
    }

    /// The volume ends, and nobody looks any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Returns whether the volume ends.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Looks at the volume once. Returns whether there will be more to see.
    fn look(&self, control: &Control, events: &EventLog) -> bool {
        match control.status_within(LOOK_TIME) {
            Ok(status) => {
                let mut volume = document(&status, None);
                self.complete(&mut volume);
                let changes: Vec<Event> = lock(&self.seen).changes(volume);
                changes.into_iter().for_each(|event| events.emit(event));
                true
            }
            // It waits for a node, and will say so.
            Err(ControlError::Unanswered) => true,
            Err(_) => false,
        }
    }
}

/// Watches a volume until it ends.
///
/// # Errors
/// If the system has no thread for it.
pub(crate) fn watch(control: Control, latest: &Arc<Latest>, events: &Arc<EventLog>) -> std::io::Result<()> {
    let (latest, events) = (Arc::clone(latest), Arc::clone(events));
    std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
        while !latest.has_ended() && latest.look(&control, &events) {
            std::thread::sleep(LOOK_EVERY);
        }
    })?;
    Ok(())
}
