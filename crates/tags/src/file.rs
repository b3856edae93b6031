//! A tag file on its medium: header, log, pages and kept blocks.

mod change;
mod error;
mod examine;
mod log;
mod recover;
mod sample;

use crate::evidence::Evidence;
use crate::geometry::{GROUP_PAGES, Geometry, HEADER_SLOT, PAGE_BYTES};
use crate::group::{Group, StoredGroup};
use crate::header::{BadHeader, Header, MAX_SERIAL};
use crate::kept::{Contents, Kept, KeptArea, KeptError, Why, is_bad_sector};
use crate::page::{Found, Page};
use crate::recovery::Recovery;
use crate::rules::Rule;
pub(crate) use change::sizes_for;
pub use error::{Census, OnStale, Recovered, TagError};
pub use examine::check_drive;
pub(crate) use examine::check_length;
use examine::{Examined, end_note, examine};
pub use log::{Appended, Log};
use pumice_base::durable::{Medium, Slots};
use pumice_blockdev::{BlockDevice, DeviceMedium};
use recover::Recovering;
use sample::Sampling;
use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The header's slots, of the version that describes any drive.
const SLOTS: Slots = Slots { offset: 0, slot_bytes: HEADER_SLOT, version: 3 };
/// The same of the version for metadata that are only the tuple.
const TUPLE_SLOTS: Slots = Slots { version: 2, ..SLOTS };
/// Slots of version 1, without kept blocks: recognised only to refuse it by name.
const OLD_SLOTS: Slots = Slots { version: 1, ..SLOTS };
/// The alignment of the log.
const LOG_ALIGN: u32 = 512;

/// Most groups of pages that are read at once.
const LOADED: usize = 32;

/// A medium that several parts of a program use.
#[derive(Clone)]
pub struct SharedMedium(pub Arc<dyn Medium + Send + Sync>);

impl Medium for SharedMedium {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }

    fn write_soon(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_soon(offset, data)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        self.0.as_any()
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn size_bytes(&self) -> Option<u64> {
        self.0.size_bytes()
    }
}

/// An open tag file: its header and its pages. The log is separate, because it is used at the same
/// time.
pub struct TagFile {
    medium: SharedMedium,
    header: Header,
}

impl TagFile {
    /// Creates a tag file on a medium with [`Geometry::file_bytes`] of zeros.
    ///
    /// # Errors
    /// If the medium fails.
    ///
    /// # Panics
    /// If the serial number is longer than [`MAX_SERIAL`] bytes.
    pub fn create(
        medium: &dyn Medium,
        geometry: Geometry,
        identity: u64,
        serial: &str,
    ) -> Result<(), TagError> {
        assert!(serial.len() <= MAX_SERIAL, "a serial number of {} bytes", serial.len());
        let (clean, stale, serial) = (true, false, serial.to_owned());
        let header = Header { identity, generation: 0, geometry, clean, stale, adopted: 0, serial };
        let both = slots(&header).first(&header.encode())?;
        medium.write_at(0, &both)?;
        medium.sync()?;
        Ok(())
    }

    /// Reads the header only.
    ///
    /// # Errors
    /// If it is no tag file, or the medium fails.
    pub fn peek(medium: &dyn Medium) -> Result<Header, TagError> {
        for slots in [TUPLE_SLOTS, SLOTS] {
            if let Some(record) = slots.load(medium)? {
                return Ok(Header::decode(&record.body, slots.version)?);
            }
        }
        let old = OLD_SLOTS.load(medium)?.is_some();
        Err(if old { BadHeader::Version(OLD_SLOTS.version) } else { BadHeader::Magic }.into())
    }

    /// Returns whether [`open`](Self::open) would take it if it were as long as [`sizes_for`] wants
    /// it. Nothing is written.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn check(
        medium: &SharedMedium,
        drive: &dyn BlockDevice,
        serial: &str,
    ) -> Result<(), TagError> {
        examine(medium, drive, serial).map(drop)
    }

    /// Opens a tag file, and recovers the blocks of its log. `now` is the time in seconds since
    /// 1970, for blocks that are kept.
    ///
    /// # Errors
    /// If it is no tag file, of another drive, or one of both fails.
    pub fn open(
        medium: SharedMedium,
        drive: &dyn BlockDevice,
        serial: &str,
        now: u64,
        on_stale: OnStale,
    ) -> Result<(Self, Log, Recovered, u64), TagError> {
        Self::open_with(medium, drive, serial, now, on_stale, |_| {})
    }

    pub(crate) fn open_with(
        medium: SharedMedium,
        drive: &dyn BlockDevice,
        serial: &str,
        now: u64,
        on_stale: OnStale,
        adjust: impl Fn(&mut Recovery<'_>),
    ) -> Result<(Self, Log, Recovered, u64), TagError> {
        let Examined { header, mut ring, is_ended, numbers, records } = examine(&medium, drive, serial)?;
        change::check_room(&medium, &header.geometry, drive)?;
        let geometry = header.geometry;
        let mut recovery = Recovery::new(geometry, &numbers, &records);
        adjust(&mut recovery);
        let mut file = Self { medium, header };
        // Before anything is written: what the log would write over may be newer than it.
        let stale = match on_stale {
            OnStale::Believe => None,
            _ => Sampling { file: &file, recovery: &recovery, drive }.evidence()?.stale(),
        };
        let mut recovered = Recovered { log_read: !is_ended, ..Recovered::default() };
        match stale {
            Some(evidence) if on_stale == OnStale::Fail => return Err(TagError::Stale(evidence.into())),
            stale => recovered.stale = stale,
        }
        file.header.generation += 1;
        file.header.clean = false;
        if on_stale == OnStale::Serve {
            file.header.stale = recovered.stale.is_some();
        }
        if let Some(last) = numbers.last() {
            let (pages, kept) = (BTreeMap::new(), None);
            let (file, recovery) = (&file, &recovery);
            recovered = Recovering { file, recovery, drive, now, pages, kept, recovered }.run()?;
            ring.release(*last)?;
        }
        // The log is empty.
        file.header.geometry = change::change_over(&file, drive, &recovery)?;
        file.keep_header()?;
        // Both slots: if this one is damaged, the other must not say that the file was closed.
        if recovery.rules.keep(Rule::BothSlots) {
            file.keep_header()?;
        }
        let log = Log::new(ring, file.header.geometry);
        Ok((file, log, recovered, numbers.last().copied().unwrap_or(0)))
    }

    /// Opens a tag file for reading. Nothing is written; whoever calls this keeps others from
    /// writing.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if its log holds blocks. Stale tags are no error.
    pub fn open_to_read(
        medium: SharedMedium,
        drive: &dyn BlockDevice,
        serial: &str,
    ) -> Result<(Self, Log, Recovered, u64), TagError> {
        let Examined { header, ring, is_ended, numbers, records } = examine(&medium, drive, serial)?;
        if !numbers.is_empty() {
            return Err(TagError::NotClosed);
        }
        let log = Log::new(ring, header.geometry);
        let recovery = Recovery::new(header.geometry, &numbers, &records);
        let file = Self { medium, header };
        let stale = Sampling { file: &file, recovery: &recovery, drive }.evidence()?.stale();
        Ok((file, log, Recovered { log_read: !is_ended, stale, ..Recovered::default() }, 0))
    }

    /// The evidence of a drive's blocks about its tags, which nobody uses. Nothing is written.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn evidence(
        medium: SharedMedium,
        drive: &dyn BlockDevice,
        serial: &str,
    ) -> Result<Evidence, TagError> {
        let Examined { header, numbers, records, .. } = examine(&medium, drive, serial)?;
        let recovery = Recovery::new(header.geometry, &numbers, &records);
        let file = Self { medium, header };
        Sampling { file: &file, recovery: &recovery, drive }.evidence()
    }

    /// Reads a tag file that may be in use: its header, and counts of blocks by origin in its
    /// pages. Blocks that are only in the log do not count. After each page `tell` is called with
    /// the pages that were read, and all pages: of a large drive there are gigabytes.
    ///
    /// # Errors
    /// If it is no tag file, or the medium fails.
    pub fn look(medium: SharedMedium, tell: &mut dyn FnMut(u64, u64)) -> Result<(Header, Census), TagError> {
        let header = Self::peek(&medium)?;
        let census = Self { medium, header: header.clone() }.count(tell)?;
        Ok((header, census))
    }

    /// Counts blocks by origin, as in the pages on the medium.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn census(&self) -> io::Result<Census> {
        self.count(&mut |_, _| {})
    }

    fn count(&self, tell: &mut dyn FnMut(u64, u64)) -> io::Result<Census> {
        let geometry = &self.header.geometry;
        let contents = self.kept_area().contents()?;
        let (kept, damaged_kept) = (contents.kept.len() as u64, contents.damaged.len() as u64);
        let mut census = Census { kept, damaged_kept, ..Census::default() };
        for number in 0..geometry.pages() {
            let found = self.load(number)?;
            census.lost_pages += u64::from(found == Found::Lost);
            let page = found.page();
            let first = number * geometry.blocks_of_page();
            let count = geometry.blocks_of_page().min(geometry.blocks() - first);
            for place in 0..count as usize {
                census.origins[page.tag(geometry, place).origin as usize] += 1;
            }
            tell(number + 1, geometry.pages());
        }
        Ok(census)
    }

    /// Lists the kept blocks of a tag file that may be in use.
    ///
    /// # Errors
    /// If it is no tag file, or the medium fails.
    pub fn look_kept(medium: SharedMedium) -> Result<Contents, TagError> {
        let header = Self::peek(&medium)?;
        Ok(Self { medium, header }.kept_area().contents()?)
    }

    /// Reads a kept block of a tag file that may be in use.
    ///
    /// # Errors
    /// If it is no tag file, no such block is kept, it is damaged, or the medium fails.
    pub fn read_kept(medium: SharedMedium, slot: u64) -> Result<(Kept, Vec<u8>), TagError> {
        let header = Self::peek(&medium)?;
        Ok(Self { medium, header }.kept_area().read(slot)?)
    }

    /// Reads a kept block.
    ///
    /// # Errors
    /// If no such block is kept, it is damaged, or the medium fails.
    pub fn kept(&self, slot: u64) -> Result<(Kept, Vec<u8>), KeptError> {
        self.kept_area().read(slot)
    }

    /// Keeps a block that a kept copy will replace. Durable when this returns.
    ///
    /// # Errors
    /// If there is no room, or the medium fails.
    pub fn keep_replaced(&self, block: u64, bytes: &[u8], now: u64) -> Result<(), KeptError> {
        let area = self.kept_area();
        match area.keep(&mut area.contents()?, &[(block, bytes)], now, Why::PutBack, true)? {
            0 => Err(KeptError::Full),
            _ => Ok(()),
        }
    }

    /// Deletes a kept block, or a damaged entry.
    ///
    /// # Errors
    /// If no such block is kept, or the medium fails.
    pub fn forget_kept(&self, slot: u64) -> Result<(), KeptError> {
        self.kept_area().forget(slot)
    }

    fn kept_area(&self) -> KeptArea<'_> {
        let Header { geometry, identity, .. } = self.header;
        KeptArea { medium: &self.medium, geometry, identity }
    }

    /// The device that it lies on, if it is one.
    pub(crate) fn device(&self) -> Option<Arc<dyn BlockDevice>> {
        self.medium.as_any()?.downcast_ref().map(|DeviceMedium(device)| Arc::clone(device))
    }

    /// The present header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Reads a page. One whose sector is bad is lost.
    ///
    /// # Errors
    /// If the medium fails as a whole: the page may exist, and must not be replaced by a new one.
    pub fn load(&self, number: u64) -> io::Result<Found> {
        let mut sector = [0; PAGE_BYTES];
        match self.medium.read_at(self.header.geometry.page_at(number), &mut sector) {
            Ok(()) => Ok(Page::decode(&self.header.geometry, &sector, self.header.identity, number)),
            Err(error) if is_bad_sector(&error) => Ok(Found::Lost),
            Err(error) => Err(error),
        }
    }

    /// Reads groups of pages, whose numbers ascend; those that follow each other are read at once.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_groups(&self, groups: &[u64]) -> io::Result<Vec<Group>> {
        let Header { geometry, identity, .. } = &self.header;
        let mut loaded = Vec::with_capacity(groups.len());
        let mut bytes = Vec::new();
        for run in groups.chunk_by(|group, next| group + 1 == *next).flat_map(|run| run.chunks(LOADED)) {
            let pages = geometry.pages_of(run[0]).start..geometry.pages_of(run[run.len() - 1]).end;
            bytes.resize((pages.end - pages.start) as usize * PAGE_BYTES, 0);
            let whole = self.medium.read_at(geometry.page_at(pages.start), &mut bytes).is_ok();
            let sectors = bytes.as_chunks().0.chunks(GROUP_PAGES as usize);
            for (group, sectors) in run.iter().zip(sectors) {
                loaded.push(match whole {
                    true => Group::decode(geometry, *identity, *group, sectors),
                    // One of them may be lost.
                    false => Group::new(*group, geometry.pages_of(*group).map(|page| self.load(page)))?,
                });
            }
        }
        Ok(loaded)
    }

    /// Reads the sectors of all pages of consecutive groups into `bytes`. Whether none is lost.
    ///
    /// # Errors
    /// If the medium fails, as a whole or in one sector.
    pub(crate) fn load_stretch(&self, groups: Range<u64>, bytes: &mut Vec<u8>) -> io::Result<bool> {
        let Header { geometry, identity, .. } = &self.header;
        let first = geometry.pages_of(groups.start).start;
        let count = geometry.pages_of(groups.end - 1).end - first;
        bytes.resize(count as usize * PAGE_BYTES, 0);
        self.medium.read_at(geometry.page_at(first), bytes)?;
        Ok(Page::none_is_lost(geometry, bytes.as_chunks().0, *identity, first))
    }

    /// Writes pages to their places, in ascending order. Durable after [`sync`](Self::sync).
    ///
    /// # Errors
    /// If the medium fails.
    pub fn store(&self, groups: &[StoredGroup]) -> io::Result<()> {
        self.store_pages(groups.iter().flat_map(StoredGroup::pages))
    }

    fn store_pages<'p>(&self, pages: impl Iterator<Item = (u64, &'p Page)>) -> io::Result<()> {
        let mut run: Vec<u8> = Vec::new();
        let (mut first, mut pages) = (0, pages.peekable());
        while let Some((number, page)) = pages.next() {
            if run.is_empty() {
                first = number;
            }
            run.extend_from_slice(&page.encode(self.header.identity, number));
            // Pages that follow each other are written at once.
            if pages.peek().is_none_or(|(next, _)| *next != number + 1) || run.len() >= 1 << 20 {
                // The sync brings them to the medium, many at a time.
                self.medium.write_soon(self.header.geometry.page_at(first), &run)?;
                run.clear();
            }
        }
        Ok(())
    }

    /// Makes pages durable.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn sync(&self) -> io::Result<()> {
        self.medium.sync()
    }

    /// Changes the header, durably.
    ///
    /// # Errors
    /// If the medium fails; the header is then the old one or the new.
    pub fn change_header(&mut self, change: impl FnOnce(&mut Header)) -> io::Result<()> {
        change(&mut self.header);
        self.keep_header()
    }

    /// Records that the file was closed. The caller has brought all pages home, and appends nothing
    /// to the log any more, which is empty.
    ///
    /// # Errors
    /// If the medium fails, or a record of the log counts.
    pub fn close(&mut self, log: &mut Log) -> Result<(), TagError> {
        if self.header.clean {
            return Ok(());
        }
        if !log.end(&end_note(&self.header))? {
            return Err(io::Error::other("records of the log still count").into());
        }
        Ok(self.change_header(|header| header.clean = true)?)
    }

    fn keep_header(&self) -> io::Result<()> {
        slots(&self.header).store(&self.medium, &self.header.encode()).map(drop)
    }
}

/// The slots of a header: the version of a file never changes.
fn slots(header: &Header) -> Slots {
    Slots { version: header.version(), ..SLOTS }
}
