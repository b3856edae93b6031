//! The files of a system below a folder. Nothing is written, and no file is read without a bound.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a file that are read at most.
const MOST_BYTES: u64 = 1 << 20;
/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 10_000;
/// Folders of units of systemd, the most important first.
const UNITS: [&str; 4] =
    ["etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];

/// The root folder of a system.
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// A path of that system, absolute or not, as this process reaches it.
    pub(super) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read, is too long, or is no text.
    pub(super) fn text(&self, path: &str) -> io::Result<Option<String>> {
        let file = match File::open(self.at(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut text = String::new();
        file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(io::Error::other("it is too long"));
        }
        Ok(Some(text))
    }

    /// The same, and nothing of a file that cannot be read.
    pub(super) fn words(&self, path: &str) -> String {
        self.text(path).ok().flatten().unwrap_or_default()
    }

    pub(super) fn exists(&self, path: impl AsRef<Path>) -> bool {
        // A link may lead out of the folder: it is there all the same.
        fs::symlink_metadata(self.at(path)).is_ok()
    }

    pub(super) fn meta(&self, path: &str) -> Option<Metadata> {
        fs::metadata(self.at(path)).ok()
    }

    /// The names in a folder, in order.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(path)).into_iter().flatten().take(MOST_ENTRIES);
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Returns whether a file is a link to /dev/null, or empty: that masks units and udev's rules.
    pub(super) fn is_masked(&self, path: &str) -> bool {
        let path = self.at(path);
        match fs::read_link(&path) {
            Ok(target) => target == Path::new("/dev/null"),
            Err(_) => fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() == 0),
        }
    }

    /// The units that something starts, with a name for which `is_one` holds: those with a link in
    /// a folder `*.wants` or `*.requires`. Units that are masked are left out.
    pub(super) fn enabled(&self, is_one: impl Fn(&str) -> bool) -> Vec<String> {
        let mut out = Vec::new();
        for folder in UNITS {
            for wanting in self.names(folder) {
                if !wanting.ends_with(".wants") && !wanting.ends_with(".requires") {
                    continue;
                }
                out.extend(
                    self.names(&format!("{folder}/{wanting}")).into_iter().filter(|name| is_one(name)),
                );
            }
        }
        out.sort();
        out.dedup();
        out.retain(|name| !UNITS[..2].iter().any(|folder| self.is_masked(&format!("{folder}/{name}"))));
        out
    }

    /// Returns whether a program is there.
    pub(super) fn has_program(&self, name: &str) -> bool {
        ["usr/sbin", "usr/bin", "sbin", "bin", "usr/local/sbin", "usr/local/bin"]
            .iter()
            .any(|folder| self.exists(format!("{folder}/{name}")))
    }
}

/// The permission bits of a file.
pub(super) fn mode(meta: &Metadata) -> u32 {
    meta.mode() & 0o7777
}
