//! The cases of the translation layer that come from seeds, over NAND in a file that tears sectors.

#[path = "seeds/mod.rs"]
mod seeds;

use pumice_base::durable::{FaultyStore, Held, Medium, Store};
use pumice_flash::chip::{Nand, NandError, Ppn, Random};
use pumice_flash::device::{FileNand, Job, Layout, Outbox, Page};
use pumice_flash::ftl::{Coded, Config, Ftl, FtlError, NandJournal, Scheme, recover};
use seeds::losses::{Losable, Part, no_older_content};
use seeds::{Allowed, CRC_ALONE, Cuttable, LOGICAL, check, config, content, one_seed, seeds, step, sums};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;

const NAME: &str = "flash";
const PAGE: u32 = 512;

/// One file of a store that fails, and counts what changes it.
struct File {
    store: FaultyStore,
    left: Cell<Option<u64>>,
    /// Not the power is cut after the last of these, but the process ends. Then a part of the last
    /// write may be there.
    kills: bool,
    ended: Cell<bool>,
    random: RefCell<Random>,
    syncs: Cell<u32>,
    /// True if it cannot be read now, as a device that is gone.
    deaf: Cell<bool>,
}

impl File {
    fn new(seed: u64, layout: Layout) -> Self {
        let store = FaultyStore::new(seed);
        store.create(NAME, &vec![0; layout.file_bytes() as usize]).unwrap();
        store.sync(NAME).unwrap();
        store.sync_folder().unwrap();
        Self::of(store, seed % 2 == 1, seed)
    }

    fn of(store: FaultyStore, kills: bool, seed: u64) -> Self {
        Self {
            store,
            left: Cell::new(None),
            kills,
            ended: Cell::new(false),
            random: RefCell::new(Random::new(seed ^ 0xF11E)),
            syncs: Cell::new(0),
            deaf: Cell::new(false),
        }
    }

    fn count(&self) -> io::Result<()> {
        match self.left.get() {
            Some(0) if self.kills => self.ended.set(true),
            Some(0) => self.store.cut_power_after(0),
            left => self.left.set(left.map(|left| left - 1)),
        }
        if self.ended.get() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    /// Writes so much from the start of `data` as the end of a process may leave.
    fn write_some(&self, offset: u64, data: &[u8]) {
        let sectors = self.random.borrow_mut().below(data.len().div_ceil(512) as u64 + 1) as usize;
        if sectors > 0 {
            self.store.write_at(NAME, offset, &data[..data.len().min(512 * sectors)]).unwrap();
        }
    }

    /// The file as the next process finds it. Often the power goes as well, when that process has
    /// begun its recovery.
    fn next_life(self, random: u64) -> Self {
        let Self { store, kills, ended, .. } = self;
        if !ended.get() || random.is_multiple_of(3) {
            store.crash();
        }
        Self::of(store, kills, random)
    }

    /// Changes one bit of a byte, durably.
    fn rot(&self, at: u64, bit: u64) {
        let mut byte = [0];
        self.read_at(at, &mut byte).unwrap();
        self.write_at(at, &[byte[0] ^ 1 << (bit % 8)]).unwrap();
        self.sync().unwrap();
    }
}

impl Medium for File {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if self.deaf.get() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.store.read_at(NAME, offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let went_on = !self.ended.get();
        self.count().inspect_err(|_| {
            if went_on && self.ended.get() {
                self.write_some(offset, data);
            }
        })?;
        self.store.write_at(NAME, offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.count()?;
        self.syncs.set(self.syncs.get() + 1);
        self.store.sync(NAME)
    }
}

type Flash = Coded<FileNand<File>>;

/// The same file behind an outbox: writes wait, and some overtake others, as with many threads.
struct Posted {
    file: File,
    outbox: RefCell<Outbox>,
    under_way: RefCell<Vec<Job>>,
    random: RefCell<Random>,
    /// Nothing is made but by a sync.
    held: Cell<bool>,
}

type PostedFlash = Coded<FileNand<Posted>>;

impl Posted {
    fn new(file: File, seed: u64) -> Self {
        Self {
            file,
            outbox: RefCell::default(),
            under_way: RefCell::default(),
            random: RefCell::new(Random::new(seed ^ 0x0B0E)),
            held: Cell::new(false),
        }
    }

    fn below(&self, most: u64) -> u64 {
        self.random.borrow_mut().below(most)
    }

    fn begin(&self) {
        let begun = self.outbox.borrow_mut().begin();
        self.under_way.borrow_mut().extend(begun);
    }

    /// Makes one of the writes that are under way; whether there was one.
    fn make_one(&self) -> io::Result<bool> {
        let count = self.under_way.borrow().len() as u64;
        if count == 0 {
            return Ok(false);
        }
        let next = self.below(count) as usize;
        let mut job = self.under_way.borrow_mut().swap_remove(next);
        self.file.write_at(job.offset(), job.bytes())?;
        self.outbox.borrow_mut().end(job);
        Ok(true)
    }

    /// Begins a write and makes one, or does not.
    fn go_on(&self) -> io::Result<()> {
        if self.below(4) == 0 {
            self.begin();
        }
        if self.below(4) == 0 {
            self.make_one()?;
        }
        Ok(())
    }

    /// The file that is left. If the process ended, a part of each write that was under way may be
    /// there. Those that had not begun are lost.
    fn left(self) -> File {
        if self.file.ended.get() {
            for mut job in self.under_way.take() {
                self.file.write_some(job.offset(), job.bytes());
            }
        }
        self.file
    }
}

impl Medium for Posted {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buf)?;
        self.outbox.borrow().cover(offset, buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.outbox.borrow_mut().accept(offset, data);
        if self.held.get() { Ok(()) } else { self.go_on() }
    }

    fn write_held(&self, offset: u64, data: &Held) -> io::Result<()> {
        self.outbox.borrow_mut().accept_held(offset, data.clone());
        if self.held.get() { Ok(()) } else { self.go_on() }
    }

    fn sync(&self) -> io::Result<()> {
        self.begin();
        while self.make_one()? {
            self.begin();
        }
        self.file.sync()
    }
}

/// Blocks of so many pages: with 8 a footer is two sectors, with 32 it is one unit of eight.
fn layout<const PAGES: u32>(spare: u32) -> Layout {
    let with = |blocks| Layout::new(blocks, PAGES, PAGE).unwrap();
    let need = |blocks| {
        let journal = NandJournal::new(with(blocks).geometry(), LOGICAL);
        journal.blocks() + LOGICAL.div_ceil(PAGES) + 11
    };
    with((30..).find(|&blocks| blocks >= need(blocks) + spare).unwrap())
}

/// The blocks are small in most cases, so that there is garbage to collect.
fn shape(seed: u64, spare: u32) -> Layout {
    if seed.is_multiple_of(5) { layout::<32>(spare) } else { layout::<8>(spare) }
}

impl Cuttable for Flash {
    const PAGE: u32 = PAGE;

    /// With an odd seed not the power is cut, but the process ends.
    fn new(spare: u32, seed: u64, _fails: bool) -> (Self, NandJournal) {
        let layout = shape(seed, spare);
        let nand = FileNand::erased(File::new(seed, layout), layout);
        (Coded::with_sums(nand, sums(PAGE)), NandJournal::new(layout.geometry(), LOGICAL))
    }

    fn cut_after(&mut self, operations: u64) {
        // Many pages are one write here.
        self.inner().medium().left.set(Some(operations / 4));
    }

    fn sync_medium(&mut self) -> Result<(), NandError> {
        self.inner().medium().sync().map_err(|_| NandError::Failed)
    }

    fn power_cycle(self, random: u64) -> Self {
        let layout = self.inner().layout();
        let file = self.into_inner().into_medium().next_life(random);
        Self::with_sums(FileNand::new(file, layout), sums(PAGE))
    }
}

impl Cuttable for PostedFlash {
    const PAGE: u32 = PAGE;

    fn new(spare: u32, seed: u64, _fails: bool) -> (Self, NandJournal) {
        let layout = shape(seed, spare);
        let nand = FileNand::erased(Posted::new(File::new(seed, layout), seed), layout);
        (Coded::with_sums(nand, sums(PAGE)), NandJournal::new(layout.geometry(), LOGICAL))
    }

    fn cut_after(&mut self, operations: u64) {
        self.inner().medium().file.left.set(Some(operations / 4));
    }

    fn sync_medium(&mut self) -> Result<(), NandError> {
        self.inner().medium().sync().map_err(|_| NandError::Failed)
    }

    fn power_cycle(self, random: u64) -> Self {
        let layout = self.inner().layout();
        let file = self.into_inner().into_medium().left().next_life(random);
        Self::with_sums(FileNand::new(Posted::new(file, random), layout), sums(PAGE))
    }
}

#[test]
fn flushed_data_survive_cuts_and_kills_of_a_file_in_turn() {
    seeds(600).for_each(one_seed::<Flash>);
}

#[test]
fn flushed_data_survive_when_writes_wait_and_overtake_each_other() {
    seeds(600).for_each(one_seed::<PostedFlash>);
}

/// All contents have one CRC-32C. Where that alone decides what a page holds, a cut that kept its
/// tag and dropped its data brings back what lay there before: the cases above find it.
#[test]
fn a_sum_that_a_host_can_choose_is_found_to_be_too_weak() {
    let fails = |seed| {
        let case = std::thread::spawn(move || {
            CRC_ALONE.set(true);
            one_seed::<Flash>(seed);
        });
        case.join().is_err()
    };
    assert!((0..600).step_by(2).any(fails), "no cut brought the content of another page");
}

/// A cut kept the tag of a page and dropped its data: what lay there before, of another page and
/// with the same CRC-32C, is not what the tag means.
#[test]
fn what_lay_at_a_page_before_is_not_taken_for_its_content() {
    for (crc_alone, expected) in [(false, None), (true, Some(content::<Flash>(1)))] {
        CRC_ALONE.set(crc_alone);
        let config = Config::new(LOGICAL, Scheme::None);
        let (nand, journal) = <Flash as Cuttable>::new(0, 2, false);
        let mut drive = Ftl::format(nand, journal, config).unwrap();
        drive.write(7, &content::<Flash>(2), 0).unwrap();
        drive.hand_over().unwrap();
        let page = drive.map().lookup(7).unwrap();
        let layout = drive.nand().inner().layout();
        let file = drive.nand().inner().medium();
        file.write_at(layout.data_at(page), content::<Flash>(1).as_ref()).unwrap();
        file.sync().unwrap();
        let mut drive = recover(drive.into_nand().power_cycle(0), config, false).unwrap();
        assert_eq!(drive.read(7, 0).unwrap().0, expected, "CRC-32C alone: {crc_alone}");
    }
    CRC_ALONE.set(false);
}

/// Flash whose process can end while the system goes on.
trait Killable: Cuttable {
    /// The number of the last write to the file that was accepted.
    fn accepted(&self) -> u64;

    /// Returns whether the writes up to this number have been made.
    fn is_done(&self, number: u64) -> bool;

    /// Makes some writes, or none.
    fn go_on(&mut self) -> Result<(), NandError>;

    /// The process ends, and another one begins.
    fn killed(self, random: u64) -> Self;
}

impl Killable for Flash {
    fn accepted(&self) -> u64 {
        0
    }

    fn is_done(&self, _: u64) -> bool {
        true
    }

    fn go_on(&mut self) -> Result<(), NandError> {
        Ok(())
    }

    fn killed(self, random: u64) -> Self {
        let layout = self.inner().layout();
        let File { store, kills, .. } = self.into_inner().into_medium();
        Self::with_sums(FileNand::new(File::of(store, kills, random), layout), sums(PAGE))
    }
}

impl Killable for PostedFlash {
    fn accepted(&self) -> u64 {
        self.inner().medium().outbox.borrow().accepted()
    }

    fn is_done(&self, number: u64) -> bool {
        self.inner().medium().outbox.borrow().is_done(number)
    }

    fn go_on(&mut self) -> Result<(), NandError> {
        let medium = self.inner().medium();
        (0..medium.below(8)).try_for_each(|_| medium.go_on()).map_err(|_| NandError::Failed)
    }

    fn killed(self, random: u64) -> Self {
        let layout = self.inner().layout();
        let File { store, kills, .. } = self.into_inner().into_medium().left();
        {
            let posted = Posted::new(File::of(store, kills, random), random);
            Self::with_sums(FileNand::new(posted, layout), sums(PAGE))
        }
    }
}

/// The process ends at any moment, in any write, and the system goes on: nothing that was
/// acknowledged is lost, flushed or not.
#[test]
fn what_was_acknowledged_outlives_the_process() {
    outlives::<Flash>();
}

#[test]
fn what_was_acknowledged_outlives_the_process_when_writes_wait_and_overtake_each_other() {
    outlives::<PostedFlash>();
}

fn outlives<N: Killable>() {
    let mut unflushed = 0;
    for seed in seeds(300) {
        let mut random = Random::new(seed ^ 0x00D1_E500);
        let (ahead, overlapping) = (seed.is_multiple_of(2), (seed / 2).is_multiple_of(2));
        let erase_at_once = if ahead { 3 } else { 1 };
        let config = Config { erase_at_once, ..config(&mut random) };
        // An odd number: it ends the process.
        let (nand, journal) = N::new(10 * u32::from(overlapping), 2 * seed + 1, false);
        let mut drive = Ftl::format(nand, journal, config).unwrap();
        let mut allowed = if overlapping { Allowed::overlapping(seed) } else { Allowed::new() };
        for _ in 0..6 {
            drive.nand_mut().cut_after(random.below(1_500));
            let mut commands = VecDeque::new();
            let error = loop {
                let done = command(&mut drive, &mut allowed, &mut random, &mut commands, ahead);
                unflushed += u32::from(commands.is_empty() && drive.unflushed().is_some());
                if let Err(error) = done {
                    break error;
                }
            };
            assert_eq!(error, FtlError::Nand(NandError::Failed), "seed {seed}");
            allowed.ended();
            let nand = drive.into_nand().killed(random.next_u64());
            drive = recover(nand, config, false).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            check(&mut drive, &mut allowed, seed);
        }
    }
    assert!(unflushed > 1_000, "{unflushed} commands were acknowledged and not flushed");
}

/// A command comes, and some are acknowledged: what they wrote stays.
fn command<N: Killable>(
    drive: &mut seeds::Drive<N>,
    allowed: &mut Allowed,
    random: &mut Random,
    commands: &mut VecDeque<(u64, Vec<usize>)>,
    ahead: bool,
) -> Result<(), FtlError> {
    step(drive, allowed, random, ahead)?;
    drive.hand_over()?;
    commands.push_back((drive.nand().accepted(), allowed.places()));
    let went_on = drive.nand_mut().go_on();
    while let Some((_, places)) = commands.front().filter(|(number, _)| drive.nand().is_done(*number)) {
        allowed.flushed_to(places);
        commands.pop_front();
    }
    Ok(went_on?)
}

type Next = fn(&mut seeds::Drive<PostedFlash>) -> Result<(), FtlError>;

/// A trim was acknowledged: its record is in a draft of the next log page. Then the page is written
/// again, with more records, and the process ends when some of these writes were made: the record
/// is still there.
#[test]
fn a_log_page_that_is_written_again_keeps_the_records_it_had() {
    let another: Next = |drive| drive.trim(2, 1).and_then(|()| drive.hand_over());
    let flush: Next = |drive| drive.begin_flush().map(|flush| assert!(flush.is_some()));
    let full: Next = |drive| (2..30).try_for_each(|lpn| drive.trim(lpn, 1)).and_then(|()| drive.hand_over());
    for next in [another, flush, full] {
        // So many writes are made, and each time one of the two oldest that are under way.
        let most = (0..).find(|count| (0..1 << count).all(|order| !some_are_made(next, *count, order)));
        assert!(most.unwrap() > 2);
    }
}

/// Returns whether there were so many writes.
fn some_are_made(next: Next, count: u32, order: u32) -> bool {
    let config = Config::new(LOGICAL, Scheme::None);
    let (nand, journal) = <PostedFlash as Cuttable>::new(0, 1, false);
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    drive.write(1, &content::<PostedFlash>(1), 0).unwrap();
    drive.write(2, &content::<PostedFlash>(2), 0).unwrap();
    drive.flush(0).unwrap();
    drive.trim(1, 1).unwrap();
    drive.hand_over().unwrap();
    drive.nand_mut().sync_medium().unwrap();
    drive.nand().inner().medium().held.set(true);
    next(&mut drive).unwrap();
    let layout = drive.nand().inner().layout();
    let Posted { file, outbox, .. } = drive.into_nand().into_inner().into_medium();
    let (mut outbox, mut under_way) = (outbox.into_inner(), Vec::new());
    let mut made = 0;
    while made < count {
        under_way.extend(std::iter::from_fn(|| outbox.begin()));
        if under_way.is_empty() {
            return false;
        }
        let mut job: Job = under_way.remove((order >> made & 1) as usize % under_way.len());
        file.write_at(job.offset(), job.bytes()).unwrap();
        outbox.end(job);
        made += 1;
    }
    let nand = Flash::with_sums(FileNand::new(file, layout), sums(PAGE));
    let mut drive = recover(nand, config, false).unwrap();
    assert_eq!(drive.read(1, 0).unwrap().0, None, "{count} writes were made in the order {order:b}");
    let other = drive.read(2, 0).unwrap().0;
    assert!(other.is_none_or(|read| read == content::<Flash>(2)));
    true
}

/// Blocks are erased many at a time, as that takes two syncs; those that were erased are used
/// before more are.
#[test]
fn an_erase_of_many_blocks_serves_as_many() {
    let config = Config { erase_at_once: 16, ..Config::new(LOGICAL, Scheme::None) };
    let (nand, journal) = <Flash as Cuttable>::new(40, 2, false);
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    let write = |drive: &mut seeds::Drive<Flash>, blocks: u64| {
        for number in 0..8 * blocks {
            drive.write((number % 30) as u32, &content::<Flash>(number), 0).unwrap();
        }
    };
    write(&mut drive, 200);
    let (before, erases) = (drive.nand().inner().medium().syncs.get(), drive.stats().erases);
    write(&mut drive, 800);
    let (syncs, erases) = (drive.nand().inner().medium().syncs.get() - before, drive.stats().erases - erases);
    assert!((780..=820).contains(&erases), "{erases} blocks were erased for 800");
    assert!(syncs < 160, "{syncs} syncs for {erases} erases");
}

/// Flushes of hosts take erases along: blocks need no syncs of their own.
#[test]
fn flushes_make_erases_that_cost_no_syncs() {
    let config = Config { erase_at_once: 16, ..Config::new(LOGICAL, Scheme::None) };
    let (nand, journal) = <Flash as Cuttable>::new(40, 2, false);
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    let mut flushes = 0;
    let mut write = |drive: &mut seeds::Drive<Flash>, blocks: u64| {
        for number in 0..8 * blocks {
            drive.write((number % 30) as u32, &content::<Flash>(number), 0).unwrap();
            if number % 20 == 0 {
                drive.flush(0).unwrap();
                flushes += 1;
            }
        }
        std::mem::take(&mut flushes)
    };
    write(&mut drive, 200);
    let (before, erases) = (drive.nand().inner().medium().syncs.get(), drive.stats().erases);
    let flushes = write(&mut drive, 800);
    let (syncs, erases) = (drive.nand().inner().medium().syncs.get() - before, drive.stats().erases - erases);
    assert!((780..=820).contains(&erases), "{erases} blocks were erased for 800");
    assert!((flushes..flushes + 60).contains(&syncs), "{syncs} syncs for {flushes} flushes");
}

#[test]
fn a_failed_sync_ends_all_writing_and_reads_go_on() {
    let config = Config::new(LOGICAL, Scheme::None);
    let (nand, journal) = <Flash as Cuttable>::new(0, 1, false);
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    drive.write(1, &content::<Flash>(1), 0).unwrap();
    drive.flush(0).unwrap();
    drive.write(2, &content::<Flash>(2), 0).unwrap();
    // The tags are written; the sync after them fails.
    drive.nand().inner().medium().store.fail_after(1);
    assert_eq!(drive.flush(0), Err(FtlError::Nand(NandError::Failed)));
    let why = drive.nand().inner().failure().unwrap().to_owned();
    assert!(why.contains("durable"), "{why}");
    assert_eq!(drive.flush(0), Err(FtlError::Nand(NandError::Failed)), "the data may be lost for good");
    assert!(drive.write(3, &content::<Flash>(3), 0).is_err());
    assert_eq!(drive.read(1, 0).unwrap().0, Some(content::<Flash>(1)));
    let nand = drive.into_nand().power_cycle(0);
    let mut drive = recover(nand, config, false).unwrap();
    assert_eq!(drive.read(1, 0).unwrap().0, Some(content::<Flash>(1)));
}

#[test]
fn a_read_that_fails_once_loses_nothing() {
    let config = Config::new(LOGICAL, Scheme::None);
    let (nand, journal) = <Flash as Cuttable>::new(0, 1, false);
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    for lpn in 0..16 {
        drive.write(lpn, &content::<Flash>(u64::from(lpn)), 0).unwrap();
    }
    drive.flush(0).unwrap();
    drive = recover(drive.into_nand().power_cycle(0), config, false).unwrap();
    for operations in 0..4 {
        drive.nand().inner().medium().store.fail_after(operations);
        for lpn in 0..16 {
            assert_eq!(drive.read(lpn, 0).unwrap().0, Some(content::<Flash>(u64::from(lpn))));
        }
    }
}

/// The medium is gone while garbage is collected, and comes back: no block is lost by that.
#[test]
fn a_block_whose_collection_failed_is_collected_later() {
    // Most pages never change: they are moved for the sake of wear.
    let config = Config { wear_spread: 1, ..Config::new(LOGICAL, Scheme::None) };
    let (nand, journal) = <Flash as Cuttable>::new(0, 1, false);
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    let mut random = Random::new(5);
    let mut versions = [0; LOGICAL as usize];
    let mut write = |drive: &mut seeds::Drive<Flash>, versions: &mut [u64], number: u64| {
        let all = if number <= 200 { u64::from(LOGICAL) } else { 8 };
        let lpn = random.below(all) as u32;
        let written = drive.write(lpn, &content::<Flash>(number), 0);
        if written.is_ok() {
            versions[lpn as usize] = number;
        }
        written.is_ok()
    };
    for number in 1..2_000 {
        assert!(write(&mut drive, &mut versions, number));
    }
    let mut failed = 0;
    for number in 2_000..12_000 {
        drive.nand().inner().medium().deaf.set(number % 5 != 0);
        failed += u32::from(!write(&mut drive, &mut versions, number));
    }
    drive.nand().inner().medium().deaf.set(false);
    assert!(failed > 20, "{failed} writes met a medium that cannot be read");
    for number in 12_000..14_000 {
        assert!(write(&mut drive, &mut versions, number), "there is no room any more");
    }
    for (lpn, number) in (0..).zip(versions) {
        let expected = (number > 0).then(|| content::<Flash>(number));
        assert_eq!(drive.read(lpn, 0).unwrap().0, expected);
    }
    assert_eq!(drive.contradictions(), Vec::<String>::new());
}

#[test]
fn a_page_is_programmed_only_after_its_block_was_erased() {
    let layout = shape(1, 0);
    let (page, oob) = (Page::from(vec![1; PAGE as usize]), vec![1; 128]);
    let mut nand = FileNand::new(File::new(1, layout), layout);
    let block = pumice_flash::chip::BlockId(3);
    let first = layout.geometry().page(block, 0);
    assert_eq!(nand.program(first, 0, &page, &oob), Err(NandError::Order(first)));
    nand.erase(block, 0).unwrap();
    nand.program(first, 0, &page, &oob).unwrap();
    assert_eq!(nand.program(first, 0, &page, &oob), Err(NandError::Order(first)));
    let third = Ppn(first.0 + 2);
    assert_eq!(nand.program(third, 0, &page, &oob), Err(NandError::Order(third)));
    assert_eq!(nand.read(third, 0), Err(NandError::Erased(third)));
    assert_eq!(nand.read(first, 0).unwrap().data, Some(page));
}

impl Losable for Flash {
    fn lose(mut self, page: Ppn, part: Part, random: u64) -> (Self, Vec<Ppn>) {
        let layout = self.inner().layout();
        let geometry = layout.geometry();
        let (block, index) = (geometry.block_of(page), geometry.index_of(page));
        let footer = layout.footer_at(block);
        let (at, len) = match part {
            Part::Data => (layout.data_at(page), PAGE as usize),
            Part::Tag => (footer + u64::from(index) * 128 / 512 * 512, 512),
            Part::Block => {
                let begins = layout.data_at(geometry.page(block, 0));
                (begins, (footer - begins) as usize + layout.footer_bytes())
            }
        };
        let mut random = Random::new(random);
        let junk: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        let tags = (0..geometry.pages_per_block).map(|index| geometry.page(block, index));
        let within = |page: &Ppn| {
            let tag = footer + u64::from(geometry.index_of(*page)) * 128;
            (at..at + len as u64).contains(&tag)
        };
        let programmed: Vec<Ppn> = tags.filter(within).filter(|page| self.read_oob(*page).is_ok()).collect();
        let file = self.into_inner().into_medium();
        file.write_at(at, &junk).unwrap();
        file.sync().unwrap();
        (Self::with_sums(FileNand::new(file, layout), sums(PAGE)), programmed)
    }
}

#[test]
fn a_sector_that_is_lost_brings_no_older_content_back() {
    no_older_content::<Flash>(seeds(300));
}

/// Rot anywhere in the blocks of a drive at rest: a page reads its own content or says that it is
/// damaged, or the drive is not opened.
#[test]
fn rot_in_the_file_is_never_read_as_data() {
    let (mut refused, mut damaged) = (0, 0);
    for seed in seeds(150) {
        let mut random = Random::new(seed ^ 0x0507);
        let config = config(&mut random);
        let (nand, journal) = <Flash as Cuttable>::new(0, seed, false);
        let mut drive = Ftl::format(nand, journal, config).unwrap();
        let mut allowed = Allowed::new();
        for _ in 0..200 {
            step(&mut drive, &mut allowed, &mut random, false).unwrap();
        }
        drive.flush(0).unwrap();
        // Each tag after a flush names up to four blocks: all streams that a scheme may use.
        for number in 2_000_000..2_000_003 {
            allowed.set(0, Some(number));
            drive.write(0, &content::<Flash>(number), 0).unwrap();
            drive.flush(0).unwrap();
        }
        let layout = drive.nand().inner().layout();
        let geometry = layout.geometry();
        let mut hit = vec![false; LOGICAL as usize];
        for _ in 0..4 {
            let lpn = 1 + random.below(u64::from(LOGICAL) - 1) as u32;
            let Some(page) = drive.map().lookup(lpn) else { continue };
            let (file, random) = (drive.nand().inner().medium(), &mut random);
            if random.below(3) == 0 {
                let footer = layout.footer_at(geometry.block_of(page));
                let tag = footer + u64::from(geometry.index_of(page)) * 128;
                file.rot(tag + random.below(64), random.next_u64());
            } else {
                file.rot(layout.data_at(page) + random.below(u64::from(PAGE)), random.next_u64());
            }
            hit.iter_mut()
                .zip(0..LOGICAL)
                .filter(|(_, lpn)| drive.map().lookup(*lpn) == Some(page))
                .for_each(|(hit, _)| *hit = true);
        }
        // Before the power goes, and after it came back.
        for opened_again in [false, true] {
            if opened_again {
                let nand = drive.into_nand().power_cycle(random.next_u64());
                drive = match recover(nand, config, false) {
                    Ok(drive) => drive,
                    Err(FtlError::TagLost(_)) => {
                        refused += 1;
                        break;
                    }
                    Err(error) => panic!("seed {seed}: {error}"),
                };
            }
            for lpn in 0..LOGICAL {
                match drive.read(lpn, 0) {
                    Ok((read, _)) => {
                        let expected = allowed.now[lpn as usize].map(content::<Flash>);
                        assert_eq!(read, expected, "seed {seed}, page {lpn}, again {opened_again}");
                    }
                    Err(FtlError::Damaged { .. } | FtlError::Misplaced { .. }) => {
                        assert!(hit[lpn as usize], "seed {seed}, page {lpn}: nothing hit it");
                        damaged += 1;
                    }
                    Err(error) => panic!("seed {seed}, page {lpn}: {error}"),
                }
            }
        }
    }
    assert!(refused > 0 && damaged > 0, "{refused} refused, {damaged} damaged");
}
