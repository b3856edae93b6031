//! Cuts of the power and failing flash, in virtual time, from seeds.
//!
//! After each cut: what was flushed is there, what was trimmed and flushed stays away, and no page
//! reads another's content. `PUMICE_FTL_SEEDS` sets the number of seeds (`cargo xtask ftl-cases
//! --seeds N`).

use pumice_flash::{Faults, Geometry, MemoryNand, NandError, Random, Timing};
use pumice_ftl::{Coded, Config, Ftl, FtlError, NandJournal, Scheme, recover};

type Flash = Coded<MemoryNand<Vec<u8>, Vec<u8>>>;
type Drive = Ftl<Flash, NandJournal, Vec<u8>>;

const PAGE: u32 = 256;
const LOGICAL: u32 = 60;
const CUTS: u32 = 4;

fn content(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    (0..PAGE / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

/// What each logical page may read: its content at the last flush, and all that it was given since.
struct Allowed {
    now: Vec<Option<u64>>,
    since: Vec<Vec<Option<u64>>>,
}

impl Allowed {
    fn set(&mut self, lpn: u32, value: Option<u64>) {
        self.now[lpn as usize] = value;
        self.since[lpn as usize].push(value);
    }

    fn flushed(&mut self) {
        for (since, now) in self.since.iter_mut().zip(&self.now) {
            *since = vec![*now];
        }
    }
}

/// One operation; an error if the power was cut in it.
fn step(drive: &mut Drive, allowed: &mut Allowed, random: &mut Random) -> Result<(), FtlError> {
    let lpn = random.below(u64::from(LOGICAL)) as u32;
    match random.below(24) {
        0 => {
            let count = (random.below(6) as u32 + 1).min(LOGICAL - lpn);
            (lpn..lpn + count).for_each(|lpn| allowed.set(lpn, None));
            drive.trim(lpn, count)?;
        }
        1 | 2 => {
            drive.flush(0)?;
            allowed.flushed();
        }
        3 => drop(drive.idle(0, random.below(20) * 100_000)?),
        4 if random.below(4) == 0 => drive.checkpoint()?,
        5 => {
            let number = random.below(1_000_000);
            allowed.set(lpn, Some(number));
            drive.write_fua(lpn, &content(number), 0)?;
            allowed.since[lpn as usize] = vec![Some(number)];
        }
        other => {
            let number = random.below(if other < 15 { 12 } else { 1_000_000 });
            allowed.set(lpn, Some(number));
            drive.write(lpn, &content(number), 0)?;
        }
    }
    Ok(())
}

fn check(drive: &mut Drive, allowed: &mut Allowed, seed: u64) {
    for lpn in 0..LOGICAL {
        let read = drive.read(lpn, 0).unwrap_or_else(|error| panic!("seed {seed}, page {lpn}: {error}")).0;
        let may = &allowed.since[lpn as usize];
        let found = may.iter().rev().find(|number| number.map(content) == read);
        let Some(found) = found else {
            panic!("seed {seed}, page {lpn}: reads none of {may:?}");
        };
        allowed.now[lpn as usize] = *found;
    }
    assert_eq!(drive.contradictions(), Vec::<String>::new(), "seed {seed}");
    // What was found is there for good.
    allowed.flushed();
}

fn config(random: &mut Random) -> Config {
    let scheme = Scheme::ALL[random.below(Scheme::ALL.len() as u64) as usize];
    Config {
        buffer: [0, 0, 5][random.below(3) as usize],
        key_bits: [64, 16, 3][random.below(3) as usize],
        checkpoint_every: [40, 200, u64::MAX][random.below(3) as usize],
        wear_spread: [2, 64][random.below(2) as usize],
        ..Config::new(LOGICAL, scheme)
    }
}

fn flash(spare: u32, config: &Config) -> (Flash, NandJournal) {
    for blocks in 30.. {
        let geometry = Geometry { blocks, pages_per_block: 8, channels: 1, page_bytes: PAGE, oob_bytes: 128 };
        let journal = NandJournal::new(geometry, LOGICAL);
        let need = pumice_ftl::Journal::<Flash>::reserved(&journal) + LOGICAL.div_ceil(8) + 11;
        if blocks >= need + spare {
            let _ = config;
            return (Coded::new(MemoryNand::new(geometry, Timing::DISKSIM)), journal);
        }
    }
    unreachable!("some number of blocks fits")
}

fn one_seed(seed: u64) {
    let mut random = Random::new(seed);
    let config = config(&mut random);
    let fails = seed.is_multiple_of(3);
    // Where programs and erases fail, blocks are retired: room for that.
    let (mut nand, journal) = flash(if fails { 40 } else { 0 }, &config);
    let mut faults = Faults { cuts: true, ..Faults::from_seed(seed) };
    if fails {
        (faults.program_odds, faults.erase_odds) = (300, 150);
    }
    nand.inner_mut().set_faults(Some(faults));
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    let mut allowed =
        Allowed { now: vec![None; LOGICAL as usize], since: vec![vec![None]; LOGICAL as usize] };
    for _ in 0..CUTS {
        let most = if random.below(2) == 0 { 60 } else { 600 };
        let after = random.below(most);
        drive.nand_mut().inner_mut().faults_mut().unwrap().cut_after = Some(after);
        loop {
            match step(&mut drive, &mut allowed, &mut random) {
                Ok(()) => {}
                Err(FtlError::Nand(NandError::PowerLost)) => break,
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        let mut nand = drive.into_nand();
        nand.inner_mut().power_cycle(random.next_u64());
        // Often the power goes again during recovery.
        for _ in 0..random.below(3) {
            let after = random.below(120);
            nand.inner_mut().faults_mut().unwrap().cut_after = Some(after);
            match recover(&mut nand, config, false) {
                Ok(_) | Err(FtlError::Nand(NandError::PowerLost)) => {}
                Err(error) => panic!("seed {seed}, recovery: {error}"),
            }
            nand.inner_mut().power_cycle(random.next_u64());
        }
        drive = recover(nand, config, false).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        check(&mut drive, &mut allowed, seed);
    }
}

fn seeds(usual: u64) -> std::ops::Range<u64> {
    let asked = std::env::var("PUMICE_FTL_SEEDS").ok();
    0..asked.map_or(usual, |text| text.parse().expect("PUMICE_FTL_SEEDS is a number"))
}

#[test]
fn flushed_data_survive_every_cut() {
    seeds(400).for_each(one_seed);
}

#[test]
fn a_block_is_not_void_before_what_replaced_its_pages_is_durable() {
    one_seed(3_169);
}

/// Rot in pages at rest: a page reads its own content or says that it is damaged, now and after a
/// recovery, and after garbage collection moved it.
#[test]
fn rot_is_never_read_as_data() {
    for seed in seeds(150) {
        let mut random = Random::new(seed ^ 0x0507);
        let config = config(&mut random);
        let (nand, journal) = flash(0, &config);
        let mut drive = Ftl::format(nand, journal, config).unwrap();
        let mut allowed =
            Allowed { now: vec![None; LOGICAL as usize], since: vec![vec![None]; LOGICAL as usize] };
        for _ in 0..200 {
            step(&mut drive, &mut allowed, &mut random).unwrap();
        }
        drive.flush(0).unwrap();
        // A page that is written after a flush says that what is before is durable.
        // Its content is new: a duplicate would need no program.
        allowed.set(0, Some(2_000_000));
        drive.write_fua(0, &content(2_000_000), 0).unwrap();
        let mut rotten = 0;
        for _ in 0..6 {
            let lpn = 1 + random.below(u64::from(LOGICAL) - 1) as u32;
            if let Some(page) = drive.map().lookup(lpn) {
                rotten += u32::from(drive.nand_mut().inner_mut().rot(page, random.next_u64()));
            }
        }
        for round in 0..3 {
            let mut damaged = 0;
            for lpn in 0..LOGICAL {
                match drive.read(lpn, 0) {
                    Ok((read, _)) => {
                        assert_eq!(read, allowed.now[lpn as usize].map(content), "seed {seed}, page {lpn}");
                    }
                    Err(FtlError::Damaged { .. }) => damaged += 1,
                    Err(error) => panic!("seed {seed}, page {lpn}: {error}"),
                }
            }
            // In the last round the pages may have been overwritten.
            assert!(damaged > 0 || rotten == 0 || round == 2, "seed {seed}: damage went unseen");
            if round == 0 {
                drive = recover(drive.into_nand(), config, false).unwrap();
            } else if round == 1 {
                for _ in 0..400 {
                    let lpn = random.below(8) as u32;
                    allowed.set(lpn, Some(random.below(1_000_000)));
                    let number = allowed.now[lpn as usize].unwrap_or(0);
                    drive.write(lpn, &content(number), 0).unwrap();
                }
                drive.flush(0).unwrap();
            }
        }
    }
}

#[test]
fn a_durable_page_that_lost_its_tag_stops_the_mount_unless_that_is_accepted() {
    let config = Config::new(LOGICAL, Scheme::None);
    let (nand, journal) = flash(0, &config);
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    drive.write(1, &content(1), 0).unwrap();
    drive.write(2, &content(2), 0).unwrap();
    drive.write_fua(3, &content(3), 0).unwrap();
    drive.write_fua(4, &content(4), 0).unwrap();
    let page = drive.map().lookup(2).unwrap();
    let nand = &mut drive.nand_mut().inner_mut();
    assert!(nand.rot_oob(page, 11));
    let nand = drive.into_nand();
    let lost = recover(Coded::new({ nand }.inner_mut().clone()), config, false).err();
    assert_eq!(lost, Some(FtlError::TagLost(page)));
}

#[test]
fn flash_without_a_checkpoint_is_refused() {
    let config = Config::new(LOGICAL, Scheme::None);
    let (nand, _) = flash(0, &config);
    assert_eq!(recover(nand, config, false).err(), Some(FtlError::NoCheckpoint));
    let (nand, journal) = flash(0, &config);
    let drive = Ftl::format(nand, journal, config).unwrap();
    let other = Config { logical: LOGICAL - 1, ..config };
    assert_eq!(recover(drive.into_nand(), other, false).err(), Some(FtlError::NoCheckpoint));
}
