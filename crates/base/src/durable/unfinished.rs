//! Files that are made under a name of their own, and get their real name when they are whole. A
//! process that ends before that has to remove them.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The files that this process is making.
static FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn files() -> MutexGuard<'static, Vec<PathBuf>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is being made. Its maker removes it; this only remembers it for
/// [`remove_unfinished`].
#[derive(Debug)]
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// Opens a new file, as `options` say, and remembers it until this value is dropped.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn create(path: &Path, options: &OpenOptions) -> io::Result<(Self, File)> {
        // The list is held meanwhile: the file is not made after the others were removed.
        let mut files = files();
        let file = options.open(path)?;
        files.push(path.to_owned());
        Ok((Self(path.to_owned()), file))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        files().retain(|path| *path != self.0);
    }
}

/// Removes all files that this process is making. No other can be begun afterwards: for the end of
/// the process, before which it calls this.
pub fn remove_unfinished() {
    let files = files();
    for path in files.iter() {
        // It may have gone already.
        let _ = std::fs::remove_file(path);
    }
    // A thread that begins one now waits for the end.
    std::mem::forget(files);
}
