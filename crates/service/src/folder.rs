//! The folder of control sockets.

use crate::failure::Failure;
use crate::identity::is_root;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Ending of the names of sockets.
const ENDING: &str = "sock";
const PASSES: &str = "scrubs";

/// The usual folder: of the superuser, or of this user's session.
///
/// # Errors
/// If the session has none.
pub fn default_folder() -> Result<PathBuf, Failure> {
    if is_root() {
        return Ok(PathBuf::from("/run/pumice/volumes"));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute());
    let runtime = runtime.ok_or_else(|| {
        Failure::new("XDG_RUNTIME_DIR is not set: name the folder of the sockets with --run-dir")
    })?;
    Ok(runtime.join("pumice/volumes"))
}

/// The folder of the sockets of passes: below a folder that was named, else beside the usual one of
/// volumes.
///
/// # Errors
/// If none was named, and the session of this user has none.
pub fn passes_folder(named: Option<&Path>) -> Result<PathBuf, Failure> {
    match named {
        Some(folder) => Ok(folder.join(PASSES)),
        None => Ok(default_folder()?.with_file_name(PASSES)),
    }
}

/// Place of the socket of a volume.
pub(crate) fn path_of(folder: &Path, uuid: &str) -> PathBuf {
    folder.join(format!("{}.{ENDING}", uuid.replace(':', "")))
}

/// The sockets of a folder.
pub(crate) fn sockets(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::new(format!("{}: {error}", folder.display()))),
    };
    let mut out: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    out.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
    out.sort();
    Ok(out)
}
