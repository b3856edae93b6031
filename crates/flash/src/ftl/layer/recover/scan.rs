//! Finding the pages that were programmed since the checkpoint.

use super::{Ftl, Knowledge, Progress, Seen};
use crate::chip::{BlockId, Nand, NandError, Ppn};
use crate::ftl::content::Bytes;
use crate::ftl::error::FtlError;
use crate::ftl::journal::{Found, NandJournal};
use crate::ftl::tag::{Kind, Tag, generation_of};
use std::collections::HashMap;

/// Blocks whose tags are read at a time.
const AT_ONCE: u32 = 32;

/// The blocks that may have been programmed since the checkpoint. They were open then, or the log
/// says so; in drives of earlier versions also those that were erased then, so that the first page
/// of every block is looked at.
fn begun<N: Nand<Page: Bytes, Oob = Tag>>(
    ftl: &mut Ftl<N, NandJournal, N::Page>,
    found: &Found,
    known: &Knowledge,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<u32>, FtlError> {
    let geometry = ftl.nand.geometry();
    let (first, of) = (crate::ftl::journal::Journal::<N>::reserved(&ftl.journal), geometry.blocks.into());
    let mut begun = Vec::new();
    for block in first..geometry.blocks {
        let entry = found.checkpoint.blocks[block as usize];
        let mut looks = entry.open || known.void_before.contains_key(&block);
        if !looks && !found.checkpoint.opens_are_recorded {
            if block.is_multiple_of(AT_ONCE) {
                progress(Progress { step: "first pages of blocks", done: block.into(), of });
            }
            looks = match ftl.nand.read_oob(geometry.page(BlockId(block), 0)) {
                Ok(tag) => tag.seq > found.checkpoint.seq || entry.erased || entry.retired,
                Err(NandError::Unreadable(_) | NandError::Erased(_)) => true,
                Err(other) => return Err(other.into()),
            };
        }
        begun.extend(looks.then_some(block));
    }
    Ok(begun)
}

/// Facts from the tags of blocks that may have been programmed since the checkpoint.
#[derive(Debug, Default)]
struct Scanned {
    seen: Vec<Seen>,
    /// Pages without a tag from since then.
    holes: Vec<Ppn>,
    /// The last page of each block that some tag says to be durable, or that is by its number.
    tails: HashMap<BlockId, Ppn>,
    durable: u64,
}

/// Reads the tags of a block.
fn scan_block<N: Nand<Page: Bytes, Oob = Tag>>(
    ftl: &mut Ftl<N, NandJournal, N::Page>,
    found: &Found,
    known: &mut Knowledge,
    scanned: &mut Scanned,
    block: u32,
) -> Result<(), FtlError> {
    let (geometry, since) = (ftl.nand.geometry(), found.checkpoint.seq);
    let entry = found.checkpoint.blocks[block as usize];
    let void = known.void_before.get(&block).copied();
    let (generation, mut last) = (generation_of(entry.erases), 0);
    let valid_from = void.unwrap_or(0).max(since);
    let before = scanned.holes.len();
    for index in 0..geometry.pages_per_block {
        let page = geometry.page(BlockId(block), index);
        match ftl.nand.read_oob(page) {
            Ok(tag) if tag.seq > valid_from => {
                if tag.generation != 0 {
                    known.generations.insert(block, tag.generation);
                }
                scanned.durable = scanned.durable.max(tag.durable);
                known.extend(&mut scanned.tails, geometry, tag.seq, tag.tails);
                let lpn = if let Kind::Lpn(lpn) = tag.kind { Some(lpn) } else { None };
                scanned.seen.push(Seen { page, lpn, birth: tag.birth, seq: tag.seq });
                // The cut took a page, and not one that came after it in its block.
                known.doubt |= scanned.holes.len() > before;
            }
            // From before the checkpoint, and not from before the last erase.
            Ok(tag)
                if entry.open
                    && void.is_none()
                    && tag.seq > last
                    && [0, generation].contains(&tag.generation) =>
            {
                last = tag.seq;
            }
            Ok(_) | Err(NandError::Erased(_)) => scanned.holes.push(page),
            Err(NandError::Unreadable(_)) => {
                known.doubt |= !entry.retired;
                scanned.holes.push(page);
            }
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}

/// Finds the pages that were programmed since the checkpoint. Whether there are none.
pub(super) fn scan<N: Nand<Page: Bytes, Oob = Tag>>(
    ftl: &mut Ftl<N, NandJournal, N::Page>,
    found: &Found,
    known: &mut Knowledge,
    accept_lost_tags: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<bool, FtlError> {
    let geometry = ftl.nand.geometry();
    let mut scanned = Scanned { durable: found.durable, ..Scanned::default() };
    for (seq, said) in &found.tails {
        known.extend(&mut scanned.tails, geometry, *seq, *said);
    }
    let begun = begun(ftl, found, known, progress)?;
    for (n, some) in begun.chunks(AT_ONCE as usize).enumerate() {
        let done = n as u64 * u64::from(AT_ONCE);
        progress(Progress {
            step: "blocks that were written to since the checkpoint",
            done,
            of: begun.len() as u64,
        });
        ftl.nand.prefetch_tags(some.iter().map(|block| BlockId(*block)));
        for block in some {
            scan_block(ftl, found, known, &mut scanned, *block)?;
        }
    }
    ftl.nand.prefetch_tags(std::iter::empty());
    let Scanned { seen, holes, mut tails, durable } = scanned;
    // Pages are programmed in order: those before a durable one of their block are durable, too.
    for Seen { page, .. } in seen.iter().filter(|seen| seen.seq <= durable) {
        let tail = tails.entry(geometry.block_of(*page)).or_insert(*page);
        *tail = (*page).max(*tail);
    }
    let was_durable = |hole: &Ppn| tails.get(&geometry.block_of(*hole)).is_some_and(|tail| tail >= hole);
    for hole in holes.into_iter().filter(was_durable) {
        ftl.pass_over(FtlError::TagLost(hole), accept_lost_tags)?;
        known.doubt = true;
    }
    known.durable = durable;
    take_pages(ftl, known, &seen, found.checkpoint.seq, progress)?;
    Ok(seen.is_empty())
}

/// Takes the pages that were not torn. Damaged data that were durable are rot, and the page keeps
/// its place: they need not be read. Others were torn by the cut if they are damaged.
fn take_pages<N: Nand<Page: Bytes, Oob = Tag>>(
    ftl: &mut Ftl<N, NandJournal, N::Page>,
    known: &mut Knowledge,
    seen: &[Seen],
    since: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), FtlError> {
    let (geometry, durable) = (ftl.nand.geometry(), known.durable);
    let (mut done, of) = (0, seen.len() as u64);
    for block in seen.chunk_by(|a, b| geometry.block_of(a.page) == geometry.block_of(b.page)) {
        progress(Progress { step: "pages that were written since the checkpoint", done, of });
        done += block.len() as u64;
        ftl.nand.prefetch(block.iter().filter(|page| page.seq > durable).map(|page| page.page));
        for page in block {
            known.highest = known.highest.max(page.seq);
            if page.seq <= durable || is_intact(&mut ftl.nand, page.page)? {
                known.take_page(*page, since);
            } else {
                known.doubt = true;
            }
        }
    }
    ftl.nand.prefetch(std::iter::empty());
    Ok(())
}

/// Returns whether the data of a page fit their sum.
fn is_intact<N: Nand<Page: Bytes, Oob = Tag>>(nand: &mut N, page: Ppn) -> Result<bool, FtlError> {
    match nand.read(page, 0) {
        Ok(read) => Ok(read.data.is_some()),
        Err(NandError::Unreadable(_) | NandError::Erased(_)) => Ok(false),
        Err(other) => Err(other.into()),
    }
}
