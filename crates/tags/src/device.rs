//! A drive with tags beside it.

mod metadata;
mod stepped;

use crate::carrier::{Carried, Carrier, Payload};
use crate::file::{Census, OnStale, Recovered, SharedMedium, TagError, TagFile};
use crate::geometry::Geometry;
use crate::header::Header;
use crate::machine::{Machine, Outcome, Request};
use crate::page::{Judged, Opinion, Origin, Tag};
use crate::record::{Change, MAX_ZEROS};
use crate::refusals::Refusals;
use pumice_blockdev::{
    Background, BlockDevice, FlashCounts, Grains, IoError, Judgement, Operation, Stepped, TagFault, Tagged,
};
use pumice_protect::origin::RestoredTag;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

/// Most pages in memory, without those in use.
const CACHED_PAGES: usize = 131_072;

/// The reasons why a drive with tags cannot be opened.
pub type OpenError = TagError;

/// A drive whose blocks are checked against tags when they are read.
///
/// Hosts do not see the tags. A block that differs from its tag is refused with
/// [`IoError::is_protection_error`]. Writes must be of whole blocks.
pub struct TaggedDevice {
    pub(crate) carrier: Carrier,
    geometry: Geometry,
    recovered: Recovered,
    refusals: Refusals,
    /// Nothing is written, to the drive or to the tag file.
    read_only: bool,
}

impl TaggedDevice {
    /// Opens a drive with its tag file: checks a sample of blocks, then recovers from a crash. Tags
    /// that are stale are refused.
    ///
    /// # Errors
    /// If the file is not a tag file, belongs to another drive, has a damaged log, its tags are
    /// stale, or either medium fails. Of stale tags nothing is written.
    pub fn open(drive: Arc<dyn BlockDevice>, tags: SharedMedium, serial: &str) -> Result<Self, OpenError> {
        Self::open_as(drive, tags, serial, OnStale::Fail)
    }

    /// The same; `on_stale` says what becomes of stale tags.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_as(
        drive: Arc<dyn BlockDevice>,
        tags: SharedMedium,
        serial: &str,
        on_stale: OnStale,
    ) -> Result<Self, OpenError> {
        let (file, log, recovered, last) = TagFile::open(tags, &*drive, serial, seconds_now(), on_stale)?;
        let geometry = file.header().geometry;
        let serves_stale = recovered.stale.is_some() && on_stale == OnStale::Serve;
        let machine = Machine::new(geometry, last, CACHED_PAGES);
        Ok(Self {
            carrier: Carrier::new(drive, file, log, machine),
            geometry,
            recovered,
            refusals: Refusals::new(serves_stale),
            read_only: false,
        })
    }

    /// Opens a drive with its tag file for reading: nothing is written to either, and all that
    /// would write fails. The caller keeps others from writing. Stale tags are no error, and are
    /// [reported](Self::recovered).
    ///
    /// # Errors
    /// As [`open`](Self::open), and if the log holds blocks, which only writing can recover.
    pub fn open_to_read(
        drive: Arc<dyn BlockDevice>,
        tags: SharedMedium,
        serial: &str,
    ) -> Result<Self, OpenError> {
        let (file, log, recovered, last) = TagFile::open_to_read(tags, &*drive, serial)?;
        let geometry = file.header().geometry;
        let machine = Machine::new(geometry, last, CACHED_PAGES);
        Ok(Self {
            carrier: Carrier::new(drive, file, log, machine),
            geometry,
            recovered,
            refusals: Refusals::new(false),
            read_only: true,
        })
    }

    /// An error if nothing may be written.
    fn check_writable(&self, operation: Operation, offset: u64, len: usize) -> Result<(), IoError> {
        if !self.read_only {
            return Ok(());
        }
        let why =
            io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "it was opened with its tags for reading");
        Err(IoError::new(self.name(), operation, offset, len, why))
    }

    /// The report of opening it.
    #[must_use]
    pub const fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// The header of the tag file.
    #[must_use]
    pub fn header(&self) -> Header {
        self.carrier.file.read().unwrap_or_else(PoisonError::into_inner).header().clone()
    }

    /// Returns whether the tags were found stale, so that nothing is refused.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.refusals.is_stale()
    }

    /// Reads of blocks that were refused, and reads of blocks that were served though they differ.
    #[must_use]
    pub fn refused_and_served(&self) -> (u64, u64) {
        self.refusals.counts()
    }

    /// Pages that were found lost since it was opened.
    #[must_use]
    pub fn lost_pages(&self) -> u64 {
        self.carrier.lost_pages() + self.recovered.lost_pages.len() as u64
    }

    /// Checks blocks, and creates tags for those of unknown origin from their present contents.
    /// Damage is reported, never refused. Returns what was said of each before, and how many got a
    /// tag.
    ///
    /// # Errors
    /// If the drive or the tag file fails.
    pub fn adopt(&self, blocks: Range<u64>) -> Result<(Vec<Opinion>, u64), IoError> {
        let mut buffer = vec![0; (blocks.end - blocks.start) as usize * self.geometry.block_bytes()];
        let at = blocks.start * self.geometry.block_bytes() as u64;
        self.check_writable(Operation::Write, at, buffer.len())?;
        match self.carrier.carry(blocks, Request::Adopt, Payload::Read(&mut buffer)) {
            Carried { outcome: Outcome::Adopted(judged, count), .. } => Ok((opinions(judged), count)),
            carried => Ok((opinions(self.judged(carried, at, buffer.len())?), 0)),
        }
    }

    /// Accepts a block that differs from its tag as it is: it gets a tag for its present contents,
    /// and is no longer refused. Returns whether it differed. Durable when this returns.
    ///
    /// # Errors
    /// If the drive or the tag file fails.
    pub fn release(&self, block: u64) -> Result<bool, IoError> {
        let mut buffer = vec![0; self.geometry.block_bytes()];
        let at = block * self.geometry.block_bytes() as u64;
        let blocks = block..block + 1;
        self.check_writable(Operation::Write, at, buffer.len())?;
        let carried = self.carrier.carry(blocks, Request::Release, Payload::Read(&mut buffer));
        let judged = self.judged(carried, at, buffer.len())?;
        if !self.carrier.bring_home() {
            let fail = self.tags_error();
            return Err(IoError::new(self.name(), Operation::Write, at, buffer.len(), fail));
        }
        Ok(matches!(judged[..], [Judged { opinion: Opinion::Differs(_), .. }]))
    }

    /// Puts a kept block back in its place. The block that it replaces is kept instead, unless it
    /// cannot be read; the block gets an adopted tag. Nobody else may write it meanwhile. Returns
    /// the number of the block. Durable when this returns.
    ///
    /// # Errors
    /// If no such block is kept, there is no room for the replaced block, or the drive or the tag
    /// file fails.
    pub fn put_back(&self, slot: u64) -> Result<u64, OpenError> {
        let file = || self.carrier.file.read().unwrap_or_else(PoisonError::into_inner);
        self.check_writable(Operation::Write, 0, 0)?;
        let (kept, bytes) = file().kept(slot)?;
        let block = kept.block;
        let at = block * self.geometry.block_bytes() as u64;
        let mut present = vec![0; bytes.len()];
        match self.read_judged(at, &mut present) {
            Ok(_) if present == bytes => {}
            Ok(_) => file().keep_replaced(block, &present, seconds_now())?,
            Err(error) if error.is_media_error() => {}
            Err(error) => return Err(error.into()),
        }
        self.restore(at, &bytes, RestoredTag::Adopted)?;
        self.flush()?;
        if self.carrier.bring_home() { Ok(block) } else { Err(self.tags_error().into()) }
    }

    /// Deletes a kept block, or a damaged entry. Durable when this returns.
    ///
    /// # Errors
    /// If no such block is kept, or the tag file fails.
    pub fn forget_kept(&self, slot: u64) -> Result<(), OpenError> {
        self.check_writable(Operation::Write, 0, 0)?;
        let file = self.carrier.file.read().unwrap_or_else(PoisonError::into_inner);
        Ok(file.forget_kept(slot)?)
    }

    /// Checks blocks. Damage is reported, never refused.
    ///
    /// # Errors
    /// If the drive fails.
    pub fn judge(&self, blocks: Range<u64>) -> Result<Vec<Opinion>, IoError> {
        let mut buffer = vec![0; (blocks.end - blocks.start) as usize * self.geometry.block_bytes()];
        let at = blocks.start * self.geometry.block_bytes() as u64;
        let carried =
            self.carrier.carry(blocks, Request::Judge { sweeps: false }, Payload::Read(&mut buffer));
        Ok(opinions(self.judged(carried, at, buffer.len())?))
    }

    /// Records the progress of adoption. All earlier pages are in their places when this returns.
    ///
    /// # Errors
    /// If the tag file fails.
    pub fn keep_adopted(&self, blocks: u64) -> io::Result<()> {
        if !self.carrier.bring_home() {
            return Err(self.tags_error());
        }
        self.change_header(|header| header.adopted = blocks)
    }

    /// Records durably whether the tags are stale.
    ///
    /// # Errors
    /// If the tag file fails.
    pub fn set_stale(&self, stale: bool) -> io::Result<()> {
        self.change_header(|header| header.stale = stale)?;
        self.refusals.set_stale(stale);
        Ok(())
    }

    /// Writes all pages to their places and records that the file was closed. From now on the drive
    /// takes no writes.
    ///
    /// # Errors
    /// If the tag file fails.
    pub fn close(&self) -> io::Result<()> {
        if self.read_only {
            return Ok(());
        }
        self.carrier.close().map_err(|error| io::Error::other(format!("tag file: {error}")))
    }

    /// Counts blocks by origin, as in the pages on the medium: exact after [`close`](Self::close).
    ///
    /// # Errors
    /// If the tag file fails.
    pub fn census(&self) -> io::Result<Census> {
        self.carrier.file.read().unwrap_or_else(PoisonError::into_inner).census()
    }

    fn change_header(&self, change: impl FnOnce(&mut Header)) -> io::Result<()> {
        self.check_writable(Operation::Write, 0, 0).map_err(IoError::into_io)?;
        self.carrier.file.write().unwrap_or_else(PoisonError::into_inner).change_header(change)
    }

    fn tags_error(&self) -> io::Error {
        let why = self.carrier.failure().unwrap_or_else(|| "it has failed before".to_owned());
        io::Error::other(format!("tag file: {why}"))
    }

    fn judged(&self, carried: Carried, at: u64, len: usize) -> Result<Vec<Judged>, IoError> {
        match (carried.outcome, carried.error) {
            (Outcome::Read(judged), _) => Ok(judged),
            (_, Some(error)) => Err(error),
            _ => Err(IoError::new(self.name(), Operation::Read, at, len, self.tags_error())),
        }
    }

    fn checked(&self, carried: Carried, at: u64, len: usize) -> Result<Judgement, IoError> {
        match (carried.outcome, carried.error) {
            (Outcome::Checked(judgement), _) => Ok(judgement),
            (_, Some(error)) => Err(error),
            _ => Err(IoError::new(self.name(), Operation::Read, at, len, self.tags_error())),
        }
    }

    /// The blocks that a range touches; for a write, the blocks that it consists of.
    fn blocks(&self, operation: Operation, offset: u64, len: u64) -> Result<Range<u64>, IoError> {
        if operation != Operation::Read {
            return self.whole_blocks(operation, offset, len);
        }
        let size = self.geometry.block_bytes() as u64;
        let first = offset - offset % size;
        let end = offset.checked_add(len).and_then(|end| end.checked_next_multiple_of(size));
        self.whole_blocks(operation, first, end.map_or(u64::MAX, |end| end - first))
    }

    fn whole_blocks(&self, operation: Operation, offset: u64, len: u64) -> Result<Range<u64>, IoError> {
        self.geometry.whole_blocks(offset, len).map_err(|why| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, why);
            IoError::new(self.name(), operation, offset, usize::try_from(len).unwrap_or(usize::MAX), source)
        })
    }

    fn change(&self, first: u64, data: &[u8]) -> Change {
        let tags = self.geometry.tuples(first, &self.geometry.guards(data)).map(Tag::written).collect();
        let sums = self.geometry.sums(data);
        let data = self.geometry.carries_data().then(|| data.to_vec());
        Change::Tags { tags, others: Vec::new(), sums, data }
    }

    /// The same for bytes that no host wrote just now: their tags are no witness.
    fn adopted(&self, first: u64, data: &[u8]) -> Change {
        let mut change = self.change(first, data);
        if let Change::Tags { tags, .. } = &mut change {
            tags.iter_mut().for_each(|tag| tag.origin = Origin::Adopted);
        }
        change
    }

    fn carry_write(
        &self,
        operation: Operation,
        blocks: Range<u64>,
        change: Change,
        payload: Payload<'_>,
    ) -> Result<(), IoError> {
        self.carry_change(operation, blocks, Request::Write(change.into()), payload)
    }

    fn carry_change(
        &self,
        operation: Operation,
        blocks: Range<u64>,
        request: Request,
        payload: Payload<'_>,
    ) -> Result<(), IoError> {
        let size = self.geometry.block_bytes() as u64;
        let (at, len) = (blocks.start * size, (blocks.end - blocks.start) * size);
        self.check_writable(operation, at, len as usize)?;
        let carried = self.carrier.carry(blocks, request, payload);
        match (carried.outcome, carried.error) {
            (Outcome::Done, _) => Ok(()),
            (Outcome::DriveFailed, Some(error)) => Err(error),
            _ => Err(IoError::new(self.name(), operation, at, len as usize, self.tags_error())),
        }
    }

    fn clear(&self, operation: Operation, offset: u64, len: u64, discard: bool) -> Result<(), IoError> {
        let blocks = self.blocks(operation, offset, len)?;
        for first in blocks.clone().step_by(MAX_ZEROS as usize) {
            let piece = first..blocks.end.min(first + MAX_ZEROS);
            let zeros = Change::Zeros(piece.end - piece.start);
            self.carry_write(operation, piece, zeros, Payload::Zero { discard })?;
        }
        Ok(())
    }
}

/// Seconds since 1970; 0 before.
fn seconds_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn opinions(judged: Vec<Judged>) -> Vec<Opinion> {
    judged.into_iter().map(|judged| judged.opinion).collect()
}

impl BlockDevice for TaggedDevice {
    fn name(&self) -> &str {
        self.carrier.drive.name()
    }

    fn size_bytes(&self) -> u64 {
        self.geometry.size()
    }

    fn logical_block(&self) -> u32 {
        self.geometry.block_bytes() as u32
    }

    fn read_only(&self) -> bool {
        self.read_only || self.carrier.drive.read_only()
    }

    fn grains(&self) -> Grains {
        let grains = self.carrier.drive.grains();
        let block = self.logical_block();
        Grains { write: grains.write.max(block), discard: grains.discard.max(block) }
    }

    fn clears_at_once(&self) -> u64 {
        self.carrier.drive.clears_at_once()
    }

    fn failing(&self) -> Option<String> {
        let tags = self.carrier.failure().map(|why| format!("tag file: {why}"));
        tags.or_else(|| self.carrier.drive.failing())
    }

    fn disks(&self) -> BTreeSet<String> {
        self.carrier.drive.disks()
    }

    fn background(&self) -> Option<&dyn Background> {
        self.carrier.drive.background()
    }

    fn used_bytes(&self) -> Option<u64> {
        self.carrier.drive.used_bytes()
    }

    fn flash_counts(&self) -> Option<FlashCounts> {
        self.carrier.drive.flash_counts()
    }

    fn tagged(&self) -> Option<&dyn Tagged> {
        Some(self)
    }

    fn stepped(&self) -> Option<&dyn Stepped> {
        (!self.read_only && self.carrier.has_steps()).then_some(self)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        if buf.is_empty() {
            return Ok(());
        }
        let blocks = self.blocks(Operation::Read, offset, buf.len() as u64)?;
        let size = self.geometry.block_bytes() as u64;
        let start = blocks.start * size;
        let whole = (blocks.end - blocks.start) * size;
        if whole != buf.len() as u64 {
            let mut bytes = vec![0; whole as usize];
            self.read_at(start, &mut bytes)?;
            buf.copy_from_slice(&bytes[(offset - start) as usize..][..buf.len()]);
            return Ok(());
        }
        let carried = self.carrier.carry(blocks.clone(), Request::Read, Payload::Read(buf));
        let judgement = self.checked(carried, offset, buf.len())?;
        let differ = judgement.faulty.iter().filter(|faulty| matches!(faulty.fault, TagFault::Differs(_)));
        for at in differ.flat_map(|faulty| (faulty.at..faulty.at + faulty.len).step_by(size as usize)) {
            let block = blocks.start + at as u64 / size;
            if self.refusals.refuses() {
                buf.fill(0);
                let (at, len) = (block * size, size as usize);
                return Err(IoError::protection(self.name(), Operation::Read, at, len));
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        let blocks = self.blocks(Operation::Write, offset, data.len() as u64)?;
        let most = self.geometry.max_record_blocks();
        let pieces = data.chunks(most as usize * self.geometry.block_bytes());
        for (first, data) in blocks.step_by(most as usize).zip(pieces) {
            let piece = first..first + (data.len() / self.geometry.block_bytes()) as u64;
            let change = self.change(first, data);
            self.carry_write(Operation::Write, piece, change, Payload::Write(data))?;
        }
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.clear(Operation::Zero, offset, len, false)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.clear(Operation::Discard, offset, len, true)
    }

    fn flush(&self) -> Result<(), IoError> {
        if self.read_only {
            return Ok(());
        }
        let carried = self.carrier.flush();
        match (carried.outcome, carried.error) {
            (Outcome::Done, _) => Ok(()),
            (_, Some(error)) => Err(error),
            // It failed for several commands at once, and another has the error.
            _ => {
                let why = io::Error::other("the drive failed to flush");
                Err(IoError::new(self.name(), Operation::Flush, 0, 0, why))
            }
        }
    }
}
