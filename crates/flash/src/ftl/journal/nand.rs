//! The journal on the first blocks of the flash.

mod load;

pub(crate) use load::Found;

use super::checkpoint;
use super::record::{BYTES, Limits, LogPlace, Record};
use super::{Image, Journal};
use crate::chip::{BlockId, Geometry, Nand, NandError, Ppn};
use crate::ftl::content::Bytes;
use crate::ftl::error::FtlError;
use crate::ftl::tag::{Kind, Tag, Tails};
use std::collections::VecDeque;

/// Times that a block is erased, or a checkpoint written, before the journal gives up.
const ATTEMPTS: u32 = 3;
/// Pages of the log that wait for their second copies, at most.
const ONE_COPY: usize = 8;
/// Bytes of the data of a checkpoint's last page that mean something.
const END_BYTES: usize = 12;

/// Consecutive blocks.
#[derive(Debug, Clone, Copy)]
struct Area {
    first: u32,
    blocks: u32,
}

impl Area {
    fn pages(self, geometry: Geometry) -> u32 {
        self.blocks * geometry.pages_per_block
    }

    fn page(self, geometry: Geometry, place: u32) -> Ppn {
        Ppn(self.first * geometry.pages_per_block + place)
    }
}

/// A journal whose checkpoints and log are on the flash of the drive.
#[derive(Debug)]
pub struct NandJournal {
    geometry: Geometry,
    logical: u32,
    slots: [Area; 2],
    halves: [Area; 2],
    /// The number of the last checkpoint; 0: none.
    number: u64,
    /// Records that are not programmed yet.
    pending: Vec<Record>,
    /// The next place in each part of the log half, and the number of the next log page.
    places: [u32; 2],
    log_page: u32,
    /// Log pages that have no second copy yet.
    one_copy: Vec<(Vec<u8>, Tag)>,
    /// Log pages that are not known to be durable, with the last sequence number in each.
    unsynced: VecDeque<(u32, u64)>,
    /// Log pages from the start that are durable.
    log_durable: u32,
}

/// The fields of a page of the log besides its records.
#[derive(Debug, Clone, Copy)]
struct Mark {
    seq: u64,
    tails: Tails,
}

impl NandJournal {
    /// The journal of a drive of so many logical pages.
    #[must_use]
    pub fn new(geometry: Geometry, logical: u32) -> Self {
        let page_bytes = u64::from(geometry.page_bytes);
        let pages = 2 * (checkpoint::largest(logical, geometry).div_ceil(page_bytes) + 1);
        // One block more than is needed: room for pages that fail.
        let slot = pages.div_ceil(u64::from(geometry.pages_per_block)) as u32 + 1;
        let per_page = (geometry.page_bytes as usize / BYTES).max(1) as u32;
        // A quarter of a half holds the records of one victim block, two a page, and some flushes.
        let quarter = 2 * (2 * geometry.pages_per_block).div_ceil(per_page) + 16;
        // A checkpoint is written each time the log is full: not for a log much smaller than it.
        let half = ((4 * quarter).div_ceil(geometry.pages_per_block) + 1).max(slot / 4);
        let area = |first, blocks| Area { first, blocks };
        Self {
            geometry,
            logical,
            slots: [area(0, slot), area(slot, slot)],
            halves: [area(2 * slot, half), area(2 * slot + half, half)],
            number: 0,
            pending: Vec::new(),
            places: [0; 2],
            log_page: 0,
            one_copy: Vec::new(),
            unsynced: VecDeque::new(),
            log_durable: 0,
        }
    }

    fn half(&self) -> Area {
        self.halves[(self.number % 2) as usize]
    }

    /// The parts of the log half: each has a copy of every page. Of an odd number of blocks one is
    /// not used.
    fn parts(&self) -> [Area; 2] {
        let (half, blocks) = (self.half(), self.half().blocks / 2);
        [Area { blocks, ..half }, Area { first: half.first + blocks, blocks }]
    }

    /// Blocks at the start of the flash that are the journal's.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.end()
    }

    /// The first block behind the journal.
    fn end(&self) -> u32 {
        self.halves[1].first + self.halves[1].blocks
    }

    fn limits(&self) -> Limits {
        Limits {
            logical: self.logical,
            first_block: self.end(),
            blocks: self.geometry.blocks,
            pages_per_block: self.geometry.pages_per_block,
        }
    }

    fn per_page(&self) -> usize {
        (self.geometry.page_bytes as usize / BYTES).max(1)
    }

    /// Begins the log that follows the last checkpoint. There is nothing in it.
    pub(crate) fn begin_log<N: Nand>(&mut self, nand: &mut N) -> Result<(), FtlError> {
        (self.places, self.log_page, self.log_durable) = ([0; 2], 0, 0);
        self.unsynced.clear();
        Self::erase(nand, self.half())
    }

    fn erase<N: Nand>(nand: &mut N, area: Area) -> Result<(), FtlError> {
        for block in area.first..area.first + area.blocks {
            let mut left = ATTEMPTS;
            while let Err(error) = nand.erase(BlockId(block), 0) {
                left -= 1;
                match error {
                    NandError::EraseFailed(_) if left > 0 => {}
                    NandError::EraseFailed(_) => return Err(FtlError::JournalFailed),
                    other => return Err(other.into()),
                }
            }
        }
        Ok(())
    }

    /// Programs a page twice from a place on, or at the places after, until one copy is good; the
    /// next place.
    fn put<N: Nand<Page: Bytes, Oob = Tag>>(
        &self,
        nand: &mut N,
        area: Area,
        mut place: u32,
        data: &N::Page,
        tag: &Tag,
    ) -> Result<u32, FtlError> {
        loop {
            let mut good = false;
            for _ in 0..2 {
                if place >= area.pages(self.geometry) {
                    return if good { Ok(place) } else { Err(FtlError::JournalFailed) };
                }
                match nand.program(area.page(self.geometry, place), 0, data, tag) {
                    Ok(_) => good = true,
                    Err(NandError::ProgramFailed(_)) => {}
                    Err(other) => return Err(other.into()),
                }
                place += 1;
            }
            if good {
                return Ok(place);
            }
        }
    }

    /// Programs one copy of a page of the log in a part of the half; whether there was room.
    fn put_in_part<N: Nand<Page: Bytes, Oob = Tag>>(
        &mut self,
        nand: &mut N,
        part: usize,
        data: &N::Page,
        tag: &Tag,
    ) -> Result<bool, FtlError> {
        let area = self.parts()[part];
        while self.places[part] < area.pages(self.geometry) {
            let page = area.page(self.geometry, self.places[part]);
            self.places[part] += 1;
            match nand.program(page, 0, data, tag) {
                Ok(_) => return Ok(true),
                Err(NandError::ProgramFailed(_)) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(false)
    }

    /// Programs the copies that are missing. Without room for them the first copies stand alone: a
    /// checkpoint is due then.
    fn put_second<N: Nand<Page: Bytes, Oob = Tag>>(&mut self, nand: &mut N) -> Result<(), FtlError> {
        for (data, tag) in std::mem::take(&mut self.one_copy) {
            self.put_in_part(nand, 1, &data.into(), &tag)?;
        }
        Ok(())
    }

    fn padded(&self, mut data: Vec<u8>) -> Vec<u8> {
        data.resize(self.geometry.page_bytes as usize, 0);
        data
    }

    /// The next page of the log, and how many records are in it.
    fn next_log_page(&self, durable: u64, mark: Option<Mark>) -> (Vec<u8>, Tag, usize) {
        // More records than a page holds are left if the last attempt failed.
        let now = self.pending.len().min(self.per_page());
        let place = |record| LogPlace { log: self.number, page: self.log_page, record };
        let records = (0..).zip(&self.pending[..now]);
        let data = self.padded(records.flat_map(|(n, record)| record.encode(place(n))).collect());
        let last = self.pending[..now].last().map_or(0, Record::seq);
        let tag = Tag {
            kind: Kind::Log { page: self.log_page, durable: self.log_durable, records: now as u32 },
            lost: false,
            birth: self.number,
            seq: mark.map_or(last, |mark| mark.seq),
            durable,
            generation: 0,
            tails: mark.map_or_else(Tails::default, |mark| mark.tails),
        };
        (data, tag, now)
    }

    fn program_log<N: Nand<Page: Bytes, Oob = Tag>>(
        &mut self,
        nand: &mut N,
        durable: u64,
        mark: Option<Mark>,
    ) -> Result<(), FtlError> {
        while let Some(&(page, _)) = self.unsynced.front().filter(|(_, last)| *last <= durable) {
            self.log_durable = page + 1;
            self.unsynced.pop_front();
        }
        assert!(self.log_durable <= self.log_page, "F18: pages of the log that are durable were programmed");
        let (data, tag, now) = self.next_log_page(durable, mark);
        // Without the record of a block nobody looks for the pages that are written to it then.
        let opens = self.pending[..now].iter().any(|record| matches!(record, Record::Erase { .. }));
        if self.put_in_part(nand, 0, &data.clone().into(), &tag)? {
            self.one_copy.push((data, tag));
        } else if !self.put_in_part(nand, 1, &data.into(), &tag)? {
            return Err(FtlError::JournalFailed);
        }
        self.unsynced.push_back((self.log_page, tag.seq));
        self.log_page += 1;
        self.pending.drain(..now);
        if opens || self.one_copy.len() >= ONE_COPY { self.put_second(nand) } else { Ok(()) }
    }

    fn try_checkpoint<N: Nand<Page: Bytes, Oob = Tag>>(
        &self,
        nand: &mut N,
        stream: &[u8],
        seq: u64,
        number: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, FtlError> {
        let slot = self.slots[(number % 2) as usize];
        Self::erase(nand, slot)?;
        let tails = Tails::default();
        let tag = |kind| Tag { kind, lost: false, birth: number, seq, durable: seq, generation: 0, tails };
        let (mut place, mut pages) = (0, 0);
        for chunk in stream.chunks(self.geometry.page_bytes as usize) {
            let data = self.padded(chunk.to_vec()).into();
            place = self.put(nand, slot, place, &data, &tag(Kind::Checkpoint(pages)))?;
            pages += 1;
            if !go_on() {
                return Ok(false);
            }
        }
        nand.sync()?;
        let mut end = crc32c::crc32c(stream).to_le_bytes().to_vec();
        end.extend((stream.len() as u64).to_le_bytes());
        self.put(nand, slot, place, &self.padded(end).into(), &tag(Kind::CheckpointEnd(pages)))?;
        nand.sync()?;
        Ok(true)
    }
}

impl<N: Nand<Page: Bytes, Oob = Tag>> Journal<N> for NandJournal {
    fn reserved(&self) -> u32 {
        self.end()
    }

    fn record(&mut self, nand: &mut N, record: Record, durable: u64) -> Result<(), FtlError> {
        assert!(
            self.pending.last().is_none_or(|last| last.seq() < record.seq()),
            "F17: the log has its records in the order of their numbers"
        );
        self.pending.push(record);
        if self.pending.len() >= self.per_page() {
            self.program_log(nand, durable, None)?;
        }
        Ok(())
    }

    fn flush(&mut self, nand: &mut N, durable: u64) -> Result<(), FtlError> {
        while !self.pending.is_empty() {
            self.program_log(nand, durable, None)?;
        }
        Ok(())
    }

    fn draft(&mut self, nand: &mut N, durable: u64) -> Result<(), FtlError> {
        // Without room the next flush says so.
        let (part, place) = (self.parts()[0], self.places[0]);
        if !self.pending.is_empty() && place < part.pages(self.geometry) {
            let (data, tag, _) = self.next_log_page(durable, None);
            nand.draft(part.page(self.geometry, place), &data.into(), &tag)?;
        }
        Ok(())
    }

    fn mark(&mut self, nand: &mut N, seq: u64, durable: u64, tails: Tails) -> Result<(), FtlError> {
        // More records than a page holds are left if an attempt failed.
        while self.pending.len() > self.per_page() {
            self.program_log(nand, durable, None)?;
        }
        self.program_log(nand, durable, Some(Mark { seq, tails }))?;
        self.put_second(nand)
    }

    fn lags(&self) -> bool {
        !self.one_copy.is_empty()
    }

    fn is_full(&self) -> bool {
        let most = self.parts()[0].pages(self.geometry) / 4 * 3;
        self.places.iter().any(|place| *place >= most)
    }

    fn checkpoint(
        &mut self,
        nand: &mut N,
        image: &Image<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, FtlError> {
        // If this checkpoint is lost, the log before it is needed.
        self.put_second(nand)?;
        let (stream, number) = (image.encode(), self.number + 1);
        let mut left = ATTEMPTS;
        loop {
            match self.try_checkpoint(nand, &stream, image.seq, number, go_on) {
                Ok(true) => break,
                Ok(false) => return Ok(false),
                Err(FtlError::JournalFailed) if left > 1 => left -= 1,
                Err(error) => return Err(error),
            }
        }
        self.number = number;
        self.begin_log(nand)?;
        nand.sync()?;
        Ok(true)
    }
}
