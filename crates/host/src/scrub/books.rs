//! The journal and archive that a repairing scrub needs before it may write, and interrupted
//! repairs found in them.

use super::options::Options;
use crate::error::HostError;
use crate::locks::Purpose;
use crate::pass::Observer;
use crate::repair::{Books, Found};
use crate::state::{SavedPass, StateFiles};
use crate::stop::Stop;
use crate::target::Target;
use crate::{date, repair};

/// Prepares for repairs: a settled journal, the archive, and a writable state directory. Call it
/// after all checks that can refuse the command, because a recovery writes.
pub(super) fn open_books(
    target: &Target,
    state: &StateFiles,
    saved: &SavedPass,
    options: &Options,
    (observer, stop): (&mut dyn Observer, &Stop),
) -> Result<Books, HostError> {
    let archive = state.archive();
    let found = state.journal()?;
    if let Some(why) = state.read_only() {
        return Err(HostError::NotKept { path: archive.path(), reason: why.to_owned() });
    }
    // An interrupted repair is finished in its stripe.
    let stripe = match &found {
        Found::Waiting(waiting) => Some(waiting.intent().stripe).filter(|s| *s < target.layout().stripes()),
        Found::Settled(_) => None,
    };
    let lock = stripe.map(|stripe| target.lock(stripe..stripe + 1, Purpose::Repair, stop)).transpose()?;
    let (recovery, journal) = repair::recover(target, found, &archive)?;
    drop(lock);
    if recovery != repair::Recovery::Nothing {
        observer.note(&recovery.to_string());
    }
    // A directory that is full says so now, not in the middle.
    state.save(saved)?;
    let deleted = archive.tidy(date::now(), options.keep_repairs)?;
    if deleted > 0 {
        let path = archive.path();
        observer
            .note(&format!("deleted the replaced bytes of {deleted} old repairs from {}", path.display()));
    }
    Ok(Books { journal, archive, pass: saved.pass })
}

/// Notes an interrupted repair, for a pass that does not repair.
pub(super) fn note_waiting(state: &StateFiles, observer: &mut dyn Observer) {
    match state.journal() {
        Ok(Found::Settled(_)) => {}
        Ok(Found::Waiting(waiting)) => {
            let roles: Vec<String> = waiting.intent().records.iter().map(|r| r.role.to_string()).collect();
            observer.note(&format!(
                "a repair of this array was interrupted, in stripe {} of member {}; run with --repair to finish it ({})",
                waiting.intent().stripe,
                roles.join(", "),
                waiting.path().display()
            ));
        }
        Err(error) => observer.note(&format!("a repair of this array was interrupted: {error}")),
    }
}

pub(super) fn no_repair(allowed: &'static str) -> HostError {
    HostError::Option { option: "--repair", value: "on".to_owned(), allowed }
}
