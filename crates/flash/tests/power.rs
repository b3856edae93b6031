//! Cuts of the power and failing flash, in virtual time, from seeds.

mod seeds;

use pumice_flash::chip::{Faults, Geometry, MemoryNand, Nand, NandError, Ppn, Random, Timing};
use pumice_flash::ftl::{Coded, Config, Ftl, FtlError, NandJournal, Scheme, recover};
use seeds::losses::{Losable, Part, no_older_content};
use seeds::{Allowed, Cuttable, LOGICAL, config, content, one_seed, seeds, step, sums};

type Flash = Coded<MemoryNand<Vec<u8>, Vec<u8>>>;

impl Cuttable for Flash {
    const PAGE: u32 = 256;

    fn new(spare: u32, seed: u64, fails: bool) -> (Self, NandJournal) {
        let shape = |blocks| Geometry {
            blocks,
            pages_per_block: 8,
            channels: 1,
            page_bytes: Self::PAGE,
            oob_bytes: 128,
        };
        let need = |blocks| NandJournal::new(shape(blocks), LOGICAL).blocks() + LOGICAL.div_ceil(8) + 11;
        let blocks = (30..).find(|&blocks| blocks >= need(blocks) + spare).expect("some number fits");
        let mut nand = MemoryNand::new(shape(blocks), Timing::DISKSIM);
        let mut faults = Faults { cuts: true, ..Faults::from_seed(seed) };
        if fails {
            (faults.program_odds, faults.erase_odds) = (300, 150);
        }
        nand.set_faults(Some(faults));
        (Coded::new(nand, sums(Self::PAGE)), NandJournal::new(shape(blocks), LOGICAL))
    }

    fn cut_after(&mut self, operations: u64) {
        self.inner_mut().faults_mut().expect("it plays faults").cut_after = Some(operations);
    }

    fn sync_medium(&mut self) -> Result<(), NandError> {
        self.inner_mut().sync()
    }

    fn power_cycle(mut self, random: u64) -> Self {
        self.inner_mut().power_cycle(random);
        self
    }
}

#[test]
fn flushed_data_survive_every_cut() {
    seeds(400).for_each(one_seed::<Flash>);
}

impl Losable for Flash {
    fn lose(mut self, page: Ppn, part: Part, random: u64) -> (Self, Vec<Ppn>) {
        let geometry = self.geometry();
        let nand = self.inner_mut();
        let tags = match part {
            Part::Data => {
                nand.rot(page, random);
                Vec::new()
            }
            Part::Tag => {
                nand.rot_oob(page, random % 512);
                vec![page]
            }
            Part::Block => {
                let block = geometry.block_of(page);
                let pages = (0..geometry.pages_per_block).map(|index| geometry.page(block, index));
                pages.inspect(|page| nand.lose(*page)).collect()
            }
        };
        (self, tags)
    }
}

#[test]
fn a_sector_that_is_lost_brings_no_older_content_back() {
    no_older_content::<Flash>(seeds(600));
}

#[test]
fn a_block_is_not_void_before_what_replaced_its_pages_is_durable() {
    for seed in 0..4_200 {
        overwrites_until_a_cut(seed);
    }
}

/// All pages are written, and flushed. Then some are overwritten often, and at times the others all
/// at once, until the power is cut: their blocks were erased least, and are taken next. Each page
/// still reads one of its versions.
fn overwrites_until_a_cut(seed: u64) {
    let mut random = Random::new(seed ^ 0xB10C);
    let erase_at_once = if seed.is_multiple_of(2) { 1 } else { 3 };
    let config = Config { erase_at_once, ..Config::new(LOGICAL, Scheme::None) };
    let (nand, journal) = <Flash as Cuttable>::new(0, seed, false);
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    for lpn in 0..LOGICAL {
        drive.write(lpn, &content::<Flash>(lpn.into()), 0).unwrap();
    }
    drive.flush(0).unwrap();
    drive.nand_mut().cut_after(100 + random.below(400));
    let (mut versions, mut flush, mut number) = (vec![Vec::new(); LOGICAL as usize], None, 100);
    let error = loop {
        let event = match random.below(60) {
            0 => drive.flush(0).map(drop),
            1..4 => drive.collect_ahead(0, 4).map(drop),
            4..7 => match flush.take() {
                None => drive.begin_flush().map(|begun| flush = begun.map(|begun| (begun, false))),
                Some((begun, false)) => {
                    flush = Some((begun, true));
                    drive.nand_mut().sync_medium().map_err(FtlError::from)
                }
                Some((begun, true)) => drive.end_flush(begun),
            },
            _ => Ok(()),
        };
        let lpns = if random.below(80) == 0 { 20..LOGICAL } else { random.below(20) as u32..20 };
        let lpns = if lpns.start < 20 { lpns.start..lpns.start + 1 } else { lpns };
        let written = event.and_then(|()| {
            lpns.into_iter().try_for_each(|lpn| {
                number += 1;
                versions[lpn as usize].push(number);
                drive.write(lpn, &content::<Flash>(number), 0).map(drop)
            })
        });
        if let Err(error) = written {
            break error;
        }
    };
    assert_eq!(error, FtlError::Nand(NandError::PowerLost), "seed {seed}");
    let mut drive = recover(drive.into_nand().power_cycle(random.next_u64()), config, false).unwrap();
    for (lpn, versions) in (0..).zip(&versions) {
        let read = drive.read(lpn, 0).unwrap().0;
        let first = u64::from(lpn);
        let mut known = versions.iter().chain([&first]).map(|number| content::<Flash>(*number));
        assert!(known.any(|known| read == Some(known)), "seed {seed}: page {lpn} is lost");
    }
}

#[test]
fn blocks_stay_free_whatever_a_cut_brings_back() {
    one_seed::<Flash>(18_464);
}

#[test]
fn a_flush_does_not_cover_writes_that_came_while_it_was_under_way() {
    let config = Config::new(LOGICAL, Scheme::None);
    let mut lost = 0;
    for random in 0..60 {
        let (nand, journal) = <Flash as Cuttable>::new(0, 1, false);
        let mut drive = Ftl::format(nand, journal, config).unwrap();
        drive.write(1, &content::<Flash>(1), 0).unwrap();
        drive.trim(3, 1).unwrap();
        let flush = drive.begin_flush().unwrap().expect("a write and a trim are not durable");
        drive.nand_mut().sync_medium().unwrap();
        drive.write(2, &content::<Flash>(2), 0).unwrap();
        let later = drive.unflushed().unwrap();
        drive.end_flush(flush).unwrap();
        assert!(drive.is_durable(later - 1) && !drive.is_durable(later));
        assert_eq!(drive.unflushed(), Some(later));
        let nand = drive.into_nand().power_cycle(random);
        drive = recover(nand, config, false).unwrap();
        assert_eq!(drive.read(1, 0).unwrap().0, Some(content::<Flash>(1)));
        lost += u32::from(drive.read(2, 0).unwrap().0.is_none());
    }
    assert!(lost > 0, "no cut took what was not flushed");
}

/// Rot in pages at rest: a page reads its own content or says that it is damaged, now and after a
/// recovery, and after garbage collection moved it.
#[test]
fn rot_is_never_read_as_data() {
    for seed in seeds(150) {
        let mut random = Random::new(seed ^ 0x0507);
        let config = config(&mut random);
        let (nand, journal) = <Flash as Cuttable>::new(0, 0, false);
        let mut drive = Ftl::format(nand, journal, config).unwrap();
        let mut allowed = Allowed::new();
        for _ in 0..200 {
            step(&mut drive, &mut allowed, &mut random, false).unwrap();
        }
        drive.flush(0).unwrap();
        // A page that is written after a flush says that what is before is durable.
        // Its content is new: a duplicate would need no program.
        allowed.set(0, Some(2_000_000));
        drive.write(0, &content::<Flash>(2_000_000), 0).unwrap();
        drive.flush(0).unwrap();
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
                        assert_eq!(
                            read,
                            allowed.now[lpn as usize].map(content::<Flash>),
                            "seed {seed}, page {lpn}"
                        );
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
                    drive.write(lpn, &content::<Flash>(number), 0).unwrap();
                }
                drive.flush(0).unwrap();
            }
        }
    }
}

#[test]
fn a_durable_page_that_lost_its_tag_stops_the_mount_unless_that_is_accepted() {
    let config = Config::new(LOGICAL, Scheme::None);
    let (nand, journal) = <Flash as Cuttable>::new(0, 0, false);
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    drive.write(1, &content::<Flash>(1), 0).unwrap();
    drive.write(2, &content::<Flash>(2), 0).unwrap();
    drive.write(3, &content::<Flash>(3), 0).unwrap();
    drive.flush(0).unwrap();
    drive.write(4, &content::<Flash>(4), 0).unwrap();
    drive.flush(0).unwrap();
    let page = drive.map().lookup(2).unwrap();
    let nand = &mut drive.nand_mut().inner_mut();
    assert!(nand.rot_oob(page, 11));
    let nand = drive.into_nand();
    let lost = recover(Coded::new({ nand }.inner_mut().clone(), sums(Flash::PAGE)), config, false).err();
    assert_eq!(lost, Some(FtlError::TagLost(page)));
}

#[test]
fn flash_without_a_checkpoint_is_refused() {
    let config = Config::new(LOGICAL, Scheme::None);
    let (nand, _) = <Flash as Cuttable>::new(0, 0, false);
    assert_eq!(recover(nand, config, false).err(), Some(FtlError::NoCheckpoint));
    let (nand, journal) = <Flash as Cuttable>::new(0, 0, false);
    let drive = Ftl::format(nand, journal, config).unwrap();
    let other = Config { logical: LOGICAL - 1, ..config };
    assert_eq!(recover(drive.into_nand(), other, false).err(), Some(FtlError::NoCheckpoint));
}
