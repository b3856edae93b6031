//! Drives in files: what was written is read, through everything that an operator does.

use pumice_blockdev::{Background, BlockDevice, FileDevice, OpenMode, Options};
use pumice_flash::chip::{Ppn, Random};
use pumice_flash::device::{
    FlashDrive, FlashError, FlashSpec, Superblock, examine, format, open, plan, repair,
};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const SIZE: usize = 4 << 20;
const PAGE: usize = 4096;

fn spec(path: &Path, options: &str) -> FlashSpec {
    format!("{}{options}", path.display()).parse().unwrap()
}

fn at(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("flash")
}

fn make(path: &Path, options: &str) -> FlashDrive {
    let (drive, made) = open(&spec(path, &format!(",capacity=4MiB,op=7%{options}")), "flash").unwrap();
    assert!(made);
    drive
}

fn again(path: &Path) -> FlashDrive {
    let (drive, made) = open(&FlashSpec::at(path.into()), "flash").unwrap();
    assert!(!made);
    drive
}

fn background(drive: &FlashDrive) -> &dyn Background {
    drive.background().unwrap()
}

/// All idle work that there is now, but for the checkpoint after a longer quiet.
fn work(drive: &FlashDrive) {
    for _ in 0..10_000 {
        if background(drive).wanted() == 0 {
            return;
        }
        background(drive).work(1 << 20).unwrap();
    }
    panic!("idle work has no end");
}

#[test]
fn a_drive_reads_as_a_plain_one_in_every_scheme() {
    for scheme in ["none", "inline", "offline", "separated", "live", "lives", "ages", "measured"] {
        let folder = tempfile::tempdir().unwrap();
        let path = at(&folder);
        let mut drive = make(&path, &format!(",dedup={scheme}"));
        let mut model = vec![0; SIZE];
        let mut random = Random::new(scheme.len() as u64);
        for step in 0..1_500 {
            let len = 512 * (1 + random.below(if step % 3 == 0 { 64 } else { 9 }) as usize);
            let start = 512 * random.below(((SIZE - len) / 512) as u64) as usize;
            let range = start..start + len;
            match random.below(20) {
                0 => {
                    drive.discard(start as u64, len as u64).unwrap();
                    model[range].fill(0);
                }
                1 => {
                    drive.zero(start as u64, len as u64).unwrap();
                    model[range].fill(0);
                }
                2 => drive.flush().unwrap(),
                3..6 => {
                    let mut back = vec![1; len];
                    drive.read_at(start as u64, &mut back).unwrap();
                    assert!(back == model[range], "{scheme}, step {step}: {len} bytes at {start}");
                }
                6 if step % 4 == 0 => work(&drive),
                7 if step % 8 == 0 => {
                    drive.flush().unwrap();
                    drop(drive);
                    drive = again(&path);
                }
                _ => {
                    // Few contents, so that there are duplicates.
                    let byte = random.below(7) as u8;
                    drive.write_at(start as u64, &vec![byte; len]).unwrap();
                    model[range].fill(byte);
                }
            }
        }
        work(&drive);
        let mut back = vec![1; SIZE];
        drive.read_at(0, &mut back).unwrap();
        assert!(back == model, "{scheme}");
        let mapped = drive.used_bytes().unwrap();
        let census = drive.census();
        assert_eq!(mapped, u64::from(census.mapped) * PAGE as u64);
        assert_eq!(census.live < census.mapped, scheme != "none", "{scheme}: {census:?}");
        drive.flush().unwrap();
        drop(drive);
        let found = examine(&path, true, false).unwrap();
        assert!(found.is_sound(), "{scheme}: {found:?}");
        assert_eq!((found.census.mapped, found.pages_read), (census.mapped, census.mapped));
    }
}

#[test]
fn reads_beside_writes_and_idle_work_are_one_version_of_each_page() {
    let folder = tempfile::tempdir().unwrap();
    let drive = make(&at(&folder), ",dedup=live");
    let pages = (SIZE / PAGE) as u64;
    let stamp = |page: u64, version: u64| -> Vec<u8> {
        [page, version].iter().cycle().take(PAGE / 8).flat_map(|n| n.to_le_bytes()).collect()
    };
    for page in 0..pages {
        drive.write_at(page * PAGE as u64, &stamp(page, 0)).unwrap();
    }
    drive.flush().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = |seed: u64| {
            let (drive, stop) = (&drive, &stop);
            move || {
                let (mut random, mut seen) = (Random::new(seed), vec![0; pages as usize]);
                while !stop.load(Ordering::Relaxed) {
                    let first = random.below(pages - 8);
                    let mut buf = vec![0; 8 * PAGE];
                    drive.read_at(first * PAGE as u64, &mut buf).unwrap();
                    for (page, bytes) in (first..).zip(buf.chunks(PAGE)) {
                        let version = u64::from_le_bytes(std::array::from_fn(|i| bytes[8 + i]));
                        assert!(bytes == stamp(page, version), "page {page} has another's data, or is torn");
                        assert!(version >= seen[page as usize], "page {page} went back");
                        seen[page as usize] = version;
                    }
                }
            }
        };
        scope.spawn(reader(1));
        scope.spawn(reader(2));
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                background(&drive).work(1 << 20).unwrap();
            }
        });
        let mut random = Random::new(9);
        for version in 1..3_000 {
            let page = random.below(pages);
            drive.write_at(page * PAGE as u64, &stamp(page, version)).unwrap();
            if version % 100 == 0 {
                drive.flush().unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_was_written_outlives_the_process_without_a_flush() {
    for scheme in ["none", "inline", "live"] {
        let folder = tempfile::tempdir().unwrap();
        let path = at(&folder);
        let drive = make(&path, &format!(",dedup={scheme}"));
        let mut model = vec![0; SIZE];
        let mut random = Random::new(7);
        for step in 0..300_u64 {
            let page = random.below(SIZE as u64 / PAGE as u64 - 8) as usize;
            let pages = 1 + random.below(8) as usize;
            let range = page * PAGE..(page + pages) * PAGE;
            let byte = if step % 7 == 0 { 0 } else { random.below(20) as u8 };
            match step % 14 {
                0 => drive.zero(range.start as u64, range.len() as u64).unwrap(),
                7 => drive.discard(range.start as u64, range.len() as u64).unwrap(),
                _ => drive.write_at(range.start as u64, &vec![byte; range.len()]).unwrap(),
            }
            model[range].fill(byte);
            if step % 25 == 24 {
                // What the system has of the file, as it would have after a kill.
                let copy = folder.path().join("copy");
                std::fs::copy(&path, &copy).unwrap();
                let mut back = vec![1; SIZE];
                again(&copy).read_at(0, &mut back).unwrap();
                assert!(back == model, "{scheme}: something is lost after step {step}");
            }
        }
    }
}

#[test]
fn counts_are_those_of_the_drive() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder);
    let drive = make(&path, ",dedup=offline");
    assert_eq!(drive.flash_counts().unwrap().host_writes, 0);
    let mut random = Random::new(3);
    for round in 0..3 {
        for page in 0..1000_u64 {
            let page = if round == 0 { page } else { random.below(1000) };
            let byte = if page % 2 == 0 { 1 } else { (page + round) as u8 };
            drive.write_at(page * PAGE as u64, &[byte; PAGE]).unwrap();
        }
    }
    drive.discard(0, 100 * PAGE as u64).unwrap();
    let counts = drive.flash_counts().unwrap();
    assert_eq!((counts.host_writes, counts.mapped_pages, counts.idle_merges), (3000, 900, 0));
    assert!(counts.waiting_pages >= 900);
    work(&drive);
    drive.flush().unwrap();
    let (counts, stats, census) = (drive.flash_counts().unwrap(), drive.stats(), drive.census());
    assert_eq!(
        (counts.host_writes, counts.host_programs, counts.copies, counts.idle_merges, counts.erases),
        (stats.host_writes, stats.host_programs, stats.copies, stats.idle_merges, stats.erases)
    );
    assert!(counts.idle_merges > 500 && counts.copies > 0 && counts.write_amplification() > 1.0);
    assert_eq!((counts.mapped_pages, counts.live_pages), (census.mapped.into(), census.live.into()));
    assert_eq!(counts.blocks + u64::from(census.journal), census.blocks.into());
    assert_eq!((counts.free_blocks, counts.waiting_pages), (census.free.into(), 0));
    // Recovery counts the same blocks, and erases again as the log tells.
    drop(drive);
    let found = examine(&path, false, false).unwrap();
    assert_eq!((found.census.live, found.census.mapped), (census.live, census.mapped));
    assert!(found.wear.0 <= found.wear.2 && f64::from(found.wear.2) >= found.wear.1);
    assert!(counts.most_erases >= 1 && counts.mean_erases > 0.0);
}

/// The index and the filter are empty after a restart: a page from before is found as a duplicate
/// only after it was written again. Nothing but that is lost.
#[test]
fn pages_from_before_a_restart_are_no_candidates_until_they_are_written_again() {
    for scheme in ["inline", "offline", "separated", "live", "lives", "measured"] {
        let folder = tempfile::tempdir().unwrap();
        let path = at(&folder);
        let drive = make(&path, &format!(",dedup={scheme}"));
        let write = |drive: &FlashDrive, page: u64, byte: u8| {
            drive.write_at(page * PAGE as u64, &[byte; PAGE]).unwrap();
            work(drive);
        };
        write(&drive, 0, 7);
        write(&drive, 1, 7);
        let live = |drive: &FlashDrive| drive.census().live;
        assert_eq!(live(&drive), 1, "{scheme}");
        drive.flush().unwrap();
        drop(drive);
        let drive = again(&path);
        assert_eq!((live(&drive), drive.flash_counts().unwrap().waiting_pages), (1, 0), "{scheme}");
        write(&drive, 2, 7);
        assert_eq!(live(&drive), 2, "{scheme}: the index knows a page from before");
        // The pages from before die, and the filter that does not know them takes no harm.
        write(&drive, 0, 7);
        write(&drive, 1, 7);
        assert_eq!(live(&drive), 1, "{scheme}");
        let mut back = [0; 3 * PAGE];
        drive.read_at(0, &mut back).unwrap();
        assert_eq!(back, [7; 3 * PAGE]);
    }
}

/// The place of the data of a logical page, by their content.
fn find(path: &Path, content: &[u8]) -> u64 {
    let file = std::fs::read(path).unwrap();
    let at = file.chunks(PAGE).position(|page| page == content).expect("the content is in the file");
    (at * PAGE) as u64
}

fn rot(path: &Path, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

#[test]
fn a_damaged_page_is_refused_and_found_and_a_write_heals_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder);
    let drive = make(&path, "");
    for page in 0..40_u8 {
        drive.write_at(u64::from(page) * PAGE as u64, &[page + 1; PAGE]).unwrap();
    }
    drive.flush().unwrap();
    rot(&path, find(&path, &[8; PAGE]) + 100);
    let mut buf = vec![0; 4 * PAGE];
    // The sum is known: the page was programmed since the start.
    let error = drive.read_at(6 * PAGE as u64, &mut buf).unwrap_err();
    assert!(error.is_protection_error(), "{error}");
    drive.read_at(8 * PAGE as u64, &mut buf).unwrap();
    drop(drive);
    let found = examine(&path, true, false).unwrap();
    let damaged: Vec<u32> = found.damaged.iter().map(|damaged| damaged.lpn).collect();
    assert_eq!(damaged, [7]);
    assert!(!found.is_sound());
    // And now it is not.
    let drive = again(&path);
    assert!(drive.read_at(7 * PAGE as u64, &mut buf[..512]).unwrap_err().is_protection_error());
    assert!(drive.write_at(7 * PAGE as u64, &[9; 512]).is_err(), "the rest of the page is not known");
    drive.write_at(7 * PAGE as u64, &[9; PAGE]).unwrap();
    drive.read_at(7 * PAGE as u64, &mut buf[..PAGE]).unwrap();
    assert_eq!(buf[..PAGE], [9; PAGE]);
    drive.flush().unwrap();
    drop(drive);
    assert!(examine(&path, true, false).unwrap().is_sound());
}

#[test]
fn a_page_that_rots_at_rest_is_damage_and_not_a_torn_write() {
    for closed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = at(&folder);
        let drive = make(&path, "");
        // Blocks are erased ahead: to take one needs no sync.
        work(&drive);
        for page in 0..40_u8 {
            drive.write_at(u64::from(page) * PAGE as u64, &[page + 1; PAGE]).unwrap();
        }
        drive.flush().unwrap();
        // What is in the file after idle time, as a kill leaves it; or after the drive was closed.
        let copy = folder.path().join("copy");
        if closed {
            drop(drive);
            std::fs::copy(&path, &copy).unwrap();
        } else {
            work(&drive);
            std::fs::copy(&path, &copy).unwrap();
        }
        rot(&copy, find(&copy, &[8; PAGE]) + 100);
        let found = examine(&copy, true, false).unwrap();
        let damaged: Vec<u32> = found.damaged.iter().map(|damaged| damaged.lpn).collect();
        assert_eq!((found.census.mapped, damaged), (40, vec![7]), "closed {closed}");
    }
}

#[test]
fn superblocks_are_repaired_from_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder);
    let drive = make(&path, "");
    drive.write_at(0, &[5; PAGE]).unwrap();
    drive.flush().unwrap();
    drop(drive);
    let size = std::fs::metadata(&path).unwrap().len();
    let zero = |from: u64, len: usize| {
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&vec![0; len], from).unwrap();
    };
    for (from, len, slots) in [
        (0, 4096, [true, false, false, false]),
        (4096, 4096, [false, true, false, false]),
        (size - 8192, 8192, [false, false, true, true]),
        (0, 8192, [true, true, false, false]),
    ] {
        zero(from, len);
        let found = examine(&path, true, false).unwrap();
        assert_eq!(found.damaged_slots, slots);
        let lost = slots[..2] == [true, true];
        let opened = open(&FlashSpec::at(path.clone()), "flash");
        assert_eq!(matches!(&opened, Err(FlashError::CopyLeft(_))), lost);
        drop(opened);
        assert_eq!(repair(&path, false).unwrap().slots, slots.iter().filter(|slot| **slot).count());
        assert!(examine(&path, true, false).unwrap().is_sound());
    }
    zero(0, 8192);
    zero(size - 8192, 8192);
    assert!(matches!(repair(&path, false), Err(FlashError::Superblock { .. })));
    assert!(matches!(examine(&path, false, false), Err(FlashError::Superblock { .. })));
}

#[test]
fn a_lost_tag_stops_the_drive_until_it_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder);
    let drive = make(&path, "");
    for version in 1..4_u8 {
        for page in 0..8_u8 {
            drive.write_at(u64::from(page) * PAGE as u64, &[version * 16 + page; PAGE]).unwrap();
        }
        drive.flush().unwrap();
    }
    drive.write_at(20 * PAGE as u64, &[1; PAGE]).unwrap();
    drive.flush().unwrap();
    // As after a kill: a drive that is closed has a checkpoint, and needs no tag.
    let killed = folder.path().join("killed");
    std::fs::copy(&path, &killed).unwrap();
    drop(drive);
    let closed = |path: &Path| examine(path, false, false).unwrap().was_closed;
    assert!(closed(&path) && !closed(&killed));
    let path = killed;
    let layout = {
        let device = FileDevice::open(&path, OpenMode::ReadOnly, Options::default()).unwrap();
        let medium = pumice_blockdev::DeviceMedium(std::sync::Arc::new(device));
        Superblock::read(&medium, 0).unwrap().unwrap().layout
    };
    let geometry = layout.geometry();
    let data = find(&path, &[3 * 16 + 5; PAGE]);
    let page = (0..geometry.pages()).map(Ppn).find(|page| layout.data_at(*page) == data).unwrap();
    let tag = layout.footer_at(geometry.block_of(page)) + u64::from(geometry.index_of(page)) * 128;
    rot(&path, tag + 9);
    for result in [examine(&path, true, false).map(drop), open(&FlashSpec::at(path.clone()), "f").map(drop)] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(&format!("page {page} was durable")), "{error}");
    }
    assert!(repair(&path, true).unwrap().accepted_lost_tags);
    let drive = again(&path);
    let mut buf = [0; PAGE];
    drive.read_at(5 * PAGE as u64, &mut buf).unwrap();
    assert_eq!(buf, [2 * 16 + 5; PAGE], "the version before");
    drive.read_at(6 * PAGE as u64, &mut buf).unwrap();
    assert_eq!(buf, [3 * 16 + 6; PAGE]);
}

#[test]
fn what_is_there_is_not_overwritten_and_other_settings_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder);
    assert!(matches!(open(&FlashSpec::at(path.clone()), "f"), Err(FlashError::NoCapacity(_))));
    assert!(!path.exists());
    std::fs::write(&path, [0x55; 9000]).unwrap();
    let wanted = spec(&path, ",capacity=4MiB");
    assert!(matches!(open(&wanted, "f"), Err(FlashError::Superblock { .. })));
    let made = plan(&wanted).unwrap();
    assert!(matches!(format(&wanted, &made, false), Err(FlashError::NotEmpty(_))));
    assert_eq!(std::fs::read(&path).unwrap(), [0x55; 9000]);
    let why = format(&spec(Path::new("/dev/null"), ",capacity=4MiB"), &made, true).unwrap_err().to_string();
    assert_eq!(why, "/dev/null: is neither a block device nor a file");
    format(&wanted, &made, true).unwrap();
    let (drive, _) = open(&wanted, "f").unwrap();
    drive.write_at(0, &[1; PAGE]).unwrap();
    drive.flush().unwrap();
    // It is open: nobody else may have it.
    assert!(matches!(examine(&path, false, false), Err(FlashError::InUse(_))));
    assert!(repair(&path, false).is_err());
    assert!(format(&wanted, &made, true).is_err());
    drop(drive);
    for (options, field) in [(",capacity=8MiB", "capacity"), (",op=28%", "op")] {
        let error = open(&spec(&path, options), "f").map(drop).unwrap_err();
        assert!(matches!(&error, FlashError::Differs { field: f, .. } if *f == field), "{error}");
    }
    // The scheme is advice.
    open(&spec(&path, ",dedup=offline"), "f").unwrap();
    // A new drive over an old one holds nothing of it.
    format(&wanted, &made, true).unwrap();
    let mut buf = [1; PAGE];
    again(&path).read_at(0, &mut buf).unwrap();
    assert_eq!(buf, [0; PAGE]);
}
