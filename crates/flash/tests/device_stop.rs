//! A drive that was stopped hangs on no single sector of tags.

use pumice_blockdev::{BlockDevice, IoError, MemoryDevice};
use pumice_flash::chip::{BlockId, Ppn, Random};
use pumice_flash::device::{FlashDrive, FlashSpec, Superblock, format, plan};
use pumice_flash::ftl::Scheme;
use std::sync::Arc;

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// The contents of each page of a drive: a number that its bytes follow from, or nothing.
type Model = Vec<u64>;

fn page(number: u64) -> Vec<u8> {
    if number == 0 {
        return vec![0; PAGE];
    }
    let mut random = Random::new(number);
    (0..PAGE / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

/// A drive that was overwritten, trimmed and deduplicated, and stopped.
fn stopped(scheme: Scheme) -> (Superblock, Vec<u8>, Model) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash");
    let spec: FlashSpec = format!("{},capacity=2MiB", path.display()).parse().unwrap();
    let superblock = plan(&spec).unwrap();
    format(&spec, &superblock, false).unwrap();
    let device = Arc::new(MemoryDevice::with_content("flash", std::fs::read(&path).unwrap()));
    let drive = FlashDrive::open(Arc::clone(&device) as _, &superblock, scheme, "flash").unwrap();
    let (mut model, mut random) = (vec![0; superblock.logical as usize], Random::new(5));
    for number in 1..3_000 {
        let lpn = random.below(model.len() as u64) as usize;
        model[lpn] = match random.below(10) {
            0 => 0,
            // Many of these are equal.
            1..5 => 10_000 + random.below(40),
            _ => number,
        };
        let at = (lpn * PAGE) as u64;
        match model[lpn] {
            0 => drive.discard(at, PAGE as u64).unwrap(),
            number => drive.write_at(at, &page(number)).unwrap(),
        }
        if random.below(50) == 0 {
            drive.flush().unwrap();
        }
        if random.below(100) == 0 {
            let work = drive.background().unwrap();
            while work.wanted() > 0 {
                work.work(1 << 20).unwrap();
            }
        }
    }
    drop(drive);
    let mut content = vec![0; superblock.layout.file_bytes() as usize];
    device.read_at(0, &mut content).unwrap();
    (superblock, content, model)
}

/// Opens the drive with other bytes in it, and reads all pages: those that cannot be read.
fn read_all(superblock: &Superblock, content: Vec<u8>, scheme: Scheme, model: &Model) -> Vec<usize> {
    let device = Arc::new(MemoryDevice::with_content("flash", content));
    let drive = FlashDrive::open(device, superblock, scheme, "flash").expect("it can be served");
    let (mut damaged, mut back) = (Vec::new(), vec![0; PAGE]);
    for (lpn, number) in model.iter().enumerate() {
        match drive.read_at((lpn * PAGE) as u64, &mut back) {
            Ok(()) => assert!(back == page(*number), "page {lpn} reads what it does not hold"),
            Err(error) => {
                assert!(IoError::is_protection_error(&error), "{error}");
                damaged.push(lpn);
            }
        }
    }
    damaged
}

#[test]
fn no_single_sector_of_tags_makes_a_stopped_drive_unservable() {
    for (scheme, junk) in [(Scheme::None, 0), (Scheme::Offline, 0), (Scheme::Offline, 0xA5)] {
        let (superblock, content, model) = stopped(scheme);
        assert_eq!(read_all(&superblock, content.clone(), scheme, &model), [0; 0]);
        let layout = superblock.layout;
        let (mut tried, mut refused) = (0, 0);
        for block in (0..layout.geometry().blocks).map(BlockId) {
            for sector in 0..layout.footer_bytes() / SECTOR {
                let at = layout.footer_at(block) as usize + sector * SECTOR;
                if content[at..at + SECTOR].iter().all(|byte| *byte == 0) {
                    continue;
                }
                let mut other = content.clone();
                other[at..at + SECTOR].fill(junk);
                let damaged = read_all(&superblock, other, scheme, &model);
                // Four tags lie in a sector; equal pages share one.
                assert!(scheme == Scheme::Offline || damaged.len() <= 4, "{damaged:?}");
                (tried, refused) = (tried + 1, refused + damaged.len());
            }
        }
        let pages = layout.geometry().pages();
        assert!(tried > 100 && refused > 0, "{tried} sectors of tags of {} pages", Ppn(pages));
    }
}

#[test]
fn a_stop_without_changes_writes_nothing() {
    let (superblock, content, model) = stopped(Scheme::Offline);
    for _ in 0..2 {
        let device = Arc::new(MemoryDevice::with_content("flash", content.clone()));
        let drive =
            FlashDrive::open(Arc::clone(&device) as _, &superblock, Scheme::Offline, "flash").unwrap();
        let mut back = vec![0; PAGE];
        drive.read_at(0, &mut back).unwrap();
        assert!(back == page(model[0]));
        let mut after = vec![0; content.len()];
        device.read_at(0, &mut after).unwrap();
        let opened = after.clone();
        drop(drive);
        device.read_at(0, &mut after).unwrap();
        assert!(after == opened, "closing wrote something");
    }
}
