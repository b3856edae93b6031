//! `pumice protect` and `pumice release` on files.

use crate::small_array::pumice;
use pumice_blockdev::{BlockDevice, FileDevice, OpenMode, Options};
use pumice_protect::guard::Guard;
use pumice_tags::{TaggedDevice, open_place};
use std::path::Path;
use std::sync::Arc;

const BLOCKS: usize = 2048;

/// Runs a command over the image of a folder: its exit code, and what it printed.
pub(crate) fn run(folder: &Path, words: &[&str], options: &[&str]) -> (i32, String) {
    let source = format!("{0}/image,pi=16,tags={0}/tags", folder.display());
    let mut command = pumice();
    let output = command.args(words).arg(source).args(options).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

pub(crate) fn protect(folder: &Path, options: &[&str]) -> (i32, String) {
    run(folder, &["protect"], options)
}

pub(crate) fn contains((code, text): (i32, String), expected: i32, words: &str) {
    assert!(code == expected && text.contains(words), "exit {code}, not {expected} with '{words}': {text}");
}

#[test]
fn adopted_blocks_are_checked_and_a_bad_one_is_reported_left_and_released() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let image = folder.join("image");
    let content: Vec<u8> = (0..BLOCKS * 512).map(|i| (i / 7) as u8).collect();
    std::fs::write(&image, &content).unwrap();
    contains(protect(folder, &["--status"]), 2, "tags");
    assert!(!folder.join("tags").exists(), "to look makes nothing");

    contains(protect(folder, &[]), 0, "2048 blocks adopted, 0 fit their tags, 0 differ, 0 unreadable");
    contains(protect(folder, &["--status"]), 0, "0 unchecked, 0 written, 2048 adopted, 0 vouched");
    contains(protect(folder, &["--rate", "100MB"]), 0, "0 blocks adopted, 2048 fit");
    assert!(std::fs::read(&image).unwrap() == content, "the drive is only read");

    let mut rotten = content.clone();
    rotten[77 * 512 + 5] ^= 1;
    std::fs::write(&image, &rotten).unwrap();
    contains(protect(folder, &[]), 1, "the first that differs is block 77");
    contains(run(folder, &["release"], &["--block", "2048"]), 2, "--block");
    contains(run(folder, &["release"], &["--block", "77"]), 0, "block 77 is accepted as it is");
    contains(protect(folder, &[]), 0, "2048 fit");
    assert!(std::fs::read(&image).unwrap() == rotten);

    contains(protect(folder, &["--off"]), 0, "removed");
    assert!(!folder.join("tags").exists());
    assert!(std::fs::read(&image).unwrap() == rotten);
}

/// The options are those of the tag file, for every program.
#[test]
fn metadata_for_the_visible_face_are_shown_and_must_be_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("image"), vec![3; 64 * 4096]).unwrap();
    let with = |words: &[&str], options: &str| {
        let source = format!("{0}/image,{options},tags={0}/tags", folder.display());
        let output = pumice().args(words).arg(source).args(["--block-size", "4096"]).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let large = "pi=16,metadata=64,pi-place=first,storage-tag=8";
    contains(with(&["protect"], large), 0, "64 blocks adopted");
    let shown = "metadata: 64 bytes, the tuple first, storage tag of 8 bits";
    contains(with(&["protect", "--status"], large), 0, shown);
    contains(with(&["protect"], large), 0, "64 fit");
    contains(with(&["protect"], "pi=16"), 2, "metadata: the tags have 64 bytes, but 8 was given");
    contains(with(&["protect"], "pi=16,metadata=64,storage-tag=8"), 2, "pi-place: ");
    contains(with(&["protect"], "pi=16,metadata=64,pi-place=first"), 2, "storage-tag: ");
    contains(with(&["protect"], "pi=16,metadata=63"), 2, "metadata: '63'");
}

#[test]
fn what_makes_no_sense_is_refused_by_field_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("image"), vec![0; 1 << 20]).unwrap();
    let image = folder.join("image").display().to_string();
    let refused = |source: String, words: &str| {
        let output = pumice().arg("protect").arg(&source).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(words), "{source}: {text}");
    };
    refused(image.clone(), "pi=BITS and tags=PATH");
    refused(format!("{image},pi=16"), "tags: ");
    refused(format!("{image},pi=12,tags={image}.t"), "pi: '12'");
    refused(format!("{image},tags={image}.t"), "pi: ");
    refused("mem:1MiB,pi=16".to_owned(), "mem:");
    // A file that is no tag file is not made one.
    std::fs::write(folder.join("tags"), vec![7; 65_536]).unwrap();
    contains(protect(folder, &[]), 2, "no tag file");
    contains(protect(folder, &["--off"]), 2, "no tag file");
    assert!(std::fs::read(folder.join("tags")).unwrap() == vec![7; 65_536]);
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 2);
    std::fs::write(folder.join("image"), vec![0; 1000]).unwrap();
    std::fs::remove_file(folder.join("tags")).unwrap();
    contains(protect(folder, &[]), 2, "drive size: 1000");
}

#[test]
fn a_misdirected_write_is_named_by_its_tags_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let image = folder.join("image");
    let mut content: Vec<u8> =
        (0..1 << 20).map(|i: u32| (i.wrapping_mul(i) >> 7) as u8 ^ (i >> 9) as u8).collect();
    std::fs::write(&image, &content).unwrap();
    contains(protect(folder, &[]), 0, "2048 blocks adopted");
    contains(run(folder, &["scrub", "--drives"], &[]), 0, "CLEAN");
    // What belongs at block 300 lies at block 9, and block 300 is as it was before.
    let (from, to) = (300 * 512, 9 * 512);
    content.copy_within(from..from + 512, to);
    content[from..from + 512].copy_from_slice(&[[7; 256], [9; 256]].concat());
    std::fs::write(&image, &content).unwrap();
    let words = "512 bytes at 4608 belong at 153600: the drive wrote them to the wrong place";
    contains(run(folder, &["scrub", "--drives"], &[]), 1, words);
    contains(run(folder, &["scrub", "--drives", "--json"], &[]), 1, "\"belongs_at\": 153600");
}

/// Writes a block through the tags, and ends as a crash would: the log still holds the write.
fn write_and_crash(folder: &Path, at: u64, data: &[u8]) {
    let (image, tags) = (folder.join("image"), folder.join("tags"));
    let drive = Arc::new(FileDevice::open(&image, OpenMode::ReadWrite, Options::default()).unwrap());
    let (medium, _) = open_place(&tags, &*drive, 4096, Guard::Crc16, "").unwrap();
    let device = TaggedDevice::open(drive, medium, "").unwrap();
    device.write_at(at, data).unwrap();
    let left = std::fs::read(&tags).unwrap();
    drop(device);
    std::fs::write(&tags, left).unwrap();
}

#[test]
fn what_recovery_wrote_over_is_listed_saved_put_back_and_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let image = folder.join("image");
    let content: Vec<u8> = (0..1 << 20).map(|i: u32| (i / 7) as u8).collect();
    std::fs::write(&image, &content).unwrap();
    let size = ["--block-size", "4096"];
    contains(protect(folder, &size), 0, "256 blocks adopted");
    contains(protect(folder, &["--status"]), 0, "0 kept blocks, of at most 2048");
    contains(run(folder, &["kept", "list"], &[]), 0, "0 kept blocks");

    write_and_crash(folder, 5 * 4096, &[0xA5; 4096]);
    // The first sector of the write arrived, and no more.
    let mut torn = content.clone();
    torn[5 * 4096..5 * 4096 + 512].fill(0xA5);
    std::fs::write(&image, &torn).unwrap();
    contains(protect(folder, &size), 0, "1 torn blocks were written again after a crash");
    let mut whole = content.clone();
    whole[5 * 4096..6 * 4096].fill(0xA5);
    assert!(std::fs::read(&image).unwrap() == whole);
    contains(protect(folder, &["--status"]), 0, "1 kept block, of at most 2048");
    contains(run(folder, &["kept", "list"], &[]), 0, "UTC      5  written again after a crash");

    let saved = folder.join("saved").display().to_string();
    contains(run(folder, &["kept", "save"], &["0", &saved]), 0, "4096 bytes of block 5");
    assert!(std::fs::read(&saved).unwrap() == torn[5 * 4096..6 * 4096]);
    contains(run(folder, &["kept", "save"], &["0", &saved]), 2, "saved");
    contains(run(folder, &["kept", "save"], &["1", &format!("{saved}2")]), 2, "no block is kept at 1");
    assert!(!folder.join("saved2").exists());

    contains(run(folder, &["kept", "put-back"], &["0"]), 0, "block 5 is as it was kept");
    assert!(std::fs::read(&image).unwrap() == torn);
    contains(run(folder, &["kept", "list"], &[]), 0, "another kept block was put back there");
    contains(run(folder, &["kept", "forget"], &["0"]), 0, "deleted 1 kept block");
    contains(run(folder, &["kept", "forget"], &["0"]), 2, "no block is kept at 0");
    contains(run(folder, &["kept", "forget"], &["--all"]), 0, "deleted 1 kept block");
    contains(protect(folder, &["--status"]), 0, "0 kept blocks");
    contains(protect(folder, &size), 0, "256 fit");
}

#[test]
fn the_status_of_tags_for_another_size_names_both_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("image"), vec![1; 64 * 4096]).unwrap();
    contains(protect(folder, &[]), 0, "512 blocks adopted");
    std::fs::write(folder.join("image"), vec![1; 80 * 4096]).unwrap();
    let (code, text) = protect(folder, &["--status"]);
    let is_named = ["size", "262144", "327680"].iter().all(|word| text.contains(word));
    assert!(code == 2 && is_named, "{code}: {text}");
    // One that is gone is no reason not to tell.
    std::fs::remove_file(folder.join("image")).unwrap();
    contains(protect(folder, &["--status"]), 0, "512 adopted");
}

/// A block that a crash left torn: its content before, the image as it is, and as it should be.
fn tear(folder: &Path) -> [Vec<u8>; 2] {
    let image = folder.join("image");
    let content: Vec<u8> = (0..1 << 20).map(|i: u32| (i / 7) as u8).collect();
    std::fs::write(&image, &content).unwrap();
    contains(protect(folder, &["--block-size", "4096"]), 0, "256 blocks adopted");
    write_and_crash(folder, 5 * 4096, &[0xA5; 4096]);
    let (mut torn, mut whole) = (content.clone(), content);
    torn[5 * 4096..5 * 4096 + 512].fill(0xA5);
    whole[5 * 4096..6 * 4096].fill(0xA5);
    std::fs::write(&image, &torn).unwrap();
    [torn, whole]
}

#[test]
fn tags_are_not_removed_before_torn_blocks_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (image, tags) = (folder.join("image"), folder.join("tags"));
    let [_, whole] = tear(folder);
    contains(protect(folder, &["--off"]), 2, "1 kept block would be deleted");
    assert!(std::fs::read(&image).unwrap() == whole && tags.exists());
    // Once recovered, it is the kept block that stands in the way.
    contains(protect(folder, &["--off"]), 2, "`pumice kept list`");
    contains(run(folder, &["kept", "forget"], &["--all"]), 0, "deleted 1 kept block");
    contains(protect(folder, &["--off"]), 0, "removed");
    assert!(std::fs::read(&image).unwrap() == whole && !tags.exists());
}

#[test]
fn tags_that_are_removed_by_force_are_recovered_if_they_can_be_and_the_loss_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (image, tags) = (folder.join("image"), folder.join("tags"));
    let [_, whole] = tear(folder);
    contains(protect(folder, &["--force"]), 2, "--off");
    contains(protect(folder, &["--off", "--force"]), 0, "lost: 1 kept block");
    assert!(std::fs::read(&image).unwrap() == whole && !tags.exists());
    // A file that is none is not removed, whatever is said.
    std::fs::write(&tags, vec![7; 65_536]).unwrap();
    contains(protect(folder, &["--off", "--force"]), 2, "no tag file");
    assert!(tags.exists());
}

#[test]
fn tags_that_cannot_be_recovered_are_removed_by_force_only() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (image, tags) = (folder.join("image"), folder.join("tags"));
    let [torn, _] = tear(folder);
    let left = std::fs::read(&tags).unwrap();
    // Of a drive of another size.
    std::fs::write(&image, vec![1; 2 << 20]).unwrap();
    contains(protect(folder, &["--off"]), 2, "nothing was removed");
    assert!(std::fs::read(&tags).unwrap() == left);
    // In use by another program: not even by force.
    std::fs::write(&image, &torn).unwrap();
    let held = FileDevice::open(&tags, OpenMode::ReadWrite, Options::default()).unwrap();
    contains(protect(folder, &["--off", "--force"]), 2, "another program");
    drop(held);
    // The drive is gone.
    std::fs::remove_file(&image).unwrap();
    contains(protect(folder, &["--off"]), 2, "nothing was removed");
    assert!(std::fs::read(&tags).unwrap() == left);
    contains(protect(folder, &["--off", "--force"]), 0, "lost: what the log may have held");
    assert!(!tags.exists());
}

/// An image that was adopted, opened with its tags as a node opens it.
fn adopted_and_opened(folder: &Path) -> TaggedDevice {
    let (image, tags) = (folder.join("image"), folder.join("tags"));
    std::fs::write(&image, vec![5; 1 << 20]).unwrap();
    contains(protect(folder, &["--block-size", "4096"]), 0, "256 blocks adopted");
    let drive = Arc::new(FileDevice::open(&image, OpenMode::ReadWrite, Options::default()).unwrap());
    let (medium, _) = open_place(&tags, &*drive, 4096, Guard::Crc16, "").unwrap();
    TaggedDevice::open(drive, medium, "").unwrap()
}

#[test]
fn a_scrub_that_was_killed_needs_no_recovery_and_a_write_does() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (image, tags) = (folder.join("image"), folder.join("tags"));
    let device = adopted_and_opened(folder);
    let opened = std::fs::read(&tags).unwrap();
    device.write_at(4096, &[6; 4096]).unwrap();
    let written = std::fs::read(&tags).unwrap();
    drop(device);
    std::fs::write(&tags, &opened).unwrap();
    std::fs::write(&image, vec![5; 1 << 20]).unwrap();
    contains(protect(folder, &["--status"]), 0, "not closed");
    contains(run(folder, &["scrub", "--drives"], &[]), 0, "CLEAN");
    contains(protect(folder, &["--status"]), 0, "not closed");
    std::fs::write(&tags, &written).unwrap();
    contains(run(folder, &["scrub", "--drives"], &[]), 2, "the tags were not closed");
    assert!(std::fs::read(&tags).unwrap() == written);
}

#[test]
fn a_damaged_log_is_told_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tags = folder.join("tags");
    let device = adopted_and_opened(folder);
    let opened = std::fs::read(&tags).unwrap();
    (0..3).for_each(|block| device.write_at(block * 4096, &[0xA5; 4096]).unwrap());
    let mut left = std::fs::read(&tags).unwrap();
    drop(device);
    std::fs::write(&tags, &left).unwrap();
    let (_, status) = protect(folder, &["--status"]);
    assert!(status.contains("not closed") && !status.contains("damaged"), "{status}");
    // The first record, which a later one says was durable.
    let first = (0..left.len()).find(|at| left[*at] != opened[*at]).unwrap();
    left[first] ^= 1;
    std::fs::write(&tags, &left).unwrap();
    contains(protect(folder, &["--status"]), 0, "the log is damaged");
    contains(protect(folder, &["--block-size", "4096"]), 2, "--off --force");
    contains(protect(folder, &["--off"]), 2, "nothing was removed");
    contains(protect(folder, &["--off", "--force"]), 0, "lost: what the log may have held");
    contains(protect(folder, &["--block-size", "4096"]), 0, "256 blocks adopted");
    // Without a header it is no tag file to anybody.
    let mut headless = std::fs::read(&tags).unwrap();
    headless[..8192].fill(0xEE);
    std::fs::write(&tags, &headless).unwrap();
    contains(protect(folder, &["--off", "--force"]), 2, "delete it and adopt the drive again");
}

#[test]
fn all_drives_are_looked_at_before_the_first_is_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for image in ["a", "c"] {
        std::fs::write(folder.join(image), vec![5; 1 << 20]).unwrap();
    }
    let protect = |sources: &[(&str, &str)]| {
        let at = folder.display();
        let sources = sources.iter().map(|(drive, tags)| format!("{at}/{drive},pi=16,tags={at}/{tags}"));
        let output = pumice().arg("protect").args(sources).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    contains(protect(&[("a", "a.t"), ("nosuch", "n.t"), ("c", "c.t")]), 2, "nosuch");
    contains(protect(&[("a", "t"), ("c", "t")]), 2, "are the same file or device");
    contains(protect(&[("a", "a.t"), ("c", "a")]), 2, "are the same file or device");
    contains(protect(&[("a", "a")]), 2, "are the same file or device");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 2, "no tag file was made");
    contains(protect(&[("a", "a.t"), ("c", "c.t")]), 0, "2048 blocks adopted");
}
