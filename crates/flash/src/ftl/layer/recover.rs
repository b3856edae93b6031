//! Recovery: the map from the last checkpoint, its log, and the tags of pages that were programmed
//! since.

mod facts;
mod scan;

use super::tails::named;
use super::{Config, Ftl};
use crate::chip::{BlockId, Geometry, Nand, NandError, Ppn};
use crate::ftl::content::Bytes;
use crate::ftl::error::FtlError;
use crate::ftl::journal::{Found, NandJournal, Record};
use crate::ftl::map::{Owner, entry_of};
use crate::ftl::progress::Progress;
use crate::ftl::table::NONE;
use crate::ftl::tag::{Tag, Tails, generation_of};
use crate::ftl::victim::Greedy;
use facts::{Copies, Fact, Facts};
use scan::scan;
use std::collections::{BTreeMap, HashMap};

/// Sequence numbers after a recovery begin so far above all that were seen. A page that was not
/// durable may have a tag that could not be read this time; if it can be read one day, its number
/// is below that of the checkpoint which ends this recovery, and it says nothing. What was not
/// durable has fewer numbers than this: each is that of a page, of which there are fewer than 2^31,
/// or of a record of the log.
const NUMBERS_AHEAD: u64 = 1 << 32;

/// Logical pages from one word about how far it is to the next.
const TOLD_EVERY: u32 = 1 << 20;

/// The place of the data of a logical page.
#[derive(Debug, Clone, Copy)]
enum Target {
    Own(Ppn),
    Shared(Ppn, u64),
    /// The last content is lost, or that which replaced it.
    Lost,
}

/// A page that was programmed since the checkpoint: what is kept of its tag.
#[derive(Debug, Clone, Copy)]
struct Seen {
    page: Ppn,
    /// The logical page whose data it holds; none if those of an object.
    lpn: Option<u32>,
    birth: u64,
    seq: u64,
}

/// The place where a content was programmed.
#[derive(Debug, Clone, Copy)]
struct Place {
    seq: u64,
    page: Ppn,
    as_object: bool,
}

/// The knowledge beyond the checkpoint.
#[derive(Debug, Default)]
struct Knowledge {
    facts: Facts,
    /// The newest place of each content, by birth.
    places: HashMap<u64, Place>,
    copies: Copies,
    /// The number at which each block was last about to be erased.
    void_before: BTreeMap<u32, u64>,
    /// The blocks that are void: each mapped page asks.
    void: Vec<bool>,
    /// The number of times that each block was about to be erased, and the generation of its new
    /// pages, if they say one.
    erased: HashMap<u32, u32>,
    generations: HashMap<u32, u16>,
    highest: u64,
    /// All sequence numbers up to this one were durable.
    durable: u64,
    /// Something was passed over that another recovery from the same checkpoint could take.
    doubt: bool,
}

impl Knowledge {
    /// The newest page that holds the content of this birth.
    fn place(&self, birth: u64) -> Option<Ppn> {
        self.places.get(&birth).map(|place| place.page)
    }

    /// The place of the content of a write. The record of a merge may be lost while the copy that
    /// was moved as an object is kept.
    fn written(&self, birth: u64) -> Option<Target> {
        let place = self.places.get(&birth)?;
        Some(if place.as_object { Target::Shared(place.page, birth) } else { Target::Own(place.page) })
    }

    /// Returns whether what a page held at the checkpoint is void. Everything that replaced it was
    /// durable before that was recorded.
    fn is_void(&self, geometry: Geometry, page: Ppn) -> bool {
        self.void.get(geometry.block_of(page).0 as usize).copied().unwrap_or_default()
    }

    /// The number of times that a block was erased: so often at the checkpoint.
    fn erases(&self, block: u32, before: u32) -> u32 {
        match self.generations.get(&block) {
            Some(generation) => {
                let more = u32::from(*generation) + 65_535 - u32::from(generation_of(before));
                before.saturating_add(more % 65_535)
            }
            None => before.saturating_add(self.erased.get(&block).copied().unwrap_or(0)),
        }
    }

    /// Takes the tails that a tag with this number names. One that was programmed before a block
    /// was void says nothing of it.
    fn extend(&self, tails: &mut HashMap<BlockId, Ppn>, geometry: Geometry, seq: u64, said: Tails) {
        for page in named(said).filter(|page| page.0 < geometry.pages()) {
            let block = geometry.block_of(page);
            if self.void_before.get(&block.0).is_none_or(|void| seq > *void) {
                let tail = tails.entry(block).or_insert(page);
                *tail = page.max(*tail);
            }
        }
    }

    fn take_records(&mut self, records: &[Record]) {
        for record in records {
            let seq = match *record {
                Record::Trim { seq, .. } => seq,
                Record::Merge { seq, lpn, page, birth } => {
                    self.facts.add(lpn, seq, Fact::Merged { birth, hint: Ppn(page) });
                    seq
                }
                Record::Erase { seq, block } => {
                    let last = self.void_before.entry(block).or_default();
                    *last = seq.max(*last);
                    if self.void.len() <= block as usize {
                        self.void.resize(block as usize + 1, false);
                    }
                    self.void[block as usize] = true;
                    *self.erased.entry(block).or_default() += 1;
                    seq
                }
            };
            self.highest = self.highest.max(seq);
        }
    }

    fn take_page(&mut self, Seen { page, lpn, birth, seq }: Seen, since: u64) {
        let place = Place { seq, page, as_object: lpn.is_none() };
        let newest = self.places.entry(birth).or_insert(place);
        if seq >= newest.seq {
            *newest = place;
        }
        match lpn {
            Some(lpn) if birth > since => self.facts.add(lpn, birth, Fact::Written),
            Some(lpn) => self.copies.add(lpn, seq, page),
            None => {}
        }
    }
}

/// Mounts a drive after a cut of the power, or after any other end. `accept_lost_tags` lets pages
/// go whose tag cannot be read, although they were durable. Where a record or the checkpoint names
/// the logical pages of such a page, reads of them fail. Otherwise an older version of an unknown
/// logical page stands.
///
/// # Errors
/// If the flash holds no such drive, or what it holds is damaged so that the drive cannot be what
/// it was.
pub fn recover<N: Nand<Page: Bytes, Oob = Tag>>(
    nand: N,
    config: Config,
    accept_lost_tags: bool,
) -> Result<Ftl<N, NandJournal, N::Page>, FtlError> {
    recover_telling(nand, config, accept_lost_tags, &mut |_| {})
}

/// Does the same, and tells how far it is: at least once for each 32 blocks that it looks at, and
/// each million logical pages.
///
/// # Errors
/// As [`recover`].
pub fn recover_telling<N: Nand<Page: Bytes, Oob = Tag>>(
    mut nand: N,
    config: Config,
    accept_lost_tags: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Ftl<N, NandJournal, N::Page>, FtlError> {
    let mut journal = NandJournal::new(nand.geometry(), config.logical);
    let mut found = journal.load(&mut nand, progress)?;
    let since = found.checkpoint.seq;
    let mut known =
        Knowledge { highest: since.max(found.highest), doubt: found.doubt, ..Knowledge::default() };
    known.take_records(&found.records);
    let greedy = Greedy::new(nand.geometry().blocks, nand.geometry().pages_per_block);
    let mut ftl = Ftl::assemble(nand, journal, config, false, Box::new(greedy))?;
    let none_new = scan(&mut ftl, &found, &mut known, accept_lost_tags, progress)?;
    known.facts.settle(&found.records);
    known.copies.settle();
    let live = restore_map(&mut ftl, &mut found, &mut known, accept_lost_tags, progress)?;
    let geometry = ftl.nand.geometry();
    let first = crate::ftl::journal::Journal::<N>::reserved(&ftl.journal);
    for block in first..geometry.blocks {
        let entry = found.checkpoint.blocks[block as usize];
        let erases = known.erases(block, entry.erases);
        ftl.blocks.restore(block, erases, entry.retired, entry.stream, live[block as usize]);
    }
    ftl.stats = found.checkpoint.stats;
    // The number before is the birth of what is lost. The checkpoint of an earlier recovery may be
    // lost without a trace of its number.
    ftl.seq = known.highest + NUMBERS_AHEAD * if known.doubt { 2 } else { 1 } + 1;
    if none_new && found.log_is_empty && !known.doubt && found.checkpoint.opens_are_recorded {
        // The checkpoint says all that there is, and every tag that could say more was read. What
        // was erased then is erased again, under a record, before it is used.
        ftl.journal.begin_log(&mut ftl.nand)?;
        ftl.sync()?;
        ftl.durable = since;
        (ftl.checkpointed, ftl.was_closed) = (ftl.seq - 1, true);
        return Ok(ftl);
    }
    progress(Progress { step: "checkpoints", done: 0, of: 1 });
    ftl.checkpoint()?;
    if known.doubt {
        // If this checkpoint is lost one day, what was passed over must not come back from the one
        // before: it is replaced, too, before any block is used again.
        ftl.checkpoint()?;
    }
    Ok(ftl)
}

/// Settles what each logical page holds; the number of pages of each block that hold something.
/// The table of the checkpoint is used up.
fn restore_map<N: Nand<Page: Bytes, Oob = Tag>>(
    ftl: &mut Ftl<N, NandJournal, N::Page>,
    found: &mut Found,
    known: &mut Knowledge,
    accept_lost_tags: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<u32>, FtlError> {
    // Objects come first: a page may be its first owner's and shared, if the record of its first
    // owner was lost. Pages of one owner wait until then in the table of the checkpoint, each in
    // the entry that it was settled from: a second table of this size takes a second of start-up
    // for each TiB.
    let mut lost = Vec::new();
    let nothing_new = known.facts.are_none();
    for lpn in 0..found.checkpoint.table.len() as u32 {
        if lpn.is_multiple_of(TOLD_EVERY) {
            let of = found.checkpoint.table.len() as u64;
            progress(Progress { step: "logical pages", done: lpn.into(), of });
        }
        if nothing_new && entry_of(found.checkpoint.table[lpn as usize]).is_none() {
            continue;
        }
        let mut own = NONE;
        match settle(ftl, lpn, found, known, accept_lost_tags)? {
            None => {}
            Some(Target::Own(page)) => own = page.0,
            Some(Target::Shared(page, birth)) => drop(ftl.map.share(lpn, page, birth)),
            Some(Target::Lost) => {
                ftl.pass_over(FtlError::ContentLost(lpn), accept_lost_tags)?;
                known.doubt = true;
                lost.push(lpn);
            }
        }
        found.checkpoint.table[lpn as usize] = own;
    }
    let settled = found.checkpoint.table.iter().copied().zip(0..);
    for (page, lpn) in settled.filter(|(page, _)| *page != NONE) {
        match ftl.map.owner(Ppn(page)) {
            Some(_) => ftl.map.share(lpn, Ppn(page), 0),
            None => ftl.map.point(lpn, Ppn(page)),
        };
    }
    share_nowhere(ftl, &lost, known.highest + 2 * NUMBERS_AHEAD)?;
    Ok(live_pages(ftl, found))
}

/// The content of a logical page: the newest fact whose content is there, or what it had at the
/// checkpoint.
fn settle<N: Nand<Page: Bytes, Oob = Tag>>(
    ftl: &mut Ftl<N, NandJournal, N::Page>,
    lpn: u32,
    found: &Found,
    known: &mut Knowledge,
    accept_lost_tags: bool,
) -> Result<Option<Target>, FtlError> {
    let (geometry, since) = (ftl.nand.geometry(), found.checkpoint.seq);
    let (facts, trimmed) = known.facts.of(lpn);
    for (seq, fact) in facts {
        let settled = match fact {
            Fact::Written => known.written(seq),
            Fact::Merged { birth, hint } => match merged(ftl, known, (birth, hint), since)? {
                Some(target) => Some(target),
                // Both were durable once: what came before must not come back.
                None if seq <= known.durable => {
                    names_a_lost_tag(ftl, known.is_void(geometry, hint), hint, accept_lost_tags)?;
                    Some(Target::Lost)
                }
                // The cut took the content.
                None => {
                    known.doubt = true;
                    None
                }
            },
        };
        if settled.is_some() {
            return Ok(settled);
        }
    }
    Ok(if trimmed { None } else { at_checkpoint(lpn, found, known, geometry) })
}

/// The page of a content that a record of a merge names: where it was programmed since the
/// checkpoint, or where the record says that it was before.
fn merged<N: Nand<Page: Bytes, Oob = Tag>>(
    ftl: &mut Ftl<N, NandJournal, N::Page>,
    known: &Knowledge,
    (birth, hint): (u64, Ppn),
    since: u64,
) -> Result<Option<Target>, FtlError> {
    let shared = |page| Some(Target::Shared(page, birth));
    if let Some(page) = known.place(birth) {
        return Ok(shared(page));
    }
    match ftl.nand.read_oob(hint) {
        Ok(tag) if tag.birth == birth && tag.seq <= since => Ok(shared(hint)),
        Ok(_) | Err(NandError::Unreadable(_) | NandError::Erased(_)) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// Passes over a page that a record names, if its tag cannot be read and its block is not void.
fn names_a_lost_tag<N: Nand<Page: Bytes, Oob = Tag>>(
    ftl: &mut Ftl<N, NandJournal, N::Page>,
    is_void: bool,
    hint: Ppn,
    accept_lost_tags: bool,
) -> Result<(), FtlError> {
    match ftl.nand.read_oob(hint) {
        Err(NandError::Unreadable(page)) if !is_void => {
            ftl.pass_over(FtlError::TagLost(page), accept_lost_tags)
        }
        _ => Ok(()),
    }
}

/// Has logical pages whose content is lost share one page that nothing owns, under a birth that no
/// page has: reads fail until something is written, and garbage collection copies it as lost.
fn share_nowhere<N: Nand<Page: Bytes, Oob = Tag>>(
    ftl: &mut Ftl<N, NandJournal, N::Page>,
    lost: &[u32],
    birth: u64,
) -> Result<(), FtlError> {
    if lost.is_empty() {
        return Ok(());
    }
    let geometry = ftl.nand.geometry();
    let first = crate::ftl::journal::Journal::<N>::reserved(&ftl.journal);
    let mut pages = (geometry.page(BlockId(first), 0).0..geometry.pages()).map(Ppn);
    let page = pages.find(|page| ftl.map.owner(*page).is_none()).ok_or(FtlError::NoRoom)?;
    for lpn in lost {
        ftl.map.share(*lpn, page, birth);
    }
    Ok(())
}

/// The pages of each block that hold something. Only entries that are in use are looked at.
fn live_pages<N: Nand<Page: Bytes, Oob = Tag>>(
    ftl: &Ftl<N, NandJournal, N::Page>,
    found: &Found,
) -> Vec<u32> {
    let geometry = ftl.nand.geometry();
    let mut live = vec![0; geometry.blocks as usize];
    let of_one = found.checkpoint.table.iter().copied().filter(|page| *page != NONE);
    let of_one = of_one.filter(|page| matches!(ftl.map.owner(Ppn(*page)), Some(Owner::Lpn(_))));
    for page in of_one.chain(ftl.map.shared_pages()) {
        live[geometry.block_of(Ppn(page)).0 as usize] += 1;
    }
    live
}

/// The place where a logical page's content of the checkpoint is now.
fn at_checkpoint(lpn: u32, found: &Found, known: &Knowledge, geometry: Geometry) -> Option<Target> {
    let unless_void = |page, target| if known.is_void(geometry, page) { Target::Lost } else { target };
    let target = match entry_of(found.checkpoint.table[lpn as usize])? {
        Ok(page) => match known.copies.of(lpn) {
            Some(copy) => Target::Own(copy),
            None => unless_void(page, Target::Own(page)),
        },
        Err(number) => {
            let object = found.checkpoint.objects[number as usize];
            match known.place(object.birth) {
                Some(page) => Target::Shared(page, object.birth),
                None => unless_void(Ppn(object.ppn), Target::Shared(Ppn(object.ppn), object.birth)),
            }
        }
    };
    Some(target)
}
