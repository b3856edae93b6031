//! Recovery: the map from the last checkpoint, its log, and the tags of pages that were programmed
//! since.

use super::tails::named;
use super::{Config, Ftl};
use crate::content::Bytes;
use crate::error::FtlError;
use crate::journal::{Found, NandJournal, Record};
use crate::map::entry_of;
use crate::tag::{Kind, Tag};
use pumice_flash::{BlockId, Geometry, Nand, NandError, Ppn};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What a logical page holds as of a sequence number: the content of a birth, perhaps at this page,
/// or nothing.
#[derive(Debug, Clone, Copy)]
enum Fact {
    Written,
    Merged { birth: u64, hint: Ppn },
    Trimmed,
}

/// Where the data of a logical page are.
#[derive(Debug, Clone, Copy)]
enum Target {
    Own(Ppn),
    Shared(Ppn, u64),
}

/// What is known beyond the checkpoint.
#[derive(Debug, Default)]
struct Knowledge {
    facts: HashMap<u32, Vec<(u64, Fact)>>,
    /// The newest place of each content, by birth.
    places: HashMap<u64, (u64, Ppn)>,
    /// Pages that were programmed as objects.
    objects: HashSet<Ppn>,
    /// The newest copy of what each logical page held at the checkpoint.
    copies: HashMap<u32, (u64, Ppn)>,
    /// When each block was last about to be erased.
    void_before: BTreeMap<u32, u64>,
    highest: u64,
    /// All sequence numbers up to this one were durable.
    durable: u64,
}

fn newest(entry: &mut (u64, Ppn), seq: u64, page: Ppn) {
    if seq >= entry.0 {
        *entry = (seq, page);
    }
}

impl Knowledge {
    fn take_records(&mut self, records: &[Record]) {
        for record in records {
            let seq = match *record {
                Record::Trim { seq, lpn, count } => {
                    for lpn in lpn..lpn + count {
                        self.facts.entry(lpn).or_default().push((seq, Fact::Trimmed));
                    }
                    seq
                }
                Record::Merge { seq, lpn, page, birth } => {
                    let fact = Fact::Merged { birth, hint: Ppn(page) };
                    self.facts.entry(lpn).or_default().push((seq, fact));
                    seq
                }
                Record::Erase { seq, block } => {
                    let last = self.void_before.entry(block).or_default();
                    *last = seq.max(*last);
                    seq
                }
            };
            self.highest = self.highest.max(seq);
        }
    }

    fn take_page(&mut self, page: Ppn, tag: Tag, since: u64) {
        newest(self.places.entry(tag.birth).or_insert((tag.seq, page)), tag.seq, page);
        match tag.kind {
            Kind::Lpn(lpn) if tag.birth > since => {
                self.facts.entry(lpn).or_default().push((tag.birth, Fact::Written));
            }
            Kind::Lpn(lpn) => newest(self.copies.entry(lpn).or_insert((tag.seq, page)), tag.seq, page),
            _ => {
                self.objects.insert(page);
            }
        }
    }
}

/// Mounts a drive after a cut of the power, or after any other end. `accept_lost_tags` lets pages
/// go whose tag cannot be read, although they were durable: an older version of an unknown logical
/// page then stands.
///
/// # Errors
/// If the flash holds no such drive, or what it holds is damaged so that the drive cannot be what
/// it was.
pub fn recover<N: Nand<Page: Bytes, Oob = Tag>>(
    mut nand: N,
    config: Config,
    accept_lost_tags: bool,
) -> Result<Ftl<N, NandJournal, N::Page>, FtlError> {
    let mut journal = NandJournal::new(nand.geometry(), config.logical);
    let found = journal.load(&mut nand)?;
    let since = found.checkpoint.seq;
    let mut known = Knowledge { highest: since, ..Knowledge::default() };
    known.take_records(&found.records);
    let mut ftl = Ftl::assemble(nand, journal, config, false)?;
    scan(&mut ftl, &found, &mut known, accept_lost_tags)?;
    restore_map(&mut ftl, &found, &mut known, accept_lost_tags)?;
    let geometry = ftl.nand.geometry();
    let mut live = vec![0; geometry.blocks as usize];
    for page in (0..geometry.pages()).map(Ppn) {
        live[geometry.block_of(page).0 as usize] += u32::from(ftl.map.owner(page).is_some());
    }
    let first = crate::journal::Journal::<N>::reserved(&ftl.journal);
    for block in first..geometry.blocks {
        let entry = found.checkpoint.blocks[block as usize];
        let erases = entry.erases.saturating_add(u32::from(known.void_before.contains_key(&block)));
        ftl.blocks.restore(block, erases, entry.retired, entry.stream, live[block as usize]);
    }
    ftl.stats = found.checkpoint.stats;
    ftl.seq = known.highest + 1;
    ftl.checkpoint()?;
    Ok(ftl)
}

/// Finds the pages that were programmed since the checkpoint.
fn scan<N: Nand<Page: Bytes, Oob = Tag>>(
    ftl: &mut Ftl<N, NandJournal, N::Page>,
    found: &Found,
    known: &mut Knowledge,
    accept_lost_tags: bool,
) -> Result<(), FtlError> {
    let (geometry, since) = (ftl.nand.geometry(), found.checkpoint.seq);
    let first = crate::journal::Journal::<N>::reserved(&ftl.journal);
    let (mut tags, mut holes, mut durable) = (Vec::new(), Vec::new(), found.durable);
    for block in first..geometry.blocks {
        let entry = found.checkpoint.blocks[block as usize];
        let begun = match ftl.nand.read_oob(geometry.page(BlockId(block), 0)) {
            Ok(tag) => tag.seq > since,
            Err(NandError::Unreadable(_) | NandError::Erased(_)) => true,
            Err(other) => return Err(other.into()),
        };
        if !begun && !entry.open && !entry.retired {
            continue;
        }
        let valid_from = known.void_before.get(&block).copied().unwrap_or(0).max(since);
        for index in 0..geometry.pages_per_block {
            let page = geometry.page(BlockId(block), index);
            match ftl.nand.read_oob(page) {
                Ok(tag) if tag.seq > valid_from => {
                    durable = durable.max(tag.durable);
                    tags.push((page, tag));
                }
                Ok(_) | Err(NandError::Erased(_)) => {}
                Err(NandError::Unreadable(_)) => holes.push(page),
                Err(other) => return Err(other.into()),
            }
        }
    }
    let durable_tails = durable_tails(geometry, &tags, &known.void_before);
    for hole in holes {
        // Pages are programmed in order: this one is older than those after it in its block.
        let after = |page: Ppn| geometry.block_of(page) == geometry.block_of(hole) && page > hole;
        let named = durable_tails.get(&geometry.block_of(hole)).is_some_and(|tail| *tail >= hole);
        let was_durable = named || tags.iter().any(|(page, tag)| after(*page) && tag.seq <= durable);
        if was_durable && !accept_lost_tags {
            return Err(FtlError::TagLost(hole));
        }
    }
    known.durable = durable;
    for (page, tag) in tags {
        known.highest = known.highest.max(tag.seq);
        // Damaged data that were durable are rot, and the page keeps its place: they need not be
        // read. Others were torn by the cut if they are damaged.
        if tag.seq <= durable || is_intact(&mut ftl.nand, page)? {
            known.take_page(page, tag, since);
        }
    }
    Ok(())
}

/// The last page of each block that a tag says to be durable. A tag that was programmed before the
/// block was void says nothing of it.
fn durable_tails(
    geometry: Geometry,
    tags: &[(Ppn, Tag)],
    void_before: &BTreeMap<u32, u64>,
) -> HashMap<BlockId, Ppn> {
    let mut tails: HashMap<BlockId, Ppn> = HashMap::new();
    for (_, tag) in tags {
        for page in named(tag.tails).filter(|page| page.0 < geometry.pages()) {
            let block = geometry.block_of(page);
            if void_before.get(&block.0).is_none_or(|void| tag.seq > *void) {
                let tail = tails.entry(block).or_insert(page);
                *tail = page.max(*tail);
            }
        }
    }
    tails
}

/// Whether the data of a page fit their sum.
fn is_intact<N: Nand<Page: Bytes, Oob = Tag>>(nand: &mut N, page: Ppn) -> Result<bool, FtlError> {
    match nand.read(page, 0) {
        Ok(read) => Ok(read.data.is_some()),
        Err(NandError::Unreadable(_) | NandError::Erased(_)) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

/// Settles what each logical page holds.
fn restore_map<N: Nand<Page: Bytes, Oob = Tag>>(
    ftl: &mut Ftl<N, NandJournal, N::Page>,
    found: &Found,
    known: &mut Knowledge,
    accept_lost_tags: bool,
) -> Result<(), FtlError> {
    let place = |birth: u64| known.places.get(&birth).map(|(_, page)| *page);
    let mut targets = Vec::with_capacity(found.checkpoint.table.len());
    for lpn in 0..found.checkpoint.table.len() as u32 {
        let mut facts = known.facts.get(&lpn).cloned().unwrap_or_default();
        facts.sort_unstable_by_key(|(seq, _)| std::cmp::Reverse(*seq));
        let mut settled = None;
        for (seq, fact) in facts {
            settled = match fact {
                Fact::Trimmed => Some(None),
                // The record of a merge may be lost while the copy that was moved as an object is
                // kept.
                Fact::Written => place(seq).map(|page| {
                    let shared = known.objects.contains(&page);
                    Some(if shared { Target::Shared(page, seq) } else { Target::Own(page) })
                }),
                Fact::Merged { birth, hint } => {
                    let geometry = ftl.nand.geometry();
                    let erased = known.void_before.contains_key(&geometry.block_of(hint).0);
                    let at_hint = match ftl.nand.read_oob(hint) {
                        Ok(tag) => tag.birth == birth && tag.seq <= found.checkpoint.seq,
                        Err(NandError::Unreadable(_)) if erased || place(birth).is_some() => false,
                        Err(NandError::Unreadable(page)) if seq <= known.durable && !accept_lost_tags => {
                            return Err(FtlError::TagLost(page));
                        }
                        Err(NandError::Unreadable(_) | NandError::Erased(_)) => false,
                        Err(other) => return Err(other.into()),
                    };
                    let page = place(birth).or(at_hint.then_some(hint));
                    page.map(|page| Some(Target::Shared(page, birth)))
                }
            };
            if settled.is_some() {
                break;
            }
        }
        targets.push(settled.unwrap_or_else(|| at_checkpoint(lpn, found, known)));
    }
    // Objects first: a page may be its first owner's and shared, if the record of its first owner
    // was lost.
    for (lpn, target) in targets.iter().enumerate() {
        if let Some(Target::Shared(page, birth)) = target {
            ftl.map.share(lpn as u32, *page, *birth);
        }
    }
    for (lpn, target) in targets.iter().enumerate() {
        if let Some(Target::Own(page)) = target {
            match ftl.map.owner(*page) {
                Some(_) => ftl.map.share(lpn as u32, *page, 0),
                None => ftl.map.point(lpn as u32, *page),
            };
        }
    }
    Ok(())
}

/// Where a logical page's content of the checkpoint is now.
fn at_checkpoint(lpn: u32, found: &Found, known: &Knowledge) -> Option<Target> {
    match entry_of(found.checkpoint.table[lpn as usize])? {
        Ok(page) => Some(Target::Own(known.copies.get(&lpn).map_or(page, |(_, copy)| *copy))),
        Err(number) => {
            let object = found.checkpoint.objects[number as usize];
            let moved = known.places.get(&object.birth).map(|(_, page)| *page);
            Some(Target::Shared(moved.unwrap_or(Ppn(object.ppn)), object.birth))
        }
    }
}
