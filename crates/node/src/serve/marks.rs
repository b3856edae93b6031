//! The file that keeps which blocks of a drive hosts made unreadable.

use pumice_blockdev::BlockDevice;
use pumice_tags::serial_of;
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};

/// The file of a drive's marks: in `folder`, by serial number and size, or by path if the system
/// knows no serial number. `/dev/sdb` may be another disk after a restart, whose blocks are not
/// those that were marked.
///
/// # Errors
/// If a file that an earlier version named by the path cannot be renamed.
pub(super) fn marks_file(folder: &Path, path: &Path, device: &dyn BlockDevice) -> io::Result<PathBuf> {
    named(folder, path, &serial_of(path), device.size_bytes())
}

fn named(folder: &Path, path: &Path, serial: &str, size: u64) -> io::Result<PathBuf> {
    let file = |identity: &[u8]| {
        let digest = Sha256::digest(identity);
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        folder.join(format!("unreadable-{name}.marks"))
    };
    let by_path = file(path.as_os_str().as_encoded_bytes());
    if serial.is_empty() {
        return Ok(by_path);
    }
    let by_serial = file(format!("{size} bytes, serial number {serial}").as_bytes());
    // An earlier version named it by the path, and nothing in it says of which disk it is: this is
    // the last time that it is believed.
    if !by_serial.exists() && by_path.exists() {
        std::fs::rename(&by_path, &by_serial)?;
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(by_serial)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_disk_under_the_same_path_has_marks_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let of =
            |path: &str, serial: &str, size| named(folder.path(), Path::new(path), serial, size).unwrap();
        let ours = of("/dev/sdb", "naa.1", 1 << 40);
        assert_ne!(of("/dev/sdb", "naa.2", 1 << 40), ours, "another disk");
        assert_ne!(of("/dev/sdb", "naa.1", 1 << 30), ours, "another size");
        assert_eq!(of("/dev/sdc", "naa.1", 1 << 40), ours, "the same disk elsewhere");
        assert_ne!(of("/srv/a", "", 4096), of("/srv/b", "", 4096), "files have no serial number");
    }

    #[test]
    fn a_file_named_by_the_path_goes_to_the_disk_that_is_there_once() {
        let folder = tempfile::tempdir().unwrap();
        let of = |serial: &str| named(folder.path(), Path::new("/dev/sdb"), serial, 4096).unwrap();
        std::fs::write(of(""), "marks").unwrap();
        assert_eq!(std::fs::read(of("naa.1")).unwrap(), b"marks");
        assert!(!of("").exists() && !of("naa.2").exists());
    }
}
