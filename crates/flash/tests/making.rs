//! Making drives in files: nothing else in their folder is touched, and nothing is left of an
//! attempt that failed.

use pumice_blockdev::{BlockDevice, DeviceMedium, FileDevice, OpenMode, Options};
use pumice_flash::device::{FlashDrive, FlashError, FlashSpec, Superblock, examine, format, open, plan};
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;

fn spec(path: &Path, options: &str) -> FlashSpec {
    format!("{},capacity=4MiB{options}", path.display()).parse().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entry = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|e| entry(e).into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_that_is_named_like_one_in_the_making_is_another_s() {
    let folder = tempfile::tempdir().unwrap();
    let (path, neighbour) = (folder.path().join("a"), folder.path().join("a.new"));
    std::fs::write(&neighbour, [7; 100]).unwrap();
    let wanted = spec(&path, "");
    format(&wanted, &plan(&wanted).unwrap(), false).unwrap();
    assert_eq!(std::fs::read(&neighbour).unwrap(), [7; 100]);
    assert_eq!(names(folder.path()), ["a", "a.new"]);
    // A drive line makes its drive in the same way, while the neighbour is served.
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&neighbour).unwrap();
    let (_served, made) = open(&spec(&neighbour, ""), "served").unwrap();
    assert!(made);
    let before = std::fs::read(&neighbour).unwrap();
    assert!(open(&wanted, "a").unwrap().1);
    assert!(std::fs::read(&neighbour).unwrap() == before);
    assert_eq!(names(folder.path()), ["a", "a.new"]);
}

#[test]
fn nothing_is_left_of_a_drive_that_could_not_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    // The name is taken when the drive is whole: by a link to nothing.
    std::os::unix::fs::symlink(folder.path().join("nothing"), &path).unwrap();
    let wanted = spec(&path, "");
    let made = plan(&wanted).unwrap();
    let error = format(&wanted, &made, false).unwrap_err();
    assert!(matches!(error, FlashError::Path { .. }), "{error}");
    assert_eq!(names(folder.path()), ["a"]);
    std::fs::remove_file(&path).unwrap();
    format(&wanted, &made, false).unwrap();
    assert_eq!(names(folder.path()), ["a"]);
}

#[test]
fn an_empty_file_of_somebody_stays_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let theirs: File = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
    theirs.lock().unwrap();
    let wanted = spec(&path, "");
    let made = plan(&wanted).unwrap();
    for overwrite in [false, true] {
        let error = format(&wanted, &made, overwrite).unwrap_err().to_string();
        assert!(error.contains("another program has it"), "{error}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }
    drop(theirs);
    format(&wanted, &made, false).unwrap();
    assert!(!open(&wanted, "a").unwrap().1);
}

/// Both superblocks of a drive, of their first and second slots.
fn superblocks(path: &Path) -> [Superblock; 2] {
    let device = Arc::new(FileDevice::open(path, OpenMode::ReadOnly, Options::default()).unwrap());
    let copy = device.size_bytes() - 8192;
    [0, copy].map(|at| Superblock::read(&DeviceMedium(Arc::clone(&device) as _), at).unwrap().unwrap())
}

#[test]
fn a_drive_of_an_earlier_version_gets_a_secret_and_keeps_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let wanted = spec(&path, "");
    let early = Superblock { secret: None, ..plan(&wanted).unwrap() };
    format(&wanted, &early, false).unwrap();
    assert_eq!(superblocks(&path), [early; 2]);
    let page = |n: u64| vec![n as u8 + 1; 4096];
    let device = FileDevice::open(&path, OpenMode::ReadWrite, Options::default()).unwrap();
    let drive = FlashDrive::open(Arc::new(device), &early, early.scheme, "early").unwrap();
    (0..100).for_each(|n| drive.write_at(n * 4096, &page(n)).unwrap());
    drive.flush().unwrap();
    drop(drive);
    assert!(examine(&path, true, false).unwrap().is_sound(), "looking writes nothing");
    assert_eq!(superblocks(&path), [early; 2]);
    // Refused: it keeps what it has.
    assert!(open(&format!("{},op=8%", path.display()).parse().unwrap(), "a").is_err());
    assert_eq!(superblocks(&path), [early; 2]);
    // An attempt was cut short when the copy had its secret.
    let drawn = Superblock { secret: plan(&wanted).unwrap().secret, ..early };
    let device = FileDevice::open(&path, OpenMode::ReadWrite, Options::default()).unwrap();
    let at = device.size_bytes() - 8192;
    drawn.write(&DeviceMedium(Arc::new(device)), at).unwrap();
    for times in 0..2 {
        let (drive, made) = open(&wanted, "a").unwrap();
        assert!(!made);
        let mut back = vec![0; 4096];
        for n in 0..100 {
            drive.read_at(n * 4096, &mut back).unwrap();
            assert!(back == page(n), "page {n}, opened {times} times before");
        }
        (0..50).for_each(|n| drive.write_at(n * 4096, &page(n)).unwrap());
        drive.flush().unwrap();
        drop(drive);
        assert_eq!(superblocks(&path), [drawn; 2]);
        let found = examine(&path, true, false).unwrap();
        assert!(found.is_sound() && found.pages_read == 100);
    }
}
