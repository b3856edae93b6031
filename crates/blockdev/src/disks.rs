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

/// Bytes that a block device with this logical block is known to write atomically.
pub(crate) fn atomic_unit(of: &Metadata, logical: u32) -> u32 {
    Search { sysfs: Path::new("/sys") }.atomic_unit(number(of), logical)
}

struct Search<'s> {
    sysfs: &'s Path,
}

impl Search<'_> {
    /// The physical block where it is the sector of a disk, else the logical one.
    fn atomic_unit(&self, (major, minor): (u64, u64), logical: u32) -> u32 {
        self.sector((major, minor)).filter(|sector| *sector > logical).unwrap_or(logical)
    }

    /// The physical block of a SCSI or SATA disk, if the device begins on one. Others report
    /// something else by that name: a hint about speed, or what a hypervisor was told.
    fn sector(&self, (major, minor): (u64, u64)) -> Option<u32> {
        let place = self.sysfs.join("dev/block").join(format!("{major}:{minor}")).canonicalize().ok()?;
        let number = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let is_partition = place.join("partition").exists();
        let disk = if is_partition { place.parent()? } else { &place };
        let names: Vec<_> = disk.iter().map(|name| name.to_string_lossy()).collect();
        let below = |what: &str| {
            let is_it = |name: &str| name.strip_prefix(what).is_some_and(|rest| rest.parse::<u32>().is_ok());
            names.iter().any(|name| is_it(name))
        };
        let sector =
            number(disk.join("queue/physical_block_size")).filter(|bytes| bytes.is_power_of_two())?;
        let begin = if is_partition { number(place.join("start"))?.checked_mul(512)? } else { 0 };
        let begins_on_one = begin.is_multiple_of(sector) && number(disk.join("alignment_offset"))? == 0;
        let is_known = below("host") && !below("virtio") && begins_on_one;
        is_known.then(|| u32::try_from(sector).ok()).flatten()
    }

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
    fn only_the_physical_block_of_a_scsi_disk_is_known_to_be_atomic() -> io::Result<()> {
        let root = tempfile::tempdir()?;
        create_dir_all(root.path().join("dev/block"))?;
        let device = |number: &str, place: &str, physical: &str, start: Option<&str>| -> io::Result<()> {
            let place = root.path().join("devices").join(place);
            create_dir_all(place.join("queue"))?;
            symlink(&place, root.path().join("dev/block").join(number))?;
            if let Some(start) = start {
                write(place.join("partition"), "1\n")?;
                return write(place.join("start"), start);
            }
            write(place.join("alignment_offset"), "0\n")?;
            write(place.join("queue/physical_block_size"), physical)
        };
        let ata = "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block";
        device("8:0", &format!("{ata}/sda"), "4096\n", None)?;
        device("8:1", &format!("{ata}/sda/sda1"), "", Some("2048\n"))?;
        device("8:2", &format!("{ata}/sda/sda2"), "", Some("63\n"))?;
        device("8:16", &format!("{ata}/sdb"), "512\n", None)?;
        device("8:32", &format!("{ata}/sdc"), "4096\n", None)?;
        write(root.path().join("devices").join(ata).join("sdc/alignment_offset"), "512\n")?;
        device("8:48", &format!("{ata}/sdd"), "3000\n", None)?;
        device("8:64", "pci0/virtio3/host1/target1:0:0/1:0:0:0/block/sde", "4096\n", None)?;
        device("259:0", "pci0/nvme/nvme0/nvme0n1", "4096\n", None)?;
        device("254:0", "pci0/virtio2/block/vda", "4096\n", None)?;
        device("9:0", "virtual/block/md0", "4096\n", None)?;
        device("253:0", "virtual/block/dm-0", "4096\n", None)?;
        device("7:0", "virtual/block/loop0", "4096\n", None)?;
        device("8:80", "hosted/hostile/sdf", "4096\n", None)?;
        let unit = |major, minor| Search { sysfs: root.path() }.atomic_unit((major, minor), 512);
        assert_eq!([unit(8, 0), unit(8, 1), unit(8, 2)], [4096, 4096, 512]);
        assert_eq!([unit(8, 16), unit(8, 32), unit(8, 48)], [512; 3]);
        assert_eq!([unit(8, 64), unit(259, 0), unit(254, 0), unit(9, 0), unit(253, 0), unit(7, 0)], [512; 6]);
        assert_eq!([unit(8, 80), unit(8, 99)], [512; 2]);
        // Never less than what can be written.
        let large = |major, minor| Search { sysfs: root.path() }.atomic_unit((major, minor), 4096);
        assert_eq!([large(8, 16), large(259, 0)], [4096; 2]);
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
