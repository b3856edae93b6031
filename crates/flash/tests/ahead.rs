//! Pages that garbage collection announces are read as one, and a cache that is wrong harms nobody.

use pumice_base::durable::Medium;
use pumice_flash::chip::{BlockId, Nand, Ppn};
use pumice_flash::device::{FileNand, Layout};
use pumice_flash::ftl::{Coded, Kind, Secret, Sums, Tag};
use std::cell::{Cell, RefCell};
use std::io;

const PAGE: usize = 512;

/// Bytes in memory; what is read from its cache may be wrong.
struct Bytes {
    bytes: RefCell<Vec<u8>>,
    reads: Cell<u32>,
    cached: Cell<Option<u8>>,
    /// Bytes from here on are not in the cache.
    cached_to: Cell<u64>,
    /// Offset and length of each write.
    writes: RefCell<Vec<(u64, usize)>>,
}

impl Medium for Bytes {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.reads.set(self.reads.get() + 1);
        buf.copy_from_slice(&self.bytes.borrow()[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn read_cached(&self, offset: u64, buf: &mut [u8]) -> bool {
        let Some(wrong) = self.cached.get() else { return false };
        if offset >= self.cached_to.get() {
            return false;
        }
        buf.copy_from_slice(&self.bytes.borrow()[offset as usize..][..buf.len()]);
        buf.iter_mut().for_each(|byte| *byte ^= wrong);
        true
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.bytes.borrow_mut()[offset as usize..][..data.len()].copy_from_slice(data);
        self.writes.borrow_mut().push((offset, data.len()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A closed block of pages that differ.
fn block() -> Coded<FileNand<Bytes>> {
    let layout = Layout::new(2, 32, PAGE as u32).unwrap();
    let bytes = RefCell::new(vec![0; layout.file_bytes() as usize]);
    let (reads, cached, cached_to) = (Cell::new(0), Cell::new(None), Cell::new(u64::MAX));
    let medium = Bytes { bytes, reads, cached, cached_to, writes: RefCell::default() };
    let mut nand = Coded::new(FileNand::erased(medium, layout), Sums::keyed(&Secret([1; 32]), PAGE as u32));
    (0..32).for_each(|page| program(&mut nand, page, page as u8 + 1));
    nand
}

fn program(nand: &mut Coded<FileNand<Bytes>>, page: u32, byte: u8) {
    let (kind, seq) = (Kind::Lpn(page), u64::from(page) + 1);
    let tag = Tag { kind, lost: false, birth: seq, seq, durable: 0, generation: 0, tails: [0; 4] };
    nand.program(Ppn(page), 0, &vec![byte; PAGE].into(), &tag).unwrap();
}

fn all_read(nand: &mut Coded<FileNand<Bytes>>, pages: &[u32]) -> u32 {
    let before = nand.inner().medium().reads.get();
    nand.prefetch(pages.iter().map(|page| Ppn(*page)));
    for page in pages {
        let read = nand.read(Ppn(*page), 0).unwrap();
        assert_eq!((read.data, read.oob.kind), (Some(vec![*page as u8 + 1; PAGE].into()), Kind::Lpn(*page)));
    }
    nand.inner().medium().reads.get() - before
}

#[test]
fn announced_pages_are_read_with_those_near_them() {
    let mut nand = block();
    assert_eq!(all_read(&mut nand, &[0, 3, 9, 31]), 3, "the footer, three near ones, the last");
    nand.inner().medium().cached.set(Some(0));
    assert_eq!(all_read(&mut nand, &[1, 2, 30]), 0);
}

#[test]
fn what_a_cache_holds_wrongly_is_read_from_the_medium() {
    let mut nand = block();
    nand.inner().medium().cached.set(Some(0x40));
    assert!(all_read(&mut nand, &[0, 3, 9, 31]) > 0);
}

#[test]
fn pages_that_the_cache_lacks_are_read_from_the_medium_and_the_others_are_not() {
    let mut nand = block();
    let layout = nand.inner().layout();
    let medium = nand.inner().medium();
    medium.cached.set(Some(0));
    medium.cached_to.set(layout.data_at(Ppn(10)));
    // The footer is behind the data.
    assert_eq!(all_read(&mut nand, &[0, 1, 8, 12, 14, 31]), 3, "the footer, two near ones, the last");
}

#[test]
fn what_was_read_of_a_block_is_forgotten_when_the_block_is_erased() {
    let mut nand = block();
    nand.prefetch((0..4).map(Ppn));
    nand.erase(BlockId(0), 0).unwrap();
    (0..32).for_each(|page| program(&mut nand, page, 99));
    let read = nand.read(Ppn(0), 0).unwrap();
    assert_eq!(read.data, Some(vec![99; PAGE].into()));
    // Of another block it stays.
    nand.prefetch((0..1).map(Ppn));
    let before = nand.inner().medium().reads.get();
    nand.erase(BlockId(1), 0).unwrap();
    nand.prefetch((0..1).map(Ppn));
    assert_eq!(nand.inner().medium().reads.get(), before);
}

#[test]
fn tags_are_handed_over_without_those_before_them() {
    let mut nand = block();
    nand.erase(BlockId(1), 0).unwrap();
    let footer = nand.inner().layout().footer_at(BlockId(1));
    let mut handed = |pages: std::ops::Range<u32>| {
        pages.clone().for_each(|page| program(&mut nand, 32 + page, 7));
        nand.inner().medium().writes.borrow_mut().clear();
        nand.hand_over().unwrap();
        let writes = nand.inner().medium().writes.take();
        writes.into_iter().map(|(at, len)| (at - footer, len)).collect::<Vec<_>>()
    };
    // The first one with the rest of its unit, so that the unit need not be read.
    assert_eq!(handed(0..1), [(0, 4096)]);
    assert_eq!(handed(1..2), [(128, 128)]);
    assert_eq!(handed(2..5), [(256, 384)]);
}
