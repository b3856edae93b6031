//! The disks under a file or a block device: if two of these share a disk, reads of one slow the
//! other.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Most devices over devices that are followed.
const DEPTH: u32 = 8;

/// The disks below a path, by the names that the system has for them: a partition lies on its disk,
/// a namespace of a local NVMe controller on the controller, a loop device where its file lies, md
/// and device mapper on all that they are made of. A file system without a device that the system
/// knows (Btrfs, ZFS, NFS) is one disk.
///
/// # Errors
/// If the path is not there.
pub(crate) fn below(path: &Path) -> io::Result<BTreeSet<String>> {
    let mut disks = BTreeSet::new();
    Search { sysfs: Path::new("/sys") }.follow(number(&std::fs::metadata(path)?), DEPTH, &mut disks);
    Ok(disks)
}

/// The device's own number, or that of the one that the file lies on.
fn number(of: &Metadata) -> (u64, u64) {
    let device = if of.file_type().is_block_device() { of.rdev() } else { of.dev() };
    (u64::from(libc::major(device)), u64::from(libc::minor(device)))
}

/// A number from sysfs about the queue of a block device, or of the disk of a partition.
pub(crate) fn queue_number(of: &Metadata, name: &str) -> Option<u64> {
    let (major, minor) = number(of);
    let place = Path::new("/sys/dev/block").join(format!("{major}:{minor}")).canonicalize().ok()?;
    let disk = if place.join("partition").exists() { place.parent()? } else { &place };
    std::fs::read_to_string(disk.join("queue").join(name)).ok()?.trim().parse().ok()
}

struct Search<'s> {
    sysfs: &'s Path,
}

impl Search<'_> {
    fn follow(&self, (major, minor): (u64, u64), depth: u32, disks: &mut BTreeSet<String>) {
        let number = format!("{major}:{minor}");
        let Ok(mut place) = self.sysfs.join("dev/block").join(&number).canonicalize() else {
            disks.insert(number);
            return;
        };
        if place.join("partition").exists()
            && let Some(disk) = place.parent()
        {
            place = disk.to_path_buf();
        }
        let lower = if depth == 0 { Vec::new() } else { lower(&place) };
        if lower.is_empty() {
            disks.insert(disk_name(&place));
        }
        for number in lower {
            self.follow(number, depth - 1, disks);
        }
    }
}

/// The devices below a device; none if it is a disk itself.
fn lower(place: &Path) -> Vec<(u64, u64)> {
    let slaves = std::fs::read_dir(place.join("slaves")).into_iter().flatten().flatten();
    let parts: Vec<_> = slaves.filter_map(|slave| read_number(&slave.path().join("dev"))).collect();
    if !parts.is_empty() {
        return parts;
    }
    let backing = std::fs::read_to_string(place.join("loop/backing_file")).ok();
    let file = backing.and_then(|path| std::fs::metadata(path.trim_end()).ok());
    file.map(|file| number(&file)).into_iter().collect()
}

fn read_number(path: &Path) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(path).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A disk's name, or the name of its controller if all its namespaces share a medium.
fn disk_name(place: &Path) -> String {
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    // Those of a controller far away may lie anywhere.
    let local = |device: &PathBuf| {
        std::fs::read_to_string(device.join("transport")).is_ok_and(|transport| transport.trim() == "pcie")
    };
    let controller = place.join("device").canonicalize().ok().filter(local);
    controller.as_ref().and_then(name).or_else(|| name(&place.to_path_buf())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    /// A system with a disk of two partitions, a controller of two namespaces, one far away, an md
    /// array over a partition and a namespace, and a loop device over a file.
    fn system(root: &Path) -> io::Result<()> {
        let device = |number: &str, place: &str| -> io::Result<PathBuf> {
            let place = root.join("devices").join(place);
            create_dir_all(&place)?;
            create_dir_all(root.join("dev/block"))?;
            symlink(&place, root.join("dev/block").join(number))?;
            write(place.join("dev"), format!("{number}\n"))?;
            Ok(place)
        };
        device("8:0", "scsi/sda")?;
        for (number, partition) in [("8:1", "scsi/sda/sda1"), ("8:2", "scsi/sda/sda2")] {
            write(device(number, partition)?.join("partition"), "1\n")?;
        }
        for (number, namespace, transport) in [
            ("259:0", "nvme0/nvme0n1", "pcie\n"),
            ("259:1", "nvme0/nvme0n2", "pcie\n"),
            ("259:2", "nvme1/nvme1n1", "tcp\n"),
        ] {
            let place = device(number, namespace)?;
            let controller = place.parent().expect("it has a controller").to_path_buf();
            write(controller.join("transport"), transport)?;
            symlink(controller, place.join("device"))?;
        }
        let md = device("9:0", "md0")?;
        create_dir_all(md.join("slaves"))?;
        symlink(root.join("devices/scsi/sda/sda2"), md.join("slaves/sda2"))?;
        symlink(root.join("devices/nvme0/nvme0n1"), md.join("slaves/nvme0n1"))?;
        let looped = device("7:0", "loop0")?;
        create_dir_all(looped.join("loop"))?;
        write(looped.join("loop/backing_file"), format!("{}\n", root.join("dev").display()))
    }

    #[test]
    fn what_lies_on_one_disk_is_known_to() -> io::Result<()> {
        let root = tempfile::tempdir()?;
        system(root.path())?;
        let disks = |major, minor| {
            let mut disks = BTreeSet::new();
            Search { sysfs: root.path() }.follow((major, minor), DEPTH, &mut disks);
            disks.into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!([disks(8, 0), disks(8, 1), disks(8, 2)], ["sda", "sda", "sda"]);
        assert_eq!([disks(259, 0), disks(259, 1)], ["nvme0", "nvme0"]);
        assert_eq!(disks(259, 2), "nvme1n1", "far away");
        assert_eq!(disks(9, 0), "nvme0 sda");
        assert_eq!(disks(0, 45), "0:45", "a file system without a device");
        // The file of the loop device lies where this test's files lie.
        let (major, minor) = number(&std::fs::metadata(root.path())?);
        assert_eq!(disks(7, 0), format!("{major}:{minor}"));
        Ok(())
    }

    #[test]
    fn a_file_lies_on_the_disk_of_its_file_system() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        write(&one, "1")?;
        write(&other, "2")?;
        assert!(!below(&one)?.is_empty());
        assert_eq!(below(&one)?, below(&other)?);
        Ok(())
    }
}
