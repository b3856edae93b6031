//! State of scrubs: the folder for progress and journal, and seeds.

use crate::failure::Failure;
use pumice_host::error::HostError;
use pumice_host::state::StateFiles;
use pumice_parity::seed::Seed;
use pumice_raid::Uuid;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Opens the folder for progress and journal. If it cannot be used, a plain check only notes it,
/// even if the operator `named` the folder; if it is `needed`, as by a repair, a healing or a
/// resumed pass, that is an error.
///
/// # Errors
/// If it is needed and cannot be used, or is no folder.
pub fn open_state(
    folder: Option<&Path>,
    (named, needed): (bool, bool),
    array: Uuid,
    note: impl FnOnce(&str),
) -> Result<Option<StateFiles>, Failure> {
    let folder = match folder {
        Some(folder) => folder,
        None if needed => {
            return Err(Failure::new(
                "no folder for the state of the scrub is known: name one with --state-dir",
            ));
        }
        None => return Ok(None),
    };
    match StateFiles::open(folder, array) {
        Ok(state) => Ok(Some(state)),
        // A file given as the folder is a mistake in the command, and always an error.
        Err(error @ HostError::State { .. }) if !(needed || named && folder.is_file()) => {
            note(&format!("progress is not saved: {error}"));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// A seed that nobody could have known before.
///
/// # Errors
/// If the system gives no random bytes.
pub fn fresh_seed() -> Result<Seed, Failure> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes))?;
    Ok(Seed(bytes))
}
