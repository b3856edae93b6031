//! Groups of pages, as they are read from a tag file.

use crate::geometry::{GROUP_PAGES, Geometry, PAGE_BYTES};
use crate::page::{Found, Page};
use std::sync::Arc;

/// Pages that were read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its number: that of its first page, divided by [`GROUP_PAGES`].
    pub(crate) number: u64,
    /// Its pages; all unknown where they are fresh or lost.
    pub(crate) pages: Arc<[Page]>,
    /// The numbers of those that are lost.
    pub(crate) lost: Vec<u64>,
}

impl Group {
    /// A group of pages, in their order.
    ///
    /// # Errors
    /// The first error of a page.
    pub fn new<E>(number: u64, pages: impl Iterator<Item = Result<Found, E>>) -> Result<Self, E> {
        let mut group = Vec::new();
        let mut lost = Vec::new();
        for (page, found) in (number * GROUP_PAGES..).zip(pages) {
            let found = found?;
            if found == Found::Lost {
                lost.push(page);
            }
            group.push(found.page());
        }
        Ok(Self { number, pages: group.into(), lost })
    }

    /// A group of sectors, in their order.
    pub(crate) fn decode(
        geometry: &Geometry,
        identity: u64,
        number: u64,
        sectors: &[[u8; PAGE_BYTES]],
    ) -> Self {
        let mut lost = Vec::new();
        let first = number * GROUP_PAGES;
        let pages = Page::decode_all(geometry, sectors, identity, first, |page| lost.push(page)).collect();
        Self { number, pages, lost }
    }

    /// A group of pages that were never written.
    #[cfg(test)]
    pub(crate) fn fresh(number: u64) -> Self {
        let pages = (0..GROUP_PAGES).map(|_| Ok::<_, ()>(Found::Fresh));
        Self::new(number, pages).expect("pages without errors")
    }
}

/// Pages of a group that are to be written to their places.
#[derive(Debug, Clone)]
pub struct StoredGroup {
    /// The number of the group.
    pub(crate) number: u64,
    /// The pages of the group, as they were when this was made.
    pub(crate) pages: Arc<[Page]>,
    /// Those to be written.
    pub(crate) which: [bool; GROUP_PAGES as usize],
}

impl StoredGroup {
    /// The pages to be written, with their numbers.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (u64, &Page)> {
        let numbers = self.number * GROUP_PAGES..;
        let all = numbers.zip(self.pages.iter()).zip(self.which);
        all.filter(|(_, which)| *which).map(|(page, _)| page)
    }
}
