use super::*;
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt;

const SIZE: u64 = 256 << 10;

fn made(folder: &Path, direct: Direct) -> FileDevice {
    let path = folder.join("drive");
    std::fs::write(&path, vec![7; SIZE as usize]).unwrap();
    FileDevice::open(&path, OpenMode::ReadWrite, Options { direct }).unwrap()
}

fn allocated(device: &FileDevice) -> u64 {
    device.flush().unwrap();
    std::fs::metadata(&device.path).unwrap().blocks() * 512
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Against plain memory, at any offset, directly and through the page cache in turn: exactly
    /// the range is zeros or written, and the file keeps its length.
    #[test]
    fn exactly_the_range_is_zeros(
        steps in proptest::collection::vec((0..SIZE, 1..3 * 4096_u64, 0..4_u8), 1..12),
        direct in prop_oneof![Just(Direct::Auto), Just(Direct::Off)],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let device = made(folder.path(), direct);
        let mut model = vec![7; SIZE as usize];
        for (offset, len, how) in steps {
            // Half of what goes through the page cache is whole grains.
            let offset = if how == 3 && offset % 2 == 0 { offset / 4096 * 4096 } else { offset };
            let len = if how == 3 && offset % 4096 == 0 { len.next_multiple_of(4096) } else { len };
            let len = len.min(SIZE - offset);
            let bytes = offset as usize..(offset + len) as usize;
            match how {
                0 => device.zero(offset, len).unwrap(),
                1 => device.discard(offset, len).unwrap(),
                2 => device.write_at(offset, &vec![9; len as usize]).unwrap(),
                _ => device.write_soon(offset, &vec![9; len as usize]).unwrap(),
            }
            model[bytes].fill(if how >= 2 { 9 } else { 0 });
            let mut content = vec![1; SIZE as usize];
            device.read_at(0, &mut content).unwrap();
            prop_assert!(content == model);
            prop_assert_eq!(std::fs::metadata(&device.path).unwrap().len(), SIZE);
        }
    }
}

#[test]
fn a_discard_gives_room_back_and_a_zeroing_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let device = made(folder.path(), Direct::Auto);
    if system::make_zeros(&device.file, system::Zeroing::FreeRoom, 0, 4096).is_err() {
        eprintln!("SKIPPED: the file system punches no holes");
        return;
    }
    device.write_at(0, &vec![7; SIZE as usize]).unwrap();
    assert!(allocated(&device) >= SIZE);
    device.zero(0, SIZE).unwrap();
    assert!(allocated(&device) >= SIZE, "the room stays");
    device.discard(4095, SIZE - 8190).unwrap();
    assert!(allocated(&device) <= 2 * 4096 + 4096, "only the ends are left: {}", allocated(&device));
    assert!(device.discard(SIZE - 512, 1024).is_err() && device.zero(u64::MAX, 2).is_err());
}

#[test]
fn what_is_open_for_reading_only_is_not_discarded() {
    let folder = tempfile::tempdir().unwrap();
    drop(made(folder.path(), Direct::Auto));
    let device =
        FileDevice::open(&folder.path().join("drive"), OpenMode::ReadOnly, Options::default()).unwrap();
    assert!(device.discard(0, SIZE).is_err() && device.zero(0, SIZE).is_err());
    let mut content = [0; 512];
    device.read_at(0, &mut content).unwrap();
    assert_eq!(content, [7; 512]);
}

#[test]
fn a_block_device_that_is_discarded_reads_as_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    let made = std::process::Command::new("losetup").args(["--find", "--show"]).arg(&path).output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        eprintln!("SKIPPED: no loop devices here");
        return;
    };
    let name = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let tried = std::panic::catch_unwind(|| {
        let device = FileDevice::open(Path::new(&name), OpenMode::ReadWrite, Options::default()).unwrap();
        let grains = device.grains();
        assert!(grains.write >= device.logical_block() && grains.discard >= grains.write);
        device.zero(100, 100_000).unwrap();
        device.discard(1 << 19, 1 << 18).unwrap();
        let mut content = vec![1; 1 << 20];
        device.read_at(0, &mut content).unwrap();
        let zeros =
            |at: usize| (100..100_100).contains(&at) || (1 << 19..(1 << 19) + (1 << 18)).contains(&at);
        assert!(content.iter().enumerate().all(|(at, byte)| *byte == if zeros(at) { 0 } else { 7 }));
        device.flush().unwrap();
        assert!(
            std::fs::metadata(&path).unwrap().blocks() * 512 < (1 << 20) - (1 << 17),
            "the room is given back"
        );
    });
    let _ = std::process::Command::new("losetup").arg("--detach").arg(&name).status();
    tried.unwrap();
}

#[test]
fn writes_to_a_removed_file_fail_and_its_data_are_still_read() {
    let folder = tempfile::tempdir().unwrap();
    let device = made(folder.path(), Direct::Auto);
    assert_eq!(device.failing(), None);
    std::fs::remove_file(folder.path().join("drive")).unwrap();
    for refused in
        [device.write_at(0, &[1; 512]), device.flush(), device.discard(0, SIZE), device.zero(0, 512)]
    {
        assert!(refused.unwrap_err().to_string().contains("removed"));
    }
    assert!(!device.begin_whole_write(SIZE), "nor past the page cache");
    assert!(device.failing().is_some());
    let mut content = [0; 512];
    device.read_at(SIZE - 512, &mut content).unwrap();
    assert_eq!(content, [7; 512]);
}

#[test]
fn a_truncated_file_does_not_grow_again_with_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let device = made(folder.path(), Direct::Auto);
    let path = folder.path().join("drive");
    let cut = |len: u64| File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
    cut(SIZE / 2);
    // The last of its bytes: with it the file would be as long as before.
    assert!(!device.begin_whole_write(SIZE), "past the page cache");
    assert!(device.write_at(SIZE - 4096, &[1; 4096]).is_err());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), SIZE / 2);
    assert!(device.descriptor().is_none(), "everything goes where it is looked at");
    // Another program makes it long again: what it had there is lost all the same.
    cut(SIZE);
    let mut content = [0; 512];
    assert!(device.read_at(SIZE / 2, &mut content).is_err(), "no zeros in place of data");
    assert!(device.write_at(0, &[1; 512]).is_err() && device.failing().is_some());
    device.read_at(SIZE / 2 - 512, &mut content).unwrap();
    assert_eq!(content, [7; 512]);
}

/// The node of a block device lies on a file system in memory. Read through the page cache, a
/// member that md writes shows an old superblock.
#[test]
fn block_devices_are_read_past_the_page_cache() {
    let devices = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let mut tried = 0;
    for entry in devices {
        let path = Path::new("/dev").join(entry.file_name());
        let Ok(device) = FileDevice::open(&path, OpenMode::ReadOnly, Options::default()) else {
            continue;
        };
        // A RAM disk may refuse; everything else takes direct I/O.
        if entry.file_name().to_string_lossy().starts_with("ram") {
            continue;
        }
        tried += 1;
        assert!(device.descriptor().is_some(), "{}", path.display());
    }
    if tried == 0 {
        eprintln!("SKIPPED: there is no block device here that this user may read");
    }
}
