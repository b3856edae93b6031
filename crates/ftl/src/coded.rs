//! Flash that holds bytes, seen as flash whose pages have tags.

use crate::content::Bytes;
use crate::tag::Tag;
use pumice_flash::{BlockId, Geometry, Nand, NandError, Nanos, PageRead, Ppn};

/// A page as it lies in the flash.
type Raw<P> = PageRead<P, Vec<u8>>;
/// A tag, and the sum of the data that it says.
type Known = (Tag, Option<u32>);

/// Encodes tags into out-of-band bytes, and checks both checksums at each read.
#[derive(Debug)]
pub struct Coded<N> {
    inner: N,
    /// The sum of the data that each page must have, by page; 0 if it is not known yet. Empty if
    /// sums are not kept.
    sums: Vec<u32>,
    /// The page that was read last, and the sum of its data.
    last: Option<(Ppn, u32)>,
}

impl<N> Coded<N> {
    /// A view of flash that holds bytes.
    pub fn new(inner: N) -> Self {
        Self { inner, sums: Vec::new(), last: None }
    }

    /// The flash itself.
    pub fn inner(&self) -> &N {
        &self.inner
    }

    /// The flash itself.
    pub fn inner_mut(&mut self) -> &mut N {
        &mut self.inner
    }

    /// The flash alone.
    pub fn into_inner(self) -> N {
        self.inner
    }

    /// The CRC-32C that the data of a page must have; `None` if it is not known: the page is to be
    /// read with its tag.
    pub fn sum(&self, page: Ppn) -> Option<u32> {
        self.sums.get(page.0 as usize).copied().filter(|sum| *sum != 0)
    }

    fn learn(&mut self, page: Ppn, sum: u32) {
        if let Some(known) = self.sums.get_mut(page.0 as usize) {
            *known = sum;
        }
    }
}

impl<N: Nand> Coded<N> {
    /// A view that keeps the sums of pages which were programmed or checked: 4 bytes a page.
    pub fn with_sums(inner: N) -> Self {
        let pages = inner.geometry().pages() as usize;
        Self { inner, sums: vec![0; pages], last: None }
    }
}

impl<N: Nand<Page: Bytes, Oob = Vec<u8>>> Coded<N> {
    /// A page, without its data if they do not have the sum that the tag says; and the tag, with
    /// that sum.
    fn read_once(&mut self, page: Ppn, after: Nanos) -> Result<(Raw<N::Page>, Option<Known>), NandError> {
        let mut read = self.inner.read(page, after)?;
        let tag = Tag::decode(&read.oob);
        let sum = tag.as_ref().and_then(|(_, sum)| *sum);
        let fits = |data: &N::Page| sum.is_none_or(|sum| data.sum() == sum);
        read.data = read.data.filter(fits);
        if let (Some(data), Some(sum)) = (&mut read.data, sum) {
            data.know_sum(sum);
        }
        Ok((read, tag))
    }
}

impl<N: Nand<Page: Bytes, Oob = Vec<u8>>> Nand for Coded<N> {
    type Page = N::Page;
    type Oob = Tag;

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&mut self, page: Ppn, after: Nanos) -> Result<PageRead<N::Page, Tag>, NandError> {
        let (mut read, mut tag) = self.read_once(page, after)?;
        if tag.is_none() || read.data.is_none() {
            // What was read ahead, or comes from a cache, may be wrong: garbage collection gives up
            // for good what it cannot read.
            self.inner.prefetch(std::iter::empty());
            (read, tag) = self.read_once(page, after)?;
        }
        let (tag, crc) = tag.ok_or(NandError::Unreadable(page))?;
        let data = read.data;
        self.last = data.as_ref().filter(|_| !tag.lost).and(crc).map(|crc| (page, crc));
        Ok(PageRead { data, oob: tag, done: read.done })
    }

    fn read_oob(&mut self, page: Ppn) -> Result<Tag, NandError> {
        let oob = self.inner.read_oob(page)?;
        Tag::decode(&oob).map(|(tag, _)| tag).ok_or(NandError::Unreadable(page))
    }

    fn program(&mut self, page: Ppn, after: Nanos, data: &N::Page, tag: &Tag) -> Result<Nanos, NandError> {
        let sum = data.sum();
        debug_assert_eq!(sum, crc32c::crc32c(data.as_ref()), "the sum that is known");
        let done = self.inner.program(page, after, data, &tag.encode(sum))?;
        self.learn(page, if tag.lost { 0 } else { sum });
        Ok(done)
    }

    fn erase(&mut self, block: BlockId, after: Nanos) -> Result<Nanos, NandError> {
        let geometry = self.inner.geometry();
        for index in 0..geometry.pages_per_block {
            self.learn(geometry.page(block, index), 0);
        }
        self.inner.erase(block, after)
    }

    fn sync(&mut self) -> Result<(), NandError> {
        self.inner.sync()
    }

    fn hand_over(&mut self) -> Result<(), NandError> {
        self.inner.hand_over()
    }

    fn draft(&mut self, page: Ppn, data: &N::Page, tag: &Tag) -> Result<(), NandError> {
        self.inner.draft(page, data, &tag.encode(data.sum()))
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.inner.erases(block)
    }

    fn prefetch(&mut self, pages: impl Iterator<Item = Ppn>) {
        self.inner.prefetch(pages);
    }

    fn vouch(&mut self, page: Ppn) {
        if let Some((_, sum)) = self.last.filter(|(last, _)| *last == page) {
            self.learn(page, sum);
        }
    }
}
