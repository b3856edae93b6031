//! Pages that are read before they are asked for. Whoever collects garbage reads a victim with few
//! long reads, and without the lock of the drive.

use crate::chip::{BlockId, Ppn};
use crate::device::layout::{Layout, OOB_BYTES};
use crate::device::page::{Buffers, LONGEST, Page};
use crate::ftl::Sums;
use pumice_base::buffer::AlignedBuffer;
use pumice_base::durable::{Held, Medium};

const OOB: usize = OOB_BYTES as usize;
/// Bytes that are read from the medium as one, at most.
const AT_ONCE: usize = 1 << 20;
/// Pages from one that is wanted to the next, so that both are read as one: to read those between
/// them costs less than a read of its own.
const GAP: u32 = 16;

/// The tags of a closed block and the data of some of its pages. They stay as they are until the
/// block is erased.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) block: BlockId,
    footer: Vec<u8>,
    /// Pages in order; without data if those could not be read so.
    pages: Vec<(u32, Option<Page>)>,
}

impl Ahead {
    /// Reads pages of a block, in this order, and sums them if it is said how. None if its tags
    /// cannot be read as a whole.
    pub(crate) fn read<M: Medium>(
        medium: &M,
        layout: Layout,
        pages: &[Ppn],
        buffers: &Buffers,
        sums: Option<&Sums>,
    ) -> Option<Self> {
        let block = layout.geometry().block_of(*pages.first()?);
        let mut footer = vec![0; layout.footer_bytes()];
        read(medium, layout.footer_at(block), &mut footer).then_some(())?;
        let mut found = Vec::with_capacity(pages.len());
        for some in pages.chunks((LONGEST / layout.page_bytes()).max(1)) {
            let (all, lost) = side_by_side(medium, layout, some, buffers);
            for (n, page) in some.iter().enumerate() {
                let bytes = n * layout.page_bytes()..(n + 1) * layout.page_bytes();
                let data = (!lost.contains(page)).then(|| Page::of(all.part(bytes), sums));
                found.push((page.0, data));
            }
        }
        Some(Self { block, footer, pages: found })
    }

    fn at(&self, page: Ppn) -> Option<&(u32, Option<Page>)> {
        let at = self.pages.binary_search_by_key(&page.0, |(page, _)| *page).ok()?;
        self.pages.get(at)
    }

    /// Returns whether these pages were all asked for.
    pub(crate) fn covers(&self, pages: &[Ppn]) -> bool {
        pages.iter().all(|page| self.at(*page).is_some())
    }

    /// The data of a page, if it was asked for and could be read.
    pub(crate) fn data(&self, page: Ppn) -> Option<Page> {
        self.at(page)?.1.clone()
    }

    /// The out-of-band bytes of a page of the block, by its number in it.
    pub(crate) fn oob(&self, index: u32) -> Option<&[u8]> {
        self.footer.get(index as usize * OOB..(index as usize + 1) * OOB)
    }
}

fn read<M: Medium>(medium: &M, at: u64, into: &mut [u8]) -> bool {
    medium.read_cached(at, into) || medium.read_at(at, into).is_ok()
}

/// The data of pages side by side in this order, and those that could not be read so. Each is
/// copied to where it is written from.
fn side_by_side<M: Medium>(medium: &M, layout: Layout, pages: &[Ppn], buffers: &Buffers) -> (Held, Vec<Ppn>) {
    let size = layout.page_bytes();
    let mut lost = Vec::new();
    let all = buffers.filled(pages.len() * size, |into| {
        let (mut left, mut missing) = (into, Vec::new());
        for run in pages.chunk_by(|page, next| page.0 + 1 == next.0) {
            let (now, rest) = left.split_at_mut(run.len() * size);
            left = rest;
            if !medium.read_cached(layout.data_at(run[0]), now) {
                missing.extend(run.iter().copied().zip(now.chunks_exact_mut(size)));
            }
        }
        lost = from_medium(medium, layout, missing);
    });
    (all, lost)
}

/// Reads pages from the medium, those that are near each other as one; those that it could not read
/// so.
fn from_medium<M: Medium>(medium: &M, layout: Layout, mut pages: Vec<(Ppn, &mut [u8])>) -> Vec<Ppn> {
    let size = layout.page_bytes();
    let within = (AT_ONCE / size).max(1) as u32;
    let (mut lost, mut between) = (Vec::new(), None::<AlignedBuffer>);
    let mut left = &mut pages[..];
    while let Some(first) = left.first().map(|(page, _)| page.0) {
        let near =
            |pair: &&[(Ppn, &mut [u8])]| pair[1].0.0 - pair[0].0.0 <= GAP && pair[1].0.0 - first < within;
        let run = 1 + left.windows(2).take_while(near).count();
        let (some, rest) = left.split_at_mut(run);
        left = rest;
        let len = (some[run - 1].0.0 - first + 1) as usize * size;
        let kept = between.take().filter(|old| old.len() >= len);
        let buffer = between.insert(kept.unwrap_or_else(|| AlignedBuffer::new(len)));
        // What cannot be read as one is read page by page, when it is asked for.
        if medium.read_at(layout.data_at(Ppn(first)), &mut buffer[..len]).is_err() {
            lost.extend(some.iter().map(|(page, _)| *page));
            continue;
        }
        for (page, into) in some {
            into.copy_from_slice(&buffer[(page.0 - first) as usize * size..][..size]);
        }
    }
    lost
}
