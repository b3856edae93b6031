//! The map against a plain model: whatever is written, trimmed, flushed, merged and collected, each
//! logical page reads its own content.

use pumice_flash::chip::{Geometry, MemoryNand, Random, Timing};
use pumice_flash::ftl::{Coded, Config, Ftl, FtlError, NandJournal, Scheme, Secret, Sums, recover};

type Drive = Ftl<Coded<MemoryNand<Vec<u8>, Vec<u8>>>, NandJournal, Vec<u8>>;

const PAGE: u32 = 256;

fn drive(scheme: Scheme, change: impl FnOnce(&mut Config)) -> (Drive, Config) {
    let mut config = Config { reserve: 1, ..Config::new(150, scheme) };
    change(&mut config);
    let shape =
        |blocks| Geometry { blocks, pages_per_block: 8, channels: 2, page_bytes: PAGE, oob_bytes: 128 };
    // The size of the journal depends on the number of blocks: grow until both fit.
    for blocks in 60..400 {
        let nand = MemoryNand::new(shape(blocks), Timing::DISKSIM);
        let journal = NandJournal::new(shape(blocks), config.logical);
        match Ftl::format(Coded::new(nand, Sums::keyed(&Secret([5; 32]), PAGE)), journal, config) {
            Err(FtlError::TooSmall { .. }) => {}
            other => return (other.unwrap(), config),
        }
    }
    panic!("no number of blocks fits");
}

fn content(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    (0..PAGE / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

/// Random operations; after each hundred all pages are compared with the model.
fn play(mut drive: Drive, config: Config, seed: u64, operations: u32) -> Drive {
    let mut random = Random::new(seed);
    let mut model: Vec<Option<u64>> = vec![None; config.logical as usize];
    for operation in 0..operations {
        let lpn = random.below(u64::from(config.logical)) as u32;
        match random.below(20) {
            0 => {
                let count = (random.below(5) as u32 + 1).min(config.logical - lpn);
                drive.trim(lpn, count).unwrap();
                model[lpn as usize..(lpn + count) as usize].fill(None);
            }
            1 => drop(drive.flush(0).unwrap()),
            2 => drop(drive.idle(0, 1_000_000_000).unwrap()),
            other => {
                // Few contents, so that many are equal.
                let number = random.below(if other < 12 { 40 } else { 100_000 });
                if other == 3 {
                    drive.write(lpn, &content(number), 0).unwrap();
                    drive.flush(0).unwrap();
                } else {
                    drive.write(lpn, &content(number), 0).unwrap();
                }
                model[lpn as usize] = Some(number);
            }
        }
        if operation % 100 == 99 {
            for (lpn, number) in model.iter().enumerate() {
                let read = drive.read(lpn as u32, 0).unwrap().0;
                assert_eq!(read, number.map(content), "seed {seed}, operation {operation}, page {lpn}");
            }
            assert_eq!(drive.contradictions(), Vec::<String>::new());
        }
    }
    drive
}

#[test]
fn every_scheme_reads_what_was_written() {
    for (seed, scheme) in Scheme::ALL.into_iter().enumerate() {
        let (drive, config) = drive(scheme, |_| {});
        let mut drive = play(drive, config, seed as u64, 4_000);
        let stats = drive.stats();
        assert!(stats.copies > 0 && stats.erases > 0, "{scheme}: garbage was collected");
        let merged = stats.inline_hits + stats.idle_merges + stats.gc_merges;
        assert_eq!(merged > 100, scheme != Scheme::None, "{scheme}: {stats:?}");
    }
}

#[test]
fn equal_keys_of_other_contents_are_never_merged() {
    for scheme in [Scheme::Inline, Scheme::Offline, Scheme::Measured] {
        for key_bits in [1, 4, 16] {
            let (drive, config) = drive(scheme, |config| config.key_bits = key_bits);
            let mut drive = play(drive, config, u64::from(key_bits), 3_000);
            if key_bits < 16 {
                assert!(drive.stats().key_collisions > 100, "{scheme}: collisions were planted");
            }
        }
    }
}

#[test]
fn a_drive_that_was_flushed_is_the_same_after_recovery() {
    for scheme in Scheme::ALL {
        let (mut drive, config) = drive(scheme, |_| {});
        let mut random = Random::new(9);
        let mut model = vec![None; config.logical as usize];
        for round in 0..6 {
            for _ in 0..300 {
                let (lpn, number) = (random.below(150) as u32, random.below(60));
                drive.write(lpn, &content(number), 0).unwrap();
                model[lpn as usize] = Some(number);
            }
            drive.idle(0, u64::MAX / 2).unwrap();
            drive.trim(round * 10, 5).unwrap();
            model[round as usize * 10..round as usize * 10 + 5].fill(None);
            drive.flush(0).unwrap();
            drive = recover(drive.into_nand(), config, false).unwrap();
            for (lpn, number) in model.iter().enumerate() {
                assert_eq!(drive.read(lpn as u32, 0).unwrap().0, number.map(content), "{scheme}, page {lpn}");
            }
            assert_eq!(drive.contradictions(), Vec::<String>::new());
        }
    }
}

#[test]
fn wear_stays_within_the_spread_when_half_the_data_never_change() {
    let (mut drive, _) = drive(Scheme::None, |config| config.wear_spread = 8);
    for lpn in 0..150 {
        drive.write(lpn, &content(u64::from(lpn)), 0).unwrap();
    }
    let mut random = Random::new(4);
    for number in 0..40_000 {
        drive.write(random.below(40) as u32, &content(1_000 + number), 0).unwrap();
    }
    let (least, mean, most) = drive.wear();
    assert!(mean > 50.0 && most - least <= 16, "{least} to {most}, mean {mean}");
    for lpn in 40..150 {
        assert_eq!(drive.read(lpn, 0).unwrap().0, Some(content(u64::from(lpn))));
    }
}

#[test]
fn pages_that_do_not_exist_are_refused() {
    let (mut drive, _) = drive(Scheme::None, |_| {});
    assert_eq!(drive.write(150, &content(0), 0), Err(FtlError::OutOfRange(150)));
    assert_eq!(drive.read(150, 0), Err(FtlError::OutOfRange(150)));
    assert_eq!(drive.trim(149, 2), Err(FtlError::OutOfRange(150)));
}
