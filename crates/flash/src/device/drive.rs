//! A flash drive as a block device.

mod background;

use crate::chip::{NandError, Ppn};
use crate::device::flushes::{Flushes, Turn};
use crate::device::layer::{Layer, counts, mount};
use crate::device::layout::{Layout, PAGE_BYTES};
use crate::device::page::{Buffers, Hashes, Page};
use crate::device::queued::Queued;
use crate::device::spin::Looks;
use crate::device::superblock::Superblock;
use crate::ftl::{Census, Content as _, FtlError, Progress, Scheme, Stats, Sums};
use pumice_base::buffer::AlignedBuffer;
use pumice_blockdev::{Background, BlockDevice, DeviceMedium, FlashCounts, Grains, IoError, Operation};
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

const PAGE: usize = PAGE_BYTES as usize;
/// Pages that are looked up under one lock.
const AT_ONCE: usize = 256;
/// Bytes that are discarded under one lock.
const CLEARS: u64 = 64 << 20;
/// The time that a drive may take for the checkpoint with which it is closed.
const CLOSING: Duration = Duration::from_secs(10);
/// Changes from one time that the counts are shown to the next.
const CHANGES: u64 = 64;

struct State {
    layer: Layer<Queued<DeviceMedium>>,
    /// Background work found nothing to do since the last write.
    rested: bool,
    /// Changes since it was opened.
    changes: u64,
}

/// The place where the data of a page come from.
enum Source {
    /// Nothing was written there.
    Zeros,
    /// From the file; they must have this sum.
    At(Ppn, u32),
    /// They were read under the lock.
    Held(Page),
}

/// A flash drive in a file or on a device.
///
/// Every read is verified: a page that does not fit its sum or its tag is refused with
/// [`IoError::is_protection_error`].
pub struct FlashDrive {
    name: String,
    device: Arc<dyn BlockDevice>,
    layout: Layout,
    capacity: u64,
    state: Mutex<State>,
    /// Makes the writes of the translation layer without its lock.
    medium: Queued<DeviceMedium>,
    flushes: Flushes,
    /// The collector of garbage ahead of need.
    collecting: Mutex<()>,
    /// The place where data of writes wait for the medium.
    buffers: Buffers,
    hashes: Hashes,
    sums: Sums,
    opened: Instant,
    /// The time when the last command came or ended, in nanoseconds since it was opened.
    last: AtomicU64,
    /// The counts of its work and contents, as of a change not long ago, for a reader who would
    /// have to wait for a command.
    counts: Mutex<FlashCounts>,
}

impl FlashDrive {
    /// Recovers the drive that a device holds. `scheme` is used as long as it is open.
    ///
    /// # Errors
    /// If it cannot be recovered.
    pub fn open(
        device: Arc<dyn BlockDevice>,
        superblock: &Superblock,
        scheme: Scheme,
        name: &str,
    ) -> Result<Self, FtlError> {
        Self::open_telling(device, superblock, scheme, name, &mut |_| {})
    }

    /// Does the same, and tells how far it is.
    ///
    /// # Errors
    /// As [`FlashDrive::open`].
    pub fn open_telling(
        device: Arc<dyn BlockDevice>,
        superblock: &Superblock,
        scheme: Scheme,
        name: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, FtlError> {
        let medium = Queued::new(DeviceMedium(Arc::clone(&device)));
        let mut layer = mount(medium.clone(), superblock, scheme, false, progress)?;
        Ok(Self {
            counts: Mutex::new(counts(&mut layer)),
            name: name.to_owned(),
            device,
            layout: superblock.layout,
            capacity: superblock.capacity(),
            state: Mutex::new(State { layer, rested: false, changes: 0 }),
            medium,
            flushes: Flushes::default(),
            collecting: Mutex::default(),
            buffers: Buffers::default(),
            hashes: Hashes::of(scheme.plan(), superblock.fingerprint),
            sums: superblock.sums(),
            opened: Instant::now(),
            last: AtomicU64::new(0),
        })
    }

    /// The counts of its contents. It looks at every page, under the lock.
    pub fn census(&self) -> Census {
        self.lock().layer.census()
    }

    /// The counts of its work since it was formatted.
    pub fn stats(&self) -> Stats {
        self.lock().layer.stats()
    }

    /// It is mostly held for a few microseconds, less than it takes to sleep. A holder may be
    /// without a processor, so whoever waits lets others run.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut looks = Looks::default();
        loop {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::Poisoned(state)) => return state.into_inner(),
                Err(TryLockError::WouldBlock) if looks.are_over() => break,
                Err(TryLockError::WouldBlock) => looks.pass(),
            }
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what it did and holds to those that cannot have the lock.
    fn show(&self, state: &mut State) -> FlashCounts {
        let counts = counts(&mut state.layer);
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
        counts
    }

    /// Makes a change outlive the process, and now and then shows the counts.
    fn changed(&self, mut state: MutexGuard<'_, State>) -> Result<(), FtlError> {
        state.changes += 1;
        if state.changes.is_multiple_of(CHANGES) {
            self.show(&mut state);
        }
        state.layer.hand_over()?;
        let (number, flush) = (self.medium.accepted(), state.layer.wants_flush());
        let collect = state.layer.wants_collecting();
        drop(state);
        self.carry(number)?;
        if collect {
            self.collect_ahead()?;
        }
        if flush { self.flush_ahead() } else { Ok(()) }
    }

    /// Waits until the medium has the writes up to this number, and makes some of them.
    fn carry(&self, number: u64) -> Result<(), FtlError> {
        self.medium.carry(number).map_err(|_| NandError::Failed.into())
    }

    /// Makes all that was acknowledged durable. One sync serves all threads that wait for one.
    fn make_durable(&self) -> Result<(), FtlError> {
        let state = self.lock();
        let Some(last) = state.layer.unflushed() else { return self.check_medium() };
        drop(state);
        match self.flushes.turn(last) {
            Some(turn) => self.flush_in_turn(turn),
            None => Ok(()),
        }
    }

    /// Makes a flush that no host asked for, unless one is under way: that one serves as well.
    fn flush_ahead(&self) -> Result<(), FtlError> {
        self.flushes.turn_now().map_or(Ok(()), |turn| self.flush_in_turn(turn))
    }

    fn flush_in_turn(&self, turn: Turn<'_>) -> Result<(), FtlError> {
        let mut state = self.lock();
        let Some(flush) = state.layer.begin_flush()? else { return Ok(()) };
        let number = self.medium.accepted();
        drop(state);
        self.medium.sync_upto(number).map_err(|_| NandError::Failed)?;
        // Those that it covers are told at once: what the end of a flush does besides is for later
        // commands.
        turn.done(flush.upto());
        let mut state = self.lock();
        state.layer.end_flush(flush)?;
        let number = self.medium.accepted();
        drop(state);
        self.carry(number)
    }

    /// An error if nothing can be written any more.
    fn check_medium(&self) -> Result<(), FtlError> {
        self.medium.failure().map_or(Ok(()), |_| Err(NandError::Failed.into()))
    }

    /// A command came, or ended.
    fn touch(&self) {
        let now = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: when background work begins depends on it, and nothing else.
        self.last.fetch_max(now, Ordering::Relaxed);
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), IoError> {
        if offset.checked_add(len).is_some_and(|end| end <= self.capacity) {
            return Ok(());
        }
        let why = format!("the drive has {} bytes", self.capacity);
        let source = io::Error::new(io::ErrorKind::UnexpectedEof, why);
        Err(IoError::new(&self.name, operation, offset, length(len), source))
    }

    fn error(&self, operation: Operation, offset: u64, len: usize, error: FtlError) -> IoError {
        let source = match error {
            FtlError::Damaged { .. } | FtlError::Misplaced { .. } => {
                return IoError::protection(&self.name, operation, offset, len);
            }
            FtlError::NoRoom => io::ErrorKind::StorageFull.into(),
            FtlError::Nand(NandError::Failed) => io::Error::other("the medium failed, see the node's log"),
            other => io::Error::other(other),
        };
        IoError::new(&self.name, operation, offset, len, source)
    }

    /// The place of the data of some pages.
    fn locate(&self, lpns: Range<u32>) -> Result<Vec<Source>, (u32, FtlError)> {
        let mut state = self.lock();
        let find = |lpn| {
            let Some(page) = state.layer.map().lookup(lpn) else { return Ok(Source::Zeros) };
            let nand = state.layer.nand();
            let known = nand.sum(page).filter(|_| !self.medium.holds(self.layout.data_at(page), PAGE));
            match known {
                Some(sum) => Ok(Source::At(page, sum)),
                None => match state.layer.read(lpn, 0) {
                    Ok((data, _)) => Ok(data.map_or(Source::Zeros, Source::Held)),
                    Err(error) => Err((lpn, error)),
                },
            }
        };
        lpns.map(find).collect()
    }

    /// The content of a page, read under the lock.
    fn read_page(&self, lpn: u32) -> Result<Page, IoError> {
        let read = self.lock().layer.read(lpn, 0);
        let at = u64::from(lpn) * PAGE as u64;
        let (data, _) = read.map_err(|error| self.error(Operation::Read, at, PAGE, error))?;
        Ok(data.unwrap_or_else(|| Page::blank(PAGE_BYTES)))
    }

    /// Reads whole pages that lie one after another. One that does not fit may have moved.
    fn read_run(&self, lpn: u32, first: Ppn, sums: &[u32], buf: &mut [u8]) -> Result<(), IoError> {
        let read = self.device.read_at(self.layout.data_at(first), buf).is_ok();
        for ((lpn, sum), page) in (lpn..).zip(sums).zip(buf.chunks_mut(PAGE)) {
            if !read || self.sums.of(page) != *sum {
                page.copy_from_slice(self.read_page(lpn)?.as_ref());
            }
        }
        Ok(())
    }

    /// Reads some pages from where they are. `buf` is whole pages.
    fn read_pages(&self, lpns: Range<u32>, buf: &mut [u8]) -> Result<(), IoError> {
        let sources = self
            .locate(lpns.clone())
            .map_err(|(lpn, error)| self.error(Operation::Read, u64::from(lpn) * PAGE as u64, PAGE, error))?;
        let mut at = 0;
        while at < sources.len() {
            let page = at * PAGE..(at + 1) * PAGE;
            match &sources[at] {
                Source::Zeros => buf[page].fill(0),
                Source::Held(data) => buf[page].copy_from_slice(data.as_ref()),
                Source::At(first, _) => {
                    let sums = self.run(*first, &sources[at..]);
                    let end = at + sums.len();
                    self.read_run(lpns.start + at as u32, *first, &sums, &mut buf[at * PAGE..end * PAGE])?;
                    at = end;
                    continue;
                }
            }
            at += 1;
        }
        Ok(())
    }

    /// The sums of the pages, from the first source on, that follow each other in one block.
    fn run(&self, first: Ppn, sources: &[Source]) -> Vec<u32> {
        let geometry = self.layout.geometry();
        let block = geometry.block_of(first);
        let follows = |(n, source): (u32, &Source)| match source {
            Source::At(page, sum) if page.0 == first.0 + n && geometry.block_of(*page) == block => Some(*sum),
            _ => None,
        };
        (0..).zip(sources).map_while(follows).collect()
    }

    /// Changes a part of a page.
    fn write_part(state: &mut State, (lpn, at): (u32, usize), data: &[u8]) -> Result<(), FtlError> {
        let old = state.layer.read(lpn, 0)?.0;
        let mut page = old.map_or_else(|| vec![0; PAGE], |old| old.as_ref().to_vec());
        page[at..at + data.len()].copy_from_slice(data);
        state.layer.write(lpn, &page.into(), 0).map(drop)
    }

    /// Makes a range zeros: whole pages are forgotten.
    fn clear(&self, operation: Operation, offset: u64, len: u64) -> Result<(), IoError> {
        self.check(operation, offset, len)?;
        self.touch();
        let fail = |error| self.error(operation, offset, length(len), error);
        let mut state = self.lock();
        state.rested = false;
        let whole = offset.next_multiple_of(PAGE as u64)..(offset + len) / PAGE as u64 * PAGE as u64;
        if whole.start < whole.end {
            let (lpn, count) = (whole.start / PAGE as u64, (whole.end - whole.start) / PAGE as u64);
            state.layer.trim(lpn as u32, count as u32).map_err(fail)?;
        }
        for (lpn, at, part) in pages(offset, length(len)).filter(|(_, _, part)| part.len() < PAGE) {
            if state.layer.map().lookup(lpn).is_some() {
                Self::write_part(&mut state, (lpn, at), &vec![0; part.len()]).map_err(fail)?;
            }
        }
        self.changed(state).map_err(fail)?;
        self.touch();
        Ok(())
    }
}

fn length(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// The pages that a range touches: the place within each, and the part of the range in it.
fn pages(offset: u64, len: usize) -> impl Iterator<Item = (u32, usize, Range<usize>)> {
    let (size, end) = (PAGE as u64, offset + len as u64);
    (offset / size..end.div_ceil(size)).map(move |page| {
        let start = offset.max(page * size);
        let stop = end.min((page + 1) * size);
        (page as u32, (start - page * size) as usize, (start - offset) as usize..(stop - offset) as usize)
    })
}

/// The part of a range that is whole pages.
fn whole_pages(offset: u64, len: usize) -> Range<usize> {
    let whole = pages(offset, len).filter(|(_, _, part)| part.len() == PAGE);
    let bounds = whole.fold(None, |all: Option<Range<usize>>, (_, _, part)| {
        Some(all.map_or(part.start, |all| all.start)..part.end)
    });
    bounds.unwrap_or(0..0)
}

impl Drop for FlashDrive {
    fn drop(&mut self) {
        // Best effort: what was flushed is there without it. The mark comes first, as it takes one
        // sync: a checkpoint that is cut short leaves what the mark says.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let layer = &mut state.layer;
        if layer.is_at_checkpoint() {
            return;
        }
        if layer.flush(0).and_then(|_| layer.mark()).is_ok() {
            let until = Instant::now() + CLOSING;
            // Without it the next start takes longer.
            let _ = layer.checkpoint_while(&mut || Instant::now() < until);
        }
    }
}

impl BlockDevice for FlashDrive {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.capacity
    }

    fn logical_block(&self) -> u32 {
        512
    }

    fn read_only(&self) -> bool {
        false
    }

    fn grains(&self) -> Grains {
        Grains { write: PAGE_BYTES, discard: PAGE_BYTES }
    }

    fn clears_at_once(&self) -> u64 {
        CLEARS
    }

    fn failing(&self) -> Option<String> {
        let failed = self.medium.failure().map(|why| format!("{}: {why}", self.device.name()));
        failed.or_else(|| self.device.failing())
    }

    fn disks(&self) -> BTreeSet<String> {
        self.device.disks()
    }

    fn background(&self) -> Option<&dyn Background> {
        Some(self)
    }

    fn used_bytes(&self) -> Option<u64> {
        // Not waited for.
        let mapped = self.state.try_lock().ok()?.layer.map().mapped();
        Some(u64::from(mapped) * PAGE as u64)
    }

    fn flash_counts(&self) -> Option<FlashCounts> {
        match self.state.try_lock() {
            Ok(mut state) => Some(self.show(&mut state)),
            Err(_) => Some(*self.counts.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.check(Operation::Read, offset, buf.len() as u64)?;
        self.touch();
        let all: Vec<_> = pages(offset, buf.len()).collect();
        for some in all.chunks(AT_ONCE) {
            let (Some((first, _, start)), Some((last, _, end))) = (some.first(), some.last()) else {
                continue;
            };
            let range = start.start..end.end;
            let lpns = *first..last + 1;
            if some.iter().all(|(_, _, part)| part.len() == PAGE) {
                self.read_pages(lpns, &mut buf[range])?;
            } else {
                let mut whole = AlignedBuffer::new(lpns.len() * PAGE);
                let skip = some[0].1;
                self.read_pages(lpns, &mut whole)?;
                let len = range.len();
                buf[range].copy_from_slice(&whole[skip..skip + len]);
            }
        }
        self.touch();
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.check(Operation::Write, offset, data.len() as u64)?;
        self.touch();
        let fail = |error| self.error(Operation::Write, offset, data.len(), error);
        // Without the lock, which is what writes wait for: the copy, the sums and the hashes.
        let whole = whole_pages(offset, data.len());
        let first = ((offset + whole.start as u64) / PAGE as u64) as u32;
        let copies = self.buffers.pages(&data[whole], PAGE, self.hashes, &self.sums);
        let mut state = self.lock();
        state.rested = false;
        state.layer.prefetch_run(first, &copies);
        let mut copies = copies.into_iter();
        for (lpn, at, part) in pages(offset, data.len()) {
            let page = if part.len() == PAGE { copies.next() } else { None };
            match page {
                Some(page) => state.layer.write(lpn, &page, 0).map(drop),
                None => Self::write_part(&mut state, (lpn, at), &data[part]),
            }
            .map_err(fail)?;
        }
        self.changed(state).map_err(fail)?;
        self.touch();
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.clear(Operation::Zero, offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.clear(Operation::Discard, offset, len)
    }

    fn flush(&self) -> Result<(), IoError> {
        self.make_durable().map_err(|error| self.error(Operation::Flush, 0, 0, error))
    }
}
