//! Flash that lies, fails or loses a checkpoint: nothing that was acknowledged goes, and no page
//! reads another's data.

use pumice_flash::chip::{BlockId, Geometry, MemoryNand, Nand, NandError, Nanos, PageRead, Ppn, Timing};
use pumice_flash::ftl::{
    Coded, Config, Ftl, FtlError, Journal, Kind, NandJournal, Scheme, Secret, Sums, Tag, recover,
};

const PAGE: u32 = 256;

fn sums() -> Sums {
    Sums::keyed(&Secret([5; 32]), PAGE)
}

const LOGICAL: u32 = 60;

/// Flash on which two pages may be exchanged: as if their programs had gone to each other's place.
#[derive(Debug)]
struct Exchanged {
    inner: MemoryNand<Vec<u8>, Vec<u8>>,
    pages: Option<(Ppn, Ppn)>,
}

impl Exchanged {
    fn at(&self, page: Ppn) -> Ppn {
        match self.pages {
            Some((a, b)) if page == a => b,
            Some((a, b)) if page == b => a,
            _ => page,
        }
    }
}

impl Nand for Exchanged {
    type Page = Vec<u8>;
    type Oob = Vec<u8>;

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&mut self, page: Ppn, after: Nanos) -> Result<PageRead<Vec<u8>, Vec<u8>>, NandError> {
        self.inner.read(self.at(page), after)
    }

    fn read_oob(&mut self, page: Ppn) -> Result<Vec<u8>, NandError> {
        self.inner.read_oob(self.at(page))
    }

    fn program(
        &mut self,
        page: Ppn,
        after: Nanos,
        data: &Vec<u8>,
        oob: &Vec<u8>,
    ) -> Result<Nanos, NandError> {
        self.inner.program(page, after, data, oob)
    }

    fn erase(&mut self, block: BlockId, after: Nanos) -> Result<Nanos, NandError> {
        self.inner.erase(block, after)
    }

    fn sync(&mut self) -> Result<(), NandError> {
        self.inner.sync()
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.inner.erases(block)
    }
}

type Drive = Ftl<Coded<Exchanged>, NandJournal, Vec<u8>>;

fn drive(scheme: Scheme, change: impl FnOnce(&mut Config)) -> (Drive, Config) {
    drive_of(LOGICAL, scheme, change)
}

fn drive_of(logical: u32, scheme: Scheme, change: impl FnOnce(&mut Config)) -> (Drive, Config) {
    let mut config = Config::new(logical, scheme);
    change(&mut config);
    let blocks = (30..)
        .find(|&blocks| {
            let journal = NandJournal::new(shape(blocks), logical);
            blocks >= Journal::<Coded<Exchanged>>::reserved(&journal) + logical.div_ceil(8) + 11
        })
        .unwrap();
    let inner = MemoryNand::new(shape(blocks), Timing::DISKSIM);
    let nand = Coded::new(Exchanged { inner, pages: None }, sums());
    (Ftl::format(nand, NandJournal::new(shape(blocks), logical), config).unwrap(), config)
}

fn shape(blocks: u32) -> Geometry {
    Geometry { blocks, pages_per_block: 8, channels: 1, page_bytes: PAGE, oob_bytes: 128 }
}

fn content(byte: u8) -> Vec<u8> {
    vec![byte; PAGE as usize]
}

#[test]
fn an_overwritten_page_is_looked_up_after_the_page_it_equals() {
    for scheme in [Scheme::Offline, Scheme::Separated, Scheme::Live] {
        let (mut drive, _) = drive(scheme, |_| {});
        drive.write(1, &content(1), 0).unwrap();
        drive.write(2, &content(2), 0).unwrap();
        drive.write(1, &content(2), 0).unwrap();
        drive.idle(0, u64::MAX / 2).unwrap();
        assert_eq!(drive.map().lookup(1), drive.map().lookup(2), "{scheme}: the duplicate was not found");
        assert_eq!(drive.stats().idle_merges, 1, "{scheme}");
    }
}

#[test]
fn a_page_with_anothers_data_is_never_merged() {
    // Page 1 holds what page 2 should hold, and the other way round. Page 3 equals what page 1
    // should hold.
    for scheme in [Scheme::Offline, Scheme::Inline] {
        let (mut drive, _) = drive(scheme, |_| {});
        drive.write(1, &content(1), 0).unwrap();
        drive.write(2, &content(2), 0).unwrap();
        if scheme == Scheme::Offline {
            drive.write(3, &content(1), 0).unwrap();
        }
        let pages = (drive.map().lookup(1).unwrap(), drive.map().lookup(2).unwrap());
        drive.nand_mut().inner_mut().pages = Some(pages);
        if scheme == Scheme::Inline {
            // Its candidate is page 1, which holds something else; page 2 holds it and is no
            // candidate.
            drive.write(3, &content(1), 0).unwrap();
            drive.write(4, &content(2), 0).unwrap();
        }
        drive.idle(0, u64::MAX / 2).unwrap();
        assert_eq!(drive.read(3, 0).unwrap().0, Some(content(1)), "{scheme}");
        for lpn in [1, 2] {
            let page = drive.map().lookup(lpn).unwrap();
            assert_eq!(drive.read(lpn, 0), Err(FtlError::Misplaced { lpn, page }), "{scheme}");
        }
    }
}

#[test]
fn a_candidate_whose_tag_is_anothers_is_never_merged_with() {
    // Pages 1 and 2 hold the same content; each is at the other's place, so that data and key fit,
    // but not the tag.
    let (mut drive, _) = drive(Scheme::Offline, |_| {});
    drive.write(1, &content(7), 0).unwrap();
    drive.write(5, &content(7), 0).unwrap();
    drive.idle(0, u64::MAX / 2).unwrap();
    assert_eq!(drive.map().lookup(1), drive.map().lookup(5));
    drive.write(2, &content(7), 0).unwrap();
    let pages = (drive.map().lookup(1).unwrap(), drive.map().lookup(2).unwrap());
    drive.nand_mut().inner_mut().pages = Some(pages);
    drive.write(3, &content(7), 0).unwrap();
    drive.idle(0, u64::MAX / 2).unwrap();
    assert_eq!(drive.read(3, 0).unwrap().0, Some(content(7)), "a merge with page 1 would read as misplaced");
}

#[test]
fn a_damaged_checkpoint_costs_nothing_of_what_was_flushed_since() {
    for scheme in [Scheme::None, Scheme::Inline, Scheme::Lives] {
        let (mut drive, config) = drive(scheme, |_| {});
        let mut model = vec![None; LOGICAL as usize];
        let put = |drive: &mut Drive, model: &mut Vec<Option<u8>>, lpn: u32, byte: u8| {
            drive.write(lpn, &content(byte), 0).unwrap();
            model[lpn as usize] = Some(byte);
        };
        for lpn in 0..40 {
            put(&mut drive, &mut model, lpn, lpn as u8 % 9);
        }
        drive.trim(30, 3).unwrap();
        model[30..33].fill(None);
        drive.idle(0, u64::MAX / 2).unwrap();
        for _ in 0..3 {
            drive.checkpoint().unwrap();
            // After the checkpoint: overwrites by merges, trims, and enough writes for blocks to be
            // erased.
            for lpn in 0..10 {
                put(&mut drive, &mut model, lpn, 8 - lpn as u8 % 9);
            }
            for n in 0..600_u32 {
                put(&mut drive, &mut model, 40 + n % 8, (n % 251) as u8);
                if n % 50 == 0 {
                    drive.idle(0, u64::MAX / 2).unwrap();
                }
            }
            drive.trim(20, 4).unwrap();
            model[20..24].fill(None);
            drive.flush(0).unwrap();
            let mut nand = drive.into_nand();
            let pages: Vec<_> = (0..nand.geometry().pages())
                .map(Ppn)
                .filter_map(|page| Some((page, nand.read_oob(page).ok()?)))
                .filter(|(_, tag)| matches!(tag.kind, Kind::Checkpoint(_) | Kind::CheckpointEnd(_)))
                .collect();
            let newest = pages.iter().map(|(_, tag)| tag.birth).max().unwrap();
            for (page, _) in pages.iter().filter(|(_, tag)| tag.birth == newest) {
                assert!(nand.inner_mut().inner.rot(*page, 5));
            }
            drive = recover(nand, config, false).unwrap();
            for (lpn, byte) in model.iter().enumerate() {
                let read = drive.read(lpn as u32, 0).unwrap().0;
                assert_eq!(read, byte.map(content), "{scheme}, page {lpn}");
            }
            assert_eq!(drive.contradictions(), Vec::<String>::new());
        }
    }
}

#[test]
fn two_damaged_checkpoints_are_refused() {
    let (mut drive, config) = drive(Scheme::None, |_| {});
    drive.write(1, &content(1), 0).unwrap();
    drive.checkpoint().unwrap();
    drive.trim(1, 1).unwrap();
    drive.flush(0).unwrap();
    let mut nand = drive.into_nand();
    for page in (0..nand.geometry().pages()).map(Ppn) {
        if nand.read_oob(page).is_ok_and(|tag| matches!(tag.kind, Kind::CheckpointEnd(_))) {
            nand.inner_mut().inner.rot(page, 5);
        }
    }
    assert_eq!(recover(nand, config, false).err(), Some(FtlError::NoCheckpoint));
}

/// Each record of the log has a checksum of its own.
#[test]
fn a_log_page_is_read_from_a_good_copy_and_refused_if_there_is_none() {
    for damaged in 0..=2 {
        let (mut drive, config) = drive(Scheme::None, |_| {});
        for lpn in 1..5 {
            drive.write(lpn, &content(1), 0).unwrap();
        }
        drive.trim(1, 1).unwrap();
        drive.trim(2, 1).unwrap();
        drive.flush(0).unwrap();
        // The next page of the log says that the one before is durable.
        drive.trim(3, 1).unwrap();
        drive.flush(0).unwrap();
        // The second copies follow.
        assert!(drive.needs_mark());
        drive.mark().unwrap();
        let mut nand = drive.into_nand();
        let first = |tag: &Tag| matches!(tag.kind, Kind::Log { page: 0, .. });
        let pages = (0..nand.geometry().pages()).map(Ppn);
        let copies: Vec<Ppn> =
            pages.filter(|page| nand.read_oob(*page).is_ok_and(|tag| first(&tag))).collect();
        assert_eq!(copies.len(), 2);
        let geometry = nand.geometry();
        assert_ne!(geometry.block_of(copies[0]), geometry.block_of(copies[1]));
        for page in &copies[..damaged] {
            // A bit of the second record.
            assert!(nand.inner_mut().inner.rot(*page, 8 * 40));
        }
        match recover(nand, config, false) {
            Ok(mut drive) => {
                assert!(damaged < 2);
                let read = (1..5).map(|lpn| drive.read(lpn, 0).unwrap().0);
                assert_eq!(read.collect::<Vec<_>>(), [None, None, None, Some(content(1))]);
            }
            Err(error) => assert_eq!((damaged, error), (2, FtlError::LogDamaged(0))),
        }
    }
}

/// The page that several logical pages share is lost: what each held before must not come back.
#[test]
fn merges_that_no_tag_calls_durable_need_a_mark() {
    let (mut drive, config) = drive(Scheme::Inline, |_| {});
    for lpn in 1..10 {
        drive.write(lpn, &content(lpn as u8), 0).unwrap();
    }
    drive.flush(0).unwrap();
    drive.mark().unwrap();
    assert!(!drive.needs_mark());
    for lpn in 2..10 {
        drive.write(lpn, &content(1), 0).unwrap();
        drive.flush(0).unwrap();
        assert!(drive.needs_mark(), "{lpn} merges are durable, and no tag says so");
    }
    drive.mark().unwrap();
    assert!(!drive.needs_mark());
    let shared = drive.map().lookup(1).unwrap();
    let mut nand = drive.into_nand();
    assert!(nand.inner_mut().inner.rot_oob(shared, 11));
    let mut drive = recover(nand, config, true).unwrap();
    for lpn in 1..10 {
        let read = drive.read(lpn, 0);
        assert!(
            matches!(read, Err(FtlError::Damaged { .. } | FtlError::Misplaced { .. })),
            "{lpn}: {read:?}"
        );
    }
    assert_eq!(drive.contradictions(), Vec::<String>::new());
    drive.write(3, &content(7), 0).unwrap();
    assert_eq!(drive.read(3, 0).unwrap().0, Some(content(7)));
}

/// A drive with trims and merges in its log, and what each logical page holds.
fn with_records() -> (Drive, Config, Vec<Option<u8>>) {
    let (mut drive, config) = drive(Scheme::Inline, |_| {});
    let mut model = vec![None; LOGICAL as usize];
    for lpn in 0..LOGICAL {
        drive.write(lpn, &content(lpn as u8 / 2), 0).unwrap();
        model[lpn as usize] = Some(lpn as u8 / 2);
        drive.flush(0).unwrap();
    }
    drive.trim(20, 5).unwrap();
    model[20..25].fill(None);
    drive.flush(0).unwrap();
    while drive.needs_mark() {
        drive.mark().unwrap();
    }
    (drive, config, model)
}

fn reads(drive: &mut Drive, model: &[Option<u8>]) {
    for (lpn, byte) in model.iter().enumerate() {
        assert_eq!(drive.read(lpn as u32, 0).unwrap().0, byte.map(content), "page {lpn}");
    }
    assert_eq!(drive.contradictions(), Vec::<String>::new());
}

/// Loses all pages of the newest checkpoint.
fn lose_newest(nand: &mut Coded<Exchanged>) {
    let pages: Vec<_> = (0..nand.geometry().pages())
        .map(Ppn)
        .filter_map(|page| Some((page, nand.read_oob(page).ok()?)))
        .filter(|(_, tag)| matches!(tag.kind, Kind::Checkpoint(_) | Kind::CheckpointEnd(_)))
        .collect();
    let newest = pages.iter().map(|(_, tag)| tag.birth).max().unwrap();
    for (page, _) in pages.iter().filter(|(_, tag)| tag.birth == newest) {
        nand.inner_mut().inner.lose(*page);
    }
}

#[test]
fn after_a_checkpoint_was_lost_the_next_one_may_be_lost_too() {
    let (mut drive, config, mut model) = with_records();
    for round in 0..6 {
        if round % 3 == 0 {
            drive.checkpoint().unwrap();
            // Only the log knows of this.
            drive.trim(round, 1).unwrap();
            drive.flush(0).unwrap();
            model[round as usize] = None;
        }
        let mut nand = drive.into_nand();
        lose_newest(&mut nand);
        drive = recover(nand, config, false).unwrap_or_else(|error| panic!("round {round}: {error}"));
        reads(&mut drive, &model);
    }
}

#[test]
fn any_block_of_the_journal_may_be_lost() {
    let (drive, config, model) = with_records();
    let mut nand = drive.into_nand();
    let is_log = |tag: Tag| matches!(tag.kind, Kind::Log { .. });
    let (geometry, journal) = (nand.geometry(), NandJournal::new(nand.geometry(), LOGICAL).blocks());
    let mut logs = 0;
    for block in (0..journal).map(BlockId) {
        let pages = (0..geometry.pages_per_block).map(|index| geometry.page(block, index));
        logs += u32::from(pages.clone().any(|page| nand.read_oob(page).is_ok_and(is_log)));
        let mut inner = nand.inner().inner.clone();
        pages.for_each(|page| inner.lose(page));
        let lost = Coded::new(Exchanged { inner, pages: None }, sums());
        let recovered = recover(lost, config, false);
        let mut drive = recovered.unwrap_or_else(|error| panic!("block {}: {error}", block.0));
        reads(&mut drive, &model);
    }
    assert!(logs >= 4, "{logs} blocks of the log were in use");
}

/// A drive is made with two checkpoints: one may be lost before anything is written.
#[test]
fn a_new_drive_may_lose_a_checkpoint() {
    let (drive, config) = drive(Scheme::None, |_| {});
    let mut nand = drive.into_nand();
    lose_newest(&mut nand);
    let mut drive = recover(nand, config, false).unwrap();
    assert_eq!(drive.read(1, 0).unwrap().0, None);
}

/// The number of each page: of a page of the log, whichever copy it is, under its own number.
fn numbers(drive: &mut Drive) -> Vec<u64> {
    let pages = (0..drive.nand().geometry().pages()).map(Ppn);
    let tags: Vec<Tag> = pages.filter_map(|page| drive.nand_mut().read_oob(page).ok()).collect();
    let mut logs = std::collections::BTreeMap::new();
    let mut numbers = Vec::new();
    for tag in tags {
        match tag.kind {
            Kind::Log { page, .. } => drop(logs.insert((tag.birth, page), tag.seq)),
            Kind::Lpn(_) | Kind::Object => numbers.push(tag.seq),
            Kind::Checkpoint(_) => {}
            Kind::CheckpointEnd(_) => drop(logs.insert((tag.birth, u32::MAX), tag.seq)),
        }
    }
    numbers.extend(logs.into_values());
    numbers.sort_unstable();
    numbers
}

#[test]
fn numbers_of_marks_trims_and_merges_are_unique_and_rise_also_after_a_recovery() {
    let (mut drive, config) = drive(Scheme::Inline, |_| {});
    let mut highest = 0;
    for life in 0..4 {
        let before = highest;
        for lpn in 0..6 {
            drive.write(lpn, &content(10 * life + lpn as u8 / 2), 0).unwrap();
            if lpn == 3 {
                drive.trim(40, 1).unwrap();
            }
            drive.flush(0).unwrap();
            drive.mark().unwrap();
        }
        let numbers = numbers(&mut drive);
        assert!(numbers.is_sorted_by(|a, b| a < b), "life {life}: {numbers:?}");
        highest = *numbers.last().unwrap();
        drive = recover(drive.into_nand(), config, false).unwrap();
        assert!(highest > before);
        assert_eq!(drive.unflushed(), None);
        drive.write(50, &content(200 + life), 0).unwrap();
        assert!(drive.unflushed().unwrap() > highest, "life {life}: a number is given again");
    }
}

/// A step of idle time ends after so many pages, whether they need a look or not; those that were
/// trimmed wait no more.
#[test]
fn a_piece_of_idle_work_passes_over_few_pages() {
    let (mut drive, _) = drive(Scheme::Offline, |_| {});
    for lpn in 0..40 {
        drive.write(lpn, &content(lpn as u8), 0).unwrap();
    }
    assert_eq!(drive.waiting(), 40);
    drive.idle_piece(0, u64::MAX / 2, 10).unwrap();
    assert_eq!(drive.waiting(), 30);
    drive.trim(20, 15).unwrap();
    assert_eq!(drive.waiting(), 15, "trimmed pages wait");
    let reads = drive.stats().dedup_reads;
    drive.idle(0, u64::MAX / 2).unwrap();
    assert_eq!((drive.waiting(), drive.stats().dedup_reads - reads), (0, 15));
}

/// Blocks that are filled between two syncs have tails that no program names. Their marks are more
/// than the log has room for.
#[test]
fn marks_of_many_blocks_find_room() {
    let (mut drive, config) = drive_of(4000, Scheme::None, |_| {});
    for lpn in 0..4000 {
        drive.write(lpn, &content(lpn as u8), 0).unwrap();
    }
    drive.flush(0).unwrap();
    drive.mark().unwrap();
    assert!(!drive.needs_mark());
    let mut drive = recover(drive.into_nand(), config, false).unwrap();
    for lpn in (0..4000).step_by(7) {
        assert_eq!(drive.read(lpn, 0).unwrap().0, Some(content(lpn as u8)), "{lpn}");
    }
}
