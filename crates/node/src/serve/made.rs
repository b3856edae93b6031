//! Files that were made for a drive when it was opened: a node that does not start leaves none.

use pumice_blockdev::{FileDevice, OpenMode, Options};
use std::io;
use std::path::{Path, PathBuf};

/// Files that opening a drive has made. A file that was there before is never among them.
#[derive(Debug, Clone, Default)]
pub struct MadeFiles(Vec<PathBuf>);

impl MadeFiles {
    /// Notes a file that was made. A block device is not noted: only its contents were made.
    pub(super) fn note(&mut self, path: &Path) {
        if path.is_file() {
            self.0.push(path.to_owned());
        }
    }

    /// Adds those of another list.
    pub(super) fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Removes them while their drive is open, so that no other program has them.
    ///
    /// # Errors
    /// Names the first file that cannot be removed.
    pub(super) fn remove_held(&self) -> Result<(), (PathBuf, io::Error)> {
        self.0.iter().try_for_each(|path| std::fs::remove_file(path).map_err(|error| (path.clone(), error)))
    }

    /// Removes them after their drive was closed. A file that another program has taken meanwhile
    /// stays.
    ///
    /// # Errors
    /// Names the first file that cannot be removed.
    pub fn remove(&self) -> Result<(), (PathBuf, io::Error)> {
        self.0.iter().filter(|path| path.exists()).try_for_each(|path| {
            // Its lock is held until it is gone.
            let opened = FileDevice::open(path, OpenMode::ReadWrite, Options::default());
            let removed = match opened {
                Ok(_held) => std::fs::remove_file(path),
                Err(error) => Err(io::Error::other(error.to_string())),
            };
            removed.map_err(|error| (path.clone(), error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_another_program_has_taken_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tags");
        std::fs::write(&path, [0; 4096]).unwrap();
        let mut made = MadeFiles::default();
        made.note(&path);
        made.note(&folder.path().join("another"));
        assert_eq!(made.0, std::slice::from_ref(&path), "what is not there was not made");
        let theirs = FileDevice::open(&path, OpenMode::ReadWrite, Options::default()).unwrap();
        let (named, _) = made.remove().unwrap_err();
        assert_eq!((named, path.exists()), (path.clone(), true));
        drop(theirs);
        made.remove().unwrap();
        assert!(!path.exists());
        made.remove().unwrap();
    }
}
