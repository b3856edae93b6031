//! Flash that holds bytes, seen as flash whose pages have tags.

use crate::chip::{BlockId, Geometry, Nand, NandError, Nanos, PageRead, Ppn};
use crate::ftl::content::Bytes;
use crate::ftl::sums::{DataSum, Sums};
use crate::ftl::tag::Tag;

/// A page as it lies in the flash.
type Raw<P> = PageRead<P, Vec<u8>>;
/// A tag, and the sum of the data that it says.
type Known = (Tag, Option<DataSum>);

/// Encodes tags into out-of-band bytes, and checks both checksums at each read.
#[derive(Debug)]
pub struct Coded<N> {
    inner: N,
    sums: Sums,
    /// The sum of the data that each page must have, by page; 0 if it is not known yet. Empty if
    /// they are not kept.
    known: Vec<u32>,
    /// The page that was read last, and the sum of its data.
    last: Option<(Ppn, u32)>,
}

impl<N> Coded<N> {
    /// A view of flash that holds bytes, whose pages are summed so.
    pub fn new(inner: N, sums: Sums) -> Self {
        Self { inner, sums, known: Vec::new(), last: None }
    }

    /// The sums of its pages.
    pub fn sums(&self) -> &Sums {
        &self.sums
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

    /// The sum that the data of a page must have, by [`Coded::sums`]; `None` if it is not known:
    /// the page is to be read with its tag.
    pub fn sum(&self, page: Ppn) -> Option<u32> {
        self.known.get(page.0 as usize).copied().filter(|sum| *sum != 0)
    }

    fn learn(&mut self, page: Ppn, sum: u32) {
        if let Some(known) = self.known.get_mut(page.0 as usize) {
            *known = sum;
        }
    }
}

impl<N: Nand> Coded<N> {
    /// A view that keeps the sums of pages which were programmed or checked: 4 bytes a page.
    pub fn with_sums(inner: N, sums: Sums) -> Self {
        let pages = inner.geometry().pages() as usize;
        Self { inner, sums, known: vec![0; pages], last: None }
    }
}

impl<N: Nand<Page: Bytes, Oob = Vec<u8>>> Coded<N> {
    /// A page, without its data if they do not have the sum that the tag says; and the tag, with
    /// that sum.
    fn read_once(&mut self, page: Ppn, after: Nanos) -> Result<(Raw<N::Page>, Option<Known>), NandError> {
        let mut read = self.inner.read(page, after)?;
        let tag = Tag::decode(&read.oob);
        if let Some((_, Some(expected))) = tag
            && let Some(data) = read.data.take()
        {
            let keyed = self.sums.are_keyed();
            // The sum by which later reads are checked: of a page of an earlier version another
            // one.
            let sum = data.sum(&self.sums);
            let fits = match expected.keyed {
                true => keyed && sum == expected.sum,
                false if keyed => crc32c::crc32c(data.as_ref()) == expected.sum,
                false => sum == expected.sum,
            };
            let mut data = data;
            data.know_sum(sum);
            read.data = fits.then_some(data);
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
        let (tag, expected) = tag.ok_or(NandError::Unreadable(page))?;
        let data = read.data;
        let sound = data.as_ref().filter(|_| !tag.lost && expected.is_some());
        self.last = sound.map(|data| (page, data.sum(&self.sums)));
        Ok(PageRead { data, oob: tag, done: read.done })
    }

    fn read_oob(&mut self, page: Ppn) -> Result<Tag, NandError> {
        let oob = self.inner.read_oob(page)?;
        Tag::decode(&oob).map(|(tag, _)| tag).ok_or(NandError::Unreadable(page))
    }

    fn program(&mut self, page: Ppn, after: Nanos, data: &N::Page, tag: &Tag) -> Result<Nanos, NandError> {
        let sum = data.sum(&self.sums);
        debug_assert_eq!(sum, self.sums.of(data.as_ref()), "the sum that is known");
        let of_data = DataSum { sum, keyed: self.sums.are_keyed() };
        let done = self.inner.program(page, after, data, &tag.encode(of_data))?;
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
        let of_data = DataSum { sum: data.sum(&self.sums), keyed: self.sums.are_keyed() };
        self.inner.draft(page, data, &tag.encode(of_data))
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.inner.erases(block)
    }

    fn prefetch_tags(&mut self, blocks: impl Iterator<Item = BlockId>) {
        self.inner.prefetch_tags(blocks);
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
