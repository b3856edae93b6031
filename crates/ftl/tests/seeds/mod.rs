//! Cuts of the power in virtual time, from seeds, over any flash that can be cut.
//!
//! After each cut: what was flushed is there, what was trimmed and flushed stays away, and no page
//! reads another's content. `PUMICE_FTL_SEEDS` sets the number of seeds (`cargo xtask ftl-cases
//! --seeds N`).

use pumice_flash::{Nand, NandError, Random};
use pumice_ftl::{Config, Ftl, FtlError, NandJournal, Scheme, Tag, recover};

/// Logical pages.
pub(crate) const LOGICAL: u32 = 60;
const CUTS: u32 = 4;

/// Flash whose power can be cut.
pub(crate) trait Cuttable: Nand<Page = Vec<u8>, Oob = Tag> + Sized {
    /// Bytes of a page.
    const PAGE: u32;

    /// Erased flash with its journal, and room for `spare` blocks more than are needed. If `fails`,
    /// programs and erases fail now and then.
    fn new(spare: u32, seed: u64, fails: bool) -> (Self, NandJournal);

    /// Cuts the power after so many operations that change something.
    fn cut_after(&mut self, operations: u64);

    /// The flash after the power came back; `random` decides what the cut left.
    fn power_cycle(self, random: u64) -> Self;
}

/// A drive on such flash.
pub(crate) type Drive<N> = Ftl<N, NandJournal, Vec<u8>>;

/// A content by its number.
pub(crate) fn content<N: Cuttable>(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    (0..N::PAGE / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

/// What each logical page may read: its content at the last flush, and all that it was given since.
pub(crate) struct Allowed {
    pub(crate) now: Vec<Option<u64>>,
    pub(crate) since: Vec<Vec<Option<u64>>>,
}

impl Allowed {
    /// Of an empty drive.
    pub(crate) fn new() -> Self {
        Self { now: vec![None; LOGICAL as usize], since: vec![vec![None]; LOGICAL as usize] }
    }

    pub(crate) fn set(&mut self, lpn: u32, value: Option<u64>) {
        self.now[lpn as usize] = value;
        self.since[lpn as usize].push(value);
    }

    pub(crate) fn flushed(&mut self) {
        for (since, now) in self.since.iter_mut().zip(&self.now) {
            *since = vec![*now];
        }
    }
}

/// One operation; an error if the power was cut in it.
pub(crate) fn step<N: Cuttable>(
    drive: &mut Drive<N>,
    allowed: &mut Allowed,
    random: &mut Random,
    ahead: bool,
) -> Result<(), FtlError> {
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
                drive.collect_ahead(0, 4)?;
                drive.erase_ahead(0)?;
                drive.mark()?;
            }
        }
        4 if random.below(4) == 0 => drive.checkpoint()?,
        5 => {
            let number = random.below(1_000_000);
            allowed.set(lpn, Some(number));
            drive.write_fua(lpn, &content::<N>(number), 0)?;
            allowed.since[lpn as usize] = vec![Some(number)];
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

fn check<N: Cuttable>(drive: &mut Drive<N>, allowed: &mut Allowed, seed: u64) {
    for lpn in 0..LOGICAL {
        let read = drive.read(lpn, 0).unwrap_or_else(|error| panic!("seed {seed}, page {lpn}: {error}")).0;
        let may = &allowed.since[lpn as usize];
        let found = may.iter().rev().find(|number| number.map(content::<N>) == read);
        let Some(found) = found else {
            panic!("seed {seed}, page {lpn}: reads none of {may:?}");
        };
        allowed.now[lpn as usize] = *found;
    }
    assert_eq!(drive.contradictions(), Vec::<String>::new(), "seed {seed}");
    // What was found is there for good.
    allowed.flushed();
}

/// Settings that differ from seed to seed.
pub(crate) fn config(random: &mut Random) -> Config {
    let scheme = Scheme::ALL[random.below(Scheme::ALL.len() as u64) as usize];
    Config {
        buffer: [0, 0, 5][random.below(3) as usize],
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
    let ahead = seed.is_multiple_of(4);
    let config = Config { erase_at_once: if ahead { 3 } else { 1 }, ..config(&mut random) };
    let fails = seed.is_multiple_of(3);
    // Where programs and erases fail, blocks are retired: room for that.
    let (nand, journal) = N::new(if fails { 40 } else { 0 }, seed, fails);
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    let mut allowed = Allowed::new();
    for _ in 0..CUTS {
        let most = if random.below(2) == 0 { 60 } else { 600 };
        drive.nand_mut().cut_after(random.below(most));
        loop {
            match step(&mut drive, &mut allowed, &mut random, ahead) {
                Ok(()) => {}
                Err(error) if is_cut(&error) => break,
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
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

/// The seeds to be tried.
pub(crate) fn seeds(usual: u64) -> std::ops::Range<u64> {
    let asked = std::env::var("PUMICE_FTL_SEEDS").ok();
    0..asked.map_or(usual, |text| text.parse().expect("PUMICE_FTL_SEEDS is a number"))
}
