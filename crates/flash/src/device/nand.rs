//! NAND in a file or on a device. `docs/reference/on-disk/flash.md` has the byte map, and what a
//! cut leaves.

use crate::chip::{BlockId, Geometry, Nand, NandError, Nanos, PageRead, Ppn};
use crate::device::ahead::Ahead;
use crate::device::layout::{Layout, OOB_BYTES};
use crate::device::page::{Buffers, Page};
use pumice_base::buffer::AlignedBuffer;
use pumice_base::durable::{Held, Medium};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

const OOB: usize = OOB_BYTES as usize;
/// Blocks whose buffers are kept for the next ones.
const SPARE: usize = 4;
/// The error of a medium that cannot read these bytes, and perhaps others: EIO.
const MEDIA_ERROR: i32 = 5;
/// The number of times that bytes are asked for before they are taken for lost: garbage collection
/// gives up a page for good that it cannot read.
const ASKS: u32 = 3;

/// A block whose pages are being programmed.
#[derive(Debug)]
struct Open {
    footer: AlignedBuffer,
    /// The page that is programmed next.
    next: u32,
    /// Tags of pages before this one are in the file.
    tagged: u32,
}

/// NAND in a file or on a device.
///
/// Operations take no time of their own: each counts one nanosecond, so that a time limit is a
/// limit of operations.
#[derive(Debug)]
pub struct FileNand<M> {
    medium: M,
    layout: Layout,
    /// The next page to be programmed, by block; none if the block must be erased first.
    next: Vec<Option<u32>>,
    open: BTreeMap<u32, Open>,
    /// Footers of blocks that were open: new memory costs more than the program of a page.
    spare: Vec<AlignedBuffer>,
    /// The footer of an erased block.
    zeros: Held,
    /// Units of a footer that were read last, and where they lie.
    units: Option<(Range<u64>, AlignedBuffer)>,
    ahead: Option<Ahead>,
    /// Footers that were read before they were asked for.
    footers: BTreeMap<u32, AlignedBuffer>,
    /// For what is read to be written elsewhere.
    buffers: Buffers,
    /// Erases since the drive was opened.
    erases: Vec<u32>,
    /// Something may have been written since the last sync of the medium.
    written: bool,
    /// The reason why nothing is written any more.
    failure: Option<String>,
}

impl<M: Medium> FileNand<M> {
    /// The NAND on a medium. A block is programmed only after it was erased through this object.
    pub fn new(medium: M, layout: Layout) -> Self {
        let blocks = layout.geometry().blocks as usize;
        Self {
            medium,
            layout,
            next: vec![None; blocks],
            open: BTreeMap::new(),
            spare: Vec::new(),
            zeros: Held::new(vec![0; layout.footer_bytes()]),
            units: None,
            ahead: None,
            footers: BTreeMap::new(),
            buffers: Buffers::default(),
            erases: vec![0; blocks],
            // What an earlier process wrote is perhaps not durable.
            written: true,
            failure: None,
        }
    }

    /// The same, on a medium whose footers are all zeros: every block is erased.
    pub fn erased(medium: M, layout: Layout) -> Self {
        let new = Self::new(medium, layout);
        Self { next: vec![Some(0); new.next.len()], ..new }
    }

    /// The place of everything.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Takes what was read of a closed block that was not erased since: so much need not be read
    /// when its pages are announced.
    pub(crate) fn know(&mut self, ahead: Ahead) {
        self.ahead = Some(ahead);
    }

    /// The medium.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// The medium alone, as after a cut of the power: what was in memory is lost.
    pub fn into_medium(self) -> M {
        self.medium
    }

    /// The reason why nothing is written any more, if that is so.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn place(&self, page: Ppn) -> (u32, u32) {
        let geometry = self.layout.geometry();
        (geometry.block_of(page).0, geometry.index_of(page))
    }

    fn check(&self, page: Ppn) -> Result<(), NandError> {
        if page.0 < self.layout.geometry().pages() { Ok(()) } else { Err(NandError::OutOfRange(page)) }
    }

    fn read_medium(&self, at: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut read = self.medium.read_at(at, buf);
        for _ in 1..ASKS {
            if !read.as_ref().is_err_and(|error| error.raw_os_error() == Some(MEDIA_ERROR)) {
                break;
            }
            read = self.medium.read_at(at, buf);
        }
        read
    }

    /// Notes a failed write or sync, after which the contents are not known: nothing is written any
    /// more.
    fn fail(&mut self, doing: &str, error: &io::Error) -> NandError {
        self.failure.get_or_insert_with(|| format!("{doing}: {error}"));
        NandError::Failed
    }

    fn may_write(&self) -> Result<(), NandError> {
        if self.failure.is_some() { Err(NandError::Failed) } else { Ok(()) }
    }

    /// Writes all tags that are in memory only.
    fn write_all_tags(&mut self) -> Result<(), NandError> {
        let behind =
            |nand: &Self| nand.open.iter().find(|(_, open)| open.tagged < open.next).map(|(block, _)| *block);
        while let Some(block) = behind(self) {
            self.write_tags(block)?;
        }
        Ok(())
    }

    /// The state of a block whose next page is about to be programmed.
    fn open_at(&mut self, block: u32, index: u32) -> &mut Open {
        let (bytes, spare) = (self.layout.footer_bytes(), &mut self.spare);
        self.open.entry(block).or_insert_with(|| {
            let footer = match spare.pop() {
                Some(mut old) => {
                    old.fill(0);
                    old
                }
                None => AlignedBuffer::new(bytes),
            };
            Open { footer, next: index, tagged: index }
        })
    }

    /// Ends that a block is open.
    fn close(&mut self, block: u32) {
        let closed = self.open.remove(&block).map(|open| open.footer);
        self.spare.extend(closed.filter(|_| self.spare.len() < SPARE));
    }

    /// Writes the tags of a block that are in memory only. The first of a unit is written with the
    /// rest of it, which is erased: so the kernel need not read the unit, and the next tags are
    /// short writes that touch no bytes of each other.
    fn write_tags(&mut self, block: u32) -> Result<(), NandError> {
        let Some(open) = self.open.get_mut(&block).filter(|open| open.tagged < open.next) else {
            return Ok(());
        };
        let (unit, start) = (self.layout.unit(), open.tagged as usize * OOB);
        let end = open.next as usize * OOB;
        let begins = start.is_multiple_of(unit) || start / unit != (end - 1) / unit;
        let end = if begins { end.next_multiple_of(unit) } else { end };
        let at = self.layout.footer_at(BlockId(block)) + start as u64;
        self.written = true;
        self.units = None;
        self.footers.remove(&block);
        if let Err(error) = self.medium.write_soon(at, &open.footer[start..end]) {
            return Err(self.fail("writing tags", &error));
        }
        open.tagged = open.next;
        Ok(())
    }

    /// The out-of-band bytes of a page of a block that is not open, from the file.
    fn load_oob(&mut self, page: Ppn) -> Result<Vec<u8>, NandError> {
        let (block, index) = self.place(page);
        let ahead = self.ahead.as_ref().filter(|ahead| ahead.block.0 == block);
        if let Some(oob) = ahead.and_then(|ahead| ahead.oob(index)) {
            return programmed(page, oob);
        }
        if let Some(footer) = self.footers.get(&block) {
            return programmed(page, &footer[index as usize * OOB..][..OOB]);
        }
        let unit = self.layout.unit();
        let at = self.layout.footer_at(BlockId(block)) + (index as usize * OOB) as u64;
        if !self.units.as_ref().is_some_and(|(known, _)| known.contains(&at)) {
            let start = index as usize * OOB / unit * unit;
            self.load_units(self.layout.footer_at(BlockId(block)) + start as u64, unit)
                .map_err(|error| unreadable(page, &error))?;
        }
        let (known, bytes) = self.units.as_ref().ok_or(NandError::Failed)?;
        programmed(page, &bytes[(at - known.start) as usize..][..OOB])
    }

    fn load_units(&mut self, at: u64, len: usize) -> io::Result<()> {
        let mut bytes = match self.units.take() {
            Some((_, old)) if old.len() >= len => old,
            _ => AlignedBuffer::new(len),
        };
        self.read_medium(at, &mut bytes[..len])?;
        self.units = Some((at..at + len as u64, bytes));
        Ok(())
    }
}

/// The out-of-band bytes of a page, unless it is erased.
fn programmed(page: Ppn, oob: &[u8]) -> Result<Vec<u8>, NandError> {
    if oob.iter().all(|byte| *byte == 0) { Err(NandError::Erased(page)) } else { Ok(oob.to_vec()) }
}

fn unreadable(page: Ppn, error: &io::Error) -> NandError {
    if error.raw_os_error() == Some(MEDIA_ERROR) { NandError::Unreadable(page) } else { NandError::Failed }
}

impl<M: Medium> Nand for FileNand<M> {
    type Page = Page;
    type Oob = Vec<u8>;

    fn geometry(&self) -> Geometry {
        self.layout.geometry()
    }

    fn read(&mut self, page: Ppn, after: Nanos) -> Result<PageRead<Page, Vec<u8>>, NandError> {
        let oob = self.read_oob(page)?;
        let (done, size) = (after + 1, self.layout.page_bytes());
        if let Some(data) = self.ahead.as_ref().and_then(|ahead| ahead.data(page)) {
            return Ok(PageRead { data: Some(data), oob, done });
        }
        let mut data = vec![0; size];
        match self.read_medium(self.layout.data_at(page), &mut data) {
            Ok(()) => Ok(PageRead { data: Some(data.into()), oob, done }),
            Err(error) if error.raw_os_error() == Some(MEDIA_ERROR) => Ok(PageRead { data: None, oob, done }),
            Err(_) => Err(NandError::Failed),
        }
    }

    fn read_oob(&mut self, page: Ppn) -> Result<Vec<u8>, NandError> {
        self.check(page)?;
        let (block, index) = self.place(page);
        match self.open.get(&block) {
            Some(open) if index >= open.next => Err(NandError::Erased(page)),
            Some(open) => Ok(open.footer[index as usize * OOB..(index as usize + 1) * OOB].to_vec()),
            None => self.load_oob(page),
        }
    }

    fn program(&mut self, page: Ppn, after: Nanos, data: &Page, oob: &Vec<u8>) -> Result<Nanos, NandError> {
        self.check(page)?;
        self.may_write()?;
        let (block, index) = self.place(page);
        if self.next[block as usize] != Some(index) {
            return Err(NandError::Order(page));
        }
        self.next[block as usize] = Some(index + 1);
        self.written = true;
        if let Err(error) = self.medium.write_held(self.layout.data_at(page), data.held()) {
            return Err(self.fail("writing data", &error));
        }
        let pages = self.geometry().pages_per_block;
        let open = self.open_at(block, index);
        open.footer[index as usize * OOB..(index as usize + 1) * OOB].copy_from_slice(oob);
        open.next = index + 1;
        if open.next == pages {
            self.write_tags(block)?;
            self.close(block);
        }
        Ok(after + 1)
    }

    fn erase(&mut self, block: BlockId, after: Nanos) -> Result<Nanos, NandError> {
        self.check(self.layout.geometry().page(block, 0))?;
        self.may_write()?;
        self.close(block.0);
        self.units = None;
        self.footers.remove(&block.0);
        self.ahead = self.ahead.take().filter(|ahead| ahead.block != block);
        self.next[block.0 as usize] = Some(0);
        self.erases[block.0 as usize] += 1;
        self.written = true;
        match self.medium.write_held(self.layout.footer_at(block), &self.zeros) {
            Ok(()) => Ok(after + 1),
            Err(error) => Err(self.fail("erasing a footer", &error)),
        }
    }

    fn sync(&mut self) -> Result<(), NandError> {
        self.may_write()?;
        self.write_all_tags()?;
        if std::mem::take(&mut self.written)
            && let Err(error) = self.medium.sync()
        {
            return Err(self.fail("making writes durable", &error));
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), NandError> {
        self.may_write()?;
        self.write_all_tags()
    }

    fn draft(&mut self, page: Ppn, data: &Page, oob: &Vec<u8>) -> Result<(), NandError> {
        self.check(page)?;
        self.may_write()?;
        let (block, index) = self.place(page);
        if self.next[block as usize] != Some(index) {
            return Err(NandError::Order(page));
        }
        let (unit, within) = (self.layout.unit(), index as usize * OOB);
        let open = self.open_at(block, index);
        open.footer[within..within + OOB].copy_from_slice(oob);
        let start = within / unit * unit;
        let tags = open.footer[start..start + unit].to_vec();
        (self.written, self.units) = (true, None);
        self.footers.remove(&block);
        let at = self.layout.footer_at(BlockId(block)) + start as u64;
        // Copied: the next draft replaces its bytes.
        let written = self.medium.write_soon(self.layout.data_at(page), data.as_ref());
        match written.and_then(|()| self.medium.write_soon(at, &tags)) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.fail("writing what the log will hold", &error)),
        }
    }

    fn prefetch_tags(&mut self, blocks: impl Iterator<Item = BlockId>) {
        self.footers.clear();
        for block in blocks.filter(|block| block.0 < self.layout.geometry().blocks) {
            let mut footer = AlignedBuffer::new(self.layout.footer_bytes());
            // What cannot be read as a whole is read piece by piece, when it is asked for.
            if self.medium.read_at(self.layout.footer_at(block), &mut footer).is_ok() {
                self.footers.insert(block.0, footer);
            }
        }
    }

    fn prefetch(&mut self, pages: impl Iterator<Item = Ppn>) {
        let pages: Vec<Ppn> = pages.collect();
        let known = self.ahead.as_ref().is_some_and(|ahead| !pages.is_empty() && ahead.covers(&pages));
        if !known {
            self.ahead = Ahead::read(&self.medium, self.layout, &pages, &self.buffers, None);
        }
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.erases[block.0 as usize]
    }
}
