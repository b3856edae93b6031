//! Operations that a flash translation layer needs of flash.

use crate::chip::{BlockId, Geometry, NandError, Nanos, Ppn};

/// A page that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRead<P, O> {
    /// Its data. `None` if they cannot be read but the out-of-band bytes can.
    pub data: Option<P>,
    /// Its out-of-band bytes.
    pub oob: O,
    /// Time at which the read was done.
    pub done: Nanos,
}

/// Flash.
///
/// An operation is durable after the next [`Nand::sync`] that succeeds. If the power is cut before,
/// each page that was programmed or erased since the last sync may hold its old content, its new
/// content, or neither, whatever happened to its neighbours. Plain NAND is stricter; a file that
/// stands for flash is not.
pub trait Nand {
    /// The data of a page.
    type Page;
    /// The out-of-band bytes of a page, or what they mean.
    type Oob;

    /// The shape of the device.
    fn geometry(&self) -> Geometry;

    /// Reads a page, not before the time `after`.
    ///
    /// # Errors
    /// If the page is erased, or neither its data nor its out-of-band bytes can be read.
    fn read(&mut self, page: Ppn, after: Nanos) -> Result<PageRead<Self::Page, Self::Oob>, NandError>;

    /// Reads the out-of-band bytes of a page.
    ///
    /// # Errors
    /// If the page is erased or they cannot be read.
    fn read_oob(&mut self, page: Ppn) -> Result<Self::Oob, NandError>;

    /// Programs a page, not before the time `after`, and says when it was done.
    ///
    /// # Errors
    /// If the page fails, or it is not the next page of its block.
    fn program(
        &mut self,
        page: Ppn,
        after: Nanos,
        data: &Self::Page,
        oob: &Self::Oob,
    ) -> Result<Nanos, NandError>;

    /// Erases a block, not before the time `after`, and says when it was done.
    ///
    /// # Errors
    /// If the block fails.
    fn erase(&mut self, block: BlockId, after: Nanos) -> Result<Nanos, NandError>;

    /// Makes all operations so far durable.
    ///
    /// # Errors
    /// If the power is cut.
    fn sync(&mut self) -> Result<(), NandError>;

    /// Makes what was programmed outlive the process that holds the flash. A power cut may undo it
    /// until the next sync. If the pages do not depend on a process, there is nothing to do.
    ///
    /// # Errors
    /// If the flash fails.
    fn hand_over(&mut self) -> Result<(), NandError> {
        Ok(())
    }

    /// Does the same for a page that is not programmed yet, but is the next one of its block. The
    /// caller drafts it again, or programs it before the next sync, perhaps with other data; until
    /// then it counts as erased. If the process ends meanwhile, its data may be a mix of the old
    /// and the new, and its out-of-band bytes may be either: the caller must be able to read both
    /// out of that.
    ///
    /// # Errors
    /// If the flash fails, or the page is not the next one.
    fn draft(&mut self, _page: Ppn, _data: &Self::Page, _oob: &Self::Oob) -> Result<(), NandError> {
        Ok(())
    }

    /// Number of erases of a block.
    fn erases(&self, block: BlockId) -> u32;

    /// The page that was read last holds what it should, by its tag: later reads of it need not
    /// look at the tag again.
    fn vouch(&mut self, _page: Ppn) {}

    /// The tags of these blocks are about to be read. It changes nothing but how long that takes.
    /// Tags that were read ahead before are forgotten.
    fn prefetch_tags(&mut self, _blocks: impl Iterator<Item = BlockId>) {}

    /// These pages of a closed block are about to be read, in this order. It changes nothing but
    /// how long that takes. Pages that were read ahead before are forgotten.
    fn prefetch(&mut self, _pages: impl Iterator<Item = Ppn>) {}
}

impl<N: Nand> Nand for &mut N {
    type Page = N::Page;
    type Oob = N::Oob;

    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }

    fn read(&mut self, page: Ppn, after: Nanos) -> Result<PageRead<N::Page, N::Oob>, NandError> {
        (**self).read(page, after)
    }

    fn read_oob(&mut self, page: Ppn) -> Result<N::Oob, NandError> {
        (**self).read_oob(page)
    }

    fn program(&mut self, page: Ppn, after: Nanos, data: &N::Page, oob: &N::Oob) -> Result<Nanos, NandError> {
        (**self).program(page, after, data, oob)
    }

    fn erase(&mut self, block: BlockId, after: Nanos) -> Result<Nanos, NandError> {
        (**self).erase(block, after)
    }

    fn sync(&mut self) -> Result<(), NandError> {
        (**self).sync()
    }

    fn hand_over(&mut self) -> Result<(), NandError> {
        (**self).hand_over()
    }

    fn draft(&mut self, page: Ppn, data: &N::Page, oob: &N::Oob) -> Result<(), NandError> {
        (**self).draft(page, data, oob)
    }

    fn erases(&self, block: BlockId) -> u32 {
        (**self).erases(block)
    }

    fn vouch(&mut self, page: Ppn) {
        (**self).vouch(page);
    }

    fn prefetch_tags(&mut self, blocks: impl Iterator<Item = BlockId>) {
        (**self).prefetch_tags(blocks);
    }

    fn prefetch(&mut self, pages: impl Iterator<Item = Ppn>) {
        (**self).prefetch(pages);
    }
}
