//! A flash drive in a file that holds anything: its superblock, tags and journal are taken or
//! refused, and a drive that was opened keeps what is written to it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_blockdev::{BlockDevice, DeviceMedium, MemoryDevice};
use pumice_base::durable::Medium;
use pumice_flash::device::{FileNand, FlashDrive, Layout, Page, Superblock};
use pumice_flash::ftl::{Coded, Config, Fingerprint, Ftl, NandJournal, Scheme, Secret};
use pumice_fuzz::{Bytes, take};
use std::sync::{Arc, OnceLock};

const PAGES: u64 = 16;

/// A small drive with data, shared pages and a log, as a kill leaves it.
fn made() -> &'static (Superblock, Vec<u8>) {
    static MADE: OnceLock<(Superblock, Vec<u8>)> = OnceLock::new();
    MADE.get_or_init(|| {
        let (layout, logical) = Layout::of_drive(PAGES * 4096, 700).expect("a drive");
        let (scheme, fingerprint) = (Scheme::Offline, Fingerprint::Blake3);
        let (identity, secret) = ([7; 16], Some(Secret([6; 32])));
        let superblock = Superblock { identity, layout, logical, op: 700, scheme, fingerprint, secret };
        let device = Arc::new(MemoryDevice::new("flash", layout.file_bytes()));
        let medium = DeviceMedium(Arc::clone(&device) as _);
        let nand = Coded::new(FileNand::erased(medium.clone(), layout), superblock.sums());
        let journal = NandJournal::new(layout.geometry(), logical);
        let config = Config::new(logical, scheme);
        drop(Ftl::<_, _, Page>::format(nand, journal, config).expect("a drive"));
        superblock.write(&medium, 0).expect("memory");
        let drive = FlashDrive::open(Arc::clone(&device) as _, &superblock, scheme, "f").expect("a new one");
        for page in 0..PAGES {
            drive.write_at(page * 4096, &[page as u8 % 5 + 1; 4096]).expect("memory");
        }
        drive.discard(3 * 4096, 2 * 4096).expect("memory");
        let work = drive.background().expect("it has some");
        while work.wanted() > 0 {
            work.work(1 << 20).expect("memory");
        }
        drive.write_at(0, &[99; 4096]).expect("memory");
        drive.flush().expect("memory");
        let mut content = vec![0; layout.file_bytes() as usize];
        medium.read_at(0, &mut content).expect("memory");
        (superblock, content)
    })
}

fuzz_target!(|data: &[u8]| {
    // A superblock by itself: what is taken is written as it was read.
    if let Ok(superblock) = Superblock::decode(data) {
        assert_eq!(superblock.encode(), data);
    }
    let (superblock, content) = made();
    let mut rest = data;
    let choice = take(&mut rest);
    let mut content = content.clone();
    let geometry = superblock.layout.geometry();
    let mut bytes = Bytes::new(rest);
    while !bytes.is_empty() {
        let Ok([block, a, b, c, mask]) = <[u8; 5]>::try_from(bytes.take(5)) else { break };
        let block = pumice_flash::chip::BlockId(u32::from(block) % geometry.blocks);
        let place = u64::from(u32::from_le_bytes([a, b, c, 0]));
        let at = if mask & 1 == 0 {
            superblock.layout.data_at(geometry.page(block, 0)) + place % (4096 * 32)
        } else {
            superblock.layout.footer_at(block) + place % superblock.layout.footer_bytes() as u64
        };
        content[at as usize] ^= mask;
    }
    if choice & 1 == 0 {
        // Tags whose checksums fit, whatever they say.
        for block in (0..geometry.blocks).map(pumice_flash::chip::BlockId) {
            let footer = superblock.layout.footer_at(block) as usize;
            for tag in content[footer..footer + superblock.layout.footer_bytes()].chunks_mut(128) {
                if tag[..4] == *b"PFT1" {
                    let sum = crc32c::crc32c(&tag[..60]);
                    tag[60..64].copy_from_slice(&sum.to_le_bytes());
                }
            }
        }
    }
    let device = Arc::new(MemoryDevice::with_content("flash", content));
    let scheme = [Scheme::None, Scheme::Offline, Scheme::Live, Scheme::Inline][(choice >> 8) as usize % 4];
    let Ok(drive) = FlashDrive::open(Arc::clone(&device) as _, superblock, scheme, "f") else { return };
    let page = |drive: &FlashDrive, page: u64| {
        let mut bytes = vec![0; 4096];
        drive.read_at(page * 4096, &mut bytes).map(|()| bytes).map_err(|error| error.to_string())
    };
    let before: Vec<_> = (0..PAGES).map(|n| page(&drive, n)).collect();
    for n in 0..PAGES / 2 {
        if drive.write_at(n * 4096, &[n as u8 ^ 0x5A; 4096]).is_err() {
            return;
        }
    }
    let work = drive.background().expect("it has some");
    for _ in 0..64 {
        if work.wanted() == 0 || work.work(1 << 20).is_err() {
            break;
        }
    }
    if drive.flush().is_err() {
        return;
    }
    drop(drive);
    let drive = FlashDrive::open(device, superblock, scheme, "f").expect("what it made itself is sound");
    for n in 0..PAGES {
        if n < PAGES / 2 {
            assert_eq!(page(&drive, n), Ok(vec![n as u8 ^ 0x5A; 4096]));
        } else {
            let now = page(&drive, n);
            assert!(now == before[n as usize] || (now.is_err() && before[n as usize].is_err()), "page {n}");
        }
    }
});
