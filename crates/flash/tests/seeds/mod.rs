//! Cuts of the power in virtual time, from seeds, over any flash that can be cut.
//!
//! After each cut: what was flushed is there, what was trimmed and flushed stays away, and no page
//! reads another's content. `PUMICE_FTL_SEEDS` sets the seeds (`cargo xtask ftl-cases --seeds N` or
//! `--seeds A..B`).

pub(crate) mod losses;

use pumice_flash::chip::{BlockId, Nand, NandError, Random, forge_crc32c};
use pumice_flash::ftl::{
    Bytes, Config, Flush, Ftl, FtlError, NandJournal, Scheme, Secret, Sums, Tag, recover,
};
use std::cell::Cell;

/// Logical pages.
pub(crate) const LOGICAL: u32 = 60;
const CUTS: u32 = 4;

/// Flash whose power can be cut.
pub(crate) trait Cuttable: Nand<Page: Bytes, Oob = Tag> + Sized {
    /// Bytes of a page.
    const PAGE: u32;

    /// Erased flash with its journal, and room for `spare` blocks more than are needed. If `fails`,
    /// programs and erases fail now and then.
    fn new(spare: u32, seed: u64, fails: bool) -> (Self, NandJournal);

    /// Cuts the power after so many operations that change something.
    fn cut_after(&mut self, operations: u64);

    /// Syncs what lies under the flash, as a thread beside the translation layer does.
    fn sync_medium(&mut self) -> Result<(), NandError>;

    /// The flash after the power came back; `random` decides what the cut left.
    fn power_cycle(self, random: u64) -> Self;
}

/// A drive on such flash.
pub(crate) type Drive<N> = Ftl<N, NandJournal, <N as Nand>::Page>;

thread_local! {
    /// Drives of this thread sum their pages by CRC-32C alone: a fault that the cases must find.
    pub(crate) static CRC_ALONE: Cell<bool> = const { Cell::new(false) };
}

/// The sums of drives of such pages.
pub(crate) fn sums(page_bytes: u32) -> Sums {
    if CRC_ALONE.get() { Sums::Crc32c } else { Sums::keyed(&Secret([0x5E; 32]), page_bytes) }
}

/// A content by its number. All have the same CRC-32C: the host is an adversary.
pub(crate) fn content<N: Cuttable>(number: u64) -> N::Page {
    let mut random = Random::new(number);
    let mut bytes: Vec<u8> = (0..N::PAGE / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
    forge_crc32c(&mut bytes, 0x600D_F00D);
    bytes.into()
}

/// The contents that each logical page may read: its content at the last flush, and all that it was
/// given since.
pub(crate) struct Allowed {
    pub(crate) now: Vec<Option<u64>>,
    pub(crate) since: Vec<Vec<Option<u64>>>,
    /// The number of contents before those in `since` that each page had.
    before: Vec<usize>,
    /// Flushes during which other operations go on.
    overlaps: Option<Overlaps>,
    /// A block that is to be collected later.
    victim: Option<BlockId>,
}

struct Overlaps {
    random: Random,
    under_way: Option<UnderWay>,
    /// The medium was synced for these: they were acknowledged.
    synced: Vec<Flush>,
}

struct UnderWay {
    flush: Flush,
    /// The content of each page that it covers, by its place among all that the page had.
    covers: Vec<usize>,
}

impl Allowed {
    /// Of an empty drive.
    pub(crate) fn new() -> Self {
        let pages = LOGICAL as usize;
        Self {
            now: vec![None; pages],
            since: vec![vec![None]; pages],
            before: vec![0; pages],
            overlaps: None,
            victim: None,
        }
    }

    /// The same, with flushes during which other operations go on.
    pub(crate) fn overlapping(seed: u64) -> Self {
        let random = Random::new(seed ^ 0xF1_0511);
        Self { overlaps: Some(Overlaps { random, under_way: None, synced: Vec::new() }), ..Self::new() }
    }

    /// The place of each page's content among all that the page had.
    pub(crate) fn places(&self) -> Vec<usize> {
        self.before.iter().zip(&self.since).map(|(before, since)| before + since.len() - 1).collect()
    }

    /// A page can hold no content from before this place any more.
    fn forget_before(&mut self, lpn: usize, place: usize) {
        let gone = place.saturating_sub(self.before[lpn]);
        self.since[lpn].drain(..gone);
        self.before[lpn] += gone;
    }

    fn flushed_page(&mut self, lpn: u32) {
        let place = self.places()[lpn as usize];
        self.forget_before(lpn as usize, place);
    }

    pub(crate) fn set(&mut self, lpn: u32, value: Option<u64>) {
        self.now[lpn as usize] = value;
        self.since[lpn as usize].push(value);
    }

    /// The process ended, or the power: no flush is under way.
    pub(crate) fn ended(&mut self) {
        if let Some(overlaps) = &mut self.overlaps {
            (overlaps.under_way, overlaps.synced) = (None, Vec::new());
        }
    }

    pub(crate) fn flushed(&mut self) {
        self.flushed_to(&self.places());
    }

    pub(crate) fn flushed_to(&mut self, places: &[usize]) {
        for (lpn, place) in places.iter().enumerate() {
            self.forget_before(lpn, *place);
        }
    }
}

/// Begins a flush, goes on with one, or ends it, as it comes.
fn overlap<N: Cuttable>(drive: &mut Drive<N>, allowed: &mut Allowed) -> Result<(), FtlError> {
    let places = allowed.places();
    let Some(overlaps) = &mut allowed.overlaps else { return Ok(()) };
    let turn = overlaps.random.below(3) == 0;
    match overlaps.under_way.take() {
        None if turn => match drive.begin_flush()? {
            Some(flush) => overlaps.under_way = Some(UnderWay { flush, covers: places }),
            None => allowed.flushed(),
        },
        Some(UnderWay { flush, covers }) if turn => {
            drive.nand_mut().sync_medium()?;
            overlaps.synced.push(flush);
            allowed.flushed_to(&covers);
        }
        other => overlaps.under_way = other,
    }
    let Some(overlaps) = &mut allowed.overlaps else { return Ok(()) };
    // They end in any order, and the next ones may have begun.
    let count = overlaps.synced.len() as u64;
    if count > 2 || count > 0 && overlaps.random.below(3) == 0 {
        let one = overlaps.random.below(count) as usize;
        drive.end_flush(overlaps.synced.swap_remove(one))?;
    }
    Ok(())
}

/// One operation; an error if the power was cut in it.
pub(crate) fn step<N: Cuttable>(
    drive: &mut Drive<N>,
    allowed: &mut Allowed,
    random: &mut Random,
    ahead: bool,
) -> Result<(), FtlError> {
    overlap(drive, allowed)?;
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
        3 => {
            drive.idle(0, random.below(20) * 100_000)?;
            if ahead {
                // A victim that was named some steps ago: it may be in use again.
                match allowed.victim.take() {
                    Some(block) => drive.collect_block(block, 0)?,
                    None => allowed.victim = drive.next_victim().map(|(block, _)| block),
                }
                drive.collect_ahead(0, 4)?;
                drive.erase_ahead(0)?;
                drive.mark()?;
            }
        }
        4 if random.below(4) == 0 => drive.checkpoint()?,
        5 => {
            let number = random.below(1_000_000);
            allowed.set(lpn, Some(number));
            drive.write(lpn, &content::<N>(number), 0)?;
            drive.flush(0)?;
            allowed.flushed_page(lpn);
        }
        other => {
            let number = random.below(if other < 15 { 12 } else { 1_000_000 });
            allowed.set(lpn, Some(number));
            drive.write(lpn, &content::<N>(number), 0)?;
        }
    }
    if random.below(3) == 0 {
        drive.hand_over()?;
    }
    Ok(())
}

pub(crate) fn check<N: Cuttable>(drive: &mut Drive<N>, allowed: &mut Allowed, seed: u64) {
    for lpn in 0..LOGICAL {
        let read = drive.read(lpn, 0).unwrap_or_else(|error| panic!("seed {seed}, page {lpn}: {error}")).0;
        let may = &allowed.since[lpn as usize];
        let found = may.iter().rev().find(|number| number.map(content::<N>) == read);
        let Some(found) = found else {
            panic!("seed {seed}, page {lpn}: reads none of {may:?}");
        };
        let found = *found;
        allowed.set(lpn, found);
    }
    assert_eq!(drive.contradictions(), Vec::<String>::new(), "seed {seed}");
    // What was found is there for good.
    allowed.flushed();
}

/// Settings that differ from seed to seed.
pub(crate) fn config(random: &mut Random) -> Config {
    let scheme = Scheme::ALL[random.below(Scheme::ALL.len() as u64) as usize];
    Config {
        key_bits: [64, 16, 3][random.below(3) as usize],
        checkpoint_every: [40, 200, u64::MAX][random.below(3) as usize],
        wear_spread: [2, 64][random.below(2) as usize],
        ..Config::new(LOGICAL, scheme)
    }
}

fn is_cut(error: &FtlError) -> bool {
    matches!(error, FtlError::Nand(NandError::PowerLost | NandError::Failed))
}

/// One life of a drive, with a few cuts.
pub(crate) fn one_seed<N: Cuttable>(seed: u64) {
    let mut random = Random::new(seed);
    // Each with each: blocks erased ahead, flushes under way, flash that fails; odd seeds end the
    // process of a file.
    let (ahead, overlapping) = ((seed / 2).is_multiple_of(2), seed / 4 % 2 == 1);
    let (erase_at_once, free) = if ahead { (3, 2) } else { (1, 0) };
    let config = Config { erase_at_once, ahead: free, ..config(&mut random) };
    let fails = seed.is_multiple_of(3);
    // Where programs and erases fail, blocks are retired: room for that.
    let spare = if fails { 40 } else { 10 * u32::from(overlapping) };
    let (nand, journal) = N::new(spare, seed, fails);
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    let mut allowed = if overlapping { Allowed::overlapping(seed) } else { Allowed::new() };
    for _ in 0..CUTS {
        let most = if random.below(2) == 0 { 60 } else { 600 };
        drive.nand_mut().cut_after(random.below(most));
        loop {
            // Some checkpoints are given up, as those with which a drive is closed may be.
            let given_up = match random.below(200) {
                0 => {
                    let mut pages = random.below(12);
                    let mut go_on = || {
                        pages = pages.saturating_sub(1);
                        pages > 0
                    };
                    drive.checkpoint_while(&mut go_on).map(drop)
                }
                _ => Ok(()),
            };
            match given_up.and_then(|()| step(&mut drive, &mut allowed, &mut random, ahead)) {
                Ok(()) => {}
                Err(error) if is_cut(&error) => break,
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        allowed.ended();
        let mut nand = drive.into_nand().power_cycle(random.next_u64());
        // Often the power goes again during recovery.
        for _ in 0..random.below(3) {
            nand.cut_after(random.below(120));
            match recover(&mut nand, config, false) {
                Ok(_) => {}
                Err(error) if is_cut(&error) => {}
                Err(error) => panic!("seed {seed}, recovery: {error}"),
            }
            nand = nand.power_cycle(random.next_u64());
        }
        drive = recover(nand, config, false).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        check(&mut drive, &mut allowed, seed);
    }
}

/// The seeds to be tried: so many from 0 on, or a range as `20000..40000`.
pub(crate) fn seeds(usual: u64) -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("PUMICE_FTL_SEEDS") else { return 0..usual };
    let number = |text: &str| text.parse().expect("PUMICE_FTL_SEEDS is a number, or two as A..B");
    match asked.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => 0..number(&asked),
    }
}
