//! NAND in a file or on a device. `docs/reference/on-disk/flash.md` has the byte map, and what a
//! cut leaves.

use crate::layout::{Layout, OOB_BYTES};
use crate::outbox::LARGE;
use pumice_buffer::AlignedBuffer;
use pumice_durable::Medium;
use pumice_flash::{BlockId, Geometry, Nand, NandError, Nanos, PageRead, Ppn};
use std::collections::BTreeMap;
use std::io;

/// Bytes of data that a block keeps in memory, at most.
const RUN: usize = 256 << 10;
const OOB: usize = OOB_BYTES as usize;
/// Blocks whose buffers are kept for the next ones.
const SPARE: usize = 4;
/// How a medium says that these bytes cannot be read, and others may: EIO.
const MEDIA_ERROR: i32 = 5;
/// How often bytes are asked for before they are taken for lost: garbage collection gives up a page
/// for good that it cannot read.
const ASKS: u32 = 3;

/// A block whose pages are being programmed.
#[derive(Debug)]
struct Open {
    footer: AlignedBuffer,
    /// Data of the pages that were programmed last.
    data: AlignedBuffer,
    /// The first of those pages, the first that is not in the file yet, and the page that is
    /// programmed next.
    from: u32,
    kept: u32,
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
    /// Buffers of blocks that were open: new memory costs more than the program of a page.
    spare: Vec<Open>,
    /// What the footer of an erased block holds.
    zeros: AlignedBuffer,
    /// The unit of a footer that was read last, and where it lies.
    unit: Option<(u64, Vec<u8>)>,
    /// Erases since the drive was opened.
    erases: Vec<u32>,
    /// Something may have been written since the last sync of the medium.
    written: bool,
    /// Why nothing is written any more.
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
            zeros: AlignedBuffer::new(layout.footer_bytes()),
            unit: None,
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

    /// Where everything lies.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The medium.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// The medium alone, as after a cut of the power: what was in memory is lost.
    pub fn into_medium(self) -> M {
        self.medium
    }

    /// Why nothing is written any more, if that is so.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether the data of a page are in memory only.
    pub fn is_in_memory(&self, page: Ppn) -> bool {
        let (block, index) = self.place(page);
        self.open.get(&block).is_some_and(|open| (open.from..open.next).contains(&index))
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

    /// What a failed write or sync left is not known: nothing is written any more.
    fn fail(&mut self, doing: &str, error: &io::Error) -> NandError {
        self.failure.get_or_insert_with(|| format!("{doing}: {error}"));
        NandError::Failed
    }

    fn may_write(&self) -> Result<(), NandError> {
        if self.failure.is_some() { Err(NandError::Failed) } else { Ok(()) }
    }

    /// Writes the data of a block that are in memory only; with `soon`, by
    /// [`Medium::write_soon`] if they are few.
    fn write_data(&mut self, block: u32, soon: bool) -> Result<(), NandError> {
        let Some(open) = self.open.get_mut(&block).filter(|open| open.kept < open.next) else {
            return Ok(());
        };
        let size = self.layout.page_bytes();
        let bytes = (open.kept - open.from) as usize * size..(open.next - open.from) as usize * size;
        let at = self.layout.data_at(self.layout.geometry().page(BlockId(block), open.kept));
        self.written = true;
        let data = &open.data[bytes];
        let soon = soon && data.len() < LARGE;
        let written = if soon { self.medium.write_soon(at, data) } else { self.medium.write_at(at, data) };
        if let Err(error) = written {
            return Err(self.fail("writing data", &error));
        }
        open.kept = open.next;
        Ok(())
    }

    /// Forgets the data of a block that are in the file.
    fn forget_data(&mut self, block: u32) {
        if let Some(open) = self.open.get_mut(&block) {
            open.from = open.kept;
        }
    }

    /// Blocks with tags that are in memory only.
    fn behind(&self) -> Vec<u32> {
        self.open.iter().filter(|(_, open)| open.tagged < open.next).map(|(block, _)| *block).collect()
    }

    /// The most pages of a block whose data are kept in memory.
    fn run(&self) -> u32 {
        (RUN / self.layout.page_bytes()).max(1) as u32
    }

    /// The state of a block whose next page is about to be programmed.
    fn open_at(&mut self, block: u32, index: u32) -> &mut Open {
        let (footer, data) = (self.layout.footer_bytes(), self.run() as usize * self.layout.page_bytes());
        let spare = &mut self.spare;
        self.open.entry(block).or_insert_with(|| {
            let (footer, data) = match spare.pop() {
                Some(mut old) => {
                    old.footer.fill(0);
                    (old.footer, old.data)
                }
                None => (AlignedBuffer::new(footer), AlignedBuffer::new(data)),
            };
            Open { footer, data, from: index, kept: index, next: index, tagged: index }
        })
    }

    /// Ends that a block is open.
    fn close(&mut self, block: u32) {
        let closed = self.open.remove(&block);
        self.spare.extend(closed.filter(|_| self.spare.len() < SPARE));
    }

    /// Writes the tags of a block that are in memory only, in whole units.
    fn write_tags(&mut self, block: u32) -> Result<(), NandError> {
        let Some(open) = self.open.get_mut(&block).filter(|open| open.tagged < open.next) else {
            return Ok(());
        };
        let unit = self.layout.unit();
        let start = open.tagged as usize * OOB / unit * unit;
        let end = (open.next as usize * OOB).next_multiple_of(unit);
        let at = self.layout.footer_at(BlockId(block)) + start as u64;
        self.written = true;
        self.unit = None;
        if let Err(error) = self.medium.write_soon(at, &open.footer[start..end]) {
            return Err(self.fail("writing tags", &error));
        }
        open.tagged = open.next;
        Ok(())
    }

    /// The out-of-band bytes of a page of a block that is not open, from the file.
    fn load_oob(&mut self, page: Ppn) -> Result<Vec<u8>, NandError> {
        let (block, index) = self.place(page);
        let unit = self.layout.unit();
        let within = index as usize * OOB;
        let at = self.layout.footer_at(BlockId(block)) + (within / unit * unit) as u64;
        if self.unit.as_ref().is_none_or(|(known, _)| *known != at) {
            let mut bytes = vec![0; unit];
            self.unit = None;
            self.read_medium(at, &mut bytes).map_err(|error| unreadable(page, &error))?;
            self.unit = Some((at, bytes));
        }
        let (_, bytes) = self.unit.as_ref().ok_or(NandError::Failed)?;
        let oob = bytes[within % unit..within % unit + OOB].to_vec();
        if oob.iter().all(|byte| *byte == 0) { Err(NandError::Erased(page)) } else { Ok(oob) }
    }
}

fn unreadable(page: Ppn, error: &io::Error) -> NandError {
    if error.raw_os_error() == Some(MEDIA_ERROR) { NandError::Unreadable(page) } else { NandError::Failed }
}

impl<M: Medium> Nand for FileNand<M> {
    type Page = Vec<u8>;
    type Oob = Vec<u8>;

    fn geometry(&self) -> Geometry {
        self.layout.geometry()
    }

    fn read(&mut self, page: Ppn, after: Nanos) -> Result<PageRead<Vec<u8>, Vec<u8>>, NandError> {
        let oob = self.read_oob(page)?;
        let (done, size) = (after + 1, self.layout.page_bytes());
        let (block, index) = self.place(page);
        if let Some(open) = self.open.get(&block).filter(|open| index >= open.from) {
            let at = (index - open.from) as usize * size;
            return Ok(PageRead { data: Some(open.data[at..at + size].to_vec()), oob, done });
        }
        let mut data = vec![0; size];
        match self.read_medium(self.layout.data_at(page), &mut data) {
            Ok(()) => Ok(PageRead { data: Some(data), oob, done }),
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

    fn program(
        &mut self,
        page: Ppn,
        after: Nanos,
        data: &Vec<u8>,
        oob: &Vec<u8>,
    ) -> Result<Nanos, NandError> {
        self.check(page)?;
        self.may_write()?;
        let (block, index) = self.place(page);
        if self.next[block as usize] != Some(index) {
            return Err(NandError::Order(page));
        }
        let (size, run, pages) = (self.layout.page_bytes(), self.run(), self.geometry().pages_per_block);
        self.next[block as usize] = Some(index + 1);
        let open = self.open_at(block, index);
        let at = (index - open.from) as usize * size;
        open.data[at..at + size].copy_from_slice(data);
        open.footer[index as usize * OOB..(index as usize + 1) * OOB].copy_from_slice(oob);
        open.next = index + 1;
        let (is_run, is_full) = (open.next - open.from >= run, open.next == pages);
        if is_run || is_full {
            self.write_data(block, false)?;
            self.forget_data(block);
        }
        if is_full {
            self.write_tags(block)?;
            self.close(block);
        }
        Ok(after + 1)
    }

    fn erase(&mut self, block: BlockId, after: Nanos) -> Result<Nanos, NandError> {
        self.check(self.layout.geometry().page(block, 0))?;
        self.may_write()?;
        self.close(block.0);
        self.unit = None;
        self.next[block.0 as usize] = Some(0);
        self.erases[block.0 as usize] += 1;
        self.written = true;
        let footer = &self.zeros[..self.layout.footer_bytes()];
        match self.medium.write_soon(self.layout.footer_at(block), footer) {
            Ok(()) => Ok(after + 1),
            Err(error) => Err(self.fail("erasing a footer", &error)),
        }
    }

    fn sync(&mut self) -> Result<(), NandError> {
        self.may_write()?;
        let behind = self.behind();
        for &block in &behind {
            self.write_data(block, false)?;
        }
        for &block in &behind {
            self.write_tags(block)?;
        }
        for open in self.open.values_mut() {
            open.from = open.kept;
        }
        if std::mem::take(&mut self.written)
            && let Err(error) = self.medium.sync()
        {
            return Err(self.fail("making writes durable", &error));
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), NandError> {
        self.may_write()?;
        let behind = self.behind();
        for &block in &behind {
            self.write_data(block, true)?;
        }
        for &block in &behind {
            self.write_tags(block)?;
        }
        Ok(())
    }

    fn draft(&mut self, page: Ppn, data: &Vec<u8>, oob: &Vec<u8>) -> Result<(), NandError> {
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
        (self.written, self.unit) = (true, None);
        let at = self.layout.footer_at(BlockId(block)) + start as u64;
        let written = self.medium.write_soon(self.layout.data_at(page), data);
        match written.and_then(|()| self.medium.write_soon(at, &tags)) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.fail("writing what the log will hold", &error)),
        }
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.erases[block.0 as usize]
    }
}
