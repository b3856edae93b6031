//! Pages that garbage collection announces are read as one, and a cache that is wrong harms nobody.

use pumice_durable::Medium;
use pumice_flash::{Nand, Ppn};
use pumice_flashdrive::{FileNand, Layout};
use pumice_ftl::{Coded, Kind, Tag};
use std::cell::{Cell, RefCell};
use std::io;

const PAGE: usize = 512;

/// Bytes in memory; what is read from its cache may be wrong.
struct Bytes {
    bytes: RefCell<Vec<u8>>,
    reads: Cell<u32>,
    cached: Cell<Option<u8>>,
}

impl Medium for Bytes {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.reads.set(self.reads.get() + 1);
        buf.copy_from_slice(&self.bytes.borrow()[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn read_cached(&self, offset: u64, buf: &mut [u8]) -> bool {
        let Some(wrong) = self.cached.get() else { return false };
        buf.copy_from_slice(&self.bytes.borrow()[offset as usize..][..buf.len()]);
        buf.iter_mut().for_each(|byte| *byte ^= wrong);
        true
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.bytes.borrow_mut()[offset as usize..][..data.len()].copy_from_slice(data);
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
    let medium = Bytes { bytes, reads: Cell::new(0), cached: Cell::new(None) };
    let mut nand = Coded::new(FileNand::erased(medium, layout));
    for page in 0..32 {
        let (kind, seq) = (Kind::Lpn(page), u64::from(page) + 1);
        let tag = Tag { kind, lost: false, birth: seq, seq, durable: 0, tails: [0; 4] };
        nand.program(Ppn(page), 0, &vec![page as u8 + 1; PAGE].into(), &tag).unwrap();
    }
    nand
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
