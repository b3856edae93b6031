//! Files of keys: who may read them, and their texts. `docs/design/access.md`, *Files of keys*.

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use std::fs::{Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Bytes of a file of a key, at most.
const MOST: usize = 4096;

/// Reasons to refuse a file of a key. None of them shows what is in it.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be opened or read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It, or its folder, is not safe: another account could read or exchange it.
    #[error("{}: {why}", path.display())]
    Unsafe {
        /// The file or folder.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// Its content is no text of a key.
    #[error("{}: {why}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
}

/// Reads the text of a key, without the end of its line. A file in `credentials`, the folder that
/// the service manager has made for this process ($CREDENTIALS_DIRECTORY), is taken as it is; a
/// relative path is one in there.
///
/// # Errors
/// If the file is missing, is not a regular file of at most 4096 bytes, or if another account than
/// root and that of the process may read it or exchange it.
pub fn read_key(path: &Path, credentials: Option<&Path>) -> Result<Zeroizing<String>, KeyFileError> {
    let given = match credentials {
        Some(folder) if path.is_relative() => Some(folder.join(path)),
        Some(folder) => path.starts_with(folder).then(|| path.to_owned()),
        None => None,
    };
    let (path, is_given) = match &given {
        Some(path) => (path.as_path(), true),
        None => (path, false),
    };
    let failed = |source| KeyFileError::Read { path: path.to_owned(), source };
    let refused =
        |path: &Path, why: &str| KeyFileError::Unsafe { path: path.to_owned(), why: why.to_owned() };
    if path.is_relative() {
        return Err(refused(path, "the path must be absolute, or in $CREDENTIALS_DIRECTORY"));
    }
    // A link could be exchanged after the look at its target; a pipe would be waited for.
    let follow = if is_given { OFlag::empty() } else { OFlag::O_NOFOLLOW };
    let flags = follow | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).map_err(failed)?;
    let seen = file.metadata().map_err(failed)?;
    if !seen.is_file() {
        return Err(refused(path, "it is no regular file"));
    }
    if !is_given {
        check(&seen).map_err(|why| refused(path, &why))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("/"));
        let seen = std::fs::metadata(folder)
            .map_err(|source| KeyFileError::Read { path: folder.to_owned(), source })?;
        check(&seen).map_err(|why| refused(folder, &why))?;
    }
    text(path, &mut file)
}

/// Owned by root or this process, and nothing for others.
fn check(seen: &Metadata) -> Result<(), String> {
    if seen.uid() != 0 && seen.uid() != geteuid().as_raw() {
        return Err("its owner is neither root nor the account of this process".to_owned());
    }
    match seen.mode() & 0o077 {
        0 => Ok(()),
        _ => Err(format!("its mode is {:04o}: group and others must have no bits", seen.mode() & 0o7777)),
    }
}

fn text(path: &Path, file: &mut impl io::Read) -> Result<Zeroizing<String>, KeyFileError> {
    let failed = |source| KeyFileError::Read { path: path.to_owned(), source };
    let content = |why: &str| KeyFileError::Content { path: path.to_owned(), why: why.to_owned() };
    // All of its room from the beginning: a buffer that grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MOST + 1));
    file.take(MOST as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MOST {
        return Err(content(&format!("it has more than {MOST} bytes")));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| content("it is no text"))?;
    Ok(Zeroizing::new(text.trim_end_matches(['\n', '\r']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    fn folder(mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        let file = folder.path().join("key");
        fs::write(&file, "DHHC-1:00:text:\n").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        (folder, file)
    }

    #[test]
    fn a_key_is_read_where_nobody_else_can() {
        let (_folder, file) = folder(0o700);
        assert_eq!(*read_key(&file, None).unwrap(), "DHHC-1:00:text:");
        for mode in [0o640, 0o604, 0o610, 0o601, 0o620, 0o602] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let error = read_key(&file, None).unwrap_err().to_string();
            assert!(error.contains("group and others") && error.contains("key"), "{mode:o}: {error}");
        }
    }

    #[test]
    fn its_folder_is_looked_at_too() {
        for mode in [0o750, 0o705, 0o711, 0o770] {
            let (folder, file) = folder(mode);
            let error = read_key(&file, None).unwrap_err().to_string();
            assert!(error.starts_with(folder.path().to_str().unwrap()), "{error}");
            assert!(!error.contains("/key:"), "the folder is named: {error}");
        }
    }

    #[test]
    fn links_folders_and_long_files_are_no_keys() {
        let (folder, file) = folder(0o700);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(matches!(read_key(&link, None), Err(KeyFileError::Read { .. })));
        assert!(read_key(folder.path(), None).unwrap_err().to_string().contains("no regular file"));
        fs::write(&file, vec![b'a'; MOST + 1]).unwrap();
        assert!(read_key(&file, None).unwrap_err().to_string().contains("more than"));
        fs::write(&file, [0xFF]).unwrap();
        assert!(read_key(&file, None).unwrap_err().to_string().contains("no text"));
        assert!(read_key(Path::new("key"), None).unwrap_err().to_string().contains("absolute"));
        assert!(read_key(&folder.path().join("none"), None).is_err());
    }

    #[test]
    fn what_the_service_manager_gives_is_taken_as_it_is() {
        let (folder, file) = folder(0o755);
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert!(read_key(&file, None).is_err());
        for path in [file.as_path(), Path::new("key")] {
            assert!(read_key(path, Some(folder.path())).is_ok(), "{path:?}");
        }
        let elsewhere = Path::new("/nonexistent");
        assert!(read_key(&file, Some(elsewhere)).is_err(), "another folder is no excuse");
    }
}
