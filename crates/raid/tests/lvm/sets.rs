//! Volume groups that Linux and LVM made.
//!
//! The images are large and not in the repository. `PUMICE_LVM_IMAGES` names a folder with, for
//! each set, `NAME.tar.zst`, the physical volumes `a.raw`, `b.raw`, …, and a folder `NAME`:
//! `content.sha256` (hash, volume and bytes of each volume, as the kernel read it), `dm-table.txt`,
//! `dm-status.txt`, `damage.txt`. A folder `after1` in it counts instead, if there is one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use pumice_raid::ReadAt;
use pumice_raid::lvm::{Device, Survey, survey};

/// A device in a file, with some bytes changed.
pub(crate) struct Image {
    pub(crate) name: String,
    file: File,
    bytes: u64,
    /// Places and bytes that differ from the file; the last that covers a byte counts.
    pub(crate) changes: Vec<(u64, Vec<u8>)>,
}

impl Image {
    fn open(path: &Path) -> Self {
        let file = File::open(path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        Self { name, bytes: file.metadata().unwrap().len(), file, changes: Vec::new() }
    }

    /// Cuts the device short.
    pub(crate) fn cut(&mut self, bytes: u64) {
        self.bytes = bytes;
    }
}

impl ReadAt for Image {
    fn size_bytes(&self) -> u64 {
        self.bytes
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_exact_at(buf, offset)?;
        for (start, bytes) in &self.changes {
            for (i, byte) in bytes.iter().enumerate() {
                if let Some(at) = (start + i as u64).checked_sub(offset).filter(|at| *at < buf.len() as u64) {
                    buf[at as usize] = *byte;
                }
            }
        }
        Ok(())
    }
}

/// A set: what was written down of it, and its physical volumes.
pub(crate) struct Set {
    pub(crate) name: String,
    about: PathBuf,
    folder: PathBuf,
}

impl Set {
    pub(crate) fn devices(&self) -> Vec<Image> {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.iter().map(|path| Image::open(path)).collect()
    }

    /// A text that was written down, if it was.
    pub(crate) fn about(&self, file: &str) -> Option<String> {
        let places = [self.about.join("after1").join(file), self.about.join(file)];
        places.iter().find_map(|path| fs::read_to_string(path).ok())
    }

    /// The volumes that the kernel read: name with the group's, bytes, hash.
    pub(crate) fn contents(&self) -> Vec<(String, u64, String)> {
        let text = self.about("content.sha256").unwrap();
        let line = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[1].to_owned(), words[2].parse().unwrap(), words[0].to_owned())
        };
        text.lines().map(line).collect()
    }
}

/// The sets, unpacked once for all tests; none, said aloud, where nobody has put them.
pub(crate) fn sets() -> &'static [Set] {
    static SETS: OnceLock<Vec<Set>> = OnceLock::new();
    SETS.get_or_init(|| {
        let Some(folder) = std::env::var_os("PUMICE_LVM_IMAGES").map(PathBuf::from) else {
            eprintln!("SKIPPED: PUMICE_LVM_IMAGES is not set, no real volume is tried");
            return Vec::new();
        };
        let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lvm-images");
        let mut found: Vec<Set> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|about| about.join("content.sha256").exists() && holds_lvm(about))
            .map(|about| {
                let name = about.file_name().unwrap().to_str().unwrap().to_owned();
                Set { folder: unpacked.join(&name), name, about }
            })
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        assert!(!found.is_empty(), "no volume group in {}", folder.display());
        for set in &found {
            // Kept between runs, and written anew by each.
            fs::create_dir_all(&set.folder).unwrap();
            let archive = folder.join(format!("{}.tar.zst", set.name));
            let mut tar = Command::new("tar");
            let done = tar.args(["-I", "zstd", "-xSf"]).arg(&archive).arg("-C").arg(&set.folder).status();
            assert!(done.unwrap().success(), "{} unpacks", archive.display());
        }
        found
    })
}

/// Returns whether a set was written down as one of LVM's: the text of a group is beside it.
fn holds_lvm(about: &Path) -> bool {
    fs::read_dir(about)
        .unwrap()
        .any(|entry| entry.unwrap().file_name().to_str().is_some_and(|name| name.starts_with("metadata-")))
}

pub(crate) fn named(devices: &[Image]) -> Vec<Device<'_>> {
    devices.iter().map(|image| Device { name: &image.name, bytes: image }).collect()
}

pub(crate) fn look(devices: &[Image]) -> Survey {
    survey(&named(devices))
}
