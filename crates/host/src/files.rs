//! Small files that are there whole, or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The name under which a file is written before it takes its own.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Replaces a file: after a crash it holds the old content or the new.
///
/// # Errors
/// Where the file system does not take it.
pub(crate) fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = temporary(path);
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&temporary, path)?;
    sync_folder(path)
}

/// Removes a file, and what an interrupted [`write_durably`] left of it. It need not be there.
///
/// # Errors
/// Where the file system does not let it.
pub(crate) fn remove_durably(path: &Path) -> io::Result<()> {
    for path in [&temporary(path), path] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    sync_folder(path)
}
