//! Making drives in files: nothing else in their folder is touched, and nothing is left of an
//! attempt that failed.

use pumice_flashdrive::{FlashError, FlashSpec, format, open, plan};
use std::fs::{File, OpenOptions};
use std::path::Path;

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
