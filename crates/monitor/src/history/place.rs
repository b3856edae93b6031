//! The files of the history: folder, database, journal, lock; what is set aside.

use crate::history::Error;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const FILE_MODE: u32 = 0o640;
const FOLDER_MODE: u32 = 0o750;
/// Damaged databases that are kept beside a new one.
const MOST_ASIDE: u32 = 1000;

/// Endings of the files beside a database: its journal, and the files that SQLite makes if a
/// damaged header asks for them.
const COMPANIONS: [&str; 3] = ["-journal", "-wal", "-shm"];

/// State of the database's file before it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum There {
    Nothing,
    Empty,
    Something,
}

pub(crate) fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { path: path.to_owned(), source }
}

/// A path with a word after its name.
pub(crate) fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// The folder of a file.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the names of a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed(folder))
}

/// Makes the folder of the database, and those above, if they are missing; each is durable.
pub(crate) fn make_folder(path: &Path) -> Result<(), Error> {
    let missing = |folder: &&Path| !folder.as_os_str().is_empty() && fs::symlink_metadata(folder).is_err();
    let missing: Vec<&Path> = folder(path).ancestors().take_while(missing).collect();
    for made in missing.into_iter().rev() {
        match DirBuilder::new().mode(FOLDER_MODE).create(made) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(made)(error)),
            _ => sync_folder(folder(made))?,
        }
    }
    Ok(())
}

/// Takes the lock of the process that writes.
pub(crate) fn lock(path: &Path) -> Result<File, Error> {
    let name = with(path, ".lock");
    let mut options = OpenOptions::new();
    let file =
        options.read(true).append(true).create(true).mode(FILE_MODE).open(&name).map_err(failed(&name))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Held { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(&name)(error)),
    }
}

/// Makes the journal durable as it is. A process that was killed at the end of a transaction may
/// have emptied it without a sync; a power cut would bring it back, and undo what is read now.
pub(crate) fn sync_journal(path: &Path) -> Result<(), Error> {
    let name = with(path, "-journal");
    match File::open(&name).and_then(|file| file.sync_all()) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(&name)(error)),
        _ => Ok(()),
    }
}

/// Looks what there is, and makes an empty file if there is nothing, so that its mode is ours.
pub(crate) fn prepare(path: &Path) -> Result<There, Error> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => {
            let empty = file.metadata().map_err(failed(path))?.len() == 0;
            Ok(if empty { There::Empty } else { There::Something })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_file(path)?;
            Ok(There::Nothing)
        }
        Err(error) => Err(failed(path)(error)),
    }
}

/// Makes an empty file that must not be there; the mode does not depend on the mask of the process.
pub(crate) fn make_file(path: &Path) -> Result<(), Error> {
    let made = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path);
    let made = made.and_then(|file| file.set_permissions(Permissions::from_mode(FILE_MODE)));
    made.map_err(failed(path))?;
    sync_folder(folder(path))
}

/// Sets a damaged database aside: its journal first, because a new database beside the journal of
/// the old one would be rolled back with bytes of the old one. Returns the new path.
pub(crate) fn set_aside(path: &Path) -> Result<PathBuf, Error> {
    let is_free = |kept: &PathBuf| {
        let there = |path: &Path| fs::symlink_metadata(path).is_ok();
        !there(kept) && !COMPANIONS.iter().any(|end| there(&with(kept, end)))
    };
    let mut names = (1..=MOST_ASIDE).map(|number| with(path, &format!(".damaged-{number}")));
    let kept = names.find(is_free).ok_or_else(|| Error::Invalid {
        subject: path.display().to_string(),
        what: format!("{MOST_ASIDE} damaged databases are kept beside it; remove some"),
    })?;
    for end in COMPANIONS {
        let from = with(path, end);
        match fs::rename(&from, with(&kept, end)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&from)(error)),
            _ => {}
        }
    }
    sync_folder(folder(path))?;
    fs::rename(path, &kept).map_err(failed(path))?;
    sync_folder(folder(path))?;
    Ok(kept)
}
