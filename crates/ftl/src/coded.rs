//! Flash that holds bytes, seen as flash whose pages have tags.

use crate::tag::Tag;
use pumice_flash::{BlockId, Geometry, Nand, NandError, Nanos, PageRead, Ppn};

/// Encodes tags into out-of-band bytes, and checks both checksums at each read.
#[derive(Debug)]
pub struct Coded<N> {
    inner: N,
}

impl<N> Coded<N> {
    /// A view of flash that holds bytes.
    pub fn new(inner: N) -> Self {
        Self { inner }
    }

    /// The flash itself.
    pub fn inner_mut(&mut self) -> &mut N {
        &mut self.inner
    }
}

impl<N: Nand<Page = Vec<u8>, Oob = Vec<u8>>> Nand for Coded<N> {
    type Page = Vec<u8>;
    type Oob = Tag;

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&mut self, page: Ppn, after: Nanos) -> Result<PageRead<Vec<u8>, Tag>, NandError> {
        let read = self.inner.read(page, after)?;
        let (tag, crc) = Tag::decode(&read.oob).ok_or(NandError::Unreadable(page))?;
        let data = read.data.filter(|data| crc32c::crc32c(data) == crc);
        Ok(PageRead { data, oob: tag, done: read.done })
    }

    fn read_oob(&mut self, page: Ppn) -> Result<Tag, NandError> {
        let oob = self.inner.read_oob(page)?;
        Tag::decode(&oob).map(|(tag, _)| tag).ok_or(NandError::Unreadable(page))
    }

    fn program(&mut self, page: Ppn, after: Nanos, data: &Vec<u8>, tag: &Tag) -> Result<Nanos, NandError> {
        self.inner.program(page, after, data, &tag.encode(crc32c::crc32c(data)))
    }

    fn erase(&mut self, block: BlockId, after: Nanos) -> Result<Nanos, NandError> {
        self.inner.erase(block, after)
    }

    fn sync(&mut self) -> Result<(), NandError> {
        self.inner.sync()
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.inner.erases(block)
    }
}
