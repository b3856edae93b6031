//! Opens the devices and files of this machine that are named, and finds out who uses them.

use crate::access::Access;
use crate::failure::Failure;
use crate::name::RemoteName;
use crate::part::{self, Part, part_of};
use crate::tagged;
use pumice_blockdev::{BlockDevice, FileDevice, OpenMode, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The named devices, with an assembled array replaced by its members.
///
/// # Errors
/// If a name is none, or the members of an array cannot be listed.
pub fn expand(paths: &[PathBuf], sysfs: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut out = Vec::new();
    for path in paths {
        if RemoteName::of(path)?.is_some() {
            out.push(path.clone());
            continue;
        }
        match md_members(path, sysfs)? {
            Some(members) => out.extend(members),
            None => out.push(path.clone()),
        }
    }
    Ok(out)
}

/// The members of an assembled md array, found through sysfs; `None` if the path is no such
/// array.
fn md_members(path: &Path, sysfs: &Path) -> Result<Option<Vec<PathBuf>>, Failure> {
    // /dev/md/name is a link to /dev/mdX.
    let Ok(real) = path.canonicalize() else { return Ok(None) };
    let Some(name) = real.file_name().filter(|_| real.starts_with("/dev")) else { return Ok(None) };
    let block = sysfs.join("class/block").join(name);
    if !block.join("md").is_dir() {
        return Ok(None);
    }
    let entries = std::fs::read_dir(block.join("slaves")).map_err(|error| {
        Failure::new(format!("{}: its members cannot be listed: {error}", path.display()))
    })?;
    let mut members = Vec::new();
    for entry in entries {
        members.push(Path::new("/dev").join(entry?.file_name()));
    }
    if members.is_empty() {
        return Err(Failure::new(format!(
            "{}: the array is not running, so it has no members",
            path.display()
        )));
    }
    members.sort();
    Ok(Some(members))
}

/// Opens devices. `beside_nodes`: others are drives of nodes, so that all of them are taken to be
/// in use.
///
/// # Errors
/// If one cannot be opened, is named twice, or may be written by somebody else.
pub fn open_beside(
    paths: &[PathBuf],
    access: Access,
    beside_nodes: bool,
) -> Result<Vec<Arc<dyn BlockDevice>>, Failure> {
    let mode = if access.write { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
    let mut out: Vec<Arc<dyn BlockDevice>> = Vec::with_capacity(paths.len());
    let mut seen: Vec<(PathBuf, Option<Part>, &Path)> = Vec::new();
    for name in paths {
        let (path, part) = part::split(name)?;
        let (path, tagging) = if part.is_some() { (path, None) } else { tagged::split(&path)? };
        let path = path.as_path();
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if let Some((.., first)) = seen.iter().find(|(known, of, _)| *known == real && *of == part) {
            let (first, second) = (first.display(), name.display());
            return Err(Failure::new(format!("{first} and {second} are the same device, named twice")));
        }
        seen.push((real, part, name));
        let device = FileDevice::open(path, mode, Options::default())?;
        check_unused(path, &device, access, beside_nodes, Path::new("/sys"))?;
        let device: Arc<dyn BlockDevice> = tagged::promised(device, tagging.as_ref());
        let device = match part {
            Some(part) => part_of(device, part, name)?,
            None => device,
        };
        out.push(match tagging {
            Some(tagging) => tagged::beside(device, path, &tagging, access.write)?,
            None => device,
        });
    }
    Ok(out)
}

/// Checks that nobody else can be writing a device or file of this machine.
fn check_unused(
    path: &Path,
    device: &FileDevice,
    access: Access,
    beside_nodes: bool,
    sysfs: &Path,
) -> Result<(), Failure> {
    let (who, instead) = if access.write {
        // Opening it for writing has shown that the kernel does not hold the device, or that nobody
        // has locked the file. A loop device takes no lock.
        let served = loop_over(path, sysfs).map(|name| served_as(&name));
        (served, "")
    } else if access.allow_in_use {
        (None, "")
    } else {
        let who = user_of(path, device, beside_nodes, sysfs)?;
        (who, ", or check it while it is in use with --allow-in-use")
    };
    match who {
        Some(who) => Err(Failure::new(format!("{}: {who}; stop that first{instead}", path.display()))),
        None => Ok(()),
    }
}

fn served_as(name: &str) -> String {
    format!("the kernel serves the file as /dev/{name}")
}

/// Opens devices of this machine, and refuses those that somebody else may be writing.
///
/// # Errors
/// As [`open_beside`].
pub fn open_here(paths: &[PathBuf], access: Access) -> Result<Vec<Arc<dyn BlockDevice>>, Failure> {
    open_beside(paths, access, false)
}

/// The user who may be writing a device or file of this machine without the scrub noticing; `None`
/// if nobody is known to. Beside drives of nodes, every file counts as in use.
///
/// # Errors
/// If the state of the device cannot be read.
pub fn user_of(
    path: &Path,
    device: &FileDevice,
    beside_nodes: bool,
    sysfs: &Path,
) -> Result<Option<String>, Failure> {
    if let Some(who) = device.holders()? {
        return Ok(Some(who));
    }
    if beside_nodes {
        return Ok(None);
    }
    if let Some(name) = loop_over(path, sysfs) {
        return Ok(Some(served_as(&name)));
    }
    let locked = device.locked_by_another()?;
    Ok(locked.then(|| {
        "another program has the file locked for writing (a node that serves it, or a repair)".to_owned()
    }))
}

/// The loop device that is set up over a file, by sysfs (`class/block/loopN/loop/backing_file`).
pub(crate) fn loop_over(path: &Path, sysfs: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let entries = std::fs::read_dir(sysfs.join("class/block")).ok()?;
    entries.flatten().find_map(|entry| {
        let backing = std::fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let same = Path::new(backing.trim_end_matches('\n')) == real;
        same.then(|| entry.file_name().to_string_lossy().into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn device(path: &Path, mode: OpenMode) -> FileDevice {
        FileDevice::open(path, mode, Options::default()).unwrap()
    }

    #[test]
    fn a_file_that_another_has_locked_or_the_kernel_serves_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let sysfs = folder.path().join("sys");
        let files: Vec<PathBuf> = ["a", "b", "c"].iter().map(|name| folder.path().join(name)).collect();
        files.iter().for_each(|path| fs::write(path, vec![0; 8192]).unwrap());
        let backed = sysfs.join("class/block/loop3/loop");
        fs::create_dir_all(&backed).unwrap();
        let real = files[1].canonicalize().unwrap();
        fs::write(backed.join("backing_file"), format!("{}\n", real.display())).unwrap();
        // As a node serves it.
        let served = device(&files[2], OpenMode::ReadWrite);
        let user = |path: &Path| user_of(path, &device(path, OpenMode::ReadOnly), false, &sysfs).unwrap();
        assert_eq!(user(&files[0]), None);
        assert_eq!(user(&files[0]), None, "asking leaves no lock");
        assert!(user(&files[1]).unwrap().contains("/dev/loop3"));
        assert!(user(&files[2]).unwrap().contains("locked"));
        // A repair does not get a file from below the kernel either.
        let repair = Access { write: true, ..Access::default() };
        let refused = |path: &Path| {
            let device = device(path, OpenMode::ReadWrite);
            check_unused(path, &device, repair, false, &sysfs).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&files[0]), None);
        assert!(refused(&files[1]).unwrap().contains("/dev/loop3"));
        let access = Access::default();
        let beside_nodes = user_of(&files[2], &device(&files[2], OpenMode::ReadOnly), true, &sysfs).unwrap();
        assert_eq!(beside_nodes, None, "it is taken to be in use all the same");
        let refused = open_beside(&files[2..], access, false).err().unwrap().to_string();
        assert!(refused.contains("--allow-in-use"), "{refused}");
        assert!(open_beside(&files[2..], Access { allow_in_use: true, ..access }, false).is_ok());
        drop(served);
        assert_eq!(user(&files[2]), None);
    }
}
