//! A part of the flash is lost at rest, from seeds: no older content comes back for it.

use super::{Allowed, Cuttable, Drive, LOGICAL, config, content, step};
use pumice_flash::chip::{Ppn, Random};
use pumice_flash::ftl::{Config, Ftl, FtlError, Kind, Owner, Tag, recover};
use std::collections::BTreeSet;

/// Stands for a content that cannot be read.
const LOST: u64 = u64::MAX;

/// The part of a page that is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A part of its data.
    Data,
    /// Its tag, and those that lie in the same sector.
    Tag,
    /// Its block, data and tags.
    Block,
}

/// Flash of which parts can be lost.
pub(crate) trait Losable: Cuttable {
    /// Loses a part of a page for good. Gives the pages whose tags are lost.
    fn lose(self, page: Ppn, part: Part, random: u64) -> (Self, Vec<Ppn>);
}

/// The losses, and what may follow from them.
struct Losses {
    part: Part,
    /// Pages that lost their data or their tags.
    pages: BTreeSet<Ppn>,
    /// Logical pages that only a lost tag named: if that is accepted, nobody knows of them.
    unknown: BTreeSet<u32>,
}

/// The contents that each logical page may read, and where it was.
struct Judge {
    seed: u64,
    allowed: Allowed,
    /// Pages that hold, or held at the last mark, each logical page.
    places: Vec<BTreeSet<Ppn>>,
    /// Pages that were shared at the last mark.
    shared: BTreeSet<Ppn>,
    /// Pages of the log may have one copy: they are left alone.
    lags: bool,
}

impl Judge {
    fn look<N: Cuttable>(&mut self, drive: &Drive<N>) {
        for lpn in 0..LOGICAL {
            self.places[lpn as usize].extend(drive.map().lookup(lpn));
        }
    }

    /// All is durable, and tags say so.
    fn marked<N: Cuttable>(&mut self, drive: &Drive<N>) {
        self.allowed.flushed();
        self.places.iter_mut().for_each(BTreeSet::clear);
        self.look(drive);
        let pages = (0..drive.nand().geometry().pages()).map(Ppn);
        self.shared =
            pages.filter(|page| matches!(drive.map().owner(*page), Some(Owner::Object(_)))).collect();
    }

    /// Loses a part of the flash.
    fn lose<N: Losable>(&self, mut nand: N, random: &mut Random) -> (N, Losses) {
        let all = (0..nand.geometry().pages()).map(Ppn);
        let tags: Vec<(Ppn, Tag)> = all.filter_map(|page| Some((page, nand.read_oob(page).ok()?))).collect();
        let is_data = |(_, tag): &&(Ppn, Tag)| matches!(tag.kind, Kind::Lpn(_) | Kind::Object);
        let class = if self.lags { 1 + random.below(3) } else { random.below(4) };
        let is_journal = |page: &&(Ppn, Tag)| !is_data(page);
        let is_shared = |(page, _): &&(Ppn, Tag)| self.shared.contains(page);
        let mut some: Vec<_> = match class {
            0 => tags.iter().filter(is_journal).collect(),
            1 => tags.iter().filter(is_shared).collect(),
            _ => Vec::new(),
        };
        if some.is_empty() {
            some = tags.iter().filter(is_data).collect();
        }
        // An empty drive has a journal, and a first checkpoint.
        let page = some.get(random.below(some.len() as u64) as usize).map_or(Ppn(0), |(page, _)| *page);
        let part = [Part::Data, Part::Tag, Part::Block][random.below(3) as usize];
        let (nand, lost) = nand.lose(page, part, random.next_u64());
        let named = tags.iter().filter(|(page, _)| lost.contains(page) && !self.shared.contains(page));
        let unknown = named.filter_map(|(_, tag)| match tag.kind {
            Kind::Lpn(lpn) => Some(lpn),
            _ => None,
        });
        let unknown = unknown.collect();
        (nand, Losses { part, unknown, pages: lost.into_iter().chain([page]).collect() })
    }

    /// Each logical page reads what was durable, something newer, or an error.
    fn judge<N: Cuttable>(&mut self, drive: &mut Drive<N>, losses: &Losses, accepted: bool) -> u32 {
        let (seed, mut errors) = (self.seed, 0);
        for lpn in 0..LOGICAL {
            let may = &self.allowed.since[lpn as usize];
            let found = match drive.read(lpn, 0) {
                Ok((read, _)) => may.iter().rev().find(|number| number.map(content::<N>) == read).copied(),
                Err(FtlError::Damaged { .. } | FtlError::Misplaced { .. }) => {
                    let hit = self.places[lpn as usize].iter().any(|page| losses.pages.contains(page));
                    assert!(hit || may.contains(&Some(LOST)), "seed {seed}, page {lpn}: nothing hit it");
                    errors += 1;
                    Some(Some(LOST))
                }
                Err(error) => panic!("seed {seed}, page {lpn}: {error}"),
            };
            let exempt = accepted && losses.unknown.contains(&lpn);
            assert!(
                found.is_some() || exempt,
                "seed {seed}, page {lpn}, {:?} lost: reads none of {may:?}",
                losses.part
            );
            match found {
                Some(found) => self.allowed.set(lpn, found),
                None => {
                    self.allowed.set(lpn, None);
                    drive.trim(lpn, 1).unwrap();
                }
            }
        }
        assert_eq!(drive.contradictions(), Vec::<String>::new(), "seed {seed}");
        drive.flush(0).unwrap();
        self.allowed.flushed();
        errors
    }
}

/// A few lives of a drive. At the end of each some of it is lost, beside what a cut takes. Gives
/// how often recovery refused that, and how many logical pages could not be read.
pub(crate) fn lives_with_losses<N: Losable>(seed: u64) -> (u32, u32) {
    let mut random = Random::new(seed ^ 0x105_5E5);
    let (accept, ahead) = (seed.is_multiple_of(2), (seed / 2).is_multiple_of(2));
    let (erase_at_once, free) = if ahead { (3, 2) } else { (1, 0) };
    let config = Config { erase_at_once, ahead: free, ..config(&mut random) };
    let (nand, journal) = N::new(12, 2 * seed, false);
    let mut drive = Ftl::format(nand, journal, config).unwrap();
    let (allowed, places) = (Allowed::new(), vec![BTreeSet::new(); LOGICAL as usize]);
    let mut judge = Judge { seed, allowed, places, shared: BTreeSet::new(), lags: false };
    let mut errors = 0;
    for _ in 0..4 {
        for _ in 0..random.below(150) {
            step(&mut drive, &mut judge.allowed, &mut random, ahead).unwrap();
        }
        drive.flush(0).unwrap();
        while drive.needs_mark() {
            drive.mark().unwrap();
        }
        judge.marked(&drive);
        for _ in 0..random.below(12) {
            let lpn = random.below(u64::from(LOGICAL)) as u32;
            if random.below(5) == 0 {
                judge.allowed.set(lpn, None);
                drive.trim(lpn, 1).unwrap();
            } else {
                let number = random.below(24);
                judge.allowed.set(lpn, Some(number));
                drive.write(lpn, &content::<N>(number), 0).unwrap();
            }
            judge.look(&drive);
        }
        judge.lags = drive.needs_mark();
        let nand = drive.into_nand().power_cycle(random.next_u64());
        let (nand, losses) = judge.lose(nand, &mut random);
        drive = match recover(nand, config, accept) {
            Ok(drive) => drive,
            Err(FtlError::TagLost(_) | FtlError::ContentLost(_)) if !accept => return (1, errors),
            Err(error) => panic!("seed {seed}, {:?} of {:?} lost: {error}", losses.part, losses.pages),
        };
        errors += judge.judge(&mut drive, &losses, accept);
    }
    (0, errors)
}

/// Lives from many seeds.
pub(crate) fn no_older_content<N: Losable>(seeds: std::ops::Range<u64>) {
    let all = seeds.map(lives_with_losses::<N>);
    let (refused, errors) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(refused > 0 && errors > 0, "{refused} were refused, {errors} pages were lost");
}
