//! Holders of a block device, which keep it from being opened alone.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Most holders that are named; a message is read by people.
const NAMED: usize = 8;

/// Says that a block device is in use, and by whom: md and device mapper, mounts, swap, the same of
/// its partitions and of its disk. Other programs are not known to the system.
pub(crate) fn in_use(path: &Path) -> String {
    let known = Path::new("/sys");
    let found =
        std::fs::metadata(path).map(|about| Search { sysfs: known, proc: "/proc".as_ref() }.of(&about));
    message(found.unwrap_or_default())
}

fn message(mut found: Vec<String>) -> String {
    let more = found.len().saturating_sub(NAMED);
    found.truncate(NAMED);
    if more > 0 {
        found.push(format!("{more} more"));
    }
    match found.is_empty() {
        true => "the device is in use (an assembled array, a mount, or another program)".to_owned(),
        false => format!("the kernel holds the device: {}", found.join(", ")),
    }
}

struct Search<'s> {
    sysfs: &'s Path,
    proc: &'s Path,
}

impl Search<'_> {
    fn of(&self, about: &Metadata) -> Vec<String> {
        if !about.file_type().is_block_device() {
            return Vec::new();
        }
        self.of_number(libc::major(about.rdev()), libc::minor(about.rdev()))
    }

    fn of_number(&self, major: u32, minor: u32) -> Vec<String> {
        let number = format!("{major}:{minor}");
        let Ok(place) = self.sysfs.join("dev/block").join(&number).canonicalize() else {
            return self.mounts(&number, None);
        };
        let mut found = self.of_device(&place, &number);
        if place.join("partition").exists()
            && let Some(disk) = place.parent()
        {
            let disk_number = read(&disk.join("dev"));
            let of_disk = disk_number.map_or_else(Vec::new, |number| self.of_device(disk, &number));
            found.extend(of_disk.into_iter().map(|who| format!("its disk {}: {who}", name(disk))));
        }
        let mut partitions: Vec<PathBuf> = entries(&place);
        partitions.retain(|part| part.join("partition").exists());
        for part in partitions {
            let Some(number) = read(&part.join("dev")) else { continue };
            let who = self.of_device(&part, &number);
            found.extend(who.into_iter().map(|who| format!("partition {}: {who}", name(&part))));
        }
        found
    }

    /// The holders of this device itself.
    fn of_device(&self, place: &Path, number: &str) -> Vec<String> {
        let holder = |place: &PathBuf| {
            let (short, long) = (name(place), read(&place.join("dm/name")));
            match long {
                Some(long) => format!("device mapper {long} ({short})"),
                None if place.join("md").exists() => format!("md array {short}"),
                None => short,
            }
        };
        let mut found: Vec<String> = entries(&place.join("holders")).iter().map(holder).collect();
        found.extend(self.mounts(number, Some(&name(place))));
        found
    }

    /// Mounts and swap of a device.
    fn mounts(&self, number: &str, name: Option<&str>) -> Vec<String> {
        let mounts = std::fs::read_to_string(self.proc.join("self/mountinfo")).unwrap_or_default();
        let device = name.map(|name| format!("/dev/{name}"));
        let is_it = |line: &&str| {
            // Btrfs has numbers of its own: the source names the device.
            let source = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').nth(1));
            line.split(' ').nth(2) == Some(number) || (source.is_some() && source == device.as_deref())
        };
        let places = mounts.lines().filter(is_it).filter_map(|line| line.split(' ').nth(4));
        let mut found: Vec<String> = Vec::new();
        for place in places.map(|place| format!("mounted at {}", unescaped(place))) {
            if !found.contains(&place) {
                found.push(place);
            }
        }
        let swaps = std::fs::read_to_string(self.proc.join("swaps")).unwrap_or_default();
        let mut swaps = swaps.lines().map(|line| line.split_whitespace().next());
        if device.is_some() && swaps.any(|swap| swap == device.as_deref()) {
            found.push("swap".to_owned());
        }
        found
    }
}

fn name(place: &Path) -> String {
    place.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn read(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Entries of a folder, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

/// A path of mountinfo, in which spaces and the like are octal (proc(5)).
fn unescaped(text: &str) -> String {
    let mut pieces = text.split('\\');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let code = piece.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                out.push(char::from(code));
                out.push_str(&piece[3..]);
            }
            None => {
                out.push('\\');
                out.push_str(piece);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::io;
    use std::os::unix::fs::symlink;

    /// A system with a disk of three partitions (in an array, mounted twice, swap), one of which
    /// nobody uses any part, one that device mapper holds as a whole, and a mounted Btrfs.
    fn system(root: &Path) -> io::Result<()> {
        let device = |number: &str, place: &str| -> io::Result<PathBuf> {
            let place = root.join("devices").join(place);
            create_dir_all(place.join("holders"))?;
            create_dir_all(root.join("dev/block"))?;
            symlink(&place, root.join("dev/block").join(number))?;
            write(place.join("dev"), format!("{number}\n"))?;
            Ok(place)
        };
        let holds = |held: &Path, holder: &Path| {
            symlink(holder, held.join("holders").join(holder.file_name().unwrap_or_default()))
        };
        let (md, dm) = (device("9:127", "md127")?, device("253:0", "dm-0")?);
        create_dir_all(md.join("md"))?;
        create_dir_all(dm.join("dm"))?;
        write(dm.join("dm/name"), "vault-data\n")?;
        device("8:0", "sda")?;
        for (number, part) in [("8:1", "sda/sda1"), ("8:2", "sda/sda2"), ("8:3", "sda/sda3")] {
            write(device(number, part)?.join("partition"), "1\n")?;
        }
        holds(&root.join("devices/sda/sda1"), &md)?;
        device("8:16", "sdb")?;
        write(device("8:17", "sdb/sdb1")?.join("partition"), "1\n")?;
        let sdc = device("8:32", "sdc")?;
        holds(&sdc, &dm)?;
        write(device("8:33", "sdc/sdc1")?.join("partition"), "1\n")?;
        device("8:48", "sdd")?;
        create_dir_all(root.join("self"))?;
        write(root.join("swaps"), "Filename Type Size Used Priority\n/dev/sda3 partition 1 0 -2\n")?;
        write(
            root.join("self/mountinfo"),
            "22 1 0:20 / /proc rw - proc proc rw\n\
             30 1 8:2 / /mnt/two\\040words rw shared:1 - ext4 /dev/sda2 rw\n\
             31 1 8:2 /sub /srv rw - ext4 /dev/sda2 rw\n\
             32 1 0:40 / /pool rw - btrfs /dev/sdd rw\n",
        )
    }

    #[test]
    fn a_refusal_names_arrays_mounts_and_partitions_in_use() -> io::Result<()> {
        let root = tempfile::tempdir()?;
        system(root.path())?;
        let of = |major, minor| {
            Search { sysfs: root.path(), proc: root.path() }.of_number(major, minor).join("; ")
        };
        assert_eq!(of(8, 1), "md array md127");
        assert_eq!(of(8, 2), "mounted at /mnt/two words; mounted at /srv");
        assert_eq!(
            of(8, 0),
            "partition sda1: md array md127; partition sda2: mounted at /mnt/two words; \
             partition sda2: mounted at /srv; partition sda3: swap"
        );
        assert_eq!(of(8, 16), "");
        assert_eq!(of(8, 32), "device mapper vault-data (dm-0)");
        assert_eq!(of(8, 33), "its disk sdc: device mapper vault-data (dm-0)");
        assert_eq!(of(8, 48), "mounted at /pool");
        assert_eq!(of(8, 99), "");
        assert!(message(Vec::new()).contains("in use"));
        let many = message((0..NAMED + 3).map(|at| format!("p{at}")).collect());
        assert!(many.ends_with("p7, 3 more"), "{many}");
        Ok(())
    }

    #[test]
    fn other_escapes_of_a_path_stay_as_they_are() {
        assert_eq!(unescaped("/a\\011b\\134c"), "/a\tb\\c");
        assert_eq!(unescaped("/a\\9x\\"), "/a\\9x\\");
        assert_eq!(unescaped("/ä\\040ö\\04"), "/ä ö\\04");
    }
}
