//! Files that are replaced atomically.

use crate::durable::Store;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Suffix of temporary names.
const TEMPORARY: &str = ".tmp";

/// Makes temporary names of one process differ.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Replaces a file: after a crash it holds the old content or the new.
///
/// # Errors
/// If the store fails. If it fails before the rename, the file has its old content. If only the
/// sync of the folder failed, the file has the new content, but a crash may revert it.
pub fn replace(store: &dyn Store, name: &str, content: &[u8]) -> io::Result<()> {
    let temporary = create_temporary(store, name, content)?;
    let renamed = store.sync(&temporary).and_then(|()| store.rename(&temporary, name));
    if let Err(error) = renamed {
        // Best effort: what is left of it is swept later.
        let _ = store.remove(&temporary);
        return Err(error);
    }
    store.sync_folder()
}

fn create_temporary(store: &dyn Store, name: &str, content: &[u8]) -> io::Result<String> {
    loop {
        // Relaxed: only that every number is taken once matters.
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = format!(".{name}.{}-{number}{TEMPORARY}", std::process::id());
        match store.create(&temporary, content) {
            Ok(()) => return Ok(temporary),
            // An earlier process with the same number left it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                // The first error is told; a temporary file that stays is of no name that counts.
                let _ = store.remove(&temporary);
                return Err(error);
            }
        }
    }
}

/// Removes a file; it need not exist. When this returns, it stays removed after a crash.
///
/// # Errors
/// If the store does not let it.
pub fn remove(store: &dyn Store, name: &str) -> io::Result<()> {
    // Synced even if nothing was there: an earlier removal may not be durable yet.
    store.remove(name)?;
    store.sync_folder()
}

/// Removes the temporary files that interrupted calls of [`replace`] left for names that begin with
/// `prefix`, and says how many there were. Nobody else may be replacing these files meanwhile.
///
/// # Errors
/// If the store does not let it.
pub fn sweep(store: &dyn Store, prefix: &str) -> io::Result<usize> {
    let hidden = format!(".{prefix}");
    let mut swept = 0;
    for name in store.names()? {
        if name.starts_with(&hidden) && name.ends_with(TEMPORARY) {
            swept += usize::from(store.remove(&name)?);
        }
    }
    Ok(swept)
}
