//! Flash on which each page alone may lose what was not synced, or all it held: what a cut hid does
//! not come back, and what is lost takes nothing else along.

use pumice_flash::chip::{BlockId, Geometry, Nand, NandError, Nanos, PageRead, Ppn};
use pumice_flash::ftl::{Coded, Config, Ftl, FtlError, Journal, NandJournal, Scheme, Secret, Sums, recover};

const PAGE: u32 = 256;

fn sums() -> Sums {
    Sums::keyed(&Secret([5; 32]), PAGE)
}

const LOGICAL: u32 = 60;
const PER_BLOCK: u32 = 32;

type Slot = Option<(Vec<u8>, Vec<u8>)>;

/// Flash whose pages are what they were at the last sync, and what they are now.
#[derive(Debug, Clone)]
struct Loose {
    geometry: Geometry,
    synced: Vec<Slot>,
    now: Vec<Slot>,
}

impl Loose {
    fn new(geometry: Geometry) -> Self {
        let slots = vec![None; geometry.pages() as usize];
        Self { geometry, synced: slots.clone(), now: slots }
    }

    /// Cuts the power: of what was not synced, these pages alone are kept.
    fn cut(&mut self, kept: impl Fn(Ppn) -> bool) {
        for (page, (now, synced)) in (0..).map(Ppn).zip(self.now.iter_mut().zip(&mut self.synced)) {
            if kept(page) { synced.clone_from(now) } else { now.clone_from(synced) }
        }
    }

    /// A page, or its tag alone, reads as if it had been erased.
    fn forget(&mut self, page: Ppn) {
        (self.now[page.0 as usize], self.synced[page.0 as usize]) = (None, None);
    }

    /// A bit of a page's tag turns.
    fn rot_tag(&mut self, page: Ppn) {
        let (now, synced) = (&mut self.now[page.0 as usize], &mut self.synced[page.0 as usize]);
        now.as_mut().expect("it holds something").1[20] ^= 4;
        synced.clone_from(now);
    }
}

impl Nand for Loose {
    type Page = Vec<u8>;
    type Oob = Vec<u8>;

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&mut self, page: Ppn, after: Nanos) -> Result<PageRead<Vec<u8>, Vec<u8>>, NandError> {
        let (data, oob) = self.now[page.0 as usize].clone().ok_or(NandError::Erased(page))?;
        Ok(PageRead { data: Some(data), oob, done: after })
    }

    fn read_oob(&mut self, page: Ppn) -> Result<Vec<u8>, NandError> {
        Ok(self.read(page, 0)?.oob)
    }

    fn program(
        &mut self,
        page: Ppn,
        after: Nanos,
        data: &Vec<u8>,
        oob: &Vec<u8>,
    ) -> Result<Nanos, NandError> {
        assert!(self.now[page.0 as usize].is_none(), "page {page} is programmed twice");
        self.now[page.0 as usize] = Some((data.clone(), oob.clone()));
        Ok(after)
    }

    fn erase(&mut self, block: BlockId, after: Nanos) -> Result<Nanos, NandError> {
        let first = self.geometry.page(block, 0).0 as usize;
        self.now[first..first + PER_BLOCK as usize].fill(None);
        Ok(after)
    }

    fn sync(&mut self) -> Result<(), NandError> {
        self.synced.clone_from(&self.now);
        Ok(())
    }

    fn erases(&self, _: BlockId) -> u32 {
        0
    }
}

type Drive = Ftl<Coded<Loose>, NandJournal, Vec<u8>>;

const CONFIG: fn() -> Config = || Config::new(LOGICAL, Scheme::None);

fn drive() -> Drive {
    let shape = |blocks| Geometry {
        blocks,
        pages_per_block: PER_BLOCK,
        channels: 1,
        page_bytes: PAGE,
        oob_bytes: 128,
    };
    let reserved = |blocks| Journal::<Coded<Loose>>::reserved(&NandJournal::new(shape(blocks), LOGICAL));
    let blocks = (14..).find(|&blocks| blocks >= reserved(blocks) + 14).expect("some number fits");
    let nand = Coded::new(Loose::new(shape(blocks)), sums());
    let mut drive = Ftl::format(nand, NandJournal::new(shape(blocks), LOGICAL), CONFIG()).unwrap();
    (0..LOGICAL).for_each(|lpn| write(&mut drive, lpn, 0));
    drive.flush(0).unwrap();
    drive
}

fn content(lpn: u32, version: u32) -> Vec<u8> {
    [lpn.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE as usize / 8)
}

fn write(drive: &mut Drive, lpn: u32, version: u32) {
    drive.write(lpn, &content(lpn, version), 0).unwrap();
}

fn read(drive: &mut Drive, lpn: u32) -> Result<Vec<u8>, FtlError> {
    drive.read(lpn, 0).map(|(content, _)| content.expect("it was written"))
}

fn place(drive: &Drive, lpn: u32) -> Ppn {
    drive.map().lookup(lpn).expect("it was written")
}

/// Overwrites pages until the next one is the last of its block.
fn fill_block(drive: &mut Drive, lpns: std::ops::Range<u32>) -> BlockId {
    let geometry = drive.nand().geometry();
    for n in 1.. {
        let lpn = lpns.start + n % (lpns.end - lpns.start);
        write(drive, lpn, n);
        let page = place(drive, lpn);
        if geometry.index_of(page) == PER_BLOCK - 2 {
            return geometry.block_of(page);
        }
    }
    unreachable!("a block is full one day")
}

/// A page in the middle of a block outlives a cut, and what was before it in the block does not. It
/// was not flushed, so an old version may stand; but then it must stay away.
#[test]
fn what_a_cut_hid_does_not_come_back() {
    let mut drive = drive();
    let geometry = drive.nand().geometry();
    // All blocks were used once; those that are free were not erased.
    for round in 0..20 {
        (0..40).for_each(|lpn| write(&mut drive, lpn, round));
    }
    drive.checkpoint().unwrap();
    fill_block(&mut drive, 0..40);
    write(&mut drive, 39, 1);
    let block = fill_block(&mut drive, 0..40);
    write(&mut drive, 50, 1);
    let stray = place(&drive, 50);
    assert_eq!((geometry.block_of(stray), geometry.index_of(stray)), (block, PER_BLOCK - 1));

    let mut nand = drive.into_nand();
    nand.inner_mut().cut(|page| page == stray);
    // More blocks are erased at a time now.
    let config = Config { erase_at_once: 64, ..CONFIG() };
    drive = recover(nand, config, false).unwrap();
    let before = read(&mut drive, 50).unwrap();
    assert!([content(50, 0), content(50, 1)].contains(&before));
    write(&mut drive, 50, 2);
    // The block is erased one day, and the power goes before that is durable.
    let mut rounds = 0..200;
    while drive.nand().inner().now[stray.0 as usize].is_some() {
        assert!(rounds.next().is_some(), "the block is never erased");
        drive.flush(0).unwrap();
        write(&mut drive, 1, 1);
    }
    let mut nand = drive.into_nand();
    nand.inner_mut().cut(|page| page != stray);
    drive = recover(nand, config, false).unwrap();
    assert_eq!(read(&mut drive, 50).unwrap(), content(50, 2), "a version that was not flushed is back");
}

/// Logical page 50 is overwritten, and the page that it had holds another one now. Then the tag of
/// its new page is lost.
fn overwritten() -> (Drive, Ppn, u32) {
    let mut drive = drive();
    drive.checkpoint().unwrap();
    let old = place(&drive, 50);
    // Its new page lies in another block.
    fill_block(&mut drive, 0..40);
    write(&mut drive, 39, 1);
    write(&mut drive, 50, 1);
    drive.flush(0).unwrap();
    for n in 0..4_000 {
        let lpn = n % 50;
        write(&mut drive, lpn, n);
        if n % 10 == 0 {
            (51..LOGICAL).for_each(|lpn| write(&mut drive, lpn, n));
            drive.flush(0).unwrap();
        }
        if let Some(other) = (0..LOGICAL).find(|lpn| place(&drive, *lpn) == old) {
            drive.flush(0).unwrap();
            // Tags say so.
            write(&mut drive, 59, n);
            drive.flush(0).unwrap();
            let new = place(&drive, 50);
            return (drive, new, other);
        }
    }
    panic!("the old page was never used again");
}

#[test]
fn a_page_that_lost_its_tag_takes_no_other_one_along() {
    for forget in [false, true] {
        let (mut drive, new, other) = overwritten();
        let good = read(&mut drive, other).unwrap();
        let mut nand = drive.into_nand();
        if forget {
            nand.inner_mut().forget(new);
        } else {
            nand.inner_mut().rot_tag(new);
        }
        let refused = recover(Coded::new(nand.inner().clone(), sums()), CONFIG(), false).err();
        assert_eq!(refused, Some(FtlError::TagLost(new)));
        let mut drive = recover(nand, CONFIG(), true).unwrap();
        assert_eq!(drive.contradictions(), Vec::<String>::new());
        for round in 0..2 {
            assert_eq!(read(&mut drive, other).unwrap(), good, "a good page is lost");
            let lost = read(&mut drive, 50);
            assert!(
                matches!(lost, Err(FtlError::Damaged { lpn: 50, .. } | FtlError::Misplaced { lpn: 50, .. })),
                "{lost:?}"
            );
            if round == 0 {
                // Garbage collection moves both.
                (0..2_000).for_each(|n| write(&mut drive, n % 10 + 51 - 10 * (n % 2), n));
                drive.flush(0).unwrap();
                if other >= 41 {
                    break;
                }
            }
        }
        write(&mut drive, 50, 7);
        assert_eq!(read(&mut drive, 50).unwrap(), content(50, 7));
    }
}

/// A tag that reads as if its page were erased is damage, if a page after it in its block is
/// durable.
#[test]
fn a_durable_page_that_reads_as_erased_is_damage() {
    let mut drive = drive();
    let geometry = drive.nand().geometry();
    drive.checkpoint().unwrap();
    write(&mut drive, 5, 1);
    write(&mut drive, 6, 1);
    drive.flush(0).unwrap();
    write(&mut drive, 7, 1);
    let (first, second) = (place(&drive, 5), place(&drive, 6));
    assert_eq!(geometry.block_of(first), geometry.block_of(second));
    drive.flush(0).unwrap();
    let mut nand = drive.into_nand();
    nand.inner_mut().forget(first);
    assert_eq!(recover(nand, CONFIG(), false).err(), Some(FtlError::TagLost(first)));
}

/// The contents of a page, in the medium.
fn slot(drive: &Drive, page: Ppn) -> Slot {
    drive.nand().inner().now[page.0 as usize].clone()
}

/// A page shows what it held before the last erase of its block: its last write was lost.
fn show_again(nand: &mut Coded<Loose>, page: Ppn, old: &Slot) {
    let nand = nand.inner_mut();
    (nand.now[page.0 as usize], nand.synced[page.0 as usize]) = (old.clone(), old.clone());
}

/// Writes until a page that held logical page 50 holds it again, after an erase. Gives what it held
/// first.
fn at_the_same_page(drive: &mut Drive) -> (Ppn, Slot) {
    let mut held = std::collections::BTreeMap::new();
    for n in 0..60_000 {
        (0..1 + n % 7).for_each(|lpn| write(drive, lpn, n));
        write(drive, 50, n);
        drive.flush(0).unwrap();
        let page = place(drive, 50);
        if let Some(old) = held.insert(page, slot(drive, page)) {
            return (page, old);
        }
    }
    panic!("no page held it twice");
}

#[test]
fn what_a_page_held_before_its_block_was_erased_is_not_read_for_what_it_holds_now() {
    let mut drive = drive();
    let (page, old) = at_the_same_page(&mut drive);
    // In this life, in the next one, and when the page is from before a checkpoint.
    show_again(drive.nand_mut(), page, &old);
    for life in 0..3 {
        let lost = read(&mut drive, 50);
        assert!(
            matches!(lost, Err(FtlError::Damaged { lpn: 50, .. } | FtlError::Misplaced { lpn: 50, .. })),
            "life {life}: {lost:?}"
        );
        drive.checkpoint().unwrap();
        drive = recover(drive.into_nand(), CONFIG(), false).unwrap();
    }
}

#[test]
fn an_old_tag_in_place_of_a_durable_one_is_a_lost_tag() {
    for (erased_ahead, in_order) in [(false, false), (false, true), (true, false)] {
        let mut drive = drive();
        let geometry = drive.nand().geometry();
        // What each page holds, and held before.
        for n in 0..200 {
            (0..40).for_each(|lpn| write(&mut drive, lpn, n));
            drive.flush(0).unwrap();
        }
        let before: Vec<Slot> = drive.nand().inner().now.clone();
        // Blocks that are erased are taken first.
        let config = Config { erase_at_once: if erased_ahead { 64 } else { 1 }, ..CONFIG() };
        drive = recover(drive.into_nand(), config, false).unwrap();
        // A block is begun, or is erased; then comes a checkpoint.
        for n in 200.. {
            (0..3).for_each(|lpn| write(&mut drive, lpn, n));
            let at = geometry.index_of(place(&drive, 2));
            let wanted = if erased_ahead { at == PER_BLOCK - 1 } else { (5..9).contains(&at) };
            let next = Ppn(place(&drive, 2).0 + 1);
            if wanted && (erased_ahead || before[next.0 as usize].is_some()) {
                break;
            }
        }
        drive.flush(0).unwrap();
        if erased_ahead {
            while drive.erase_ahead(0).unwrap() {}
        }
        drive.checkpoint().unwrap();
        write(&mut drive, 50, 1);
        write(&mut drive, 51, 1);
        drive.flush(0).unwrap();
        drive.mark().unwrap();
        let page = place(&drive, 50);
        let mut old = before[page.0 as usize].clone();
        assert!(old.is_some(), "its block was in use before");
        if in_order {
            // As drives of earlier versions wrote it, without a generation.
            let oob = &mut old.as_mut().unwrap().1;
            oob[6..8].fill(0);
            let sum = crc32c::crc32c(&oob[..60]);
            oob[60..64].copy_from_slice(&sum.to_le_bytes());
        }
        let mut nand = drive.into_nand();
        show_again(&mut nand, page, &old);
        let refused = recover(nand, config, false).err();
        assert_eq!(refused, Some(FtlError::TagLost(page)), "{erased_ahead} {in_order}");
    }
}
