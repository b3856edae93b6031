//! A store in the file system.

use crate::durable::Store;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files are for their owner alone: they may hold bytes of users' data.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// A folder of the file system. It need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder at a path; an empty path is the current folder.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self(if path.as_os_str().is_empty() { PathBuf::from(".") } else { path })
    }

    /// The folder of a file, and the file's name in it.
    ///
    /// # Errors
    /// If the path does not end in a name, or that is not UTF-8 (kind `InvalidInput`).
    pub fn of(file: &Path) -> io::Result<(Self, String)> {
        let name = file.file_name().and_then(OsStr::to_str);
        let name = name.ok_or_else(|| {
            let text = format!("{}: no file name in UTF-8", file.display());
            io::Error::new(ErrorKind::InvalidInput, text)
        })?;
        Ok((Self::new(file.parent().unwrap_or(Path::new(""))), name.to_owned()))
    }

    /// Locks a name for as long as the returned value lives; `None` if another process has it.
    ///
    /// If the lock's file cannot be created because the folder is read-only, an existing one is
    /// locked.
    ///
    /// # Errors
    /// If the file can be neither made nor opened, or the file system has no locks.
    pub fn lock(&self, name: &str) -> io::Result<Option<Lock>> {
        let path = self.path(name);
        loop {
            let made = OpenOptions::new().write(true).create(true).mode(FILE_MODE).open(&path);
            let file = match made {
                Err(made) => File::open(&path).map_err(|_| made)?,
                Ok(file) => file,
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let held = file.metadata()?;
            // Its last holder may have removed the file after it was opened here.
            let same = |there: fs::Metadata| (there.dev(), there.ino()) == (held.dev(), held.ino());
            if fs::metadata(&path).is_ok_and(same) {
                return Ok(Some(Lock { path, _file: file }));
            }
        }
    }
}

/// A lock of a name in a folder. Its file is removed when this value is dropped.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    // Held for its lock alone.
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before the lock is given up. A file that stays is used by the next one.
        let _ = fs::remove_file(&self.path);
    }
}

impl Store for Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                // A name that is not UTF-8 is not one of ours.
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    }

    fn read(&self, name: &str, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(self.path(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::new(ErrorKind::FileTooLarge, format!("longer than {limit} bytes")));
        }
        Ok(Some(bytes))
    }

    fn read_at(&self, name: &str, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        File::open(self.path(name))?.read_exact_at(buf, offset)
    }

    fn create(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let new = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(self.path(name));
        new?.write_all(content)
    }

    fn write_at(&self, name: &str, offset: u64, data: &[u8]) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.path(name))?.write_all_at(data, offset)
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        // A failed write-back that nobody was told of yet is told to this descriptor too.
        File::open(self.path(name))?.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<bool> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn folder(&self, name: &str) -> Arc<dyn Store> {
        Arc::new(Self(self.0.join(name)))
    }

    fn make(&self) -> io::Result<()> {
        make(&self.0)
    }
}

/// Makes a folder with those above it, each durable before the next is made in it: a folder whose
/// name is lost takes everything in it along.
fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    make(parent)?;
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        // Another process was faster. It may not have come to make the name durable.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::{remove, replace, sweep};

    #[test]
    fn a_file_is_replaced_and_removed_and_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path().join("a/b/c"));
        folder.make().unwrap();
        folder.make().unwrap();
        for above in ["a", "a/b"] {
            assert_eq!(fs::metadata(root.path().join(above)).unwrap().mode() & 0o777, 0o700);
        }
        assert_eq!(folder.read("f", 10).unwrap(), None);
        replace(&folder, "f", b"one").unwrap();
        replace(&folder, "f", b"two").unwrap();
        assert_eq!(folder.read("f", 3).unwrap().unwrap(), b"two");
        assert_eq!(folder.read("f", 2).unwrap_err().kind(), ErrorKind::FileTooLarge);
        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(folder.path("f")), mode(folder.path(""))), (0o600, 0o700));
        assert_eq!(folder.names().unwrap(), ["f"]);
        remove(&folder, "f").unwrap();
        remove(&folder, "f").unwrap();
        assert!(folder.names().unwrap().is_empty());
    }

    #[test]
    fn what_an_interrupted_replacement_left_is_swept_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path());
        for name in [".f.x.1-2.tmp", ".g.1-2.tmp", "f.x.tmp", ".f.x.1-2"] {
            folder.create(name, b"").unwrap();
        }
        assert_eq!(sweep(&folder, "f.").unwrap(), 1);
        let mut names = folder.names().unwrap();
        names.sort();
        assert_eq!(names, [".f.x.1-2", ".g.1-2.tmp", "f.x.tmp"]);
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_content_and_no_temporary_file() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path());
        // A folder cannot be replaced by a file.
        fs::create_dir(folder.path("f")).unwrap();
        assert!(replace(&folder, "f", b"new").is_err());
        assert!(folder.names().unwrap().is_empty());
    }

    #[test]
    fn a_lock_is_held_once_and_its_file_goes_with_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path());
        // Left by a process that was killed: nobody holds it.
        folder.create("a.lock", b"").unwrap();
        let lock = folder.lock("a.lock").unwrap().unwrap();
        assert!(folder.lock("a.lock").unwrap().is_none());
        assert!(folder.lock("b.lock").unwrap().is_some());
        drop(lock);
        assert!(folder.names().unwrap().is_empty());
        assert!(folder.lock("a.lock").unwrap().is_some());
    }
}
