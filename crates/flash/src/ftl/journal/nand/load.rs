//! Reading a journal: the newest checkpoint and the log after it.

use super::{Area, END_BYTES, NandJournal};
use crate::chip::{BlockId, Nand, NandError, Ppn};
use crate::ftl::content::Bytes;
use crate::ftl::error::FtlError;
use crate::ftl::journal::checkpoint::Loaded;
use crate::ftl::journal::record::{BYTES, Limits, LogPlace, NoRecord, Record};
use crate::ftl::progress::Progress;
use crate::ftl::tag::{Kind, Tag, Tails};
use std::collections::BTreeMap;

/// Blocks whose tags are read at a time.
const BLOCKS: u32 = 32;

/// The contents of a journal that was read.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) checkpoint: Loaded,
    pub(crate) records: Vec<Record>,
    /// The highest sequence number that some page of the log says to be durable.
    pub(crate) durable: u64,
    /// The highest sequence number of a page of the journal.
    pub(crate) highest: u64,
    /// The tails that pages of the log name, with the sequence numbers of those pages.
    pub(crate) tails: Vec<(u64, Tails)>,
    /// A checkpoint is lost, or a page of the log in part.
    pub(crate) doubt: bool,
    /// Nothing is in the log, and all of it could be read.
    pub(crate) log_is_empty: bool,
}

/// A page of the log, from all copies of it that were found.
#[derive(Debug, Default)]
struct LogPage {
    /// The number of records that it should have.
    count: usize,
    records: Vec<Record>,
}

impl LogPage {
    fn is_whole(&self) -> bool {
        self.records.len() >= self.count
    }
}

/// The tags of an area.
struct Tags {
    /// Pages with their tags, in order.
    found: Vec<(Ppn, Tag)>,
    /// Tags that cannot be read.
    unreadable: u32,
}

/// A checkpoint in a slot, as its tags say.
struct Slot {
    number: u64,
    /// Its pages, without the last one.
    pages: u32,
    /// The copies of its last page.
    ends: Vec<Ppn>,
    /// The copies of each other page, with its number, in the order of places.
    copies: Vec<(Ppn, u32)>,
}

/// The records of a log page up to the first whose sum does not fit.
fn records_of(data: &[u8], first: LogPlace, limits: &Limits) -> Result<Vec<Record>, NoRecord> {
    let places = (0..).map(|record| LogPlace { record, ..first });
    let records = data.as_chunks::<BYTES>().0.iter().zip(places);
    records.map_while(|(bytes, place)| Record::decode(bytes, place, limits).transpose()).collect()
}

/// The data of a page, if they can be read and fit their sum.
fn data_of<N: Nand<Page: Bytes, Oob = Tag>>(nand: &mut N, page: Ppn) -> Result<Option<N::Page>, FtlError> {
    match nand.read(page, 0) {
        Ok(read) => Ok(read.data),
        Err(NandError::Unreadable(_) | NandError::Erased(_)) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

impl NandJournal {
    fn tags<N: Nand<Page: Bytes, Oob = Tag>>(&self, nand: &mut N, area: Area) -> Result<Tags, FtlError> {
        let (mut found, mut unreadable) = (Vec::new(), 0);
        for block in area.first..area.first + area.blocks {
            if (block - area.first).is_multiple_of(BLOCKS) {
                nand.prefetch_tags((block..area.first + area.blocks).take(BLOCKS as usize).map(BlockId));
            }
            for index in 0..self.geometry.pages_per_block {
                let page = self.geometry.page(BlockId(block), index);
                match nand.read_oob(page) {
                    Ok(tag) => found.push((page, tag)),
                    Err(NandError::Unreadable(_)) => unreadable += 1,
                    Err(NandError::Erased(_)) => {}
                    Err(other) => return Err(other.into()),
                }
            }
        }
        nand.prefetch_tags(std::iter::empty());
        Ok(Tags { found, unreadable })
    }

    /// The newest checkpoint that was ended in a slot; `highest` becomes the sequence number of a
    /// page there, if that is higher.
    fn slot<N: Nand<Page: Bytes, Oob = Tag>>(
        &self,
        nand: &mut N,
        slot: Area,
        highest: &mut u64,
    ) -> Result<Option<Slot>, FtlError> {
        let Tags { found, .. } = self.tags(nand, slot)?;
        *highest = found.iter().map(|(_, tag)| tag.seq).fold(*highest, u64::max);
        let ends = found.iter().filter_map(|(_, tag)| match tag.kind {
            Kind::CheckpointEnd(pages) => Some((tag.birth, pages)),
            _ => None,
        });
        let Some((number, pages)) = ends.max_by_key(|(number, _)| *number) else { return Ok(None) };
        if pages > slot.pages(self.geometry) {
            return Ok(None);
        }
        let of_it = |(page, tag): &(Ppn, Tag)| (tag.birth == number).then_some((*page, tag.kind));
        let (mut ends, mut copies) = (Vec::new(), Vec::new());
        for (page, kind) in found.iter().filter_map(of_it) {
            match kind {
                Kind::CheckpointEnd(_) => ends.push(page),
                Kind::Checkpoint(n) if n < pages => copies.push((page, n)),
                _ => {}
            }
        }
        Ok(Some(Slot { number, pages, ends, copies }))
    }

    /// The bytes of a checkpoint; `None` if they are damaged.
    fn stream<N: Nand<Page: Bytes, Oob = Tag>>(
        &self,
        nand: &mut N,
        slot: &Slot,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<Vec<u8>>, FtlError> {
        let mut end = None;
        for page in &slot.ends {
            end = end.or(data_of(nand, *page)?);
        }
        let Some(end) = end else { return Ok(None) };
        let Some(&end) = end.as_ref().first_chunk::<END_BYTES>() else { return Ok(None) };
        let crc = u32::from_le_bytes(std::array::from_fn(|i| end[i]));
        let bytes = u64::from_le_bytes(std::array::from_fn(|i| end[4 + i]));
        if bytes > u64::from(slot.pages) * u64::from(self.geometry.page_bytes) {
            return Ok(None);
        }
        // Copies lie in the order of their pages, one after the other.
        let mut stream = Vec::with_capacity(slot.pages as usize * self.geometry.page_bytes as usize);
        let mut next = 0;
        for block in slot.copies.chunk_by(|a, b| self.geometry.block_of(a.0) == self.geometry.block_of(b.0)) {
            // Both copies: to read what lies between the first ones costs less than a read for
            // each.
            nand.prefetch(block.iter().map(|(page, _)| *page));
            for (page, n) in block {
                if *n == next
                    && let Some(data) = data_of(nand, *page)?
                {
                    stream.extend_from_slice(data.as_ref());
                    next += 1;
                }
            }
            progress(Progress { step: "pages of the checkpoint", done: next.into(), of: slot.pages.into() });
        }
        nand.prefetch(std::iter::empty());
        if next != slot.pages {
            return Ok(None);
        }
        stream.truncate(bytes as usize);
        Ok((crc32c::crc32c(&stream) == crc).then_some(stream))
    }

    /// Reads what a journal kept.
    pub(crate) fn load<N: Nand<Page: Bytes, Oob = Tag>>(
        &mut self,
        nand: &mut N,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Found, FtlError> {
        let (mut slots, mut highest) = (Vec::new(), 0);
        for slot in self.slots {
            slots.extend(self.slot(nand, slot, &mut highest)?);
        }
        slots.sort_by_key(|slot| std::cmp::Reverse(slot.number));
        let (mut newest, mut lost) = (None, slots.len() < 2);
        for slot in &slots {
            let stream = self.stream(nand, slot, progress)?;
            newest = stream.and_then(|stream| Loaded::decode(&stream, &self.limits()));
            if newest.is_some() {
                newest = newest.map(|loaded| Loaded { number: slot.number, ..loaded });
                break;
            }
            lost = true;
        }
        let checkpoint = newest.ok_or(FtlError::NoCheckpoint)?;
        let mut found = self.load_log(nand, checkpoint, highest)?;
        // If nothing happened since, nobody needs to know whether the one before is whole.
        if let Some(other) = slots.get(1).filter(|_| !lost && !found.log_is_empty) {
            lost = self.stream(nand, other, progress)?.is_none();
        }
        found.doubt |= lost;
        Ok(found)
    }

    /// Reads the logs after a checkpoint.
    fn load_log<N: Nand<Page: Bytes, Oob = Tag>>(
        &mut self,
        nand: &mut N,
        checkpoint: Loaded,
        mut highest: u64,
    ) -> Result<Found, FtlError> {
        let number = checkpoint.number;
        // The log of the next checkpoint exists if that one was made and is damaged now. Both logs
        // together then say all that happened since this checkpoint.
        // What pages of a checkpoint say to be durable counts for that checkpoint only: it passes
        // over what the cut before it took.
        let (mut logs, mut last, mut durable) = (BTreeMap::new(), number, checkpoint.seq);
        let (mut tails, mut unreadable) = (Vec::new(), 0);
        let mut durable_pages: BTreeMap<u64, u32> = BTreeMap::new();
        for half in self.halves {
            let tags = self.tags(nand, half)?;
            unreadable += tags.unreadable;
            for (place, tag) in tags.found {
                let Kind::Log { page, durable: before, records: count } = tag.kind else { continue };
                let Some(data) = data_of(nand, place)? else {
                    unreadable += 1;
                    continue;
                };
                last = last.max(tag.birth);
                if tag.birth < number {
                    continue;
                }
                durable = durable.max(tag.durable);
                highest = highest.max(tag.seq);
                tails.push((tag.seq, tag.tails));
                let known = durable_pages.entry(tag.birth).or_default();
                *known = before.max(*known);
                let place = LogPlace { log: tag.birth, page, record: 0 };
                let records = records_of(data.as_ref(), place, &self.limits());
                let records = records.map_err(|NoRecord| FtlError::LogDamaged(page))?;
                let log: &mut LogPage = logs.entry((tag.birth, page)).or_default();
                log.count = log.count.max(count as usize);
                if records.len() >= log.records.len() {
                    log.records = records;
                }
            }
        }
        if last > number + 1 {
            return Err(FtlError::CheckpointLost(last));
        }
        // The next checkpoint goes over the damaged one, and has a number that no log has.
        self.number = if last == number { number } else { number + 2 };
        for (birth, pages) in durable_pages {
            // Others may be cut short: a page is rewritten with more records until it is durable.
            let whole = |page: &u32| logs.get(&(birth, *page)).is_some_and(LogPage::is_whole);
            if let Some(lost) = (0..pages).find(|page| !whole(page)) {
                return Err(FtlError::LogDamaged(lost));
            }
        }
        let doubt = last > number || !logs.values().all(LogPage::is_whole);
        let log_is_empty = logs.is_empty() && unreadable == 0;
        let mut records: Vec<Record> = logs.into_values().flat_map(|page| page.records).collect();
        records.retain(|record| record.seq() > checkpoint.seq);
        Ok(Found { checkpoint, records, durable, highest, tails, doubt, log_is_empty })
    }
}
